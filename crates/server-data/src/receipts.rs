//! Receipts: the server's signed statement of when it received a snapshot, and from which node. Readers
//! take order and age from it, not from the clocks of nodes.
//!
//! The folder `receipts` of the server's data has the key and the state: the number of the next receipt,
//! and a time that no later receipt precedes.

mod clock;

use clock::{Clock, Moment};
use crypto::Signer;
use format::expiry::{EXPIRY_CONTEXT, Expiry};
use format::manifest::Head;
use format::receipt::{CLOCK_UNCERTAIN, Lock, RECEIPT_CONTEXT, Receipt};
use ids::{RepositoryId, SnapshotId};
use parking_lot::Mutex;
use repository::receipts::ReceiptKey;
use server_contract::access_control::Labels;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use zeroize::Zeroizing;

/// Issues receipts.
pub struct Receipts {
    folder: PathBuf,
    signer: Signer,
    started: Instant,
    state: Mutex<State>,
}

struct State {
    counter: u64,
    clock: Clock,
}

/// What a receipt is about.
pub(super) struct Taken<'a> {
    pub(super) repository: RepositoryId,
    pub(super) snapshot: SnapshotId,
    pub(super) head: &'a Head,
    pub(super) begun_secs: i64,
    pub(super) node: &'a str,
    pub(super) labels: &'a Labels,
    pub(super) lock: Option<Lock>,
}

/// Longest text of a receipt in bytes.
const TEXT_BYTES_MAX: usize = u8::MAX as usize;

impl Receipts {
    /// Opens the receipts of the server whose data lies in `data`; creates the key if there is none.
    ///
    /// # Errors
    /// When a file cannot be read or written, or makes no sense: numbers and times are never begun anew
    /// by themselves.
    pub fn open(data: &Path) -> io::Result<Self> {
        let folder = data.join("receipts");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let signer = Signer::from_seed(*seed(&folder)?);
        let (counter, last_secs) = last(&folder)?;
        let state = Mutex::new(State { counter, clock: Clock::new(last_secs) });
        Ok(Self { folder, signer, started: Instant::now(), state })
    }

    /// The key that verifies them.
    pub fn key(&self) -> ReceiptKey {
        *self.signer.public().as_bytes()
    }

    /// The time of the trusted clock.
    pub(super) fn now_secs(&self) -> i64 {
        self.moment(&mut self.state.lock()).secs
    }

    fn moment(&self, state: &mut State) -> Moment {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        state.clock.read(wall.as_secs() as i64, self.started.elapsed().as_secs() as i64)
    }

    /// Issues a signed receipt. Its number is durably used up before.
    ///
    /// # Errors
    /// Those of the files; for a text that no receipt holds: it would be of another policy.
    pub(super) fn give(&self, taken: &Taken<'_>) -> io::Result<Vec<u8>> {
        let Labels { policy, source, class, .. } = taken.labels.clone();
        if [taken.node, &policy, &source, &class].iter().any(|text| text.len() > TEXT_BYTES_MAX) {
            return Err(io::Error::other("a name is too long for a receipt"));
        }
        let mut state = self.state.lock();
        let moment = self.moment(&mut state);
        let counter = state.counter;
        write(&self.folder, "last", format!("{} {}\n", counter + 1, moment.secs).as_bytes())?;
        state.counter += 1;
        drop(state);
        let head = taken.head;
        let receipt = Receipt {
            snapshot: taken.snapshot,
            source: head.source,
            root: head.root,
            time_secs: head.time_secs,
            begun_secs: taken.begun_secs.min(moment.secs),
            received_secs: moment.secs,
            counter,
            flags: if moment.is_doubtful { CLOCK_UNCERTAIN } else { 0 },
            key: self.key(),
            lock: taken.lock,
            node: taken.node.to_owned(),
            policy,
            source_name: source,
            class,
        };
        Ok(self.signed(RECEIPT_CONTEXT, taken.repository, receipt.encode()))
    }

    /// The signed statement that this server let `snapshots` of `repository` expire.
    pub(super) fn expiry(
        &self,
        repository: RepositoryId,
        snapshots: Vec<SnapshotId>,
        expired_secs: i64,
    ) -> Vec<u8> {
        let expiry = Expiry { key: self.key(), expired_secs, snapshots };
        self.signed(EXPIRY_CONTEXT, repository, expiry.encode())
    }

