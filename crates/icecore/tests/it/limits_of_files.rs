//! Files as long as the numbers that count them.

use crate::machine::Machine;
use std::fs::File;

/// A file of holes costs nothing and belongs to anybody; some of them are longer than a number can say.
#[test]
fn files_that_are_longer_together_than_a_number_can_say_are_saved_and_come_back() {
    const LONGEST: u64 = i64::MAX as u64 - 4095;
    let machine = Machine::new();
    // A file system in memory takes files of any length.
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let [source, target] = ["source", "target"].map(|name| memory.path().join(name));
    std::fs::create_dir(&source).unwrap();
    for name in ["one", "two", "three"] {
        File::create(source.join(name)).unwrap().set_len(LONGEST).unwrap();
    }
    std::fs::write(source.join("four"), "beside them").unwrap();
    let [source, target] = [source, target].map(|path| path.to_str().unwrap().to_owned());
    for _ in 0..2 {
        machine.run(["backup", &source, "--json"]).ends(0);
    }
    for words in [
        &["snapshots", "-l"][..],
        &["ls", "-R", "-l", "latest"],
        &["stats"],
        &["stats", "--report", "latest"],
        &["map", "latest"],
        &["find", "four"],
        &["check", "--read-data"],
        &["restore", &format!("latest:{source}"), "--target", &target, "--verify"],
        &["restore", &format!("latest:{source}"), "--target", &target, "--delete", "--dry-run"],
    ] {
        machine.run(words).ends(0);
    }
    for name in ["one", "two", "three"] {
        assert_eq!(std::fs::metadata(format!("{target}/{name}")).unwrap().len(), LONGEST);
    }
    assert_eq!(std::fs::read(format!("{target}/four")).unwrap(), b"beside them");
}
