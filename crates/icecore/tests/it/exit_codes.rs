//! Every exit code that can be reached, and what is said with it.

use crate::machine::{Machine, Ran, around, ended, length, random};
use std::io::{Read, Seek, SeekFrom, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A failure says what happened, its code, and what to do next.
fn explains(ran: &Ran, code: i32, words: &[&str]) {
    assert_eq!(ran.code, code, "{}", ran.stderr);
    assert!(ran.stderr.lines().any(|line| line.starts_with("error: ")), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("(exit {code})")), "{}", ran.stderr);
    words
        .iter()
        .for_each(|word| assert!(ran.stderr.contains(word), "'{word}' is not in: {}", ran.stderr));
}

#[test]
fn failed_and_wrong_usage() {
    let machine = Machine::new();
    explains(&machine.run(["ls", "latest"]), 1, &["latest", "icecore snapshots"]);
    explains(&machine.run(["init"]), 1, &["already", "icecore backup"]);
    explains(&machine.run(["backup", "/does/not/exist"]), 1, &["/does/not/exist"]);
    explains(&machine.run(["ls", "nonsense"]), 2, &["nonsense", "latest"]);
    assert_eq!(machine.run(["backup"]).code, 2);
    assert_eq!(machine.run(["no-such-command"]).code, 2);
}

#[test]
fn partial_when_a_named_path_is_missing() {
    let machine = Machine::new();
    let source = machine.source();
    let ran =
        machine.run(["backup", source.to_str().unwrap(), "/does/not/exist", "--json"]).ends(3);
    assert_eq!((&ran.last()["name"], &ran.last()["partial"]), (&"partial".into(), &true.into()));
    assert!(
        ran.lines()
            .iter()
            .any(|line| line["message_type"] == "problem" && line["path"] == "/does/not/exist")
    );
    assert_eq!(machine.snapshots().len(), 1);
}

#[test]
fn no_repository() {
    let machine = Machine::bare();
    let location = machine.path("repository").display().to_string();
    explains(
        &machine.run(["snapshots"]),
        10,
        &[&location, &format!("icecore init --repo {location}")],
    );
    std::fs::create_dir(machine.path("repository")).unwrap();
    explains(&machine.run(["snapshots"]), 10, &[&location]);
    std::fs::remove_dir(machine.path("repository")).unwrap();
    std::fs::write(machine.path("repository"), "a file").unwrap();
    explains(&machine.run(["snapshots"]), 10, &[&location]);
}

