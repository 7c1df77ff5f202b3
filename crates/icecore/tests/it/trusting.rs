//! What counts as a snapshot, and what does not.

use crate::machine::Machine;
use std::path::PathBuf;

/// The file of the snapshot `id`.
fn file_of(machine: &Machine, id: &str) -> PathBuf {
    let folder = std::fs::read_dir(machine.path("repository/snapshots")).unwrap();
    let mut files = folder.map(|entry| entry.unwrap().path());
    files.find(|path| path.to_string_lossy().ends_with(id)).unwrap()
}

/// Flips a bit of its file, at `at` from the start.
fn damage(machine: &Machine, id: &str, at: usize) {
    let file = file_of(machine, id);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&file, bytes).unwrap();
}

/// The same in what is sealed: its head can still be read.
fn damage_sealed(machine: &Machine, id: &str) {
    let length = std::fs::metadata(file_of(machine, id)).unwrap().len() as usize;
    damage(machine, id, length - 40);
}

/// Seen: the newest files were deleted, because the snapshot that had them was skipped with one line.
#[test]
fn restore_delete_refuses_to_go_back_to_an_older_snapshot_behind_a_damaged_one() {
    for seal in [false, true] {
        let machine = Machine::new();
        let older = machine.backup();
        machine.write("new", b"new");
        let newest = machine.backup();
        match seal {
            true => damage_sealed(&machine, &newest),
            false => damage(&machine, &newest, 200),
        }
        let (source, latest) = (machine.source(), machine.stored("latest", ""));
        let words = ["--target", source.to_str().unwrap(), "--delete"];
        for flags in [&[][..], &["--dry-run"]] {
            let ran = machine.run([&["restore", &latest], &words[..], flags].concat()).ends(14);
            assert!(ran.stderr.contains("nothing was changed"), "{}", ran.stderr);
            assert_eq!(std::fs::read(source.join("new")).unwrap(), b"new");
        }
        // Who names it means it.
        let named = machine.stored(&older, "");
        machine.run([&["restore", &named], &words[..]].concat()).ends(0);
        assert!(!source.join("new").exists());
    }
}

#[test]
fn an_older_snapshot_in_place_of_a_damaged_one_is_used_with_the_code_of_damage() {
    let machine = Machine::new();
    let older = machine.backup();
    machine.write("hello.txt", b"hello again");
    let newest = machine.backup();
    damage(&machine, &newest, 200);
    let target = machine.path("target");
    let file = machine.stored("latest", "hello.txt");
    let restore = ["restore", "latest", "--target", target.to_str().unwrap()];
    for words in
        [&restore[..], &["cat", &file], &["ls", "latest"], &["dump", &file], &["map", "latest"]]
    {
        let ran = machine.run(words).ends(14);
        let used = format!("snapshot {:.8} is used", older);
        assert!(says(&ran, &used) && says(&ran, "1 newer snapshot"), "{words:?}: {}", ran.stderr);
    }
    assert_eq!(machine.run(["cat", &file]).stdout, b"hello");
    assert_eq!(machine.run([&restore[..], &["--json"]].concat()).ends(14).last()["name"], "damage");
    machine.run(["find", "hello.txt"]).ends(14);
    // Nothing is forgotten or tagged in the place of another one.
    for words in [&["forget", "latest"][..], &["tag", "add", "latest", "good"]] {
        let refused = machine.run(words).ends(14);
        assert!(refused.stderr.contains("nothing was changed"), "{}", refused.stderr);
    }
    let named = machine.stored(&older, "hello.txt");
    machine.run(["cat", &named]).ends(0);
}

/// An older damaged one is not what was meant. A newer one of another machine is not either, but nobody can tell whose
/// it is.
#[test]
fn a_damaged_snapshot_spoils_none_that_is_newer_and_none_that_is_named() {
    let machine = Machine::new();
    let older = machine.backup();
    let named = machine.backup();
    damage(&machine, &older, 200);
    machine.run(["ls", "latest"]).ends(0);
    let of_other = machine.backup_with(&["--node", "other"]);
    damage_sealed(&machine, &of_other);
    let lines = machine.run(["snapshots", "--json"]).ends(14).lines();
    let node = lines.iter().find_map(|line| line["node"].as_str()).unwrap();
    let ran = machine.run(["ls", "latest", "--node", node]).ends(14);
    assert!(ran.stderr.contains("of which machine"), "{}", ran.stderr);
    machine.run(["ls", &named[..8]]).ends(0);
}

/// What was made after a later one is later, too, though its time cannot be read.
#[test]
fn a_damaged_snapshot_of_later_spoils_no_search_by_time() {
    let machine = Machine::new();
    machine.backup();
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let lines = machine.run(["snapshots", "--json"]).ends(0).lines();
    machine.backup();
    let newest = machine.backup();
    damage(&machine, &newest, 200);
    // Between the first and the second one.
    let point: jiff::Timestamp = lines[0]["time"].as_str().unwrap().parse().unwrap();
    let point = (point + jiff::SignedDuration::from_secs(1)).to_string();
    machine.run(["ls", &point[..19].replace('T', " ")]).ends(0);
    machine.run(["ls", "2099-01-01"]).ends(14);
}

