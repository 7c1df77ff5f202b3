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
        let reading = known.clock.read(tick);
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
        *state = Some(known);
        self.doubted(reading)
    }

    fn stored(&self, tick: Tick) -> catalog::Result<State> {
        let stored = self.catalog.clock()?;
        let clock = stored.and_then(|text| serde_json::from_str(&text).ok());
        let clock = clock.unwrap_or_else(|| Clock::start(tick, None));
        Ok(State { clock, stored_secs: None, boot: tick.boot, is_doubted: false })
    }

    fn told(&self, known: &mut State, _: Tick, reading: Reading) {
        let is_doubted = reading.doubt.is_some();
        if let Some(doubt) = reading.doubt.filter(|_| !known.is_doubted) {
            tracing::warn!(%doubt, "runs start by the time since the last good reading");
        }
        known.is_doubted = is_doubted;
    }

    fn store_if_due(&self, known: &mut State, tick: Tick) -> catalog::Result<()> {
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
        let clock = serde_json::to_string(&Clock::start(ahead, None)).unwrap();
        catalog.set_clock(&clock).unwrap();
        let second = MachineClock::new(catalog).read().unwrap();
        assert!(second.secs >= first.secs + 500, "not before what was given out");
    }

    /// The machine was off for longer than is believed, or its clock is wrong: somebody has to say which.
    #[test]
    fn a_clock_in_doubt_is_believed_when_somebody_confirms_it() {
        let folder = tempfile::tempdir().unwrap();
        let location = catalog::Location::file(folder.path().join("catalog.sqlite"));
        let catalog = Arc::new(Catalog::open(&location).unwrap());
        let year = 365 * 86_400;
        let behind = Tick { wall_secs: now_secs() - year, boot: 1, up_secs: 5 };
        catalog.set_clock(&serde_json::to_string(&Clock::start(behind, None)).unwrap()).unwrap();
        let clock = MachineClock::new(catalog.clone());
        assert!(clock.read().unwrap().doubt.is_some());
        assert_eq!(clock.confirm(crate::by("admin")).unwrap().doubt, None);
        assert_eq!(clock.read().unwrap().doubt, None);
        let again = MachineClock::new(catalog.clone()).read().unwrap();
        assert!(again.doubt.is_none() && again.secs >= now_secs() - 5, "also after a restart");
        assert_eq!(catalog.audit_entries(None, 1).unwrap()[0].action, "clock.confirm");
    }
}
