//! A machine whose clock was wrong when the helper made its own.

use super::*;

const YEARS: i64 = 10 * 366 * 86_400;

/// The clock of a machine that was put right, in a later boot: years before [`NOW`].
fn right_time() -> Tick {
    Tick { wall_secs: NOW - YEARS, boot: 2, up_secs: 0 }
}

#[test]
fn what_is_over_by_the_clock_of_the_helper_is_refused_with_what_to_do() {
    let Some(rig) = Rig::new() else { return };
    let asked = [file(NAME, NOW - YEARS + 1000)];
    let ahead = rig.pool();
    let done = ahead.secure(&asked).unwrap();
    assert_eq!((done.files, done.failed.len()), (0, 1));
    let why = &done.failed[0].why;
    assert!(!done.failed[0].is_gone && why.contains("2017-01-07") && why.contains("2027-01-15"));
    assert_eq!(fs::metadata(rig.path(NAME)).unwrap().uid(), SERVER, "nobody touched it");
    assert_eq!(ahead.release().unwrap(), 0);
    drop(ahead);
    let right = || Pool::with_time(&rig.path(""), right_time).unwrap();
    assert_eq!(right().secure(&asked).unwrap().files, 0, "by itself it does not come right");
    let (_, advice) = why.split_once("rm '").unwrap();
    fs::remove_file(advice.split_once('\'').unwrap().0).unwrap();
    assert_eq!(right().secure(&asked).unwrap(), Secured { files: 1, failed: vec![] });
}

/// The stamps of what is kept are of now, which is years ahead of the clock that was put right.
#[test]
fn stamps_of_a_clock_that_was_ahead_do_not_keep_the_clock_from_coming_right() {
    let Some(rig) = Rig::new() else { return };
    rig.pool().secure(&[file(NAME, NOW + 1000)]).unwrap();
    fs::remove_file(rig.path(DIRECTORY).join("clock")).unwrap();
    let right = Pool::with_time(&rig.path(""), right_time).unwrap();
    assert!(rig.shell(&format!("echo content > {NAME}.2")));
    let second = file(&format!("{NAME}.2"), NOW - YEARS + 1000);
    assert_eq!(right.secure(&[second]).unwrap(), Secured { files: 1, failed: vec![] });
    assert_eq!((right.release().unwrap(), rig.kept().len()), (0, 2));
}

/// The clock of the repository may be a little behind that of the helper.
#[test]
fn a_lock_that_ended_a_moment_ago_is_no_alarm_and_is_kept_for_an_hour() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    wait(100);
    assert_eq!(pool.secure(&[file(NAME, NOW + 90)]).unwrap().files, 1);
    assert_eq!((pool.release().unwrap(), rig.kept().len()), (0, 1));
    wait(3600);
    assert_eq!(pool.release().unwrap(), 1);
}

/// As on a full file system: what is let go is what makes room there.
#[test]
fn a_clock_that_cannot_be_stored_lets_go_what_is_over() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    assert_eq!(pool.secure(&[file(NAME, NOW + 3600)]).unwrap().files, 1);
    symlink("nowhere", rig.path(DIRECTORY).join(".clock.new")).unwrap();
    wait(3599);
    assert_eq!((pool.release().unwrap(), rig.kept().len()), (0, 1), "nothing goes early");
    wait(1);
    assert_eq!((pool.release().unwrap(), rig.kept().len()), (1, 0));
    let refused = pool.secure(&[file(NAME, NOW + 9000)]).unwrap_err().to_string();
    assert!(refused.contains("clock"), "{refused}");
}
