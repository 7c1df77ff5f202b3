//! Copying snapshots to a second place, without a key: directory or bucket, each a whole repository.

mod checked;
mod expired;
mod keys;

use crate::progress::Progress;
use crate::unlocked::holder;
use crate::{Error, Result};
pub use checked::check;
pub(crate) use expired::take_expiries;
pub use expired::{FollowReport, Keeps, remove_expired};
use ids::SnapshotId;
use keys::{is_usable, lost_keys, refuse_apart, signed_list, take_keys};
use repository::Repository;
use repository::config;
use repository::copy::{self, CopyOutcome, CopyTo};
use repository::lease::Lease;
use repository::reclaim::locked::LockedFiles;
use repository::snapshots::SnapshotRef;
use repository::storage::Storage;
use repository::watch::Watch;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use store::Keys;

/// What to copy, and how.
#[derive(Clone, Debug, Default)]
pub struct CopyOptions {
    /// The snapshots; `None` for all.
    pub snapshots: Option<Vec<SnapshotRef>>,
    /// Copy those again, too, that were copied before and forgotten there.
    pub again: bool,
    /// Change nothing, and say what would be copied.
    pub dry_run: bool,
    /// Copy snapshots, too, parts of which are lost.
    pub accept_damage: bool,
    /// Where keys were changed in both places, those of the first one count.
    pub replace_keys: bool,
    /// Also when nobody trusts snapshots of the copy any more then.
    pub give_up: bool,
}

/// What a copy did, or would do.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CopyReport {
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Whether the second place held no repository before.
    pub created: bool,
    /// The snapshots that are there now and were not.
    pub snapshots: Vec<String>,
    /// How many of those that were asked for were there.
    pub present: u64,
    /// How many were copied before and forgotten there since.
    pub forgotten_there: u64,
    /// How many were forgotten in the first place meanwhile.
    pub forgotten_meanwhile: u64,
    /// Snapshots that were not copied, with the reason.
    pub left_out: Vec<NotCopied>,
    /// Snapshots that were made in the copy and that nobody trusts any more, since its keys were replaced.
    pub disowned: Vec<String>,
    /// Keys in use whose files are damaged or missing in both places: their passwords do not open the copy.
    pub lost_keys: Vec<String>,
    /// Pages that were walked.
    pub pages: u64,
    /// Chunks and pages that the second place lacked.
    pub objects: u64,
    /// Records that were copied.
    pub records: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Chunks and pages that are lost in the first place.
    pub lost_objects: u64,
    /// The first of them, with the reason.
    pub lost: Vec<NotCopied>,
    /// Wall time.
    pub elapsed_secs: f64,
}

/// What was not copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotCopied {
    /// Id of the snapshot or object.
    pub id: String,
    /// Why.
    pub reason: String,
}

/// The progress of a copy as the engine tells it.
pub(crate) struct Watched<'a>(pub(crate) &'a Progress);

impl Watch for Watched<'_> {
    fn moved(&self, bytes: u64) {
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.0.bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }

    fn goes_on(&self) -> bool {
        self.0.check().is_ok()
    }

    fn stage(&self, _: &str) {}
}

/// Copies snapshots of `source` to the repository in `target`, which is made if there is none.
///
/// # Errors
/// [`Error::Usage`] when `target` holds another repository; [`Error::Cancelled`], after which another copy goes on.
pub fn run(
    source: &Arc<Repository>,
    target: &Arc<dyn Storage>,
    options: &CopyOptions,
    progress: &Progress,
) -> Result<CopyReport> {
    match run_watched(source, target, options, &Watched(progress))? {
        (_, true) => Err(Error::Cancelled),
        (report, false) => Ok(report),
    }
}

