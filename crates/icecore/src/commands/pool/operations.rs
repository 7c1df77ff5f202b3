//! How long operations on the pool of a server took: since it started, and of each hour.

use super::super::bench::pool::millis;
use crate::context::Context;
use crate::failure::Result;
use crate::table::{Column, Table, left, right};
use crate::{time, units};
use format::entry::Time;
use repository::local::Latencies;
use serde::Serialize;
use server_contract::pool::Noted;

/// How long one kind of operation took.
#[derive(Serialize)]
pub(super) struct Operation {
    /// Of the history: the end of the hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    hour: Option<String>,
    operation: String,
    count: u64,
    bytes: u64,
    /// Of all threads together.
    wall_ns: u64,
    cpu_ns: u64,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

impl Operation {
    /// Since the server started.
    pub(super) fn new(noted: Noted) -> Self {
        let Noted { operation, latencies, .. } = noted;
        let Latencies { count, bytes, wall_ns, cpu_ns, p50_ns, p99_ns, max_ns } = latencies;
        let hour = None;
        Self { hour, operation, count, bytes, wall_ns, cpu_ns, p50_ns, p99_ns, max_ns }
    }

    fn cells(&self) -> [String; 8] {
        let secs = |ns: u64| ns as f64 / 1e9;
        let rate = self.bytes as f64 / secs(self.wall_ns).max(1e-9);
        [
            self.operation.clone(),
            units::count(self.count),
            if self.bytes > 0 { units::bytes(self.bytes) } else { String::new() },
            if self.bytes > 0 { units::rate(rate) } else { String::new() },
            format!("{:.1} s", secs(self.cpu_ns)),
            millis(self.p50_ns),
            millis(self.p99_ns),
            millis(self.max_ns),
        ]
    }
}

fn columns() -> Vec<Column> {
    let figures = ["count", "bytes", "rate of one", "CPU", "p50", "p99", "max"].map(right);
    [left("operation")].into_iter().chain(figures).collect()
}

/// Since the server started. A server that is stopped has noted its last ones.
pub(super) fn print(context: &Context, operations: &[Operation]) -> Result<()> {
    let mut table = Table::new(&columns());
    operations.iter().filter(|one| one.count > 0).for_each(|one| table.row(one.cells()));
    table.print(&context.out)
}

/// Of each hour in which something was done, the oldest first.
pub(super) fn print_history(context: &Context, hours: Vec<Noted>) -> Result<()> {
    let columns: Vec<_> = [left("hour until")].into_iter().chain(columns()).collect();
    let mut table = Table::new(&columns);
    if hours.is_empty() {
        context.out.line("No hour has ended yet in which the server used this pool.")?;
    }
    for noted in hours {
        let ends = Time { secs: noted.secs, nanos: 0 };
        let hour = Operation { hour: Some(time::json(ends)), ..Operation::new(noted) };
        context.out.record("hour", &hour)?;
        table.row([time::show(ends)].into_iter().chain(hour.cells()).collect::<Vec<_>>());
    }
    table.print(&context.out)
}
