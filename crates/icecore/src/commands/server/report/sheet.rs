//! The columns of a report, for people and for programs.

use crate::commands::server::when;
use crate::table::{Column, Table, left, right};
use crate::{escape, time, units};
use format::entry::Time;

/// A value. What nobody knows is empty in every format.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Text(Option<String>),
    Count(Option<u64>),
    Bytes(Option<u64>),
    Secs(Option<f64>),
    /// A fraction of 1.
    Part(Option<f64>),
    Time(Option<i64>),
}

impl Cell {
    fn is_number(&self) -> bool {
        !matches!(self, Self::Text(_) | Self::Time(_))
    }

    /// For people.
    fn shown(&self) -> String {
        let shown = match self {
            Self::Text(text) => text.as_deref().map(escape::text),
            Self::Count(count) => count.map(units::count),
            Self::Bytes(bytes) => bytes.map(units::bytes),
            Self::Secs(secs) => secs.map(units::duration),
            Self::Part(part) => part.map(|part| format!("{:.2} %", 100.0 * part)),
            Self::Time(time) => time.map(when),
        };
        shown.unwrap_or_default()
    }

    /// For programs: numbers without units, times in UTC.
    fn raw(&self) -> String {
        let raw = match self {
            Self::Text(text) => text.clone(),
            Self::Count(number) | Self::Bytes(number) => number.map(|number| number.to_string()),
            Self::Secs(secs) => secs.map(|secs| format!("{secs:.3}")),
            Self::Part(part) => part.map(|part| format!("{part:.6}")),
            Self::Time(secs) => secs.map(|secs| time::json(Time { secs, nanos: 0 })),
        };
        raw.unwrap_or_default()
    }
}

/// How the value of a column is found in a row.
type Read<R> = fn(&R) -> Cell;

/// The columns of a report.
pub(super) struct Sheet<R: 'static> {
    /// The heading for people, the one for programs, and the value.
    columns: Vec<(&'static str, &'static str, Read<R>)>,
}

impl<R> Sheet<R> {
    pub(super) fn new(columns: &[(&'static str, &'static str, Read<R>)]) -> Self {
        Self { columns: columns.to_vec() }
    }

    /// Lines of comma separated values (RFC 4180), the headings first.
    pub(super) fn csv(&self, rows: &[R]) -> Vec<String> {
        let headings = self.columns.iter().map(|(_, name, _)| (*name).to_owned());
        let line = |row: &R| joined(self.columns.iter().map(|(.., read)| read(row).raw()));
        std::iter::once(joined(headings)).chain(rows.iter().map(line)).collect()
    }

    /// The same for people.
    pub(super) fn table(&self, rows: &[R]) -> Table {
        let cells = |row: &R| self.columns.iter().map(|(.., read)| read(row)).collect::<Vec<_>>();
        let first = rows.first().map(cells).unwrap_or_default();
        let column = |(at, (heading, ..)): (usize, &(&'static str, _, _))| -> Column {
            if first.get(at).is_some_and(Cell::is_number) { right(heading) } else { left(heading) }
        };
        let columns: Vec<_> = self.columns.iter().enumerate().map(column).collect();
        let mut table = Table::new(&columns);
        for row in rows {
            table.row(cells(row).iter().map(Cell::shown).collect::<Vec<_>>());
        }
        table
    }
}

fn joined(values: impl Iterator<Item = String>) -> String {
    values.map(|value| quoted(&value)).collect::<Vec<_>>().join(",")
}

/// A value between quotes where it needs them.
fn quoted(value: &str) -> String {
    if value.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_where_they_need_it_and_unknown_ones_are_empty() {
        let sheet: Sheet<(&str, Option<u64>)> = Sheet::new(&[
            ("NAME", "name", |row| Cell::Text(Some(row.0.to_owned()))),
            ("SIZE", "bytes", |row| Cell::Bytes(row.1)),
            ("TIME", "time", |row| Cell::Time(row.1.map(|secs| secs as i64))),
        ]);
        let lines = sheet.csv(&[("a,\"b\"\nc", Some(1_048_576)), ("plain", None)]);
        let row = "\"a,\"\"b\"\"\nc\",1048576,1970-01-13T03:16:16Z";
        assert_eq!(lines, ["name,bytes,time", row, "plain,,"]);
        let table = sheet.table(&[("plain", Some(1_048_576)), ("\u{1b}[2J", None)]).plain();
        assert!(table[1].contains("1.00 MiB") && !table[2].contains('\u{1b}'), "{table:?}");
    }
}
