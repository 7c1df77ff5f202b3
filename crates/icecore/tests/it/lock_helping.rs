//! A server of a user of its own, with a lock helper of root beside it: what is left after somebody took it over. The
//! same of a storage server.

use crate::administration::{govern, started};
use crate::locking::{ALLOW, back_up, lock_for};
use crate::machine::{Machine, Ran, ended};
use crate::node_commands::Ordered;
use crate::storage_servers::Site;
use crate::waiting::found;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A user that nobody has.
const SERVER: u32 = 54_321;

/// A server that runs as [`SERVER`], with its lock helper.
#[derive(Clone, Copy)]
pub(crate) struct OwnUser<'a> {
    machine: &'a Machine,
    data: &'static str,
    /// Where the status of the control server tells of the helper.
    status: &'static str,
}

impl<'a> OwnUser<'a> {
    pub(crate) fn own(machine: &'a Machine) -> Self {
        Self { machine, data: "data", status: "/kept_locks" }
    }

    pub(crate) fn storage(machine: &'a Machine) -> Self {
        Self { machine, data: "disk", status: "/storage_kept_locks/0" }
    }

    fn text(self, name: &str) -> String {
        self.machine.path(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn data(self) -> String {
        self.text(self.data)
    }

    fn pool(self) -> PathBuf {
        self.machine.path(self.data).join("pool")
    }

    /// Gives the user the directory, and a program to execute.
    pub(crate) fn owns_its_data(self) {
        // By another process: one that other tests fork from this one could have it open for writing, and nobody may
        // execute it meanwhile.
        let program = self.machine.path("icecore");
        let copy = Command::new("cp").arg(env!("CARGO_BIN_EXE_icecore")).arg(program).status();
        assert!(copy.unwrap().success());
        let mode = PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.machine.path(""), mode).unwrap();
        std::fs::create_dir_all(self.data()).unwrap();
        let owner = format!("{SERVER}:{SERVER}");
        ended(Command::new("chown").args(["-R", &owner, &self.data()])).ends(0);
    }

    /// `icecore WORDS` as the user.
    pub(crate) fn command(self, words: &[&str]) -> Command {
        let of_tests = self.machine.command(words);
        let mut command = Command::new(self.machine.path("icecore"));
        command.args(words).env_clear().uid(SERVER).gid(SERVER);
        for (name, value) in of_tests.get_envs() {
            value.map(|value| command.env(name, value));
        }
        command.env("HOME", self.data()).stdin(Stdio::null());
        command
    }

    /// The server that `words` start, beside its helper.
    pub(crate) fn server(self, words: &[&str]) -> Command {
        self.command(&[words, &["--lock-helper", &self.text("socket")]].concat())
    }

    fn helper(self, words: &[&str]) -> Command {
        self.machine
            .command([&["lock-helper", "--pool", self.pool().to_str().unwrap()], words].concat())
    }

    fn shell(self, script: &str) -> bool {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(self.pool());
        shell.uid(SERVER).gid(SERVER).stderr(Stdio::null()).status().unwrap().success()
    }

    /// What the status of the control server tells of the helper, once it is something that is `wanted`.
    fn told(self, wanted: impl Fn(&Value) -> bool) -> Value {
        found("word of the lock helper", || {
            let status = govern(self.machine, &["status", "--json"]).ends(0).last();
            match status.pointer(self.status).filter(|told| wanted(told)) {
                Some(told) => Ok(told.clone()),
                None => Err(status),
            }
        })
    }

    /// Waits until the helper keeps something else than `before` files, and nothing failed.
    fn kept(self, before: u64) -> u64 {
        let is_whole = |told: &Value| told["problems"].as_array().is_some_and(Vec::is_empty);
        let told = self.told(|told| told["files"] != before && is_whole(told));
        told["files"].as_u64().unwrap()
    }

    /// Waits until the first problem is one that contains `words`.
    fn alarms(self, words: &str) {
        self.told(|told| told["problems"][0].as_str().is_some_and(|first| first.contains(words)));
        let shown = govern(self.machine, &["status"]).ends(0).text();
        assert!(shown.contains("ALARM") && shown.contains(words), "{shown}");
    }
}

/// The helper, until it is dropped.
struct Helper(Child);

impl Helper {
    fn start(user: OwnUser<'_>) -> Self {
        let mut command = user.helper(&["--socket", &user.text("socket")]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.starts_with("listening at ")));
        Self(child)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server whose data is there, and the node `web`.
fn with_own_domain() -> Ordered {
    let machine = Machine::bare();
    let user = OwnUser::own(&machine);
    user.owns_its_data();
    let words = ["server", "--data", &user.data(), "--listen", "127.0.0.1:0"];
    let server = started(&mut user.server(&words));
    Ordered::of(machine, server, ALLOW)
}

/// The domain `web` with two locked snapshots that the helper keeps.
struct Locked {
    /// Files of the first one.
    files: u64,
    snapshots: [String; 2],
    /// The server's own key.
    key: String,
}

impl Locked {
    fn new(user: OwnUser<'_>) -> Self {
        let machine = user.machine;
        lock_for(machine, "30 days");
        let first = back_up(machine, 0);
        let files = user.kept(0);
        machine.write("second", &[9; 500_000]);
        let second = back_up(machine, 1);
        assert!(user.kept(files) > files, "the files of the second one, too");
        let listed = ended(&mut user.helper(&["list", "--json"])).ends(0).lines();
        assert_eq!(listed[0]["domain"], "web");
        assert!(listed[0]["files"].as_u64() > Some(files), "{listed:?}");
        assert!(ended(&mut user.helper(&["list"])).ends(0).text().contains("web"));
        let key = govern(machine, &["key", "web", "--quiet"]).ends(0).text();
        reclaimed_beside(machine);
        Self { files, snapshots: [first, second], key: key.trim().to_owned() }
    }

