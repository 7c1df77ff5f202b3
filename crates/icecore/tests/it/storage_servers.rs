//! A server, a storage server and nodes as processes: `icecore server`, `icecore storage`, and backups that go straight
//! to where their domain lies.

use crate::lock_helping::OwnUser;
use crate::machine::{Machine, Ran, ended, random};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A process that runs until it is dropped: then it is killed.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts `command` and waits for its first line.
    pub(crate) fn start(mut command: Command, begins: &str) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let running = Self(child);
        assert!(line.starts_with(begins), "{line}");
        running
    }

    /// How it ended, when it ends within so many seconds.
    pub(crate) fn ends_within(&mut self, secs: u64) -> Option<i32> {
        let end = Instant::now() + Duration::from_secs(secs);
        loop {
            match self.0.try_wait().unwrap() {
                Some(status) => return Some(status.code().unwrap_or(-1)),
                None if Instant::now() > end => return None,
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    pub(crate) fn kill(&mut self) {
        let pid = Pid::from_raw(self.0.id().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        self.0.wait().unwrap();
    }
}

const CUT_OFF_WITHIN: Duration = Duration::from_secs(3);

/// A port that nobody listens at: below those that the system gives to connections, and another one each time, so that
/// it is free also while a server that had it starts again.
pub(crate) fn free_port() -> u16 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let next = || {
        // Processes with neighboring numbers are far apart.
        let at =
            std::process::id().wrapping_mul(61).wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed));
        Some(10_000 + (at % 9_000) as u16)
    };
    std::iter::from_fn(next).take(9_000).find(is_free).expect("a free port")
}

/// A server with the storage server `disk`.
pub(crate) struct Site {
    pub(crate) machine: Machine,
    pub(crate) server: Option<Running>,
    pub(crate) storage: Option<Running>,
    pub(crate) port: u16,
    pub(crate) storage_port: u16,
    /// Of the servers, and of commands on their machine.
    pub(crate) variables: Vec<(&'static str, String)>,
    /// It runs as a user of its own, beside a lock helper.
    pub(crate) has_lock_helper: bool,
    /// Further options of both servers.
    pub(crate) flags: &'static [&'static str],
}

impl Site {
    pub(crate) fn new() -> Self {
        let mut site = Self::enrolled();
        site.start_storage();
        site
    }

    /// The storage server runs as a user of its own, and is told of a lock helper.
    pub(crate) fn with_lock_helper() -> Self {
        let mut site = Self::enrolled();
        OwnUser::storage(&site.machine).owns_its_data();
        site.has_lock_helper = true;
        site.start_storage();
        site
    }

    /// Its storage server does not run yet.
    fn enrolled() -> Self {
        Self::enrolled_with(&[])
    }

    /// The repositories of its storage server, which does not run yet, lie in another folder.
    pub(crate) fn with_pool(name: &str) -> Self {
        Self::enrolled_with(&[name])
    }

    fn enrolled_with(pool: &[&str]) -> Self {
        let mut site = Self::alone(Vec::new());
        site.start_server();
        let pools: Vec<_> = pool.iter().map(|name| site.folder(name)).collect();
        pools.iter().for_each(|pool| std::fs::create_dir(pool).unwrap());
        let more: Vec<_> = pools.iter().flat_map(|pool| ["--pool", pool]).collect();
        site.enroll_storage("disk", &more).ends(0);
        site
    }

