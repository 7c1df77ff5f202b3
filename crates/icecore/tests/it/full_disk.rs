//! A file system that really is full. Needs root, to mount one; is skipped without, and said so.

use crate::administration::{Running, agent, govern, start, started, token};
use crate::machine::{Machine, ended, random};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file system, for as long as it lives.
pub(crate) struct Small(PathBuf);

impl Small {
    pub(crate) fn mount(at: PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir_all(&at).unwrap();
        let options = format!("size={size}");
        let mounted = run("mount", &["-t", "tmpfs", "-o", &options, "tmpfs"], &at);
        if !mounted {
            testkit::skip("no tmpfs can be mounted: not root");
        }
        mounted.then_some(Self(at))
    }

    pub(crate) fn grow(&self, size: &str) {
        assert!(run("mount", &["-o", &format!("remount,size={size}")], &self.0));
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        run("umount", &["-l"], &self.0);
    }
}

fn run(program: &str, arguments: &[&str], at: &Path) -> bool {
    Command::new(program).args(arguments).arg(at).status().is_ok_and(|status| status.success())
}

/// A file in `folder` that takes all the room of its file system.
fn filled(folder: &Path) -> File {
    let rest = File::create(folder.join("filler")).unwrap();
    while (&rest).write_all(&[1; 4096]).is_ok() {}
    rest
}

/// The kernel would end the process without a word.
#[test]
fn a_limit_of_file_sizes_is_an_error_with_advice() {
    let machine = Machine::new();
    let first = machine.backup();
    machine.write("more", &random(4 << 20));
    let source = machine.source();
    let backup = ["backup", source.to_str().unwrap()];
    let ran = machine.run_limited("-f 1024", &backup).ends(1);
    assert!(ran.stderr.contains("ulimit -f unlimited"), "{}", ran.stderr);
    assert_eq!(machine.snapshots(), [first.as_str()]);
    machine.run(backup).ends(0);
    machine.run(["check", "--read-data"]).ends(0);
}

#[test]
fn a_backup_onto_a_full_disk_loses_nothing_and_goes_on_when_there_is_room() {
    let machine = Machine::bare();
    let Some(disk) = Small::mount(machine.path("repository"), "16m") else { return };
    machine.run(["init"]).ends(0);
    let first = machine.backup();
    machine.write("more", &random(24 << 20));
    let source = machine.source();
    let backup = ["backup", source.to_str().unwrap()];
    for _ in 0..2 {
        let ran = machine.run(backup).ends(15);
        assert!(ran.stderr.contains("space"), "{}", ran.stderr);
        // What was advised before, --keep-last 10, freed nothing of one snapshot.
        for said in
            ["df -h ", "--keep-last 1 --dry-run", "leave out --dry-run, and then: icecore reclaim"]
        {
            assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
        }
        assert!(!ran.stderr.contains("df -i"), "{}", ran.stderr);
    }
    assert_eq!(machine.snapshots(), [first.as_str()]);
    machine.run(["check", "--read-data"]).ends(0);
    disk.grow("64m");
    let second = machine.backup();
    assert_eq!(machine.snapshots(), [first, second]);
    machine.run(["check", "--read-data"]).ends(0);
    let target = machine.path("target");
    let stored = machine.stored("latest", "");
    machine.run(["restore", &stored, "--target", target.to_str().unwrap(), "--verify"]).ends(0);
    assert!(run("diff", &["-r", source.to_str().unwrap()], &target));
}

/// Review finding U2: the room for freeing was made by the first backup that succeeded, and what a
/// failed one had written stayed: nobody could write any more.
#[test]
fn after_a_first_backup_that_fills_the_disk_space_can_be_given_back() {
    let machine = Machine::bare();
    let Some(_disk) = Small::mount(machine.path("repository"), "60m") else { return };
    machine.run(["init"]).ends(0);
    machine.write("more", &random(100 << 20));
    let source = machine.source();
    machine.run(["backup", source.to_str().unwrap()]).ends(15);
    let parts = std::process::Command::new("find")
        .arg(machine.path("repository"))
        .args(["-name", "*.part"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&parts.stdout), "", "nothing unfinished stays");
    machine.run(["reclaim"]).ends(0);
    std::fs::remove_file(source.join("more")).unwrap();
    machine.backup();
    machine.run(["check", "--read-data"]).ends(0);
}

#[test]
fn a_restore_onto_a_full_disk_says_so() {
    let machine = Machine::new();
    machine.write("more", &random(24 << 20));
    machine.backup();
    let Some(disk) = Small::mount(machine.path("target"), "16m") else { return };
    let (stored, target) = (machine.stored("latest", ""), disk.0.to_str().unwrap());
    let restore = ["restore", &stored, "--target", target, "--verify"];
    let ran = machine.run(restore).ends(15);
    assert!(ran.stderr.contains("space"), "{}", ran.stderr);
    disk.grow("64m");
    machine.run(restore).ends(0);
    assert!(run("diff", &["-r", machine.source().to_str().unwrap()], &disk.0));
}

