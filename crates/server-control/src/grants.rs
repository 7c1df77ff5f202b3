//! Grants: a node reads a domain that is not its own, and gets a key for it where the server manages the keys.

use crate::domain_keys::DomainKeys;
use crate::domain_locks::DomainLocks;
use crate::enroll::slot_secret;
use crate::error::{parse_name, refused};
use crate::issued_keys::IssuedKeys;
use crate::open::Parts;
use crate::permissions::Permissions;
use crate::{Error, Result, by};
use api::Name;
use api::domains::Grant;
use api::enroll::{IssuedKey, NewKey};
use catalog::Catalog;
use catalog::grants::GrantedKey;
use ids::KeyId;
use server_contract::access_control::Node;
use std::sync::Arc;

/// Grants, and the keys that nodes get for them.
pub(crate) struct Grants {
    catalog: Arc<Catalog>,
    permissions: Arc<Permissions>,
    keys: Arc<DomainKeys>,
    issued: Arc<IssuedKeys>,
    locks: Arc<DomainLocks>,
}

impl Grants {
    /// For the domains of this server.
    pub(crate) fn new(parts: &Parts) -> Self {
        Self {
            catalog: parts.catalog.clone(),
            permissions: parts.permissions.clone(),
            keys: parts.keys.clone(),
            issued: parts.issued.clone(),
            locks: parts.locks.clone(),
        }
    }

    /// Grants a node access to read a domain.
    ///
    /// # Errors
    /// [`Error::Catalog`] when node or domain does not exist; [`Error::Usage`] for an expiry in the past.
    pub(crate) fn grant(&self, who: &str, new: &Grant) -> Result<()> {
        let by = by(who);
        if new.until.is_some_and(|until| until <= by.now_secs) {
            return Err(Error::Usage("the grant would expire before it begins".to_owned()));
        }
        Ok(self.catalog.add_grant(by, new)?)
    }

    /// Withdraws a grant, and the keys issued for it.
    ///
    /// # Errors
    /// [`Error::Catalog`] when there is none.
    pub(crate) fn withdraw(&self, who: &str, node: &Name, domain: &Name) -> Result<()> {
        self.catalog.remove_grant(by(who), node, domain)?;
        self.issued.remove_stale();
        Ok(())
    }

    /// All grants.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn all(&self) -> Result<api::domains::Grants> {
        Ok(api::domains::Grants { grants: self.catalog.grants()? })
    }

    /// Issues a read-only key of a granted domain, valid until the grant expires.
    ///
    /// # Errors
    /// [`Error::Refused`] without a grant; [`Error::NoKeys`] with client-held keys.
    pub(crate) fn make_key(&self, node: &Node, new: &NewKey) -> Result<IssuedKey> {
        let name = parse_name(&node.name)?;
        let secret = slot_secret(&new.slot_secret)?;
        // Who may not waits for nobody.
        self.permissions.may_read(&name, &new.domain)?;
        self.locks.with(&new.domain, || self.make_key_for(node, name, new, &secret))
    }

    fn make_key_for(
        &self,
        node: &Node,
        name: Name,
        new: &NewKey,
        secret: &[u8; 32],
    ) -> Result<IssuedKey> {
        let until = self.permissions.may_read(&name, &new.domain)?.and_then(|grant| grant.until);
        let missing = || refused(format!("there is no domain '{}'", new.domain), "");
        let domain = self.catalog.domain(&new.domain)?.ok_or_else(missing)?;
        let who = format!("node {}", node.name);
        // A grant has one key at a time.
        let mut before = self.catalog.granted_keys(&name, &new.domain)?;
        let kept = before.pop().and_then(|key| KeyId::from_hex(&key.key));
        self.issued.remove_granted(before)?;
        let note = |id: KeyId| {
            let noted =
                GrantedKey { key: id.to_string(), node: name.clone(), domain: new.domain.clone() };
            Ok(self.catalog.add_granted_key(by(&who), &noted)?)
        };
        let id = self.keys.add_reader(&domain, secret, &label(&name, until), kept, note)?;
        let repository = domain.repository.unwrap_or_default();
        Ok(IssuedKey { key: id.to_string(), repository, until })
    }
}

/// Label of the key; at most 64 bytes.
fn label(node: &Name, until: Option<i64>) -> String {
    let end = until.and_then(|until| jiff::Timestamp::from_second(until).ok());
    let end =
        end.map_or(String::new(), |end| format!(" until {}", end.strftime("%Y-%m-%dT%H:%MZ")));
    let room = 64 - "restore by ".len() - end.len();
    let name = node.as_str();
    format!("restore by {}{end}", &name[..name.len().min(room)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_fits_whatever_the_name() {
        for length in [1, 26, 27, 63] {
            let name: Name = "x".repeat(length).parse().unwrap();
            assert!(label(&name, Some(1_800_000_000)).len() <= 64);
            assert!(label(&name, None).len() <= 64);
        }
        let web = "web".parse().unwrap();
        assert_eq!(label(&web, Some(0)), "restore by web until 1970-01-01T00:00Z");
    }
}
