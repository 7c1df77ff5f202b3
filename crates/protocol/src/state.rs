//! What may come when: the state of a connection as its server sees it.
//!
//! ```text
//!  new ──Hello──▶ greeted ──Open──▶ open ──Begin──▶ in a session ──Commit, Finish──▶ open
//!                    └───────Attach────────────────────▲
//! ```

use crate::packet::{Packet, name};
use crate::{Error, Result};

/// What a connection is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum State {
    /// Nothing was said.
    #[default]
    New,
    /// Versions are agreed upon.
    Greeted,
    /// A domain is open.
    Open,
    /// The connection is a stream of a session.
    InSession,
    /// It is over.
    Over,
}

impl State {
    /// For errors.
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
    pub fn admits(self, kind: u8) -> Result<()> {
        let fits = match kind {
            1 => self == State::New,
            2 => self == State::Greeted,
            14 => self == State::Greeted,
            22..=25 => matches!(self, State::Greeted | State::Open | State::InSession),
            3..=13 | 20 | 21 | 26..=30 if self == State::Open => true,
            4..=12 | 15..=21 => self == State::InSession,
            _ => false,
        };
        if fits {
            Ok(())
        } else {
            Err(Error::OutOfOrder { packet: name(kind), state: self.words() })
        }
    }

    /// The state after the server has sent `answer`.
    #[must_use]
    pub fn after(self, answer: &Packet) -> Self {
        match answer {
            Packet::Welcome { .. } => State::Greeted,
            Packet::Opened { .. } => State::Open,
            Packet::Begun { .. } | Packet::Attached { .. } => State::InSession,
            Packet::Committed { .. } => State::Open,
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{End, RULES};

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
        for kind in [15, 16, 17, 18, 19] {
            assert!(State::Open.admits(kind).is_err());
            assert!(State::InSession.admits(kind).is_ok());
        }
    }
}
