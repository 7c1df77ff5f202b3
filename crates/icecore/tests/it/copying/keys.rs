//! The keys of a copy: what is changed in one place, and what in both.

use super::Two;
use crate::machine::{PASSWORD, Ran, ended};

impl Two {
    /// Somebody tagged a snapshot of the copy; then the password of the first place changed. The snapshots of the copy.
    fn tagged_before_a_new_password() -> (Self, Vec<String>) {
        let two = Self::new();
        two.machine.backup();
        two.copy(&[]).ends(0);
        two.on_copy(&["tag", "--add", "keep", "latest"]).ends(0);
        let tagged = two.snapshots();
        two.change(&two.first(), PASSWORD, "the new one");
        (two, tagged)
    }

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

/// What somebody tagged or backed up in the copy was unreadable for everybody once the password changed in the first
/// place, and `check` said to forget it.
#[test]
fn a_copy_takes_no_keys_that_would_disown_what_was_made_in_it() {
    let (two, tagged) = Two::tagged_before_a_new_password();
    for flags in [&[][..], &["--dry-run"]] {
        let refused = two.copy(flags).ends(1).stderr;
        assert!(
            refused.contains("nobody would trust") && refused.contains(&tagged[0][..8]),
            "{refused}"
        );
    }
    assert_eq!(two.snapshots(), tagged, "the password that the copy had opens it");
    two.on_copy(&["check", "--read-data"]).ends(0);
    two.restores("latest");
    // As the message says.
    two.on_copy(&["forget", &tagged[0]]).ends(0);
    two.back_up_with("the new one");
    two.copy(&[]).ends(0);
    assert_eq!(two.reads("the new one"), 1);
    two.with("the new one", &["check", "--read-data", "--repo", &two.second]).ends(0);
}

#[test]
fn whoever_gives_up_snapshots_of_a_copy_for_its_keys_is_told_which() {
    let (two, tagged) = Two::tagged_before_a_new_password();
    let refused = two.copy(&["--replace-keys"]).ends(1).stderr;
    assert!(refused.contains("icecore copy --give-up --to"), "{refused}");
    let told = two.copy(&["--give-up"]).ends(0).stderr;
    let command = format!("icecore forget {} --damaged --repo {}", &tagged[0][..8], two.second);
    assert!(told.contains("untrusted from now on") && told.contains(&command), "{told}");
    let words = ["forget", &tagged[0][..8], "--damaged", "--repo", &two.second];
    two.with("the new one", &words).ends(0);
    two.with("the new one", &["check", "--repo", &two.second]).ends(0);
}

/// The key that made them was in use then, and the copy is where they are kept.
#[test]
fn a_copy_keeps_what_was_forgotten_here_before_the_password_changed() {
    let two = Two::new();
    (0..2).for_each(|_| drop(two.machine.backup()));
    two.copy(&[]).ends(0);
    two.machine.run(["forget", "latest"]).ends(0);
    two.change(&two.first(), PASSWORD, "second");
    two.copy(&[]).ends(0);
    assert_eq!(two.reads("second"), 2);
    two.with("second", &["forget", "latest"]).ends(0);
    two.change(&two.first(), "second", "third");
    two.copy(&[]).ends(0);
    assert_eq!(two.reads("third"), 2, "nothing is left here at all");
    two.with("third", &["check", "--read-data", "--repo", &two.second]).ends(0);
}

#[test]
fn a_copy_whose_list_of_keys_is_damaged_is_named_and_rebuilt() {
    let two = Two::new();
    two.machine.backup();
    two.copy(&[]).ends(0);
    for list in ["list", "list.copy"] {
        std::fs::write(std::path::Path::new(&two.second).join("keys").join(list), b"").unwrap();
    }
    let damaged = two.copy(&[]).ends(14).stderr;
    assert!(
        damaged.contains("list of keys of the copy") && damaged.contains(&two.second),
        "{damaged}"
    );
    assert!(damaged.contains("icecore rebuild --repo COPY"), "{damaged}");
    two.with(PASSWORD, &["rebuild", "--repo", &two.second]).ends(0);
    two.copy(&[]).ends(0);
    assert_eq!(two.reads(PASSWORD), 1);
}
