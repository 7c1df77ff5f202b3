//! `icecore check` on a node: what can be seen of the repository from there, and who checks the rest.

use crate::administration::{agent, govern, start, token};
use crate::machine::{Machine, Ran, ended, length, random};
use std::path::PathBuf;

struct Web {
    machine: Machine,
    _server: crate::administration::Running,
}

impl Web {
    fn backed_up(more: &[&str]) -> Self {
        let machine = Machine::bare();
        let _server = start(&machine);
        let words: Vec<_> = ["web"].iter().chain(more).copied().collect();
        let [url, token] = token(&machine, &words);
        agent(&machine, "agent", &["enroll", &url, &token]).ends(0);
        machine.write("large", &random(2 << 20));
        let web = Self { machine, _server };
        for day in 1..=3 {
            web.machine.write("hello.txt", format!("day {day}").as_bytes());
            web.types(&["backup", web.machine.source().to_str().unwrap()]).ends(0);
        }
        web
    }

    fn types(&self, words: &[&str]) -> Ran {
        let mut command = self.machine.command(words);
        command.arg("--agent-dir").arg(self.machine.path("agent"));
        ended(command.env_remove("ICECORE_REPO").env_remove("ICECORE_PASSWORD"))
    }

    /// The files of snapshots, oldest first.
    fn snapshots(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.machine.path("data/pool/domains/web/snapshots"));
        let mut files: Vec<_> = files.unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    }

    fn largest_container(&self) -> PathBuf {
        let folder = self.machine.path("data/pool/domains/web/containers");
        let shards = std::fs::read_dir(folder).unwrap();
        let files = shards.flat_map(|shard| std::fs::read_dir(shard.unwrap().path()).unwrap());
        files.map(|file| file.unwrap().path()).max_by_key(|file| length(file)).unwrap()
    }
}

#[test]
fn a_node_checks_its_history_and_every_byte_and_says_what_it_cannot_see() {
    let web = Web::backed_up(&[]);
    let told = web.types(&["check"]).ends(0).text();
    assert!(
        told.contains("No damage found") && told.contains("icecore server check web"),
        "{told}"
    );
    let told = web.types(&["check", "--read-data", "--json"]).ends(0).last();
    assert_eq!(told["snapshots"], 3);
    assert!(told["bytes_read"].as_u64().unwrap() > 0, "{told}");
    web.types(&["check", "--read-data=10%"]).ends(0);
    web.types(&["check", "--repair"]).ends(2);
    // One that nobody forgot is gone: from there a gap, and on the host it is named.
    let lost = &web.snapshots()[1];
    let kept = std::fs::read(lost).unwrap();
    std::fs::remove_file(lost).unwrap();
    let told = web.types(&["check", "--json"]).ends(0).last();
    assert_eq!(told["gaps"], 1, "{told}");
    let host = govern(&web.machine, &["check", "web"]).ends(14);
    assert!(host.stderr.contains("nobody forgot it"), "{}", host.stderr);
    std::fs::write(lost, kept).unwrap();
    govern(&web.machine, &["check", "web"]).ends(0);
    // One that was forgotten is a gap, too, and the host knows.
    govern(&web.machine, &["forget", "web", "latest~1"]).ends(0);
    assert_eq!(web.types(&["check", "--json"]).ends(0).last()["gaps"], 1);
    govern(&web.machine, &["check", "web"]).ends(0);
    // An older state than this machine remembers.
    let newest = web.snapshots().pop().unwrap();
    let kept = std::fs::read(&newest).unwrap();
    std::fs::remove_file(&newest).unwrap();
    let told = web.types(&["check"]).ends(14);
    assert!(told.text().contains("does not list snapshot"), "{}", told.text());
    assert!(!told.stderr.contains("does not list snapshot"), "told twice: {}", told.stderr);
    std::fs::write(newest, kept).unwrap();
    web.types(&["check"]).ends(0);
    // A flipped bit is found, and who follows the advice is told the same by the host.
    let container = web.largest_container();
    let mut bytes = std::fs::read(&container).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    // In place: a server that still has the file open would read a removed one.
    std::fs::write(&container, bytes).unwrap();
    let found = web.types(&["check", "--read-data"]).ends(14).text();
    assert!(found.contains("damage:") && found.contains("icecore backup --full"), "{found}");
    govern(&web.machine, &["check", "web"]).ends(14);
    web.types(&["backup", "--full", web.machine.source().to_str().unwrap()]).ends(0);
}

#[test]
fn a_node_that_cannot_read_checks_what_it_remembers() {
    let web = Web::backed_up(&["--write-only"]);
    let told = web.types(&["check"]).ends(0).text();
    assert!(told.contains("1 source") && told.contains("content"), "{told}");
    let newest = web.snapshots().pop().unwrap();
    std::fs::remove_file(newest).unwrap();
    let told = web.types(&["check"]).ends(14).text();
    assert!(told.contains("does not list snapshot"), "{told}");
}

#[test]
fn a_node_that_cannot_read_is_told_how_it_may() {
    let web = Web::backed_up(&["--write-only"]);
    let target = web.machine.path("back");
    let restore = ["restore", "latest", "--target", target.to_str().unwrap()];
    let told = web.types(&restore).ends(13).stderr;
    assert!(!told.contains("key list"), "{told}");
    let words = told.split_once("icecore server token NODE ").unwrap().1;
    let [url, token] = token(&web.machine, &["web", words.split('.').next().unwrap()]);
    agent(&web.machine, "agent", &["enroll", "--replace", &url, &token]).ends(0);
    web.types(&restore).ends(0);
}
