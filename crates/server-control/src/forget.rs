//! Forget permissions: which node may forget which snapshots. None may unless the administrator permits it, and only
//! with client-held keys: in a managed domain the administrator forgets with the server's own key.

use crate::catalog_mark::CatalogMark;
use crate::error::{missing, parse_name, refused};
use crate::machine_clock::MachineClock;
use crate::retention::{SnapshotStore, kept};
use crate::{Error, Result, by};
use api::Name;
use api::enroll::{KeyMode, Role};
use api::nodes::ForgetScope;
use api::storage_servers::ForgetRequest;
use catalog::Catalog;
use ids::SnapshotId;
use parking_lot::Mutex;
use server_contract::access_control::{FORGET_MAX, ForgetQuery, Node};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of snapshot ids in an entry of the audit log; it has the number of all.
const AUDITED_MAX: usize = 64;
/// What a node may forget is gone by then, or stays.
const FORGOTTEN_WITHIN: Duration = Duration::from_secs(600);

/// Which nodes may forget.
pub(crate) struct ForgetPermissions {
    pub(crate) catalog: Arc<Catalog>,
    /// Nothing is forgotten while it says that the catalog is older than what the server has seen.
    pub(crate) mark: Arc<CatalogMark>,
    pub(crate) repositories: Arc<dyn SnapshotStore>,
    pub(crate) clock: Arc<MachineClock>,
    pub(crate) permitted: Arc<PermittedForgets>,
}

/// The snapshots that a node may be forgetting at this moment: the data plane does it behind the permission, on a
/// storage server a while later. A hold that is declared meanwhile comes too late for them.
#[derive(Default)]
pub(crate) struct PermittedForgets(Mutex<BTreeMap<SnapshotId, Instant>>);

impl PermittedForgets {
    fn add(&self, ids: &[SnapshotId]) {
        let mut all = self.0.lock();
        all.retain(|_, since| since.elapsed() < FORGOTTEN_WITHIN);
        all.extend(ids.iter().map(|id| (*id, Instant::now())));
    }

