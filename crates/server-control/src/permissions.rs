//! What a node may do with which domain. It only reads the catalog.

use crate::catalog_mark::CatalogMark;
use crate::copies::known_copies;
use crate::domain_repository::DomainRepositories;
use crate::error::{missing, parse_name, refused};
use crate::placing::described;
use crate::pools::DomainFolder;
use crate::{Result, now_secs};
use api::Name;
use api::domains::Grant;
use api::enroll::{KeyMode, Role};
use catalog::Catalog;
use catalog::domains::Domain;
use ids::KeyId;
use server_contract::access_control::{Access, Node, Refusal, Signer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Who may do what.
pub(crate) struct Permissions {
    catalog: Arc<Catalog>,
    mark: Arc<CatalogMark>,
    repositories: Arc<DomainRepositories>,
}

impl Permissions {
    /// As `catalog` has them; no grants while `mark` says that it lacks changes.
    pub(crate) fn new(
        catalog: Arc<Catalog>,
        mark: Arc<CatalogMark>,
        repositories: Arc<DomainRepositories>,
    ) -> Self {
        Self { catalog, mark, repositories }
    }

    /// What `node` may do with `domain` (`None`: its own).
    pub(crate) fn access_of(&self, node: &Node, domain: Option<&str>) -> Result<Access> {
        if node.is_revoked() {
            return Err(refused(format!("the node '{}' is revoked", node.name), ""));
        }
        let name = parse_name(&node.name)?;
        let known = self.catalog.node(&name)?;
        let known = known
            .filter(|known| !known.revoked)
            .ok_or_else(|| refused(format!("there is no node '{name}'"), ""))?;
        match domain.map(parse_name).transpose()? {
            Some(other) if other != known.domain => self.granted(&name, &other),
            _ => self.own(&known),
        }
    }

    fn own(&self, node: &catalog::nodes::Node) -> Result<Access> {
        let none = || refused(format!("there is no domain '{}'", node.domain), "");
        let domain = self.catalog.domain(&node.domain)?.ok_or_else(none)?;
        let is_client = domain.keys == KeyMode::Client;
        let (path, read_only) = self.place(&domain)?;
        let in_two_places = self.in_two_places(&domain)?;
        // Nobody tells a storage server that somebody may only read there.
        if let Some(why) = in_two_places.as_ref().filter(|_| domain.storage.is_some()) {
            return Err(why.clone().into());
        }
        let read_only = read_only.or(in_two_places);
        Ok(Access {
            domain: node.domain.to_string(),
            may_write: true,
            may_read: node.role == Role::Full,
            // What was made once is never made again. A storage server looks for itself.
            may_init: is_client
                && domain.repository.is_none()
                && (domain.storage.is_some() || server_contract::config(&path)?.is_none()),
            key: node.key.as_deref().and_then(KeyId::from_hex).map(|id| id.0),
            settings: Some(domain.settings),
            read_only,
            copies: known_copies(&self.catalog, node.domain.as_str())?,
            path,
        })
    }

    fn granted(&self, node: &Name, domain: &Name) -> Result<Access> {
        self.grant_of(node, domain)?;
        let (may_write, may_read, may_init) = (false, true, false);
        let known = self.catalog.domain(domain)?.ok_or_else(|| missing("domain", domain))?;
        let (path, read_only) = self.place(&known)?;
        let copies = known_copies(&self.catalog, domain.as_str())?;
        let (domain, key, settings) = (domain.to_string(), None, None);
        Ok(Access { domain, path, may_write, may_read, may_init, key, settings, read_only, copies })
    }

    /// The folder of a domain, and why nothing may be written there. Of one on a storage server only that one knows.
    fn place(&self, domain: &Domain) -> Result<(PathBuf, Option<Refusal>)> {
        if domain.storage.is_some() {
            self.repositories.uses().begin(&domain.name)?;
            return Ok((PathBuf::new(), None));
        }
        let DomainFolder { folder, read_only } = self.repositories.place_of(domain)?;
        Ok((folder, read_only))
    }

    /// Why nothing may be stored in `domain` while the catalog is older: it may name a place that the domain has left,
    /// and whoever went on there would split its history.
    fn in_two_places(&self, domain: &Domain) -> Result<Option<Refusal>> {
        if !self.mark.is_known_older() {
            return Ok(None);
        }
        let why = |other: String| {
            let (name, one) = (&domain.name, described(domain));
            let message = format!(
                "the domain '{name}' is on {one} and on {other}, and nobody knows which of them is the newer one while {}",
                clock::Doubt::Catalog
            );
            let hint = "An administrator looks where the newest snapshots are, and says that it lies there: icecore server place-domain. When all domains are where they should be: icecore server catalog confirm";
            Refusal::new(message, hint)
        };
        Ok(self.repositories.lies_elsewhere(domain)?.map(why))
    }

    /// Whether the folder of `domain` is `path`.
    ///
    /// # Errors
    /// As for [`Permissions::access_of`]; [`crate::Error::Refused`] while it is being moved.
    pub(crate) fn lies_at(&self, domain: &str, path: &Path) -> Result<bool> {
        let known = self.catalog.domain(&parse_name(domain)?)?;
        let Some(known) = known else { return Ok(false) };
        Ok(known.storage.is_none() && self.place(&known)?.0 == path)
    }

    /// By which grant `node` may read `domain`; `None` when the domain is its own.
    pub(crate) fn may_read(&self, node: &Name, domain: &Name) -> Result<Option<Grant>> {
        let own = self.catalog.node(node)?;
        if own.is_some_and(|own| own.domain == *domain && own.role == Role::Full) {
            return Ok(None);
        }
        self.grant_of(node, domain).map(Some)
    }

    fn grant_of(&self, node: &Name, domain: &Name) -> Result<Grant> {
        let grant = self.catalog.grant(node, domain, now_secs())?;
        let grant = grant.ok_or_else(|| {
            let message = format!("the node '{node}' may not read the domain '{domain}'");
            refused(message, &format!("On the server: icecore server grant {node} {domain}"))
        })?;
        // Behind the look at the grant: the database may be put back between the two.
        self.mark.allows_grants().map(|()| grant)
    }

    /// Whether a grant that was used to open a domain is still valid. An error of the catalog closes no session; an
    /// older catalog does, since it may have a grant again that was withdrawn.
    pub(crate) fn is_still_granted(&self, node: &Node, domain: &str) -> bool {
        let (Ok(node), Ok(domain)) = (node.name.parse(), domain.parse()) else { return false };
        self.is_granted(&node, &domain)
    }

    /// The same for a grant by which a node reads on a storage server. It is asked for each session and each second.
    pub(crate) fn is_granted(&self, node: &Name, domain: &Name) -> bool {
        let grant = self.catalog.grant(node, domain, now_secs());
        grant.map_or(true, |grant| grant.is_some()) && !self.mark.is_known_older()
    }

    /// Other nodes that back up to `domain`.
    pub(crate) fn signers_besides(&self, node: &Node, domain: &str) -> Result<Vec<Signer>> {
        let all = self.catalog.nodes_of(&parse_name(domain)?)?.into_iter();
        let others = all.filter(|other| !other.revoked && other.name.as_str() != node.name);
        let signer = |other: catalog::nodes::Node| {
            let key = other.key.as_deref().and_then(KeyId::from_hex)?.0;
            Some(Signer { node: other.name.to_string(), key })
        };
        Ok(others.filter_map(signer).collect())
    }

    /// Host and port of the storage server of `domain`; `None` when the domain lies here.
    pub(crate) fn storage_server_of(&self, domain: &str) -> Result<Option<(String, u16)>> {
        let known = self.catalog.domain(&parse_name(domain)?)?;
        let storage = known.and_then(|domain| domain.storage);
        storage.map(|storage| self.repositories.address_of_storage_server(&storage)).transpose()
    }

    /// Whether `domain` lies on `storage`.
    pub(crate) fn lies_on(&self, storage: &Name, domain: &Name) -> Result<bool> {
        let known = self.catalog.domain(domain)?;
        Ok(known.is_some_and(|domain| domain.storage.as_ref() == Some(storage)))
    }

    /// The refusal of a request about a domain that does not lie on `storage`.
    ///
    /// # Errors
    /// [`crate::Error::Refused`].
    pub(crate) fn must_lie_on(&self, storage: &Name, domain: &Name) -> Result<()> {
        if self.lies_on(storage, domain)? {
            return Ok(());
        }
        let message = format!("the domain '{domain}' does not lie on this storage server");
        Err(refused(message, "To see where it lies: icecore server domains"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Control;
    use crate::scheduler::tests::enroll;

    #[test]
    fn a_domain_lies_where_its_catalog_says_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let control = Control::open(folder.path(), &[]).unwrap();
        enroll(&control.catalog, "web");
        let web = control.catalog.domain(&"web".parse().unwrap()).unwrap().unwrap();
        let (path, _) = control.permissions.place(&web).unwrap();
        let lies = |path: &Path| control.permissions.lies_at("web", path).unwrap();
        assert!(lies(&path) && !lies(Path::new("/elsewhere")) && !lies(Path::new("")));
        assert!(!control.permissions.lies_at("gone", &path).unwrap());
    }
}
