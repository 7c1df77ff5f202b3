//! Copies that lack something: they are refused, or what they lack is told.

use super::Two;
use crate::machine::{Machine, ended, random};
use std::fs;
use std::path::{Path, PathBuf};

/// The files below a directory of a repository, by name.
fn files(place: &str, directory: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![Path::new(place).join(directory)];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() { left.push(entry) } else { found.push(entry) }
        }
    }
    found.sort();
    found
}

fn length(file: &Path) -> u64 {
    file.metadata().unwrap().len()
}

/// The largest container.
fn container(place: &str) -> PathBuf {
    files(place, "containers").into_iter().max_by_key(|file| length(file)).unwrap()
}

fn cut_short(file: &Path) {
    let half = length(file) / 2;
    fs::OpenOptions::new().write(true).open(file).unwrap().set_len(half).unwrap();
}

/// A domain with two snapshots, and a copy of it at the later storage server.
fn copied() -> Two {
    let two = Two::new();
    two.site.enroll("web", &[]);
    two.site.machine.write("much", &random(4 << 20));
    two.backup("web", "one");
    two.backup("web", "two");
    two.copy("web", "disk", "later");
    two
}

impl Two {
    /// The recovery key of a managed domain.
    fn key(&self, name: &str) -> String {
        self.site.govern(&["key", name, "--quiet"]).ends(0).text().trim().to_owned()
    }

    /// A command on a repository, with a key.
    fn with_key(&self, key: &str, words: &[&str]) -> crate::machine::Ran {
        let machine: &Machine = &self.site.machine;
        ended(machine.command(words).env("ICECORE_PASSWORD", key))
    }

    /// The check that is to come before the old directory is deleted.
    fn is_whole(&self, name: &str, place: &str) {
        let data = self.site.folder(place);
        self.site.here(&["storage", "--data", &data, "check", name]).ends(0);
    }

    /// The first storage server is gone with its disk.
    fn lose_the_first(&mut self) {
        self.site.storage = None;
        fs::remove_dir_all(self.site.folder("disk")).unwrap();
    }
}

/// Snapshots and keys say nothing of the data.
#[test]
fn a_copy_without_all_of_its_containers_is_placed_only_once_they_are_there() {
    let two = copied();
    let (old, copy) = (two.domain("disk", "web"), two.domain("later", "web"));
    fs::remove_file(container(&copy)).unwrap();
    two.refuses("web", &["--on", "later"], "lacks data of 1 container: container");
    // As the message says.
    let words = ["check", "--repair", "--repo", &copy, "--copies", &old];
    two.with_key(&two.key("web"), &words).ends(0);
    cut_short(&container(&copy));
    two.refuses("web", &["--on", "later"], "was cut short");
    two.with_key(&two.key("web"), &words).ends(0);
    fs::remove_dir_all(format!("{copy}/containers")).unwrap();
    two.refuses("web", &["--on", "later"], "containers");
    fs::remove_dir_all(&copy).unwrap();
    two.copy("web", "disk", "later");
    let placed = two.place("web", &["--on", "later"]).ends(0).text();
    assert!(placed.contains("on the machine of later: icecore storage check web"), "{placed}");
    two.is_whole("web", "later");
    two.backup("web", "three");
    two.site.restores("web", &[]);

    // The same on the control server.
    let here = two.domain("data", "web");
    fs::create_dir(&here).unwrap();
    let refused = two.place("web", &["--here"]);
    let hint = format!("icecore copy --repo COPY --to {here}");
    assert!(
        refused.stderr.contains(&hint) && !refused.stderr.contains("remove-domain"),
        "{refused:?}"
    );
    two.copy("web", "later", "data");
    let moved = container(&here);
    fs::rename(&moved, moved.with_extension("away")).unwrap();
    two.refuses("web", &["--here"], "lacks data of 1 container: container");
    fs::rename(moved.with_extension("away"), &moved).unwrap();
    let placed = two.place("web", &["--here"]).ends(0).text();
    assert!(placed.contains("icecore server check web"), "{placed}");
    two.site.govern(&["check", "web"]).ends(0);
    two.site.restores("web", &[]);
}

