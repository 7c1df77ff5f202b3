//! Who we are to the object storage, and where it is: from the environment that other programs use, too, and from the
//! shared credentials file.

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
        let (access_key, secret_key, session_token, of_file) =
            match (set("AWS_ACCESS_KEY_ID"), set("AWS_SECRET_ACCESS_KEY")) {
                (Some(key), Some(secret)) => (key, secret, set("AWS_SESSION_TOKEN"), None),
                (Some(_), None) => return Err("AWS_SECRET_ACCESS_KEY is not set".into()),
                (None, Some(_)) => return Err("AWS_ACCESS_KEY_ID is not set".into()),
                (None, None) => from_file(&set, &profile)?,
            };
        let region = region.or(of_file).unwrap_or_else(|| REGION.into());
        Ok(Self { access_key, secret_key, session_token, region, endpoint })
    }
}

type Found = (String, String, Option<String>, Option<String>);

fn from_file(set: &impl Fn(&str) -> Option<String>, profile: &str) -> Result<Found, String> {
    let home = || Some(PathBuf::from(set("HOME")?).join(".aws/credentials"));
    let path = set("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from).or_else(home);
    let none = "no credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set";
    let path = path.ok_or_else(|| none.to_owned())?;
    let text = std::fs::read_to_string(&path)
        .map_err(|error| format!("{none}, and {}: {error}", path.display()))?;
    let value = |name: &str| value(&text, profile, name);
    match (value("aws_access_key_id"), value("aws_secret_access_key")) {
        (Some(key), Some(secret)) => Ok((key, secret, value("aws_session_token"), value("region"))),
        _ => Err(format!("{none}, and {} has no profile [{profile}] with both", path.display())),
    }
}

/// The value of `name` in the section `profile`.
fn value(text: &str, profile: &str, name: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim);
    let header = format!("[{profile}]");
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
    fn what_is_missing_is_named_and_the_secret_is_not_shown() {
        assert!(find(&[("AWS_ACCESS_KEY_ID", "k")]).unwrap_err().contains("AWS_SECRET_ACCESS_KEY"));
        assert!(find(&[]).unwrap_err().contains("AWS_ACCESS_KEY_ID"));
        let all = find(&[("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "hush")]).unwrap();
        assert!(!format!("{all:?}").contains("hush"));
    }
}
