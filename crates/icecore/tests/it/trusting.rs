//! What counts as a snapshot, and what does not.

use crate::machine::Machine;

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
