//! A session of a node that lies: it backs something up as others do, and its records also name objects that others
//! have stored. Some it promises before they are stored, and stores something else once another session has published
//! them. Nobody can know by looking at a record that was sent: only the node has the key.
//!
//! What it stores before anybody else counts, as `docs/THREATS.md` says, so it never does that.

use super::backup::Backup;
use super::model::Model;
use super::records::chunk;
use super::tree::{CHUNKS, Tree};
use crate::random::Random;
use format::record::SealedRecord;
use ids::ObjectId;
use parking_lot::Mutex;
use repository::Result;
use repository::snapshots::SnapshotRef;
use std::sync::Arc;

/// So many objects of others it names, and promises.
const NAMED_MAX: u64 = 12;

/// Such a session.
pub(super) struct Liar {
    backup: Backup,
    model: Arc<Mutex<Model>>,
    random: Random,
    promised: Vec<ObjectId>,
    has_promised: bool,
}

impl Liar {
    /// With `backup`, about what `model` knows.
    pub(super) fn new(backup: Backup, model: Arc<Mutex<Model>>, seed: u64) -> Self {
        let (random, promised) = (Random::new(seed), Vec::new());
        Self { backup, model, random, promised, has_promised: false }
    }

    /// The backup that it makes.
    pub(super) fn backup(&self) -> &Backup {
        &self.backup
    }

    /// Goes on by one step, as a backup does. It lies right before its commit, and cannot commit if it has promised
    /// what nobody has stored: then its session just ends.
    pub(super) fn advance(&mut self) -> Result<Option<SnapshotRef>> {
        if !self.backup.is_at_commit() {
            let done = self.backup.advance()?;
            if !self.has_promised {
                self.has_promised = true;
                self.promise()?;
            }
            return Ok(done);
        }
        self.name_others()?;
        if self.break_promises()? {
            return self.backup.advance();
        }
        self.backup.give_up();
        Ok(None)
    }

    /// Whether its session has ended without a commit.
    pub(super) fn has_given_up(&self) -> bool {
        self.backup.is_at_commit() && self.backup.session().is_none()
    }

    /// Claims what it does not store: chunks that nobody has stored yet.
    fn promise(&mut self) -> Result<()> {
        let Some(session) = self.backup.session() else { return Ok(()) };
        let own = self.backup.objects();
        for _ in 0..self.random.below(NAMED_MAX) {
            let id = chunk(self.random.below(CHUNKS));
            if !own.contains(&id) && !self.promised.contains(&id) && session.claim(&id)? {
                self.promised.push(id);
            }
        }
        Ok(())
    }

    /// Stores other bytes under the names that others have published since. Whether that is all that was promised.
    fn break_promises(&self) -> Result<bool> {
        let Some(session) = self.backup.session() else { return Ok(false) };
        let mut is_all = true;
        for id in &self.promised {
            if session.is_stored(id)? {
                session.append(&self.other_bytes(*id))?;
            } else {
                is_all = false;
            }
        }
        Ok(is_all)
    }

    /// Sends records that name objects which lie elsewhere: chunks, and pages that refer to nothing. Of those it takes
    /// what a snapshot has that stays.
    fn name_others(&mut self) -> Result<()> {
        let victims = self.model.lock().trees().iter().flat_map(Tree::objects).collect::<Vec<_>>();
        let first = self.model.lock().first().map(|(_, tree)| tree.objects()).unwrap_or_default();
        let Some(session) = self.backup.session() else { return Ok(()) };
        for _ in 0..NAMED_MAX.min(victims.len() as u64) {
            let id = *self.random.pick(&victims);
            let may = !id.is_page() || first.contains(&id);
            if may && !self.promised.contains(&id) && session.is_stored(&id)? {
                let record = match id.is_page() {
                    true => self.backup.seals().page(id, &[]),
                    false => self.other_bytes(id),
                };
                session.append_bytes(&record.to_bytes())?;
            }
        }
        Ok(())
    }

    fn other_bytes(&self, id: ObjectId) -> SealedRecord {
        self.model.lock().lie_about(id);
        self.backup.seals().other_bytes(vec![id])
    }
}