    /// The helper brings back what was forged and removed, and all of it restores.
    fn comes_back(&self, user: OwnUser<'_>) {
        let recovered = ended(&mut user.helper(&["recover", "--json"])).ends(0).last();
        assert_eq!(recovered["replaced"], 1, "{recovered}");
        assert!(recovered["recovered"].as_u64() > Some(self.files), "{recovered}");
        let repository = user.pool().join("domains/web");
        let repository = ["--repo", repository.to_str().unwrap()];
        let with_key = |words: &[&str]| -> Ran {
            let mut command = user.command(&[words, &repository].concat());
            ended(command.env("ICECORE_PASSWORD", &self.key)).ends(0)
        };
        with_key(&["rebuild"]);
        with_key(&["check", "--read-data"]);
        let shown = with_key(&["snapshots", "--json"]).lines();
        let ids: Vec<_> = shown.iter().filter_map(|line| line["snapshot_id"].as_str()).collect();
        assert_eq!(ids, self.snapshots);
        let back = user.text("back");
        let mut restore = user.machine.command(["restore", "latest", "--target", &back]);
        ended(restore.args(repository).env("ICECORE_PASSWORD", &self.key)).ends(0);
        let source = user.text("source");
        ended(Command::new("diff").args(["-r", &source, &format!("{back}{source}")])).ends(0);
    }
}

/// Somebody took the server over.
fn take_over(user: OwnUser<'_>) {
    let overwrite =
        "for f in $(find domains -name '*.ice'); do echo x 2>/dev/null > $f; done; true";
    assert!(user.shell(overwrite));
    let forge = "rm -rf domains/web && mkdir domains/web && echo forged > domains/web/config";
    assert!(user.shell(forge));
}

/// The repository works as before for the server: it reads what is root's, and a reclaim leaves that alone.
fn reclaimed_beside(machine: &Machine) {
    govern(machine, &["upkeep", "start", "default", "--domain", "web"]).ends(0);
    found("end of upkeep", || {
        let jobs = govern(machine, &["jobs", "--json"]).ends(0).lines();
        let upkeep: Vec<_> = jobs.iter().filter(|job| job["plan"]["policy"] != "source").collect();
        assert!(upkeep.iter().all(|job| job["state"] != "failed"), "{upkeep:?}");
        let complete = upkeep.iter().filter(|job| job["state"] == "complete").count();
        if complete >= 2 { Ok(()) } else { Err(jobs.into()) }
    });
}

/// Whether this test can run.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        testkit::skip("the lock helper runs as root");
    }
    is_root
}

