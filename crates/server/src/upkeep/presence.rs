//! Whether the containers of a domain are there: asked before a domain lies at a place to which it was copied.

use super::of_engine;
use api::upkeep::CheckReport;
use repository::Repository;
use repository::presence::presence;
use server_contract::upkeep::UpkeepError;
use std::time::Duration;

/// Somebody waits for the answer, and the control server does so for a minute.
const LENGTHS_WITHIN: Duration = Duration::from_secs(10);
/// Damages that are listed; all are counted.
const TOLD_MAX: usize = 100;

pub(super) fn of(repository: &Repository) -> Result<CheckReport, UpkeepError> {
    let found = presence(repository, LENGTHS_WITHIN).map_err(of_engine)?;
    let told = found.damages.iter().take(TOLD_MAX);
    Ok(CheckReport {
        damaged: found.damages.len() as u64,
        damages: told.map(|it| format!("container {} {}", it.container.0, it.reason)).collect(),
        is_done: true,
        ..CheckReport::default()
    })
}
