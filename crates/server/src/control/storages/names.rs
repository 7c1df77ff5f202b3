//! Under which names a storage server may serve: none of the server's own, none of another storage server. Who has a
//! certificate for a name can play whoever is called by it.

use crate::control::{Control, Error, Result};
use api::Name;
use rustls::pki_types::ServerName;
use std::net::IpAddr;

/// Names of one storage server.
const NAMES_MAX: usize = 16;

impl Control {
    /// The names as they come into the certificate of `storage`.
    pub(super) fn checked_names(&self, storage: &Name, names: &[String]) -> Result<Vec<String>> {
        if names.is_empty() || names.len() > NAMES_MAX {
            return Err(Error::Usage(format!("a storage server has 1 to {NAMES_MAX} names")));
        }
        let names: Vec<String> = names.iter().map(|name| plain(name)).collect::<Result<_>>()?;
        for name in names.iter().filter(|name| !is_loopback(name)) {
            if let Some(owner) = self.owner_of(storage, name)? {
                let text = format!("'{name}' is a name of {owner}: a storage server needs its own");
                return Err(Error::Usage(text));
            }
        }
        Ok(names)
    }

    /// Who is called by `name` already.
    fn owner_of(&self, storage: &Name, name: &str) -> Result<Option<String>> {
        let own = self.names.read().clone();
        let hosts = own.hosts.iter().filter_map(|host| plain(host).ok());
        let addresses = own.addresses.iter().map(|address| address.to_canonical().to_string());
        if hosts.chain(addresses).any(|own| own == name) {
            return Ok(Some("the server itself".to_owned()));
        }
        let others = self.catalog.storages()?.into_iter();
        let mut others = others.filter(|other| other.name != *storage && !other.revoked);
        let owner = others.find(|other| other.names.iter().any(|its| its == name));
        Ok(owner.map(|other| format!("the storage server '{}'", other.name)))
    }
}

/// The one spelling of a host name or address; no wildcard is one.
fn plain(name: &str) -> Result<String> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(address.to_canonical().to_string());
    }
    let name = name.to_ascii_lowercase();
    let is_good = !name.ends_with('.') && ServerName::try_from(name.as_str()).is_ok();
    if is_good {
        return Ok(name);
    }
    let shown: String = name.chars().take(80).collect();
    Err(Error::Usage(format!("'{}' is no host name or address", shown.escape_default())))
}

/// Who is called by these is on the caller's own machine.
fn is_loopback(name: &str) -> bool {
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_spelling_and_none_stands_for_many() {
        assert_eq!(plain("Disk.Example.COM").unwrap(), "disk.example.com");
        assert_eq!(plain("::ffff:192.0.2.1").unwrap(), "192.0.2.1");
        for name in ["*.example.com", "*", "", "a b", "backup.", "a/b", "-"] {
            assert!(plain(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_storage_server_gets_no_name_of_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let control = Control::open(folder.path(), &["Backup.example.com".to_owned()]).unwrap();
        let storage: Name = "disk".parse().unwrap();
        let check = |name: &str| control.checked_names(&storage, &[name.to_owned()]);
        assert!(check("backup.example.com").is_err());
        assert!(check("BACKUP.example.com").is_err());
        assert!(check("disk.example.com").is_ok() && check("127.0.0.1").is_ok());
        assert!(control.checked_names(&storage, &[]).is_err());
    }
}
