//! A session on a server.

use crate::Remote;
use crate::as_store::bad_reply;
use crate::stream::{Pending, Stream};
use crate::stream_scaler::{STREAMS_MAX, Step, StreamScaler};
use format::manifest::{Head, snapshot_id};
use format::record::{self, SealedRecord};
use ids::ObjectId;
use parking_lot::Mutex;
use protocol::frame::{HEADER_BYTES, Header};
use protocol::limits::IDS_MAX;
use protocol::packet::{PathBytes, SnapshotName, kind};
use protocol::{Packet, flags};
use rustc_hash::FxHashSet;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use store::{Claim, CommittedSnapshot, PendingReply, Result, SnapshotRef, WriteSession};

/// Maximum number of ids that are remembered, so that they are not claimed again: about 16 MB.
const SEEN_MAX: usize = 1 << 18;
/// How often to ask again while another writer holds the repository, or the server cannot answer.
const TURN_EVERY: Duration = Duration::from_secs(3);

/// A session on a server.
pub(crate) struct RemoteWriteSession {
    remote: Arc<Remote>,
    /// Name and secret: for further streams.
    token: ([u8; 16], [u8; 16]),
    scaler: StreamScaler,
    /// Number of streams that get new records: the others are idle.
    used: AtomicUsize,
    /// Number of this session on the connection.
    epoch: u64,
    /// Whether the domain was empty at the start: then what this session has not seen is new.
    is_empty: bool,
    seen: Mutex<Seen>,
    committed: AtomicBool,
}

/// Recently seen ids, in two generations: when the younger one is full, the older one is dropped.
#[derive(Default)]
struct Seen {
    young: FxHashSet<[u8; 12]>,
    old: FxHashSet<[u8; 12]>,
    /// Whether some were dropped.
    is_partial: bool,
}

impl Seen {
    /// Whether `id` was seen before; it is from now on.
    fn see(&mut self, id: &ObjectId) -> bool {
        let mut prefix = [0; 12];
        prefix.copy_from_slice(&id.0[..12]);
        if self.young.contains(&prefix) || self.old.contains(&prefix) {
            return true;
        }
        if self.young.len() >= SEEN_MAX / 2 {
            self.is_partial |= !self.old.is_empty();
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(prefix);
        false
    }
}

impl RemoteWriteSession {
    pub(crate) fn begin(
        remote: Arc<Remote>,
        base: Option<SnapshotRef>,
        session_record: &SealedRecord,
    ) -> Result<Self> {
        remote.end_left_session();
        let base = base.map(|name| SnapshotName { sequence: name.sequence, id: name.id });
        let record = PathBytes(session_record.to_bytes());
        let begin = Packet::Begin { base, what: remote.endpoint.what.clone(), record };
        let Packet::Begun { session, secret, is_empty } = begun(&remote, &begin)? else {
            return Err(bad_reply("Begin"));
        };
        let epoch = remote.first.begin_session();
        // A session that the server lost has left its own behind.
        remote.leave_streams();
        for _ in 1..remote.endpoint.streams {
            remote.add_stream(session, secret);
        }
        let (seen, committed) = Default::default();
        let (token, scaler) = ((session, secret), StreamScaler::default());
        let used = AtomicUsize::new(usize::MAX);
        Ok(Self { remote, token, scaler, used, epoch, is_empty, seen, committed })
    }

    /// Adds a stream when it helps, unless the number of streams is configured.
    fn grow(&self) {
        if self.remote.endpoint.streams > 0 || !self.scaler.is_due() {
            return;
        }
        let streams = self.remote.streams().len();
        match self.scaler.look(self.remote.report()) {
            Step::Add if streams < STREAMS_MAX => {
                self.remote.add_stream(self.token.0, self.token.1)
            }
            Step::Rest => self.used.store(streams - 1, Ordering::Relaxed),
            Step::Add | Step::Stay => {}
        }
    }