    fn remove(&self, ids: &[SnapshotId]) {
        let mut all = self.0.lock();
        for id in ids {
            all.remove(id);
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> BTreeSet<SnapshotId> {
        let all = self.0.lock();
        let late = all.iter().filter(|(_, since)| since.elapsed() < FORGOTTEN_WITHIN);
        late.map(|(id, _)| *id).collect()
    }
}

impl ForgetPermissions {
    /// Sets which snapshots a node may forget from now on.
    ///
    /// # Errors
    /// [`Error::Refused`] for a node that has no key for it; [`Error::Catalog`] when it does not exist.
    pub(crate) fn allow(&self, who: &str, name: &Name, scope: ForgetScope) -> Result<()> {
        let node = self.catalog.node(name)?.ok_or_else(|| missing("node", name))?;
        if scope != ForgetScope::None {
            self.can_forget(&node)?;
        }
        Ok(self.catalog.allow_forget(by(who), name, scope)?)
    }

    /// Whether a node has a key with which it could forget.
    fn can_forget(&self, node: &catalog::nodes::Node) -> Result<()> {
        let (name, domain) = (&node.name, &node.domain);
        if self.catalog.domain(domain)?.is_none_or(|domain| domain.keys != KeyMode::Client) {
            let message = format!(
                "the server manages the keys of the domain '{domain}', so no node may forget there"
            );
            return Err(refused(
                message,
                &format!(
                    "On the server: icecore server forget {domain} --keep-daily 7 --keep-weekly 5 --dry-run"
                ),
            ));
        }
        if node.role != Role::Full {
            let message = format!("the node '{name}' has a write-only key, which cannot forget");
            return Err(refused(
                message,
                &format!(
                    "With the recovery key of the domain: icecore forget --repo DATA/pool/domains/{domain} --password-file FILE"
                ),
            ));
        }
        Ok(())
    }

    /// Whether `node` may forget these snapshots. If so, the audit log has an entry before this returns.
    pub(crate) fn check(&self, node: &Node, asked: &ForgetQuery<'_>) -> Result<()> {
        let ids = asked.snapshots.iter().take(FORGET_MAX).map(ToString::to_string).collect();
        let (node, domain) = (parse_name(&node.name)?, parse_name(asked.domain)?);
        let count = asked.snapshots.len() as u64;
        let (serial, are_own) = (String::new(), asked.are_own);
        self.note(&ForgetRequest { serial, node, domain, count, ids, are_own })
    }

    /// The same by what `asked` names.
    ///
    /// # Errors
    /// [`Error::Refused`]; [`Error::Usage`] for what is no snapshot id.
    pub(crate) fn note(&self, asked: &ForgetRequest) -> Result<()> {
        self.mark.allows_forget()?;
        let ForgetRequest { node: name, domain, count, ids, .. } = asked;
        let node = self.catalog.node(name)?.filter(|node| !node.revoked);
        let node = node.ok_or_else(|| refused(format!("there is no node '{name}'"), ""))?;
        if node.domain != *domain {
            let message = format!("the node '{name}' may not forget in the domain '{domain}'");
            return Err(refused(message, "A node may forget in its own domain only."));
        }
        self.can_forget(&node)?;
        may(&node, asked.are_own)?;
        // What a storage server says stands in the list only when it is what it should be.
        let is_id = |id: &&String| SnapshotId::from_hex(id).is_some();
        let named: Vec<_> =
            ids.iter().take(FORGET_MAX).take_while(is_id).map(String::as_str).collect();
        if named.len() < ids.len().min(FORGET_MAX) {
            return Err(Error::Usage("the ids of snapshots are 32 hex digits".to_owned()));
        }
        let known: Vec<_> = named.iter().filter_map(|id| SnapshotId::from_hex(id)).collect();
        // First: whoever declares a hold after the site is read for this finds them.
        self.permitted.add(&known);
        let more = count.saturating_sub(named.len() as u64);
        let kept = self.refuse_kept(domain, &known, more);
        kept.inspect_err(|_| self.permitted.remove(&known))?;
        let detail = entry(*count, &named);
        let who = format!("node {name}");
        Ok(self.catalog.audit_note(by(&who), "snapshot.forget", domain.as_str(), &detail)?)
    }
}

impl ForgetPermissions {
    /// What a hold or a lock keeps stays, whoever may forget in `domain`. Of `more` snapshots nobody knows here which
    /// they are.
    fn refuse_kept(&self, domain: &Name, ids: &[SnapshotId], more: u64) -> Result<()> {
        let kept = kept(&self.catalog, &*self.repositories, domain, self.clock.read()?)?;
        if let Some((id, why)) = ids.iter().find_map(|id| kept.get_key_value(id)) {
            return Err(refused(format!("the snapshot {id} stays: {why}"), ""));
        }
        if more > 0 && !kept.is_empty() {
            let message = format!("some snapshots of the domain '{domain}' are held or locked");
            let hint = format!("Forget at most {} at once.", ids.len());
            return Err(refused(message, &hint));
        }
        Ok(())
    }
}

/// What the audit log says of `count` snapshots: the first of those that were `named`, and how many there are besides.
fn entry(count: u64, named: &[&str]) -> String {
    let named = named.get(..AUDITED_MAX).unwrap_or(named);
    match count.saturating_sub(named.len() as u64) {
        0 => format!("{count}: {}", named.join(" ")),
        more => format!("{count}: {} and {more} more", named.join(" ")),
    }
}

/// Checks the forget permission of `node` for snapshots that `are_own`, or others among them.
fn may(node: &catalog::nodes::Node, are_own: bool) -> Result<()> {
    let (name, domain) = (&node.name, &node.domain);
    match node.forget {
        ForgetScope::Domain => Ok(()),
        ForgetScope::Own if are_own => Ok(()),
        ForgetScope::Own => Err(refused(
            format!(
                "the node '{name}' may forget its own snapshots, and the server did not receive all of these from it"
            ),
            &format!(
                "Select only its own: --node {name}. To let it forget all of the domain '{domain}', on the server: icecore server allow-forget {name} --all"
            ),
        )),
        ForgetScope::None => Err(refused(
            format!("the node '{name}' may not forget snapshots"),
            &format!("On the server: icecore server allow-forget {name}"),
        )),
    }
}
