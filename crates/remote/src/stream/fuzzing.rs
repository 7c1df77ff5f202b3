//! A stream without its connection, for the fuzz endpoint `remote_stream`: what it does with packets that no server
//! would send, and what it holds meanwhile.

use super::{Pending, RECORD, REQUESTS_MAX, ServerMessages, Stream, number_of};
use crate::Failure;
use protocol::Packet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A stream, and who waits for its answers.
pub struct StreamHarness {
    stream: Arc<Stream>,
    server_messages: Arc<ServerMessages>,
    pending: Vec<Pending>,
}

impl Default for StreamHarness {
    fn default() -> Self {
        let server_messages = Arc::new(ServerMessages::new([0, 0]));
        Self { stream: Stream::new(server_messages.clone()), server_messages, pending: Vec::new() }
    }
}

impl StreamHarness {
    /// Asks, unless that would wait for room.
    pub fn ask(&mut self, packet: &Packet) {
        if self.stream.lock().waiting() < REQUESTS_MAX {
            self.pending.extend(self.stream.request(packet).ok());
        }
    }

    /// The same within the session that it has.
    pub fn ask_in_session(&mut self, packet: &Packet) {
        if self.stream.lock().waiting() < REQUESTS_MAX {
            self.pending.extend(self.stream.request_in(self.stream.epoch(), packet).ok());
        }
    }

    /// Whether this answer is there.
    pub fn is_answered(&self, at: usize) -> bool {
        self.pending.get(at).is_some_and(Pending::is_ready)
    }

    /// Sends a record, unless that would wait for room.
    pub fn send_record(&self, frame: Vec<u8>) {
        if self.stream.lock().window.has_room_for(frame.len()) {
            let _ = self.stream.send_record(frame, self.stream.epoch());
        }
    }

    /// Says what nobody answers.
    pub fn tell(&self, packet: &Packet) {
        self.stream.tell(packet);
    }

    /// Nobody waits for this answer any more.
    pub fn forget(&mut self, at: usize) {
        if at < self.pending.len() {
            self.pending.swap_remove(at);
        }
    }

    /// Takes this answer when it is there.
    pub fn take(&mut self, at: usize) {
        if self.pending.get(at).is_some_and(Pending::is_ready) {
            let _ = self.pending.swap_remove(at).wait();
        }
    }

    /// Writes a frame; tells whether there was one.
    pub fn write(&self) -> bool {
        self.stream.next_frame().is_some()
    }

    /// All that was given to be written is.
    pub fn written(&self) {
        self.stream.written();
    }

    /// Since when the other end has brought nothing, if it owes something.
    pub fn owes_since(&self) -> Option<Instant> {
        let is_reply_due = self.stream.overdue_for() > Duration::ZERO;
        is_reply_due.then(|| self.stream.lock().quiet_since)
    }

    /// Times that the other end brought something.
    pub fn answers(&self) -> u64 {
        self.stream.answers()
    }

    /// A packet comes in; tells whether it was taken.
    pub fn hear(&self, number: u32, packet: Packet) -> bool {
        self.stream.receive(number, packet).is_ok()
    }

    /// The connection is new.
    pub fn reconnect(&self, applied: Option<u64>) -> bool {
        self.stream.reconnected(applied).is_ok()
    }

    /// A session begins.
    pub fn begin_session(&self) {
        self.stream.begin_session();
    }

    /// The server has lost the session.
    pub fn lose_session(&self) {
        self.stream.lose_session(&Failure::session_over());
    }

    /// What the stream holds is bounded by what this end asked and sent, whatever came in.
    pub fn check(&self) {
        let state = self.stream.lock();
        let waiting = state.waiting();
        assert!(waiting <= REQUESTS_MAX, "{waiting} requests wait");
        let held = state.requests.len();
        assert!(held <= waiting + self.pending.len(), "{held} requests for nobody");
        let records = state.window.unacknowledged().count();
        assert!(state.unsent.len() <= waiting + records, "{} frames wait", state.unsent.len());
        let unsent = state.unsent.iter().filter(|frame| number_of(frame) == RECORD).count();
        assert_eq!(state.unsent_records, unsent as u64, "records are counted wrongly");
        let limit_bytes = protocol::limits::WINDOW_BYTES_MAX / 2;
        assert!(state.window.bytes() <= limit_bytes || records == 1, "the window is too large");
    }

    /// The stream ends: nobody waits any longer, and commands are bounded.
    pub fn end(mut self) {
        self.stream.end(Failure::ProtocolError("over".into()));
        for pending in self.pending.drain(..) {
            let _ = pending.wait();
        }
        assert!(self.stream.drain(self.stream.epoch()).is_err());
        assert!(self.stream.request(&Packet::Ping {}).is_err());
        assert!(self.stream.send_record(Vec::new(), self.stream.epoch()).is_err());
        let commands =
            std::iter::from_fn(|| self.server_messages.next_command(Duration::ZERO)).count();
        assert!(commands <= crate::server_messages::COMMANDS_MAX, "{commands} commands wait");
    }
}
