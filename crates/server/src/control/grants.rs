//! Grants: a node reads a domain that is not its own, and gets a key for it where the server manages the keys.

use super::authority::no;
use super::enrol::slot_secret;
use super::{Control, Error, Result, SERVER};
use crate::authority::Node;
use api::Name;
use api::domains::{Grant, Grants};
use api::enrol::{KeyMade, NewKey, Role};
use catalog::grants::GrantedKey;
use ids::KeyId;

impl Control {
    /// Lets a node read a domain.
    ///
    /// # Errors
    /// [`Error::Catalog`] when node or domain is missing; [`Error::Usage`] for an end that is past.
    pub fn grant(&self, who: &str, new: &Grant) -> Result<()> {
        let by = self.by(who);
        if new.until.is_some_and(|until| until <= by.now_secs) {
            return Err(Error::Usage("the grant would end before it begins".to_owned()));
        }
        Ok(self.catalog.add_grant(by, new)?)
    }

    /// Withdraws a grant, and the keys that were made for it.
    ///
    /// # Errors
    /// [`Error::Catalog`] when there is none.
    pub fn withdraw(&self, who: &str, node: &Name, domain: &Name) -> Result<()> {
        self.catalog.remove_grant(self.by(who), node, domain)?;
        self.remove_stale_keys();
        Ok(())
    }

    /// Whether a grant by which something was opened is still there. A trouble of the catalog throws nobody out.
    pub(crate) fn is_still_granted(&self, node: &Node, domain: &str) -> bool {
        let (Ok(node), Ok(domain)) = (node.name.parse(), domain.parse()) else { return false };
        self.is_granted(&node, &domain)
    }

    /// The same of a grant by which a node reads on a storage server.
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
            no(message, &format!("On the server: icecore server grant {node} {domain}"))
        })
    }

    /// A key for a node that was granted a domain: it reads all of it, until the grant ends.
    ///
    /// # Errors
    /// [`Error::Refused`] without a grant; [`Error::NoKeys`] where only nodes know keys.
    pub fn make_key(&self, node: &Node, new: &NewKey) -> Result<KeyMade> {
        let name = super::authority::parse(&node.name)?;
        let secret = slot_secret(&new.slot_secret)?;
        // Who may not waits for nobody.
        self.may_read(&name, &new.domain)?;
        self.keys.take(&new.domain, || self.make_key_for(node, name, new, &secret))
    }

    fn make_key_for(
        &self,
        node: &Node,
        name: Name,
        new: &NewKey,
        secret: &[u8; 32],
    ) -> Result<KeyMade> {
        let until = self.may_read(&name, &new.domain)?.and_then(|grant| grant.until);
        let missing = || no(format!("there is no domain '{}'", new.domain), "");
        let domain = self.catalog.domain(&new.domain)?.ok_or_else(missing)?;
        self.remove_keys_of(&name, &new.domain)?;
        let (id, slot) = self.make_reader(&domain, secret, &label(&name, until))?;
        let noted = GrantedKey { key: id.to_string(), node: name, domain: new.domain.clone() };
        self.catalog.add_granted_key(self.by(&format!("node {}", node.name)), &noted)?;
        self.held(&new.domain, domain.storage.as_ref())?.put_key_slot(id, &slot)?;
        let repository = domain.repository.unwrap_or_default();
        Ok(KeyMade { key: id.to_string(), repository, until })
    }

    /// A grant has one key at a time: the repository has room for so many.
    fn remove_keys_of(&self, node: &Name, domain: &Name) -> Result<()> {
        let before = self.catalog.granted_keys(node, domain)?;
        before.iter().try_for_each(|key| self.remove_key(key))
    }

    /// Removes the keys of nodes that are none any more, if `which` says so of the node. What fails is tried again with the
    /// next upkeep.
    pub(crate) fn remove_old_keys(&self, which: impl Fn(&Name) -> bool) {
        let old = self.catalog.old_keys().unwrap_or_else(|error| {
            tracing::error!(%error, "the keys of nodes that are gone cannot be listed");
            Vec::new()
        });
        for key in old.into_iter().filter(|old| which(&old.node)) {
            let removed = self.keys.take(&key.domain, || self.remove_old_key(&key));
            if let Err(error) = removed {
                tracing::warn!(%error, key = key.key, "the key of a node that is gone stays for now");
            }
        }
    }

    fn remove_old_key(&self, old: &GrantedKey) -> Result<()> {
        if let (Some(id), Some(domain)) =
            (KeyId::from_hex(&old.key), self.catalog.domain(&old.domain)?)
        {
            self.remove_slot(&domain, id)?;
        }
        Ok(self.catalog.remove_old_key(self.by(SERVER), old)?)
    }

    /// Removes the keys of grants that ended, and of nodes that are gone. What fails is tried again with the next upkeep.
    pub(crate) fn remove_stale_keys(&self) {
        self.remove_old_keys(|_| true);
        let stale = self.catalog.stale_keys(self.now_secs()).unwrap_or_else(|error| {
            tracing::error!(%error, "the keys of ended grants cannot be listed");
            Vec::new()
        });
        for key in stale {
            let removed = self.keys.take(&key.domain, || self.remove_key(&key));
            if let Err(error) = removed {
                tracing::warn!(%error, key = key.key, "a key of an ended grant stays for now");
            }
        }
    }

    fn remove_key(&self, stale: &GrantedKey) -> Result<()> {
        if let Some(id) = KeyId::from_hex(&stale.key) {
            self.held_by_name(&stale.domain)?.remove_key_slot(id)?;
        }
        Ok(self.catalog.remove_granted_key(self.by(SERVER), stale)?)
    }
}

/// What the list of keys shows; at most 64 bytes.
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
