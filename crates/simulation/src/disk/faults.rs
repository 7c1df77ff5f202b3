//! What goes wrong, and when.

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The power goes: every process ends, and what was not synced may be lost.
    PowerCut,
    /// The process is killed; the cache stays.
    Kill,
    /// One operation fails.
    Error,
    /// It and all after it fail.
    Dead,
    /// From now on nothing can be written.
    Full,
    /// One sync fails, and what it should have written is never written.
    Sync,
}

/// A fault at a certain operation.
#[derive(Clone, Debug)]
pub struct Faults {
    fault: Option<Fault>,
    /// Operations until then, of those that it concerns.
    left: u64,
    pub(super) has_fired: bool,
}

const WRITING: [&str; 4] = ["create", "append", "sync", "create directory"];

impl Faults {
    /// Nothing goes wrong.
    pub fn none() -> Self {
        Self { fault: None, left: 0, has_fired: false }
    }

    /// `fault` happens after `left` operations that it concerns.
    pub fn after(left: u64, fault: Fault) -> Self {
        Self { fault: Some(fault), left, has_fired: false }
    }

    /// What happens to the next operation.
    pub(super) fn next(&mut self, verb: &str) -> Option<Fault> {
        let fault = self.fault?;
        let concerned = match fault {
            Fault::Full => WRITING.contains(&verb),
            Fault::Sync => verb == "sync" || verb == "sync directory",
            _ => true,
        };
        if !concerned {
            return None;
        }
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        self.has_fired = true;
        if !matches!(fault, Fault::Dead | Fault::Full) {
            self.fault = None;
        }
        Some(fault)
    }
}
