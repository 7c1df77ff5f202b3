//! The time by which runs start: what the clocks of this machine say, believed within bounds.

use crate::catalog_mark::CatalogMark;
use crate::now_secs;
use catalog::{By, Catalog};
use clock::{Clock, Doubt, Reading, Tick};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;

/// How often the state is stored, at least.
const STORED_SECS: i64 = 600;

/// The clocks of this machine.
pub(crate) struct MachineClock {
    catalog: Arc<Catalog>,
    mark: Option<Arc<CatalogMark>>,
    state: Mutex<Option<State>>,
}

struct State {
    clock: Clock,
    /// When it was stored, by the second clock.
    stored_secs: Option<i64>,
    boot: u128,
    is_doubted: bool,
    /// Whether what was stored cannot be read: nobody knows how late it was, until somebody says so.
    is_lost: bool,
}

impl MachineClock {
    pub(crate) fn new(catalog: Arc<Catalog>) -> Self {
        Self { catalog, mark: None, state: Mutex::default() }
    }

    /// Each reading is in doubt while `mark` says that the catalog is older than what the server has seen: what deletes
    /// by a time deletes by rules, too.
    pub(crate) fn doubted_by(self, mark: Arc<CatalogMark>) -> Self {
        Self { mark: Some(mark), ..self }
    }

    /// The time now. What is stored of it lets the next start of the server go on from there.
    pub(crate) fn read(&self) -> catalog::Result<Reading> {
        let tick = tick();
        let mut state = self.state.lock();
        let known = match state.take() {
            Some(known) => known,
            None => self.stored(tick)?,
        };
        let known = state.insert(known);
        let reading = known.read(tick);
        self.told(known, tick, reading);
        self.store_if_due(known, tick)?;
        self.doubted(reading)
    }

    fn doubted(&self, reading: Reading) -> catalog::Result<Reading> {
        let is_older = self.mark.as_ref().map_or(Ok(false), |mark| mark.is_older())?;
        let doubt = if is_older { Some(Doubt::Catalog) } else { reading.doubt };
        Ok(Reading { doubt, ..reading })
    }

    /// An administrator says that the wall clock is right: it is believed from now on.
    pub(crate) fn confirm(&self, by: By<'_>) -> catalog::Result<Reading> {
        let tick = tick();
        let mut state = self.state.lock();
        let mut known = match state.take() {
            Some(known) => known,
            None => self.stored(tick)?,
        };
        let reading = known.clock.confirm(tick);
        let text = serde_json::to_string(&known.clock).unwrap_or_default();
        self.catalog.confirm_clock(by, &text)?;
        known.is_lost = false;
        *state = Some(known);
        self.doubted(reading)
    }

    fn stored(&self, tick: Tick) -> catalog::Result<State> {
        let stored = self.catalog.clock()?;
        let read = stored.as_deref().map(serde_json::from_str::<Clock>).transpose();
        let (clock, is_lost) = match read {
            Ok(clock) => (clock, false),
            Err(error) => {
                tracing::error!(%error, "the time that was stored in the catalog cannot be read: nothing is deleted until somebody confirms the clock: icecore server clock confirm");
                (None, true)
            }
        };
        let clock = clock.unwrap_or_else(|| Clock::start(tick));
        Ok(State { clock, stored_secs: None, boot: tick.boot, is_doubted: false, is_lost })
    }

    fn told(&self, known: &mut State, _: Tick, reading: Reading) {
        let is_doubted = reading.doubt.is_some();
        if let Some(doubt) = reading.doubt.filter(|_| !known.is_doubted) {
            tracing::warn!(%doubt, "runs start by the time since the last good reading");
        }
        known.is_doubted = is_doubted;
    }

