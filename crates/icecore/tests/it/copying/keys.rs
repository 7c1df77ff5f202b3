//! The keys of a copy: what is changed in one place, and what in both.

use super::Two;
use crate::machine::{PASSWORD, Ran, ended};

impl Two {
    /// The password of the first place, or of the copy, becomes another one.
    fn change(&self, place: &str, before: &str, after: &str) {
        let file = self.machine.path("new password");
        std::fs::write(&file, after).unwrap();
        let words = ["key", "passwd", "--new-password-file", file.to_str().unwrap(), "--repo"];
        let mut command = self.machine.command(words);
        ended(command.arg(place).env("ICECORE_PASSWORD", before)).ends(0);
    }

    fn add(&self, place: &str, password: &str, more: &[&str]) -> String {
        let file = self.machine.path("added password");
        std::fs::write(&file, password).unwrap();
        let words = ["key", "add", "--json", "--new-password-file", file.to_str().unwrap()];
        let mut command = self.machine.command(words);
        let added = ended(command.args(more).args(["--repo", place])).ends(0);
        added.last()["key"].as_str().unwrap().to_owned()
    }

    fn first(&self) -> String {
        self.machine.path("repository").display().to_string()
    }

    fn with(&self, password: &str, words: &[&str]) -> Ran {
        ended(self.machine.command(words).env("ICECORE_PASSWORD", password))
    }

    fn back_up_with(&self, password: &str) {
        let source = self.machine.source();
        self.with(password, &["backup", source.to_str().unwrap()]).ends(0);
    }

    /// How many snapshots of the copy this password reads, all of them trusted.
    fn reads(&self, password: &str) -> usize {
        let listed = self.with(password, &["snapshots", "--json", "--repo", &self.second]).ends(0);
        assert!(!listed.stderr.contains("untrusted"), "{}", listed.stderr);
        listed.lines().iter().filter(|line| line["snapshot_id"].is_string()).count()
    }
}

#[test]
fn keys_that_were_changed_in_both_places_stop_a_copy_until_somebody_decides() {
    let two = Two::new();
    two.machine.backup();
    two.copy(&[]).ends(0);
    (0..2).for_each(|_| drop(two.on_copy(&["key", "recovery"]).ends(0)));
    two.change(&two.first(), PASSWORD, "the new one");
    two.back_up_with("the new one");
    for flags in [&[][..], &["--dry-run"]] {
        let refused = two.copy(flags).ends(1).stderr;
        assert!(refused.contains("keys were changed in both places"), "{refused}");
        assert!(refused.contains("--replace-keys"), "{refused}");
    }
    assert_eq!(two.snapshots().len(), 1, "nothing was copied, and the old password opens it");
    // Nor the other way.
    let back = ["copy", "--repo", &two.second, "--to", &two.first()];
    two.machine.run(back).ends(1);
    two.copy(&["--replace-keys"]).ends(0);
    assert_eq!(two.reads("the new one"), 2);
    two.with(PASSWORD, &["snapshots", "--repo", &two.second]).ends(12);
    two.with("the new one", &["check", "--read-data", "--repo", &two.second]).ends(0);
    two.copy(&[]).ends(0);
}

/// The number of the list of the copy is the higher one, although nothing is left of what was changed there.
#[test]
fn a_password_that_was_removed_does_not_stay_in_a_copy_unsaid() {
    let two = Two::new();
    two.machine.backup();
    two.copy(&[]).ends(0);
    for _ in 0..2 {
        let key = two.add(&two.second, "for a while", &["--write-only"]);
        two.on_copy(&["key", "remove", &key]).ends(0);
    }
    two.change(&two.first(), PASSWORD, "the new one");
    two.back_up_with("the new one");
    two.copy(&[]).ends(1);
    two.copy(&["--replace-keys"]).ends(0);
    two.with(PASSWORD, &["snapshots", "--repo", &two.second]).ends(12);
    assert_eq!(two.reads("the new one"), 2);
}

#[test]
fn keys_that_were_changed_in_the_copy_alone_stay() {
    let two = Two::new();
    two.machine.backup();
    two.copy(&[]).ends(0);
    two.add(&two.second, "of the copy", &[]);
    two.machine.backup();
    two.copy(&[]).ends(0);
    assert_eq!((two.reads("of the copy"), two.reads(PASSWORD)), (2, 2));
    two.with("of the copy", &["snapshots"]).ends(12);
    two.on_copy(&["check"]).ends(0);
}
