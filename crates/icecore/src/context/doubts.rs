//! What a server shows that is older or other than what this machine remembers: told at once, or by a command in its
//! own way.

use super::Context;
use crate::node::memory::{Compared, missing};
use crate::out::Out;
use ids::ObjectId;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The doubts of a command.
pub(super) struct Doubts {
    out: Arc<Out>,
    /// For a command that tells them in its own way.
    kept: OnceLock<Mutex<Vec<String>>>,
    /// The sources of which the server has shown an older state when it was asked first.
    sources: OnceLock<BTreeSet<ObjectId>>,
    /// The list of snapshots lacks what the same server has named as the newest.
    is_list_short: AtomicBool,
}

impl Doubts {
    pub(super) fn new(out: Arc<Out>) -> Self {
        let (kept, sources, is_list_short) = Default::default();
        Self { out, kept, sources, is_list_short }
    }

    fn tell(&self, text: String) {
        match self.kept.get() {
            Some(kept) => kept.lock().unwrap_or_else(PoisonError::into_inner).push(text),
            None => self.out.note(&text),
        }
    }
}

impl Context {
    /// Tells what a server shows that is older or other, and has its lists compared with what it has named as the
    /// newest: one that answers one question by the truth and another one not is noticed, too.
    pub(super) fn doubt_of(&self, remote: &remote::Remote, compared: Compared) {
        let told = compared.doubts.iter().map(|doubt| doubt.source).collect();
        let _ = self.doubts.sources.set(told); // one command opens once
        compared.doubts.into_iter().for_each(|doubt| self.doubt(doubt.text));
        let doubts = self.doubts.clone();
        remote.expect_listed(compared.named, move |id| {
            doubts.is_list_short.store(true, Ordering::Relaxed);
            doubts.tell(missing(&id.to_string()));
        });
    }

    /// From now on doubts are kept for [`Context::doubts`].
    pub(crate) fn keep_doubts(&self) {
        self.doubts.kept.get_or_init(Mutex::default);
    }

    /// The server shows what is older or other than what this machine remembers.
    pub(crate) fn doubt(&self, text: String) {
        self.doubts.tell(text);
    }

    /// Whether it was told of `source` that the server shows an older or other state of it.
    pub(crate) fn has_doubted(&self, source: &ObjectId) -> bool {
        self.doubts.sources.get().is_some_and(|sources| sources.contains(source))
    }

    /// Whether the list of snapshots lacks what the server itself has named.
    pub(super) fn is_list_short(&self) -> bool {
        self.doubts.is_list_short.load(Ordering::Relaxed)
    }

    /// The doubts that were kept.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let Some(kept) = self.doubts.kept.get() else { return Vec::new() };
        std::mem::take(&mut kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
