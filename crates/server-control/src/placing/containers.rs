//! Whether the containers of a domain are at the place where it is to lie: what its snapshots list says nothing about.

use crate::domain_repository::DomainRepository;
use crate::error::refused;
use crate::{Error, Result};
use api::Name;
use api::upkeep::{BEHIND_ALL, CheckReport, UpkeepEnd, UpkeepWork};
use parking_lot::RwLock;
use repository::watch::Unwatched;
use server_contract::access_control::Refusal;
use server_contract::upkeep::{DomainUpkeep as Worker, carried_out};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Containers that a message names.
const NAMED_MAX: usize = 3;
/// Jobs of upkeep have numbers below: the reply to one of them is remembered, and never meant for this.
const NUMBERS_FROM: u64 = 1 << 63;

/// Looks at them.
#[derive(Default)]
pub(super) struct Containers(RwLock<Option<Arc<dyn Worker>>>);

impl Containers {
    pub(super) fn look_with(&self, worker: Arc<dyn Worker>) {
        *self.0.write() = Some(worker);
    }

    /// Which of them are missing, or were cut short.
    ///
    /// # Errors
    /// [`Error::Refused`] when nobody can say, [`Error::StorageServer`].
    pub(super) fn of(&self, there: &DomainRepository) -> Result<CheckReport> {
        let (position, sample_percent, bytes_per_sec) = (BEHIND_ALL, None, None);
        let copies = Vec::new();
        let work = UpkeepWork::Check { sample_percent, position, bytes_per_sec, copies };
        let end = match there {
            DomainRepository::Local(folder, ..) => {
                let worker = self.0.read().clone();
                let worker = worker.ok_or_else(|| cannot_tell("this server stores no data"))?;
                carried_out(&*worker, (folder, None), &work, &Unwatched)
            }
            DomainRepository::Remote(there) => there.upkeep(number(), &work, &Unwatched)?,
        };
        match end {
            UpkeepEnd::Checked(report) => Ok(report),
            UpkeepEnd::Busy(why) | UpkeepEnd::Doubt(why) | UpkeepEnd::Failed(why) => {
                Err(cannot_tell(&why))
            }
            UpkeepEnd::Reclaimed(_) | UpkeepEnd::Copied(_) => Err(cannot_tell("another job ran")),
        }
    }
}

/// Another one each time.
fn number() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    NUMBERS_FROM | (now.as_nanos() as u64 >> 1)
}

fn cannot_tell(why: &str) -> Error {
    let message = format!("the containers of the domain cannot be looked at there: {why}");
    Refusal::new(message, MEND).into()
}

const MEND: &str = "If it is a copy, mend it from the place that is whole: icecore check --repair --repo COPY --copies OLD. Or delete its directory there, and copy again";

/// The refusal of a place at which containers are missing.
pub(super) fn are_missing(name: &Name, place: &str, report: &CheckReport) -> Error {
    let named: Vec<_> = report.damages.iter().take(NAMED_MAX).map(String::as_str).collect();
    let more = if report.damaged > named.len() as u64 { ", …" } else { "" };
    let message = format!(
        "the copy of the domain '{name}' on {place} lacks data of {} container{}: {}{more}",
        report.damaged,
        if report.damaged == 1 { "" } else { "s" },
        named.join(", ")
    );
    refused(message, MEND)
}
