//! What the user is told while a stream waits for a server.

use crate::Failure;
use std::time::Duration;

/// What was told; each once until it is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// The server is unreachable.
    is_unreachable: bool,
    /// It answers, and asks to come back.
    is_busy: bool,
}

impl Waits {
    /// What there is to tell of `failure`, after which the stream tries again for `patience`.
    pub(crate) fn failed(&mut self, failure: &Failure, patience: Duration) -> Option<String> {
        let (is_told, what) = match failure {
            Failure::Fault { .. } => (&mut self.is_busy, "the server cannot do this yet"),
            _ => (&mut self.is_unreachable, "server unreachable"),
        };
        if std::mem::replace(is_told, true) {
            return None;
        }
        let (why, minutes) = (failure.clone().into_error(), patience.as_secs().div_ceil(60));
        Some(format!("{what} ({why}); retrying for up to {minutes} min"))
    }

    /// The server has answered; whether there is that to tell.
    pub(crate) fn connected(&mut self) -> bool {
        std::mem::take(&mut self.is_unreachable)
    }

    /// The server did what it was asked for.
    pub(crate) fn went_on(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::fault::Code;

    const PATIENCE: Duration = Duration::from_secs(90);

    #[test]
    fn a_server_that_asks_to_wait_is_not_called_unreachable_and_each_is_told_once() {
        let (code, message) = (Code::Busy, "nobody knows how much it stores".to_owned());
        let busy = Failure::Fault { code, message, hint: String::new(), about: Vec::new() };
        let (server, reason) = ("host:1".to_owned(), "refused".to_owned());
        let kind = std::io::ErrorKind::ConnectionRefused;
        let gone = Failure::Unreachable { server, reason, kind };
        let mut waits = Waits::default();
        let told = waits.failed(&busy, PATIENCE).unwrap();
        assert!(told.starts_with("the server cannot do this yet"), "{told}");
        assert!(told.contains("nobody knows") && told.ends_with("for up to 2 min"), "{told}");
        assert!(!waits.connected(), "it was never called unreachable");
        assert_eq!(waits.failed(&busy, PATIENCE), None, "it said so");
        let told = waits.failed(&gone, PATIENCE).unwrap();
        assert!(told.starts_with("server unreachable"), "{told}");
        assert_eq!(waits.failed(&gone, PATIENCE), None);
        assert!(waits.connected() && !waits.connected(), "told once");
        assert_eq!(waits.failed(&busy, PATIENCE), None, "the same wait");
        waits.went_on();
        assert!(waits.failed(&busy, PATIENCE).is_some(), "another wait");
    }
}
