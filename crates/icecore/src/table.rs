//! Tables for people: headings, aligned columns, as wide as the terminal. A column without any value is not shown.

use crate::failure::Result;
use crate::out::Out;
use crate::terminal::{self, Paint};
use crate::width;

/// Spaces between two columns.
const GAP: usize = 2;
/// A flexible column is not made narrower than this.
const FLEXIBLE_MIN: usize = 16;
/// Where there is no terminal, nothing is cut off, and a flexible column is not made wider than this for its longest
/// cell.
const FLEXIBLE_MAX: usize = 100;

/// A column: its heading and how its cells are placed.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    heading: &'static str,
    is_right: bool,
    is_flexible: bool,
}

/// Text.
pub(crate) const fn left(heading: &'static str) -> Column {
    Column { heading, is_right: false, is_flexible: false }
}

/// A number: digits stand below each other.
pub(crate) const fn right(heading: &'static str) -> Column {
    Column { heading, is_right: true, is_flexible: false }
}

/// Text that may be cut off where the terminal is too narrow.
pub(crate) const fn flexible(heading: &'static str) -> Column {
    Column { heading, is_right: false, is_flexible: true }
}

/// A table.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    /// Colors, by row and column.
    paints: Vec<(usize, usize, Paint)>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new(), paints: Vec::new() }
    }

    /// Adds a row, with a cell for each column.
    pub(crate) fn row(&mut self, cells: impl Into<Vec<String>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Colors a cell of the last row.
    pub(crate) fn paint(&mut self, column: usize, paint: Paint) {
        self.paints.push((self.rows.len().saturating_sub(1), column, paint));
    }

    /// Prints it, fitted to the terminal; nothing when there are no rows, or for programs.
    pub(crate) fn print(&self, out: &Out) -> Result<()> {
        if out.json || self.rows.is_empty() {
            return Ok(());
        }
        let lines = self.lines(terminal::width(), |paint, text| out.paint(paint, text));
        out.line(&lines[0])?;
        lines[1..].iter().try_for_each(|line| out.print(line))
    }

    /// The heading and the rows, as they are printed.
    pub(crate) fn shown(&self, out: &Out) -> Vec<String> {
        self.lines(terminal::width(), |paint, text| out.paint(paint, text))
    }

    /// The lines without colors, as wide as they need to be.
    #[cfg(test)]
    pub(crate) fn plain(&self) -> Vec<String> {
        self.lines(None, |_, text| text.to_owned())
    }

    /// The heading and the rows, at most `width` columns wide where that can be.
    fn lines(&self, width: Option<usize>, paint: impl Fn(Paint, &str) -> String) -> Vec<String> {
        let widths = self.widths(width);
        let shown: Vec<_> = (0..self.columns.len()).filter(|at| widths[*at] > 0).collect();
        let heading: Vec<_> = self.columns.iter().map(|column| column.heading.to_owned()).collect();
        let all = std::iter::once((None, &heading));
        let all = all.chain(self.rows.iter().enumerate().map(|(row, cells)| (Some(row), cells)));
        let line = |(row, cells): (Option<usize>, &Vec<String>)| {
            let mut line = String::new();
            for at in &shown {
                let fits = width.is_none() && self.columns[*at].is_flexible;
                let text =
                    if fits { cells[*at].clone() } else { width::cut(&cells[*at], widths[*at]) };
                let cell = self.cell(&text, *at, widths[*at]);
                let color = self.paints.iter().find(|(r, c, _)| (Some(*r), c) == (row, at));
                line.push_str(&color.map_or(cell.clone(), |(.., color)| paint(*color, &cell)));
                line.push_str(&" ".repeat(GAP));
            }
            line.trim_end().to_owned()
        };
        all.map(line).collect()
    }

    fn cell(&self, text: &str, column: usize, columns: usize) -> String {
        let pad = if self.columns[column].is_right { width::pad_left } else { width::pad_right };
        pad(text, columns)
    }

    /// Of each column; 0 for one that has no values.
    fn widths(&self, width: Option<usize>) -> Vec<usize> {
        let longest = |at: usize| self.rows.iter().map(|row| width::columns(&row[at])).max();
        let mut widths: Vec<_> = (0..self.columns.len())
            .map(|at| match longest(at).unwrap_or(0) {
                0 => 0,
                longest => longest.max(self.columns[at].heading.len()),
            })
            .collect();
        let Some(width) = width else {
            let both = widths.iter_mut().zip(&self.columns);
            let flexible = both.filter(|(_, column)| column.is_flexible);
            flexible.for_each(|(width, _)| *width = FLEXIBLE_MAX.min(*width));
            return widths;
        };
        let mut over = total(&widths).saturating_sub(width);
        while over > 0 {
            let flexible = (0..widths.len()).filter(|at| self.columns[*at].is_flexible);
            let Some(widest) = flexible.max_by_key(|at| widths[*at]) else { break };
            let less = over.min(widths[widest].saturating_sub(FLEXIBLE_MIN));
            if less == 0 {
                break;
            }
            // Not all at once: another one may be as wide.
            let step = less.min(4);
            (widths[widest], over) = (widths[widest] - step, over - step);
        }
        widths
    }
}

