//! Copies of domains in a second place, a directory or a bucket: each a whole repository, made without a key.

use super::copy_retention::CopyRetention;
use super::{failed, object_locks};
use api::Name;
use api::upkeep::{CopyForget, CopyKeep, CopyOnly, CopyReport, Requests};
use object_storage::{Asked, Location};
use pipeline::copy::{self, CopyOptions};
use repository::config;
use repository::reclaim::ReclaimOptions;
use repository::snapshots::SnapshotRef;
use repository::storage::{Storage, StorageResult};
use repository::{Repository, watch::Watch};
use server_contract::pool;
use server_contract::upkeep::{CopyRequest, UpkeepError};
use server_data::copy_places::{self, CopyPlace};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// An administrator puts this file into a directory for copies. Where the file system is not mounted it is missing, and
/// nothing is written below the mount point.
const MARK: &str = "icecore-copies";
/// Reasons in a report.
const REASONS_MAX: usize = 10;

/// The directory, or the address in a bucket, of the copy of `domain` below `to`.
pub(super) fn place(folder: &Path, to: &Path, domain: &str) -> Result<String, UpkeepError> {
    let name: Name = domain
        .parse()
        .map_err(|_| UpkeepError::Failed(format!("'{domain}' is no name of a domain")))?;
    let address = to.display().to_string();
    if copy_places::is_bucket(&address) {
        let copy = format!("{}/{name}", address.trim_end_matches('/'));
        if is_in_bucket_of_pool(folder, &copy)? {
            let why = lost_with_it(&copy, "another prefix or bucket: --set to=s3://BUCKET/PREFIX");
            return Err(why);
        }
        return Ok(copy);
    }
    let mark = to.join(MARK);
    if !mark.is_file() {
        return Err(UpkeepError::Failed(format!(
            "{} is not mounted, or was not prepared for copies. What is mounted there: findmnt --target '{}'. If that is right: touch '{}'",
            to.display(),
            to.display(),
            mark.display()
        )));
    }
    if is_in_pool(folder, to) {
        return Err(lost_with_it(&address, "another disk: --set to=DIR"));
    }
    Ok(to.join(name.as_str()).display().to_string())
}

/// Whether `to` lies in the pool of the domain in `folder`, `POOL/domains/NAME`.
fn is_in_pool(folder: &Path, to: &Path) -> bool {
    let (Some(pool), Ok(to)) = (folder.ancestors().nth(2), to.canonicalize()) else {
        return false;
    };
    pool.canonicalize().is_ok_and(|pool| to.starts_with(pool))
}

/// The same for the address of a copy: the domain itself would be taken for a copy that has all.
fn is_in_bucket_of_pool(folder: &Path, copy: &str) -> Result<bool, UpkeepError> {
    let pool = pool::place_of(folder).map_err(|error| failed(store::Error::from(error).into()))?;
    let [pool, copy] = [&pool, copy].map(|address| Location::parse(address)?.ok());
    Ok(pool.zip(copy).is_some_and(|(pool, copy)| pool.overlaps(&copy)))
}

fn lost_with_it(place: &str, what: &str) -> UpkeepError {
    let why = "lies in the pool of the domain, and would be lost with it";
    UpkeepError::Failed(format!("{place} {why}. Give {what}"))
}

/// Copies what the copy at `place` lacks; makes it, if there is none. Once it has all, what it is not to keep goes.
pub(super) fn copy(
    source: &Arc<Repository>,
    place: &str,
    request: &CopyRequest<'_>,
    watch: &dyn Watch,
) -> Result<CopyReport, UpkeepError> {
    let snapshots = chosen(source, request.only).map_err(super::of_engine)?;
    let there = there(place).map_err(|error| failed(store::Error::from(error).into()))?;
    let options = CopyOptions { snapshots, ..CopyOptions::default() };
    let done = copy::run_watched(source, &there.storage, &options, watch);
    let failed = |error| not_copied(error, source, place);
    let mut copied = done.map(|(done, is_ended)| report(done, !is_ended)).map_err(failed)?;
    let lock = |copied: &mut CopyReport| {
        if let (Some(bucket), Some(object_lock)) = (&there.bucket, request.object_lock) {
            object_locks::lock(source, bucket, object_lock, copied, watch);
        }
    };
    lock(&mut copied);
    if let Some(forget) = request.forget.filter(|_| copied.is_done) {
        copied = followed(source, &there.storage, (forget, request.keep), copied, watch)?;
        if copied.bytes_freed > 0 {
            lock(&mut copied); // the reclaim may have moved what is locked
        }
    }
    copied.requests = there.bucket.as_ref().map(|bucket| requests(bucket.asked()));
    Ok(copied)
}

/// Why nothing was copied, and the command that helps where nobody else says it.
fn not_copied(error: pipeline::Error, source: &Repository, place: &str) -> UpkeepError {
    let what = match &error {
        pipeline::Error::KeysApart { .. } => {
            "To give the copy those of the domain: icecore copy --replace-keys"
        }
        pipeline::Error::KeysDisown { .. } => {
            "Restore what you need of them and forget them in the copy. To lose them without that: icecore copy --give-up"
        }
        _ => return failed(error),
    };
    let from = source.storage().describe();
    UpkeepError::Failed(format!("{error}. {what} --repo '{from}' --to '{place}'"))
}

