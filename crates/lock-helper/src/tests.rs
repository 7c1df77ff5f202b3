//! What a user to whom a pool belongs can do to the files that are kept, and what not: with real users and shells.

mod advice;
mod clock;
mod foreign;
mod recovering;
mod renaming;
mod rubbish;
mod socket;

use crate::{Client, DIRECTORY, Error, File, Helper, LONGEST_SECS, Pool, Secured};
use ::clock::Tick;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;
use tempfile::TempDir;

/// Users that nobody has.
const SERVER: u32 = 54_321;
const OTHER: u32 = 54_322;
const NOW: i64 = 1_800_000_000;
const NAME: &str = "domains/web/containers/00000000/0000000001.ice";

thread_local! {
    static PASSED: AtomicI64 = const { AtomicI64::new(0) };
}

/// Time since [`NOW`], by this thread. The wall clock is years ahead.
fn time() -> Tick {
    let up_secs = PASSED.with(|passed| passed.load(SeqCst));
    Tick { wall_secs: NOW, boot: 1, up_secs }
}

fn wait(secs: i64) {
    PASSED.with(|passed| passed.fetch_add(secs, SeqCst));
}

/// A pool of [`SERVER`] with one file.
struct Rig {
    folder: TempDir,
}

impl Rig {
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            testkit::skip("the lock helper runs as root");
            return None;
        }
        let rig = Self { folder: TempDir::new().unwrap() };
        fs::set_permissions(rig.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(rig.path("")).unwrap();
        chown(rig.path(""), Some(SERVER), Some(SERVER)).unwrap();
        assert!(
            rig.shell(&format!("umask 077; mkdir -p $(dirname {NAME}) && echo content > {NAME}"))
        );
        Some(rig)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("pool").join(name)
    }

    fn pool(&self) -> Pool {
        Pool::with_time(&self.path(""), time).unwrap()
    }

    /// Whether the server can do this in the pool.
    fn shell(&self, script: &str) -> bool {
        self.shell_as(SERVER, script)
    }

    fn shell_as(&self, user: u32, script: &str) -> bool {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(self.path("")).uid(user).gid(user);
        shell.stderr(std::process::Stdio::null()).status().unwrap().success()
    }

    /// The names that are kept in the directory of [`NAME`].
    fn kept(&self) -> Vec<String> {
        let directory = self.path(DIRECTORY).join(NAME).parent().unwrap().to_owned();
        let Ok(found) = fs::read_dir(directory) else { return Vec::new() };
        let mut names: Vec<_> =
            found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn file(name: &str, until_secs: i64) -> File {
    File { name: name.to_owned(), until_secs }
}

/// Why the one file was not kept.
fn refused(pool: &Pool, name: &str) -> String {
    let Secured { files, failed } = pool.secure(&[file(name, NOW + 9)]).unwrap();
    assert_eq!((files, failed.len()), (0, 1), "{name}");
    failed[0].why.clone()
}

#[test]
fn who_owns_a_pool_can_read_what_is_kept_and_can_neither_change_nor_lose_it() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    let done = pool.secure(&[file(NAME, NOW + 100)]).unwrap();
    assert_eq!(done, Secured { files: 1, failed: vec![] });
    assert!(rig.shell(&format!("grep -q content {NAME}")), "the server reads it");
    for attack in [
        format!("echo x >> {NAME}"),
        format!("truncate -s 0 {NAME}"),
        format!("chmod 600 {NAME}"),
        format!("setfacl -m u:{SERVER}:rw {NAME}"),
        format!("ls {DIRECTORY}"),
        format!("rm -rf {DIRECTORY}"),
        format!("rmdir {DIRECTORY}/domains"),
        format!("touch {DIRECTORY}/domains/x"),
    ] {
        assert!(!rig.shell(&attack), "{attack}");
    }
    // Its own names it can remove, and put others there.
    assert!(
        rig.shell(&format!("rm -rf domains; mkdir -p $(dirname {NAME}); echo forged > {NAME}"))
    );
    let recovered = pool.recover(None).unwrap();
    assert_eq!((recovered.recovered, recovered.replaced, recovered.present), (1, 1, 0));
    assert_eq!(fs::read_to_string(rig.path(NAME)).unwrap(), "content\n");
    assert_eq!(fs::read_to_string(rig.path(&format!("{NAME}.replaced-1"))).unwrap(), "forged\n");
    assert_eq!(fs::metadata(rig.path("domains/web")).unwrap().uid(), SERVER);
    assert_eq!(pool.recover(None).unwrap().present, 1, "it can be repeated");
    assert!(rig.shell("rm -rf domains"));
    assert_eq!(pool.recover(None).unwrap().recovered, 1, "with all its directories");
}

#[test]
fn a_time_becomes_longer_and_never_shorter() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    for until in [NOW + 100, NOW + 50, NOW + 300, i64::MIN, NOW + 200] {
        assert_eq!(pool.secure(&[file(NAME, until)]).unwrap().files, 1);
    }
    assert!(matches!(&rig.kept()[..], [one] if one.ends_with(&format!("@{}", NOW + 300))));
    wait(299);
    assert_eq!((pool.release().unwrap(), rig.kept().len()), (0, 1));
    drop(pool);
    wait(1);
    let again = rig.pool();
    assert_eq!((again.release().unwrap(), rig.kept().len()), (1, 0));
    assert!(rig.shell(&format!("echo x >> {NAME} && rm {NAME}")), "it is the server's again");
}

#[test]
fn longer_than_a_year_is_asked_for_again_meanwhile() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    pool.secure(&[file(NAME, i64::MAX)]).unwrap();
    let last = rig.pool().content().unwrap()["domains/web"].until_secs.unwrap().1;
    assert_eq!(last, NOW + LONGEST_SECS);
}

