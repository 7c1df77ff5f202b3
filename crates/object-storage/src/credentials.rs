//! Who we are to the object storage, and where it is: from the environment that other programs use, too, and from the
//! shared credentials file.

use crate::credential_process::{self, Renewed, Said};
use jiff::Timestamp;
use std::fmt;
use std::path::PathBuf;

const REGION: &str = "us-east-1";

/// Credentials and endpoint.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Name of the key.
    pub access_key: String,
    /// The key; never shown.
    pub secret_key: String,
    /// Of credentials that end.
    pub session_token: Option<String>,
    /// `us-east-1` unless something is said.
    pub region: String,
    /// Address of the storage, unless it is AWS.
    pub endpoint: Option<String>,
    /// The command that gave them, which gives others before they end.
    pub process: Option<Process>,
}

/// A command that gives credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Process {
    command: String,
    /// When those end that it gave.
    expires: Option<Timestamp>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Credentials {
    /// From the variables that `variable` knows, else from the credentials file.
    ///
    /// # Errors
    /// What is missing, and what to set.
    pub fn find(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let endpoint = set("AWS_ENDPOINT_URL_S3").or_else(|| set("AWS_ENDPOINT_URL"));
        let region = set("AWS_REGION").or_else(|| set("AWS_DEFAULT_REGION"));
        let profile = set("AWS_PROFILE").unwrap_or_else(|| "default".into());
        let given = match (set("AWS_ACCESS_KEY_ID"), set("AWS_SECRET_ACCESS_KEY")) {
            (Some(access_key), Some(secret_key)) => Given {
                access_key,
                secret_key,
                session_token: set("AWS_SESSION_TOKEN"),
                ..Given::default()
            },
            (Some(_), None) => return Err("AWS_SECRET_ACCESS_KEY is not set".into()),
            (None, Some(_)) => return Err("AWS_ACCESS_KEY_ID is not set".into()),
            (None, None) => from_files(&set, &profile)?,
        };
        let Given { access_key, secret_key, session_token, region: of_file, process } = given;
        let region = region.or(of_file).unwrap_or_else(|| REGION.into());
        Ok(Self { access_key, secret_key, session_token, region, endpoint, process })
    }

    /// Who gives others before these end.
    pub(crate) fn renewed(&self) -> Option<Renewed> {
        let Process { command, expires } = self.process.as_ref()?;
        let (key, secret) = (self.access_key.clone(), self.secret_key.clone());
        let known = Said::new(key, secret, self.session_token.clone(), *expires);
        Some(Renewed::new(command, known))
    }
}

/// What a place says.
#[derive(Default)]
struct Given {
    access_key: String,
    secret_key: String,
    session_token: Option<String>,
    region: Option<String>,
    process: Option<Process>,
}

/// A variable of this process. A unit of the system has no HOME: then what the list of users says.
pub(crate) fn variable(name: &str) -> Option<String> {
    let home = || std::env::home_dir()?.into_os_string().into_string().ok();
    let variable = std::env::var(name).ok();
    if name == "HOME" { variable.or_else(home) } else { variable }
}

/// Keys of the credentials file come first, then the command of either file.
fn from_files(set: &impl Fn(&str) -> Option<String>, profile: &str) -> Result<Given, String> {
    let home = |name: &str| Some(PathBuf::from(set("HOME")?).join(".aws").join(name));
    let path = |variable: &str, name: &str| set(variable).map(PathBuf::from).or_else(|| home(name));
    let none = "no credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set";
    let Some(path_of_keys) = path("AWS_SHARED_CREDENTIALS_FILE", "credentials") else {
        return Err(none.to_owned());
    };
    let keys = std::fs::read_to_string(&path_of_keys);
    let of_keys = |name: &str| value(keys.as_ref().ok()?, &format!("[{profile}]"), name);
    if let (Some(access_key), Some(secret_key)) =
        (of_keys("aws_access_key_id"), of_keys("aws_secret_access_key"))
    {
        let (session_token, region) = (of_keys("aws_session_token"), of_keys("region"));
        return Ok(Given { access_key, secret_key, session_token, region, process: None });
    }
    let config =
        path("AWS_CONFIG_FILE", "config").and_then(|path| std::fs::read_to_string(path).ok());
    let header =
        if profile == "default" { "[default]".into() } else { format!("[profile {profile}]") };
    let of_config = |name: &str| value(config.as_deref()?, &header, name);
    let known = |name: &str| of_keys(name).or_else(|| of_config(name));
    if let Some(command) = known("credential_process") {
        return of_process(command, known("region"));
    }
    let path = path_of_keys.display();
    Err(match &keys {
        Err(error) => format!("{none}, and {path}: {error}"),
        Ok(_) => format!("{none}, and {path} has no profile [{profile}] with both"),
    })
}