/// The same, watched by somebody else; also tells whether `watch` ended it.
///
/// # Errors
/// Those of [`run`].
pub fn run_watched(
    source: &Arc<Repository>,
    target: &Arc<dyn Storage>,
    options: &CopyOptions,
    watch: &dyn Watch,
) -> Result<(CopyReport, bool)> {
    let begun = Instant::now();
    source.verify_with(crypto::is_signed);
    let is_new = !config::exists(&**target)?;
    let mut report =
        CopyReport { dry_run: options.dry_run, created: is_new, ..CopyReport::default() };
    let outcome = match (is_new, options.dry_run) {
        (true, true) => plan(source, None, options, watch, &mut report)?,
        (false, true) => {
            let target = opened(source, target)?;
            plan(source, Some(&target), options, watch, &mut report)?
        }
        (true, false) => {
            write(source, &Arc::new(made(source, target)?), options, watch, &mut report)?
        }
        (false, false) => write(source, &opened(source, target)?, options, watch, &mut report)?,
    };
    let is_interrupted = outcome.is_interrupted;
    report.note(outcome);
    report.elapsed_secs = begun.elapsed().as_secs_f64();
    Ok((report, is_interrupted))
}

/// The files of the copy in `target` that its locked snapshots need, and until when.
///
/// # Errors
/// [`Error::Usage`] when `target` is no copy of `source`; those of the storage.
pub fn locked_files(
    source: &Repository,
    target: &Arc<dyn Storage>,
    watch: &dyn Watch,
) -> Result<LockedFiles> {
    let target = opened(source, target)?;
    target.verify_with(crypto::is_signed);
    Ok(target.locked_files(watch)?)
}

/// The repository in `target`, which must be a copy of `source` or its origin.
fn opened(source: &Repository, target: &Arc<dyn Storage>) -> Result<Arc<Repository>> {
    let open = Repository::open(target.clone());
    let target = open.map_err(|error| located(error.into(), &**target))?;
    if target.config() == source.config() {
        return Ok(Arc::new(target));
    }
    Err(Error::Usage(format!(
        "{} holds another repository ({}), not a copy of {} ({})",
        target.storage().describe(),
        target.config().repository,
        source.storage().describe(),
        source.config().repository
    )))
}

/// Both places have an index: that of the copy is named by where it lies.
fn located(error: store::Error, target: &dyn Storage) -> store::Error {
    match error {
        store::Error::IndexDamaged { name } => {
            store::Error::IndexDamaged { name: format!("{}/{name}", target.describe()) }
        }
        error => error,
    }
}

/// A new repository in `target` with the settings and the keys of `source`.
fn made(source: &Repository, target: &Arc<dyn Storage>) -> Result<Repository> {
    let (bytes, list) = signed_list(source)?.ok_or(Error::NoKeyList)?;
    let slots = source.key_slots()?.into_iter();
    let slots = slots.filter(|(id, slot)| is_usable(source, &list, *id, slot)).collect();
    Ok(Repository::init(target.clone(), *source.config(), &Keys { slots, key_list: bytes })?)
}

fn plan(
    source: &Arc<Repository>,
    target: Option<&Arc<Repository>>,
    options: &CopyOptions,
    watch: &dyn Watch,
    report: &mut CopyReport,
) -> Result<CopyOutcome> {
    if let Some(target) = target {
        refuse_fork(source, target)?;
        report.note_disowned(&refuse_apart(source, target, options)?);
    }
    let names = wanted(source, target.map(|target| &**target), options, report)?;
    let accept = options.accept_damage;
    Ok(copy::run(source, CopyTo::Plan(target), &names, accept, watch)?)
}

fn write(
    source: &Arc<Repository>,
    target: &Arc<Repository>,
    options: &CopyOptions,
    watch: &dyn Watch,
    report: &mut CopyReport,
) -> Result<CopyOutcome> {
    target.verify_with(crypto::is_signed);
    let lease = target.lease(&holder("copy"))?;
    refuse_fork(source, target)?;
    report.note_disowned(&refuse_apart(source, target, options)?);
    mend_settings(target, &lease)?;
    take_keys(source, target, &lease)?;
    report.lost_keys = lost_keys(target)?;
    for key in source.receipt_keys().unwrap_or_default() {
        target.add_receipt_key(&lease, key)?;
    }
    let names = wanted(source, Some(target), options, report)?;
    note_copied(target, &lease)?;
    let to = CopyTo::Repository(target, &lease);
    let outcome = copy::run(source, to, &names, options.accept_damage, watch);
    note_copied(target, &lease)?;
    target.fill_reserve();
    Ok(outcome?)
}