    /// A server that does not run yet, and no storage server.
    pub(crate) fn alone(variables: Vec<(&'static str, String)>) -> Self {
        Self {
            machine: Machine::bare(),
            server: None,
            storage: None,
            port: free_port(),
            storage_port: free_port(),
            variables,
            has_lock_helper: false,
            flags: &[],
        }
    }

    pub(crate) fn start_server(&mut self) {
        self.server = Some(Running::start(self.server_command("data"), "serving "));
    }

    /// The server with its files in the folder `data`.
    pub(crate) fn server_command(&self, data: &str) -> Command {
        let listen = format!("127.0.0.1:{}", self.port);
        let words = ["server", "--listen", &listen, "--data", &self.folder(data)];
        let mut command = self.machine.command(words);
        command.args(self.flags);
        command.envs(self.variables.iter().cloned());
        command
    }

    pub(crate) fn storage_command(&self) -> Command {
        let listen = format!("127.0.0.1:{}", self.storage_port);
        let words = ["storage", "--data", &self.folder("disk"), "--listen", &listen];
        let mut command = match self.has_lock_helper {
            true => OwnUser::storage(&self.machine).server(&words),
            false => self.machine.command(words),
        };
        command.args(self.flags);
        command.envs(self.variables.iter().cloned());
        command
    }

    /// Runs when the server has heard of it.
    pub(crate) fn start_storage(&mut self) {
        self.storage = Some(Running::start(self.storage_command(), "storing "));
        self.wait_for("the storage server", |site| site.knows_storage_at(site.storage_port));
    }

    pub(crate) fn knows_storage_at(&self, port: u16) -> bool {
        let storage_servers = self.govern(&["storage-servers", "--json"]).ends(0).lines();
        storage_servers[0]["connected"] == true && storage_servers[0]["port"] == port
    }

    /// Does `meanwhile` while the storage server is stopped.
    pub(crate) fn restart_storage(&mut self, meanwhile: impl FnOnce()) {
        self.storage = None;
        meanwhile();
        self.start_storage();
    }

    pub(crate) fn folder(&self, name: &str) -> String {
        self.machine.path(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn govern(&self, words: &[&str]) -> Ran {
        self.here(&[&["server", "--data", &self.folder("data")], words].concat())
    }

    /// A command on the machine of the servers.
    pub(crate) fn here(&self, words: &[&str]) -> Ran {
        ended(self.machine.command(words).envs(self.variables.iter().cloned()))
    }

    /// Address and token, as the line to type has them.
    pub(crate) fn token(&self, words: &[&str]) -> [String; 2] {
        let words: Vec<_> = ["token"].iter().chain(words).copied().collect();
        let text = self.govern(&words).ends(0).text();
        let words: Vec<_> = text.lines().last().unwrap().split(' ').collect();
        [words[3].to_owned(), words[4].to_owned()]
    }

    pub(crate) fn enroll_storage(&self, folder: &str, more: &[&str]) -> Ran {
        let [url, token] = self.token(&["disk", "--storage"]);
        let data = self.folder(folder);
        let words = ["storage", "--data", &data, "enroll", &url, &token, "--name", "127.0.0.1"];
        self.here(&[&words[..], more].concat())
    }

    /// A node, its new domain on the storage server.
    pub(crate) fn enroll(&self, node: &str, more: &[&str]) {
        self.enroll_in(node, &[&["--on", "disk"], more].concat());
    }

    /// A node of a domain that there is.
    pub(crate) fn enroll_in(&self, node: &str, more: &[&str]) {
        let words: Vec<_> = [node].iter().chain(more).copied().collect();
        let [url, token] = self.token(&words);
        self.node(node, &["agent", "enroll", &url, &token]).ends(0);
    }

    pub(crate) fn node_command(&self, node: &str, words: &[&str]) -> Command {
        let mut command = self.machine.command(words);
        command.args(["--agent-dir", &self.folder(node)]);
        command.env_remove("ICECORE_REPO").env_remove("ICECORE_PASSWORD");
        command
    }

    pub(crate) fn node(&self, node: &str, words: &[&str]) -> Ran {
        ended(&mut self.node_command(node, words))
    }

    /// The agent of a node, which may back up everything here.
    pub(crate) fn start_agent(&self, node: &str) -> Running {
        let folder = self.machine.path(node);
        let file = folder.join("allow.toml");
        std::fs::write(&file, format!("backup_below = [{:?}]\n", self.folder(""))).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let mut command = self.node_command(node, &["agent"]);
        Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// A backup of much that is not over before a busy machine has done what should happen meanwhile;
    /// begun when the server shows it. It takes a minute, or ends soon after `lift_limits`.
    pub(crate) fn begin_backup(&self, node: &str) -> Running {
        self.begin_backup_at(node, "512K")
    }

    /// The same at another rate.
    pub(crate) fn begin_backup_at(&self, node: &str, rate: &str) -> Running {
        self.machine.write("much", &random(32 << 20));
        self.govern(&["limit", "add", "--node", node, "--up", rate]).ends(0);
        let source = self.folder("source");
        let mut command = self.node_command(node, &["backup", "--json", &source]);
        let (out, log) = (self.log(node, "out"), self.log(node, "log"));
        command.stdout(std::fs::File::create(out).unwrap());
        let log = std::fs::File::create(log).unwrap();
        let backup = Running(command.stderr(log).spawn().unwrap());
        self.wait_for("the job", |site| {
            let jobs = site.govern(&["sessions", "--json"]).ends(0).lines();
            jobs.iter().any(|job| job["state"] == "running")
        });
        // Now it is in the middle.
        std::thread::sleep(Duration::from_millis(1500));
        backup
    }

    /// What is under way goes as fast as it can from here.
    pub(crate) fn lift_limits(&self) {
        let listed = self.govern(&["limit", "list", "--json"]).ends(0).lines();
        for limit in listed.iter().filter(|line| line["message_type"] == "limit") {
            self.govern(&["limit", "remove", &limit["id"].to_string()]).ends(0);
        }
    }

    fn log(&self, node: &str, what: &str) -> PathBuf {
        self.machine.path(&format!("{node}.{what}"))
    }

    pub(crate) fn said(&self, node: &str) -> String {
        let texts = ["out", "log"].map(|what| std::fs::read_to_string(self.log(node, what)));
        texts.map(Result::unwrap).concat()
    }

    pub(crate) fn wait_for(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let end = Instant::now() + Duration::from_secs(120);
        while !is_so(self) {
            assert!(Instant::now() < end, "{what} did not come");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Restores the newest snapshot, and compares.
    pub(crate) fn restores(&self, node: &str, more: &[&str]) {
        let target = self.folder(&format!("restored-{node}"));
        let _ = std::fs::remove_dir_all(&target);
        let words = ["restore", "latest", "--target", &target];
        self.node(node, &words.iter().chain(more).copied().collect::<Vec<_>>()).ends(0);
        let restored = format!("{target}{}", self.folder("source"));
        let same = ended(Command::new("diff").args(["-r", &restored, &self.folder("source")]));
        assert_eq!(same.code, 0, "{}{}", same.text(), same.stderr);
    }

    /// The newest job of the server's list.
    fn last_job(&self) -> serde_json::Value {
        self.govern(&["jobs", "--json"]).ends(0).lines()[0].clone()
    }
}

#[test]
fn a_domain_lies_on_the_storage_server_and_nowhere_else() {
    let site = Site::new();
    for (node, keys) in [("web", "managed"), ("own", "client")] {
        site.enroll(node, &["--keys", keys]);
        site.node(node, &["backup", &site.folder("source")]).ends(0);
        site.restores(node, &[]);
        let stats = site.node(node, &["stats", "--json"]).ends(0).last();
        assert!(stats["bytes_of_snapshots"].as_u64() > Some(0) && stats["containers"].is_null());
        assert!(site.node(node, &["stats"]).ends(0).text().contains("repository: 1 snapshot,"));
        let listed = site.node(node, &["snapshots", "--json"]).ends(0).lines();
        assert_eq!(listed.len(), 2, "{node}: a snapshot and the summary");
        let seen = site.govern(&["snapshots", node, "--json"]).ends(0).lines();
        assert_eq!(seen.len(), 2, "{node}: the server sees what lies in the clear");
        assert!(site.machine.path("disk/pool/domains").join(node).join("config").exists());
        assert!(!site.machine.path("data/pool/domains").join(node).exists());
    }
    let storage_servers = site.govern(&["storage-servers", "--json"]).ends(0).lines();
    assert_eq!(
        (&storage_servers[0]["name"], &storage_servers[0]["domains"]),
        (&"disk".into(), &2.into())
    );
    assert!(storage_servers[0]["free_bytes"].as_u64() > Some(0));
    assert_eq!(site.govern(&["status", "--json"]).ends(0).last()["storage_servers"], 1);
    site.wait_for("the ends of the jobs", |site| {
        let jobs = site.govern(&["jobs", "--kind", "backup", "--json"]).ends(0).lines();
        jobs.iter().filter(|job| job["snapshot"].is_string()).count() == 2
    });
    site.govern(&["audit"]).ends(0);
}

#[test]
fn a_new_domain_goes_to_any_storage_server_that_is_connected() {
    let mut site = Site::new();
    let token = |site: &Site, node: &str| site.govern(&["token", node, "--on", "any", "--json"]);
    assert_eq!(token(&site, "web").ends(0).last()["storage"], "disk");
    site.enroll_in("web", &["--on", "any"]);
    assert!(site.machine.path("disk/pool/domains/web/config").exists());
    site.storage.as_mut().unwrap().kill();
    site.wait_for("the storage server to be missed", |site| token(site, "new").code != 0);
    let refused = token(&site, "new").ends(2);
    assert!(refused.text().contains("icecore server storage-servers"), "{}", refused.text());
    assert_eq!(token(&site, "web").ends(0).last()["storage"], "disk", "it stays where it lies");
    site.govern(&["token", "any", "--storage"]).ends(2);
}

#[test]
fn a_domain_that_was_deleted_on_its_storage_server_is_removed_and_no_other() {
    let mut site = Site::new();
    site.enroll("web", &[]);
    let remove = |site: &Site| site.govern(&["remove-domain", "web"]);
    assert!(remove(&site).ends(13).stderr.contains("icecore server remove web"));
    site.govern(&["revoke", "web"]).ends(0);
    site.govern(&["remove", "web"]).ends(0);
    let refused = remove(&site).ends(13);
    assert!(refused.stderr.contains("icecore storage pool list"), "{}", refused.stderr);
    site.storage.as_mut().unwrap().kill();
    remove(&site).ends(16);
    std::fs::remove_dir_all(site.machine.path("disk/pool/domains/web")).unwrap();
    site.start_storage();
    let refused = remove(&site).ends(13);
    assert!(refused.stderr.contains("remove-domain web --lost"), "{}", refused.stderr);
    site.govern(&["remove-domain", "web", "--lost"]).ends(0);
    assert_eq!(site.govern(&["domains", "--json"]).ends(0).lines().len(), 1, "the summary");
    site.govern(&["audit"]).ends(0);
}

#[test]
fn a_granted_node_restores_across_until_the_grant_ends() {
    let site = Site::new();
    site.enroll("web", &[]);
    let [url, token] = site.token(&["spare"]);
    site.node("spare", &["agent", "enroll", &url, &token]).ends(0);
    site.node("web", &["backup", &site.folder("source")]).ends(0);
    site.govern(&["grant", "spare", "web", "--for", "1d"]).ends(0);
    site.restores("spare", &["--domain", "web"]);
    // A password in the environment is of something else: the key that was granted opens it.
    let words = ["snapshots", "--domain", "web", "--json"];
    let other = |words: &[&str]| {
        let mut command = site.node_command("spare", words);
        ended(command.env("ICECORE_PASSWORD", "of another repository"))
    };
    assert_eq!(other(&words).ends(0).lines().len(), 2);
    let refused = ended(site.node_command("spare", &words).env("ICECORE_REPO", "/somewhere"));
    assert!(refused.code == 2 && refused.text().contains("--domain web"), "{}", refused.text());
    // Its own domain lies with the server, and goes on to.
    site.node("spare", &["backup", &site.folder("source")]).ends(0);
    assert!(site.machine.path("data/pool/domains/spare").exists());
    let slots =
        || std::fs::read_dir(site.machine.path("disk/pool/domains/web/keys")).unwrap().count();
    let before = slots();
    site.govern(&["ungrant", "spare", "web"]).ends(0);
    assert_eq!(slots(), before - 1, "the key that was made for it is gone");
    site.node("spare", &["snapshots", "--domain", "web"]).ends(13);
}

#[test]
fn a_revoked_node_is_cut_off_within_three_seconds() {
    // One of so many, if the machine does much else.
    let took: Vec<_> =
        (0..5).map(|_| revoked_and_cut_off()).take_while(|took| *took >= CUT_OFF_WITHIN).collect();
    assert!(took.len() < 5, "{took:?}");
}

/// Time from the revocation of a node to the end of its backup.
fn revoked_and_cut_off() -> Duration {
    let site = Site::new();
    site.enroll("web", &[]);
    let mut backup = site.begin_backup("web");
    site.govern(&["revoke", "web"]).ends(0);
    let since = Instant::now();
    let code = backup.ends_within(60).expect("the backup ends");
    let took = since.elapsed();
    assert_ne!(code, 0);
    assert!(site.said("web").contains("was revoked"), "{}", site.said("web"));
    let refused = site.node("web", &["snapshots"]);
    assert!(refused.code != 0 && refused.stderr.contains("is revoked"), "{refused:?}");
    took
}

#[test]
fn a_job_can_be_cancelled_from_the_server() {
    let site = Site::new();
    site.enroll("web", &[]);
    let mut backup = site.begin_backup("web");
    let job = site.govern(&["sessions", "--json"]).ends(0).lines()[0]["id"].to_string();
    site.govern(&["cancel", &job]).ends(0);
    let code = backup.ends_within(60).expect("the backup ends");
    assert_ne!(code, 0, "{}", site.said("web"));
}

#[test]
fn a_revoked_storage_server_ends_and_nobody_is_sent_there() {
    let mut site = Site::new();
    site.enroll("web", &[]);
    site.govern(&["revoke", "disk", "--storage"]).ends(0);
    let storage = site.storage.as_mut().unwrap();
    assert_eq!(storage.ends_within(60), Some(13));
    let refused = site.node("web", &["backup", &site.folder("source")]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("'disk' is revoked"), "{}", refused.stderr);
    assert_eq!(ended(&mut site.storage_command()).code, 13, "it does not come back");
    site.govern(&["token", "more", "--on", "disk"]).ends(13);
    // It may enroll again, and has its repositories still.
    site.enroll_storage("disk", &["--replace"]).ends(0);
    site.start_storage();
    site.node("web", &["backup", &site.folder("source")]).ends(0);
    site.restores("web", &[]);
}

/// Nor the job that runs. It is the only one at its storage server: several are told in the tests of the server.
#[test]
fn a_limit_that_is_lifted_holds_no_connection_any_more() {
    let site = Site::new();
    site.enroll("web", &[]);
    let _agent = site.start_agent("web");
    let mut backup = site.begin_backup("web");
    site.lift_limits();
    assert_eq!(backup.ends_within(30), Some(0), "{}", site.said("web"));
}

#[test]
fn a_backup_outlives_its_storage_server() {
    let mut site = Site::new();
    site.enroll("web", &[]);
    let mut backup = site.begin_backup("web");
    site.storage.as_mut().unwrap().kill();
    std::thread::sleep(Duration::from_secs(1));
    site.start_storage();
    site.lift_limits();
    assert_eq!(backup.ends_within(30), Some(0), "{}", site.said("web"));
    site.restores("web", &[]);
    let lost = site.govern(&["jobs", "--state", "lost", "--json"]).ends(0).lines();
    assert_eq!(lost[0]["node"], "web", "the job of the run that was killed is lost");
}

#[test]
fn a_backup_finds_a_storage_server_that_moved() {
    let mut site = Site::new();
    site.enroll("web", &[]);
    let mut backup = site.begin_backup("web");
    site.storage.as_mut().unwrap().kill();
    site.storage_port = free_port();
    site.start_storage();
    site.lift_limits();
    assert_eq!(backup.ends_within(30), Some(0), "{}", site.said("web"));
    site.restores("web", &[]);
}

#[test]
fn a_backup_outlives_the_control_server() {
    let mut site = Site::new();
    site.enroll("web", &[]);
    // Nobody can lift the limit meanwhile.
    let mut backup = site.begin_backup_at("web", "4M");
    site.server.as_mut().unwrap().kill();
    assert_eq!(backup.ends_within(180), Some(0), "{}", site.said("web"));
    site.start_server();
    site.wait_for("the end of the job", |site| site.last_job()["state"] == "complete");
    assert_eq!(site.govern(&["jobs", "--json"]).ends(0).lines().len(), 2, "one job, and the end");
    site.restores("web", &[]);
}

/// The job was listed as running, and nothing knew of its session: no cancelling, no report, no end.
#[test]
fn a_backup_of_a_policy_outlives_the_control_server_and_is_known_again() {
    let mut site = Site::new();
    site.enroll("web", &[]);
    site.machine.write("much", &random(16 << 20));
    let folder = site.machine.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    let allow = site.machine.path("web/allow.toml");
    std::fs::write(&allow, format!("backup_below = [\"{folder}\"]\n")).unwrap();
    std::fs::set_permissions(&allow, PermissionsExt::from_mode(0o600)).unwrap();
    let slow = "options = { limit-read = { value = \"1M\", force = true } }";
    let policy =
        format!("[policy.slow]\nnodes = [\"web\"]\npaths = [\"{folder}/source\"]\n{slow}\n");
    let file = site.machine.path("site.toml");
    std::fs::write(&file, policy).unwrap();
    site.govern(&["apply", file.to_str().unwrap(), "--yes"]).ends(0);
    let mut agent = site.node_command("web", &["agent"]);
    let _agent = Running(agent.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    site.govern(&["start", "slow"]).ends(0);
    let runs = |site: &Site| {
        let sessions = site.govern(&["sessions", "--json"]).ends(0).lines();
        sessions.iter().any(|job| job["progress"]["bytes_read"].as_u64() > Some(0))
    };
    site.wait_for("the session", runs);
    site.server.as_mut().unwrap().kill();
    site.start_server();
    site.wait_for("the session again", runs);
    let id = site.last_job()["id"].to_string();
    site.govern(&["cancel", &id]).ends(0);
    site.wait_for("the end", |site| site.last_job()["state"] == "cancelled");
}

#[test]
fn who_comes_while_the_control_server_is_away_waits_for_it() {
    let mut site = Site::new();
    site.enroll("web", &[]);
    let mut backup = site.begin_backup("web");
    site.server.as_mut().unwrap().kill();
    // Its storage server cannot ask whether it may come back, and says so until it can.
    site.storage.as_mut().unwrap().kill();
    site.storage = Some(Running::start(site.storage_command(), "storing "));
    assert_eq!(backup.ends_within(3), None, "{}", site.said("web"));
    site.start_server();
    site.lift_limits();
    assert_eq!(backup.ends_within(30), Some(0), "{}", site.said("web"));
    site.restores("web", &[]);
}

#[test]
fn tokens_and_names_are_for_what_they_were_made() {
    let site = Site::new();
    let [url, token] = site.token(&["web", "--on", "disk"]);
    let data = site.folder("other");
    let storage = ["storage", "--data", &data, "enroll", &url, &token, "--name", "127.0.0.1"];
    site.machine.run(storage).ends(13);
    let [_, for_storage] = site.token(&["more", "--storage"]);
    site.node("web", &["agent", "enroll", &url, &for_storage]).ends(13);
    for name in ["*.example.com", "a b", "backup."] {
        let words = ["storage", "--data", &data, "enroll", &url, &for_storage, "--name", name];
        site.machine.run(words).ends(2);
    }
    site.govern(&["token", "web", "--on", "nowhere"]).ends(1);
    site.govern(&["token", "web", "--on", "disk", "--storage"]).ends(2);
    site.node("web", &["agent", "enroll", &url, &token]).ends(0);
    site.govern(&["token", "web-2", "--domain", "web"]).ends(0);
    let [_, again] = site.token(&["own"]);
    site.node("own", &["agent", "enroll", &url, &again]).ends(0);
    site.govern(&["token", "own-2", "--domain", "own", "--on", "disk"]).ends(2);
}

/// Somebody has copied the directory of an agent.
#[test]
fn two_machines_with_one_identity_do_not_back_up_one_source_at_once() {
    let site = Site::new();
    site.enroll("web", &[]);
    site.node("web", &["backup", &site.folder("source")]).ends(0);
    let mut copy = Command::new("cp");
    copy.args(["-a", &site.folder("web"), &site.folder("twin")]);
    ended(&mut copy).ends(0);
    // Much longer than all that follows takes.
    site.machine.write("much", &random(16 << 20));
    site.govern(&["limit", "add", "--node", "web", "--up", "64K"]).ends(0);
    site.wait_for("the end of the first job", |site| {
        let jobs = site.govern(&["sessions", "--json"]).ends(0).lines();
        jobs.iter().all(|job| job["state"] != "running")
    });
    // The storage server looks up limits every few seconds.
    std::thread::sleep(Duration::from_secs(7));
    let mut command = site.node_command("web", &["backup", &site.folder("source")]);
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut backup = Running(command.spawn().unwrap());
    site.wait_for("the job", |site| {
        let jobs = site.govern(&["sessions", "--json"]).ends(0).lines();
        jobs.iter().any(|job| job["state"] == "running")
    });
    let refused = site.node("twin", &["backup", &site.folder("source")]).ends(13);
    assert!(refused.stderr.contains("is backing up this source already"), "{}", refused.stderr);
    // One that is gone is in nobody's way, however it ended.
    backup.kill();
    std::fs::remove_file(site.machine.path("source/much")).unwrap();
    site.node("twin", &["backup", &site.folder("source")]).ends(0);
}

#[test]
fn a_storage_server_that_enrolls_again_listens_where_it_did() {
    let site = Site::enrolled();
    let listens_on = |at: &str| {
        let folder = site.folder("disk");
        let shown = site.machine.run(["storage", "--data", &folder, "status"]).ends(0).text();
        assert!(shown.contains(&format!("listens on   {at}\n")), "{shown}");
    };
    let before = format!("127.0.0.1:{}", site.storage_port);
    site.enroll_storage("disk", &["--replace", "--listen", &before]).ends(0);
    listens_on(&before);
    site.enroll_storage("disk", &["--replace"]).ends(0);
    listens_on(&before);
    site.enroll_storage("disk", &["--replace", "--listen", "127.0.0.1:1"]).ends(0);
    listens_on("127.0.0.1:1");
}
