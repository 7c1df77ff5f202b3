//! What is started by `backup --command` ends with it, however it ends.

use crate::machine::{Machine, Ran};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Less than the three seconds that a command has to end by itself.
const AT_ONCE: Duration = Duration::from_secs(2);
/// Where shell scripts write their numbers to.
const IDS: &str = "ids";

/// A backup that runs. Whatever happens to the test, nothing it started stays.
struct Backup<'a> {
    machine: &'a Machine,
    child: Child,
}

impl<'a> Backup<'a> {
    /// Of what a shell script prints; `$IDS` is where it tells its process numbers.
    fn of_script(machine: &'a Machine, script: &str) -> Self {
        Self::start(
            machine,
            machine.command(["backup", "--command", "name", "--json", "--", "sh", "-c", script]),
        )
    }

    fn start(machine: &'a Machine, mut command: Command) -> Self {
        command.env("IDS", machine.path(IDS)).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { machine, child: command.spawn().unwrap() }
    }

    /// The processes of the script, once `count` of them have told their numbers.
    fn processes(&self, count: usize) -> Vec<u32> {
        until("the script has started", || {
            let ids = ids(self.machine);
            (ids.len() == count).then_some(ids)
        })
    }

    fn send(&self, signal: &str) {
        kill(signal, self.child.id());
    }

    fn ends(mut self) -> Ran {
        let status = until("the backup ends", || self.child.try_wait().unwrap());
        let (mut stdout, mut stderr) = (Vec::new(), String::new());
        self.child.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        Ran { code: status.code().unwrap_or(-1), stdout, stderr }
    }
}

impl Drop for Backup<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        ids(self.machine).into_iter().filter(|id| is_alive(*id)).for_each(|id| kill("KILL", id));
    }
}

/// Another program with the environment of the machine, to start the binary in its own way.
fn through(machine: &Machine, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    for (name, value) in machine.command([""; 0]).get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command
}

