//! Storage servers that did not answer: for a while nobody waits for them again, so that one that is away delays
//! the others only once.

use api::Name;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

/// After so long it is tried again.
const AWAY_FOR: Duration = Duration::from_secs(15);

/// Those that did not answer, with what was said then.
#[derive(Default)]
pub(crate) struct AwayServers(Mutex<FxHashMap<Name, (Instant, String)>>);

impl AwayServers {
    /// Why a storage server was unreachable a moment ago.
    pub(super) fn why(&self, storage: &Name) -> Option<String> {
        let mut all = self.0.lock();
        all.retain(|_, (since, _)| since.elapsed() < AWAY_FOR);
        all.get(storage).map(|(_, why)| why.clone())
    }

    /// A storage server did not answer.
    pub(super) fn is_away(&self, storage: &Name, why: String) {
        self.0.lock().insert(storage.clone(), (Instant::now(), why));
    }

    /// A storage server has started, or has answered.
    pub(crate) fn is_back(&self, storage: &Name) {
        self.0.lock().remove(storage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_did_not_answer_is_away_until_it_starts() {
        let away = AwayServers::default();
        let [disk, other] = ["disk", "other"].map(|name| name.parse::<Name>().unwrap());
        away.is_away(&disk, "no answer".to_owned());
        assert_eq!((away.why(&disk).as_deref(), away.why(&other)), (Some("no answer"), None));
        away.is_back(&disk);
        assert_eq!(away.why(&disk), None);
        let past = Instant::now().checked_sub(AWAY_FOR).unwrap();
        away.0.lock().insert(disk.clone(), (past, String::new()));
        assert_eq!(away.why(&disk), None);
    }
}
