//! Tags of a backup that need not make a snapshot, since nothing has changed.

use crate::context::Context;
use crate::failure::quoted;
use pipeline::UnlockedRepository;
use pipeline::backup::{BackupOptions, BackupOutcome};
use pipeline::manifest::{ManifestReader, source_id};
use store::SnapshotRef;

/// A tag is wanted on what is backed up now, by people and by the rules that keep it: where the newest snapshot of the
/// source has not all of them, one is made.
pub(super) fn keep_tags(
    context: &Context,
    repository: &UnlockedRepository,
    options: &mut BackupOptions,
) {
    if !options.skip_if_unchanged || options.tags.is_empty() {
        return;
    }
    let Some(newest) = tags_of_newest(repository, options) else { return };
    if let Some(tag) = options.tags.iter().find(|tag| !newest.contains(tag)) {
        context.out.remark(&format!(
            "the last snapshot of this source does not have the tag {}: a new one is made, changed or not",
            quoted(tag)
        ));
        options.skip_if_unchanged = false;
    }
}

/// Nothing if there is no snapshot, or none that can be read with this key.
fn tags_of_newest(repository: &UnlockedRepository, options: &BackupOptions) -> Option<Vec<String>> {
    let source = source_id(repository, &options.node, &options.paths);
    tags_of(repository, repository.store.latest_snapshot(&source).ok()??.name)
}

fn tags_of(repository: &UnlockedRepository, name: SnapshotRef) -> Option<Vec<String>> {
    let read = ManifestReader::new(repository).ok()?.read(name);
    read.ok().map(|snapshot| snapshot.body.tags)
}

/// Where no snapshot was made all the same: a key that cannot read does not know which tags the last one has.
pub(super) fn tell(
    context: &Context,
    repository: &UnlockedRepository,
    options: &BackupOptions,
    done: &BackupOutcome,
) {
    if !done.is_skipped || options.tags.is_empty() {
        return;
    }
    let known = tags_of(repository, done.snapshot).unwrap_or_default();
    let missing = options.tags.iter().filter(|tag| !known.contains(tag));
    let missing: Vec<_> = missing.map(|tag| quoted(tag)).collect();
    if !missing.is_empty() {
        let id = done.snapshot.id.to_string();
        context.out.note(&format!(
            "no snapshot was made, and the last one may lack these tags. To add them, with a key that can read: icecore tag add {} {}",
            &id[..8],
            missing.join(" ")
        ));
    }
}
