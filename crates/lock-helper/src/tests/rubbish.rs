//! What a server that was taken over asks for, to stop the helper or to fill its directory.

use super::*;
use std::collections::BTreeSet;

/// All directories of the helper.
fn directories(rig: &Rig) -> BTreeSet<String> {
    let found = Command::new("find").arg(rig.path(DIRECTORY)).args(["-type", "d"]).output();
    let found = String::from_utf8(found.unwrap().stdout).unwrap();
    found.lines().map(str::to_owned).collect()
}

#[test]
fn no_name_stops_the_helper() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    assert!(rig.shell("mkdir clock clock.new .clock.new; touch clock/x clock.new/x .clock.new/x"));
    for name in ["clock/x", "clock.new/x", ".clock.new/x", "clock.new", "clock"] {
        let done = pool.secure(&[file(name, NOW + 1000)]).unwrap();
        assert_eq!(done.files + done.failed.len() as u64, 1, "{name}");
    }
    wait(700);
    assert_eq!(pool.secure(&[file(NAME, NOW + 1000)]).unwrap().files, 1, "its clock was stored");
    drop(pool);
    assert_eq!(rig.pool().secure(&[file(NAME, NOW + 1000)]).unwrap().files, 1);
}

#[test]
fn a_name_without_a_file_leaves_no_directory() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    let before = directories(&rig);
    assert!(rig.shell("mkdir -p a/keys && mkfifo a/keys/pipe"));
    let names = ["a/x", "a/keys/pipe", "domains/web/keys/x", "domains/no/containers/0/x"];
    let files: Vec<_> = names.iter().map(|name| file(name, NOW + 9)).collect();
    assert_eq!(pool.secure(&files).unwrap().failed.len(), names.len());
    assert_eq!(directories(&rig), before);
    assert!(pool.secure(&files).unwrap().failed[0].is_gone);
}

#[test]
fn only_names_that_a_pool_has_are_kept() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    assert!(rig.shell("mkdir -p a/b/c/keys a/b/keys/c && touch a/b/c/x a/b/c/keys/x a/b/keys/c/x"));
    for name in ["a/b/c/x", "a/b/c/keys/x", "a/b/keys/c/x"] {
        assert!(refused(&pool, name).contains("no name of a file in a pool"), "{name}");
    }
}

#[test]
fn directories_go_with_what_is_let_go() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    let before = directories(&rig);
    assert!(rig.shell("mkdir -p domains/web/keys && echo x > domains/web/keys/a"));
    let both = [file(NAME, NOW + 10), file("domains/web/keys/a", NOW + 100)];
    assert_eq!(pool.secure(&both).unwrap().files, 2);
    let all = directories(&rig);
    wait(50);
    pool.release().unwrap();
    let gone = ["", "/00000000"].map(|last| format!("/domains/web/containers{last}"));
    let gone = gone.map(|it| rig.path(DIRECTORY).to_str().unwrap().to_owned() + &it);
    let left: BTreeSet<_> = all.difference(&directories(&rig)).cloned().collect();
    assert_eq!(left, BTreeSet::from(gone));
    wait(100);
    pool.release().unwrap();
    assert_eq!(directories(&rig), before);
}
