//! `icecore bench pool`: every way to write to a directory, until it is durable, and to read it again.

use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::table::{Table, left, right};
use crate::units;
use clap::builder::{OsStringValueParser, TypedValueParser};
use repository::local::mode::Measured;
use repository::local::sweep::{SweepPlan, SweepRow, sweep};
use repository::storage::StorageError;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Measure a directory for containers: size of writes, number of streams, direct and buffered.
///
/// Time is measured until everything is durable. Then the files are read cold, in order and at random.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore bench pool /mnt/backup\n  icecore bench pool /srv/icecore/pool --size 1G --seconds 600 --csv pool.csv\n\nA row writes --size bytes and removes them again; there are at most 36 rows. What is written lies in a directory of its own below DIR. The processor time is that of this program; what the system does by itself later is not in it."
)]
pub(crate) struct BenchPool {
    /// The directory: of a repository, of a server's pool, or an empty one on the same file system.
    #[arg(value_name = "DIR", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    folder: PathBuf,
    /// How much a row writes, with all its streams.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes)]
    size: u64,
    /// No row begins after this time.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    seconds: u64,
    /// Also write the rows to this file, as comma-separated values.
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    csv: Option<PathBuf>,
}

/// Each of 16 streams writes at least one of the largest blocks, and nobody fills a disk by mistake.
fn sizes(text: &str) -> std::result::Result<u64, String> {
    let bytes = units::parse_bytes(text)?;
    let range = (1 << 20)..=(64 << 30);
    let wrong = || format!("{text} is not between 1M and 64G");
    if range.contains(&bytes) { Ok(bytes) } else { Err(wrong()) }
}

/// A row, for programs.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Row {
    io: &'static str,
    block_bytes: u64,
    streams: u32,
    durable_bytes_per_sec: f64,
    read_bytes_per_sec: f64,
    random_reads_per_sec: f64,
    cpu_secs_per_gib: f64,
    write_p50_ns: u64,
    write_p99_ns: u64,
    write_max_ns: u64,
    sync_max_ns: u64,
    random_p50_ns: u64,
    random_p99_ns: u64,
    was_buffered: bool,
}

#[derive(Serialize)]
struct Summary {
    rows: usize,
    rows_left_out: usize,
}

impl From<&SweepRow> for Row {
    fn from(row: &SweepRow) -> Self {
        let SweepRow { measured, write, sync, random, .. } = row;
        let random_secs = random.wall_ns.max(1) as f64 / 1e9;
        Self {
            random_reads_per_sec: random.count as f64 / random_secs,
            write_p50_ns: write.p50_ns,
            write_p99_ns: write.p99_ns,
            write_max_ns: write.max_ns,
            sync_max_ns: sync.max_ns,
            random_p50_ns: random.p50_ns,
            random_p99_ns: random.p99_ns,
            ..Self::from(measured)
        }
    }
}

impl From<&Measured> for Row {
    fn from(measured: &Measured) -> Self {
        Self {
            io: measured.method.name(),
            block_bytes: measured.method.block_bytes,
            streams: measured.streams,
            durable_bytes_per_sec: measured.durable_bytes_per_sec,
            read_bytes_per_sec: measured.read_bytes_per_sec,
            random_reads_per_sec: 0.0,
            cpu_secs_per_gib: measured.cpu_secs_per_gib,
            write_p50_ns: 0,
            write_p99_ns: 0,
            write_max_ns: 0,
            sync_max_ns: 0,
            random_p50_ns: 0,
            random_p99_ns: 0,
            was_buffered: measured.was_buffered,
        }
    }
}

impl BenchPool {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let plan = SweepPlan::whole(self.size, Duration::from_secs(self.seconds));
        context.listen_for_signals();
        let mut told = 0;
        let rows = sweep(&self.folder, &plan, &mut |row| {
            told += 1;
            tell(context, row, (told, plan.rows()));
            !context.is_cancelled()
        });
        let rows = rows.map_err(|error| failed(&error, &self.folder, plan.row_bytes))?;
        let rows: Vec<Row> = rows.iter().map(Row::from).collect();
        let left_out = plan.rows() - rows.len();
        print(context, &rows)?;
        if left_out > 0 {
            let seconds = self.seconds;
            context.out.line(&format!("{left_out} rows were left out after {seconds} s"))?;
        }
        if let Some(file) = &self.csv {
            std::fs::write(file, csv(&rows)).map_err(|error| Failure::file(file, &error))?;
        }
        let code = if context.is_cancelled() { Code::Cancelled } else { Code::Complete };
        context.out.summary(code, &Summary { rows: rows.len(), rows_left_out: left_out })
    }
}