fn of_process(command: String, region: Option<String>) -> Result<Given, String> {
    let said = credential_process::run(&command)?;
    Ok(Given {
        access_key: said.access_key_id,
        secret_key: said.secret_access_key,
        session_token: said.session_token,
        region,
        process: Some(Process { command, expires: said.expiration }),
    })
}

/// The value of `name` in the section with this header.
fn value(text: &str, header: &str, name: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim);
    lines.by_ref().find(|line| *line == header)?;
    let pairs =
        lines.take_while(|line| !line.starts_with('[')).filter_map(|line| line.split_once('='));
    let mut found = pairs.filter(|(key, _)| key.trim() == name);
    found.next().map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(variables: &[(&str, &str)]) -> Result<Credentials, String> {
        Credentials::find(|name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_usual_variables_count_and_those_of_s3_alone_come_first() {
        let both = [("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s")];
        let plain = find(&both).unwrap();
        assert_eq!((&*plain.access_key, &*plain.region, plain.endpoint), ("k", REGION, None));
        let more = [("AWS_ENDPOINT_URL", "a"), ("AWS_ENDPOINT_URL_S3", "b"), ("AWS_REGION", "r")];
        let all = find(&[&both[..], &more].concat()).unwrap();
        assert_eq!((all.endpoint.as_deref(), &*all.region), (Some("b"), "r"));
    }

    #[test]
    fn the_credentials_file_serves_where_no_variable_is_set() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials");
        let text = "[default]\naws_access_key_id = a\naws_secret_access_key=b\n[other]\naws_access_key_id=c\n\
                    aws_secret_access_key = d\nregion = e\n";
        std::fs::write(&path, text).unwrap();
        let file = ("AWS_SHARED_CREDENTIALS_FILE", path.to_str().unwrap());
        assert_eq!(find(&[file]).unwrap().secret_key, "b");
        let other = find(&[file, ("AWS_PROFILE", "other")]).unwrap();
        assert_eq!((&*other.secret_key, &*other.region), ("d", "e"));
        assert!(find(&[file, ("AWS_PROFILE", "none")]).unwrap_err().contains("[none]"));
    }

    #[test]
    fn a_command_of_the_profile_gives_credentials_where_no_keys_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let command = r#"echo '{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b", "Expiration": "2030-01-01T00:00:00Z"}'"#;
        let text = format!("[profile work]\nregion = r\ncredential_process = {command}\n");
        std::fs::write(path("config"), text).unwrap();
        let (keys, config) = (path("credentials"), path("config"));
        let variables = [
            ("AWS_SHARED_CREDENTIALS_FILE", &*keys),
            ("AWS_CONFIG_FILE", &config),
            ("AWS_PROFILE", "work"),
        ];
        let found = find(&variables).unwrap();
        assert_eq!((&*found.access_key, &*found.region), ("a", "r"));
        assert!(found.renewed().is_some() && found.process.unwrap().expires.is_some());
        assert!(find(&variables[..2]).unwrap_err().contains("no credentials"), "another profile");
        std::fs::write(&keys, "[work]\naws_access_key_id = c\naws_secret_access_key = d\n")
            .unwrap();
        let written = find(&variables).unwrap();
        assert!(written.access_key == "c" && written.renewed().is_none(), "keys come first");
        std::fs::write(&keys, "[work]\ncredential_process = exit 4\n").unwrap();
        assert!(find(&variables).unwrap_err().contains("exit status: 4"));
    }

    #[test]
    fn what_is_missing_is_named_and_the_secret_is_not_shown() {
        assert!(find(&[("AWS_ACCESS_KEY_ID", "k")]).unwrap_err().contains("AWS_SECRET_ACCESS_KEY"));
        assert!(find(&[]).unwrap_err().contains("AWS_ACCESS_KEY_ID"));
        let all = find(&[("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "hush")]).unwrap();
        assert!(!format!("{all:?}").contains("hush"));
    }
}
