//! Protocol state: what may come next on a connection, as its server sees it. Which packet is
//! allowed in which state is written in the packet table.
//!
//! ```text
//!  new ──Hello──▶ greeted ──Open──▶ open ──Begin──▶ in a session ──Commit, Finish──▶ open
//!                    └───────Attach────────────────────▲
//! ```

use crate::packet::{self, Packet};
use crate::{Error, Result};

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum State {
    /// Nothing has been sent.
    #[default]
    New,
    /// Both ends have agreed on a version.
    Greeted,
    /// A domain is open.
    Open,
    /// The connection is a stream of a session.
    InSession,
    /// The connection has ended.
    Over,
}

impl State {
    /// As error messages name it.
    fn words(self) -> &'static str {
        match self {
            State::New => "before Hello",
            State::Greeted => "before Open",
            State::Open => "without a session",
            State::InSession => "within a session",
            State::Over => "after the end",
        }
    }

    /// Whether a packet of this kind may come now. Asked before its body is read.
    ///
    /// # Errors
    /// [`Error::OutOfOrder`].
    pub fn admits(self, kind: u8) -> Result<()> {
        let is_allowed = packet::rule(kind).is_some_and(|rule| rule.states.contains(&self));
        if is_allowed {
            Ok(())
        } else {
            Err(Error::OutOfOrder { packet: packet::name(kind), state: self.words() })
        }
    }

    /// The state after the server has sent `reply`.
    #[must_use]
    pub fn after(self, reply: &Packet) -> Self {
        packet::rule(reply.kind()).and_then(|rule| rule.next).unwrap_or(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{End, RULES, kind};

    #[test]
    fn every_packet_of_a_client_has_its_time_and_others_have_none() {
        let states = [State::New, State::Greeted, State::Open, State::InSession];
        for rule in RULES {
            let times = states.iter().filter(|state| state.admits(rule.kind).is_ok()).count();
            assert_eq!(times > 0, rule.from == End::Client, "{}", rule.name);
            assert!(State::Over.admits(rule.kind).is_err());
        }
    }

    #[test]
    fn nothing_is_stored_without_a_session() {
        for kind in [
            kind::Claim,
            kind::Holds,
            kind::Append,
            kind::GetNumber,
            kind::Checkpoint,
            kind::Commit,
        ] {
            assert!(State::Open.admits(kind).is_err());
            assert!(State::InSession.admits(kind).is_ok());
        }
    }
}
