//! The newest events, with ids by which a reader comes back. Pure.

use api::events::{RESET, Reset};
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::Arc;

/// Events that are kept for those who come back.
const EVENTS_MAX: usize = 4096;
/// Bytes of them.
const BYTES_MAX: usize = 8 << 20;
/// Events that are given at once: the rest comes with the next call.
const GIVEN_MAX: usize = 256;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// With it, a reader comes back; progress has none.
    id: Option<String>,
    kind: &'static str,
    /// JSON in one line.
    data: String,
}

impl Event {
    pub(crate) fn of(kind: &'static str, value: &impl Serialize) -> Self {
        Self { id: None, kind, data: serde_json::to_string(value).unwrap_or_default() }
    }

    /// As the stream has it.
    pub(crate) fn text(&self) -> String {
        let id = self.id.as_ref().map_or_else(String::new, |id| format!("id: {id}\n"));
        format!("{id}event: {}\ndata: {}\n\n", self.kind, self.data)
    }

    #[cfg(test)]
    pub(crate) fn kind(&self) -> &str {
        self.kind
    }
}

/// The newest events.
pub(super) struct Ring {
    /// Of this start of the server.
    epoch: u64,
    /// The number of the next event.
    next: u64,
    bytes: usize,
    events: VecDeque<Arc<Event>>,
}

impl Ring {
    pub(super) fn new(epoch: u64) -> Self {
        Self { epoch, next: 1, bytes: 0, events: VecDeque::new() }
    }

    pub(super) fn add(&mut self, event: Event) {
        let id = Some(self.id(self.next));
        self.next += 1;
        self.bytes += event.data.len();
        self.events.push_back(Arc::new(Event { id, ..event }));
        while self.events.len() > EVENTS_MAX || self.bytes > BYTES_MAX {
            let gone = self.events.pop_front().map_or(0, |event| event.data.len());
            self.bytes -= gone;
        }
    }

    /// Something happened that is not among the events: nobody can go on without reading again.
    pub(super) fn forget(&mut self) {
        self.events.clear();
        (self.bytes, self.next) = (0, self.next + 1);
    }

    /// What followed the event with this id, and the id after which more will follow.
    pub(super) fn after(&self, id: Option<&str>) -> (Vec<Arc<Event>>, String) {
        let seen = match id.map(|id| self.number(id)) {
            None => return self.reset("start"),
            Some(None) => return self.reset("restart"),
            Some(Some(seen)) => seen,
        };
        let first = self.next - self.events.len() as u64;
        if seen + 1 < first || seen >= self.next {
            return self.reset("behind");
        }
        let from = (seen + 1 - first) as usize;
        let events: Vec<_> = self.events.iter().skip(from).take(GIVEN_MAX).cloned().collect();
        let last = seen + events.len() as u64;
        (events, self.id(last))
    }

    fn reset(&self, reason: &str) -> (Vec<Arc<Event>>, String) {
        let id = self.id(self.next - 1);
        let event = Event::of(RESET, &Reset { reason: reason.to_owned() });
        (vec![Arc::new(Event { id: Some(id.clone()), ..event })], id)
    }

    fn id(&self, number: u64) -> String {
        format!("{:016x}-{number}", self.epoch)
    }

    /// The number of an event of this start of the server.
    fn number(&self, id: &str) -> Option<u64> {
        let (epoch, number) = id.split_once('-')?;
        let is_mine = u64::from_str_radix(epoch, 16).ok()? == self.epoch;
        number.parse().ok().filter(|_| is_mine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::events::JOB;

    fn add(ring: &mut Ring, count: u64) {
        (0..count).for_each(|number| ring.add(Event::of(JOB, &number)));
    }

    fn data(events: &[Arc<Event>]) -> Vec<&str> {
        events.iter().map(|event| event.data.as_str()).collect()
    }

    #[test]
    fn who_comes_back_gets_what_followed_and_nothing_twice() {
        let mut ring = Ring::new(7);
        let (first, start) = ring.after(None);
        assert_eq!(data(&first), [r#"{"reason":"start"}"#]);
        assert!(ring.after(Some(&start)).0.is_empty());
        add(&mut ring, 3);
        let (events, after) = ring.after(Some(&start));
        assert_eq!(data(&events), ["0", "1", "2"]);
        assert!(ring.after(Some(&after)).0.is_empty());
        let id = events[1].id.clone();
        assert_eq!(data(&ring.after(id.as_deref()).0), ["2"]);
        assert!(events[0].text().contains("event: job\ndata: 0\n\n"));
    }

    #[test]
    fn who_was_away_too_long_or_met_another_server_is_told_to_read_again() {
        let mut ring = Ring::new(7);
        let (_, start) = ring.after(None);
        add(&mut ring, EVENTS_MAX as u64 + 1);
        assert_eq!(data(&ring.after(Some(&start)).0), [r#"{"reason":"behind"}"#]);
        let mut other = Ring::new(8);
        add(&mut other, 1);
        for id in [&*start, "", "7", "x-1", "0000000000000008-99"] {
            let events = other.after(Some(id)).0;
            assert_eq!(events[0].kind(), RESET, "{id}");
        }
        let (_, after) = ring.after(None);
        ring.forget();
        assert_eq!(data(&ring.after(Some(&after)).0), [r#"{"reason":"behind"}"#]);
    }

    #[test]
    fn much_comes_in_parts_and_what_is_kept_is_bounded() {
        let mut ring = Ring::new(7);
        let (_, mut after) = ring.after(None);
        add(&mut ring, 2 * GIVEN_MAX as u64 + 1);
        let mut counts = Vec::new();
        for _ in 0..4 {
            let (events, next) = ring.after(Some(&after));
            counts.push(events.len());
            after = next;
        }
        assert_eq!(counts, [GIVEN_MAX, GIVEN_MAX, 1, 0]);
        let large = "x".repeat(BYTES_MAX / 4);
        (0..9).for_each(|_| ring.add(Event::of(JOB, &large)));
        assert!(ring.bytes <= BYTES_MAX && ring.events.len() < 5, "{}", ring.events.len());
    }
}
