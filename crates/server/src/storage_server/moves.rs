//! Moves of domains between the pools of this storage server. The control server asks for them in its replies to
//! heartbeats, and is told in the next ones how they go.
//!
//! The pools alone say where a domain lies, so there is no catalog to change: the copy gets the name of the domain,
//! and then the directory in the first pool loses it. Killed between the two, the domain is used by nobody until the
//! move goes on, and whoever asks for it is told to wait.

use super::pools::{PlannedMove, Pools};
use api::Name;
use api::storage_moves::{MoveEnd, MoveOrder, MoveStatus};
use api::upkeep::MoveReport;
use ids::ContainerNo;
use parking_lot::{Mutex, RwLock};
use repository::watch::Watch;
use server_contract::moving::{DomainMover, MoveControl, MoveRequest};
use server_contract::upkeep::UpkeepError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a move ended is told for so long: the control server may have been killed before it heard of it.
const KEPT_FOR: Duration = Duration::from_secs(600);
/// A move for which nobody has asked for so long ends where it can.
const ASKED_WITHIN: Duration = Duration::from_secs(60);

/// The moves that were asked for, by their jobs on the control server.
#[derive(Default)]
pub(super) struct Moves {
    mover: RwLock<Option<Arc<dyn DomainMover>>>,
    all: Mutex<BTreeMap<u64, Arc<Move>>>,
    in_work: Arc<InWork>,
}

/// The domains that a thread moves. The control server gives a job up of which it hears nothing, and may ask for the
/// next one while the thread of the first still works: two would remove each other's copies.
#[derive(Default)]
struct InWork(Mutex<BTreeSet<Name>>);

/// A domain is in work until this is dropped.
struct Taken {
    in_work: Arc<InWork>,
    domain: Name,
}

/// One move, which its thread and the heartbeats share.
struct Move {
    order: MoveOrder,
    state: Mutex<State>,
}

struct State {
    status: MoveStatus,
    goes_on: bool,
    asked: Instant,
    /// It ended early because nobody asked: when somebody does, it begins again.
    was_left: bool,
    ended: Option<Instant>,
}

impl Moves {
    pub(super) fn work_with(&self, mover: Arc<dyn DomainMover>) {
        *self.mover.write() = Some(mover);
    }

    /// How the moves go that were asked for.
    pub(super) fn to_report(&self) -> Vec<MoveStatus> {
        self.all.lock().values().map(|one| one.state.lock().status.clone()).collect()
    }

    /// Takes what the control server asks for: begins what is new, and forgets what ended long ago.
    pub(super) fn apply_reply(&self, pools: &Arc<Pools>, orders: &[MoveOrder]) {
        let mut all = self.all.lock();
        all.retain(|_, one| !one.is_stale());
        for order in orders {
            match all.get(&order.job).filter(|one| one.is_for(order) && !one.was_left()) {
                Some(one) => one.was_asked(order.goes_on),
                None => drop(all.insert(order.job, self.begin(pools, order))),
            }
        }
    }

    fn begin(&self, pools: &Arc<Pools>, order: &MoveOrder) -> Arc<Move> {
        tracing::info!(job = order.job, domain = %order.domain, pool = %order.pool, "move");
        let one = Arc::new(Move::new(order));
        let Some(taken) = self.in_work.take(&order.domain) else {
            one.ended(MoveEnd::Failed(format!(
                "an earlier move of the domain '{}' has not ended on the storage server yet. Once the log of the \
                 storage server says that it ended, move the domain again",
                order.domain
            )));
            return one;
        };
        let (begun, pools, mover) = (one.clone(), pools.clone(), self.mover.read().clone());
        let run = move || {
            let ends = EndsAnyway(&begun);
            let taken = taken; // free before anybody hears of the end, who may ask for the next move at once
            let end = match mover {
                Some(mover) => carry_out(&pools, &*mover, &begun),
                None => MoveEnd::Failed("this storage server moves no domains".to_owned()),
            };
            drop(taken);
            ends.0.ended(end);
        };
        let thread = std::thread::Builder::new().name("move".to_owned()).spawn(run);
        if let Err(error) = thread {
            one.ended(MoveEnd::Failed(format!("no thread for the move: {error}")));
        }
        one
    }
}

impl InWork {
    /// Nothing, if somebody has it.
    fn take(self: &Arc<Self>, domain: &Name) -> Option<Taken> {
        let is_free = self.0.lock().insert(domain.clone());
        is_free.then(|| Taken { in_work: self.clone(), domain: domain.clone() })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.in_work.0.lock().remove(&self.domain);
    }
}

