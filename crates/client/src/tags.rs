//! Changing the labels of snapshots.
//!
//! Manifests are signed and never change: a snapshot with other tags is a new record of the same
//! tree and time, after which the old one is forgotten. Killed in between, both are there.

use crate::manifest::{self, NewManifest, Snapshot};
use crate::{Error, Result, UnlockedRepository};
use format::inner::Sums;
use repository::snapshots::SnapshotRef;
use tree::Root;

/// What to change.
#[derive(Clone, Debug, Default)]
pub struct TagChange {
    /// Tags that it shall have.
    pub add: Vec<String>,
    /// Tags that it shall not have.
    pub remove: Vec<String>,
}

impl TagChange {
    /// The tags after the change, without repetitions.
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

/// Gives `snapshot` other tags: its new name, or `None` when nothing changes.
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
    let own = &repository.slot;
    if own.bound && own.label != body.node {
        // What it signed would not be trusted, and the original would be gone.
        let what = format!(
            "this key is of the node '{}', and cannot change the tags of snapshots of '{}'",
            own.label, body.node
        );
        return Err(Error::Usage(what));
    }
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
    // It fails when the snapshot is gone: who forgot it meanwhile meant it.
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