    /// `message` and the signature over it.
    fn signed(&self, context: &[u8], repository: RepositoryId, message: Vec<u8>) -> Vec<u8> {
        let signature = self.signer.sign(&[context, &repository.0, &message].concat());
        [&message[..], &signature].concat()
    }
}

fn damaged(folder: &Path, error: &io::Error) -> io::Error {
    let path = folder.join("key");
    let why = format!(
        "{} cannot be read: {error}. Bring it back from the copy of the server's files, or remove it: then the server makes a new key",
        path.display()
    );
    io::Error::new(error.kind(), why)
}

fn seed(folder: &Path) -> io::Result<Zeroizing<[u8; 32]>> {
    let mut seed = Zeroizing::new([0; 32]);
    match File::open(folder.join("key")) {
        Ok(mut file) => file.read_exact(&mut *seed).map_err(|error| damaged(folder, &error))?,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            getrandom::fill(&mut *seed).map_err(io::Error::other)?;
            write(folder, "key", &*seed)?;
        }
        Err(error) => return Err(error),
    }
    Ok(seed)
}

/// The next number, and the time of the last receipt.
fn last(folder: &Path) -> io::Result<(u64, i64)> {
    let path = folder.join("last");
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((1, 0)),
        text => text?,
    };
    let parsed = text.trim_end().split_once(' ');
    let parsed = parsed.and_then(|(next, secs)| Some((next.parse().ok()?, secs.parse().ok()?)));
    let bad = || format!("{} is damaged; to start again, remove its directory", path.display());
    parsed.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, bad()))
}

/// Durably writes a small file as a whole, for this user alone.
fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let (path, part) = (folder.join(name), folder.join(format!("{name}.new")));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&part, &path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::{KeyId, ObjectId};

    fn given(receipts: &Receipts) -> Receipt {
        let object = ObjectId([1; 24]);
        let head = Head {
            sequence: 1,
            source: object,
            source_sequence: 1,
            previous: SnapshotId([0; 16]),
            time_secs: 3,
            time_nanos: 0,
            root: object,
            level: 0,
            body: object,
            writer: KeyId([1; 8]),
            flags: 0,
            original: None,
        };
        let (repository, snapshot) = (RepositoryId([7; 16]), SnapshotId([2; 16]));
        let labels = Labels { policy: "daily".into(), ..Labels::default() };
        let (node, begun_secs, lock) = ("web", 5, Lock::new(9, 10));
        let taken =
            Taken { repository, snapshot, head: &head, begun_secs, node, labels: &labels, lock };
        Receipt::decode(&receipts.give(&taken).unwrap()).unwrap().0
    }

    #[test]
    fn key_and_numbers_survive_a_restart_and_no_number_is_given_twice() {
        let folder = tempfile::tempdir().unwrap();
        let first = Receipts::open(folder.path()).unwrap();
        let (one, two) = (given(&first), given(&first));
        let again = Receipts::open(folder.path()).unwrap();
        let three = given(&again);
        assert_eq!([one.counter, two.counter, three.counter], [1, 2, 3]);
        assert_eq!((one.key, one.key), (three.key, again.key()));
        assert!(one.received_secs <= two.received_secs && two.received_secs <= three.received_secs);
        assert_eq!((three.node.as_str(), three.begun_secs), ("web", 5));
        assert_eq!((three.policy.as_str(), three.lock), ("daily", Lock::new(9, 10)));
    }

    #[test]
    fn a_clock_that_went_back_while_the_server_was_off_makes_receipts_doubtful() {
        let folder = tempfile::tempdir().unwrap();
        drop(Receipts::open(folder.path()).unwrap());
        let future = 40_000_000_000;
        write(&folder.path().join("receipts"), "last", format!("9 {future}\n").as_bytes()).unwrap();
        let receipt = given(&Receipts::open(folder.path()).unwrap());
        assert_eq!((receipt.counter, receipt.flags), (9, CLOCK_UNCERTAIN));
        assert!(receipt.received_secs >= future);
    }

    #[test]
    fn what_cannot_be_understood_is_not_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        drop(Receipts::open(folder.path()).unwrap());
        for text in ["", "1", "x 5", "-1 5", "1 5 7"] {
            std::fs::write(folder.path().join("receipts/last"), text).unwrap();
            assert!(Receipts::open(folder.path()).is_err(), "{text:?}");
        }
    }
}