#[test]
fn only_regular_files_of_the_owner_below_the_pool_are_kept() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    fs::write(rig.folder.path().join("secret"), "of root").unwrap();
    fs::write(rig.path("of-root"), "x").unwrap();
    fs::write(rig.path("of-other"), "x").unwrap();
    chown(rig.path("of-other"), Some(OTHER), Some(OTHER)).unwrap();
    symlink("../secret", rig.path("link")).unwrap();
    symlink("..", rig.path("up")).unwrap();
    assert!(rig.shell("mkfifo pipe && mkdir directory"));
    for name in [
        "of-root",
        "of-other",
        "link",
        "up/secret",
        "pipe",
        "directory",
        "../secret",
        "/etc/passwd",
        "missing",
        "",
        ".locked/clock",
    ] {
        let why = refused(&pool, name);
        assert!(!why.is_empty(), "{name}");
    }
    assert!(pool.secure(&[file("missing", 1)]).unwrap().failed[0].is_gone);
    let secret = fs::metadata(rig.folder.path().join("secret")).unwrap();
    assert_eq!((secret.uid(), secret.mode() & 0o777), (0, 0o644), "nobody touched it");
    // A bad name costs no other file.
    let both = pool.secure(&[file("../x", NOW), file(NAME, NOW + 9)]).unwrap();
    assert_eq!((both.files, both.failed.len()), (1, 1));
}

/// A descriptor that is open for writing survives every change of owner and mode.
#[test]
fn a_file_that_somebody_may_still_write_does_not_count_as_kept() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    let writer = fs::OpenOptions::new().append(true).open(rig.path(NAME)).unwrap();
    for _ in 0..2 {
        let why = refused(&pool, NAME);
        assert!(why.contains("open for writing"), "{why}");
    }
    drop(writer);
    // A process that another test starts just now has it open until it executes its program.
    let kept = || pool.secure(&[file(NAME, NOW + 9)]).unwrap().files == 1;
    assert!((0..100).any(|_| kept() || {
        std::thread::sleep(Duration::from_millis(50));
        false
    }));
}

/// What a list for access grants to its owner by name would outlive a new owner.
#[test]
fn an_access_control_list_grants_nothing_any_more() {
    let Some(rig) = Rig::new() else { return };
    if !rig.shell(&format!("setfacl -m u:{SERVER}:rw,g:{SERVER}:rw {NAME}")) {
        return testkit::skip("no setfacl, or a file system without lists");
    }
    rig.pool().secure(&[file(NAME, NOW + 9)]).unwrap();
    assert!(!rig.shell(&format!("echo x >> {NAME}")));
    assert!(rig.shell(&format!("grep -q content {NAME}")));
}

/// The owner of a directory can rename what is in it, whoever owns that.
#[test]
fn the_directory_of_the_helper_gets_its_name_back() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    pool.secure(&[file(NAME, NOW + 9)]).unwrap();
    let hide = format!("mv {DIRECTORY} .hidden");
    assert!(rig.shell(&hide));
    pool.secure(&[file(NAME, NOW + 10)]).unwrap();
    assert_eq!(rig.kept().len(), 1, "while the helper runs");
    drop(pool);
    assert!(rig.shell(&hide));
    let _pool = rig.pool();
    assert_eq!(rig.kept().len(), 1, "when it starts");
    assert!(rig.shell(&hide));
    assert!(!rig.shell("mkdir -p domains/x && mv .hidden domains/x/"), "not elsewhere");
}

/// Killed between two steps, the helper finds the name and not the new owner.
#[test]
fn what_was_interrupted_is_finished_when_it_is_asked_for_again() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    pool.secure(&[file(NAME, NOW + 9)]).unwrap();
    chown(rig.path(NAME), Some(SERVER), Some(SERVER)).unwrap();
    fs::set_permissions(rig.path(NAME), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(pool.secure(&[file(NAME, NOW + 9)]).unwrap().files, 1);
    assert!(!rig.shell(&format!("echo x >> {NAME}")));
    assert_eq!(rig.kept().len(), 1);
}

#[test]
fn a_pool_of_root_and_an_empty_one_are_refused() {
    let Some(rig) = Rig::new() else { return };
    assert!(rig.shell("rm -r domains"));
    let error = Pool::open(&rig.path("")).err().unwrap();
    assert!(error.to_string().contains("not mounted"), "{error}");
    assert!(!rig.path(DIRECTORY).exists(), "nothing is made there");
    let of_root = TempDir::new().unwrap();
    let error = Pool::open(of_root.path()).err().unwrap();
    assert!(error.to_string().contains("belongs to root"), "{error}");
}

#[test]
fn without_its_clock_nothing_goes_early() {
    let Some(rig) = Rig::new() else { return };
    let real = repository::machine_time().wall_secs;
    Pool::open(&rig.path("")).unwrap().secure(&[file(NAME, real + 50)]).unwrap();
    fs::write(rig.path(DIRECTORY).join("clock"), "damaged").unwrap();
    let pool = rig.pool();
    wait(40);
    assert_eq!(pool.release().unwrap(), 0, "not before the file came, plus what has passed");
    wait(20);
    assert_eq!(pool.release().unwrap(), 1);
}

/// A helper that serves on a thread of this process.
fn served(rig: &Rig) -> (Arc<Helper>, PathBuf) {
    let helper = Arc::new(Helper::open(&[rig.path("")]).unwrap());
    let socket = rig.folder.path().join("socket");
    let listener = helper.listen(&socket).unwrap();
    let serving = helper.clone();
    std::thread::spawn(move || crate::serve(&serving, &listener));
    (helper, socket)
}
