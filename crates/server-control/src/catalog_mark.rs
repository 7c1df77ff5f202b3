//! Whether the catalog is as new as what the server has seen.
//!
//! The file `catalog-mark` names the newest entry of the audit log that the server has seen. Each change of an
//! administrator is an entry, and an entry's hash covers all before it: a catalog without that entry was restored from
//! an older copy, or began anew. It may lack holds, revocations, policies and locks, so nothing expires until an
//! administrator has looked at it, and no grant is good. Nodes that were revoked stay so by another file: see [`crate::revocations`].

use crate::checked_file::{self, Found};
use crate::error::refused;
use crate::revocations::Revocations;
use crate::{Result, SERVER, by, now_secs};
use api::Name;
use api::status::ConfirmedCatalog;
use catalog::audit::AuditMark;
use catalog::{By, Catalog};
use parking_lot::Mutex;
use server_contract::folder::Folder;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

const FILE: &str = "catalog-mark";
/// The list of the revoked says who was revoked since an older catalog; without both nobody does.
const BOTH: &str = "the catalog is older, and the list of what was revoked is lost: nodes that were revoked since then will be admitted again. Revoke them again before you confirm: icecore server revoke NODE";

/// An entry of the audit log: its number, and its time in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    id: u64,
    time: i64,
}

impl Entry {
    fn of(mark: &AuditMark) -> Self {
        Self { id: mark.id, time: mark.time }
    }
}

/// Why nobody knows whether the catalog has all changes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Older {
    /// It lacks an entry that the server has seen; this was its newest one when that was found.
    Behind(Option<Entry>),
    /// There is no mark.
    NoMark(Lost),
}

/// What became of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Missing,
    Damaged,
}

impl Lost {
    fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Damaged => "damaged",
        }
    }
}

#[derive(Default)]
struct State {
    mark: Option<AuditMark>,
    older: Option<Older>,
}

/// The mark of the catalog.
pub(crate) struct CatalogMark {
    folder: Arc<Folder>,
    catalog: Arc<Catalog>,
    revocations: Arc<Revocations>,
    state: Mutex<State>,
    /// Whether it was found to be older, for who asks often.
    is_known_older: AtomicBool,
    /// When this process found that.
    found_at: AtomicI64,
}

impl CatalogMark {
    /// The mark in `folder`, compared with the catalog. A server that has none yet makes one.
    ///
    /// # Errors
    /// [`crate::Error::System`], [`crate::Error::Catalog`].
    pub(crate) fn open(folder: Arc<Folder>, catalog: Arc<Catalog>) -> Result<Self> {
        let found = checked_file::read(&folder, FILE)?;
        let has_mark = catalog.has_mark()?;
        let knows_revoked = has_mark || found != Found::Missing;
        let is_expected = has_mark || Revocations::is_in(&folder);
        let revocations = Revocations::open(folder.clone(), catalog.clone(), knows_revoked)?;
        let state = match found {
            Found::Whole(body) => parse(&body).ok_or(Lost::Damaged),
            Found::Damaged(_) => Err(Lost::Damaged),
            Found::Missing if is_expected => Err(Lost::Missing),
            Found::Missing => Ok(State::default()),
        };
        let (revocations, lost) = (Arc::new(revocations), state.as_ref().err().copied());
        let state = state.unwrap_or_default();
        let is_known_older = AtomicBool::new(state.older.is_some());
        let state = Mutex::new(state);
        let found_at = AtomicI64::new(now_secs());
        let mark = Self { folder, catalog, revocations, state, is_known_older, found_at };
        // A full disk keeps no server from its start.
        match mark.begin(lost) {
            Err(error @ crate::Error::Catalog(_)) => return Err(error),
            Err(error) => tracing::error!(%error, "cannot note the newest change of the catalog"),
            Ok(()) => {}
        }
        if !has_mark && Self::is_in(&mark.folder) && Revocations::is_in(&mark.folder) {
            mark.catalog.set_has_mark()?;
        }
        Ok(mark)
    }

    /// Whether the mark in `folder` says that `catalog` lacks changes, or may; for who only looks, whether or not the
    /// server runs.
    ///
    /// # Errors
    /// [`crate::Error::System`], [`crate::Error::Catalog`].
    pub(crate) fn is_doubted(folder: &Folder, catalog: &Catalog) -> Result<bool> {
        let state = match checked_file::read(folder, FILE)? {
            Found::Whole(body) => parse(&body),
            Found::Damaged(_) => None,
            Found::Missing => return Ok(catalog.has_mark()?),
        };
        let Some(State { mark, older: None }) = state else { return Ok(true) };
        let [_, same] = catalog.audit_marks(mark.as_ref().map_or(0, |mark| mark.id))?;
        Ok(mark.is_some() && same != mark)
    }

    fn begin(&self, lost: Option<Lost>) -> Result<()> {
        let mut state = self.state.lock();
        if let Some(lost) = lost {
            return self.doubt(&mut state, Older::NoMark(lost));
        }
        if let Some(older) = &state.older {
            // Somebody may have put it back once more.
            self.catalog.fail_restores(by(SERVER))?;
            self.tell(older, state.mark.as_ref());
        }
        self.compare(&mut state)
    }

