//! TSM's four rules for versions, as they apply to snapshots.
//!
//! In TSM a version is one of a file; here it is a complete snapshot of a source, since a server
//! without keys sees no files. A version is *active* while it is the newest of a source that exists,
//! else *inactive* since the next one was received, or, for the last one, since the source was
//! deleted.
//!
//! - `exists`: of a source that exists, so many versions stay, the active one among them.
//! - `deleted`: of a source that was deleted, so many.
//! - `retain_extra`: an inactive version stays so long after it became inactive, if the numbers
//!   above allow it.
//! - `retain_only`: the last version of a deleted source stays so long after the deletion.
//!
//! Numbers and times are limits, as in TSM: who exceeds either goes. The rules as a whole are one
//! more rule that keeps: what a keep rule keeps stays beyond them.
//!
//! **Deleted files.** A deleted file lives in the snapshots that were made before. The last of them
//! is the one whose successor lacks it; nodes report whether a snapshot lacks objects of the one
//! before. Such a snapshot stays for `retain_only` after its successor was received, whatever its
//! number, unless `deleted` is 0. If nobody knows, it counts as one. So the last version of each
//! deleted file stays at least as long as in TSM. Its earlier versions stay as long as
//! `retain_extra` and `exists` allow, and not by `deleted`: nobody can tell which snapshots hold
//! them.

use crate::class::Versions;
use crate::facts::Facts;
use crate::reason::{Reason, Until, Why};
use clock::Span;

/// The reasons to keep each of these snapshots of a series, the newest first, at a time; `deleted` is
/// since when their source is deleted.
pub(crate) fn keep(
    versions: &Versions,
    newest_first: &[&Facts],
    deleted: Option<i64>,
    now: i64,
) -> Vec<Vec<Reason>> {
    let inactive_since = |at: usize| match at.checked_sub(1) {
        Some(next) => Some(newest_first[next].received_secs),
        None => deleted,
    };
    let count_max = if deleted.is_some() { versions.deleted } else { versions.exists };
    let reasons = |(at, one): (usize, &&Facts)| {
        let Some(since) = inactive_since(at) else {
            return vec![Reason::new(Why::Active, Until::NewerComplete)];
        };
        let all = [inactive(versions, at, count_max, since), only(versions, at, one, since)];
        all.into_iter().flatten().filter(|reason| is_ahead(reason.until, now)).collect()
    };
    newest_first.iter().enumerate().map(reasons).collect()
}

fn is_ahead(until: Until, now: i64) -> bool {
    !matches!(until, Until::At(secs) if secs <= now)
}

fn after(since: i64, span: Option<Span>) -> Until {
    span.map_or(Until::Forever, |span| Until::At(since.saturating_add(span.signed_secs())))
}

/// A superseded version, within numbers and time.
fn inactive(versions: &Versions, at: usize, max: Option<u32>, since: i64) -> Option<Reason> {
    let is_within = max.is_none_or(|max| at < max as usize);
    let until = after(since, versions.retain_extra);
    (at > 0 && is_within).then(|| Reason::new(Why::Inactive, until))
}

/// The last version of a deleted source, or of objects that were deleted.
fn only(versions: &Versions, at: usize, one: &Facts, since: i64) -> Option<Reason> {
    let why = match at {
        0 => Why::Only,
        _ if one.has_deleted_objects != Some(false) => Why::DeletedObjects,
        _ => return None,
    };
    // Without a time, the last version of a deleted source stays. Every snapshot in which something
    // was deleted would stay too, which nobody means who set a number of versions.
    let is_set = at == 0 || versions.retain_only.is_some();
    let is_wanted = versions.deleted != Some(0);
    (is_set && is_wanted).then(|| Reason::new(why, after(since, versions.retain_only)))
}
