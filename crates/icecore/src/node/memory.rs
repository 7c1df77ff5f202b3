//! What this machine remembers of its snapshots on the server: the last one of each source. A server
//! that shows an older state, or another one, is noticed; it may have been an administrator who
//! forgot snapshots, so this is reported and not refused.

use crate::codes::Code;
use crate::failure::{Failure, Result};
use ids::ObjectId;
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

    /// What the server shows that is older or other than what is remembered, in words.
    pub(crate) fn doubts(&self, repository: &UnlockedRepository) -> Result<Vec<String>> {
        let known = self.last.iter();
        let known = known.filter_map(|(source, last)| Some((ObjectId::from_hex(source)?, last)));
        let (sources, lasts): (Vec<_>, Vec<_>) = known.unzip();
        let mut doubts = Vec::new();
        for (newest, last) in repository.store.latest_snapshots(&sources).into_iter().zip(lasts) {
            doubts.extend(doubt(repository, newest.map_err(pipeline::Error::from)?, last)?);
        }
        Ok(doubts)
    }

    /// Of how many sources a snapshot is remembered.
    pub(crate) fn sources(&self) -> usize {
        self.last.len()
    }

    /// Remembers what this machine has just made, whatever the server says of it.
    pub(crate) fn note(&mut self, source: &ObjectId, done: &BackupOutcome) -> Result<()> {
        let last = Last { sequence: done.source_sequence, id: done.snapshot.id.to_string() };
        self.last.insert(source.to_string(), last);
        let text = serde_json::to_string(&self.last).unwrap_or_default();
        Ok(access::files::write(&self.path, &text)?)
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
    let missing = format!(
        "the server does not list snapshot {}, which this machine made: somebody forgot it, or the server presents an older state. To see who did it: icecore server audit",
        short(&last.id)
    );
    let Some(newest) = newest else { return Ok(Some(missing)) };
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
        return Ok(Some(missing));
    }
    // With the same number, by the same key: two machines, or a copy of the repository that went its own way.
    Ok(Some(format!(
        "the server shows snapshot {} in the place of snapshot {}, which this machine made: another machine is a copy of this one, or the server presents another state. To see who did it: icecore server audit. To give a copy of this machine an identity of its own, there: icecore agent enroll URL TOKEN --replace",
        short(&newest.name.id.to_string()),
        short(&last.id)
    )))
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
