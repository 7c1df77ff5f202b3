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
