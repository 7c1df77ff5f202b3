//! Commands that the agent has done: one that comes again is not done again, and its end is told until the server
//! knows it.

use super::node_commands::Outcome;
use access::Identity;
use api::commands::NodeCommand;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

/// Commands remembered.
const DONE_MAX: usize = 4096;

/// Commands that were done, and how they ended, by their numbers. A number alone says little: another server counts
/// anew, and one whose catalog came back from a copy gives its last numbers again.
#[derive(Default)]
pub(super) struct Done {
    /// Who gave them, and to which node. An address is left out: a server that moves is the same one.
    of: Option<[String; 2]>,
    ends: BTreeMap<u64, End>,
    /// Of what was asked only a hash is kept: a server may send thousands of commands of a mebibyte each. Nobody else
    /// knows its key, and so what has the same hash.
    hasher: RandomState,
}

struct End {
    asked: u64,
    outcome: Outcome,
}

impl Done {
    /// From now on commands come from the server of `identity`, for its node. Those of others are forgotten.
    pub(super) fn come_to(&mut self, identity: &Identity) {
        let node = identity.agent.node.to_string();
        self.come_from([identity.certificate_authority().to_owned(), node]);
    }

    fn come_from(&mut self, of: [String; 2]) {
        if self.of.as_ref() != Some(&of) {
            *self = Self { of: Some(of), ..Self::default() };
        }
    }

    /// How the command ended, if it was done.
    pub(super) fn outcome(&self, number: u64, json: &[u8]) -> Option<Outcome> {
        let asked = self.hasher.hash_one(asked(json));
        let end = self.ends.get(&number).filter(|end| end.asked == asked);
        end.map(|end| end.outcome.clone())
    }

    pub(super) fn note(&mut self, number: u64, json: &[u8], outcome: Outcome) {
        let asked = self.hasher.hash_one(asked(json));
        self.ends.insert(number, End { asked, outcome });
        while self.ends.len() > DONE_MAX {
            self.ends.pop_first();
        }
    }
}

/// What a command asks for, and since when. Its state is left out: that changes while it is open.
fn asked(json: &[u8]) -> String {
    let command = serde_json::from_slice::<NodeCommand>(json);
    let known =
        command.and_then(|NodeCommand { made, task, .. }| serde_json::to_string(&(made, task)));
    // What makes no sense here is compared as it came.
    known.unwrap_or_else(|_| String::from_utf8_lossy(json).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(path: &str, made: &str, state: &str) -> Vec<u8> {
        let task = format!(r#"{{"kind":"backup","node":"web","paths":["{path}"]}}"#);
        format!(r#"{{"id":7,"task":{task},"made":"{made}","state":"{state}"}}"#).into_bytes()
    }

    fn of(server: &str) -> [String; 2] {
        [server.to_owned(), "web".to_owned()]
    }

    #[test]
    fn a_number_that_names_another_command_is_a_new_command() {
        let made = "2026-11-20T14:00:00Z";
        let mut done = Done::default();
        done.come_from(of("one"));
        done.note(7, &command("/a", made, "pending"), Outcome::refused("over".into()));
        let known = |done: &Done, json: &[u8]| done.outcome(7, json).is_some();
        assert!(known(&done, &command("/a", made, "pending")));
        assert!(known(&done, &command("/a", made, "taken")), "the same one, later");
        assert!(!known(&done, &command("/b", made, "pending")), "another task");
        assert!(!known(&done, &command("/a", "2026-11-20T14:00:01Z", "pending")), "another day");
        assert!(done.outcome(8, &command("/a", made, "pending")).is_none());
        done.come_from(of("one"));
        assert!(known(&done, &command("/a", made, "pending")), "it called again");
        done.come_from(of("two"));
        assert!(!known(&done, &command("/a", made, "pending")), "another server");
    }

    #[test]
    fn what_makes_no_sense_is_refused_once() {
        let mut done = Done::default();
        done.note(1, b"\xff{", Outcome::refused("no".into()));
        assert!(done.outcome(1, b"\xff{").is_some());
        assert!(done.outcome(1, b"[").is_none());
    }

    /// What is kept of each command: 4,096 of them take less than a command may have (4,096 x 1 KiB = 4 MiB).
    #[test]
    fn commands_of_any_length_take_a_small_memory() {
        let long = "x".repeat(1 << 20);
        let mut done = Done::default();
        done.note(1, &command(&long, "2026-11-20T14:00:00Z", "pending"), Outcome::refused(long));
        let end = &done.ends[&1];
        let bytes = size_of_val(&end.asked) + end.outcome.text.capacity();
        assert!(bytes <= 1 << 10, "{bytes}");
    }

    #[test]
    fn not_all_is_remembered_for_ever() {
        let mut done = Done::default();
        for number in 0..=DONE_MAX as u64 {
            done.note(number, b"", Outcome::refused(String::new()));
        }
        assert!(done.outcome(0, b"").is_none() && done.outcome(1, b"").is_some());
    }
}