fn total(widths: &[usize]) -> usize {
    let shown = widths.iter().filter(|width| **width > 0);
    shown.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[left("NODE"), right("SIZE"), left("ALARM"), flexible("PATH")]);
        table.row(["web-01".into(), "1 B".into(), String::new(), "/home".into()]);
        table.row(["é".into(), "12.6 GiB".into(), String::new(), "/a/".repeat(20)]);
        table
    }

    fn plain(width: Option<usize>) -> Vec<String> {
        table().lines(width, |_, text| text.to_owned())
    }

    #[test]
    fn cells_stand_below_their_headings_and_empty_columns_are_left_out() {
        let lines = plain(None);
        assert_eq!(lines[0], "NODE        SIZE  PATH");
        assert_eq!(lines[1], "web-01       1 B  /home");
        assert!(lines[2].starts_with("é       12.6 GiB  /a//a/"), "{}", lines[2]);
    }

    /// One snapshot of 5,000 paths made every line of the list 365,074 columns wide.
    #[test]
    fn a_long_cell_makes_no_other_line_long() {
        let mut table = Table::new(&[flexible("PATHS"), right("SIZE")]);
        table.row(["/home".into(), "1 B".into()]);
        table.row(["/a/".repeat(5000), "2 B".into()]);
        let lines = table.plain();
        assert_eq!(width::columns(&lines[1]), FLEXIBLE_MAX + GAP + "SIZE".len());
        assert_eq!(lines[2], format!("{}   2 B", "/a/".repeat(5000)), "programs get all of it");
    }

    #[test]
    fn a_table_is_no_wider_than_the_terminal() {
        let lines = plain(Some(40));
        assert!(lines.iter().all(|line| width::columns(line) <= 40), "{lines:#?}");
        assert!(lines[2].ends_with('…'), "{}", lines[2]);
        // Numbers and names are never cut off.
        assert!(plain(Some(5))[1].starts_with("web-01       1 B  /home"));
    }

    #[test]
    fn wide_and_combining_characters_stand_in_their_columns() {
        let mut table = Table::new(&[left("NODE"), right("SIZE"), flexible("PATH")]);
        for node in ["ascii-01", "日本語", "e\u{301}te\u{301}", "🦀🦀"] {
            table.row([node.into(), "1 B".into(), "/サーバー".repeat(4)]);
        }
        for width in [None, Some(40), Some(33)] {
            let lines = table.lines(width, |_, text| text.to_owned());
            let before = |line: &str, mark| line.find(mark).map(|at| width::columns(&line[..at]));
            let starts: Vec<_> = lines[1..].iter().map(|line| before(line, "/サ")).collect();
            assert_eq!(starts, [before(&lines[0], "PATH"); 4], "{lines:#?}");
            let fits = |line: &String| width.is_none_or(|width| width::columns(line) <= width);
            assert!(lines.iter().all(fits), "{width:?} {lines:#?}");
        }
    }

    #[test]
    fn colors_take_no_room() {
        let mut table = table();
        table.paint(0, Paint::Red);
        let lines = table.lines(None, |paint, text| paint.on(text));
        assert!(lines[2].starts_with("\x1b[31mé     \x1b[0m  12.6 GiB"), "{:?}", lines[2]);
    }
}