    /// The stream with the fewest bytes in flight.
    fn stream(&self) -> Arc<Stream> {
        let first = self.remote.first.clone();
        let all = self.remote.streams().into_iter().take(self.used.load(Ordering::Relaxed));
        all.min_by_key(|stream| stream.bytes_in_flight()).unwrap_or(first)
    }
}

/// Begins a session; waits while a command on the server's machine holds the repository.
fn begun(remote: &Remote, begin: &Packet) -> Result<Packet> {
    let start = Instant::now();
    loop {
        match remote.first.call(begin) {
            Err(store::Error::InUse { .. }) if start.elapsed() < remote.endpoint.patience => {
                std::thread::sleep(TURN_EVERY);
            }
            begun => return begun,
        }
    }
}

impl RemoteWriteSession {
    /// Asks again while the server cannot say yes or no: a storage server whose control server is away has made
    /// neither a receipt nor a snapshot, and everything that was sent is there.
    fn ask_to_commit(&self, commit: &Packet) -> Result<Packet> {
        let (remote, start) = (&self.remote, Instant::now());
        loop {
            let reply = remote.first.call_in(self.epoch, commit);
            let may_wait = start.elapsed() < remote.endpoint.patience && !remote.first.is_over();
            if !(may_wait && reply.as_ref().is_err_and(is_busy)) {
                return reply;
            }
            std::thread::sleep(TURN_EVERY);
        }
    }

    /// Waits until the server has taken all that was appended.
    fn drain(&self) -> Result<()> {
        self.remote.first.drain(self.epoch)?;
        self.remote.more.lock().iter().try_for_each(|stream| stream.drain(0))
    }
}

impl WriteSession for RemoteWriteSession {
    fn claim(&self, id: &ObjectId) -> Result<Claim> {
        let mut seen = self.seen.lock();
        if seen.see(id) {
            return Ok(Claim::Duplicate);
        }
        Ok(if self.is_empty && !seen.is_partial { Claim::New } else { Claim::Unknown })
    }

    fn query(&self, ids: &[ObjectId]) -> Result<Box<dyn PendingReply>> {
        let ask = |ids: &[ObjectId]| {
            let claim = Packet::Claim { ids: ids.to_vec() };
            let pending = self.remote.first.request_in(self.epoch, &claim)?;
            Ok((ids.len(), pending))
        };
        Ok(Box::new(PendingClaims(ids.chunks(IDS_MAX).map(ask).collect::<Result<_>>()?)))
    }

    fn are_stored(&self, ids: &[ObjectId]) -> Result<Vec<bool>> {
        let mut all = Vec::with_capacity(ids.len());
        for ids in ids.chunks(IDS_MAX) {
            let holds = Packet::Holds { ids: ids.to_vec() };
            let answer = self.remote.first.call_in(self.epoch, &holds)?;
            all.extend(unpack(answer, ids.len())?);
        }
        Ok(all)
    }

    fn append(&self, record: &SealedRecord) -> Result<()> {
        self.grow();
        let stream = self.stream();
        // Only the first stream knows when a session is lost; the others end with it.
        let epoch = if Arc::ptr_eq(&stream, &self.remote.first) { self.epoch } else { 0 };
        stream.send_record(append_frame(record), epoch)
    }

    fn next_snapshot(&self) -> Result<u64> {
        match self.remote.first.call_in(self.epoch, &Packet::GetNumber {})? {
            Packet::Number { number } => Ok(number),
            _ => Err(bad_reply("GetNumber")),
        }
    }

    fn stored_bytes(&self) -> u64 {
        let streams = self.remote.streams();
        streams.iter().map(|stream| stream.stored_bytes()).max().unwrap_or(0)
    }

    fn acknowledged_bytes(&self) -> Result<u64> {
        self.drain()?;
        Ok(self.stored_bytes())
    }

