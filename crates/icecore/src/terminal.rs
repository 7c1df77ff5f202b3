//! What the terminal is like: how wide it is, and whether it shows colors.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

/// Colors of terminals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Red = 31,
    Green = 32,
    Yellow = 33,
}

impl Paint {
    /// `text` in this color.
    pub(crate) fn on(self, text: &str) -> String {
        format!("\x1b[{}m{text}\x1b[0m", self as u8)
    }
}

/// Columns of the terminal that shows the output; `None` when it goes elsewhere.
pub(crate) fn width() -> Option<usize> {
    columns(io::stdout())
}

/// Lines of the terminal that shows the output; `None` when it goes elsewhere, or cannot be drawn on again.
pub(crate) fn height() -> Option<usize> {
    let stdout = io::stdout();
    if !stdout.is_terminal() || is_dumb() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stdout.as_fd()).ok()?;
    Some(usize::from(size.ws_row)).filter(|lines| *lines > 0)
}

/// Columns of the terminal that shows errors and progress.
pub(crate) fn error_width() -> Option<usize> {
    columns(io::stderr())
}

fn columns(stream: impl AsFd + IsTerminal) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stream.as_fd()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Whether `stream` shows colors, and nobody objects (<https://no-color.org>).
pub(crate) fn has_colors(stream: &impl IsTerminal) -> bool {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !is_refused && !is_dumb() && stream.is_terminal()
}

/// Whether the terminal obeys no escape sequences: no line can be drawn again.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}
