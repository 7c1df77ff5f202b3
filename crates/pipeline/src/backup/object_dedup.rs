//! Whether the chunks of an object were new. Some replies come after the object is done, so it is
//! counted with the last of them.

use crate::report::BackupReport;
use std::cell::Cell;
use std::rc::Rc;

/// The claims of the chunks of one object, as far as they are known.
#[derive(Clone, Default)]
pub(super) struct ObjectDedup {
    chunks: u64,
    new_chunks: u64,
    pending: Option<Rc<PendingObject>>,
}

/// An object with missing replies.
#[derive(Default)]
pub(super) struct PendingObject {
    /// The number of missing replies.
    missing: Cell<u64>,
    /// All chunks were seen, and none was new so far.
    is_closed: Cell<bool>,
    /// It was counted, or has a new chunk.
    is_decided: Cell<bool>,
}

impl ObjectDedup {
    /// For chunks that are not file content: nothing is counted.
    pub(super) fn beside_content() -> Self {
        let pending = PendingObject { is_decided: Cell::new(true), ..PendingObject::default() };
        Self { pending: Some(Rc::new(pending)), ..Self::default() }
    }

    /// Adds a chunk whose claim is known.
    pub(super) fn known(&mut self, is_new: bool) {
        self.chunks += 1;
        self.new_chunks += u64::from(is_new);
    }

    /// Adds an unknown chunk; call [`PendingObject::answer`].
    pub(super) fn unknown(&mut self) -> Rc<PendingObject> {
        self.chunks += 1;
        let pending = self.pending.get_or_insert_default();
        pending.missing.set(pending.missing.get() + 1);
        pending.clone()
    }

    /// Counts the object, which is done: now, or with its last reply.
    pub(super) fn count(&self, report: &mut BackupReport) {
        match &self.pending {
            _ if self.chunks == 0 => {}
            _ if self.new_chunks > 0 => {
                report.objects_encrypted += 1;
                self.pending.iter().for_each(|pending| pending.is_decided.set(true));
            }
            None => report.objects_deduplicated += 1,
            Some(pending) => {
                pending.is_closed.set(true);
                pending.decide(report);
            }
        }
    }
}

impl PendingObject {
    /// A reply arrived.
    pub(super) fn answer(&self, is_new: bool, report: &mut BackupReport) {
        self.missing.set(self.missing.get().saturating_sub(1));
        if is_new && !self.is_decided.replace(true) {
            report.objects_encrypted += 1;
        }
        self.decide(report);
    }

    fn decide(&self, report: &mut BackupReport) {
        let is_last = self.is_closed.get() && self.missing.get() == 0;
        if is_last && !self.is_decided.replace(true) {
            report.objects_deduplicated += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(answers: &[Option<bool>], late: &[bool]) -> (u64, u64) {
        let (mut report, mut object, mut pending) =
            (BackupReport::default(), ObjectDedup::default(), Vec::new());
        for answer in answers {
            match answer {
                Some(is_new) => object.known(*is_new),
                None => pending.push(object.unknown()),
            }
        }
        // One answer may come before the object is done.
        let early = pending.len() / 2;
        pending[..early]
            .iter()
            .zip(late)
            .for_each(|(pending, new)| pending.answer(*new, &mut report));
        object.count(&mut report);
        pending[early..]
            .iter()
            .zip(&late[early..])
            .for_each(|(it, new)| it.answer(*new, &mut report));
        (report.objects_encrypted, report.objects_deduplicated)
    }

    #[test]
    fn every_object_is_counted_once_whenever_its_answers_come() {
        type Row<'a> = (&'a [Option<bool>], &'a [bool], (u64, u64));
        let table: [Row<'_>; 9] = [
            (&[], &[], (0, 0)),
            (&[Some(true)], &[], (1, 0)),
            (&[Some(false)], &[], (0, 1)),
            (&[Some(true), None], &[true], (1, 0)),
            (&[Some(true), None], &[false], (1, 0)),
            (&[Some(false), None], &[true], (1, 0)),
            (&[Some(false), None], &[false], (0, 1)),
            (&[None, None], &[true, true], (1, 0)),
            (&[None, None, None], &[false, false, false], (0, 1)),
        ];
        for (answers, late, expected) in table {
            assert_eq!(counted(answers, late), expected, "{answers:?} {late:?}");
        }
    }
}