    fn store_if_due(&self, known: &mut State, tick: Tick) -> catalog::Result<()> {
        // What cannot be read stays, so that the next start is in doubt, too.
        if known.is_lost {
            return Ok(());
        }
        let is_fresh = known.stored_secs.is_some_and(|at| tick.up_secs - at < STORED_SECS);
        if is_fresh && known.boot == tick.boot {
            return Ok(());
        }
        if let Ok(text) = serde_json::to_string(&known.clock) {
            self.catalog.set_clock(&text)?;
        }
        (known.stored_secs, known.boot) = (Some(tick.up_secs), tick.boot);
        Ok(())
    }
}

impl State {
    fn read(&mut self, tick: Tick) -> Reading {
        let reading = self.clock.read(tick);
        let lost = self.is_lost.then_some(Doubt::Unreadable);
        Reading { doubt: lost.or(reading.doubt), ..reading }
    }
}

/// What the clocks say.
fn tick() -> Tick {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot = u128::from_str_radix(&boot.trim().replace('-', ""), 16);
    let boot = boot.unwrap_or(clock::UNKNOWN_BOOT);
    Tick { wall_secs: now_secs(), boot, up_secs: clock_gettime(ClockId::Boottime).tv_sec }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_where_the_last_server_left_it() {
        let folder = tempfile::tempdir().unwrap();
        let location = catalog::Location::file(folder.path().join("catalog.sqlite"));
        let catalog = Arc::new(Catalog::open(&location).unwrap());
        let first = MachineClock::new(catalog.clone()).read().unwrap();
        assert_eq!(first.doubt, None);
        let ahead = Tick { wall_secs: first.secs + 500, ..tick() };
        let clock = serde_json::to_string(&Clock::start(ahead)).unwrap();
        catalog.set_clock(&clock).unwrap();
        let second = MachineClock::new(catalog).read().unwrap();
        assert!(second.secs >= first.secs + 500, "not before what was given out");
    }

    /// A program of another version may have stored it: to begin anew would believe any clock.
    #[test]
    fn a_stored_time_that_cannot_be_read_is_in_doubt_until_somebody_confirms_the_clock() {
        let folder = tempfile::tempdir().unwrap();
        let location = catalog::Location::file(folder.path().join("catalog.sqlite"));
        let catalog = Arc::new(Catalog::open(&location).unwrap());
        catalog.set_clock("{").unwrap();
        for _ in 0..2 {
            let clock = MachineClock::new(catalog.clone());
            assert!(clock.read().unwrap().doubt.is_some());
            assert_eq!(clock.read().unwrap().doubt, Some(Doubt::Unreadable));
        }
        let clock = MachineClock::new(catalog.clone());
        assert_eq!(clock.confirm(crate::by("admin")).unwrap().doubt, None);
        assert_eq!(clock.read().unwrap().doubt, None);
        assert_eq!(MachineClock::new(catalog).read().unwrap().doubt, None, "also after a restart");
    }

    /// The machine was off for longer than is believed, or its clock is wrong: somebody has to say which.
    #[test]
    fn a_clock_in_doubt_is_believed_when_somebody_confirms_it() {
        let folder = tempfile::tempdir().unwrap();
        let location = catalog::Location::file(folder.path().join("catalog.sqlite"));
        let catalog = Arc::new(Catalog::open(&location).unwrap());
        let year = 365 * 86_400;
        let behind = Tick { wall_secs: now_secs() - year, boot: 1, up_secs: 5 };
        catalog.set_clock(&serde_json::to_string(&Clock::start(behind)).unwrap()).unwrap();
        let clock = MachineClock::new(catalog.clone());
        assert!(clock.read().unwrap().doubt.is_some());
        assert_eq!(clock.confirm(crate::by("admin")).unwrap().doubt, None);
        assert_eq!(clock.read().unwrap().doubt, None);
        let again = MachineClock::new(catalog.clone()).read().unwrap();
        assert!(again.doubt.is_none() && again.secs >= now_secs() - 5, "also after a restart");
        assert_eq!(catalog.audit_entries(None, 1).unwrap()[0].action, "clock.confirm");
    }
}