/// Progress: a line on the error stream of a person who waits.
pub(crate) fn tell(context: &Context, row: &SweepRow, (at, rows): (usize, usize)) {
    if crate::progress::is_on_terminal() {
        let measured = &row.measured;
        let rate = units::rate(measured.durable_bytes_per_sec);
        let (io, block) = (measured.method.name(), units::bytes(measured.method.block_bytes));
        let text = format!("{at} of {rows}: {io}, {block}, {} streams: {rate}", measured.streams);
        context.out.remark(&text);
    }
}

/// The error of a measurement, with what to do.
pub(crate) fn failed(error: &StorageError, folder: &Path, bytes: u64) -> Failure {
    let place = folder.display();
    if error.is_full() {
        let needed = units::bytes(bytes + bytes / 4 + (64 << 20));
        let text = format!("{place} has too little free space to be measured: {needed} are needed");
        return Failure::new(Code::NoSpace, text).hint("Measure with less: --size 64M");
    }
    let kind = error.source.kind();
    Failure::from(std::io::Error::new(kind, format!("{place}: {error}")))
}

/// The table, and a line of JSON for each row.
pub(crate) fn print(context: &Context, rows: &[Row]) -> Result<()> {
    rows.iter().try_for_each(|row| context.out.record("row", row))?;
    let columns = [
        left("I/O"),
        right("block"),
        right("streams"),
        right("durable"),
        right("CPU s/GiB"),
        right("read"),
        right("random/s"),
        right("write p50"),
        right("p99"),
        right("max"),
        right("sync max"),
        left("note"),
    ];
    let mut table = Table::new(&columns);
    rows.iter().for_each(|row| table.row(row.cells()));
    table.print(&context.out)
}

impl Row {
    fn cells(&self) -> [String; 12] {
        let measured = |ns: u64| if ns == 0 { String::new() } else { millis(ns) };
        let random = self.random_reads_per_sec;
        [
            self.io.to_owned(),
            units::bytes(self.block_bytes),
            self.streams.to_string(),
            units::rate(self.durable_bytes_per_sec),
            format!("{:.2}", self.cpu_secs_per_gib),
            units::rate(self.read_bytes_per_sec),
            if random > 0.0 { format!("{random:.0}") } else { String::new() },
            measured(self.write_p50_ns),
            measured(self.write_p99_ns),
            measured(self.write_max_ns),
            measured(self.sync_max_ns),
            if self.was_buffered { "not direct" } else { "" }.to_owned(),
        ]
    }
}

/// A latency for people.
pub(crate) fn millis(ns: u64) -> String {
    format!("{:.1} ms", ns as f64 / 1e6)
}

fn csv(rows: &[Row]) -> String {
    let mut text = String::from(
        "io,block_bytes,streams,durable_bytes_per_sec,cpu_secs_per_gib,read_bytes_per_sec,random_reads_per_sec,\
         write_p50_ns,write_p99_ns,write_max_ns,sync_max_ns,random_p50_ns,random_p99_ns,was_buffered\n",
    );
    for row in rows {
        text.push_str(&format!(
            "{},{},{},{:.0},{:.4},{:.0},{:.1},{},{},{},{},{},{},{}\n",
            row.io,
            row.block_bytes,
            row.streams,
            row.durable_bytes_per_sec,
            row.cpu_secs_per_gib,
            row.read_bytes_per_sec,
            row.random_reads_per_sec,
            row.write_p50_ns,
            row.write_p99_ns,
            row.write_max_ns,
            row.sync_max_ns,
            row.random_p50_ns,
            row.random_p99_ns,
            row.was_buffered,
        ));
    }
    text
}
