//! Credentials that a command gives, as the profiles of other programs name it (`credential_process`): it is run again
//! before they end.

use crate::errors::of_credentials;
use crate::valid::check_keys;
use jiff::{Span, Timestamp};
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use serde::{Deserialize, Deserializer};
use std::io::Read;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// So long it may take.
const TIME_MAX: Duration = Duration::from_secs(60);
/// More than it may say: it has to fit into a pipe that nobody reads until it has ended.
const SAYS_MAX: u64 = 64 << 10;
/// So long before the end of credentials it is asked for others: longer than a request with its repeats.
const BEFORE_END: i64 = 15;

/// What it says.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Said {
    version: u32,
    pub(crate) access_key_id: String,
    pub(crate) secret_access_key: String,
    #[serde(default)]
    pub(crate) session_token: Option<String>,
    /// When they end; never, if it does not say it.
    #[serde(default, deserialize_with = "time")]
    pub(crate) expiration: Option<Timestamp>,
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text: Option<String> = Option::deserialize(deserializer)?;
    text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
}

impl Said {
    pub(crate) fn new(
        access_key_id: String,
        secret_access_key: String,
        session_token: Option<String>,
        expiration: Option<Timestamp>,
    ) -> Self {
        Self { version: 1, access_key_id, secret_access_key, session_token, expiration }
    }
}

/// Runs `command` in a shell.
pub(crate) fn run(command: &str) -> Result<Said, String> {
    let wrong = |why: String| format!("credential_process: {why}");
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = shell.spawn().map_err(|error| wrong(error.to_string()))?;
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| wrong(error.to_string()))? {
            Some(status) => break status,
            None if begun.elapsed() < TIME_MAX => std::thread::sleep(Duration::from_millis(20)),
            None => {
                let _ = child.kill(); // it may have ended just now
                let _ = child.wait();
                return Err(wrong(format!("it did not end within {} s", TIME_MAX.as_secs())));
            }
        }
    };
    if !status.success() {
        return Err(wrong(format!("it ended with {status}")));
    }
    let mut text = String::new();
    let read = child.stdout.take().map(|said| said.take(SAYS_MAX).read_to_string(&mut text));
    read.transpose().map_err(|error| wrong(error.to_string()))?;
    parsed(&text).map_err(wrong)
}

/// What it said is not repeated in the error: there could be a secret in it.
fn parsed(text: &str) -> Result<Said, String> {
    let said: Said = serde_json::from_str(text).map_err(|_| {
        "it did not print an object of JSON with Version, AccessKeyId and SecretAccessKey"
            .to_owned()
    })?;
    match said.version {
        1 => Ok(said),
        other => Err(format!("its output is of version {other}, not 1")),
    }
}

/// Gives the credentials of a command for each request.
pub(crate) struct Renewed {
    command: String,
    known: Mutex<Said>,
}

impl std::fmt::Debug for Renewed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Renewed").finish_non_exhaustive()
    }
}

impl Renewed {
    /// It said `known` just now.
    pub(crate) fn new(command: &str, known: Said) -> Self {
        Self { command: command.to_owned(), known: Mutex::new(known) }
    }

    async fn get(&self) -> object_store::Result<Arc<AwsCredential>> {
        let mut known = self.known.lock().await;
        if is_ending(&known, Timestamp::now()) {
            let command = self.command.clone();
            let said = tokio::task::spawn_blocking(move || run(&command)).await;
            let said = said.map_err(|error| error.to_string()).flatten();
            let is_good = |said: &Said| {
                let token = said.session_token.as_deref();
                check_keys(&said.access_key_id, &said.secret_access_key, token)
            };
            let said = said.and_then(|said| is_good(&said).map(|()| said));
            *known = said.map_err(of_credentials)?;
        }
        Ok(Arc::new(AwsCredential {
            key_id: known.access_key_id.clone(),
            secret_key: known.secret_access_key.clone(),
            token: known.session_token.clone(),
        }))
    }
}

fn is_ending(known: &Said, now: Timestamp) -> bool {
    let soon = now.saturating_add(Span::new().minutes(BEFORE_END)).unwrap_or(Timestamp::MAX);
    known.expiration.is_some_and(|end| end <= soon)
}

type Got<'a> = Pin<Box<dyn Future<Output = object_store::Result<Arc<AwsCredential>>> + Send + 'a>>;

impl CredentialProvider for Renewed {
    type Credential = AwsCredential;

    fn get_credential<'a, 'b>(&'a self) -> Got<'b>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(self.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(key: &str, more: &str) -> String {
        format!(r#"echo '{{"Version": 1, "AccessKeyId": "{key}", "SecretAccessKey": "s"{more}}}'"#)
    }

    #[test]
    fn what_a_command_says_wrong_is_told_and_not_repeated() {
        let said =
            run(&says("k", r#", "SessionToken": "t", "Expiration": "2030-01-01T00:00:00Z""#));
        let said = said.unwrap();
        assert_eq!((&*said.access_key_id, said.session_token.as_deref()), ("k", Some("t")));
        assert_eq!(said.expiration.unwrap().as_second(), 1_893_456_000);
        let wrong = [
            ("exit 3", "exit status: 3"),
            ("echo hush", "AccessKeyId"),
            (&says("hush", r#", "Expiration": "soon""#), "AccessKeyId"),
            ("yes hush | head -c 1000000 >&2; true", "AccessKeyId"),
            (
                r#"echo '{"Version": 2, "AccessKeyId": "hush", "SecretAccessKey": "hush"}'"#,
                "version 2",
            ),
        ];
        for (command, why) in wrong {
            let error = run(command).unwrap_err();
            assert!(error.contains(why) && !error.contains("hush"), "{command}: {error}");
        }
    }

    #[test]
    fn credentials_are_renewed_before_they_end() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let key = |renewed: &Renewed| runtime.block_on(renewed.get()).map(|got| got.key_id.clone());
        let known = |end: Option<i64>| {
            let mut said = run(&says("old", "")).unwrap();
            said.expiration = end.map(|secs| Timestamp::from_second(secs).unwrap());
            said
        };
        let now = Timestamp::now().as_second();
        let command = says("new", "");
        for (end, expected) in [(None, "old"), (Some(now + 3600), "old"), (Some(now + 60), "new")] {
            let renewed = Renewed::new(&command, known(end));
            assert_eq!(key(&renewed).unwrap(), expected, "{end:?}");
            assert_eq!(key(&renewed).unwrap(), expected, "and again");
        }
        let error = key(&Renewed::new("exit 1", known(Some(now)))).unwrap_err().to_string();
        assert!(error.contains("credential_process"), "{error}");
    }
}
