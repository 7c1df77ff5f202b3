//! Server-sent events, read part by part.

use crate::codes::Code;
use crate::failure::{Failure, Result};

/// Longest event that is read: a job, or an entry of the audit log, is far smaller.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) kind: String,
    pub(super) data: String,
}

/// Makes events of the parts of a stream.
#[derive(Default)]
pub(super) struct Parser {
    rest: Vec<u8>,
    last_id: Option<String>,
}

impl Parser {
    /// The id after which the stream continues.
    pub(super) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// A new stream begins: what was cut off of the one before comes again.
    pub(super) fn begin(&mut self) {
        self.rest.clear();
    }

    /// The events that are complete with this part.
    pub(super) fn feed(&mut self, part: &[u8]) -> Result<Vec<Event>> {
        self.rest.extend_from_slice(part);
        let mut events = Vec::new();
        while let Some(end) = self.rest.windows(2).position(|two| two == b"\n\n") {
            let text: Vec<u8> = self.rest.drain(..end + 2).collect();
            events.extend(self.event(&String::from_utf8_lossy(&text)));
        }
        if self.rest.len() > EVENT_BYTES_MAX {
            return Err(Failure::new(Code::Failed, "the server sent an event without an end"));
        }
        Ok(events)
    }

    /// Of the lines of one event; comments are none.
    fn event(&mut self, text: &str) -> Option<Event> {
        let (mut kind, mut data) = (None, None);
        for line in text.lines() {
            match line.split_once(": ") {
                Some(("event", value)) => kind = Some(value.to_owned()),
                Some(("data", value)) => data = Some(value.to_owned()),
                Some(("id", value)) if is_id(value) => self.last_id = Some(value.to_owned()),
                _ => {}
            }
        }
        Some(Event { kind: kind?, data: data? })
    }
}

/// What can stand in a URL as it is.
fn is_id(text: &str) -> bool {
    text.len() <= 100 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_they_are_cut() {
        let text = "id: a-1\nevent: job\ndata: {\"id\":1}\n\n:\n\nevent: progress\ndata: {}\n\nid: a-2\nevent";
        for size in [1, 3, text.len()] {
            let mut parser = Parser::default();
            let parts = text.as_bytes().chunks(size);
            let events: Vec<_> = parts.flat_map(|part| parser.feed(part).unwrap()).collect();
            let kinds: Vec<_> = events.iter().map(|event| event.kind.as_str()).collect();
            assert_eq!((kinds, &*events[0].data), (vec!["job", "progress"], "{\"id\":1}"));
            assert_eq!(parser.last_id(), Some("a-1"), "what is not complete does not count");
            parser.begin();
            assert_eq!(parser.feed(b"event: job\ndata: 2\n\n").unwrap()[0].data, "2");
        }
    }

    #[test]
    fn an_event_without_an_end_is_refused_and_an_id_is_no_part_of_a_url() {
        let mut parser = Parser::default();
        assert!(parser.feed(&vec![b'x'; EVENT_BYTES_MAX + 1]).is_err());
        let mut parser = Parser::default();
        parser.feed(b"id: a&b=1\nevent: job\ndata: 1\n\n").unwrap();
        assert_eq!(parser.last_id(), None);
    }
}
