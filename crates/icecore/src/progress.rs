//! Showing how far a backup, restore or check is: on a terminal a line that is redrawn, elsewhere a line a minute.

use crate::out::Out;
use crate::{escape, terminal, units, width};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pipeline::backup::Progress;
use serde::Serialize;
use std::collections::VecDeque;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(250);
const QUIET_TICK: Duration = Duration::from_secs(60);
/// Seconds between two lines where nobody watches; with `--json` there are none without it.
const EVERY: &str = "ICECORE_PROGRESS_SECS";
const EVERY_MAX: u64 = 86_400;
/// The rate is that of this time: what was long ago tells nothing of now.
const RATE_WINDOW: Duration = Duration::from_secs(10);
/// The time left is shown only after this part is done: before, it would jump about.
const PART_MIN: f64 = 0.02;
/// Less time left is not counted out: the end takes some itself.
const SECS_LEFT_MIN: f64 = 10.0;
/// A path is shown where this many columns are left for it.
const PATH_MIN: usize = 16;
/// Columns of the spinner, and one that stays free so that no terminal breaks the line.
const SPINNER_WIDTH: usize = 3;
/// Columns where the width is unknown.
const WIDTH_DEFAULT: usize = 80;

/// Objects and bytes of a whole job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
}

/// Shows progress until it is dropped.
pub(crate) struct Shown {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    out: Arc<Out>,
}

