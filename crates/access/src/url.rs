//! Addresses of servers.

use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Default port.
pub const PORT_DEFAULT: u16 = 8477;

/// Address of a server: `https://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Host name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl FromStr for Url {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::Url(text.chars().take(200).collect());
        let place = text.trim().strip_prefix("https://").unwrap_or(text.trim());
        let place = place.strip_suffix('/').unwrap_or(place);
        let (host, port) = split(place).ok_or_else(bad)?;
        let port = port.map_or(Ok(PORT_DEFAULT), |port| port.parse().map_err(|_| bad()))?;
        // What can be verified against a certificate is a name or an address, and nothing else.
        let good = rustls_pki_types::ServerName::try_from(host).is_ok();
        if good { Ok(Self { host: host.to_owned(), port }) } else { Err(bad()) }
    }
}

/// Host and port; an address of IPv6 stands in brackets when a port follows.
fn split(place: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = place.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        return if rest.is_empty() {
            Some((host, None))
        } else {
            Some((host, Some(rest.strip_prefix(':')?)))
        };
    }
    match place.split_once(':') {
        Some((_, rest)) if rest.contains(':') => Some((place, None)),
        Some((host, port)) => Some((host, Some(port))),
        None => Some((place, None)),
    }
}

impl Url {
    /// As a header shows it: host and port.
    pub fn place(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}", self.place())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        let table = [
            ("https://backup.example.com:9000", "https://backup.example.com:9000"),
            ("backup", "https://backup:8477"),
            ("https://192.0.2.1/", "https://192.0.2.1:8477"),
            ("https://[::1]:1", "https://[::1]:1"),
            ("::1", "https://[::1]:8477"),
            ("[::1]", "https://[::1]:8477"),
        ];
        for (text, shown) in table {
            assert_eq!(text.parse::<Url>().unwrap().to_string(), shown, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in
            ["", "http://a", "https://", "a:b", "a:99999", "a b", "user@host", "a/b", "[::1"]
        {
            assert!(text.parse::<Url>().is_err(), "{text}");
        }
    }
}
