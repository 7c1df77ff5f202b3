//! Where a database is, and how to connect to it.

use super::tls;
use crate::{Error, Result};
use postgres::Config;
use postgres::config::{Host, SslMode};
use std::fmt;
use std::path::PathBuf;
use tokio_postgres_rustls::MakeRustlsConnect;

/// What is written instead of what cannot be read: it may contain a password.
pub(crate) const HOW: &str = "write, without quotes, postgres://USER@HOST/DATABASE?sslrootcert=FILE, or host=/run/postgresql dbname=DATABASE, or the path of a file from / on. A password is in PGPASSWORD, or after the user: USER:PASSWORD@HOST";

/// A database of PostgreSQL, with what is needed to connect to it.
#[derive(Clone)]
pub(crate) struct Address {
    config: Config,
    /// The authorities that may vouch for the database; `None` for a socket, or without TLS.
    roots: Option<PathBuf>,
    uses_tls: bool,
    /// As it was written, with the password if there is one.
    written: String,
}

impl Address {
    /// Reads a URL or a list of `key=value`. `password` is for where the text has none.
    ///
    /// # Errors
    /// [`Error::Location`], which never repeats the text.
    pub(crate) fn parse(text: &str, password: Option<String>) -> Result<Self> {
        let (rest, roots) = without_roots(text);
        let mut config: Config = rest.parse().map_err(|_| Error::Location(HOW.to_owned()))?;
        if config.get_dbname().is_none() || config.get_hosts().is_empty() {
            return Err(Error::Location(format!("it names no host or no database: {HOW}")));
        }
        if let Some(password) = password.filter(|_| config.get_password().is_none()) {
            config.password(password);
        }
        let uses_tls = uses_tls(&config);
        if uses_tls {
            config.ssl_mode(SslMode::Require);
            if roots.is_none() {
                return Err(Error::Location(
                    "it is on the network, and nothing says whom to trust there: add sslrootcert=FILE (PEM, the authority of its certificate), or sslmode=disable if the network is safe".to_owned(),
                ));
            }
        }
        Ok(Self { config, roots: roots.map(PathBuf::from), uses_tls, written: text.to_owned() })
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Who connects; where nobody is written, a user with the name of that of the system.
    pub(super) fn user(&self) -> &str {
        self.config.get_user().unwrap_or("USER")
    }

    pub(super) fn database(&self) -> &str {
        self.config.get_dbname().unwrap_or_default()
    }

    /// How to encrypt the connection; `None` where it needs or wants no encryption.
    pub(super) fn tls(&self) -> Result<Option<MakeRustlsConnect>> {
        match &self.roots {
            Some(roots) if self.uses_tls => tls::connector(roots).map(Some),
            _ => Ok(None),
        }
    }

    /// As it was written: with the password, if there is one.
    pub(crate) fn written(&self) -> &str {
        &self.written
    }
}

/// What is not a socket is on the network. Whoever says `disable` knows the network.
fn uses_tls(config: &Config) -> bool {
    let on_network = config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(_)));
    on_network && config.get_ssl_mode() != SslMode::Disable
}

/// Takes out the words that only we read: the certificates to trust, and the verification that is always on.
fn without_roots(text: &str) -> (String, Option<String>) {
    let is_url = text.contains("://");
    let (head, words, between) = match text.split_once('?') {
        Some((head, words)) if is_url => (format!("{head}?"), words.split('&').collect(), "&"),
        None if is_url => return (text.to_owned(), None),
        _ => (String::new(), text.split_whitespace().collect::<Vec<_>>(), " "),
    };
    let roots = words.iter().find_map(|word| word.strip_prefix("sslrootcert="));
    let verified = ["sslmode=verify-full", "sslmode=verify-ca"];
    let is_ours = |word: &&&str| word.starts_with("sslrootcert=") || verified.contains(*word);
    let rest: Vec<&str> = words.iter().filter(|word| !is_ours(word)).copied().collect();
    let rest = if roots.is_none() && rest.len() == words.len() {
        text.to_owned() // values with spaces stay as they are
    } else {
        format!("{head}{}", rest.join(between))
    };
    (rest, roots.map(str::to_owned))
}

/// Without the password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, .. } = self;
        for (at, host) in config.get_hosts().iter().enumerate() {
            let before = if at == 0 { "host=" } else { "," };
            match host {
                Host::Tcp(name) => write!(f, "{before}{name}")?,
                Host::Unix(path) => write!(f, "{before}{}", path.display())?,
            }
        }
        for port in config.get_ports() {
            write!(f, " port={port}")?;
        }
        if let Some(user) = config.get_user() {
            write!(f, " user={user}")?;
        }
        write!(f, " dbname={}", config.get_dbname().unwrap_or_default())
    }
}

/// Without the password, too: a location may stand in what is logged.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Address> {
        Address::parse(text, None)
    }

    #[test]
    fn no_password_is_ever_shown() {
        let written = [
            "postgres://me:s3cret@h/db?sslmode=disable",
            "host=/run/p user=me password=s3cret dbname=db",
        ];
        for text in written {
            let address = parse(text).unwrap();
            assert_eq!(address.config.get_password(), Some(&b"s3cret"[..]), "{text}");
            let shown = format!("{address} {address:?}");
            assert!(!shown.contains("s3cret") && shown.contains("user=me dbname=db"), "{shown}");
        }
        for text in
            ["host=h dbname=d password=s3 cret=1", "postgres://me:s3cret@h:x/db", "host='s3cret"]
        {
            let why = parse(text).unwrap_err().to_string();
            assert!(
                !why.contains("s3") && !why.contains("cret=") && why.contains("write"),
                "{why}"
            );
        }
    }

    #[test]
    fn a_database_on_the_network_is_verified_or_knowingly_not() {
        let roots = "postgres://h/db?sslmode=verify-full&sslrootcert=/etc/root.pem";
        let address = parse(roots).unwrap();
        assert_eq!(address.roots, Some("/etc/root.pem".into()));
        assert_eq!(address.config.get_ssl_mode(), SslMode::Require);
        assert!(address.tls().is_err(), "a file that is not there is not ignored");
        let list = parse("host=h dbname=db sslrootcert=/etc/root.pem").unwrap();
        assert!(list.uses_tls && list.roots.is_some());
        for text in ["postgres://h/db", "host=h dbname=db sslmode=prefer"] {
            assert!(parse(text).unwrap_err().to_string().contains("sslrootcert"), "{text}");
        }
        assert!(!parse("postgres://h/db?sslmode=disable").unwrap().uses_tls);
        assert!(!parse("host=/run/postgresql dbname=db").unwrap().uses_tls);
    }

    #[test]
    fn a_password_of_the_environment_is_used_where_none_is_written() {
        let socket = "host=/run/p dbname=db";
        let password = |text: &str| {
            let address = Address::parse(text, Some("given".into())).unwrap();
            address.config.get_password().map(<[u8]>::to_vec)
        };
        assert_eq!(password(socket).as_deref(), Some(&b"given"[..]));
        let written = format!("{socket} password=own");
        assert_eq!(password(&written).as_deref(), Some(&b"own"[..]));
    }
}
