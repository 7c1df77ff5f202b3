//! Upkeep that the control server asks for: a storage server carries it out beside its sessions, and says how it goes
//! each time it is asked. Nobody who does not ask is told anything.
//!
//! A job goes on while it is asked for: a control server that is gone cancels nothing, so its jobs end by themselves.
//! What came of one is remembered for a while, in case the reply is lost.

use super::faults;
use api::upkeep::{UpkeepEnd, UpkeepProgress, UpkeepWork};
use ids::ContainerNo;
use parking_lot::{Mutex, RwLock};
use protocol::Packet;
use protocol::limits::JSON_BYTES_MAX;
use repository::watch::Watch;
use rustc_hash::FxHashMap;
use server_contract::access_control::{JobNo, Refusal};
use server_contract::upkeep::{DomainUpkeep, carried_out, permitted};
use std::mem::discriminant;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A job for which nobody has asked for so long ends between two stages.
const ASKED_WITHIN: Duration = Duration::from_secs(60);
/// What came of a job is remembered for so long.
const KEPT_FOR: Duration = Duration::from_secs(600);
/// Jobs that run at once, each in a domain of its own.
const JOBS_MAX: usize = 4;

/// A question of the control server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    /// The folder of the domain.
    pub(super) folder: &'a Path,
    /// Why nothing may be written in its pool.
    pub(super) read_only: Option<&'a Refusal>,
    /// Number of the job there.
    pub(super) job: JobNo,
    /// Whether it is to go on.
    pub(super) goes_on: bool,
}

/// The jobs, one in a domain.
#[derive(Default)]
pub(super) struct UpkeepJobs {
    worker: RwLock<Option<Arc<dyn DomainUpkeep>>>,
    all: Mutex<FxHashMap<PathBuf, Arc<UpkeepJob>>>,
}

impl UpkeepJobs {
    pub(super) fn work_with(&self, worker: Arc<dyn DomainUpkeep>) {
        *self.worker.write() = Some(worker);
    }

    /// Starts a job unless it runs or has ended, and says how it is.
    pub(super) fn ask(&self, asked: &Asked<'_>, request: &[u8]) -> Result<Packet, Packet> {
        let work = serde_json::from_slice(request)
            .map_err(|error| faults::not_allowed(&format!("no work of upkeep: {error}")))?;
        let job = self.job(asked, work)?;
        job.was_asked(asked.goes_on);
        Ok(Packet::UpkeepStatus { status: job.told() })
    }

    /// The job that is asked for; it begins if there is none.
    fn job(&self, asked: &Asked<'_>, work: UpkeepWork) -> Result<Arc<UpkeepJob>, Packet> {
        let mut all = self.all.lock();
        all.retain(|_, job| !job.is_stale());
        if let Some(known) = all.get(asked.folder) {
            let is_it = known.number == asked.job && is_same(&known.work, &work);
            if is_it && !(known.was_left() && asked.goes_on) {
                return Ok(known.clone());
            }
            if !known.has_ended() {
                return Err(faults::upkeep_busy("another job of upkeep runs in the domain"));
            }
        }
        if all.values().filter(|job| !job.has_ended()).count() >= JOBS_MAX {
            return Err(faults::upkeep_busy(&format!("upkeep runs {JOBS_MAX} jobs here already")));
        }
        let work = permitted(asked.read_only.cloned(), work);
        let work = work.map_err(|refusal| faults::of_refusal(&refusal))?;
        let job = self.begin(asked, work)?;
        all.insert(asked.folder.to_owned(), job.clone());
        Ok(job)
    }

    fn begin(&self, asked: &Asked<'_>, work: UpkeepWork) -> Result<Arc<UpkeepJob>, Packet> {
        let none = || faults::not_allowed("this server does no upkeep for others");
        let worker = self.worker.read().clone().ok_or_else(none)?;
        let job = Arc::new(UpkeepJob::new(asked.job, work.clone()));
        job.was_asked(asked.goes_on);
        tracing::info!(job = asked.job, folder = %asked.folder.display(), ?work, "upkeep");
        let (folder, begun) = (asked.folder.to_owned(), job.clone());
        let run = move || {
            let ends = EndsAnyway(&begun);
            ends.0.ended(carried_out(&*worker, (&folder, None), &work, &*begun));
        };
        let thread = std::thread::Builder::new().name("upkeep".to_owned()).spawn(run);
        let failed = |error| faults::upkeep_busy(&format!("no thread for upkeep: {error}"));
        thread.map(|_| job).map_err(failed)
    }
}

