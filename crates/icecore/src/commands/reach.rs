//! The connection to a server: its URL and secrets from options, and what its errors mean here.

use crate::codes::Code;
use crate::failure::{Failure, Result};
use access::{Admin, Client, Error, blocking};
use clap::builder::{OsStringValueParser, TypedValueParser};
use serde::Serialize;
use serde::de::DeserializeOwned;
use server_contract::access_control::Refusal;
use std::path::{Path, PathBuf};

/// Where a server keeps its files, when nobody says.
pub(crate) const DATA_DEFAULT: &str = "/var/lib/icecore/server";

/// How an administrator reaches the server.
#[derive(clap::Args, Debug, Clone)]
#[command(next_help_heading = "Server connection")]
pub(crate) struct Reach {
    /// Directory of the server's files, on the machine of the server.
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "ICECORE_DATA",
        hide_env_values = true,
        value_parser = OsStringValueParser::new().map(PathBuf::from)
    )]
    data: Option<PathBuf>,
    /// URL of the server, if this is another machine. Set ICECORE_ADMIN_TOKEN to the admin token.
    #[arg(long, global = true, value_name = "URL", requires = "ca")]
    server: Option<String>,
    /// Copy of the server's file ca/ca.pem, if this is another machine.
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl Reach {
    /// The server whose files lie in `folder`, on its own machine.
    pub(crate) fn on(folder: &Path) -> Self {
        Self { data: Some(folder.to_owned()), server: None, ca: None }
    }

    /// The folder of the server's files.
    pub(crate) fn data(&self) -> PathBuf {
        let given = self.data.clone().filter(|path| !path.as_os_str().is_empty());
        given.unwrap_or_else(|| PathBuf::from(DATA_DEFAULT))
    }

    fn client(&self) -> Result<Client> {
        let data = self.server.is_none().then(|| self.data());
        let admin = Admin { data, server: self.server.clone(), ca: self.ca.clone() };
        admin.client().map_err(|error| match error {
            Error::File { path, source } => Failure::file(&path, &source).hint(
                "Give the server's directory with --data DIR. To start the server: icecore server",
            ),
            other => other.into(),
        })
    }

    /// What stands at `path` of the API.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        Ok(blocking::wait(self.client()?.get(path))?)
    }

    /// Follows the stream at `path` of the API until it ends, or `with` wants no more.
    pub(crate) fn follow(&self, path: &str, mut with: impl FnMut(&[u8]) -> bool) -> Result<()> {
        Ok(blocking::wait(self.client()?.follow(path, |part| with(&part)))?)
    }

    /// Sends `body` to `path` of the API.
    pub(crate) fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        Ok(blocking::wait(self.client()?.post(path, body))?)
    }

    /// Puts `body` at `path` of the API.
    pub(crate) fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        Ok(blocking::wait(self.client()?.put(path, body))?)
    }

    /// Removes what stands at `path` of the API.
    pub(crate) fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        Ok(blocking::wait(self.client()?.delete(path))?)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (message, hint) = (error.to_string(), error.hint());
        let mut failure = match &error {
            Error::File { path, source } => Self::file(path, source),
            Error::Url(_) | Error::NotGiven(_) | Error::Token(_) => Self::usage(message),
            Error::Unreachable { .. } | Error::TimedOut { .. } | Error::Connection { .. } => {
                Self::new(Code::Unreachable, message)
            }
            Error::Stranger { .. } | Error::OtherName { .. } | Error::Expired { .. } => {
                Self::new(Code::NotAllowed, message)
            }
            Error::Server(reported) => {
                Self::new(code(api::Code::of_number(reported.code)), message)
            }
            _ => Self::new(Code::Failed, message),
        };
        failure.hint = hint;
        if let Error::Server(reported) = error
            && reported.mistakes.len() > 1
        {
            failure.mistakes = reported.mistakes;
            failure.hint = None;
        }
        failure
    }
}

fn code(reported: api::Code) -> Code {
    match reported {
        api::Code::Failed => Code::Failed,
        api::Code::Usage => Code::Usage,
        api::Code::InUse => Code::InUse,
        api::Code::NotAllowed => Code::NotAllowed,
        api::Code::NoSpace => Code::NoSpace,
        api::Code::Unreachable => Code::Unreachable,
    }
}