/// Forgetting and giving space back must be possible when there is none left.
#[test]
fn a_full_repository_can_be_made_smaller() {
    let machine = Machine::bare();
    let Some(_disk) = Small::mount(machine.path("repository"), "32m") else { return };
    machine.run(["init"]).ends(0);
    machine.write("more", &random(20 << 20));
    let large = machine.backup();
    std::fs::remove_file(machine.source().join("more")).unwrap();
    let small = machine.backup();
    let rest = filled(&machine.path("repository"));
    let source = machine.source();
    machine.run(["backup", source.to_str().unwrap()]).ends(15);
    machine.run(["forget", &large]).ends(0);
    machine.run(["reclaim"]).ends(0);
    assert_eq!(machine.snapshots(), [small]);
    machine.run(["check", "--read-data"]).ends(0);
    drop(rest);
    machine.backup();
}

/// `rebuild` named forget and reclaim, which cannot do without the index, and those named `rebuild`.
#[test]
fn a_lost_index_is_rebuilt_on_a_full_disk() {
    // Not even room for the lease, and for that alone.
    [0, 4096].into_iter().for_each(rebuilds_with_room_for);
}

fn rebuilds_with_room_for(bytes: u64) {
    let machine = Machine::bare();
    let Some(_disk) = Small::mount(machine.path("repository"), "32m") else { return };
    machine.run(["init"]).ends(0);
    machine.write("more", &random(12 << 20));
    let large = machine.backup();
    std::fs::remove_file(machine.source().join("more")).unwrap();
    let small = machine.backup();
    std::fs::remove_dir_all(machine.path("repository/index")).unwrap();
    std::fs::remove_dir_all(machine.path("repository/snapshots")).unwrap();
    let rest = filled(&machine.path("repository"));
    rest.set_len(rest.metadata().unwrap().len() - bytes).unwrap();
    machine.run(["rebuild"]).ends(0);
    machine.run(["forget", &large]).ends(0);
    machine.run(["reclaim"]).ends(0);
    assert_eq!(machine.snapshots(), [small]);
    machine.run(["check", "--read-data"]).ends(0);
}

/// Bytes are free, and inodes are not: new data is refused while those are left that freeing takes.
#[test]
fn few_inodes_refuse_new_data_and_nothing_else() {
    let machine = Machine::bare();
    let repository = machine.path("repository");
    let Some(_disk) = Small::mount(repository.clone(), "64m,nr_inodes=600") else { return };
    machine.run(["init"]).ends(0);
    machine.write("more", &random(4 << 20));
    let large = machine.backup();
    std::fs::remove_file(machine.source().join("more")).unwrap();
    let small = machine.backup();
    let filler = repository.join("filler");
    std::fs::create_dir(&filler).unwrap();
    let free = || rustix::fs::statvfs(&repository).unwrap().f_favail;
    (0..free() - 200).for_each(|n| std::fs::write(filler.join(n.to_string()), "").unwrap());
    let source = machine.source();
    let ran = machine.run(["backup", source.to_str().unwrap()]).ends(15);
    let place = repository.to_str().unwrap();
    for said in [place, "200 inodes are free", "256 are kept", "df -i ", "icecore forget"] {
        assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
    }
    let (stored, target) = (machine.stored("latest", ""), machine.path("target"));
    machine.run(["restore", &stored, "--target", target.to_str().unwrap()]).ends(0);
    machine.run(["forget", &large]).ends(0);
    machine.run(["reclaim", "--max-waste", "0"]).ends(0);
    assert_eq!(machine.snapshots(), [small]);
    std::fs::remove_dir_all(&filler).unwrap();
    machine.backup();
    machine.run(["check", "--read-data"]).ends(0);
}

/// Without its superblock the pool would be taken for one that is not mounted ever after.
#[test]
fn a_first_start_whose_pool_is_full_is_repeated_when_there_is_room() {
    let machine = Machine::bare();
    let Some(disk) = Small::mount(machine.path("data/pool"), "1m,nr_inodes=2") else { return };
    let data = machine.path("data");
    for _ in 0..2 {
        let words = ["server", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()];
        let refused = machine.run(words);
        assert!(refused.code != 0 && refused.stderr.contains("space"), "{}", refused.stderr);
        assert!(!data.join("pool/superblock").exists());
    }
    disk.grow("32m,nr_inodes=1000");
    let server = start(&machine);
    assert!(data.join("pool/superblock").exists());
    drop(server);
    drop(start(&machine));
}

