//! How containers are written, and pools that are not mounted.

use crate::administration::{agent, govern, start, token};
use crate::machine::{Machine, Ran, ended, random};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn shown(machine: &Machine, words: &[&str]) -> Value {
    machine.run([&["pool", "--json"], words].concat()).ends(0).last()
}

#[test]
fn the_way_to_write_may_change_and_everything_restores() {
    let machine = Machine::new();
    assert_eq!(shown(&machine, &["show"])["io"], "buffered");
    for (round, mode) in ["direct", "auto", "buffered", "direct"].into_iter().enumerate() {
        assert_eq!(shown(&machine, &["set", mode])["mode"], mode);
        machine.write(&format!("file-{round}"), &random(3_000_000 + 1_111 * round));
        machine.backup();
        machine.run(["check", "--read-data"]).ends(0);
    }
    let target = machine.path("target");
    let stored = machine.stored("latest", "");
    machine.run(["restore", &stored, "--target", target.to_str().unwrap(), "--verify"]).ends(0);
    let source = machine.source();
    let compared = Command::new("diff").arg("-r").args([&source, &target]).status();
    assert!(compared.unwrap().success());
}

/// What lies on the disk does not tell how it was written.
#[test]
fn a_container_ends_where_it_ends_however_it_was_written() {
    let machine = Machine::new();
    for mode in ["direct", "buffered"] {
        shown(&machine, &["set", mode]);
        machine.write(mode, &random(700_001));
        machine.backup();
        let container = machine.container_over(700_000);
        let length = fs::metadata(&container).unwrap().len();
        assert!(!length.is_multiple_of(512) || length < 800_000, "{mode}: {length}");
        fs::remove_file(machine.path("source").join(mode)).unwrap();
    }
    machine.run(["check", "--read-data"]).ends(0);
}

#[test]
fn a_pool_is_tuned_and_shown() {
    let machine = Machine::new();
    let tuned = shown(&machine, &["tune", "--seconds", "2"]);
    assert!(tuned["measured"].is_string() && tuned["mode"] == "auto", "{tuned}");
    let text = machine.run(["pool", "show"]).ends(0).text();
    assert!(text.contains("auto: ") && text.contains("measured 20"), "{text}");
    let names: Vec<_> = fs::read_dir(machine.path("repository")).unwrap().collect();
    let is_left = |name: &std::io::Result<fs::DirEntry>| {
        name.as_ref().unwrap().file_name().to_string_lossy().starts_with("icecore-bench")
    };
    assert!(!names.iter().any(is_left), "{names:?}");
    machine.backup();
}

#[test]
fn a_sweep_tells_each_row_and_removes_what_it_wrote() {
    let machine = Machine::bare();
    let (folder, csv) = (machine.path("empty"), machine.path("rows.csv"));
    fs::create_dir(&folder).unwrap();
    let csv_name = csv.to_str().unwrap();
    let words = ["bench", "pool", folder.to_str().unwrap(), "--size", "1M", "--csv", csv_name];
    let lines = machine.run(words.iter().chain(&["--json"])).ends(0).lines();
    let rows: Vec<_> = lines.iter().filter(|line| line["message_type"] == "row").collect();
    let last = lines.last().unwrap();
    assert_eq!(last["rows"].as_u64().unwrap() as usize, rows.len());
    assert!(!rows.is_empty());
    for row in &rows {
        for name in ["durable_bytes_per_sec", "read_bytes_per_sec", "cpu_secs_per_gib"] {
            assert!(row[name].as_f64().unwrap() > 0.0, "{row}");
        }
    }
    assert_eq!(fs::read_to_string(csv).unwrap().lines().count(), rows.len() + 1);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    let text = machine.run(["bench", "pool", "/does/not/exist"]).ends(1).stderr;
    assert!(text.contains("/does/not/exist"), "{text}");
}

