//! What nodes read from copies, until the control server has noted it.

use api::storage_servers::CopyRead;
use parking_lot::Mutex;

/// The most that waits for a heartbeat; the log has all.
const COPY_READS_MAX: usize = 100;

/// What was not told yet.
#[derive(Default)]
pub(super) struct CopyReads {
    waiting: Mutex<Vec<CopyRead>>,
}

impl CopyReads {
    /// Notes one, unless too many wait.
    pub(super) fn note(&self, read: CopyRead) {
        let mut waiting = self.waiting.lock();
        let is_full = waiting.len() >= COPY_READS_MAX;
        let is_same = |one: &&mut CopyRead| {
            (&one.node, &one.domain, &one.place) == (&read.node, &read.domain, &read.place)
        };
        if let Some(one) = waiting.iter_mut().find(is_same) {
            one.records = one.records.saturating_add(read.records);
        } else if !is_full {
            waiting.push(read);
        }
    }

    /// Takes what waits, to tell it.
    pub(super) fn take(&self) -> Vec<CopyRead> {
        std::mem::take(&mut *self.waiting.lock())
    }

    /// Puts back what nobody took.
    pub(super) fn put_back(&self, reads: Vec<CopyRead>) {
        reads.into_iter().for_each(|read| self.note(read));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(domain: &str, records: u64) -> CopyRead {
        let (node, domain) = ("web".parse().unwrap(), domain.parse().unwrap());
        CopyRead { node, domain, place: "/mnt/copy".to_owned(), records }
    }

    #[test]
    fn what_nobody_took_is_told_again_with_what_came_since_and_memory_is_bounded() {
        let reads = CopyReads::default();
        reads.note(read("web", 1));
        let taken = reads.take();
        reads.note(read("web", 2));
        reads.put_back(taken);
        assert_eq!(reads.take(), [read("web", 3)]);
        (0..2 * COPY_READS_MAX).for_each(|at| reads.note(read(&format!("d{at}"), 1)));
        assert_eq!(reads.take().len(), COPY_READS_MAX);
        assert!(reads.take().is_empty());
    }
}