fn carry_out(pools: &Pools, mover: &dyn DomainMover, one: &Move) -> MoveEnd {
    let MoveOrder { domain, pool, interrupt, bytes_per_sec, .. } = &one.order;
    let planned = match pools.plan_move(domain, pool) {
        Ok(Some(planned)) => planned,
        Ok(None) => return MoveEnd::Done(MoveReport::default()),
        Err(refusal) => return MoveEnd::Failed(format!("{}. {}", refusal.message, refusal.hint)),
    };
    let request = MoveRequest {
        from: &planned.from,
        to: &planned.to,
        others: &planned.others,
        interrupt: *interrupt,
        bytes_per_sec: *bytes_per_sec,
        is_switched: planned.is_switched,
    };
    let moved = mover.move_domain(&request, &Control { pools, planned: &planned }, one);
    pools.move_has_ended(&planned, matches!(moved, Err(UpkeepError::Doubt(_))));
    match moved {
        Ok(moved) if moved.is_done => {
            let (files, bytes, closed_ms) = (moved.files, moved.bytes, moved.closed_ms);
            MoveEnd::Done(MoveReport { files, bytes, closed_ms })
        }
        Ok(_) => MoveEnd::Stopped,
        Err(error) => MoveEnd::Failed(error.to_string()),
    }
}

/// What a move may do here.
struct Control<'a> {
    pools: &'a Pools,
    planned: &'a PlannedMove,
}

impl MoveControl for Control<'_> {
    fn is_free(&self) -> bool {
        self.pools.close(&self.planned.domain);
        true
    }

    fn may_go_on(&self) -> Result<(), String> {
        self.pools.may_move(self.planned).map_err(|refusal| refusal.to_string())
    }

    fn reopen(&self) {
        self.pools.reopen(&self.planned.domain);
    }

    fn switch(&self) -> Result<(), String> {
        self.pools.note_move(self.planned)
    }
}

impl Move {
    fn new(order: &MoveOrder) -> Self {
        let (job, stage) = (order.job, "begin".to_owned());
        let status = MoveStatus { job, stage, bytes: 0, end: None };
        let (goes_on, asked, was_left, ended) = (order.goes_on, Instant::now(), false, None);
        let state = Mutex::new(State { status, goes_on, asked, was_left, ended });
        Self { order: order.clone(), state }
    }

    fn was_asked(&self, goes_on: bool) {
        let mut state = self.state.lock();
        (state.goes_on, state.asked) = (goes_on, Instant::now());
    }

    fn ended(&self, end: MoveEnd) {
        tracing::info!(job = self.order.job, ?end, "the move ended");
        let mut state = self.state.lock();
        (state.status.end, state.ended) = (Some(end), Some(Instant::now()));
    }

    /// A control server whose catalog was restored may give a number again.
    fn is_for(&self, order: &MoveOrder) -> bool {
        (&self.order.domain, &self.order.pool) == (&order.domain, &order.pool)
    }

    fn is_stale(&self) -> bool {
        let state = self.state.lock();
        let is_unasked = state.asked.elapsed() > ASKED_WITHIN;
        is_unasked && state.ended.is_some_and(|ended| ended.elapsed() > KEPT_FOR)
    }

    fn has_ended(&self) -> bool {
        self.state.lock().status.end.is_some()
    }

    fn was_left(&self) -> bool {
        let state = self.state.lock();
        state.was_left && state.status.end == Some(MoveEnd::Stopped)
    }
}

impl Watch for Move {
    fn moved(&self, bytes: u64) {
        self.state.lock().status.bytes += bytes;
    }

    fn goes_on(&self) -> bool {
        let mut state = self.state.lock();
        state.was_left |= state.asked.elapsed() > ASKED_WITHIN;
        state.goes_on && !state.was_left
    }

    fn stage(&self, name: &str) {
        name.clone_into(&mut self.state.lock().status.stage);
    }

    fn passed(&self, _: ContainerNo) {}
}

/// Whoever waits for a move learns of its end, whatever happens to its thread.
struct EndsAnyway<'a>(&'a Move);

