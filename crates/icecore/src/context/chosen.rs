//! The snapshot that a command line names, and whether it is the one that was meant.

use super::Context;
use crate::codes::Code;
use crate::failure::{Failure, Result};
use crate::filter::Filter;
use crate::units;
use pipeline::UnlockedRepository;
use pipeline::manifest::Snapshot;
use pipeline::select::{self, SelectBy, Selected, SnapshotFilter, SnapshotSelector};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use store::SnapshotRef;

impl Context {
    /// The snapshot that `text` names, and the path in it.
    pub(crate) fn snapshot_and_path(
        &self,
        repository: &UnlockedRepository,
        text: &OsStr,
        filter: &Filter,
    ) -> Result<(Snapshot, Vec<u8>)> {
        let parsed = SnapshotSelector::parse_with_path(text.as_bytes(), &crate::time::parse_point);
        let (selector, path) = parsed.ok_or_else(|| no_selector(text))?;
        let fits = SnapshotFilter { snapshot: &|it| filter.takes(it), path: &path };
        Ok((self.find(repository, &selector, fits)?, path))
    }

    /// The snapshot that `text` names.
    pub(crate) fn snapshot(&self, repository: &UnlockedRepository, text: &str) -> Result<Snapshot> {
        self.snapshot_of(repository, text, &Filter::default())
    }

    /// The same among those that `filter` takes.
    pub(crate) fn snapshot_of(
        &self,
        repository: &UnlockedRepository,
        text: &str,
        filter: &Filter,
    ) -> Result<Snapshot> {
        let selector = SnapshotSelector::parse(text, &crate::time::parse_point);
        let selector = selector.ok_or_else(|| no_selector(text.as_ref()))?;
        let fits = SnapshotFilter { snapshot: &|it| filter.takes(it), path: b"" };
        self.find(repository, &selector, fits)
    }

    /// The snapshot that `text` names, to be forgotten: one that is named by its id need not be
    /// readable, or nobody could get rid of it.
    pub(crate) fn to_forget(
        &self,
        repository: &UnlockedRepository,
        text: &str,
        filter: &Filter,
    ) -> Result<(SnapshotRef, std::result::Result<Snapshot, pipeline::Error>)> {
        let selector = SnapshotSelector::parse(text, &crate::time::parse_point);
        let selector = selector.ok_or_else(|| no_selector(text.as_ref()))?;
        let fits = SnapshotFilter { snapshot: &|it| filter.takes(it), path: b"" };
        match select::find(repository, &selector, fits, &mut |text| self.out.note(text)) {
            Ok(found)
                if !found.unread.is_empty()
                    || self.is_list_doubtful(&found.snapshot, &selector) =>
            {
                Err(doubtful(&found.snapshot))
            }
            Ok(found) => Ok((found.snapshot.name, Ok(found.snapshot))),
            // Of which node, tags and paths it is, nobody can tell.
            Err(error) if error.concerns_one_snapshot() && !filter.is_any() => {
                match select::resolve_id(repository, &selector)
                    .map_err(|error| self.failure(error))?
                {
                    Some(name) => Ok((name, Err(error))),
                    None => Err(self.failure(error)),
                }
            }
            Err(error) => Err(self.failure(error)),
        }
    }

    /// The snapshot that `selector` names, without a word about others.
    pub(crate) fn find_quietly(
        &self,
        repository: &UnlockedRepository,
        selector: &SnapshotSelector,
    ) -> pipeline::Result<Snapshot> {
        select::find(repository, selector, SnapshotFilter::ANY, &mut |_| ())
            .map(|found| found.snapshot)
    }

    /// Every use of a partial snapshot says that it is one, and so does that of an older one than was meant.
    fn find(
        &self,
        repository: &UnlockedRepository,
        selector: &SnapshotSelector,
        fits: SnapshotFilter<'_>,
    ) -> Result<Snapshot> {
        let found = select::find(repository, selector, fits, &mut |text| self.out.note(text))
            .map_err(|error| self.failure(error))?;
        if !found.unread.is_empty() {
            self.is_choice_doubtful.store(true, Ordering::Relaxed);
            self.out.note(&doubtful_text(&found));
        }
        let found = found.snapshot;
        if self.is_list_doubtful(&found, selector) {
            self.is_choice_doubtful.store(true, Ordering::Relaxed);
        }
        if found.body.partial {
            self.out.note(&partial_text(&found));
        }
        Ok(found)
    }

    /// Whether what was looked for may be what the list lacks in which `found` was chosen; not for one that was named by
    /// its id.
    fn is_list_doubtful(&self, found: &Snapshot, selector: &SnapshotSelector) -> bool {
        let is_by_id = matches!(selector.by, SelectBy::IdPrefix(_));
        let is_short = self.is_list_short() || self.has_doubted(&found.head.source);
        let is_of_copy = || self.with_copies.get().is_some_and(|with| with.has_lost_list());
        !is_by_id && (is_short || is_of_copy())
    }

    /// How a command ends that did its work with the snapshots that it chose.
    pub(crate) fn code_of_choice(&self, code: Code) -> Code {
        let is_doubtful = self.is_choice_doubtful.load(Ordering::Relaxed);
        match code {
            Code::Complete | Code::Partial if is_doubtful => Code::Damage,
            code => code,
        }
    }

    /// For what cannot be undone: nothing is changed or deleted because of an older snapshot than was meant.
    pub(crate) fn refuse_doubtful_choice(&self, snapshot: &Snapshot) -> Result<()> {
        match self.is_choice_doubtful.load(Ordering::Relaxed) {
            true => Err(doubtful(snapshot)),
            false => Ok(()),
        }
    }
}

fn doubtful(snapshot: &Snapshot) -> Failure {
    let id = snapshot.id().to_string();
    let message = format!(
        "nothing was changed: snapshot {id:.8} may not be the one that was meant: a newer one is missing or cannot be read"
    );
    Failure::new(Code::Damage, message).hint(format!(
        "To see what is damaged: icecore check. To use this one, name it by its id: {id:.8}"
    ))
}

fn doubtful_text(found: &Selected) -> String {
    let id = found.snapshot.id().to_string();
    let unread = units::many(found.unread.len() as u64, "newer snapshot");
    format!(
        "snapshot {id:.8} is used, and may not be the one that was meant: {unread} cannot be read, so of which machine and paths they are is not known. To see the damage: icecore check. To use this one without doubt, name it by its id: {id:.8}"
    )
}

fn partial_text(snapshot: &Snapshot) -> String {
    let what = match snapshot.body.report.objects_failed {
        0 => "the backup could not read everything that was named".to_owned(),
        failed => format!("the backup could not read {}", crate::units::many(failed, "object")),
    };
    let id = snapshot.id().to_string();
    format!(
        "snapshot {id} is partial: {what}: icecore map --failed {id:.8}. Other snapshots: icecore snapshots"
    )
}

fn no_selector(text: &OsStr) -> Failure {
    if let Some(skipped) = text.to_str().and_then(crate::time::skipped) {
        return Failure::usage(skipped)
            .hint("To list snapshots with their times: icecore snapshots");
    }
    let failure = Failure::usage(format!("'{}' is not a snapshot", text.display()));
    failure.hint("Write latest, latest~1, the beginning of an id, or a time such as '2026-11-20 14:00'. With a path: latest:/etc")
}