/// Whether this is work of one job: a control server whose catalog was restored may give its number again. From where
/// to read and what to forget changes with the time.
fn is_same(one: &UpkeepWork, other: &UpkeepWork) -> bool {
    use UpkeepWork::{CheckCopy, Copy};
    match (one, other) {
        (Copy { to, .. }, Copy { to: other, .. }) => to == other,
        (CheckCopy { to, .. }, CheckCopy { to: other, .. }) => to == other,
        _ => discriminant(one) == discriminant(other),
    }
}

/// A job, which its thread and those who ask for it share.
struct UpkeepJob {
    number: JobNo,
    work: UpkeepWork,
    state: Mutex<State>,
}

struct State {
    progress: UpkeepProgress,
    asked_at: Instant,
    /// Whether the control server wants it to go on.
    is_wanted: bool,
    /// Whether it ended early because nobody asked.
    was_left: bool,
    ended_at: Option<Instant>,
}

impl UpkeepJob {
    fn new(number: JobNo, work: UpkeepWork) -> Self {
        let (progress, asked_at) = (UpkeepProgress::default(), Instant::now());
        let (is_wanted, was_left, ended_at) = (true, false, None);
        Self {
            number,
            work,
            state: Mutex::new(State { progress, asked_at, is_wanted, was_left, ended_at }),
        }
    }

    /// What is not wanted any more is not wanted again.
    fn was_asked(&self, goes_on: bool) {
        let mut state = self.state.lock();
        state.asked_at = Instant::now();
        state.is_wanted &= goes_on;
    }

    fn ended(&self, end: UpkeepEnd) {
        let mut state = self.state.lock();
        tracing::info!(job = self.number, ?end, "upkeep ended");
        state.progress.end = Some(end);
        state.ended_at = Some(Instant::now());
    }

    fn has_ended(&self) -> bool {
        self.state.lock().ended_at.is_some()
    }

    /// Whether it has ended early because nobody asked: what is left is to be done still.
    fn was_left(&self) -> bool {
        let state = self.state.lock();
        state.ended_at.is_some() && state.was_left
    }

    fn is_stale(&self) -> bool {
        let state = self.state.lock();
        let is_old = |ended: Instant| ended.elapsed() > KEPT_FOR;
        state.ended_at.is_some_and(is_old)
    }

    /// Its state as JSON.
    fn told(&self) -> Vec<u8> {
        let state = self.state.lock();
        let told = serde_json::to_vec(&state.progress).unwrap_or_default();
        if told.len() <= JSON_BYTES_MAX {
            return told;
        }
        let why = "its report is too large: see the log of the storage server".to_owned();
        let short = UpkeepProgress { end: Some(UpkeepEnd::Failed(why)), ..Default::default() };
        serde_json::to_vec(&short).unwrap_or_default()
    }
}

impl Watch for UpkeepJob {
    fn moved(&self, bytes: u64) {
        self.state.lock().progress.bytes += bytes;
    }

    fn goes_on(&self) -> bool {
        let mut state = self.state.lock();
        let is_left = state.asked_at.elapsed() > ASKED_WITHIN;
        state.was_left |= is_left;
        state.is_wanted && !state.was_left
    }

    fn stage(&self, name: &str) {
        name.clone_into(&mut self.state.lock().progress.stage);
    }

    fn passed(&self, container: ContainerNo) {
        self.state.lock().progress.position = container.0;
    }
}

/// Whoever waits for a job learns of its end, whatever happens to its thread; and its domain is free for the next one.
struct EndsAnyway<'a>(&'a UpkeepJob);

