//! What `restore` says, and how it ends.

use crate::machine::{Machine, length};

/// Review finding U1: a dry run said "112 removed" and named nothing; there was no guard.
#[test]
fn restore_delete_names_what_goes_and_never_works_in_the_root_directory() {
    let machine = Machine::new();
    machine.backup();
    for flags in [&["--dry-run"][..], &[]] {
        let mut arguments = vec!["restore", "latest", "--target", "/", "--delete"];
        arguments.extend(flags);
        let ran = machine.run(arguments).ends(2);
        assert!(ran.stderr.contains("--delete"), "{}", ran.stderr);
    }
    let (stored, target) = (machine.stored("latest", ""), machine.path("target"));
    std::fs::create_dir_all(target.join("stranger/a")).unwrap();
    std::fs::write(target.join("stranger/a/b"), [0; 1024]).unwrap();
    std::fs::write(target.join("folder"), "in the way").unwrap();
    let restore = |flags: &[&str]| {
        let common = ["restore", &stored, "--target", target.to_str().unwrap(), "--delete"];
        machine.run(common.iter().chain(flags)).ends(0)
    };
    let would = restore(&["--dry-run"]).text();
    assert!(would.contains("would delete  stranger/  with 2 objects in it, 1.00 KiB\n"), "{would}");
    assert!(would.contains("deleted    3 "), "{would}");
    let lines = restore(&["--dry-run", "--json"]).lines();
    let removed = lines.iter().find(|line| line["message_type"] == "removed").unwrap();
    assert_eq!(
        (removed["path"].as_str(), removed["objects"].as_u64(), removed["bytes"].as_u64()),
        (Some("stranger"), Some(3), Some(1024))
    );
    let did = restore(&[]).text();
    assert!(did.contains("deleted  stranger/  with 2 objects in it, 1.00 KiB\n"), "{did}");
    assert!(did.contains("deleted    3 not in the snapshot, 1.00 KiB (--delete)"), "{did}");
    assert!(!target.join("stranger").exists(), "{did}");
}

/// Review finding U8: it was exit code 3, and a line with an empty path.
#[test]
fn a_restore_of_which_nothing_came_back_is_no_partial_one() {
    let machine = Machine::new();
    machine.backup();
    let container = machine.container_over(0);
    let mut bytes = std::fs::read(&container).unwrap();
    let quarter = length(&container) as usize / 4;
    bytes[quarter..].fill(0);
    bytes[300..quarter].fill(0);
    std::fs::write(&container, bytes).unwrap();
    let target = machine.path("target");
    let ran = machine.run(["restore", "latest", "--target", target.to_str().unwrap()]).ends(14);
    assert!(ran.stderr.starts_with("/: nothing from here on can be read"), "{}", ran.stderr);
    assert!(ran.text().contains("icecore check"), "{}", ran.text());
}