/// The same from afar: the node forgets, the server gives the space back.
#[test]
fn a_node_forgets_on_a_server_whose_disk_is_full() {
    let machine = Machine::bare();
    let domain = machine.path("data/pool/domains/web");
    let _server = start(&machine);
    let Some(_disk) = Small::mount(domain.clone(), "32m") else { return };
    let [url, token] = token(&machine, &["web", "--keys", "client"]);
    agent(&machine, "agent", &["enroll", &url, &token]).ends(0);
    let node = |words: &[&str]| {
        let mut command = machine.command(words);
        command.arg("--agent-dir").arg(machine.path("agent"));
        ended(command.env_remove("ICECORE_REPO").env_remove("ICECORE_PASSWORD"))
    };
    let source = machine.source();
    let backup = ["backup", source.to_str().unwrap()];
    machine.write("more", &random(20 << 20));
    node(&backup).ends(0);
    std::fs::remove_file(source.join("more")).unwrap();
    node(&backup).ends(0);
    let rest = filled(&domain);
    machine.write("hello.txt", b"another day");
    node(&backup).ends(15);
    govern(&machine, &["allow-forget", "web"]).ends(0);
    node(&["forget", "--keep-last", "1"]).ends(0);
    let told = govern(&machine, &["reclaim", "web", "--json"]).ends(0).last();
    assert!(told["bytes_freed"].as_u64().unwrap() > 16 << 20, "{told}");
    drop(rest);
    node(&backup).ends(0);
    node(&["check", "--read-data"]).ends(0);
}

/// What lives (12 MiB) is more than the room that is kept: container after container is rewritten.
#[test]
fn a_full_repository_is_made_smaller_bit_by_bit() {
    let machine = Machine::bare();
    let Some(disk) = Small::mount(machine.path("repository"), "320m") else { return };
    machine.run(["init"]).ends(0);
    for number in 10..34 {
        machine.write(&format!("{number}"), &random(10 << 20));
        machine.write(&format!("{number}-small"), &random(1 << 19));
    }
    let large = machine.backup();
    for number in 10..34 {
        std::fs::remove_file(machine.source().join(format!("{number}"))).unwrap();
    }
    let small = machine.backup();
    let rest = filled(&machine.path("repository"));
    machine.run(["forget", &large]).ends(0);
    let ran = machine.run(["reclaim", "--max-waste", "0"]).ends(0);
    assert!(!ran.stderr.contains("no room"), "{}", ran.stderr);
    drop(rest);
    assert_eq!(machine.snapshots(), [small]);
    machine.run(["check", "--read-data"]).ends(0);
    assert!(run("test", &["-d"], &machine.path("repository/reserve")));
    drop(disk);
}

/// A server with the node `web`, whose own files lie on a small file system and its pool elsewhere.
pub(crate) fn with_small_data(machine: &Machine) -> Option<(Small, Running)> {
    let (data, pool) = (machine.path("data"), machine.path("pool"));
    let disk = Small::mount(data.clone(), "24m")?;
    std::fs::create_dir(&pool).unwrap();
    let mut command = machine.command(["server", "--listen", "127.0.0.1:0", "--data"]);
    let server = started(command.arg(&data).arg("--pool").arg(&pool));
    let [url, secret] = token(machine, &["web"]);
    agent(machine, "agent", &["enroll", &url, &secret]).ends(0);
    Some((disk, server))
}

/// The pool has room. Nobody said which disk was full, and the advice was to forget snapshots.
#[test]
fn a_full_disk_of_the_servers_own_files_is_named_and_an_alarm() {
    let machine = Machine::bare();
    let Some((_disk, _server)) = with_small_data(&machine) else { return };
    let data = machine.path("data");
    let source = machine.source();
    let backup = || {
        let mut command = machine.command(["backup", source.to_str().unwrap(), "--agent-dir"]);
        command.arg(machine.path("agent")).env_remove("ICECORE_REPO");
        ended(command.env_remove("ICECORE_PASSWORD"))
    };
    backup().ends(0);
    let filler = data.join("filler");
    let mut file = File::create(&filler).unwrap();
    while file.write(&[1; 4096]).is_ok_and(|written| written == 4096) {}
    let refused = [backup(), govern(&machine, &["token", "other"])];
    for ran in refused {
        assert!(ran.code != 0 && ran.stderr.contains("is full"), "{ran:?}");
        assert!(ran.stderr.contains("data directory") || ran.stderr.contains("catalog"), "{ran:?}");
        assert!(!ran.stderr.contains("icecore server reclaim"), "{ran:?}");
    }
    let status = govern(&machine, &["status"]).ends(0).text();
    let alarm = status.lines().find(|line| line.starts_with("ALARM")).expect("an alarm");
    assert!(alarm.contains("data directory") && alarm.contains(data.to_str().unwrap()), "{alarm}");
    drop(file);
    std::fs::remove_file(&filler).unwrap();
    backup().ends(0);
    govern(&machine, &["token", "other"]).ends(0);
}