/// Starts a backup of the standard input and waits until it holds the lease.
fn writer(machine: &Machine) -> std::process::Child {
    let mut command = machine.command(["backup", "--stdin", "name", "--json"]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    wait_for_lease(machine);
    child
}

/// Nobody wrote here since `init`, so the file appears with the lease.
fn wait_for_lease(machine: &Machine) {
    let start = Instant::now();
    while !machine.path("repository/lease").exists() {
        assert!(start.elapsed() < Duration::from_secs(120), "the lease was never taken");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn in_use_and_reading_works_meanwhile() {
    let machine = Machine::new();
    let mut child = writer(&machine);
    let source = machine.source();
    explains(
        &machine.run(["backup", source.to_str().unwrap()]),
        11,
        &["in use by backup on", "process"],
    );
    machine.run(["snapshots"]).ends(0);
    machine.run(["check"]).ends(0);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    machine.backup();
}

#[test]
fn wrong_key() {
    let machine = Machine::new();
    let ran = ended(machine.command(["snapshots"]).env("ICECORE_PASSWORD", "guess"));
    explains(&ran, 12, &["password", "ICECORE_PASSWORD"]);
}

#[test]
fn not_allowed_with_a_key_that_only_writes() {
    let machine = Machine::new();
    std::fs::write(machine.path("pass"), "writer\n").unwrap();
    let pass = machine.path("pass");
    let pass = pass.to_str().unwrap();
    machine.run(["key", "add", "--write-only", "--new-password-file", pass]).ends(0);
    let source = machine.source();
    machine.run(["backup", source.to_str().unwrap(), "--password-file", pass]).ends(0);
    explains(
        &machine.run(["ls", "latest", "--password-file", pass]),
        13,
        &["can back up but not read"],
    );
    for command in [&["snapshots"][..], &["stats"], &["find", "x"], &["forget", "--keep-last", "1"]]
    {
        machine.run(command.iter().chain(&["--password-file", pass])).ends(13);
    }
    machine.run(["ls", "latest"]).ends(0);
}

#[test]
fn damage_is_found_and_named() {
    let machine = Machine::new();
    machine.write("random", &random(400_000));
    machine.backup();
    let file = machine.container_over(100_000);
    flip(&file, length(&file) / 2);
    let ran = machine.run(["check", "--read-data", "--json"]).ends(14);
    assert_eq!(ran.last()["message_type"], "summary");
    assert!(ran.lines().iter().any(|line| line["message_type"] == "damage"), "{}", ran.text());
    let stored = machine.stored("latest", "random");
    explains(&machine.run(["cat", &stored]), 14, &["source/random: ", "icecore check"]);
    let dump = machine.run(["dump", &stored]).ends(14);
    let is_told = |text: &&str| dump.stderr.contains(text);
    assert!(["source/random: ", "icecore check"].iter().all(is_told), "{}", dump.stderr);
    // What the program advises to do.
    machine.run(["rebuild"]).ends(14);
    machine.backup();
    assert_eq!(machine.run(["cat", &stored]).ends(0).stdout, random(400_000));
}

fn flip(file: &std::path::Path, at: u64) {
    let mut file = std::fs::File::options().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.seek(SeekFrom::Start(at)).unwrap();
    file.read_exact(&mut byte).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(&[byte[0] ^ 1]).unwrap();
}

#[test]
fn a_lost_config_is_not_replaced_by_a_new_one() {
    let machine = Machine::new();
    machine.backup();
    let files = ["config", "config.copy"].map(|name| machine.path("repository").join(name));
    let bytes = std::fs::read(&files[0]).unwrap();
    std::fs::remove_file(&files[0]).unwrap();
    explains(&machine.run(["init"]), 1, &["a repository already exists"]);
    std::fs::remove_file(&files[1]).unwrap();
    explains(&machine.run(["init"]), 14, &["both config and config.copy are missing", "cp COPY"]);
    files.iter().for_each(|file| assert!(!file.exists(), "{}", file.display()));
    std::fs::write(&files[0], bytes).unwrap();
    assert_eq!(machine.snapshots().len(), 1);
}

/// The config with other bytes, as a later version may write it, both copies: the checksums are good.
fn change_config(machine: &Machine, at: usize, value: u8) {
    let mut bytes = std::fs::read(machine.path("repository/config")).unwrap();
    bytes[at] = value;
    let end = bytes.len() - 16;
    let sum = format::wire::checksum(&[&bytes[..end]]);
    bytes[end..].copy_from_slice(&sum);
    write_config(machine, &bytes);
}

fn write_config(machine: &Machine, bytes: &[u8]) {
    for name in ["config", "config.copy"] {
        std::fs::write(machine.path("repository").join(name), bytes).unwrap();
    }
}

#[test]
fn a_repository_of_tomorrow_is_refused_by_every_command() {
    let machine = Machine::new();
    machine.backup();
    let config = std::fs::read(machine.path("repository/config")).unwrap();
    change_config(&machine, 24, 4);
    for command in ["snapshots", "check", "reclaim", "rebuild"] {
        explains(&machine.run([command]), 1, &["feature", "newer version of icecore"]);
    }
    // The digit of the magic is the version of the file.
    write_config(&machine, &config);
    change_config(&machine, 7, b'3');
    for command in ["snapshots", "check"] {
        explains(&machine.run([command]), 14, &["config"]);
    }
    write_config(&machine, &config);
    machine.run(["check", "--read-data"]).ends(0);
}

/// The newest snapshot may have been lost, or never done: said, and no damage for certain.
#[test]
fn a_snapshot_that_is_in_no_list_is_a_note_and_comes_back() {
    let machine = Machine::new();
    machine.backup();
    machine.write("more", &random(1000));
    machine.backup();
    let all = std::fs::read_dir(machine.path("repository/snapshots")).unwrap();
    let last = all.map(|entry| entry.unwrap().path()).max().unwrap();
    std::fs::remove_file(last).unwrap();
    let ran = machine.run(["check"]).ends(0);
    assert!(ran.text().contains("note: ") && ran.text().contains("the next backup"));
    machine.run(["reclaim"]).ends(0);
    assert_eq!(machine.snapshots().len(), 2);
    assert!(!machine.run(["check"]).ends(0).text().contains("note: "));
}

#[test]
fn no_space() {
    let machine = Machine::new();
    machine.backup();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let ran =
        ended(machine.command(["cat", &machine.stored("latest", "folder/large")]).stdout(full));
    assert_eq!(ran.code, 15, "{}", ran.stderr);
}

/// The repository has room: nobody may be told to forget snapshots because of it.
#[test]
fn a_target_that_takes_nothing_is_told_apart_from_a_full_repository() {
    let machine = Machine::new();
    machine.backup();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let dump = ended(machine.command(["dump", "latest"]).stdout(full));
    assert_eq!(dump.code, 15, "{}", dump.stderr);
    assert!(!dump.stderr.contains("forget"), "{}", dump.stderr);
    let small = machine.path("small");
    std::fs::create_dir(&small).unwrap();
    let mount = |words: &[&str]| {
        ended(std::process::Command::new("mount").args(words).arg(&small)).code == 0
    };
    if !mount(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"]) {
        testkit::skip("needs root to mount a small file system");
        return;
    }
    let restore = || machine.run(["restore", "latest", "--target", small.to_str().unwrap()]);
    let full = restore();
    let is_read_only = mount(&["-o", "remount,ro"]);
    let read_only = restore();
    assert_eq!(ended(std::process::Command::new("umount").arg(&small)).code, 0);
    assert_eq!(full.code, 15, "{}", full.stderr);
    assert!(full.stderr.contains("Make room there"), "{}", full.stderr);
    assert!(is_read_only && read_only.code == 13, "{}", read_only.stderr);
    assert!(read_only.stderr.contains("mounted read-only"), "{}", read_only.stderr);
    for ran in [full, read_only] {
        assert!(!ran.stderr.contains("forget"), "{}", ran.stderr);
    }
}

#[test]
fn drill_mismatch_when_the_target_differs() {
    let machine = Machine::new();
    machine.backup();
    let (out, stored) = (machine.path("out"), machine.stored("latest", ""));
    let arguments =
        ["restore", &stored, "--target", out.to_str().unwrap(), "--overwrite", "never", "--verify"];
    machine.run(arguments).ends(0);
    std::fs::write(out.join("hello.txt"), "other").unwrap();
    let ran = machine.run(arguments).ends(17);
    assert!(ran.stderr.contains("hello.txt"), "{}", ran.stderr);
}

#[test]
fn the_list_of_codes_is_help() {
    let machine = Machine::bare();
    let help = machine.run(["help", "exit-codes"]).ends(0).text();
    assert!(help.contains("drill-mismatch") && help.contains("130"));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let machine = Machine::new();
    (0..2000).for_each(|at| machine.write(&format!("many/{at}"), b""));
    machine.backup();
    let mut child = machine
        .command(["ls", "-R", "latest"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

/// Otherwise every container that cannot be opened would be called damaged.
#[test]
fn too_few_open_files_are_said_and_are_no_damage() {
    let machine = Machine::new();
    machine.backup();
    let ran = machine.run_limited("-n 24", &["check", "--read-data"]).ends(1);
    assert!(ran.stderr.contains("open at once"), "{}", ran.stderr);
    machine.run_limited("-n 200", &["check", "--read-data"]).ends(0);
}

/// Seen: the thread that waits for signals was started by what panics where none can start.
#[test]
fn too_few_threads_end_no_command_by_a_panic() {
    if !rustix::process::geteuid().is_root() {
        return testkit::skip("threads of another user are limited: needs root");
    }
    let machine = Machine::new();
    let id = machine.backup();
    let (source, target) = (machine.source(), machine.path("target"));
    let [source, target] = [source.to_str().unwrap(), target.to_str().unwrap()];
    let commands: [&[&str]; 4] = [
        &["snapshots"],
        &["backup", source, "--full"],
        &["check", "--read-data"],
        &["restore", &id, "--target", target, "--overwrite", "always"],
    ];
    let program = machine.path("icecore");
    let mut copy = std::process::Command::new("cp");
    ended(copy.arg(env!("CARGO_BIN_EXE_icecore")).arg(&program)).ends(0);
    let mut owned = std::process::Command::new("chown");
    ended(owned.args(["-R", "54322:54322"]).arg(machine.path("."))).ends(0);
    let mut worked = 0;
    for limit in 1..24 {
        let limit = format!("--nproc={limit}:{limit}");
        let user = ["setpriv", "--reuid=54322", "--regid=54322", "--clear-groups"];
        for words in commands {
            let command = machine.command(words);
            let mut limited = std::process::Command::new("prlimit");
            limited.arg(&limit).args(user).arg(&program).args(words);
            let ran = ended(&mut around(limited, &command));
            // 3: only root restores owners.
            let is_told = matches!(ran.code, 0 | 3) || ran.stderr.contains("error:");
            assert!(is_told && ran.code != 101, "{limit}, {words:?}: {} {}", ran.code, ran.stderr);
            worked += u32::from(ran.code == 0);
        }
    }
    assert!(worked > 0, "all limits were too small");
    machine.run(["check"]).ends(0);
}

/// Address space ends at another step each time: while a thread is to be started, too.
#[test]
fn too_little_address_space_ends_no_command_by_a_panic() {
    let machine = Machine::new();
    machine.write("large", &random(8 << 20));
    let id = machine.backup();
    let (source, target) = (machine.source(), machine.path("target"));
    let [source, target] = [source.to_str().unwrap(), target.to_str().unwrap()];
    let commands: [&[&str]; 4] = [
        &["backup", source],
        &["backup", "--stdin-name", "empty"],
        &["check", "--read-data"],
        &["restore", &id, "--target", target],
    ];
    let mut worked = 0;
    for mib in (96..400).step_by(16) {
        let limit = format!("-v {}", mib << 10);
        for words in commands {
            let ran = machine.run_limited(&limit, words);
            // A signal: memory for a few bytes ended, which no program can tell of.
            let is_told = matches!(ran.code, -1 | 0) || ran.stderr.contains("error:");
            assert!(
                is_told && ran.code != 101,
                "{mib} MiB, {words:?}: {} {}",
                ran.code,
                ran.stderr
            );
            worked += u32::from(ran.code == 0);
        }
    }
    assert!(worked > 0, "all limits were too small");
    machine.run(["check"]).ends(0);
}
