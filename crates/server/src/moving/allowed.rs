//! Ends a pass over the files of a domain once the states of its pools do not allow the move any more.

use ids::ContainerNo;
use parking_lot::Mutex;
use repository::watch::Watch;
use server_contract::moving::MoveControl;
use std::time::{Duration, Instant};

/// How often the control plane is asked: a pass can take days.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Passes on to a watch.
pub(super) struct Allowed<'a> {
    watch: &'a dyn Watch,
    control: &'a dyn MoveControl,
    looked: Mutex<Option<Instant>>,
    why_not: Mutex<Option<String>>,
}

impl<'a> Allowed<'a> {
    pub(super) fn new(watch: &'a dyn Watch, control: &'a dyn MoveControl) -> Self {
        Self { watch, control, looked: Mutex::default(), why_not: Mutex::default() }
    }

    /// Why the pass was ended, if the states were the reason.
    pub(super) fn why_not(self) -> Option<String> {
        self.why_not.into_inner()
    }

    fn is_allowed(&self) -> bool {
        let mut looked = self.looked.lock();
        if looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) {
            *looked = Some(Instant::now());
            *self.why_not.lock() = self.control.may_go_on().err();
        }
        self.why_not.lock().is_none()
    }
}

impl Watch for Allowed<'_> {
    fn moved(&self, bytes: u64) {
        self.watch.moved(bytes);
    }

    fn goes_on(&self) -> bool {
        self.watch.goes_on() && self.is_allowed()
    }

    fn stage(&self, name: &str) {
        self.watch.stage(name);
    }

    fn passed(&self, container: ContainerNo) {
        self.watch.passed(container);
    }
}