    fn checkpoint(&self) -> Result<()> {
        if self.remote.opened.version < protocol::VERSION_CHECKPOINT {
            return Ok(());
        }
        match self.remote.first.call_in(self.epoch, &Packet::Checkpoint {})? {
            Packet::Done {} => Ok(()),
            _ => Err(bad_reply("Checkpoint")),
        }
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn commit(self: Box<Self>, manifest: &SealedRecord) -> Result<CommittedSnapshot> {
        self.drain()?;
        let own = own_name(manifest)?;
        let manifest = manifest.to_bytes();
        match self.ask_to_commit(&Packet::Commit { manifest })? {
            Packet::Committed { name, stored_bytes } if name == own => {
                self.committed.store(true, Ordering::Relaxed);
                self.remote.leave_session();
                let snapshot = SnapshotRef { sequence: name.sequence, id: name.id };
                Ok(CommittedSnapshot { snapshot, stored_bytes })
            }
            _ => Err(bad_reply("Commit")),
        }
    }
}

/// Whether the server works, and cannot answer yet.
fn is_busy(error: &store::Error) -> bool {
    matches!(error, store::Error::Storage(error) if error.source.kind() == ErrorKind::ConnectionRefused)
}

/// The name of the snapshot of `manifest`, computed here.
fn own_name(manifest: &SealedRecord) -> Result<SnapshotName> {
    let damaged = |reason| store::Error::damaged("the manifest", reason);
    let record = record::head_only(&manifest.associated).map_err(damaged)?;
    let (head, _) = Head::decode(record.clear).map_err(damaged)?;
    Ok(SnapshotName { sequence: head.sequence, id: snapshot_id(record.clear) })
}

impl Drop for RemoteWriteSession {
    fn drop(&mut self) {
        let is_there = !self.remote.first.is_over() && self.remote.first.epoch() == self.epoch;
        if is_there && !self.committed.load(Ordering::Relaxed) {
            self.remote.ended_without_snapshot();
        }
    }
}

/// The frame of `Append`: the record, and a tail without fields. Built in one go: it is most of what
/// is ever sent.
fn append_frame(record: &SealedRecord) -> Vec<u8> {
    let sum = record.checksum();
    let parts: [&[u8]; 4] = [&record.associated, &record.sealed, &sum, &[0, 0]];
    let body_bytes = parts.iter().map(|part| part.len()).sum();
    let mut frame = Vec::with_capacity(HEADER_BYTES + body_bytes);
    frame.extend_from_slice(&Header { kind: kind::Append, request: 0, body_bytes }.encode());
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    frame
}

/// Claims whose replies are pending.
struct PendingClaims(Vec<(usize, Pending)>);

impl PendingReply for PendingClaims {
    fn is_ready(&self) -> bool {
        self.0.iter().all(|(_, pending)| pending.is_ready())
    }

    fn wait(self: Box<Self>) -> Result<Vec<bool>> {
        let mut all = Vec::new();
        for (count, pending) in self.0 {
            all.extend(unpack(pending.wait()?, count)?);
        }
        Ok(all)
    }
}

fn unpack(answer: Packet, count: usize) -> Result<Vec<bool>> {
    match answer {
        Packet::Flags { count: said, bits } => {
            flags::unpack(said, &bits, count).map_err(|_| bad_reply("Claim"))
        }
        _ => Err(bad_reply("Claim")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::record::RecordKind;

    #[test]
    fn the_frame_of_a_record_is_that_of_its_packet() {
        let (associated, sealed) = (vec![1; 48], vec![2; 100]);
        let record = SealedRecord { kind: RecordKind::Data, ids: vec![], associated, sealed };
        let packet = Packet::Append { record: record.to_bytes() };
        assert_eq!(append_frame(&record), packet.frame(0));
    }

    #[test]
    fn memory_for_ids_is_bounded_and_what_is_lately_seen_is_known() {
        let mut seen = Seen::default();
        let id = |number: u32| {
            let mut id = ObjectId([0; 24]);
            id.0[..4].copy_from_slice(&number.to_le_bytes());
            id
        };
        for number in 0..SEEN_MAX as u32 {
            assert!(!seen.see(&id(number)));
            assert!(seen.see(&id(number)));
            assert!(!seen.is_partial);
        }
        assert!(!seen.see(&id(SEEN_MAX as u32)));
        assert!(seen.is_partial, "who forgot something no longer knows what is new");
        assert!(seen.young.len() + seen.old.len() <= SEEN_MAX);
    }
}