fn ids(machine: &Machine) -> Vec<u32> {
    let text = std::fs::read_to_string(machine.path(IDS)).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn kill(signal: &str, id: u32) {
    // The word of the shell: not every machine has the program.
    let words = ["-c", "kill -s \"$0\" \"$1\"", signal, &id.to_string()];
    Command::new("sh").args(words).status().unwrap();
}

/// A zombie has ended: who does not reap it is none of ours.
fn is_alive(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn all_end(processes: &[u32]) {
    until("the processes of the script end", || {
        (!processes.iter().any(|id| is_alive(*id))).then_some(())
    });
}

/// Ended with 130, said so, stored no snapshot, and left nothing that is in the way.
fn is_cancelled(machine: &Machine, ran: Ran) {
    let last = ran.ends(130).last();
    assert_eq!((&last["message_type"], &last["code"]), (&"error".into(), &130.into()));
    assert!(machine.snapshots().is_empty());
    machine.backup();
}

/// Prints nothing, and has a child of its own: both have to be ended, and nothing wakes us.
const QUIET: &str = "sleep 1000 & echo $! >> $IDS; echo $$ >> $IDS; wait";
const DEAF: &str = "trap '' TERM; echo $$ >> $IDS; while :; do sleep 0.1; done";

#[test]
fn a_signal_ends_the_command_and_all_it_started() {
    for signal in ["INT", "TERM", "HUP"] {
        let machine = Machine::new();
        // Who runs these tests in the background may have told all to ignore SIGINT.
        let mut command =
            through(&machine, "env", &["--default-signal", env!("CARGO_BIN_EXE_icecore")]);
        command.args(["backup", "--command", "name", "--json", "--", "sh", "-c", QUIET]);
        let backup = Backup::start(&machine, command);
        let (processes, start) = (backup.processes(2), Instant::now());
        backup.send(signal);
        is_cancelled(&machine, backup.ends());
        all_end(&processes);
        assert!(start.elapsed() < PATIENCE, "{signal}: {:?}", start.elapsed());
    }
}

#[test]
fn an_endless_command_is_cancelled() {
    let machine = Machine::new();
    let backup = Backup::of_script(&machine, "echo $$ >> $IDS; exec yes");
    let processes = backup.processes(1);
    backup.send("TERM");
    is_cancelled(&machine, backup.ends());
    all_end(&processes);
}

#[test]
fn a_command_deaf_to_sigterm_is_killed() {
    let machine = Machine::new();
    let backup = Backup::of_script(&machine, DEAF);
    let processes = backup.processes(1);
    backup.send("TERM");
    is_cancelled(&machine, backup.ends());
    all_end(&processes);
}

#[test]
fn asked_twice_it_ends_at_once() {
    // Sooner than a command is killed that was asked once; one of so many, if the machine does much else.
    let took: Vec<_> =
        (0..5).map(|_| ends_when_asked_twice()).take_while(|took| *took >= AT_ONCE).collect();
    assert!(took.len() < 5, "{took:?}");
}

/// Time from the first signal to the end of all processes.
fn ends_when_asked_twice() -> Duration {
    let machine = Machine::new();
    let backup = Backup::of_script(&machine, DEAF);
    let (processes, start) = (backup.processes(1), Instant::now());
    backup.send("TERM");
    std::thread::sleep(Duration::from_millis(300));
    backup.send("TERM");
    backup.ends().ends(130);
    all_end(&processes);
    let took = start.elapsed();
    assert!(machine.snapshots().is_empty());
    took
}

#[test]
fn killed_it_takes_the_command_along() {
    let machine = Machine::new();
    let backup = Backup::of_script(&machine, "echo $$ >> $IDS; exec sleep 1000");
    let processes = backup.processes(1);
    backup.send("KILL");
    backup.ends().ends(-1);
    all_end(&processes);
    assert!(machine.snapshots().is_empty());
    machine.backup();
}

#[test]
fn a_command_that_closed_its_output_and_goes_on_is_ended_too() {
    let machine = Machine::new();
    let backup =
        Backup::of_script(&machine, "echo $$ >> $IDS; echo all; exec sleep 1000 >/dev/null");
    let processes = backup.processes(1);
    std::thread::sleep(Duration::from_millis(200));
    backup.send("TERM");
    is_cancelled(&machine, backup.ends());
    all_end(&processes);
}

#[test]
fn a_repository_that_fails_in_the_middle_ends_the_command() {
    let machine = Machine::new();
    let backup = Backup::of_script(
        &machine,
        "echo $$ >> $IDS; while [ ! -e $IDS.go ]; do sleep 0.05; done; exec cat /dev/urandom",
    );
    let processes = backup.processes(1);
    std::fs::rename(machine.path("repository/containers"), machine.path("away")).unwrap();
    std::fs::write(machine.path("repository/containers"), "in the way").unwrap();
    std::fs::write(machine.path("ids.go"), "").unwrap();
    let ran = backup.ends();
    all_end(&processes);
    assert_eq!(ran.last()["message_type"], "error", "{}", ran.text());
    assert!(ran.last()["message"].as_str().unwrap().contains("containers"), "{}", ran.text());
    std::fs::remove_file(machine.path("repository/containers")).unwrap();
    std::fs::rename(machine.path("away"), machine.path("repository/containers")).unwrap();
    assert!(machine.snapshots().is_empty());
    machine.backup();
}

#[test]
fn a_signal_that_is_ignored_stays_so() {
    let machine = Machine::new();
    let script = "trap '' HUP; exec \"$0\" backup --command name --json -- \
                  sh -c 'echo $$ >> $IDS; sleep 1; echo all'";
    let command = through(&machine, "sh", &["-c", script, env!("CARGO_BIN_EXE_icecore")]);
    let backup = Backup::start(&machine, command);
    backup.processes(1);
    backup.send("HUP");
    backup.send("PIPE");
    backup.ends().ends(0);
    assert_eq!(machine.snapshots().len(), 1);
}

#[test]
fn a_silent_standard_input_can_be_interrupted() {
    let machine = Machine::new();
    let mut command = machine.command(["backup", "--stdin", "name", "--json"]);
    command.stdin(Stdio::piped());
    let mut backup = Backup::start(&machine, command);
    let mut input = backup.child.stdin.take().unwrap();
    input.write_all(b"some and no more").unwrap();
    until("it writes", || machine.path("repository/lease").exists().then_some(()));
    let start = Instant::now();
    backup.send("TERM");
    is_cancelled(&machine, backup.ends());
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}

/// The disposition of SIGPIPE is inherited: a command that ignores it would print for ever.
#[test]
fn a_command_dies_of_sigpipe_as_in_a_shell() {
    let machine = Machine::new();
    let script = "grep SigIgn /proc/self/status";
    machine.run(["backup", "--command", "name", "-q", "--", "sh", "-c", script]).ends(0);
    let text = machine.run(["cat", "latest:name"]).ends(0).text();
    let mask = u64::from_str_radix(text.trim().rsplit('\t').next().unwrap(), 16).unwrap();
    assert_eq!(mask & (1 << 12), 0, "{text}"); // bit 0 is signal 1; SIGPIPE is 13
}

/// What it prints is backed up, and what it starts may tell others.
#[test]
fn a_command_is_not_told_what_opens_the_repository() {
    let machine = Machine::new();
    let mut command = machine.command([
        "backup",
        "--command",
        "name",
        "--",
        "sh",
        "-c",
        "env > \"$IDS\"; echo x",
    ]);
    command.env("IDS", machine.path(IDS)).env("ICECORE_ADMIN_TOKEN", "of the server");
    crate::machine::ended(&mut command).ends(0);
    let told = std::fs::read_to_string(machine.path(IDS)).unwrap();
    assert!(told.contains("IDS="), "{told}");
    for secret in ["ICECORE_PASSWORD=", "ICECORE_ADMIN_TOKEN="] {
        assert!(!told.contains(secret), "{secret}");
    }
}
