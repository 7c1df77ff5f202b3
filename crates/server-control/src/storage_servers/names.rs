//! Names of storage servers: none of the control server's, none of another storage server. A certificate for a name
//! allows to impersonate whoever is reached by it.

use super::StorageServers;
use crate::{Error, Result};
use api::Name;
use rustls::pki_types::ServerName;
use std::net::IpAddr;

/// Maximum number of names of one storage server.
const NAMES_MAX: usize = 16;

impl StorageServers {
    /// The names for the certificate of `storage`.
    pub(super) fn checked_names(&self, storage: &Name, names: &[String]) -> Result<Vec<String>> {
        if names.is_empty() || names.len() > NAMES_MAX {
            return Err(Error::Usage(format!("a storage server needs 1 to {NAMES_MAX} names")));
        }
        let names: Vec<String> = names.iter().map(|name| plain(name)).collect::<Result<_>>()?;
        self.lead_to_one_machine(&names)?;
        for name in names.iter().filter(|name| !is_loopback(name)) {
            if let Some(owner) = self.owner_of(storage, name)? {
                let text = format!("'{name}' is a name of {owner}: a storage server needs its own");
                return Err(Error::Usage(text));
            }
        }
        Ok(names)
    }

    /// Refuses names that lead each caller to its own machine, or nowhere: a certificate for one allows to
    /// impersonate the storage server on every machine that uses it. On a server that listens on loopback only, they
    /// are accepted.
    pub(super) fn lead_to_one_machine(&self, names: &[String]) -> Result<()> {
        if self.identity.is_local() {
            return Ok(());
        }
        let Some(name) = names.iter().find(|name| is_anybodys(name)) else { return Ok(()) };
        let message = format!(
            "'{name}' means a different machine to every caller: a storage server cannot have this name"
        );
        let hint = "Enroll the storage server under the name by which all nodes and this server reach it: --name disk-1.example.com";
        Err(Error::Unfit { message, hint: hint.to_owned() })
    }

    /// The server that already has this name.
    fn owner_of(&self, storage: &Name, name: &str) -> Result<Option<String>> {
        let own = self.identity.names();
        let hosts = own.hosts.iter().filter_map(|host| plain(host).ok());
        let addresses = own.addresses.iter().map(|address| address.to_canonical().to_string());
        if hosts.chain(addresses).any(|own| own == name) {
            return Ok(Some("the server itself".to_owned()));
        }
        let others = self.catalog.storage_servers()?.into_iter();
        let mut others = others.filter(|other| other.name != *storage && !other.revoked);
        let owner = others.find(|other| other.names.iter().any(|its| its == name));
        Ok(owner.map(|other| format!("the storage server '{}'", other.name)))
    }
}

/// The canonical spelling of a host name or address; wildcards are refused.
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
    Err(Error::Usage(format!("'{}' is not a host name or address", shown.escape_default())))
}

/// Whether the name means the caller's own machine.
fn is_loopback(name: &str) -> bool {
    let is_local_name = LOCAL_NAMES.contains(&name) || name.ends_with(".localhost");
    is_local_name || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Names of the local machine in hosts files.
const LOCAL_NAMES: [&str; 6] = [
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost6",
    "ip6-localhost",
    "ip6-loopback",
];

/// The same, and addresses that mean no machine, or a different one in each network.
fn is_anybodys(name: &str) -> bool {
    is_loopback(name)
        || is_number(name)
        || match name.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => address.is_unspecified() || address.is_link_local(),
            Ok(IpAddr::V6(address)) => address.is_unspecified() || address.is_unicast_link_local(),
            Err(_) => false,
        }
}

/// Resolvers take `0x7f000001` for an address.
fn is_number(name: &str) -> bool {
    let digits = name.strip_prefix("0x");
    digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Control;

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
        let check =
            |name: &str| control.storage_servers.checked_names(&storage, &[name.to_owned()]);
        assert!(check("backup.example.com").is_err());
        assert!(check("BACKUP.example.com").is_err());
        assert!(check("disk.example.com").is_ok());
        assert!(control.storage_servers.checked_names(&storage, &[]).is_err());
    }

    #[test]
    fn a_storage_server_gets_no_name_that_leads_callers_to_themselves() {
        let folder = tempfile::tempdir().unwrap();
        let control = Control::open(folder.path(), &[]).unwrap();
        let storage: Name = "disk".parse().unwrap();
        let names = [
            "localhost",
            "LOCALHOST",
            "a.localhost",
            "localhost.localdomain",
            "ip6-loopback",
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
            "0.0.0.0",
            "::",
            "169.254.0.7",
            "fe80::1",
            "0x7f000001",
            "0x7F.1",
            "127.1",
            "2130706433",
        ];
        let check =
            |name: &str| control.storage_servers.checked_names(&storage, &[name.to_owned()]);
        // Not before it listens, nor for all the network, nor at one address of it.
        for listen in [None, Some("[::]:8477"), Some("0.0.0.0:8477"), Some("192.0.2.1:8477")] {
            listen.iter().for_each(|at| control.listens_at(at.parse().unwrap()).unwrap());
            names.iter().for_each(|name| assert!(check(name).is_err(), "{name}, {listen:?}"));
            for name in ["192.0.2.7", "2001:db8::7", "10.0.0.7", "disk.lan", "0xdisk.example.com"] {
                assert!(check(name).is_ok(), "{name}, {listen:?}");
            }
        }
        control.listens_at("127.0.0.1:8477".parse().unwrap()).unwrap();
        assert!(check("localhost").is_ok() && check("127.0.0.1").is_ok());
    }
}
