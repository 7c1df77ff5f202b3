//! One stream of a connection, without its I/O: requests that wait for answers, records on their
//! way, and what has to be sent again after a disconnect.

pub mod fuzzing;

use crate::Failure;
use crate::server_messages::ServerMessages;
use parking_lot::{Condvar, Mutex, MutexGuard};
use protocol::window::Window;
use protocol::{Packet, packet};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::Result;
use tokio::sync::Notify;
use transport::waits::Waits;

/// A frame to be written.
pub(crate) type Frame = Arc<Vec<u8>>;

/// Maximum number of requests of one stream without a reply; further callers wait.
const REQUESTS_MAX: usize = protocol::limits::REQUESTS_MAX / 2;

/// One stream.
pub(crate) struct Stream {
    state: Mutex<State>,
    /// An answer, a acknowledgment, or the end.
    changed: Condvar,
    /// Signals that there is something to write.
    pub(crate) wake_writer: Notify,
    /// Waits for room in the send window: the network or the server is the bottleneck.
    pub(crate) empty_waits: Waits,
    /// Bytes of records that were sent again after a disconnect.
    pub(crate) resent_bytes: AtomicU64,
    /// Unsolicited messages.
    server_messages: Arc<ServerMessages>,
}

struct State {
    unsent: VecDeque<Frame>,
    /// Records among them.
    unsent_records: u64,
    /// The latest of what nobody answers: it overtakes what waits.
    told: Option<Frame>,
    requests: BTreeMap<u32, Request>,
    window: Window<Frame>,
    next_request: u32,
    stored_bytes: u64,
    /// Number of the session; it rises when the server has lost one.
    epoch: u64,
    /// Answers and acknowledgments that brought something new.
    answers: u64,
    /// When the latest of these came, or what is owed was all written.
    quiet_since: Instant,
    /// Something was given out to be written since.
    is_writing: bool,
    over: Option<Failure>,
}

struct Request {
    frame: Frame,
    /// Nobody answers what was not written yet: else who does could have us hold any number of frames.
    is_written: bool,
    answer: Option<std::result::Result<Packet, Failure>>,
    /// Nobody waits for the answer any more.
    is_abandoned: bool,
    /// Its answer belongs to a session, and there is none without it.
    is_of_session: bool,
}

impl Request {
    fn new(frame: Frame, is_of_session: bool) -> Self {
        Self { frame, is_written: false, answer: None, is_abandoned: false, is_of_session }
    }

    fn waits_for_session(&self) -> bool {
        self.is_of_session && self.answer.is_none()
    }
}

/// Records are no requests.
const RECORD: u32 = 0;

/// Number of the request in a frame.
fn number_of(frame: &[u8]) -> u32 {
    frame.get(4..8).and_then(|bytes| bytes.try_into().ok()).map_or(RECORD, u32::from_le_bytes)
}

/// A request whose reply is pending.
pub(crate) struct Pending {
    stream: Arc<Stream>,
    number: u32,
}