impl From<server_contract::Error> for Failure {
    fn from(error: server_contract::Error) -> Self {
        use server_contract::Error::*;
        match error {
            File { path, source } => Self::file(&path, &source),
            InUse { .. } => Self::new(Code::InUse, error.to_string())
                .hint("Only one server can use a directory. Stop the other one first."),
            Pool { ref path, ref why, ref data } => {
                let hint = hint_of_pool(path, why, data);
                Self::new(Code::Unreachable, error.to_string()).hint(hint)
            }
            FirstPool { .. } => Self::usage(error.to_string()).hint(
                "Nothing was changed. Name the right pool with --pool, or leave out --pool. To add a further pool to a running server: icecore server pool add NAME PLACE",
            ),
            NoRandom => Self::new(Code::Failed, error.to_string()),
        }
    }
}

/// What helps where a pool of the server in `data` cannot be used. Only one that is there can be accepted.
fn hint_of_pool(path: &Path, why: &str, data: &Path) -> String {
    let accept = crate::failure::quoted(&data.display().to_string());
    let accept = format!("icecore pool accept {accept}");
    let is_first = path == data.join("pool");
    let is_linked = path.symlink_metadata().is_ok();
    if why.contains("another server has taken it over") {
        format!(
            "A server that uses it now would lose it. If none does, as after older files of this one were restored: {accept}"
        )
    } else if is_first && !is_linked {
        "If it lies elsewhere, name that place: icecore server --pool PLACE. If it lay in this directory, bring it back first".to_owned()
    } else if is_first && !path.is_dir() {
        "Mount its file system, then start again.".to_owned()
    } else {
        format!("Mount its file system, then start again. If this is the right pool: {accept}")
    }
}

/// How to find the database that is meant.
const CATALOG_SHOW: &str = "To see where the catalog lies: icecore server catalog show";

impl From<catalog::Error> for Failure {
    fn from(error: catalog::Error) -> Self {
        use catalog::Error::*;
        let message = error.to_string();
        match error {
            Serving { .. } => Self::new(Code::InUse, message)
                .hint("Only one server can use a catalog. Stop the other one first."),
            Location(_) => Self::usage(message),
            Absent { .. } => Self::new(Code::Unreachable, message),
            _ if error.is_full() => Self::new(Code::NoSpace, message).hint(format!(
                "Make room on the file system of the server's data directory, or on that of its database. {CATALOG_SHOW}"
            )),
            _ if error.is_denied() => Self::new(Code::NotAllowed, message).hint(CATALOG_SHOW),
            _ if error.passes() => Self::new(Code::Unreachable, message)
                .hint(format!("Check that the database runs and can be reached from here. {CATALOG_SHOW}")),
            _ => Self::new(Code::Failed, message),
        }
    }
}

impl From<server_control::Error> for Failure {
    fn from(error: server_control::Error) -> Self {
        use server_control::Error::*;
        match error {
            System(error) => error.into(),
            Repository(error) => error.into(),
            Catalog(error) => error.into(),
            Usage(_) | OnStorageServer { .. } => Self::usage(error.to_string()),
            Unfit { message, hint } => Self::usage(message).hint(hint),
            Refused(Refusal { message, hint, .. }) => Self {
                hint: Some(hint).filter(|hint| !hint.is_empty()),
                ..Self::new(Code::NotAllowed, message)
            },
            _ => Self::new(Code::Failed, error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_the_api_are_those_of_commands() {
        for number in 0..=u8::MAX {
            let reported = api::Code::of_number(number);
            let own = code(reported);
            assert_eq!((own.number(), own.name()), (reported.number(), reported.name()));
        }
    }

    #[test]
    fn a_refusal_keeps_its_hint_and_gets_none_where_it_has_none() {
        for (hint, shown) in [("Do that.", Some("Do that.")), ("", None)] {
            let failure = Failure::from(server_control::Error::from(Refusal::new("no", hint)));
            assert_eq!((failure.code, failure.hint.as_deref()), (Code::NotAllowed, shown));
        }
    }

    #[test]
    fn who_cannot_reach_the_server_is_told_what_to_do() {
        let source = std::io::ErrorKind::ConnectionRefused.into();
        let failure = Failure::from(Error::Unreachable { server: "a:1".into(), source });
        assert_eq!(failure.code, Code::Unreachable);
        assert!(failure.hint.is_some());
    }
}
