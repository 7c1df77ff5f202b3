//! Changing the tags of snapshots.
//!
//! Manifests are signed and never change: a snapshot with other tags is a new manifest of the same
//! tree and time, and then the original is forgotten. If the process is killed in between, both
//! exist.

use crate::manifest::{self, NewManifest, Snapshot};
use crate::{Result, UnlockedRepository};
use format::inner::Sums;
use store::SnapshotRef;
use tree::Root;

/// A change of tags.
#[derive(Clone, Debug, Default)]
pub struct TagChange {
    /// Tags to add.
    pub add: Vec<String>,
    /// Tags to remove.
    pub remove: Vec<String>,
}

impl TagChange {
    /// The tags after the change, without duplicates.
    fn of(&self, tags: &[String]) -> Vec<String> {
        let mut new: Vec<String> = Vec::new();
        for tag in tags.iter().filter(|tag| !self.remove.contains(tag)).chain(&self.add) {
            if !new.contains(tag) {
                new.push(tag.clone());
            }
        }
        new
    }
}

/// Changes the tags of `snapshot`; returns its new name, or `None` if nothing changes.
///
/// # Errors
/// [`store::Error::Locked`] while the original may not be removed; [`crate::Error::BoundKey`] for a key that is bound to another node.
pub fn change(
    repository: &UnlockedRepository,
    snapshot: &Snapshot,
    change: &TagChange,
) -> Result<Option<SnapshotRef>> {
    let mut body = snapshot.body.clone();
    body.tags = change.of(&body.tags);
    if body.tags == snapshot.body.tags {
        return Ok(None);
    }
    // The new manifest would be untrusted, and the original forgotten.
    repository.refuse_other_node(&body.node)?;
    repository.local()?.refuse_locked(&[snapshot.name])?;
    let name = publish(repository, snapshot, &body)?;
    repository.forget(&[snapshot.name])?;
    Ok(Some(name))
}

fn publish(
    repository: &UnlockedRepository,
    snapshot: &Snapshot,
    body: &manifest::ManifestBody,
) -> Result<SnapshotRef> {
    let lease = repository.lease("tag")?;
    let head = &snapshot.head;
    let previous = manifest::newest_of(repository, &head.source, &body.node, &mut |_| ())?;
    let sealer = repository.sealer()?;
    // Fails if the snapshot was forgotten meanwhile: that was intended.
    let session =
        repository.local()?.begin(&lease, Some(snapshot.name), sealer.session_record())?;
    let new = NewManifest {
        source: head.source,
        previous: previous.as_ref().map(|stored| stored.head),
        previous_id: previous.as_ref().map(|stored| stored.name.id),
        time: snapshot.time(),
        root: Root { id: head.root, level: head.level, sums: Sums::EMPTY },
        original: Some(head.original.unwrap_or((snapshot.id(), head.sequence))),
    };
    let manifest =
        manifest::seal_manifest(repository, session.next_snapshot(), &sealer, new, body)?;
    let receipt = repository.store.snapshot(snapshot.name)?.receipt;
    Ok(session.commit_received(&manifest, receipt.as_deref())?.snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn tags_are_added_and_removed_once() {
        let change = TagChange { add: words("c a"), remove: words("b x") };
        assert_eq!(change.of(&words("a b a")), words("a c"));
        assert_eq!(TagChange::default().of(&words("a b")), words("a b"));
    }
}