/// Writes again what is stored twice and is there once: a copy may have ended while it made the repository.
fn mend_settings(target: &Repository, lease: &Lease) -> Result<()> {
    if !config::problems(&**target.storage())?.is_empty() {
        lease.verify()?;
        config::write(target.config(), &**target.storage())?;
    }
    match signed_list(target)? {
        Some((list, _)) if !target.key_list_problems()?.is_empty() => {
            Ok(target.replace_key_list(lease, &list)?)
        }
        _ => Ok(()),
    }
}

/// Whatever is there now was copied, or made there: a later copy does not bring it back.
fn note_copied(target: &Repository, lease: &Lease) -> Result<()> {
    let before = copied(target)?;
    let mut known = before.clone().unwrap_or_default();
    known.extend(target.current_snapshots()?.iter().map(|name| name.id));
    if before.as_ref() == Some(&known) {
        return Ok(());
    }
    Ok(target.note_copied(lease, &known)?)
}

/// Each number is given once. Where both places have different snapshots of one number, one of them
/// was brought back from an older copy and went on: together they would be a history that nobody can
/// follow.
fn refuse_fork(source: &Repository, target: &Repository) -> Result<()> {
    let there: BTreeMap<_, _> =
        target.snapshots()?.into_iter().map(|name| (name.sequence, name.id)).collect();
    for name in source.snapshots()? {
        match there.get(&name.sequence) {
            Some(id) if *id != name.id => {
                return Err(Error::Forked {
                    number: name.sequence,
                    here: (name.id, source.storage().describe()),
                    there: (*id, target.storage().describe()),
                });
            }
            _ => {}
        }
    }
    Ok(())
}

/// The list of what was copied; one that is damaged names nothing.
///
/// # Errors
/// When the list cannot be read for another reason: it would be replaced by a shorter one, and what people forgot in
/// the copy would come back.
fn copied(target: &Repository) -> Result<Option<BTreeSet<SnapshotId>>> {
    match target.copied().map_err(store::Error::from) {
        Err(error) if error.is_damage() => Ok(None),
        list => Ok(list?),
    }
}

/// The snapshots that are to be copied and are not there.
fn wanted(
    source: &Repository,
    target: Option<&Repository>,
    options: &CopyOptions,
    report: &mut CopyReport,
) -> Result<Vec<SnapshotRef>> {
    let names = match &options.snapshots {
        Some(names) => names.clone(),
        None => source.snapshots()?,
    };
    let Some(target) = target else { return Ok(names) };
    let there: BTreeSet<_> = target.snapshots()?.into_iter().map(|name| name.id).collect();
    let known = copied(target)?.unwrap_or_default();
    let mut wanted = Vec::with_capacity(names.len());
    for name in names {
        match () {
            () if there.contains(&name.id) => report.present += 1,
            () if known.contains(&name.id) && !options.again => report.forgotten_there += 1,
            () => wanted.push(name),
        }
    }
    Ok(wanted)
}

impl CopyReport {
    fn note_disowned(&mut self, snapshots: &[SnapshotId]) {
        self.disowned = snapshots.iter().map(SnapshotId::to_string).collect();
    }

    fn note(&mut self, outcome: CopyOutcome) {
        self.snapshots = outcome.snapshots.iter().map(|name| name.id.to_string()).collect();
        self.forgotten_meanwhile = outcome.forgotten.len() as u64;
        let left_out =
            |(id, reason): (SnapshotId, String)| NotCopied { id: id.to_string(), reason };
        self.left_out = outcome.left_out.into_iter().map(left_out).collect();
        let lost = outcome.lost.into_iter();
        self.lost =
            lost.map(|lost| NotCopied { id: lost.id.to_string(), reason: lost.reason }).collect();
        self.lost_objects = outcome.lost_objects;
        (self.pages, self.objects) = (outcome.pages, outcome.objects);
        (self.records, self.bytes) = (outcome.records, outcome.bytes);
    }

    /// Whether all that was asked for is there.
    pub fn is_whole(&self) -> bool {
        self.left_out.is_empty() && self.lost_objects == 0 && self.lost_keys.is_empty()
    }
}