#[test]
fn of_a_lost_domain_a_poor_copy_is_taken_and_what_it_lacks_is_told() {
    let mut two = copied();
    let copy = two.domain("later", "web");
    two.lose_the_first();
    for list in ["list", "list.copy"] {
        fs::write(format!("{copy}/keys/{list}"), b"").unwrap();
    }
    let lost = ["--on", "later", "--lost"];
    two.refuses(
        "web",
        &lost,
        "the list of keys of the domain 'web' is damaged on the storage server",
    );
    two.with_key(&two.key("web"), &["rebuild", "--repo", &copy]).ends(0);
    let mut slots = files(&copy, "keys");
    slots.retain(|file| !file.to_string_lossy().contains("list"));
    let away = |slot: &Path| two.site.machine.path(slot.file_name().unwrap().to_str().unwrap());
    slots.iter().for_each(|slot| fs::rename(slot, away(slot)).unwrap());
    two.refuses("web", &lost, "has no file of a key");
    slots.iter().skip(1).for_each(|slot| fs::rename(away(slot), slot).unwrap());
    let gone = container(&copy);
    fs::remove_file(&gone).unwrap();
    let placed = two.place("web", &["--on", "later", "--lost", "--json"]).ends(0).last();
    assert_eq!((&placed["keys_missing"], &placed["damaged"]), (&1.into(), &1.into()), "{placed}");
    let number = gone.file_stem().unwrap().to_str().unwrap();
    let number = u64::from_str_radix(number, 16).unwrap();
    assert_eq!(placed["damages"][0], format!("container {number} is missing"), "{placed}");
}

/// What is stored between the answer and the next housekeeping, its key would read.
#[test]
fn a_key_that_was_removed_since_the_copy_opens_nothing_from_the_first_moment() {
    let mut two = Two::new();
    two.site.enroll("web", &[]);
    two.site.enroll_in("thief", &["--domain", "web"]);
    two.site.enroll_in("gone", &["--domain", "web"]);
    two.backup("web", "one");
    two.copy("web", "disk", "later");
    let copy = two.domain("later", "web");
    let keys = || files(&copy, "keys").len();
    two.site.govern(&["revoke", "thief"]).ends(0);
    // The key of this one can be removed from no repository before.
    two.lose_the_first();
    two.site.govern(&["revoke", "gone"]).ends(0);
    let before = keys();
    two.place("web", &["--on", "later", "--lost"]).ends(0);
    assert_eq!(keys(), before - 2);
    let audit = two.site.govern(&["audit", "--json"]).ends(0).lines();
    let again = |entry: &serde_json::Value| {
        entry["action"] == "node.unkey.again" && entry["subject"] == "thief in web"
    };
    assert!(audit.iter().any(again), "{audit:?}");
}

/// The old place comes back after the domain went on from an older copy: nobody can join the two.
#[test]
fn what_only_a_place_has_that_came_back_is_restored_from_it_or_it_is_taken_as_a_whole() {
    let two = copied();
    two.backup("web", "only there");
    let (old, new) = (two.domain("disk", "web"), two.domain("later", "web"));
    let away = two.site.folder("away");
    fs::rename(&old, &away).unwrap();
    two.place("web", &["--on", "later", "--lost"]).ends(0);
    two.backup("web", "only here");
    fs::rename(&away, &old).unwrap();
    two.refuses("web", &["--on", "disk"], "chapter 12");
    two.refuses("web", &["--on", "disk", "--lost"], "chapter 12");
    // One by one, with the key of the domain.
    let target = two.site.folder("of-old");
    let words = ["restore", "latest", "--repo", &old, "--target", &target];
    two.with_key(&two.key("web"), &words).ends(0);
    let changes = format!("{target}{}/changes", two.site.folder("source"));
    assert_eq!(fs::read(changes).unwrap(), b"only there");
    // Or all of it: what was made since then stays aside.
    fs::rename(&new, format!("{new}.apart")).unwrap();
    two.place("web", &["--on", "disk", "--lost"]).ends(0);
    two.backup("web", "on");
    assert_eq!(two.count("disk", "web"), 4);
}