impl Stream {
    pub(crate) fn new(server_messages: Arc<ServerMessages>) -> Arc<Self> {
        let state = State {
            unsent: VecDeque::new(),
            unsent_records: 0,
            told: None,
            requests: BTreeMap::new(),
            window: Window::new(protocol::limits::WINDOW_BYTES_MAX / 2),
            next_request: 1,
            stored_bytes: 0,
            epoch: 0,
            answers: 0,
            quiet_since: Instant::now(),
            is_writing: false,
            over: None,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            wake_writer: Notify::new(),
            empty_waits: Waits::default(),
            resent_bytes: AtomicU64::new(0),
            server_messages,
        })
    }

    /// Sends a request; the reply comes later.
    pub(crate) fn request(self: &Arc<Self>, packet: &Packet) -> Result<Pending> {
        self.request_of(packet, None)
    }

    /// The same within the session `epoch`: when that is lost, nothing is asked of another one.
    pub(crate) fn request_in(self: &Arc<Self>, epoch: u64, packet: &Packet) -> Result<Pending> {
        self.request_of(packet, Some(epoch))
    }

    fn request_of(self: &Arc<Self>, packet: &Packet, epoch: Option<u64>) -> Result<Pending> {
        let mut state = self.state.lock();
        while state.over.is_none() && state.waiting() >= REQUESTS_MAX {
            self.changed.wait(&mut state);
        }
        state.check_in(epoch.unwrap_or(state.epoch))?;
        let number = state.next_request;
        // 0 is for what is no request.
        state.next_request = number.checked_add(1).unwrap_or(1);
        let frame = Arc::new(packet.frame(number));
        state.requests.insert(number, Request::new(frame.clone(), epoch.is_some()));
        state.unsent.push_back(frame);
        drop(state);
        self.wake_writer.notify_one();
        Ok(Pending { stream: self.clone(), number })
    }

    /// Sends a request and waits for the reply.
    pub(crate) fn call(self: &Arc<Self>, packet: &Packet) -> Result<Packet> {
        self.request(packet)?.wait()
    }

    /// Sends a request within the session `epoch`, and waits for the reply.
    pub(crate) fn call_in(self: &Arc<Self>, epoch: u64, packet: &Packet) -> Result<Packet> {
        self.request_in(epoch, packet)?.wait()
    }

    /// Sends a frame that is acknowledged some time, in the session `epoch`. Waits while too much is on
    /// its way.
    pub(crate) fn send_record(&self, frame: Vec<u8>, epoch: u64) -> Result<()> {
        let bytes = frame.len();
        let mut state = self.state.lock();
        let before = Instant::now();
        while state.is_in(epoch) && !state.window.has_room_for(bytes) {
            self.changed.wait(&mut state);
        }
        self.empty_waits.add(before.elapsed());
        state.check_in(epoch)?;
        let frame = Arc::new(frame);
        state.window.push(frame.clone(), bytes);
        state.unsent.push_back(frame);
        state.unsent_records += 1;
        drop(state);
        self.wake_writer.notify_one();
        Ok(())
    }

    /// Sends something that nobody answers, before all that waits. A later one takes the place of one
    /// that was not sent yet.
    pub(crate) fn tell(&self, packet: &Packet) {
        self.state.lock().told = Some(Arc::new(packet.frame(0)));
        self.wake_writer.notify_one();
    }

    /// Waits until every record of the session `epoch` is acknowledged.
    pub(crate) fn drain(&self, epoch: u64) -> Result<()> {
        self.drain_to(0, epoch)
    }

    /// Waits until at most `bytes` of them are not acknowledged.
    pub(crate) fn drain_to(&self, bytes: usize, epoch: u64) -> Result<()> {
        let mut state = self.state.lock();
        while state.is_in(epoch) && state.window.bytes() > bytes {
            self.changed.wait(&mut state);
        }
        state.check_in(epoch)
    }

    /// Bytes of records in flight.
    pub(crate) fn bytes_in_flight(&self) -> usize {
        self.state.lock().window.bytes()
    }

    /// Bytes that the session has stored, by the last acknowledgment of this stream.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.state.lock().stored_bytes
    }

    /// The next frame to write.
    pub(crate) fn next_frame(&self) -> Option<Frame> {
        let mut state = self.state.lock();
        state.told.take().or_else(|| state.next_unsent())
    }

    /// Handles a received packet.
    pub(crate) fn receive(&self, number: u32, packet: Packet) -> std::result::Result<(), Failure> {
        let mut state = self.state.lock();
        match packet {
            Packet::Stored { applied, stored_bytes } => {
                let before = state.window.bytes();
                state.acknowledge(applied)?;
                if state.window.bytes() < before {
                    state.progressed();
                }
                state.stored_bytes = stored_bytes;
            }
            Packet::Limits { .. } | Packet::Command { .. } | Packet::Cancel { .. } => {
                drop(state);
                return self.server_messages.take(packet);
            }
            // Noise is counted by its request's end.
            Packet::Noise { .. } => state.progressed(),
            // Who owes more than that it is there has brought nothing.
            Packet::Pong {} if state.is_reply_due() => {}
            Packet::Pong {} => state.progressed(),
            Packet::Fault { .. } if number == 0 => return Err(Failure::from_packet(packet)),
            packet => state.answer(number, packet)?,
        }
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// The connection is new: what was not acknowledged or answered is sent again. `applied` is the
    /// number of records that the other end has taken, when it still knows the session.
    pub(crate) fn reconnected(&self, applied: Option<u64>) -> std::result::Result<(), Failure> {
        let mut state = self.state.lock();
        match applied {
            Some(applied) => state.acknowledge(applied)?,
            // Without a session nobody keeps count: what was in flight is lost.
            None if state.window.sent_frames() > 0 => {
                state.epoch += 1;
                state.window = Window::new(protocol::limits::WINDOW_BYTES_MAX / 2);
            }
            None => {}
        }
        state.send_again();
        self.resent_bytes.fetch_add(state.window.bytes() as u64, Ordering::Relaxed);
        drop(state);
        self.changed.notify_all();
        self.wake_writer.notify_one();
        Ok(())
    }

    /// All that [`Stream::next_frame`] gave is written.
    pub(crate) fn written(&self) {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.is_writing) {
            state.quiet_since = Instant::now();
        }
    }

    /// For how long the other end has sent nothing that was requested, whatever else it sent.
    pub(crate) fn overdue_for(&self) -> Duration {
        let state = self.state.lock();
        if state.is_reply_due() { state.quiet_since.elapsed() } else { Duration::ZERO }
    }

    /// Count of replies and acknowledgments: rises while the other end makes progress.
    pub(crate) fn answers(&self) -> u64 {
        self.state.lock().answers
    }

    /// Number of the session: another one after a session was lost.
    pub(crate) fn epoch(&self) -> u64 {
        self.state.lock().epoch
    }

    /// Begins a session: counts start at 0 on both ends. Returns its number.
    pub(crate) fn begin_session(&self) -> u64 {
        let mut state = self.state.lock();
        state.epoch += 1;
        state.unsent.retain(|frame| number_of(frame) != RECORD);
        state.unsent_records = 0;
        state.window = Window::new(protocol::limits::WINDOW_BYTES_MAX / 2);
        state.stored_bytes = 0;
        state.epoch
    }

    /// The server has lost the session: nobody waits for what belonged to it, and what comes next
    /// is of another one. Other requests wait for the next connection: who heard of the loss from another
    /// stream may have asked for a new session already.
    pub(crate) fn lose_session(&self, failure: &Failure) {
        let mut state = self.state.lock();
        state.epoch += 1;
        state.unsent.clear();
        state.unsent_records = 0;
        state.window = Window::new(protocol::limits::WINDOW_BYTES_MAX / 2);
        state.stored_bytes = 0;
        state.requests.retain(|_, request| !request.is_abandoned);
        let lost = state.requests.values_mut().filter(|request| request.waits_for_session());
        lost.for_each(|request| request.answer = Some(Err(failure.clone())));
        drop(state);
        self.changed.notify_all();
    }

    /// Ends the stream.
    pub(crate) fn end(&self, failure: Failure) {
        self.state.lock().over.get_or_insert(failure);
        self.changed.notify_all();
        self.wake_writer.notify_one();
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.state.lock().over.is_some()
    }

    fn wait(&self, number: u32) -> Result<Packet> {
        let mut state = self.state.lock();
        loop {
            if state.has_answer(number) {
                let answer = state.requests.remove(&number).and_then(|request| request.answer);
                self.changed.notify_all();
                return match answer {
                    Some(Ok(packet)) => Ok(packet),
                    Some(Err(failure)) => Err(failure.into_error()),
                    None => Err(Failure::ProtocolError("an answer is gone".into()).into_error()),
                };
            }
            state.check()?;
            self.changed.wait(&mut state);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn waiting(&self) -> usize {
        self.requests.values().filter(|request| request.answer.is_none()).count()
    }

    fn is_in(&self, epoch: u64) -> bool {
        self.over.is_none() && self.epoch == epoch
    }

    fn check_in(&self, epoch: u64) -> Result<()> {
        self.check()?;
        if self.epoch == epoch { Ok(()) } else { Err(store::Error::SessionLost) }
    }

    fn check(&self) -> Result<()> {
        match &self.over {
            Some(failure) => Err(failure.clone().into_error()),
            None => Ok(()),
        }
    }

    /// Whether an answer or a acknowledgment has to come.
    fn is_reply_due(&self) -> bool {
        self.waiting() > 0 || self.window.bytes() > 0
    }

    /// The other end has made progress.
    fn progressed(&mut self) {
        self.answers += 1;
        self.quiet_since = Instant::now();
    }

    fn has_answer(&self, number: u32) -> bool {
        self.requests.get(&number).is_none_or(|request| request.answer.is_some())
    }

    fn next_unsent(&mut self) -> Option<Frame> {
        let frame = self.unsent.pop_front()?;
        self.is_writing = true;
        match number_of(&frame) {
            RECORD => self.unsent_records -= 1,
            number => {
                let request = self.requests.get_mut(&number);
                request.into_iter().for_each(|request| request.is_written = true);
            }
        }
        Some(frame)
    }

    /// What was not answered or acknowledged is written once more.
    fn send_again(&mut self) {
        self.unsent.clear();
        for request in self.requests.values_mut().filter(|request| request.answer.is_none()) {
            request.is_written = false;
            self.unsent.push_back(request.frame.clone());
        }
        let requests = self.unsent.len();
        self.unsent.extend(self.window.unacknowledged().cloned());
        self.unsent_records = (self.unsent.len() - requests) as u64;
    }

    fn acknowledge(&mut self, applied: u64) -> std::result::Result<(), Failure> {
        if applied > self.window.sent_frames() - self.unsent_records {
            return Err(Failure::ProtocolError(
                "a record was acknowledged before it was sent".into(),
            ));
        }
        self.window.acknowledge(applied).map_err(|error| Failure::ProtocolError(error.to_string()))
    }

    fn answer(&mut self, number: u32, packet: Packet) -> std::result::Result<(), Failure> {
        let name = packet::name(packet.kind());
        let Some(request) = self.requests.get_mut(&number) else {
            return Err(Failure::ProtocolError(format!("{name} answers no request")));
        };
        if !request.is_written {
            return Err(Failure::ProtocolError(format!(
                "{name} answers a request that was not sent yet"
            )));
        }
        if request.is_abandoned {
            self.requests.remove(&number);
        } else {
            request.answer = Some(match packet {
                Packet::Fault { .. } => Err(Failure::from_packet(packet)),
                packet => Ok(packet),
            });
        }
        self.progressed();
        Ok(())
    }
}

impl Pending {
    /// Whether the reply has arrived.
    pub(crate) fn is_ready(&self) -> bool {
        let state = self.stream.lock();
        state.has_answer(self.number) || state.over.is_some()
    }

    /// The answer.
    pub(crate) fn wait(self) -> Result<Packet> {
        self.stream.wait(self.number)
    }
}

impl Drop for Pending {
    /// The reply is not needed any more; one that still arrives is dropped.
    fn drop(&mut self) {
        let mut state = self.stream.lock();
        match state.requests.get_mut(&self.number) {
            Some(request) if request.answer.is_none() => request.is_abandoned = true,
            _ => drop(state.requests.remove(&self.number)),
        }
    }
}

#[cfg(test)]
mod tests;
