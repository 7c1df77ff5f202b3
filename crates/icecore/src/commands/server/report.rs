//! `icecore server report`.

mod sheet;
mod sheets;

use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::time;
use api::Name;
use api::protection::Protection;
use api::reports::{BackupRow, BackupRows, Capacity, Costs};
use clap::ValueEnum;
use serde::Serialize;
use sheet::Sheet;

/// Print a report about backups: what they did, what they cost, and the space they take.
///
/// A figure that nobody measured is empty. To list everything that one backup stored: icecore map SNAPSHOT, on a
/// machine that holds a key.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server report client-backups --since 7d\n  icecore server report dedup --node web-01 --format csv > dedup.csv\n  icecore server report cost --since 30d\n  icecore server report capacity --json\n\nCSV has bytes, seconds, fractions of 1 and times in UTC; text has them for people."
)]
pub(crate) struct Report {
    /// The report: each backup (client-backups), what it read, stored and saved (dedup), what backups cost each node
    /// (cost), what they take (capacity), how well each source is backed up (protection).
    #[arg(value_name = "REPORT")]
    name: Which,
    /// Only what began since then: an age such as 7d, or a time.
    #[arg(long, value_name = "TIME", value_parser = time::parse_since)]
    since: Option<format::entry::Time>,
    /// Only what began before this time; a day counts to its end.
    #[arg(long, value_name = "TIME", value_parser = time::parse_until)]
    until: Option<format::entry::Time>,
    /// Only this node.
    #[arg(long, value_name = "NODE")]
    node: Option<Name>,
    /// Output format; --json means json.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    ClientBackups,
    Dedup,
    Cost,
    Capacity,
    Protection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Csv,
    Json,
}

#[derive(Serialize)]
struct Count {
    rows: usize,
}

impl Report {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let node = self.node.as_ref();
        match self.name {
            Which::ClientBackups => self.backups(reach, context, sheets::client_backups()),
            Which::Dedup => self.backups(reach, context, sheets::dedup()),
            Which::Cost => {
                let costs: Costs = reach.get(&self.path("/reports/costs", None))?;
                self.print(context, sheets::cost(), &costs.nodes)
            }
            Which::Capacity => {
                let capacity: Capacity = reach.get(&self.path("/reports/capacity", None))?;
                self.print(context, sheets::capacity(), &capacity.rows)
            }
            Which::Protection => {
                let of = node.map_or_else(String::new, |node| format!("?node={node}"));
                let protection: Protection = reach.get(&format!("/protection{of}"))?;
                self.print(context, sheets::protection(), &protection.sources)
            }
        }
    }

    /// All backups of the time, page by page: what is printed is not kept, except for the widths of a table.
    fn backups(&self, reach: &Reach, context: &Context, sheet: Sheet<BackupRow>) -> Result<Code> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page: BackupRows = reach.get(&self.path("/reports/backups", after.as_deref()))?;
            all.extend(page.rows);
            after = page.next;
            if after.is_none() {
                return self.print(context, sheet, &all);
            }
        }
    }

    fn path(&self, path: &str, after: Option<&str>) -> String {
        // In whole seconds, as the API takes them; it excludes `until`.
        let whole = |secs: i64| time::json(format::entry::Time { secs, nanos: 0 });
        let end = |time: format::entry::Time| time.secs + i64::from(time.nanos > 0);
        let words = [
            ("since", self.since.map(|time| whole(time.secs))),
            ("until", self.until.map(|time| whole(end(time)))),
            ("node", self.node.as_ref().map(ToString::to_string)),
            ("after", after.map(str::to_owned)),
        ];
        let words = words.into_iter().filter_map(|(key, word)| Some(format!("{key}={}", word?)));
        format!("{path}?{}", words.collect::<Vec<_>>().join("&"))
    }

    fn print<R: Serialize>(&self, context: &Context, sheet: Sheet<R>, rows: &[R]) -> Result<Code> {
        let out = &context.out;
        match self.format {
            _ if out.json => rows.iter().try_for_each(|row| out.record("row", row))?,
            Format::Json => rows.iter().try_for_each(|row| {
                out.print(&serde_json::to_string(row).map_err(std::io::Error::from)?)
            })?,
            Format::Csv => sheet.csv(rows).iter().try_for_each(|line| out.print(line))?,
            Format::Text => {
                sheet.table(rows).print(out)?;
                if rows.is_empty() {
                    out.line("Nothing to report. A longer time: --since 30d")?;
                }
            }
        }
        Failure::ignore_broken_pipe(out.flush())?;
        out.summary(Code::Complete, &Count { rows: rows.len() })
    }
}
