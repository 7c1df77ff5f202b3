//! A machine: a folder that it alone sees under the path that all of them call theirs, an agent, and files of which
//! each version is known.

use crate::client::Client;
use crate::disconnects::proxy::Proxy;
use crate::failed;
use api::jobs::Job;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use simulation::Random;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Files of each machine, and how long they are.
const FILES: [(&str, usize); 9] = [
    ("data/file-0", 3_000),
    ("data/file-1", 20_000),
    ("data/file-2", 100),
    ("data/file-3", 50_000),
    ("data/file-4", 1),
    ("data/left.tmp", 500),
    ("log/one.log", 8_000),
    ("log/two.log", 30_000),
    ("big", 1 << 20),
];
/// What the stream of each machine says.
pub(super) const STREAM: &str = "all the goods";

const HOOKS: &str = "[hook.note]\ncommand = [\"/bin/echo\", \"noted\"]\n\
    [hook.sick]\ncommand = [\"/usr/bin/test\", \"!\", \"-e\", \"{}/sick\"]\n";

/// A machine that is backed up.
pub(super) struct Machine {
    pub(super) name: String,
    pub(super) client: Client,
    folder: PathBuf,
    /// The link to its server, if it may break.
    link: Option<Arc<Proxy>>,
    agent: Option<Child>,
    /// When the agent that was killed comes back.
    back: Option<Instant>,
    /// When each version of each file was written, in milliseconds.
    versions: BTreeMap<&'static str, Vec<i64>>,
}

impl Machine {
    /// A machine in `folder`, whose client is enrolled there; its server may be behind `link`.
    pub(super) fn new(
        name: &str,
        folder: &Path,
        client: Client,
        link: Option<Arc<Proxy>>,
    ) -> Result<Self, String> {
        let (name, folder, versions) = (name.to_owned(), folder.to_owned(), BTreeMap::new());
        let mut machine = Self { name, client, folder, link, agent: None, back: None, versions };
        for below in ["own/data", "own/log", "aside"] {
            fs::create_dir_all(machine.folder.join(below)).map_err(failed("make a folder"))?;
        }
        FILES.iter().try_for_each(|(file, _)| machine.write(file))?;
        Ok(machine)
    }

    /// What the server may ask of it; `own` is what it calls its folder.
    pub(super) fn allow(&self, own: &Path) -> Result<(), String> {
        let allow = format!("backup_below = [{own:?}]\nrestore_below = []\n");
        let streams = format!("[stream.shop]\ncommand = [\"/bin/echo\", \"{STREAM}\"]\n");
        let hooks = HOOKS.replace("{}", &own.to_string_lossy());
        for (name, text) in
            [("allow.toml", allow), ("streams.toml", streams), ("hooks.toml", hooks)]
        {
            let file = self.folder.join("agent").join(name);
            fs::write(&file, text).map_err(failed("write a list"))?;
            let private = fs::Permissions::from_mode(0o600);
            fs::set_permissions(file, private).map_err(failed("write a list"))?;
        }
        Ok(())
    }

    /// Starts the agent, in a view of the file system in which `own` is its folder.
    pub(super) fn start(&mut self, own: &Path) -> Result<(), String> {
        let log = self.folder.join("agent.log");
        let log = fs::File::options().create(true).append(true).open(log);
        let log = log.map_err(failed("make a log"))?;
        let script = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
        command.args([&self.folder.join("own"), own]).arg(&self.client.binary).arg("agent");
        command
            .env("ICECORE_AGENT_DIR", self.folder.join("agent"))
            .env("HOME", "/nonexistent")
            .env_remove("ICECORE_REPO")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.agent = Some(command.spawn().map_err(failed("start an agent"))?);
        self.back = None;
        Ok(())
    }

    /// `kill -9` of the agent, of everything that it started too if `is_whole`; it comes back after `away`.
    pub(super) fn kill(&mut self, is_whole: bool, away: Duration) {
        let Some(mut agent) = self.agent.take() else { return };
        if let Some(id) = Pid::from_raw(agent.id() as i32) {
            // Either may have ended.
            let _ = kill_process(id, Signal::KILL);
            if is_whole {
                let _ = kill_process_group(id, Signal::KILL);
            }
        }
        let _ = agent.wait();
        self.back = Some(Instant::now() + away);
    }

    /// Kills backups that run; how many.
    pub(super) fn kill_backups(&self) -> u64 {
        let files = fs::read_dir(self.folder.join("agent/running")).into_iter().flatten().flatten();
        let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
        let ids = texts.filter_map(|text| {
            serde_json::from_str::<serde_json::Value>(&text).ok()?["process"].as_i64()
        });
        let runs = |id: &i64| {
            let line = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
            line.contains("--command-number") && self.is_its(*id)
        };
        let ids = ids.filter(runs).filter_map(|id| Pid::from_raw(id as i32));
        ids.filter(|id| kill_process(*id, Signal::KILL).is_ok()).count() as u64
    }

    fn is_its(&self, id: i64) -> bool {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        let folder = self.folder.join("agent");
        let own = format!("ICECORE_AGENT_DIR={}", folder.display());
        environment.split(|byte| *byte == 0).any(|variable| variable == own.as_bytes())
    }

    /// Starts an agent whose time away is over, or any that is away if `now`.
    pub(super) fn come_back(&mut self, own: &Path, now: bool) -> Result<(), String> {
        match self.back {
            Some(back) if now || Instant::now() >= back => self.start(own),
            _ => Ok(()),
        }
    }

    pub(super) fn link(&self) -> Option<&Proxy> {
        self.link.as_deref()
    }

