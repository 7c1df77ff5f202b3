//! Which records were healed, and which could not be.

use ids::RecordLocation;
use std::collections::BTreeMap;

/// Locations that are remembered. Whoever may read can ask for any location, and for as many as they like.
const REMEMBERED_MAX: usize = 1 << 16;

/// Locations of records, and whether they were healed.
#[derive(Default)]
pub(crate) struct Healed(BTreeMap<RecordLocation, bool>);

impl Healed {
    /// Notes whether the record at `location` was healed. When there are too many, those that could not be are
    /// forgotten: they cost one more try.
    pub(crate) fn note(&mut self, location: RecordLocation, is_healed: bool) {
        if self.0.len() >= REMEMBERED_MAX {
            self.0.retain(|_, is_healed| *is_healed);
        }
        if self.0.len() < REMEMBERED_MAX {
            self.0.insert(location, is_healed);
        }
    }

    /// Whether the record at `location` is known not to be healed by another try.
    pub(crate) fn is_hopeless(&self, location: &RecordLocation) -> bool {
        self.0.get(location) == Some(&false)
    }

    /// Locations of what was healed, sorted.
    pub(crate) fn locations(&self) -> Vec<RecordLocation> {
        self.0.iter().filter(|(_, is_healed)| **is_healed).map(|(location, _)| *location).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::ContainerNo;

    #[test]
    fn what_anybody_asks_for_does_not_fill_the_memory_and_pushes_out_nothing_that_was_healed() {
        let at = |offset| RecordLocation { container: ContainerNo(1), offset, length: 100 };
        let mut healed = Healed::default();
        healed.note(at(7), true);
        for offset in 100..100 + 2 * REMEMBERED_MAX as u32 {
            healed.note(at(offset), false);
            assert!(healed.0.len() <= REMEMBERED_MAX);
        }
        assert!(healed.is_hopeless(&at(99 + 2 * REMEMBERED_MAX as u32)), "the newest is known");
        assert_eq!(healed.locations(), [at(7)]);
    }

    #[test]
    fn so_many_healed_records_are_listed_and_no_more() {
        let at = |offset| RecordLocation { container: ContainerNo(1), offset, length: 100 };
        let mut healed = Healed::default();
        (0..=REMEMBERED_MAX as u32).for_each(|offset| healed.note(at(offset), true));
        assert_eq!(healed.locations().len(), REMEMBERED_MAX);
        assert!(!healed.is_hopeless(&at(REMEMBERED_MAX as u32)));
    }
}
