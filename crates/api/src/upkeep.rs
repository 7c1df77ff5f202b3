//! Upkeep: what the server does to domains by itself.

use crate::Name;
use crate::jobs::JobState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Starts an upkeep now.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StartUpkeep {
    /// Only in this domain; in all that it covers when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<Name>,
    /// Only this task: `expire`, `copy`, `reclaim`, `check` or `check-copy`; all of its tasks when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Only show what would start.
    pub dry_run: bool,
}

/// What a start comes to.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StartedUpkeep {
    /// One for each task in each domain.
    pub jobs: Vec<StartedUpkeepJob>,
}

/// Work on a domain that starts now.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StartedUpkeepJob {
    /// The domain.
    pub domain: String,
    /// `expire`, `copy`, `reclaim`, `check`, `check-copy` or `move`.
    pub task: String,
    /// Its job; missing in a dry run, and when the task has a job already that waits or runs in the domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
}

/// How the domains are kept up.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct UpkeepStatus {
    /// One row for each task in each domain that an upkeep covers, or that was done there.
    pub domains: Vec<DomainUpkeep>,
}

/// A task in a domain.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DomainUpkeep {
    /// The domain.
    pub domain: String,
    /// `expire`, `copy`, `reclaim`, `check` or `check-copy`.
    pub task: String,
    /// The upkeeps that do it.
    pub upkeeps: Vec<String>,
    /// When it is due next; missing when nothing is scheduled.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next: Option<i64>,
    /// The job that ended last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// When it ended.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended: Option<i64>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    /// What is wrong with the domain, and the command that helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm: Option<String>,
}

/// What a reclaim did: the report of its job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReclaimReport {
    /// Containers before.
    pub containers: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Objects that no snapshot refers to.
    pub dead_objects: u64,
    /// Containers that held nothing of use.
    pub containers_removed: u64,
    /// Containers whose objects in use were copied.
    pub containers_rewritten: u64,
    /// Containers that were worth it and stayed, because the job ended before or there was no room.
    pub containers_left: u64,
    /// Bytes copied.
    pub bytes_copied: u64,
    /// Bytes freed.
    pub bytes_freed: u64,
    /// Unused bytes that stay, estimated.
    pub bytes_wasted: u64,
    /// Those of them that stay because interrupted backups stored them.
    #[serde(default)]
    pub bytes_interrupted: u64,
    /// Those of them that stay because the lock helper keeps their containers.
    #[serde(default)]
    pub bytes_secured: u64,
}

/// What a check found: the report of its job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Snapshots whose data was looked for.
    pub snapshots: u64,
    /// Containers that were read.
    pub containers_read: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of these records.
    pub bytes: u64,
    /// How many things are damaged or missing.
    pub damaged: u64,
    /// The first of them, for people.
    pub damages: Vec<String>,
    /// The container up to which was read; 0 when the last one was reached.
    pub position: u64,
    /// Whether everything that was to be read was.
    pub is_done: bool,
    /// Containers and snapshots that were damaged and are whole again: of a domain from a copy, of a copy from its
    /// domain.
    #[serde(default)]
    pub healed: u64,
    /// What was asked of the bucket; nothing where no copy in a bucket was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Requests>,
}

/// What a copy did: the report of its job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyReport {
    /// Whether there was no copy before.
    pub created: bool,
    /// Snapshots that are there now and were not.
    pub snapshots: u64,
    /// Snapshots that were there before.
    pub present: u64,
    /// Snapshots that were copied before and forgotten there.
    pub forgotten_there: u64,
    /// Records that were copied.
    pub records: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Snapshots that were not copied, because parts of them are lost.
    pub left_out: u64,
    /// The first reasons, for people.
    pub reasons: Vec<String>,
    /// Whether everything that was to be copied was.
    pub is_done: bool,
    /// Snapshots that were removed from the copy, since they had expired in the domain long enough ago.
    #[serde(default)]
    pub expired: u64,
    /// Bytes that this freed in the copy.
    #[serde(default)]
    pub bytes_freed: u64,
    /// Objects of the bucket that Object Lock keeps for as long as locked snapshots need them, or for a year.
    #[serde(default)]
    pub objects_locked: u64,
    /// Objects that should be and are not.
    #[serde(default)]
    pub objects_not_locked: u64,
    /// Why not, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_locked: Option<String>,
    /// Keys in use whose files are damaged or missing in the domain and in the copy: their passwords do not open it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_keys: Vec<String>,
    /// What was asked of the bucket; nothing where the copy is in a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Requests>,
}

/// Requests to an object storage, by what providers charge for. Repeated ones count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Those that write objects or parts of them, or lock them.
    pub writes: u64,
    /// Those that list, of up to 1,000 names each.
    pub lists: u64,
    /// Those that read objects or parts of them, or ask for locks.
    pub reads: u64,
    /// Those that delete, of up to 1,000 objects each.
    pub deletes: u64,
    /// Bytes of what was written.
    pub sent_bytes: u64,
    /// Bytes of objects that were read.
    pub received_bytes: u64,
}

