//! Upkeep of repositories: what the control plane decides, and the holder of their leases does.

use crate::access_control::Refusal;
use api::upkeep::{
    CheckReport, CopyForget, CopyKeep, CopyOnly, CopyReport, ObjectLock, ReclaimReport, UpkeepEnd,
    UpkeepWork,
};
use repository::watch::Watch;
use std::path::Path;

/// The secret of the server's own key slot in a domain whose keys it manages.
#[derive(Clone, Copy)]
pub struct OwnSecret<'a>(pub &'a [u8; 32]);

impl std::fmt::Debug for OwnSecret<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("OwnSecret")
    }
}

/// What of the work may be done: in a pool that is read-only nothing is freed, and nothing healed.
///
/// # Errors
/// Why the pool is `read_only`, if nothing of the work may be done.
pub fn permitted(read_only: Option<Refusal>, work: UpkeepWork) -> Result<UpkeepWork, Refusal> {
    match (read_only, work) {
        (Some(refusal), UpkeepWork::Reclaim { .. }) => Err(refusal),
        (Some(_), UpkeepWork::Check { sample_percent, position, bytes_per_sec, .. }) => {
            Ok(UpkeepWork::Check { sample_percent, position, bytes_per_sec, copies: Vec::new() })
        }
        (_, work) => Ok(work),
    }
}

/// How to reclaim.
#[derive(Clone, Copy, Debug)]
pub struct ReclaimRequest<'a> {
    /// Unused bytes that may stay, in percent of all bytes.
    pub max_waste_percent: f64,
    /// The most bytes to read and write in a second; `None` for no limit.
    pub bytes_per_sec: Option<u64>,
    /// With it, records that are partly unused are packed anew; without it, they are copied as they are.
    pub secret: Option<OwnSecret<'a>>,
}

/// How to check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckRequest<'a> {
    /// Share of the containers to read, in percent; all without one.
    pub sample_percent: Option<f64>,
    /// The container after which reading begins; 0 for the first.
    pub position: u64,
    /// The most bytes to read in a second; `None` for no limit.
    pub bytes_per_sec: Option<u64>,
    /// Directories with a copy of the domain, from which damage is healed.
    pub copies: &'a [String],
}

/// How to copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CopyRequest<'a> {
    /// The directory of copies, or their address in a bucket.
    pub to: &'a Path,
    /// The domain; its copy has its name.
    pub domain: &'a str,
    /// The most bytes to read and write in a second; `None` for no limit.
    pub bytes_per_sec: Option<u64>,
    /// What goes from the copy; `None` for nothing.
    pub forget: Option<CopyForget>,
    /// What of that stays for longer; `None` for nothing.
    pub keep: Option<&'a CopyKeep>,
    /// Which snapshots are copied.
    pub only: &'a CopyOnly,
    /// How the bucket locks what locked snapshots need; `None` for not at all.
    pub object_lock: Option<ObjectLock>,
}

/// How to check a copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckCopyRequest<'a> {
    /// The directory of copies, or their address in a bucket.
    pub to: &'a Path,
    /// The domain; its copy has its name.
    pub domain: &'a str,
    /// What of it; what it is healed from is the domain.
    pub check: CheckRequest<'a>,
}

/// Why upkeep was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpkeepError {
    /// Another process holds the lease: it can be tried again.
    #[error("{0}")]
    Busy(String),
    /// Something is in doubt, so nothing was removed.
    #[error("{0}")]
    Doubt(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// Who keeps repositories up, beside the sessions that use them.
pub trait DomainUpkeep: Send + Sync {
    /// Frees the space that no snapshot needs, until nothing is left to do or `watch` ends it.
    ///
    /// # Errors
    /// [`UpkeepError`]; what was freed before stays so.
    fn reclaim(
        &self,
        folder: &Path,
        request: &ReclaimRequest<'_>,
        watch: &dyn Watch,
    ) -> Result<ReclaimReport, UpkeepError>;

    /// Copies the snapshots that the copy of the domain lacks, until all are there or `watch` ends it. Then locks what is
    /// to be locked, and removes from the copy what it is not to keep.
    ///
    /// # Errors
    /// [`UpkeepError`]; what was copied before stays so.
    fn copy(
        &self,
        folder: &Path,
        request: &CopyRequest<'_>,
        watch: &dyn Watch,
    ) -> Result<CopyReport, UpkeepError>;

    /// Reads what is stored, and looks for damage, which is healed from a copy, or else reported and not returned.
    ///
    /// # Errors
    /// [`UpkeepError`], when the storage is unreachable.
    fn check(
        &self,
        folder: &Path,
        request: &CheckRequest<'_>,
        watch: &dyn Watch,
    ) -> Result<CheckReport, UpkeepError>;

    /// The same in a copy of the domain, which is healed from it.
    ///
    /// # Errors
    /// [`UpkeepError`], when one of the two storages is unreachable, or there is no copy.
    fn check_copy(
        &self,
        folder: &Path,
        request: &CheckCopyRequest<'_>,
        watch: &dyn Watch,
    ) -> Result<CheckReport, UpkeepError>;
}

/// Has `worker` do this work in the repository of `folder`, with the server's own `secret` if it manages the keys.
pub fn carried_out(
    worker: &dyn DomainUpkeep,
    (folder, secret): (&Path, Option<OwnSecret<'_>>),
    work: &UpkeepWork,
    watch: &dyn Watch,
) -> UpkeepEnd {
    let done = match *work {
        UpkeepWork::Reclaim { max_waste_percent, bytes_per_sec } => {
            let request = ReclaimRequest { max_waste_percent, bytes_per_sec, secret };
            worker.reclaim(folder, &request, watch).map(UpkeepEnd::Reclaimed)
        }
        UpkeepWork::Copy {
            ref to,
            ref domain,
            bytes_per_sec,
            forget,
            ref keep,
            ref only,
            object_lock,
        } => {
            let (to, keep) = (Path::new(to), keep.as_ref());
            let request =
                CopyRequest { to, domain, bytes_per_sec, forget, keep, only, object_lock };
            worker.copy(folder, &request, watch).map(UpkeepEnd::Copied)
        }
        UpkeepWork::Check { sample_percent, position, bytes_per_sec, ref copies } => {
            let request = CheckRequest { sample_percent, position, bytes_per_sec, copies };
            worker.check(folder, &request, watch).map(UpkeepEnd::Checked)
        }
        UpkeepWork::CheckCopy { ref to, ref domain, sample_percent, position, bytes_per_sec } => {
            let check = CheckRequest { sample_percent, position, bytes_per_sec, copies: &[] };
            let request = CheckCopyRequest { to: Path::new(to), domain, check };
            worker.check_copy(folder, &request, watch).map(UpkeepEnd::Checked)
        }
    };
    done.unwrap_or_else(|error| match error {
        UpkeepError::Busy(why) => UpkeepEnd::Busy(why),
        UpkeepError::Doubt(why) => UpkeepEnd::Doubt(why),
        UpkeepError::Failed(why) => UpkeepEnd::Failed(why),
    })
}
