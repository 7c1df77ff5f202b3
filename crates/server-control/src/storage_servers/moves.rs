//! Moves between the pools of storage servers: jobs want them here, and heartbeats ask for them and say how they go.

use api::Name;
use api::storage_moves::{MoveEnd, MoveOrder, MoveStatus};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// So many heartbeats in a row that say nothing of a move that was asked for: an older program does not know it.
const SILENT_BEATS_MAX: u32 = 5;
/// A move of whose storage server nothing is heard for so long has failed.
const PATIENCE: Duration = Duration::from_secs(300);

/// The moves that are wanted, by their jobs.
#[derive(Default)]
pub(crate) struct StorageMoves(Mutex<BTreeMap<u64, WantedMove>>);

struct WantedMove {
    storage: Name,
    order: MoveOrder,
    /// What was said last, and not passed on yet.
    told: Option<MoveStatus>,
    /// Bytes that were passed on.
    bytes: u64,
    silent_beats: u32,
    heard: Instant,
}

/// What is heard of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WhatIsHeard {
    /// How it goes, and how many bytes more were copied.
    News {
        /// What is done now.
        stage: String,
        /// Bytes since the last news.
        more: u64,
    },
    /// How it ended.
    End(MoveEnd),
    /// Nothing new.
    Nothing,
    /// The storage server is there and says nothing of it.
    Unknown,
    /// Nothing was heard of the storage server for long.
    Silence,
}

impl StorageMoves {
    /// Asks `storage` for a move from now on.
    pub(crate) fn want(&self, storage: &Name, order: MoveOrder) {
        let (storage, told, heard) = (storage.clone(), None, Instant::now());
        let wanted = WantedMove { storage, told, bytes: 0, silent_beats: 0, heard, order };
        self.0.lock().insert(wanted.order.job, wanted);
    }

    /// Nobody waits for it any more.
    pub(crate) fn forget(&self, job: u64) {
        self.0.lock().remove(&job);
    }

    /// What is new of the move of a job, which is to go on or to end.
    pub(crate) fn heard(&self, job: u64, goes_on: bool) -> WhatIsHeard {
        let mut all = self.0.lock();
        let Some(wanted) = all.get_mut(&job) else { return WhatIsHeard::Unknown };
        wanted.order.goes_on = goes_on;
        match wanted.told.take() {
            Some(MoveStatus { end: Some(end), .. }) => WhatIsHeard::End(end),
            Some(MoveStatus { stage, bytes, .. }) => {
                // A storage server that started anew counts from 0.
                let more = bytes.checked_sub(wanted.bytes).unwrap_or(bytes);
                wanted.bytes = bytes;
                WhatIsHeard::News { stage, more }
            }
            None if wanted.silent_beats > SILENT_BEATS_MAX => WhatIsHeard::Unknown,
            None if wanted.heard.elapsed() > PATIENCE => WhatIsHeard::Silence,
            None => WhatIsHeard::Nothing,
        }
    }

    /// Takes what a heartbeat of `storage` says; returns what is asked of it.
    pub(super) fn exchange(&self, storage: &Name, told: &[MoveStatus]) -> Vec<MoveOrder> {
        let mut orders = Vec::new();
        for wanted in self.0.lock().values_mut().filter(|wanted| wanted.storage == *storage) {
            wanted.heard = Instant::now();
            match told.iter().find(|status| status.job == wanted.order.job) {
                Some(status) => {
                    wanted.told = Some(status.clone());
                    wanted.silent_beats = 0;
                }
                None => wanted.silent_beats = wanted.silent_beats.saturating_add(1),
            }
            orders.push(wanted.order.clone());
        }
        orders
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn order(job: u64) -> MoveOrder {
        let (domain, pool) = (name("web"), name("fast"));
        MoveOrder { job, domain, pool, interrupt: false, bytes_per_sec: None, goes_on: true }
    }

    fn status(job: u64, bytes: u64) -> MoveStatus {
        MoveStatus { job, stage: "copy".to_owned(), bytes, end: None }
    }

    #[test]
    fn a_storage_server_is_asked_for_its_own_moves_until_they_ended() {
        let (moves, disk) = (StorageMoves::default(), name("disk"));
        moves.want(&disk, order(7));
        assert_eq!(moves.exchange(&name("other"), &[status(7, 9)]), []);
        assert_eq!(moves.heard(7, true), WhatIsHeard::Nothing, "of another one it is no news");
        assert_eq!(moves.exchange(&disk, &[]), [order(7)]);
        moves.exchange(&disk, &[status(7, 5), status(8, 1)]);
        let news = |more| WhatIsHeard::News { stage: "copy".to_owned(), more };
        assert_eq!(moves.heard(7, true), news(5));
        moves.exchange(&disk, &[status(7, 8)]);
        assert_eq!(moves.heard(7, false), news(3));
        let ends = MoveOrder { goes_on: false, ..order(7) };
        assert_eq!(moves.exchange(&disk, &[status(7, 2)]), [ends], "it began anew");
        assert_eq!(moves.heard(7, false), news(2));
        let end = MoveStatus { end: Some(MoveEnd::Stopped), ..status(7, 2) };
        moves.exchange(&disk, &[end]);
        assert_eq!(moves.heard(7, false), WhatIsHeard::End(MoveEnd::Stopped));
        moves.forget(7);
        assert_eq!(moves.exchange(&disk, &[]), []);
    }

    #[test]
    fn one_that_is_there_and_says_nothing_does_not_know_moves_and_one_that_is_away_may() {
        let (moves, disk) = (StorageMoves::default(), name("disk"));
        moves.want(&disk, order(7));
        for _ in 0..SILENT_BEATS_MAX {
            moves.exchange(&disk, &[]);
            assert_eq!(moves.heard(7, true), WhatIsHeard::Nothing);
        }
        moves.exchange(&disk, &[status(7, 0)]);
        moves.heard(7, true);
        for _ in 0..=SILENT_BEATS_MAX {
            moves.exchange(&disk, &[]);
        }
        assert_eq!(moves.heard(7, true), WhatIsHeard::Unknown);
        moves.want(&disk, order(8));
        moves.0.lock().get_mut(&8).unwrap().heard -= PATIENCE + Duration::from_secs(1);
        assert_eq!(moves.heard(8, true), WhatIsHeard::Silence);
    }
}