impl Drop for EndsAnyway<'_> {
    fn drop(&mut self) {
        if !self.0.has_ended() {
            self.0.ended(UpkeepEnd::Failed("the job panicked: see the log".to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::upkeep::{CheckReport, CopyReport, ReclaimReport};
    use server_contract::upkeep::{
        CheckCopyRequest, CheckRequest, CopyRequest, ReclaimRequest, UpkeepError,
    };
    use std::sync::atomic::{AtomicUsize, Ordering};

    const REQUEST: &[u8] = br#"{"task":"reclaim","max_waste_percent":5.0,"bytes_per_sec":null}"#;

    const CHECK: &[u8] =
        br#"{"task":"check","sample_percent":null,"position":0,"bytes_per_sec":null,"copies":[]}"#;

    /// Reclaims until it is told to end, and counts how often it began; it panics when it is to check.
    #[derive(Default)]
    struct Endless(AtomicUsize);

    impl DomainUpkeep for Endless {
        fn reclaim(
            &self,
            _: &Path,
            _: &ReclaimRequest<'_>,
            watch: &dyn Watch,
        ) -> Result<ReclaimReport, UpkeepError> {
            self.0.fetch_add(1, Ordering::SeqCst);
            watch.stage("copy");
            watch.moved(7);
            watch.passed(ContainerNo(3));
            while watch.goes_on() {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(ReclaimReport::default())
        }

        fn copy(
            &self,
            _: &Path,
            request: &CopyRequest<'_>,
            _: &dyn Watch,
        ) -> Result<CopyReport, UpkeepError> {
            Err(UpkeepError::Failed(format!("no copy at {}", request.to.display())))
        }

        fn check(
            &self,
            _: &Path,
            _: &CheckRequest,
            _: &dyn Watch,
        ) -> Result<CheckReport, UpkeepError> {
            panic!("a bug")
        }

        fn check_copy(
            &self,
            _: &Path,
            _: &CheckCopyRequest,
            _: &dyn Watch,
        ) -> Result<CheckReport, UpkeepError> {
            Err(UpkeepError::Failed("nobody asks for it".to_owned()))
        }
    }

    struct Rig(UpkeepJobs, Arc<Endless>);

    impl Rig {
        fn new() -> Self {
            let rig = Self(UpkeepJobs::default(), Arc::default());
            rig.0.work_with(rig.1.clone());
            rig
        }

        fn ask(&self, folder: &str, job: JobNo, goes_on: bool) -> Result<UpkeepProgress, Packet> {
            self.ask_for(REQUEST, folder, job, goes_on)
        }

        fn ask_for(
            &self,
            request: &[u8],
            folder: &str,
            job: JobNo,
            goes_on: bool,
        ) -> Result<UpkeepProgress, Packet> {
            let asked = Asked { folder: Path::new(folder), read_only: None, job, goes_on };
            let Packet::UpkeepStatus { status } = self.0.ask(&asked, request)? else { panic!() };
            Ok(serde_json::from_slice(&status).unwrap())
        }

        /// How a job of the domain `web` ends.
        fn ended(&self, job: JobNo, goes_on: bool) -> UpkeepEnd {
            let end = || self.ask("web", job, goes_on).unwrap().end;
            comes_true("the end of a job", || end().is_some());
            end().unwrap()
        }

        /// How many jobs have begun.
        fn begun(&self) -> usize {
            self.1.0.load(Ordering::SeqCst)
        }

        /// Nobody has asked for the job of the domain `web` for this long.
        fn unasked(&self, ago: Duration) {
            let all = self.0.all.lock();
            all[Path::new("web")].state.lock().asked_at -= ago;
        }
    }

    /// Waits until `is_so`, and not for ever.
    fn comes_true(what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(30), "no {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_job_is_begun_once_told_often_and_ended_when_it_is_not_wanted() {
        let rig = Rig::new();
        assert_eq!(rig.ask("web", 1, true).unwrap().end, None);
        comes_true("progress", || rig.ask("web", 1, true).unwrap().position > 0);
        let told = rig.ask("web", 1, true).unwrap();
        let UpkeepProgress { stage, bytes, position, end } = told;
        assert_eq!((stage.as_str(), bytes, position, end), ("copy", 7, 3, None));
        assert!(rig.ask("web", 2, true).is_err(), "one in a domain");
        let done = UpkeepEnd::Reclaimed(ReclaimReport::default());
        assert_eq!(rig.ended(1, false), done);
        assert_eq!(rig.ended(1, true), done, "a reply that was lost is given again");
        assert_eq!(rig.begun(), 1);
        assert_eq!(rig.ask("web", 2, true).unwrap().end, None, "the next one begins");
        rig.ended(2, false);
    }

    /// The catalog of the control server was brought back from an older copy, and gives its numbers once more.
    #[test]
    fn another_job_of_the_same_number_is_begun() {
        let rig = Rig::new();
        rig.ask("web", 1, true).unwrap();
        let done = UpkeepEnd::Reclaimed(ReclaimReport::default());
        assert_eq!(rig.ended(1, false), done);
        let copy = |to: &str| {
            let request =
                format!(r#"{{"task":"copy","to":"{to}","domain":"web","bytes_per_sec":null}}"#);
            let end = || rig.ask_for(request.as_bytes(), "web", 1, true).unwrap().end;
            comes_true("the end of a job", || end().is_some());
            assert_eq!(end(), Some(UpkeepEnd::Failed(format!("no copy at {to}"))));
        };
        copy("/mnt/one");
        copy("/mnt/two");
        let check = |position: u64| {
            let request = String::from_utf8_lossy(CHECK);
            let request = request.replace("\"position\":0", &format!("\"position\":{position}"));
            rig.ask_for(request.as_bytes(), "web", 2, true).unwrap();
        };
        check(0);
        comes_true("the end of a job", || rig.0.all.lock()[Path::new("web")].has_ended());
        let first = rig.0.all.lock()[Path::new("web")].clone();
        check(9);
        assert!(Arc::ptr_eq(&first, &rig.0.all.lock()[Path::new("web")]), "it is the same one");
    }

    #[test]
    fn a_job_for_which_nobody_asks_ends_and_begins_again_when_somebody_does() {
        let rig = Rig::new();
        rig.ask("web", 1, true).unwrap();
        comes_true("job", || rig.begun() > 0);
        rig.unasked(ASKED_WITHIN + Duration::from_secs(1));
        comes_true("end of a job", || rig.0.all.lock()[Path::new("web")].has_ended());
        assert_eq!(rig.ask("web", 1, true).unwrap().end, None, "what is left is done");
        comes_true("second job", || rig.begun() > 1);
        rig.ended(1, false);
        assert_eq!(rig.begun(), 2);
    }

    #[test]
    fn a_job_that_panics_has_ended_and_the_next_one_of_its_domain_begins() {
        let rig = Rig::new();
        let end = || rig.ask_for(CHECK, "web", 1, true).unwrap().end;
        comes_true("the end of a job", || end().is_some());
        assert!(matches!(end(), Some(UpkeepEnd::Failed(why)) if why.contains("panicked")));
        assert_eq!(rig.ask("web", 2, true).unwrap().end, None);
        rig.ended(2, false);
    }

    #[test]
    fn in_a_pool_that_is_read_only_nothing_is_freed() {
        let rig = Rig::new();
        let refusal = Refusal::new("the pool is read-only", "");
        let asked =
            Asked { folder: Path::new("web"), read_only: Some(&refusal), job: 1, goes_on: true };
        let refused = rig.0.ask(&asked, REQUEST).unwrap_err();
        assert!(format!("{refused:?}").contains("the pool is read-only"), "{refused:?}");
        assert_eq!(rig.begun(), 0);
    }

    #[test]
    fn jobs_are_few_and_what_makes_no_sense_is_refused() {
        let rig = Rig::new();
        let folders: Vec<_> = (0..JOBS_MAX).map(|at| format!("domain {at}")).collect();
        folders.iter().for_each(|folder| drop(rig.ask(folder, 1, true).unwrap()));
        assert!(rig.ask("one more", 1, true).is_err());
        folders.iter().for_each(|folder| drop(rig.ask(folder, 1, false).unwrap()));
        let asked = Asked { folder: Path::new("web"), read_only: None, job: 1, goes_on: true };
        for request in [&b"{}"[..], b"", br#"{"task":"erase"}"#] {
            assert!(rig.0.ask(&asked, request).is_err());
        }
    }
}