/// Seen: three "cannot be read", and then "There are no snapshots. To make one: icecore backup PATH".
#[test]
fn snapshots_that_are_all_damaged_are_not_taken_for_none() {
    let machine = Machine::new();
    for id in [machine.backup(), machine.backup()] {
        damage(&machine, &id, 200);
    }
    let listed = machine.run(["snapshots"]).ends(14).text();
    assert!(!listed.contains("There are no snapshots"), "{listed}");
    assert!(listed.contains("2 snapshots cannot be read"), "{listed}");
    let target = machine.path("target");
    for point in ["latest", "latest~1", "2099-01-01"] {
        let words = ["restore", point, "--target", target.to_str().unwrap()];
        let ran = machine.run(words).ends(14);
        assert!(ran.stderr.contains("2 cannot be read"), "{}", ran.stderr);
        assert!(!target.exists());
    }
}

#[test]
fn a_damaged_snapshot_is_listed_and_forgotten_by_its_id() {
    let machine = Machine::new();
    let first = machine.backup();
    machine.backup();
    let folder = machine.path("repository/snapshots");
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let file = files.into_iter().find(|path| path.to_string_lossy().ends_with(&first)).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 40;
    bytes[last] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let listed = machine.run(["snapshots"]).ends(14);
    assert!(listed.text().contains("cannot be read"), "{}", listed.text());
    machine.run(["forget", &first[..8]]).ends(0);
    machine.run(["snapshots"]).ends(0);
    machine.run(["check"]).ends(0);
}

/// Whether the text says so.
fn says(ran: &crate::machine::Ran, what: &str) -> bool {
    ran.text().contains(what) || ran.stderr.contains(what)
}

#[test]
fn latest_is_the_newest_that_has_the_path_and_filters_choose_the_source() {
    let machine = Machine::new();
    let mut dump = machine.command(["backup", "--stdin", "shop.dump", "--tag", "db"]);
    dump.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
    let mut child = dump.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"first dump").unwrap();
    assert!(child.wait().unwrap().success());
    machine.backup();
    machine.write("hello.txt", b"hello again");
    machine.backup();
    assert_eq!(machine.run(["cat", "latest:shop.dump"]).ends(0).stdout, b"first dump");
    assert_eq!(
        machine.run(["cat", &machine.stored("latest~1", "hello.txt")]).ends(0).stdout,
        b"hello"
    );
    let again = machine.run(["cat", &machine.stored("latest", "hello.txt")]).ends(0).stdout;
    assert_eq!(again, b"hello again");
    let listed = machine.run(["ls", "latest", "--tag", "db"]).ends(0);
    assert!(says(&listed, "shop.dump"), "{}", listed.text());
    let source = machine.source();
    let listed = machine.run(["ls", "-R", "latest", "--path", source.to_str().unwrap()]).ends(0);
    assert!(says(&listed, "hello.txt"), "{}", listed.text());
    machine.run(["ls", "latest", "--node", "nobody"]).ends(1);
    machine.run(["ls", "latest~7"]).ends(1);
    machine.run(["cat", "latest:nothing"]).ends(1);
    machine.run(["diff", "latest~1", "latest", "--path", source.to_str().unwrap()]).ends(0);
}

#[test]
fn a_partial_snapshot_says_so_whenever_it_is_used_and_costs_no_complete_one() {
    let machine = Machine::new();
    let complete = machine.backup();
    let (source, missing) = (machine.source(), machine.path("source/missing"));
    let both = ["backup", source.to_str().unwrap(), missing.to_str().unwrap()];
    machine.run(both).ends(3);
    machine.run(both).ends(3);
    let used = machine.run(["ls", "latest"]).ends(0);
    assert!(says(&used, "is partial"), "{}", used.stderr);
    let target = machine.path("target");
    let restored = machine.run(["restore", "latest", "--target", target.to_str().unwrap()]);
    assert!(says(&restored, "is partial"), "{}", restored.stderr);
    assert!(!says(&machine.run(["ls", &complete[..8]]).ends(0), "is partial"));
    machine.run(["forget", "--keep-last", "1"]).ends(0);
    assert_eq!(machine.snapshots().len(), 2, "one of each source");
    assert!(machine.snapshots().contains(&complete));
}

/// "unexpected end of file" was said, and 1 was the code.
#[test]
fn a_container_that_was_cut_short_is_damage() {
    let machine = Machine::new();
    machine.write("large", &crate::machine::random(3 << 20));
    machine.backup();
    let folder = std::fs::read_dir(machine.path("repository/containers/00000000")).unwrap();
    for container in folder.map(|entry| entry.unwrap().path()) {
        let file = std::fs::File::options().write(true).open(container).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    }
    let ran = machine.run(["cat", &machine.stored("latest", "large")]).ends(14);
    assert!(ran.stderr.contains("icecore check"), "{}", ran.stderr);
}