impl Shown {
    /// Shows `progress` until the result is dropped; `expected` is what the job has about, if that is known.
    pub(crate) fn start(progress: &Arc<Progress>, out: &Arc<Out>, expected: Option<Total>) -> Self {
        let asked = asked(std::env::var(EVERY).ok().as_deref());
        let is_drawn = is_on_terminal() && !terminal::is_dumb();
        let bar = (is_drawn && !out.quiet && !out.json).then(bar);
        if out.quiet || (out.json && asked.is_none()) {
            return Self { stop: None, thread: None, out: out.clone() };
        }
        out.show_bar(bar.clone());
        let (stop, stopped) = channel();
        let (progress, own_out) = (progress.clone(), out.clone());
        let thread = Builder::new().spawn(move || {
            let mut line = Line::new(progress, expected);
            let tick = if bar.is_some() { TICK } else { asked.unwrap_or(QUIET_TICK) };
            while stopped.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
                let now = line.look();
                match &bar {
                    Some(bar) => {
                        let width = terminal::error_width().unwrap_or(WIDTH_DEFAULT);
                        bar.set_message(now.text(width.saturating_sub(SPINNER_WIDTH)));
                        bar.tick();
                    }
                    None if own_out.json => own_out.status(&now.status()),
                    None => own_out.note(&now.text(usize::MAX)),
                }
            }
        });
        // Without a thread nothing is shown: the command counts.
        Self { stop: Some(stop), thread: thread.ok(), out: out.clone() }
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
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(4));
    let style = ProgressStyle::with_template("{spinner} {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}

/// The interval that the environment asks for; anything but a number of seconds counts as unset.
fn asked(text: Option<&str>) -> Option<Duration> {
    let secs = text?.parse().ok().filter(|secs| (1..=EVERY_MAX).contains(secs));
    secs.map(Duration::from_secs)
}

/// Where a job is, for programs.
#[derive(Serialize)]
pub(crate) struct Status {
    message_type: &'static str,
    seconds_elapsed: f64,
    objects: u64,
    bytes: u64,
    bytes_read: u64,
    /// What the last run had, or what the walk found once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_objects: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_bytes: Option<u64>,
    current: String,
}

/// Looks at a job again and again.
struct Line {
    progress: Arc<Progress>,
    expected: Option<Total>,
    start: Instant,
    /// Bytes read, at the times of the last looks.
    looks: VecDeque<(Instant, u64)>,
}

/// Where a job is at one moment.
struct Now {
    secs: f64,
    done: Total,
    bytes_read: u64,
    bytes_per_sec: f64,
    total: Option<Total>,
    /// The walk has not ended: the total is that of the last run.
    is_about: bool,
    current: Vec<u8>,
}

impl Line {
    fn new(progress: Arc<Progress>, expected: Option<Total>) -> Self {
        let start = Instant::now();
        Self { progress, expected, start, looks: VecDeque::from([(start, 0)]) }
    }

    fn look(&mut self) -> Now {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let progress = &self.progress;
        let (now, bytes_read) = (Instant::now(), get(&progress.bytes_read));
        // One look before the window stays, so that there is always something to compare with.
        while self.looks.get(1).is_some_and(|(at, _)| now - *at >= RATE_WINDOW) {
            self.looks.pop_front();
        }
        self.looks.push_back((now, bytes_read));
        let (since, before) = self.looks[0];
        let found =
            Total { objects: get(&progress.total_objects), bytes: get(&progress.total_bytes) };
        let is_about = found == Total::default();
        Now {
            secs: (now - self.start).as_secs_f64(),
            done: Total { objects: get(&progress.objects), bytes: get(&progress.bytes) },
            bytes_read,
            bytes_per_sec: bytes_read.saturating_sub(before) as f64
                / (now - since).as_secs_f64().max(0.001),
            total: if is_about { self.expected } else { Some(found) },
            is_about,
            current: progress.current(),
        }
    }
}

impl Now {
    fn status(&self) -> Status {
        Status {
            message_type: "status",
            seconds_elapsed: self.secs,
            objects: self.done.objects,
            bytes: self.done.bytes,
            bytes_read: self.bytes_read,
            total_objects: self.total.map(|total| total.objects),
            total_bytes: self.total.map(|total| total.bytes),
            current: escape::escape(&self.current),
        }
    }

    /// In at most `columns` columns: what says least is left out first.
    fn text(&self, columns: usize) -> String {
        let part = self.total.map(|total| self.done.bytes as f64 / total.bytes.max(1) as f64);
        let part = part.filter(|part| *part < 1.0);
        // Never 100 % of what is not done.
        let percent = part.map(|part| format!("{:.0} %", (100.0 * part).floor()));
        let rate = (self.bytes_read > 0).then(|| units::rate(self.bytes_per_sec));
        let left = part.filter(|part| *part >= PART_MIN).map(|part| {
            match self.secs * (1.0 - part) / part {
                ..SECS_LEFT_MIN => "a few seconds left".to_owned(),
                secs => format!("about {} left", units::duration(secs)),
            }
        });
        let all =
            [Some(units::stopwatch(self.secs)), percent, self.objects(), self.bytes(), rate, left];
        // Which of them go first.
        for without in [&[][..], &[2], &[2, 4], &[2, 3, 4], &[2, 3, 4, 5]] {
            let parts: Vec<_> = (0..all.len())
                .filter(|at| !without.contains(at))
                .filter_map(|at| all[at].clone())
                .collect();
            let text = parts.join("  ");
            let length = width::columns(&text);
            if length <= columns {
                return self.with_path(text, columns - length);
            }
        }
        units::stopwatch(self.secs)
    }

    fn with_path(&self, text: String, room: usize) -> String {
        let path = escape::escape(&self.current);
        if path.is_empty() || room < PATH_MIN + 3 {
            return text;
        }
        format!("{text}   {}", width::shorten(&path, room - 3))
    }

    fn about(&self) -> &'static str {
        if self.is_about { "about " } else { "" }
    }

    fn objects(&self) -> Option<String> {
        let Total { objects, .. } = self.done;
        match self.total {
            Some(total) if total.objects >= objects => {
                let total = units::many(total.objects, "object");
                Some(format!("{} of {}{total}", units::count(objects), self.about()))
            }
            _ => (objects > 0).then(|| units::many(objects, "object")),
        }
    }

    fn bytes(&self) -> Option<String> {
        let Total { bytes, .. } = self.done;
        match self.total {
            Some(total) if total.bytes >= bytes && total.bytes > 0 => {
                Some(units::bytes_of(bytes, total.bytes))
            }
            // A check does not count what it is done with.
            _ if bytes == 0 && self.bytes_read > 0 => {
                Some(format!("{} read", units::bytes(self.bytes_read)))
            }
            _ => (bytes > 0).then(|| units::bytes(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Now {
        Now {
            secs: 72.0,
            done: Total { objects: 182_114, bytes: 6_549_825_126 },
            bytes_read: 6_000_000_000,
            bytes_per_sec: 155_189_248.0,
            total: Some(Total { objects: 331_902, bytes: 13_529_146_982 }),
            is_about: true,
            current: b"usr/lib/python3/dist-packages/some/long/folder/base.py".to_vec(),
        }
    }

    #[test]
    fn who_wants_to_hear_says_how_often() {
        assert_eq!(asked(Some("5")), Some(Duration::from_secs(5)));
        for text in [None, Some(""), Some("0"), Some("-1"), Some("1.5"), Some("9999999")] {
            assert_eq!(asked(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_line_says_what_is_done_how_fast_and_what_is_left() {
        assert_eq!(
            now().text(usize::MAX),
            "01:12  48 %  182,114 of about 331,902 objects  6.10 of 12.6 GiB  148 MiB/s  about 77 s left   usr/lib/python3/dist-packages/some/long/folder/base.py"
        );
        let walked = Now { is_about: false, ..now() }.text(200);
        assert!(walked.contains("182,114 of 331,902 objects"), "{walked}");
        let unknown = Now { total: None, ..now() }.text(200);
        assert!(
            unknown.starts_with("01:12  182,114 objects  6.10 GiB  148 MiB/s   usr/"),
            "{unknown}"
        );
        let check = Now { total: None, done: Total::default(), ..now() }.text(200);
        assert!(check.contains("01:12  5.59 GiB read  148 MiB/s"), "{check}");
    }

    #[test]
    fn a_line_fits_into_the_terminal() {
        for width in 5..160 {
            let text = now().text(width);
            assert!(width::columns(&text) <= width, "{width}: {text}");
            let wide = Now { current: "写真/夏休み/".repeat(9).into(), ..now() }.text(width);
            assert!(width::columns(&wide) <= width, "{width}: {wide}");
        }
        assert_eq!(
            now().text(80),
            "01:12  48 %  6.10 of 12.6 GiB  148 MiB/s  about 77 s left   usr/li…older/base.py"
        );
    }

    #[test]
    fn time_left_is_told_when_it_means_something() {
        let left = |bytes| {
            let done = Total { bytes, ..now().done };
            Now { done, total: Some(Total { objects: 1, bytes: 100 }), ..now() }.text(200)
        };
        assert!(left(50).contains("  about 72 s left"), "{}", left(50));
        assert!(left(99).contains("  99 %  ") && left(99).contains("  a few seconds left"));
        let nearly = Now {
            done: Total { objects: 1, bytes: 9_999 },
            total: Some(Total { objects: 1, bytes: 10_000 }),
            ..now()
        };
        assert!(nearly.text(200).contains("  99 %  "), "{}", nearly.text(200));
        for bytes in [0, 1, 100, 120] {
            assert!(!left(bytes).contains("left"), "{bytes}: {}", left(bytes));
        }
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let progress = Arc::new(Progress::default());
        let mut line = Line::new(progress.clone(), None);
        progress.bytes_read.store(1 << 30, Ordering::Relaxed);
        // Long ago there was much, since then nothing.
        let long_ago = Instant::now() - 3 * RATE_WINDOW;
        line.looks = VecDeque::from([(long_ago, 0), (long_ago + RATE_WINDOW, 1 << 30)]);
        assert_eq!(line.look().bytes_per_sec, 0.0);
    }
}