#[test]
fn what_is_no_pool_gets_no_settings() {
    let machine = Machine::bare();
    let folder = machine.path("empty");
    fs::create_dir(&folder).unwrap();
    for missing in ["show", "tune"] {
        let refused = machine.run(["pool", missing, "/does/not/exist"]).ends(10);
        assert!(refused.stderr.contains("/does/not/exist"), "{}", refused.stderr);
    }
    let refused = machine.run(["pool", "set", "direct", folder.to_str().unwrap()]).ends(10);
    assert!(refused.stderr.contains("findmnt"), "{}", refused.stderr);
    machine.run(["pool", "accept", folder.to_str().unwrap()]).ends(1);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

/// A file system of a pool, mounted and unmounted.
struct Disk {
    disk: PathBuf,
    at: PathBuf,
}

impl Disk {
    fn new(machine: &Machine) -> Option<Self> {
        let (disk, at) = (machine.path("disk"), machine.path("data/pool"));
        [&disk, &at].into_iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
        let disk = Self { disk, at };
        if !disk.mount() {
            testkit::skip("nothing can be mounted: not root");
            return None;
        }
        Some(disk)
    }

    fn mount(&self) -> bool {
        let mut mount = Command::new("mount");
        mount.arg("--bind").args([&self.disk, &self.at]).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success())
    }

    fn unmount(&self) -> bool {
        let mut umount = Command::new("umount");
        umount.arg("-l").arg(&self.at).stderr(Stdio::null());
        umount.status().is_ok_and(|status| status.success())
    }

    /// What lies below the mount point.
    fn below(&self) -> usize {
        fs::read_dir(&self.at).unwrap().count()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.unmount();
    }
}

fn backup(machine: &Machine) -> Command {
    let (folder, source) = (machine.path("node"), machine.source());
    let words = ["backup", "--json", "--agent-dir", folder.to_str().unwrap()];
    let mut command = machine.command(words.iter().copied().chain([source.to_str().unwrap()]));
    command.env_remove("ICECORE_REPO").env_remove("ICECORE_PASSWORD");
    command
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn has_container(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        path.extension().is_some_and(|kind| kind == "part") || has_container(&path)
    })
}

fn says_unmounted(ran: &Ran) {
    let said = ran.text() + &ran.stderr;
    assert!(ran.code != 0 && said.contains("mounted"), "{}: {said}", ran.code);
}

#[test]
fn a_server_whose_pool_is_unmounted_under_load_writes_nothing_below_it() {
    let machine = Machine::bare();
    let Some(disk) = Disk::new(&machine) else { return };
    let server = start(&machine);
    let [url, token_of_node] = token(&machine, &["web"]);
    agent(&machine, "node", &["enroll", &url, &token_of_node]).ends(0);
    ended(&mut backup(&machine)).ends(0);
    machine.write("large", &random(200 << 20));
    let running = backup(&machine).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("a container", || has_container(&disk.disk.join("domains/web/containers")));
    assert!(disk.unmount());
    let output = running.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(!output.status.success() && said.contains("mounted"), "{said}");
    says_unmounted(&ended(&mut backup(&machine)));
    let [url, token_of_other] = token(&machine, &["other"]);
    // Its domain would be made now. The reason is in the log of the server.
    assert_ne!(agent(&machine, "other", &["enroll", &url, &token_of_other]).code, 0);
    assert_eq!(disk.below(), 0, "nothing lies below the mount point");
    // Mounted again, everything goes on.
    assert!(disk.mount());
    ended(&mut backup(&machine)).ends(0);
    agent(&machine, "other", &["enroll", &url, &token_of_other]).ends(0);
    govern(&machine, &["check", "web"]).ends(0);
    // And a server is not started without it.
    drop(server);
    assert!(disk.unmount());
    let data = machine.path("data");
    let words = ["server", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()];
    let refused = machine.run(words).ends(16);
    assert!(refused.stderr.contains("icecore pool accept"), "{}", refused.stderr);
    assert_eq!(disk.below(), 0);
    assert!(disk.mount());
    // At another port, so that its node does not find it.
    let _server = start(&machine);
    govern(&machine, &["check", "web"]).ends(0);
}
