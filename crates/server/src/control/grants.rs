//! Grants: a node reads a domain that is not its own, and gets a key for it where the server manages the keys.

use super::access_control::refused;
use super::enroll::slot_secret;
use super::{Control, Error, Result, SERVER};
use crate::access_control::Node;
use api::Name;
use api::domains::{Grant, Grants};
use api::enroll::{IssuedKey, NewKey, Role};
use catalog::grants::GrantedKey;
use ids::KeyId;
use std::collections::BTreeMap;

impl Control {
    /// Grants a node access to read a domain.
    ///
    /// # Errors
    /// [`Error::Catalog`] when node or domain does not exist; [`Error::Usage`] for an expiry in the past.
    pub fn grant(&self, who: &str, new: &Grant) -> Result<()> {
        let by = self.by(who);
        if new.until.is_some_and(|until| until <= by.now_secs) {
            return Err(Error::Usage("the grant would expire before it begins".to_owned()));
        }
        Ok(self.catalog.add_grant(by, new)?)
    }

    /// Withdraws a grant, and the keys issued for it.
    ///
    /// # Errors
    /// [`Error::Catalog`] when there is none.
    pub fn withdraw(&self, who: &str, node: &Name, domain: &Name) -> Result<()> {
        self.catalog.remove_grant(self.by(who), node, domain)?;
        self.remove_stale_keys();
        Ok(())
    }

    /// Whether a grant that was used to open a domain is still valid. An error of the catalog closes no session.
    pub(crate) fn is_still_granted(&self, node: &Node, domain: &str) -> bool {
        let (Ok(node), Ok(domain)) = (node.name.parse(), domain.parse()) else { return false };
        self.is_granted(&node, &domain)
    }

    /// The same for a grant by which a node reads on a storage server.
    pub(crate) fn is_granted(&self, node: &Name, domain: &Name) -> bool {
        self.catalog.grant(node, domain, self.now_secs()).map_or(true, |grant| grant.is_some())
    }

    /// All grants.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub fn grants(&self) -> Result<Grants> {
        Ok(Grants { grants: self.catalog.grants()? })
    }

    /// Whether `node` may read `domain`.
    pub(crate) fn may_read(&self, node: &Name, domain: &Name) -> Result<Option<Grant>> {
        let own = self.catalog.node(node)?;
        if own.is_some_and(|own| own.domain == *domain && own.role == Role::Full) {
            return Ok(None);
        }
        let grant = self.catalog.grant(node, domain, self.now_secs())?;
        grant.map(Some).ok_or_else(|| {
            let message = format!("the node '{node}' may not read the domain '{domain}'");
            refused(message, &format!("On the server: icecore server grant {node} {domain}"))
        })
    }

    /// Issues a read-only key of a granted domain, valid until the grant expires.
    ///
    /// # Errors
    /// [`Error::Refused`] without a grant; [`Error::NoKeys`] with client-held keys.
    pub fn make_key(&self, node: &Node, new: &NewKey) -> Result<IssuedKey> {
        let name = super::access_control::parse(&node.name)?;
        let secret = slot_secret(&new.slot_secret)?;
        // Who may not waits for nobody.
        self.may_read(&name, &new.domain)?;
        self.key_locks.with(&new.domain, || self.make_key_for(node, name, new, &secret))
    }

    fn make_key_for(
        &self,
        node: &Node,
        name: Name,
        new: &NewKey,
        secret: &[u8; 32],
    ) -> Result<IssuedKey> {
        let until = self.may_read(&name, &new.domain)?.and_then(|grant| grant.until);
        let missing = || refused(format!("there is no domain '{}'", new.domain), "");
        let domain = self.catalog.domain(&new.domain)?.ok_or_else(missing)?;
        let by = format!("node {}", node.name);
        // A grant has one key at a time.
        let mut before = self.catalog.granted_keys(&name, &new.domain)?;
        let kept = before.pop().and_then(|key| KeyId::from_hex(&key.key));
        self.remove_together(before, |key| self.catalog.remove_granted_key(self.by(SERVER), key))?;
        let note = |id: KeyId| {
            let noted =
                GrantedKey { key: id.to_string(), node: name.clone(), domain: new.domain.clone() };
            Ok(self.catalog.add_granted_key(self.by(&by), &noted)?)
        };
        let id = self.add_reader(&domain, secret, &label(&name, until), kept, note)?;
        let repository = domain.repository.unwrap_or_default();
        Ok(IssuedKey { key: id.to_string(), repository, until })
    }

    /// Removes the keys of former nodes that `which` selects. A failure is retried by the next upkeep.
    pub(crate) fn remove_old_keys(&self, which: impl Fn(&Name) -> bool) {
        let mut old = self.catalog.old_keys().unwrap_or_else(|error| {
            tracing::error!(%error, "cannot list the keys of removed nodes");
            Vec::new()
        });
        old.retain(|old| which(&old.node));
        self.remove_in_turn(old, |key| self.catalog.remove_old_key(self.by(SERVER), key));
    }

    /// Removes the keys of expired grants and of former nodes. A failure is retried by the next upkeep.
    pub(crate) fn remove_stale_keys(&self) {
        self.remove_old_keys(|_| true);
        let stale = self.catalog.stale_keys(self.now_secs()).unwrap_or_else(|error| {
            tracing::error!(%error, "cannot list the keys of expired grants");
            Vec::new()
        });
        self.remove_in_turn(stale, |key| self.catalog.remove_granted_key(self.by(SERVER), key));
    }

    /// Removes `keys`, all of a domain together and under its lock, and calls `note` for each removed one.
    fn remove_in_turn(
        &self,
        keys: Vec<GrantedKey>,
        note: impl Fn(&GrantedKey) -> catalog::Result<()>,
    ) {
        let mut domains: BTreeMap<String, Vec<GrantedKey>> = BTreeMap::new();
        for key in keys {
            domains.entry(key.domain.to_string()).or_default().push(key);
        }
        for (domain, keys) in domains {
            let Some(name) = keys.first().map(|key| key.domain.clone()) else { continue };
            let removed = self.key_locks.with(&name, || self.remove_together(keys, &note));
            if let Err(error) = removed {
                tracing::warn!(%error, domain, "cannot remove keys now; trying again later");
            }
        }
    }

    /// Removes keys of one domain: one key epoch begins for all of them.
    fn remove_together(
        &self,
        keys: Vec<GrantedKey>,
        note: impl Fn(&GrantedKey) -> catalog::Result<()>,
    ) -> Result<()> {
        let Some(first) = keys.first() else { return Ok(()) };
        let ids: Vec<_> = keys.iter().filter_map(|key| KeyId::from_hex(&key.key)).collect();
        if let Some(domain) = self.catalog.domain(&first.domain)? {
            self.remove_slots(&domain, &ids)?;
        }
        Ok(keys.iter().try_for_each(note)?)
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
