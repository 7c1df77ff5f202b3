//! Runs one hook: in a session of its own, with a time limit, and with the end of its output kept.

use crate::child::Running;
use crate::units;
use parking_lot::Mutex;
use serde::Serialize;
use std::fmt;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of output that are kept: the last ones.
const OUTPUT_BYTES_MAX: usize = 16 << 10;
/// How often its end is looked for.
const TICK: Duration = Duration::from_millis(20);
/// What it left in its pipes is read for so long after its end: who it started may keep them open.
const OUTPUT_AFTER: Duration = Duration::from_millis(500);

/// How a hook ended, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Ending {
    Good,
    Failed,
    /// It took too long, and was ended with all it started.
    TimedOut,
    NotStarted,
}

/// How a hook ended.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Ended {
    pub(super) ending: Ending,
    /// For people.
    pub(super) status: String,
    pub(super) elapsed_secs: f64,
    /// The end of what it printed.
    pub(super) output: String,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.status)?;
        let mut lines = self.output.lines().filter(|line| !line.trim().is_empty());
        lines.try_for_each(|line| write!(f, "; {line}"))
    }
}

/// The end of a stream of bytes.
#[derive(Default)]
struct Tail(Vec<u8>);

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        let surplus = self.0.len().saturating_sub(OUTPUT_BYTES_MAX);
        self.0.drain(..surplus);
    }
}

/// Runs `words` until it ends, until `limit` is over, or until `is_stopped`.
pub(super) fn run(
    words: &[String],
    user: Option<(u32, u32)>,
    limit: Duration,
    environment: &[(&str, String)],
    is_stopped: impl Fn() -> bool,
) -> Ended {
    let begun = Instant::now();
    let tail: Arc<Mutex<Tail>> = Arc::default();
    let (ending, status) = wait(start(words, user, environment), limit, &tail, is_stopped);
    let output = String::from_utf8_lossy(&tail.lock().0).into_owned();
    Ended { ending, status, elapsed_secs: begun.elapsed().as_secs_f64(), output }
}

fn wait(
    started: std::io::Result<Running>,
    limit: Duration,
    tail: &Arc<Mutex<Tail>>,
    is_stopped: impl Fn() -> bool,
) -> (Ending, String) {
    let end = Instant::now() + limit;
    let mut running = match started {
        Ok(running) => running,
        Err(error) => return (Ending::NotStarted, format!("cannot be started: {error}")),
    };
    let pipes = running.pipes().into_iter();
    let readers: std::io::Result<Vec<_>> = pipes.map(|pipe| read(pipe, tail.clone())).collect();
    let readers = match readers {
        Ok(readers) => readers,
        Err(error) => return (Ending::Failed, format!("its output cannot be read: {error}")),
    };
    while !running.has_ended() {
        if is_stopped() {
            return (Ending::Failed, "stopped by a signal".to_owned());
        }
        if Instant::now() >= end {
            drop(running); // ends it with all it started
            let limit = units::duration(limit.as_secs_f64());
            return (Ending::TimedOut, format!("took longer than {limit} and was ended"));
        }
        std::thread::sleep(TICK);
    }
    let read_until = Instant::now() + OUTPUT_AFTER;
    while readers.iter().any(|reader| !reader.is_finished()) && Instant::now() < read_until {
        std::thread::sleep(TICK);
    }
    match running.reap() {
        Ok(status) if status.success() => (Ending::Good, "done".to_owned()),
        Ok(status) => (Ending::Failed, format!("failed: {status}")),
        Err(error) => (Ending::Failed, format!("its end is not known: {error}")),
    }
}

/// As another user it has that user's group and no further ones.
fn start(
    words: &[String],
    user: Option<(u32, u32)>,
    environment: &[(&str, String)],
) -> std::io::Result<Running> {
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| std::io::Error::from(std::io::ErrorKind::InvalidInput))?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().current_dir("/").stdin(Stdio::null());
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some((user, group)) = user {
        command.uid(user).gid(group);
    }
    Running::spawn(command)
}

/// Reads until all who hold the pipe have closed it.
fn read(
    mut pipe: Box<dyn Read + Send>,
    tail: Arc<Mutex<Tail>>,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            tail.lock().push(&buffer[..count]);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> Ended {
        let words = ["/bin/sh", "-c", script].map(str::to_owned);
        run(&words, None, limit, &[("GREETING", "hello".to_owned())], || false)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn it_ends_as_its_program_ends_and_its_output_is_kept() {
        let ended = sh("echo $GREETING; echo $HOME; echo bad >&2; exit 3", LONG);
        assert_eq!(ended.ending, Ending::Failed);
        assert!(ended.output.contains("hello") && ended.output.contains("bad"), "{ended}");
        assert!(ended.to_string().contains("exit status: 3"), "{ended}");
        assert_eq!(sh("true", LONG).ending, Ending::Good);
        let ended = run(&["/no/such/program".to_owned()], None, LONG, &[], || false);
        assert_eq!(ended.ending, Ending::NotStarted);
    }

    #[test]
    fn as_another_user_it_has_no_group_of_ours() {
        if !rustix::process::geteuid().is_root() {
            return testkit::skip("only root may run a hook as another user");
        }
        let words = ["/bin/sh", "-c", "id -u; id -g; id -G"].map(str::to_owned);
        let ended = run(&words, Some((12_345, 23_456)), LONG, &[], || false);
        assert_eq!(ended.output, "12345\n23456\n23456\n", "{ended}");
    }

    #[test]
    fn after_its_time_it_is_ended_with_all_it_started() {
        let begun = Instant::now();
        let ended = sh("sleep 600 & echo $!; wait", Duration::from_secs(1));
        assert_eq!(ended.ending, Ending::TimedOut);
        assert!(begun.elapsed() < Duration::from_secs(30));
        let started: i32 = ended.output.trim().parse().unwrap();
        let is_there = || std::path::Path::new(&format!("/proc/{started}/cmdline")).exists();
        while is_there() && begun.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(TICK);
        }
        assert!(!is_there(), "{started}");
    }

    #[test]
    fn it_ends_when_we_are_asked_to_stop() {
        let begun = Instant::now();
        let words = ["/bin/sleep", "600"].map(str::to_owned);
        let ended = run(&words, None, LONG, &[], || begun.elapsed() > TICK * 5);
        assert_eq!(ended.ending, Ending::Failed);
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn who_it_leaves_behind_keeps_nobody_waiting() {
        let begun = Instant::now();
        assert_eq!(sh("sleep 20 & true", LONG).ending, Ending::Good);
        assert!(begun.elapsed() < Duration::from_secs(15));
    }

    #[test]
    fn of_its_output_the_end_is_kept() {
        for (count, kept) in [
            (OUTPUT_BYTES_MAX - 1, OUTPUT_BYTES_MAX - 1),
            (OUTPUT_BYTES_MAX, OUTPUT_BYTES_MAX),
            (OUTPUT_BYTES_MAX + 1, OUTPUT_BYTES_MAX),
        ] {
            let mut tail = Tail::default();
            tail.push(&vec![b'x'; count - 1]);
            tail.push(b"y");
            assert_eq!((tail.0.len(), tail.0.last()), (kept, Some(&b'y')));
        }
    }
}
