//! What somebody reads when a database refuses: which one, why, and a command that helps.

use super::catalog;
use crate::testing::BY;
use crate::{Catalog, Error};
use std::process::Command;

/// Types the command at the end of a message, as it stands there.
fn follow(message: &str) {
    let command = message.rsplit(": ").next().unwrap();
    let done = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn who_holds_the_lock_of_a_server_is_named_with_how_to_end_it() {
    let (first, _beside) = catalog();
    first.serve().unwrap();
    let second = Catalog::open(first.location()).unwrap();
    let refused = second.serve().unwrap_err();
    assert!(matches!(refused, Error::Serving { .. }), "{refused}");
    let refused = refused.to_string();
    assert!(refused.contains("connected from"), "{refused}");
    follow(&refused);
    second.serve().unwrap();
    assert!(first.audit_note(BY, "test", "", "").is_err(), "its lock is gone");
}
