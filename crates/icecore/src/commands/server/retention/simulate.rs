//! `icecore server retention simulate`.

use super::listed::short;
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::table::{Table, flexible, left, right};
use crate::units;
use api::retention::{SimulatedDay, Simulation};
use serde::Serialize;

/// Ids of a day that are shown.
const IDS_SHOWN: usize = 4;

/// Show for each of the days to come how many snapshots there will be, and which of today's go.
///
/// Assumes that policy, schedules and nodes stay as they are, and that every backup is complete.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server retention simulate servers --days 90\n  icecore server retention simulate servers --until 2028-12-31 --json"
)]
pub(crate) struct Simulate {
    /// The policy.
    #[arg(value_name = "POLICY")]
    policy: String,
    /// Number of days [default: 365].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3660))]
    days: Option<u32>,
    /// Until this day, at most ten years from now.
    #[arg(long, value_name = "DATE", conflicts_with = "days")]
    until: Option<jiff::civil::Date>,
    /// Only snapshots of this node.
    #[arg(long, value_name = "NODE")]
    node: Option<api::Name>,
}

#[derive(Serialize)]
struct Summary {
    policy: String,
    zone: String,
    days: usize,
}

impl Simulate {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        site::check_name(&self.policy).map_err(|error| Failure::usage(error.to_string()))?;
        let days = self.wanted_days()?.map_or_else(String::new, |days| format!("&days={days}"));
        let node = self.node.as_ref().map_or_else(String::new, |node| format!("&node={node}"));
        let query = format!("{days}{node}").replacen('&', "?", 1);
        let path = format!("/retention/policies/{}/simulation{query}", self.policy);
        let found: Simulation = reach.get(&path)?;
        let mut table = Table::new(&[
            left("DAY"),
            right("RECEIVED"),
            right("KEPT"),
            right("TRASH"),
            flexible("INTO THE TRASH"),
            flexible("DELETED"),
        ]);
        for day in &found.days {
            context.out.record("day", day)?;
            table.row(row(day));
        }
        table.print(&context.out)?;
        let (policy, zone, days) = (found.policy, found.zone, found.days.len());
        context.out.summary(Code::Complete, &Summary { policy, zone, days })
    }

    fn wanted_days(&self) -> Result<Option<i64>> {
        let Some(until) = self.until else { return Ok(self.days.map(i64::from)) };
        let days = (until - jiff::Zoned::now().date()).get_days();
        if (1..=3660).contains(&days) {
            return Ok(Some(days.into()));
        }
        Err(Failure::usage(format!("{until} is not within the ten years to come")))
    }
}

fn row(day: &SimulatedDay) -> [String; 6] {
    [
        day.day.clone(),
        units::count(day.received),
        units::count(day.kept),
        units::count(day.trash),
        ids(&day.trashed),
        ids(&day.expired),
    ]
}

fn ids(all: &[String]) -> String {
    let shown: Vec<_> = all.iter().take(IDS_SHOWN).map(|id| short(id)).collect();
    match all.len().saturating_sub(IDS_SHOWN) {
        0 => shown.join(" "),
        more => format!("{} and {more} more", shown.join(" ")),
    }
}
