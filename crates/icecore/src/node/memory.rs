//! What this machine remembers of its snapshots on the server: the last one of each source. A server
//! that shows an older state, or another one, is noticed; it may have been an administrator who
//! forgot snapshots, so this is reported and not refused.

use crate::codes::Code;
use crate::failure::{Failure, Result};
use ids::{ObjectId, SnapshotId};
use pipeline::UnlockedRepository;
use pipeline::backup::BackupOutcome;
use pipeline::manifest::ManifestReader;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use store::StoredSnapshot;

/// Enough for the last snapshots of a hundred thousand sources.
const BYTES_MAX: u64 = 16 << 20;

/// The last snapshot of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Last {
    /// Its number in the chain of its source.
    sequence: u64,
    /// Its id.
    id: String,
}

/// What the server shows that is older or other than what is remembered.
pub(crate) struct Doubt {
    /// The source whose snapshot it is.
    pub(crate) source: ObjectId,
    /// In words.
    pub(crate) text: String,
}

/// What the server says of the sources that are remembered.
#[derive(Default)]
pub(crate) struct Compared {
    pub(crate) doubts: Vec<Doubt>,
    /// The newest snapshots that it names, which its list has to have, too.
    pub(crate) named: Vec<SnapshotId>,
}

/// The file.
pub(crate) struct Memory {
    path: PathBuf,
    /// By source.
    last: BTreeMap<String, Last>,
}

impl Memory {
    /// What is remembered of the repository of `repository`.
    ///
    /// # Errors
    /// When the file does not say it. What was made before would be forgotten, and a server that goes back believed.
    pub(crate) fn load(folder: &Path, repository: &UnlockedRepository) -> Result<Self> {
        let name = format!("seen-{}.json", repository.store.config().repository);
        let path = folder.join(name);
        let last = match access::files::read_within(&path, BYTES_MAX) {
            Ok(Some(text)) => serde_json::from_str(&text).map_err(|_| damaged(&path))?,
            Ok(None) => BTreeMap::new(),
            Err(access::Error::File { source, .. }) if source.kind() == ErrorKind::InvalidData => {
                return Err(damaged(&path));
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self { path, last })
    }

    /// Compares what the server shows with what is remembered.
    pub(crate) fn compare(&self, repository: &UnlockedRepository) -> Result<Compared> {
        let known = self.last.iter();
        let known = known.filter_map(|(source, last)| Some((ObjectId::from_hex(source)?, last)));
        let (sources, lasts): (Vec<_>, Vec<_>) = known.unzip();
        let newest = repository.store.latest_snapshots(&sources);
        let mut compared = Compared::default();
        for ((source, newest), last) in sources.into_iter().zip(newest).zip(lasts) {
            let newest = newest.map_err(pipeline::Error::from)?;
            let named = newest.as_ref().map(|newest| newest.name.id);
            match doubt(repository, newest, last)? {
                Some(text) => compared.doubts.push(Doubt { source, text }),
                None => compared.named.extend(named),
            }
        }
        Ok(compared)
    }

    /// Of how many sources a snapshot is remembered.
    pub(crate) fn sources(&self) -> usize {
        self.last.len()
    }

    /// Remembers what this machine has just made. A lower number than before is remembered if it was told, when the
    /// repository was opened, that the server has gone back. Else the server has shown this one an older state only as
    /// the base of the backup: nothing is forgotten then, and what is missing is returned in words.
    pub(crate) fn note(
        &mut self,
        source: &ObjectId,
        done: &BackupOutcome,
        was_told: bool,
    ) -> Result<Option<String>> {
        let new = Last { sequence: done.source_sequence, id: done.snapshot.id.to_string() };
        if let Some(text) = self.learn(source, new, was_told) {
            return Ok(Some(text));
        }
        let text = serde_json::to_string(&self.last).unwrap_or_default();
        access::files::write(&self.path, &text)?;
        Ok(None)
    }

    fn learn(&mut self, source: &ObjectId, new: Last, was_told: bool) -> Option<String> {
        let source = source.to_string();
        let is_back = |last: &&Last| new.sequence < last.sequence && !was_told;
        if let Some(last) = self.last.get(&source).filter(is_back) {
            return Some(missing(&last.id));
        }
        self.last.insert(source, new);
        None
    }
}

fn damaged(path: &Path) -> Failure {
    let shown = path.display();
    Failure::new(
        Code::Damage,
        format!("{shown} is damaged: it does not say which snapshots this machine made"),
    )
    .hint(format!(
        "To see which ones the server has: icecore server snapshots DOMAIN. To trust what it presents now: rm {shown}"
    ))
}

fn doubt(
    repository: &UnlockedRepository,
    newest: Option<StoredSnapshot>,
    last: &Last,
) -> Result<Option<String>> {
    let Some(newest) = newest else { return Ok(Some(missing(&last.id))) };
    // Its name is a hash of all that it says and of its signature.
    if newest.name.id.to_string() == last.id {
        return Ok(None);
    }
    if !is_signed(repository, &newest)? {
        return Ok(Some(format!(
            "the server lists snapshot {} as the newest, but no key of this repository signed it. To see what was done: icecore server audit",
            newest.name.id
        )));
    }
    if newest.head.source_sequence > last.sequence {
        return Ok(None);
    }
    if newest.head.source_sequence < last.sequence {
        return Ok(Some(missing(&last.id)));
    }
    // With the same number, by the same key: two machines, or a copy of the repository that went its own way.
    Ok(Some(format!(
        "the server shows snapshot {} in the place of snapshot {}, which this machine made: another machine is a copy of this one, or the server presents another state. To see who did it: icecore server audit. To give a copy of this machine an identity of its own, there: icecore agent enroll URL TOKEN --replace",
        short(&newest.name.id.to_string()),
        short(&last.id)
    )))
}

/// That a snapshot is missing, in words.
pub(crate) fn missing(id: &str) -> String {
    format!(
        "the server does not list snapshot {}, which this machine made: somebody forgot it, or the server presents an older state. To see who did it: icecore server audit",
        short(id)
    )
}

fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// Whether a key that is known here has signed it.
fn is_signed(repository: &UnlockedRepository, stored: &StoredSnapshot) -> Result<bool> {
    match ManifestReader::new(repository)?.check_signature(stored) {
        Err(pipeline::Error::Untrusted { .. }) => Ok(false),
        checked => checked.map(|_| true).map_err(Into::into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_goes_back_only_where_that_was_told() {
        let last = |sequence: u64| Last { sequence, id: format!("{sequence:032x}") };
        let mut memory = Memory { path: PathBuf::new(), last: BTreeMap::new() };
        let source = ObjectId::from_hex(&"7".repeat(2 * ObjectId::LEN)).unwrap();
        let known = |memory: &Memory| memory.last.values().next().unwrap().sequence;
        for (sequence, was_told, remembered) in
            [(5, false, 5), (2, false, 5), (5, false, 5), (6, false, 6), (1, true, 1)]
        {
            let told = memory.learn(&source, last(sequence), was_told);
            assert_eq!(known(&memory), remembered, "{sequence}");
            assert_eq!(told.is_some(), sequence < remembered, "{sequence}");
        }
    }
}