    /// From now on nothing expires. What the catalog gives and the server has taken since is taken again: from nodes
    /// that were revoked, tokens, which may have been used, and restores, which may have been done.
    fn doubt(&self, state: &mut State, older: Older) -> Result<()> {
        self.catalog.void_tokens(by(SERVER))?;
        self.catalog.fail_restores(by(SERVER))?;
        self.found_at.store(now_secs(), Ordering::Relaxed);
        self.tell(&older, state.mark.as_ref());
        state.older = Some(older);
        self.is_known_older.store(true, Ordering::Relaxed);
        let listed = self.revocations.catch_up();
        self.write(state).and(listed)
    }

    /// The list of revoked certificates, which is opened with the mark.
    pub(crate) fn revocations(&self) -> Arc<Revocations> {
        self.revocations.clone()
    }

    /// Looks whether the catalog still is the one that the server has seen, and notes its newest entry, durably.
    ///
    /// # Errors
    /// [`crate::Error::System`], [`crate::Error::Catalog`].
    pub(crate) fn look(&self) -> Result<()> {
        self.compare(&mut self.state.lock())
    }

    /// The same for whoever has done already what there was to do: a failure is logged, and the next look makes up
    /// for it.
    pub(crate) fn note(&self) {
        if let Err(error) = self.look() {
            tracing::error!(%error, "cannot note the newest change of the catalog");
        }
    }

    /// Whether the catalog lacks changes, or may: looked at now.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`]. A mark that cannot be written is in the log.
    pub(crate) fn is_older(&self) -> catalog::Result<bool> {
        let mut state = self.state.lock();
        match self.compare(&mut state) {
            Err(crate::Error::Catalog(error)) => return Err(error),
            Err(error) => tracing::error!(%error, "cannot note the newest change of the catalog"),
            Ok(()) => {}
        }
        Ok(state.older.is_some())
    }

    /// The same without a look at the catalog, which may not answer: as it was at the last one, seconds ago.
    pub(crate) fn is_known_older(&self) -> bool {
        self.is_known_older.load(Ordering::Relaxed)
    }

    /// Whether what stands in the catalog since `made` may be of an older copy: looked at now.
    ///
    /// # Errors
    /// As [`CatalogMark::is_older`].
    pub(crate) fn may_be_of_copy(&self, made: i64) -> catalog::Result<bool> {
        Ok(self.is_older()? && made < self.found_at.load(Ordering::Relaxed))
    }

    /// Refuses what a grant allows while the catalog lacks changes: the grant may have been withdrawn.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] then; [`crate::Error::Catalog`].
    pub(crate) fn allows_grants(&self) -> Result<()> {
        if !self.is_older()? {
            return Ok(());
        }
        let message = format!(
            "nobody reads another domain by a grant while {}: the grant may have been withdrawn",
            clock::Doubt::Catalog
        );
        let hint = "An administrator of the server sees what to do: icecore server status. When the grants are right: icecore server catalog confirm";
        Err(refused(message, hint))
    }

    /// Refuses to forget for others while the catalog lacks changes.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] then; [`crate::Error::Catalog`].
    pub(crate) fn allows_forget(&self) -> Result<()> {
        if !self.is_older()? {
            return Ok(());
        }
        let message = format!("nothing is forgotten while {}", clock::Doubt::Catalog);
        let hint = "An administrator of the server sees what to do: icecore server status";
        Err(refused(message, hint))
    }

    /// Refuses to make a domain that was found nowhere while the catalog lacks changes: it may lie where nobody looked,
    /// and its node would go on in an empty one.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] then; [`crate::Error::Catalog`].
    pub(crate) fn allows_new_domain(&self, name: &Name) -> Result<()> {
        if !self.is_older()? {
            return Ok(());
        }
        let message = format!(
            "the domain '{name}' was not found, and none is made while {}",
            clock::Doubt::Catalog
        );
        let hint = "If it lay on a storage server, that must enroll again and run before its nodes enroll (on it: icecore storage enroll --replace URL TOKEN), and the token for them must be made after that. If it is new, an administrator of the server confirms the catalog first: icecore server catalog confirm";
        Err(refused(message, hint))
    }

    /// What an administrator has to know.
    pub(crate) fn faults(&self) -> Vec<String> {
        let state = self.state.lock();
        let told = |older: &Older| {
            format!(
                "{}. Nothing expires, and nobody reads by a grant, and restores that were ordered before have ended. Look at holds, policies, retentions, grants, nodes and where domains lie, bring back what should not lie in the trash, where all of it stays for its whole time once more after you confirm, and make new tokens in place of unused ones. If the file 'revoked' is an older one too, revoke again whoever was revoked since: icecore server revoke NODE. Then: icecore server catalog confirm",
                self.told(older, state.mark.as_ref())
            )
        };
        let fault = self.revocations.fault();
        let both = state.older.as_ref().filter(|_| fault.is_some()).map(|_| BOTH.to_owned());
        state.older.iter().map(told).chain(fault).chain(both).collect()
    }

