//! Showing how far a backup, restore or check is: a line that moves on a terminal, a line a
//! minute elsewhere.

use crate::out::Out;
use crate::{escape, units};
use client::backup::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(200);
const QUIET_TICK: Duration = Duration::from_secs(60);
/// Seconds between two lines where nobody watches; with `--json` there are none without it.
const EVERY: &str = "ICECORE_PROGRESS_SECS";
const EVERY_MAX: u64 = 86_400;
/// Characters of the current path that are shown.
const PATH_CHARS: usize = 50;
/// The time left is not told before this part is done: it would jump about.
const PART_MIN: f64 = 0.02;

/// Shows progress until it is dropped.
pub(crate) struct Shown {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    out: Arc<Out>,
}

impl Shown {
    /// Shows `progress` until the result is dropped; `total_bytes` is what the last run had.
    pub(crate) fn start(
        progress: &Arc<Progress>,
        out: &Arc<Out>,
        total_bytes: Option<u64>,
    ) -> Self {
        let asked = asked(std::env::var(EVERY).ok().as_deref());
        let bar = (is_on_terminal() && !out.quiet && !out.json).then(bar);
        if out.quiet || (out.json && asked.is_none()) {
            return Self { stop: None, thread: None, out: out.clone() };
        }
        out.show_bar(bar.clone());
        let (stop, stopped) = channel();
        let (progress, own_out) = (progress.clone(), out.clone());
        let thread = std::thread::spawn(move || {
            let line = Line { progress, total_bytes, start: Instant::now() };
            let tick = if bar.is_some() { TICK } else { asked.unwrap_or(QUIET_TICK) };
            while stopped.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
                match &bar {
                    Some(bar) => {
                        bar.set_message(line.text());
                        bar.tick();
                    }
                    None if own_out.json => own_out.status(&line.status()),
                    None => own_out.note(&line.text()),
                }
            }
        });
        Self { stop: Some(stop), thread: Some(thread), out: out.clone() }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic there was shown already and costs only the display
        }
        self.out.show_bar(None);
    }
}

/// Whether somebody watches.
pub(crate) fn is_on_terminal() -> bool {
    std::io::stderr().is_terminal()
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
    let style = ProgressStyle::with_template("{spinner} {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}

/// How often somebody wants to hear, as the environment says it; what is no number of seconds says nothing.
fn asked(text: Option<&str>) -> Option<Duration> {
    let secs = text?.parse().ok().filter(|secs| (1..=EVERY_MAX).contains(secs));
    secs.map(Duration::from_secs)
}

/// Where it is, for programs.
#[derive(Serialize)]
pub(crate) struct Status {
    message_type: &'static str,
    seconds_elapsed: f64,
    objects: u64,
    bytes: u64,
    bytes_read: u64,
    /// What the last run had, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_bytes: Option<u64>,
    current: String,
}

struct Line {
    progress: Arc<Progress>,
    total_bytes: Option<u64>,
    start: Instant,
}

impl Line {
    fn status(&self) -> Status {
        use std::sync::atomic::Ordering::Relaxed;
        Status {
            message_type: "status",
            seconds_elapsed: self.start.elapsed().as_secs_f64(),
            objects: self.progress.objects.load(Relaxed),
            bytes: self.progress.bytes.load(Relaxed),
            bytes_read: self.progress.bytes_read.load(Relaxed),
            total_bytes: self.total_bytes,
            current: escape::escape(&self.progress.current()),
        }
    }

    fn text(&self) -> String {
        use std::sync::atomic::Ordering::Relaxed;
        let (objects, bytes) =
            (self.progress.objects.load(Relaxed), self.progress.bytes.load(Relaxed));
        let secs = self.start.elapsed().as_secs_f64();
        let read = self.progress.bytes_read.load(Relaxed) as f64 / secs.max(0.001);
        let left = self.total_bytes.and_then(|total| left(bytes, total, secs)).unwrap_or_default();
        let path = shortened(&escape::escape(&self.progress.current()));
        format!(
            "{}  {} objects, {}, {}{left}  {path}",
            units::clock(secs),
            units::count(objects),
            units::bytes(bytes),
            units::rate(read),
        )
    }
}

/// Time left, from how many bytes there were the last time.
fn left(bytes: u64, total: u64, secs: f64) -> Option<String> {
    let part = bytes as f64 / total.max(1) as f64;
    let is_known = (PART_MIN..1.0).contains(&part);
    is_known.then(|| {
        format!(", {:.0} %, {} left", 100.0 * part, units::clock(secs * (1.0 - part) / part))
    })
}

/// The end of a path tells more than its beginning.
fn shortened(path: &str) -> String {
    let length = path.chars().count();
    if length <= PATH_CHARS {
        return path.to_owned();
    }
    let tail: String = path.chars().skip(length - PATH_CHARS + 1).collect();
    format!("…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_path_is_shown() {
        assert_eq!(shortened("short"), "short");
        let long = shortened(&"é/".repeat(60));
        assert_eq!(long.chars().count(), PATH_CHARS);
        assert!(long.starts_with('…'));
    }

    #[test]
    fn who_wants_to_hear_says_how_often() {
        assert_eq!(asked(Some("5")), Some(Duration::from_secs(5)));
        for text in [None, Some(""), Some("0"), Some("-1"), Some("1.5"), Some("9999999")] {
            assert_eq!(asked(text), None, "{text:?}");
        }
    }

    #[test]
    fn time_left_is_told_when_it_means_something() {
        assert_eq!(left(50, 100, 60.0).as_deref(), Some(", 50 %, 00:01:00 left"));
        assert_eq!(left(1, 100, 60.0), None);
        assert_eq!(left(120, 100, 60.0), None);
        assert_eq!(left(0, 0, 60.0), None);
    }
}