#[test]
fn a_server_that_was_taken_over_loses_no_locked_snapshot() {
    if !is_root() {
        return;
    }
    let ordered = with_own_domain();
    let user = OwnUser::own(&ordered.machine);
    let by_itself = user.command(&["lock-helper", "--pool", user.pool().to_str().unwrap()]);
    let refused = ended(&mut { by_itself }).ends(13).stderr;
    assert!(refused.contains("Run it as root"), "{refused}");
    let helping = Helper::start(user);
    let locked = Locked::new(user);
    drop(helping);
    user.alarms("web: cannot connect to"); // within seconds
    take_over(user);
    locked.comes_back(user);
    of_its_own_directory_in_the_place_of_another_one(user);
    of_a_pool_that_was_moved(user);
}

/// Somebody had the helper's directory in the way of what comes back, where root gave it away with all that is kept.
fn of_its_own_directory_in_the_place_of_another_one(user: OwnUser<'_>) {
    assert!(user.shell("mv domains x && mv .locked domains && rm -rf x/web"));
    let recovered = ended(&mut user.helper(&["recover", "--json"])).ends(0).last();
    assert!(recovered["recovered"].as_u64() > Some(0), "{recovered}");
    assert_eq!(std::fs::metadata(user.pool().join(".locked")).unwrap().uid(), 0);
    assert!(!user.shell("rm -rf .locked") && user.shell("ls domains/web/containers"));
}

/// Somebody renamed the pool, and made another one.
fn of_a_pool_that_was_moved(user: OwnUser<'_>) {
    let pool = user.pool();
    std::fs::rename(&pool, pool.with_extension("it's")).unwrap();
    assert!(Command::new("mkdir").arg(&pool).uid(SERVER).gid(SERVER).status().unwrap().success());
    let told = ended(&mut user.helper(&["recover"])).ends(1);
    let told = told.stderr;
    assert!(told.contains("nothing is kept") && told.contains(r"pool.it'\''s'"), "{told}");
}

#[test]
fn a_storage_server_that_was_taken_over_loses_no_locked_snapshot() {
    if !is_root() {
        return;
    }
    let mut site = Site::with_lock_helper();
    let helping = Helper::start(OwnUser::storage(&site.machine));
    site.enroll("web", &[]);
    let _agent = site.start_agent("web");
    let locked = Locked::new(OwnUser::storage(&site.machine));
    take_over(OwnUser::storage(&site.machine));
    site.storage = None;
    drop(helping);
    locked.comes_back(OwnUser::storage(&site.machine));
    // And nodes find it as it was.
    site.start_storage();
    site.restores("web", &[]);
    back_up(&site.machine, 2);
}

/// Without its helper a server says so, and goes on.
#[test]
fn a_helper_that_does_not_answer_is_an_alarm_and_no_end_of_backups() {
    if !is_root() {
        return;
    }
    let ordered = with_own_domain();
    lock_for(&ordered.machine, "30 days");
    back_up(&ordered.machine, 0);
    OwnUser::own(&ordered.machine).alarms("web: cannot connect to");
}

/// Whether locks reach the disk of a storage server is told, or that nobody knows it.
#[test]
fn a_storage_server_whose_helper_is_not_heard_is_an_alarm_of_the_control_server() {
    if !is_root() {
        return;
    }
    let mut site = Site::with_lock_helper();
    site.enroll("web", &[]);
    let _agent = site.start_agent("web");
    lock_for(&site.machine, "30 days");
    back_up(&site.machine, 0);
    OwnUser::storage(&site.machine).alarms("web: cannot connect to");
    site.storage = None;
    OwnUser::storage(&site.machine).alarms("the storage server is away");
    // Somebody left out the flag.
    site.has_lock_helper = false;
    site.start_storage();
    OwnUser::storage(&site.machine).alarms("since the storage server restarted");
}