    /// An administrator has looked: the catalog counts as it is. What an older one has in the trash may have been
    /// brought back since, and lies there from `now_secs` on.
    ///
    /// # Errors
    /// [`crate::Error::System`], [`crate::Error::Catalog`].
    pub(crate) fn confirm(&self, by: By<'_>, now_secs: i64) -> Result<ConfirmedCatalog> {
        let faults = self.faults();
        let mut state = self.state.lock();
        self.compare(&mut state)?;
        let told = |older: &Older| self.told(older, state.mark.as_ref());
        let detail = state.older.as_ref().map_or_else(String::new, told);
        if state.older.is_some() {
            self.catalog.keep_trash(by, now_secs)?;
        }
        self.catalog.audit_note(by, "catalog.confirm", "", &detail)?;
        self.revocations.confirm()?;
        self.revocations.catch_up()?;
        let [newest, _] = self.catalog.audit_marks(0)?;
        let entries = newest.as_ref().map_or(0, |newest| newest.id);
        let confirmed = State { mark: newest, older: None };
        self.write(&confirmed)?;
        *state = confirmed;
        self.is_known_older.store(false, Ordering::Relaxed);
        Ok(ConfirmedCatalog { entries, ended: faults })
    }

    fn compare(&self, state: &mut State) -> Result<()> {
        if state.older.is_some() {
            return Ok(());
        }
        let seen = state.mark.as_ref().map_or(0, |mark| mark.id);
        let [newest, same] = self.catalog.audit_marks(seen)?;
        if state.mark.is_some() && same != state.mark {
            return self.doubt(state, Older::Behind(newest.as_ref().map(Entry::of)));
        }
        if newest == state.mark && Self::is_in(&self.folder) {
            return Ok(());
        }
        let next = State { mark: newest, older: None };
        self.write(&next)?;
        *state = next;
        Ok(())
    }

    fn is_in(folder: &Folder) -> bool {
        folder.file(FILE).exists()
    }

    fn tell(&self, older: &Older, mark: Option<&AuditMark>) {
        tracing::error!("ALARM: {}; nothing expires", self.told(older, mark));
    }

    fn told(&self, older: &Older, mark: Option<&AuditMark>) -> String {
        let entry =
            |entry: Entry| format!("{} (entry {} of the audit log)", shown(entry.time), entry.id);
        let until =
            mark.map_or_else(String::new, |mark| format!(" until {}", entry(Entry::of(mark))));
        match older {
            Older::Behind(Some(found)) if mark.is_some_and(|mark| found.id < mark.id) => {
                // Its newest entry may be one that the server has made since the older catalog came.
                let is_before = mark.is_some_and(|mark| found.time <= mark.time);
                let from = format!("all changes from {}", entry(*found));
                let lacked = if is_before { &from } else { "changes" };
                format!("{}: it lacks {lacked}{until}", clock::Doubt::Catalog)
            }
            Older::Behind(_) => {
                format!(
                    "the catalog is another one than the server has seen: it may lack all changes{until}"
                )
            }
            Older::NoMark(lost) => format!(
                "{} was {}, so nobody knows whether the catalog is older than what the server has seen",
                self.folder.file(FILE).display(),
                lost.word()
            ),
        }
    }

    fn write(&self, state: &State) -> Result<()> {
        checked_file::write(&self.folder, FILE, &text(state))
    }
}

fn shown(secs: i64) -> String {
    jiff::Timestamp::from_second(secs).map_or_else(|_| format!("@{secs}"), |time| time.to_string())
}

fn text(state: &State) -> String {
    let mut text = String::new();
    if let Some(AuditMark { id, time, hash }) = &state.mark {
        text.push_str(&format!("seen {id} {time} {hash}\n"));
    }
    match &state.older {
        Some(Older::Behind(Some(Entry { id, time }))) => {
            text.push_str(&format!("older {id} {time}\n"))
        }
        Some(Older::Behind(None)) => text.push_str("older\n"),
        Some(Older::NoMark(lost)) => text.push_str(&format!("unknown {}\n", lost.word())),
        None => {}
    }
    text
}

/// `None` for what this program does not understand.
fn parse(text: &str) -> Option<State> {
    let mut state = State::default();
    for line in text.lines() {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["seen", id, time, hash] => {
                let (id, time) = (id.parse().ok()?, time.parse().ok()?);
                state.mark = Some(AuditMark { id, time, hash: hash.to_owned() });
            }
            ["older", id, time] => {
                let entry = Entry { id: id.parse().ok()?, time: time.parse().ok()? };
                state.older = Some(Older::Behind(Some(entry)));
            }
            ["unknown", word] => {
                let lost = [Lost::Missing, Lost::Damaged].into_iter().find(|it| it.word() == word);
                state.older = Some(Older::NoMark(lost?));
            }
            ["older"] => state.older = Some(Older::Behind(None)),
            _ => return None,
        }
    }
    Some(state)
}

#[cfg(test)]
pub(crate) mod tests;