    /// Memory of the agent that it shares with nobody, and its share of the rest, in KiB.
    pub(super) fn memory_kib(&self) -> Option<u64> {
        let id = self.agent.as_ref()?.id();
        let text = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix("Pss:")?.split_whitespace().next()?.parse().ok())
    }

    /// The hook that may fail does, or not any more.
    pub(super) fn turn(&self, is_sick: bool) -> Result<(), String> {
        let file = self.folder.join("own/sick");
        if is_sick {
            return fs::write(file, "").map_err(failed("write a file"));
        }
        let _ = fs::remove_file(file); // it may not be there
        Ok(())
    }

    /// New versions of some files.
    pub(super) fn change(&mut self, random: &mut Random) -> Result<(), String> {
        for _ in 0..1 + random.below(3) {
            let (file, _) = *random.pick(&FILES);
            self.write(file)?;
        }
        Ok(())
    }

    /// The next version of a file, at once and whole.
    fn write(&mut self, file: &'static str) -> Result<(), String> {
        let versions = self.versions.entry(file).or_default();
        let text = content(&self.name, file, versions.len());
        let aside = self.folder.join("aside/new");
        fs::write(&aside, text).map_err(failed("write a file"))?;
        let to = self.folder.join("own").join(file);
        // Noted before it can be seen: nobody reads a version earlier than it was noted.
        versions.push(now_ms());
        fs::rename(aside, to).map_err(failed("write a file"))
    }

    /// Restores the snapshot of a job, and looks whether each file is there as it was while the job ran.
    pub(super) fn restores(&self, job: &Job, id: &str, own: &str) -> Result<(), String> {
        let target = self.folder.join("aside/restored");
        fs::create_dir_all(&target).map_err(failed("make a target"))?;
        self.client.ends(&["restore", id, "--target", &target.to_string_lossy()], &[0])?;
        let judged = self.judge(job, own, &target);
        fs::remove_dir_all(&target).map_err(failed("remove what was restored"))?;
        judged.map_err(|error| format!("{}, job {}, snapshot {id}: {error}", self.name, job.id))
    }

    fn judge(&self, job: &Job, own: &str, target: &Path) -> Result<(), String> {
        let plan = job.plan.as_ref().ok_or("no plan")?;
        let found = files(target)?;
        if plan.source.starts_with("stream ") {
            let is_said = |bytes: &Vec<u8>| bytes.as_slice() == format!("{STREAM}\n").as_bytes();
            return if found.values().any(is_said) { Ok(()) } else { Err("no stream".to_owned()) };
        }
        let of_class = |file: &str| {
            plan.policy != "classes" || file.starts_with("log/") == plan.source.contains("\nclass")
        };
        let is_left = |file: &str| plan.policy == "excludes" && file.ends_with(".tmp");
        for (file, _) in FILES {
            let path = format!("{own}/{file}");
            let is_below = |root: &str| path == root || path.starts_with(&format!("{root}/"));
            let is_wanted = plan.source.lines().any(is_below) && !is_left(file) && of_class(file);
            let bytes = found.iter().find(|(path, _)| path.ends_with(file)).map(|(_, bytes)| bytes);
            match bytes {
                Some(bytes) if is_wanted => self.is_of(job, file, bytes)?,
                Some(_) => return Err(format!("{file} is there and was not wanted")),
                None if is_wanted => return Err(format!("{file} is missing")),
                None => {}
            }
        }
        Ok(())
    }

    /// Whether these bytes are a version of the file that was there while the job ran.
    fn is_of(&self, job: &Job, file: &'static str, bytes: &[u8]) -> Result<(), String> {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(100)]).into_owned();
        let version = text.split_whitespace().nth(2).and_then(|word| word.parse::<usize>().ok());
        let version = version.ok_or(format!("{file} begins with {text:?}"))?;
        if content(&self.name, file, version) != bytes {
            return Err(format!("{file} is not whole"));
        }
        let written = self.versions.get(file).ok_or("unknown file")?;
        let ended = job.ended.ok_or("it has no end")?;
        // Jobs have whole seconds.
        let oldest = written.iter().rposition(|at| *at <= (job.begun - 1) * 1000).unwrap_or(0);
        let newest = written.iter().rposition(|at| *at <= (ended + 1) * 1000).unwrap_or(0);
        if (oldest..=newest).contains(&version) {
            return Ok(());
        }
        Err(format!("{file} has version {version}, and had {oldest} to {newest} while the job ran"))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill(true, Duration::ZERO);
        self.kill_backups();
    }
}

pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_millis() as i64)
}

/// A version of a file: its name, and bytes that no other version has.
fn content(node: &str, file: &str, version: usize) -> Vec<u8> {
    let length = FILES.iter().find(|row| row.0 == file).map_or(0, |row| row.1);
    let seed = node
        .bytes()
        .chain(file.bytes())
        .fold(version as u64, |sum, byte| sum.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte));
    let mut bytes = format!("{node} {file} {version} \n").into_bytes();
    bytes.extend(Random::new(seed).bytes(length as u64));
    bytes
}

/// All files below a folder, by their path.
fn files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let (mut found, mut waiting) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).map_err(failed("read what was restored"))? {
            let path = entry.map_err(failed("read what was restored"))?.path();
            if path.is_dir() {
                waiting.push(path);
                continue;
            }
            let bytes = fs::read(&path).map_err(failed("read what was restored"))?;
            found.insert(path.to_string_lossy().into_owned(), bytes);
        }
    }
    Ok(found)
}