/// What a move of a domain did: the report of its job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MoveReport {
    /// Files that were copied.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// For how long nobody could use the domain, in milliseconds.
    pub closed_ms: u64,
}

/// The position behind all containers: a check that begins there reads none, and looks whether all of them are there.
pub const BEHIND_ALL: u64 = u64::MAX;

/// What a job of upkeep does: as a control server asks a storage server for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "kebab-case", deny_unknown_fields)]
pub enum UpkeepWork {
    /// Frees the space that no snapshot needs.
    Reclaim {
        /// Unused bytes that may stay, in percent of all bytes.
        max_waste_percent: f64,
        /// The most bytes to read and write in a second; no limit when missing.
        bytes_per_sec: Option<u64>,
    },
    /// Copies the snapshots of the domain to a second place.
    Copy {
        /// The directory of copies, or their address in a bucket; the copy of the domain has its name below that.
        to: String,
        /// The domain.
        domain: String,
        /// The most bytes to read and write in a second; no limit when missing.
        bytes_per_sec: Option<u64>,
        /// What goes from the copy; nothing when missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forget: Option<CopyForget>,
        /// What of that stays for longer; nothing when missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<CopyKeep>,
        /// Which snapshots are copied; all when missing.
        #[serde(default, skip_serializing_if = "CopyOnly::is_all")]
        only: CopyOnly,
        /// How the bucket locks what locked snapshots need; nothing is locked there when missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        object_lock: Option<ObjectLock>,
    },
    /// Reads what is stored, and looks for damage.
    Check {
        /// Share of the containers to read, in percent; all when missing.
        sample_percent: Option<f64>,
        /// The container after which reading begins; 0 for the first.
        position: u64,
        /// The most bytes to read in a second; no limit when missing.
        bytes_per_sec: Option<u64>,
        /// Directories with a copy of the domain, from which damage is healed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        copies: Vec<String>,
    },
    /// Reads what is stored in a copy of the domain, and looks for damage, which is healed from the domain.
    CheckCopy {
        /// The directory of copies, or their address in a bucket; the copy of the domain has its name below that.
        to: String,
        /// The domain.
        domain: String,
        /// Share of the containers to read, in percent; all when missing.
        sample_percent: Option<f64>,
        /// The container after which reading begins; 0 for the first.
        position: u64,
        /// The most bytes to read in a second; no limit when missing.
        bytes_per_sec: Option<u64>,
    },
}

/// Which snapshots are copied, by their receipts: those of one of the policies and one of the classes, where any are
/// named. A snapshot whose receipt nobody signed is copied in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CopyOnly {
    /// Names of policies; all if empty.
    pub policies: Vec<String>,
    /// Names of classes; all if empty.
    pub classes: Vec<String>,
}

impl CopyOnly {
    /// Whether nothing is left out.
    pub fn is_all(&self) -> bool {
        self.policies.is_empty() && self.classes.is_empty()
    }

    /// Whether a snapshot of this policy and class is copied.
    pub fn has(&self, policy: &str, class: &str) -> bool {
        let names = |all: &[String], name: &str| all.is_empty() || all.iter().any(|it| it == name);
        names(&self.policies, policy) && names(&self.classes, class)
    }
}

/// Who can end a lock of an object in a bucket early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectLock {
    /// Nobody, the owner of the bucket included.
    Compliance,
    /// Who has the permission to bypass it.
    Governance,
}

/// What a copy does not keep for ever.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyForget {
    /// What expired in the domain before this time goes from its copy, in seconds since 1970.
    pub expired_before: i64,
    /// Unused bytes of the copy that may stay then, in percent of all bytes.
    pub max_waste_percent: f64,
}

/// What a copy keeps of what expired in its domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyKeep {
    /// Rules as in the site file, for all policies: `zone` and `class`.
    pub retention: serde_json::Value,
    /// The present time, in seconds since 1970.
    pub now_secs: i64,
}

/// How a job of upkeep on a storage server is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UpkeepProgress {
    /// What is done now, in a word.
    pub stage: String,
    /// Bytes read and written since it began there.
    pub bytes: u64,
    /// The container up to which a check has read without finding damage; 0 for none.
    #[serde(default)]
    pub position: u64,
    /// What came of it, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<UpkeepEnd>,
}

/// What came of a job of upkeep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpkeepEnd {
    /// A reclaim was carried out, or ended early.
    Reclaimed(ReclaimReport),
    /// A copy was carried out, or ended early.
    Copied(CopyReport),
    /// A check was carried out, or ended early.
    Checked(CheckReport),
    /// Another process holds the lease: it can be tried again.
    Busy(String),
    /// Something is in doubt, so nothing was removed.
    Doubt(String),
    /// It failed otherwise.
    Failed(String),
}
