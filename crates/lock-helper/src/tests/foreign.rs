//! What of the helper's directory was somebody else's is believed in nothing, and root makes it nobody's by name.

use super::*;
use crate::clock_file::{self, ClockFile};

const YEARS: i64 = 10 * 366 * 86_400;

fn as_root(script: &str) {
    assert!(Command::new("sh").args(["-c", script]).status().unwrap().success(), "{script}");
}

/// The file of a clock that is ten years ahead, of the server.
fn forged_clock(rig: &Rig) -> PathBuf {
    let folder = TempDir::new_in(rig.folder.path()).unwrap().keep();
    let handle = fs::File::open(&folder).unwrap().into();
    let tick = Tick { wall_secs: NOW + YEARS, ..time() };
    let mut clock = ClockFile::open((&handle, &folder), tick, None).unwrap();
    assert_eq!(clock.read((&handle, &folder), tick).unwrap(), NOW + YEARS);
    let file = folder.join(clock_file::NAME);
    chown(&file, Some(SERVER), Some(SERVER)).unwrap();
    file
}

/// Puts it into the helper's directory, which keeps its owner.
fn forge_clock(rig: &Rig) -> PathBuf {
    let clock = rig.path(DIRECTORY).join(clock_file::NAME);
    fs::rename(forged_clock(rig), &clock).unwrap();
    clock
}

/// Earlier helpers said to give it back to root: then locks ended early by a clock that the server had made.
#[test]
fn locks_begin_anew_where_the_helpers_directory_was_somebody_elses() {
    for given_back in ["true", "chown root .locked && chmod 700 .locked"] {
        let Some(rig) = Rig::new() else { return };
        rig.pool().secure(&[file(NAME, NOW + 500)]).unwrap();
        as_root(&format!(
            "find '{}' -type d -exec chown {SERVER} {{}} +",
            rig.path(DIRECTORY).display()
        ));
        forge_clock(&rig);
        assert!(rig.shell("cd .locked/domains/web/containers/00000000 && mv *@* x@1@1"));
        as_root(&format!("cd '{}' && {given_back}", rig.path("").display()));
        let looking = Pool::existing(&rig.path("")).err().unwrap().to_string();
        assert!(looking.contains("systemctl restart icecore-lock-helper"), "{looking}");
        assert!(!looking.contains("chown"), "{looking}");
        let pool = rig.pool();
        assert_eq!(fs::metadata(rig.path(DIRECTORY)).unwrap().uid(), 0);
        assert!(rig.path(".locked.replaced-1/domains").exists(), "nothing is removed");
        assert!(rig.kept().is_empty(), "nothing is believed");
        assert!(rig.shell(&format!("echo again > x && mv -f x {NAME}")));
        assert_eq!(pool.secure(&[file(NAME, NOW + 500)]).unwrap().failed, [], "by its own clock");
        wait(400);
        drop(pool);
        assert_eq!((rig.pool().release().unwrap(), rig.kept().len()), (0, 1), "{given_back}");
        wait(-400);
    }
}

/// Root did not write it, or others may write it still.
#[test]
fn a_clock_that_is_not_roots_alone_is_not_believed() {
    let Some(rig) = Rig::new() else { return };
    rig.pool().secure(&[file(NAME, NOW + 500)]).unwrap();
    for doubt in [
        "true",
        "chown root clock && ln clock ../second",
        "chown root clock && chmod 666 clock",
        "rm clock && mkfifo clock",
    ] {
        let clock = forge_clock(&rig);
        as_root(&format!("cd '{}' && {doubt}", rig.path(DIRECTORY).display()));
        assert_eq!((rig.pool().release().unwrap(), rig.kept().len()), (0, 1), "{doubt}");
        fs::remove_file(clock).unwrap();
        let _ = fs::remove_file(rig.path("second"));
    }
    let clock = forge_clock(&rig);
    chown(clock, Some(0), Some(0)).unwrap();
    assert_eq!(rig.pool().release().unwrap(), 1, "it would have been believed");
}

/// Whoever owns one directory on the way replaces what is below it.
#[test]
fn a_running_helper_keeps_nothing_below_a_directory_that_is_not_roots() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    pool.secure(&[file(NAME, NOW + 9)]).unwrap();
    wait(10);
    let way = ["", "domains", "domains/web", "domains/web/containers"];
    for name in way.map(|name| rig.path(DIRECTORY).join(name)) {
        for (owner, mode) in [(SERVER, 0o700), (0, 0o720), (0, 0o702)] {
            chown(&name, Some(owner), None).unwrap();
            fs::set_permissions(&name, PermissionsExt::from_mode(mode)).unwrap();
            let secured = pool.secure(&[file(NAME, NOW + 99)]);
            let is_refused = secured.as_ref().map_or(true, |secured| secured.files == 0);
            assert!(is_refused, "{} {secured:?}", name.display());
            assert!(pool.release().is_err() && pool.recover(None).is_err(), "{}", name.display());
        }
        chown(&name, Some(0), None).unwrap();
        fs::set_permissions(&name, PermissionsExt::from_mode(0o700)).unwrap();
    }
    assert_eq!(pool.release().unwrap(), 1);
}

/// A mode that lets others look changes nothing of what is kept.
#[test]
fn a_directory_that_others_may_only_read_is_roots() {
    let Some(rig) = Rig::new() else { return };
    rig.pool().secure(&[file(NAME, NOW + 9)]).unwrap();
    as_root(&format!("chmod -R go+rX '{}'", rig.path(DIRECTORY).display()));
    assert_eq!(rig.pool().secure(&[file(NAME, NOW + 99)]).unwrap().files, 1);
    assert_eq!(rig.kept().len(), 1);
    assert!(!rig.shell(&format!("rm -f {DIRECTORY}/{NAME}*")));
    assert_eq!(rig.kept().len(), 1);
}
