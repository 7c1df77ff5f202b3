//! Upkeep of a domain on a storage server: it does the work, and is asked how it goes twice a second. Asking is also
//! what keeps the work going: a control server that is gone leaves nothing behind.

use super::RemoteDomain;
use crate::{Error, Result};
use api::upkeep::{CheckReport, CopyReport, ReclaimReport, UpkeepEnd, UpkeepProgress, UpkeepWork};
use ids::ContainerNo;
use protocol::Packet;
use protocol::fault::Code;
use repository::watch::Watch;
use std::time::{Duration, Instant};

/// First version with the packet `Upkeep`.
const VERSION_UPKEEP: u16 = 4;
/// How often it is asked how a job goes.
const ASKED_EVERY: Duration = Duration::from_millis(500);
/// The pause before a storage server that did not answer is asked again.
const TRIED_EVERY: Duration = Duration::from_secs(1);
/// A job whose storage server says nothing for so long has failed.
const PATIENCE: Duration = Duration::from_secs(300);

/// Why nothing is known of a job.
enum Trouble {
    /// It may be known soon.
    Transient(Error),
    /// It is refused.
    Final(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Transient(error)
    }
}

/// What comes of work on a domain without a repository.
fn nothing_to(work: &UpkeepWork) -> UpkeepEnd {
    match work {
        UpkeepWork::Reclaim { .. } => UpkeepEnd::Reclaimed(ReclaimReport::default()),
        UpkeepWork::Copy { .. } => {
            UpkeepEnd::Copied(CopyReport { is_done: true, ..CopyReport::default() })
        }
        UpkeepWork::Check { .. } | UpkeepWork::CheckCopy { .. } => {
            UpkeepEnd::Checked(CheckReport { is_done: true, ..CheckReport::default() })
        }
    }
}

/// What is left to do of `work`, of which a check has read everything up to `read_to` without finding damage.
fn left_of(work: &UpkeepWork, read_to: u64) -> UpkeepWork {
    let mut left = work.clone();
    if let UpkeepWork::Check { position, .. } | UpkeepWork::CheckCopy { position, .. } = &mut left {
        *position = read_to.max(*position);
    }
    left
}

/// What was heard of a job.
struct Heard {
    at: Instant,
    /// Bytes of this run of the storage server.
    bytes: u64,
    stage: String,
    /// The container up to which a check has read without finding damage.
    position: u64,
}

impl Heard {
    /// Passes on what is new.
    fn tell(&mut self, told: &UpkeepProgress, watch: &dyn Watch) {
        // A storage server that started anew counts from 0.
        let moved = told.bytes.checked_sub(self.bytes).unwrap_or(told.bytes);
        (self.at, self.bytes) = (Instant::now(), told.bytes);
        if told.position > self.position {
            self.position = told.position;
            watch.passed(ContainerNo(told.position));
        }
        if moved > 0 {
            watch.moved(moved);
        }
        if self.stage != told.stage {
            self.stage.clone_from(&told.stage);
            watch.stage(&self.stage);
        }
    }
}

impl RemoteDomain {
    /// Has the storage server carry out `job`, until it ends there, or `watch` ends it. One that starts anew begins
    /// with it again: with a check behind what it has read without finding damage.
    pub(crate) fn upkeep(
        &self,
        job: u64,
        work: &UpkeepWork,
        watch: &dyn Watch,
    ) -> Result<UpkeepEnd> {
        self.upkeep_with(PATIENCE, job, work, watch)
    }

    fn upkeep_with(
        &self,
        patience: Duration,
        job: u64,
        work: &UpkeepWork,
        watch: &dyn Watch,
    ) -> Result<UpkeepEnd> {
        let (bytes, stage, position) = Default::default();
        let mut heard = Heard { at: Instant::now(), bytes, stage, position };
        loop {
            let error = match self
                .wait_long(async { Ok(self.follow(job, work, watch, &mut heard).await) })?
            {
                Ok(end) => return Ok(end),
                Err(Trouble::Final(error)) => return Err(error),
                Err(Trouble::Transient(error)) => error,
            };
            if heard.at.elapsed() > patience || !watch.goes_on() {
                return Err(error);
            }
            std::thread::sleep(TRIED_EVERY);
        }
    }

    /// Follows a job on one connection, to its end.
    async fn follow(
        &self,
        job: u64,
        work: &UpkeepWork,
        watch: &dyn Watch,
        heard: &mut Heard,
    ) -> std::result::Result<UpkeepEnd, Trouble> {
        let mut exchange = self.connect().await?;
        self.must_know(&exchange, VERSION_UPKEEP).map_err(Trouble::Final)?;
        if exchange.config.is_empty() {
            return Ok(nothing_to(work));
        }
        let left = left_of(work, heard.position);
        let request = serde_json::to_vec(&left).map_err(|error| self.failed(error))?;
        loop {
            let (goes_on, request) = (watch.goes_on(), request.clone());
            self.send(&mut exchange, &[Packet::Upkeep { job, goes_on, request }]).await?;
            let told = self.told(self.receive(&mut exchange).await?)?;
            heard.tell(&told, watch);
            if let Some(end) = told.end {
                return Ok(end);
            }
            tokio::time::sleep(ASKED_EVERY).await;
        }
    }

    fn told(&self, answer: Packet) -> std::result::Result<UpkeepProgress, Trouble> {
        match answer {
            Packet::UpkeepStatus { status } => {
                serde_json::from_slice(&status).map_err(|error| Trouble::Final(self.failed(error)))
            }
            Packet::Fault { code, message, .. } if Code::from_number(code).is_transient() => {
                Err(Trouble::Transient(self.failed(message)))
            }
            Packet::Fault { message, .. } => Err(Trouble::Final(self.failed(message))),
            other => Err(Trouble::Final(self.unexpected(&other))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::Parts;
    use crate::repositories::Direct;
    use repository::watch::Unwatched;
    use std::sync::Arc;

    /// Somebody does not want it any more.
    struct Ended;

    impl Watch for Ended {
        fn moved(&self, _: u64) {}

        fn goes_on(&self) -> bool {
            false
        }

        fn stage(&self, _: &str) {}
    }

    #[test]
    fn a_job_whose_storage_server_says_nothing_fails_and_does_not_wait_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let parts = Parts::open(folder.path(), &[]).unwrap();
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let [disk, web] = ["disk", "web"].map(|name| name.parse().unwrap());
        let (place, others) = (("127.0.0.1".to_owned(), closed.port()), Default::default());
        let others = (others, Arc::new(Direct) as Arc<dyn server_contract::Repositories>);
        let there = RemoteDomain::new(&parts.issuer, place, (&disk, &web), others).unwrap();
        let (sample_percent, bytes_per_sec, copies) = Default::default();
        let work = UpkeepWork::Check { sample_percent, position: 0, bytes_per_sec, copies };
        let patience = Duration::from_millis(1_500);
        let begun = Instant::now();
        let failed = there.upkeep_with(patience, 1, &work, &Unwatched).unwrap_err();
        assert!(matches!(failed, Error::StorageServer { .. }), "{failed}");
        assert!((patience..2 * patience + TRIED_EVERY).contains(&begun.elapsed()));
        let begun = Instant::now();
        assert!(there.upkeep(1, &work, &Ended).is_err());
        assert!(begun.elapsed() < Duration::from_secs(10), "who wants nothing waits for nothing");
    }
}
