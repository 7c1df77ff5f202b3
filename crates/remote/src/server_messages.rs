//! What the server sends unsolicited: limits, commands, a cancellation.

use crate::Failure;
use parking_lot::{Condvar, Mutex};
use protocol::Packet;
use std::collections::VecDeque;
use std::time::Duration;
use transport::rate::Rate;

/// Maximum number of pending commands; the server keeps the others for the next connection.
pub(crate) const COMMANDS_MAX: usize = 64;

/// Unsolicited messages, and the limits from them.
pub(crate) struct ServerMessages {
    /// Limits of this end's own configuration.
    own: [u64; 2],
    /// Rate limit for sending.
    pub(crate) up: Rate,
    /// Rate limit for receiving; the server keeps it, too.
    pub(crate) down: Rate,
    said: Mutex<Said>,
    changed: Condvar,
}

#[derive(Default)]
struct Said {
    limits: Option<([u64; 2], String)>,
    /// The last limits, whether read or not; before they are told, none.
    kept: [u64; 2],
    commands: VecDeque<(u64, Vec<u8>)>,
    cancelled: Option<String>,
}

impl ServerMessages {
    pub(crate) fn new(own: [u64; 2]) -> Self {
        let [up, down] = own.map(Rate::new);
        Self { own, up, down, said: Mutex::default(), changed: Condvar::new() }
    }

    pub(crate) fn take(&self, packet: Packet) -> Result<(), Failure> {
        let mut said = self.said.lock();
        match packet {
            Packet::Limits { up, down, reason } => {
                self.up.set(lower(self.own[0], up));
                self.down.set(lower(self.own[1], down));
                // Each connection is told them; whoever uses this end once.
                if said.kept != [up, down] {
                    said.kept = [up, down];
                    said.limits = Some(([up, down], reason));
                }
            }
            // All that are open are sent again with each new one: copies must not take the room of others.
            Packet::Command { command, json }
                if said.commands.len() < COMMANDS_MAX
                    && said.commands.iter().all(|(number, _)| *number != command) =>
            {
                said.commands.push_back((command, json));
            }
            Packet::Cancel { reason } => {
                said.cancelled = Some(reason.clone());
                self.changed.notify_all();
                return Err(Failure::Cancelled(reason));
            }
            _ => {}
        }
        self.changed.notify_all();
        Ok(())
    }

    /// New limits of the server in bytes per second, and the reason; each once.
    pub(crate) fn new_limits(&self) -> Option<([u64; 2], String)> {
        self.said.lock().limits.take()
    }

    /// Current limits, up and down, in bytes per second; 0 for none.
    pub(crate) fn limits(&self) -> [u64; 2] {
        let told = self.said.lock().kept;
        [lower(self.own[0], told[0]), lower(self.own[1], told[1])]
    }

    /// The next command; waits for it up to `wait`.
    pub(crate) fn next_command(&self, wait: Duration) -> Option<(u64, Vec<u8>)> {
        let mut said = self.said.lock();
        if said.commands.is_empty() {
            self.changed.wait_for(&mut said, wait);
        }
        said.commands.pop_front()
    }
}

/// The lower of two limits, of which 0 is none.
fn lower(one: u64, other: u64) -> u64 {
    match (one, other) {
        (0, limit) | (limit, 0) => limit,
        (one, other) => one.min(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_limit_holds_and_none_is_no_limit() {
        assert_eq!([lower(0, 0), lower(0, 5), lower(5, 0), lower(7, 5)], [0, 5, 5, 5]);
    }

    #[test]
    fn a_command_that_is_sent_again_and_again_takes_the_room_of_no_other() {
        let server_messages = ServerMessages::new([0, 0]);
        let command = |command| Packet::Command { command, json: b"{}".to_vec() };
        (0..200).for_each(|_| server_messages.take(command(1)).unwrap());
        server_messages.take(command(2)).unwrap();
        let next = || server_messages.next_command(Duration::ZERO).map(|(number, _)| number);
        assert_eq!([next(), next(), next()], [Some(1), Some(2), None]);
        server_messages.take(command(1)).unwrap();
        assert_eq!(next(), Some(1), "it is told again what was answered before");
    }

    #[test]
    fn limits_that_were_told_are_known_as_long_as_they_hold() {
        let server_messages = ServerMessages::new([9, 0]);
        assert_eq!(server_messages.limits(), [9, 0]);
        let day = Packet::Limits { up: 5, down: 7, reason: "day".into() };
        server_messages.take(day.clone()).unwrap();
        assert!(server_messages.new_limits().is_some() && server_messages.new_limits().is_none());
        assert_eq!(server_messages.limits(), [5, 7]);
        server_messages.take(day).unwrap();
        assert!(server_messages.new_limits().is_none(), "each connection is told them");
        server_messages.take(Packet::Limits { up: 0, down: 0, reason: "night".into() }).unwrap();
        assert_eq!(server_messages.limits(), [9, 0]);
    }
}
