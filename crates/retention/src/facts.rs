//! What a server knows of a snapshot without any key.

use ids::{ObjectId, SnapshotId};

/// A snapshot, as the rules see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its id.
    pub id: SnapshotId,
    /// Its position in the order in which snapshots of its repository were made. It decides which of
    /// two snapshots received in one second is the newer one; then the id does.
    pub number: u64,
    /// The node that it came from.
    pub node: String,
    /// The source that it shows.
    pub source: String,
    /// Which paths it shows, as an id: equal ids are equal paths. `None` if nobody knows.
    pub paths: Option<ObjectId>,
    /// The policy that its source belongs to now.
    pub policy: String,
    /// The class of that policy that its source is bound to now.
    pub class: String,
    /// When the server received it, in seconds since 1970.
    pub received_secs: i64,
    /// Whether the backup could not read everything.
    pub is_partial: bool,
    /// Why its time is in doubt.
    pub suspect: Option<String>,
    /// Its tags. `None` if nobody knows, since they are sealed: then a rule that keeps by tags keeps it.
    pub tags: Option<Vec<String>>,
    /// The lock that was written beside it: until then nobody can delete it.
    pub locked_until_secs: Option<i64>,
    /// Whether the next snapshot of its source lacks objects that it has. `None` if nobody knows,
    /// which counts as yes.
    pub has_deleted_objects: Option<bool>,
    /// Since when its source is deleted. Only an administrator says so, by name: a source that is
    /// merely not backed up any more is not deleted.
    pub source_deleted_secs: Option<i64>,
    /// Set while it is in the trash.
    pub trashed: Option<Trashed>,
}

/// A snapshot in the trash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trashed {
    /// Since when.
    pub since_secs: i64,
    /// What put it there.
    pub by: TrashedBy,
}

/// What put a snapshot into the trash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrashedBy {
    /// The rules. If they come to keep it, it comes back.
    Rules,
    /// An administrator, by name. It counts for no rule, and comes back only by name.
    Name,
    /// An administrator, by name, and without waiting for the end of the trash period.
    NameAtOnce,
}

impl Facts {
    /// Whether somebody named it to be deleted.
    pub fn is_named(&self) -> bool {
        matches!(self.trashed, Some(Trashed { by: TrashedBy::Name | TrashedBy::NameAtOnce, .. }))
    }

    /// What the rules treat as one: the snapshots of one source in one class.
    pub(crate) fn series(&self) -> [&str; 4] {
        [&self.node, &self.source, &self.policy, &self.class]
    }

    /// Sorts the newest first.
    pub(crate) fn age_order(&self) -> impl Ord + use<> {
        std::cmp::Reverse((self.received_secs, self.number, self.id))
    }
}
