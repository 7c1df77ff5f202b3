//! How an administrator reaches a server.

use crate::files::read;
use crate::{Client, Error, Result, Url};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Environment variable with the administrator's token.
pub const TOKEN_VARIABLE: &str = "ICECORE_ADMIN_TOKEN";

/// Where the server is, for its administrator.
#[derive(Clone, Debug, Default)]
pub struct Admin {
    /// The server's folder, on its own machine.
    pub data: Option<PathBuf>,
    /// The server's address, from another machine.
    pub server: Option<String>,
    /// File with the CA certificate, on another machine.
    pub ca: Option<PathBuf>,
}

impl Admin {
    /// A client of its API.
    ///
    /// # Errors
    /// [`Error::File`] and [`Error::Damaged`] when the folder does not belong to a server that has run.
    pub fn client(&self) -> Result<Client> {
        let server = self.address()?;
        let place = self.ca.clone().or_else(|| self.in_data("ca/ca.pem"));
        let ca = text(&place.ok_or(Error::NotGiven("--ca FILE, a copy of ca/ca.pem"))?)?;
        let tls = pki::client::client_config(&ca, None, pki::ALPN_HTTP)?;
        Ok(Client::new(server, Arc::new(tls)).with_token(self.token()?))
    }

    /// The given address; otherwise the second line of `address`, which is for this machine.
    fn address(&self) -> Result<Url> {
        if let Some(server) = &self.server {
            return server.parse();
        }
        let path = self.in_data("address").ok_or(Error::NotGiven("--data DIR or --server URL"))?;
        let text = text(&path)?;
        let line = text.lines().nth(1).or(text.lines().next()).unwrap_or_default();
        line.parse()
    }

    fn token(&self) -> Result<Zeroizing<String>> {
        let given = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
        if let Some(token) = given {
            return Ok(Zeroizing::new(token));
        }
        let path = self.in_data("admin-token").ok_or(Error::NotGiven(TOKEN_VARIABLE))?;
        Ok(Zeroizing::new(text(&path)?.trim().to_owned()))
    }

    fn in_data(&self, name: &str) -> Option<PathBuf> {
        self.data.as_ref().map(|data| data.join(name))
    }
}

fn text(path: &Path) -> Result<Zeroizing<String>> {
    let missing = || std::io::Error::from(rustix::io::Errno::NOENT);
    read(path)?.ok_or_else(|| crate::files::file(path)(missing()))
}