/// The snapshots that are copied; `None` for all. One of which nobody knows what it is belongs to them.
fn chosen(source: &Repository, only: &CopyOnly) -> repository::Result<Option<Vec<SnapshotRef>>> {
    if only.is_all() {
        return Ok(None);
    }
    let mut chosen = Vec::new();
    for name in source.current_snapshots()? {
        let receipt = match source.received(name) {
            Ok(known) => known.receipt,
            Err(repository::Error::SnapshotMissing(_)) => continue,
            Err(error) if error.is_unreachable() => return Err(error),
            Err(_) => None,
        };
        let is_chosen = receipt.is_none_or(|known| only.has(&known.policy, &known.class));
        chosen.extend(is_chosen.then_some(name));
    }
    Ok(Some(chosen))
}

fn followed(
    source: &Arc<Repository>,
    target: &Arc<dyn Storage>,
    (forget, keep): (CopyForget, Option<&CopyKeep>),
    copied: CopyReport,
    watch: &dyn Watch,
) -> Result<CopyReport, UpkeepError> {
    let options = ReclaimOptions {
        max_waste_percent: forget.max_waste_percent,
        dry_run: false,
        accept_damage: false,
        free_interrupted: false,
    };
    let rules = keep.map(CopyRetention::new).transpose()?;
    let keeps = |copy: &Repository| {
        rules.as_ref().map_or_else(|| Ok(BTreeSet::new()), |rules| rules.kept(copy))
    };
    let before = (forget.expired_before, options);
    let done = copy::remove_expired(source, target, before, &keeps, watch);
    let done = done.map_err(|error| {
        let what = "everything is copied, but what expired was not removed from the copy";
        UpkeepError::Failed(format!("{what}: {error}"))
    })?;
    let bytes_freed = done.reclaimed.map_or(0, |reclaimed| reclaimed.bytes_freed);
    Ok(CopyReport { expired: done.snapshots, bytes_freed, ..copied })
}

fn there(place: &str) -> StorageResult<CopyPlace> {
    match copy_places::open(place) {
        Ok(there) if config::exists(&*there.storage).unwrap_or(false) => Ok(there),
        _ => copy_places::create(place),
    }
}

pub(super) fn requests(asked: Asked) -> Requests {
    let Asked { writes, lists, reads, deletes, sent_bytes, received_bytes } = asked;
    Requests { writes, lists, reads, deletes, sent_bytes, received_bytes }
}

fn report(done: copy::CopyReport, is_done: bool) -> CopyReport {
    let reasons = done.left_out.iter().take(REASONS_MAX);
    CopyReport {
        created: done.created,
        snapshots: done.snapshots.len() as u64,
        present: done.present,
        forgotten_there: done.forgotten_there,
        records: done.records,
        bytes: done.bytes,
        left_out: done.left_out.len() as u64,
        reasons: reasons.map(|left| format!("{:.8}: {}", left.id, left.reason)).collect(),
        is_done,
        lost_keys: done.lost_keys,
        ..CopyReport::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_copied_to_a_place_that_nobody_prepared_or_into_the_pool() {
        let folder = tempfile::tempdir().unwrap();
        let (domains, second) = (folder.path().join("pool/domains"), folder.path().join("second"));
        let domain = domains.join("web");
        [&domain, &second].iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
        let unprepared = place(&domain, &second, "web").unwrap_err().to_string();
        assert!(unprepared.contains("touch '"), "{unprepared}");
        assert!(!second.join("web").exists(), "nothing is made there");
        std::fs::write(second.join(MARK), "").unwrap();
        let web = second.join("web").display().to_string();
        assert_eq!(place(&domain, &second, "web"), Ok(web));
        for inside in [&domains, &domain, &folder.path().join("pool")] {
            std::fs::write(inside.join(MARK), "").unwrap();
            let refused = place(&domain, inside, "web").unwrap_err().to_string();
            assert!(refused.contains("in the pool"), "{refused}");
        }
        let bucket = place(&domain, Path::new("s3://copies/here/"), "web");
        assert_eq!(bucket.as_deref(), Ok("s3://copies/here/web"), "no mark is asked for");
        for name in ["../web", "", "a/b", ".."] {
            assert!(place(&domain, &second, name).is_err(), "{name}");
        }
    }

    #[test]
    fn nothing_is_copied_into_the_bucket_of_the_pool() {
        let folder = tempfile::tempdir().unwrap();
        // Where what is remembered of a pool is damaged, its directory has the address.
        let domain = folder.path().join("pools/cloud/domains/web");
        std::fs::create_dir_all(&domain).unwrap();
        std::fs::create_dir(folder.path().join("pool-ids")).unwrap();
        std::fs::write(folder.path().join("pool-ids/cloud"), "damaged").unwrap();
        std::fs::write(folder.path().join("pools/cloud/bucket"), "s3://backup/icecore\n").unwrap();
        let to = |to: &str| place(&domain, Path::new(to), "web");
        for inside in ["icecore/domains", "icecore", "icecore/", "icecore/copies"] {
            let refused = to(&format!("s3://backup/{inside}")).unwrap_err().to_string();
            assert!(refused.contains("in the pool of the domain"), "{inside}: {refused}");
        }
        assert!(place(&domain, Path::new("s3://backup"), "icecore").is_err(), "around the pool");
        for apart in ["s3://backup/icecore-copies", "s3://backup/copies", "s3://other/icecore"] {
            assert_eq!(to(apart), Ok(format!("{apart}/web")));
        }
    }
}