impl Drop for EndsAnyway<'_> {
    fn drop(&mut self) {
        if !self.0.has_ended() {
            self.0.ended(MoveEnd::Failed("the move panicked: see the log".to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use server_contract::folder::Folder;
    use server_contract::moving::Moved;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Moves until it is told to end, and counts how often it began.
    #[derive(Default)]
    struct Endless(AtomicUsize);

    impl DomainMover for Endless {
        fn move_domain(
            &self,
            _: &MoveRequest<'_>,
            _: &dyn MoveControl,
            watch: &dyn Watch,
        ) -> Result<Moved, UpkeepError> {
            self.0.fetch_add(1, Ordering::SeqCst);
            watch.stage("copy");
            watch.moved(7);
            while watch.goes_on() {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(Moved::default())
        }
    }

    struct Rig {
        moves: Moves,
        pools: Arc<Pools>,
        mover: Arc<Endless>,
        _place: tempfile::TempDir,
    }

    impl Rig {
        fn new() -> Self {
            let place = tempfile::tempdir().unwrap();
            let data = place.path().join("data");
            let folder = Folder::open_storage(&data, &"disk".parse().unwrap()).unwrap();
            for name in ["second", "third"] {
                let further = place.path().join(name);
                std::fs::create_dir(&further).unwrap();
                folder.add_pool(&name.parse().unwrap(), &further, false).unwrap();
            }
            std::fs::create_dir_all(data.join("pool/domains/web")).unwrap();
            let (moves, mover) = (Moves::default(), Arc::<Endless>::default());
            moves.work_with(mover.clone());
            Self { moves, pools: Arc::new(Pools::new(folder)), mover, _place: place }
        }

        fn ask(&self, goes_on: bool) {
            self.ask_for(7, "second", goes_on);
        }

        fn ask_for(&self, job: u64, pool: &str, goes_on: bool) {
            let (domain, pool) = ("web".parse().unwrap(), pool.parse().unwrap());
            let (interrupt, bytes_per_sec) = (false, None);
            let order = MoveOrder { job, domain, pool, interrupt, bytes_per_sec, goes_on };
            self.moves.apply_reply(&self.pools, &[order]);
        }

        fn comes(&self, what: &str, is_so: impl Fn(&[MoveStatus]) -> bool) {
            let begun = Instant::now();
            while !is_so(&self.moves.to_report()) {
                assert!(begun.elapsed() < Duration::from_secs(30), "no {what}");
                std::thread::sleep(Duration::from_millis(1));
            }
        }

        fn begun(&self) -> usize {
            self.mover.0.load(Ordering::SeqCst)
        }
    }

    fn is_stopped(told: &[MoveStatus]) -> bool {
        matches!(told, [MoveStatus { end: Some(MoveEnd::Stopped), .. }])
    }

    #[test]
    fn a_move_is_begun_once_told_often_and_forgotten_long_after_its_end() {
        let rig = Rig::new();
        rig.ask(true);
        rig.comes("progress", |told| matches!(told, [it] if it.bytes == 7 && it.stage == "copy"));
        (0..3).for_each(|_| rig.ask(true));
        rig.moves.apply_reply(&rig.pools, &[]);
        assert_eq!(rig.moves.to_report().len(), 1, "what runs is not forgotten");
        rig.ask(false);
        rig.comes("end", is_stopped);
        rig.ask(false);
        assert_eq!((rig.begun(), rig.moves.to_report().len()), (1, 1), "a reply may be lost");
        rig.moves.apply_reply(&rig.pools, &[]);
        assert!(is_stopped(&rig.moves.to_report()), "who asked may have been killed");
        let long = KEPT_FOR + Duration::from_secs(1);
        {
            let all = rig.moves.all.lock();
            let mut state = all[&7].state.lock();
            (state.asked, state.ended) = (state.asked - long, state.ended.map(|it| it - long));
        }
        rig.moves.apply_reply(&rig.pools, &[]);
        assert_eq!(rig.moves.to_report(), []);
    }

    #[test]
    fn a_move_for_which_nobody_asks_ends_and_begins_again_when_somebody_does() {
        let rig = Rig::new();
        rig.ask(true);
        rig.comes("begin", |_| rig.begun() == 1);
        rig.moves.all.lock()[&7].state.lock().asked -= ASKED_WITHIN + Duration::from_secs(1);
        rig.comes("end", is_stopped);
        rig.ask(true);
        rig.comes("second begin", |_| rig.begun() == 2);
        rig.ask(false);
        rig.comes("end", is_stopped);
    }

    #[test]
    fn no_second_move_of_a_domain_begins_before_the_first_one_has_ended() {
        let rig = Rig::new();
        let end = |job| rig.moves.all.lock()[&job].state.lock().status.end.clone();
        let is_refused = |job| {
            let has_not_ended = |why: &String| why.contains("'web' has not ended");
            matches!(end(job), Some(MoveEnd::Failed(why)) if has_not_ended(&why))
        };
        rig.ask(true);
        rig.comes("begin", |_| rig.begun() == 1);
        rig.ask_for(8, "third", true);
        assert!(is_refused(8), "{:?}", end(8));
        rig.ask(false);
        rig.comes("end", |_| end(7) == Some(MoveEnd::Stopped));
        rig.ask_for(8, "third", true);
        assert!(is_refused(8), "what was told of it stays so");
        rig.ask_for(9, "third", true);
        rig.comes("second begin", |_| rig.begun() == 2);
        rig.ask_for(9, "second", true);
        assert!(is_refused(9), "a number that was given again is no other domain");
        assert_eq!(rig.begun(), 2);
    }
}
