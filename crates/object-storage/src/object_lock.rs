//! Object Lock: the storage itself keeps objects until a time, from everybody who has our credentials, too.
//!
//! What is kept is the version of an object that is there now. Its time is only made later, never earlier; that it is
//! late enough is asked before it is set, which costs less (`docs/adr/0046-object-lock.md`).

use crate::client::Client;
use crate::names::{DIRECTORY_MARK, LEASE, ROOTS, SNAPSHOTS, numbered};
use crate::signed::{Request, parsed};
use crate::storage::ObjectStorage;
use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE64;
use jiff::Timestamp;
use object_store::signer::{HeaderName, HeaderValue};
use repository::storage::{StorageError, StorageResult};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::time::{SystemTime, UNIX_EPOCH};

/// A lock whose end has passed by the clock of this machine, and not by that of the repository, gets so much more.
const LEAST_SECS: i64 = 3600;
/// Nothing is locked for longer than this at once, or a wrong time would be paid for for ever: a year.
const MOST_SECS: i64 = 365 * 86_400;
/// What is locked until much later is prolonged this often: every 30 days.
const SLACK_SECS: i64 = 30 * 86_400;
/// Objects that are asked for, and then locked, before the next ones.
const AT_ONCE: usize = 1000;
/// Failures that are named.
const NAMED_MAX: usize = 5;
/// Said of a bucket, or an object, without a lock.
const NO_LOCK: [&str; 2] =
    ["ObjectLockConfigurationNotFoundError", "NoSuchObjectLockConfiguration"];
/// With its end, a request that sets a lock has to bring a checksum.
const CHECKSUM: HeaderName = HeaderName::from_static("x-amz-checksum-sha256");

/// Who can end a lock early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Nobody, the owner of the bucket included.
    Compliance,
    /// Who has the permission `s3:BypassGovernanceRetention`.
    Governance,
}

impl LockMode {
    fn name(self) -> &'static str {
        match self {
            Self::Compliance => "COMPLIANCE",
            Self::Governance => "GOVERNANCE",
        }
    }
}

/// How to lock.
#[derive(Clone, Copy, Debug)]
pub struct LockOptions {
    /// Who can end it early.
    pub mode: LockMode,
    /// What is locked is locked for so much longer than it is needed: seconds in which it need not be prolonged.
    pub spare_secs: i64,
}

impl LockOptions {
    /// Just for as long as it is needed.
    pub fn exact(mode: LockMode) -> Self {
        Self { mode, spare_secs: 0 }
    }
}

/// What is locked now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locked {
    /// Objects that are locked for as long as they are needed, or for a year.
    pub objects: u64,
    /// Those of them whose lock was set or prolonged.
    pub prolonged: u64,
    /// Objects that are not, and the first reasons.
    pub failed: u64,
    /// Names and reasons of the first of them.
    pub reasons: Vec<String>,
}

/// Until when objects of one repository are locked, as somebody has read or set it: a request for each is saved. An
/// object that is written once more under its name is not locked, so this is to be forgotten from time to time.
#[derive(Clone, Debug, Default)]
pub struct KnownLocks(BTreeMap<String, i64>);

#[derive(Deserialize)]
struct Configuration {
    #[serde(rename = "ObjectLockEnabled", default)]
    enabled: String,
}

/// An object to be locked.
#[derive(Clone)]
struct Object {
    name: String,
    /// Until when it is needed, in seconds since 1970.
    needed_secs: i64,
    /// Whoever writes removes such objects when there are others: one that is gone is missed by nobody.
    may_go: bool,
}

/// The lock of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    until_secs: i64,
    is_compliance: bool,
}

#[derive(Deserialize)]
struct Retention {
    #[serde(rename = "Mode", default)]
    mode: String,
    #[serde(rename = "RetainUntilDate", default)]
    until: String,
}

impl ObjectStorage {
    /// Checks that the bucket can lock objects.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] when it cannot; those of the storage.
    pub fn can_lock(&self) -> StorageResult<()> {
        let client = self.client();
        let request = Request::get("".into(), &[("object-lock", "")]);
        let answer = match client.ask("ask for Object Lock of", request) {
            Err(error) if !says_no_lock(&error) => return Err(error),
            answer => answer.unwrap_or_default(),
        };
        let said: Option<Configuration> = parsed(&answer);
        if said.is_some_and(|found| found.enabled == "Enabled") {
            return Ok(());
        }
        let why = "the bucket has no Object Lock; it is switched on when a bucket is made";
        Err(StorageError::new("lock", client.location(), Error::new(ErrorKind::Unsupported, why)))
    }

    /// Locks the objects of each of `files` until the time with it, in seconds since 1970; and what a reader of the
    /// bucket itself needs, until the last of these times.
    ///
    /// # Errors
    /// Those of the storage, if it cannot be asked at all, and when it is cancelled. What fails of single objects is in
    /// the report.
    pub fn lock_objects(
        &self,
        files: &[(String, i64)],
        options: LockOptions,
        is_cancelled: &dyn Fn() -> bool,
    ) -> StorageResult<Locked> {
        self.lock_unless_known(files, options, &mut KnownLocks::default(), is_cancelled)
    }

    /// The same by one that does so again and again, always in the same mode: what is in `known` is not asked for.
    ///
    /// # Errors
    /// Those of [`ObjectStorage::lock_objects`].
    pub fn lock_unless_known(
        &self,
        files: &[(String, i64)],
        options: LockOptions,
        known: &mut KnownLocks,
        is_cancelled: &dyn Fn() -> bool,
    ) -> StorageResult<Locked> {
        let Some(last_secs) = files.iter().map(|(_, until_secs)| *until_secs).max() else {
            return Ok(Locked::default());
        };
        self.can_lock()?;
        let own = self.own_objects()?.into_iter();
        let own = own.map(|name| Object { name, needed_secs: last_secs, may_go: true });
        let mut objects: BTreeMap<String, Object> = BTreeMap::new();
        for object in own.chain(self.objects_of_files(files)?) {
            let known = objects.entry(object.name.clone()).or_insert_with(|| object.clone());
            known.needed_secs = object.needed_secs.max(known.needed_secs);
        }
        known.0.retain(|name, _| objects.contains_key(name));
        let (done, objects): (Vec<_>, Vec<_>) =
            objects.into_values().partition(|object| known.is_enough(object, now_secs()));
        let mut locked = Locked { objects: done.len() as u64, ..Locked::default() };
        for some in objects.chunks(AT_ONCE) {
            if is_cancelled() {
                return Err(StorageError::new("lock", "objects", ErrorKind::Interrupted));
            }
            keep_some(self.client(), some, options, (known, &mut locked));
        }
        Ok(locked)
    }

    fn objects_of_files(&self, files: &[(String, i64)]) -> StorageResult<Vec<Object>> {
        let mut all = Vec::new();
        for (file, until_secs) in files {
            let objects = match crate::rows::row_of(file) {
                Some(_) => Vec::new(), // below
                None if file.starts_with("snapshots/") => self.snapshot_objects(file)?,
                None => vec![file.clone()],
            };
            let needed_secs = *until_secs;
            let object = |name| Object { name, needed_secs, may_go: false };
            all.extend(objects.into_iter().map(object));
        }
        Ok(all)
    }

    /// What no file of the repository names, and without which its snapshots do not count or are not found: the last
    /// object of each row, the leases, and the marks of directories.
    fn own_objects(&self) -> StorageResult<Vec<String>> {
        for what in ROOTS.into_iter().chain([SNAPSHOTS, LEASE]) {
            drop(self.look(what)?);
        }
        let state = self.shared.state.lock();
        let highest = |root| state.names.highest(root).map(|number| numbered(root, number));
        let rows = ROOTS.into_iter().filter_map(highest);
        let leases = state.names.below(LEASE).map(|name| format!("{LEASE}/{name}"));
        let marks = ["index", "keys", SNAPSHOTS].map(|name| format!("{name}/{DIRECTORY_MARK}"));
        let marks = marks.into_iter().filter(|mark| state.names.has(mark));
        Ok(rows.chain(leases).chain(marks).collect())
    }
}

/// Of `objects`, asks for the lock of all at once, and then sets those that end too early.
fn keep_some(
    client: &Client,
    objects: &[Object],
    options: LockOptions,
    (known, locked): (&mut KnownLocks, &mut Locked),
) {
    let (get, now) = (|object: &Object| lock_of(client, &object.name), now_secs());
    let asked = client.send(("ask for the lock of", "objects"), objects.iter().map(get).collect());
    let mut late = Vec::new();
    for (Object { name, needed_secs, may_go }, answer) in objects.iter().zip(asked) {
        match answer.map_or_else(no_lock, |(_, body)| held(&body)) {
            Err(error) if *may_go && error.is_not_found() => {}
            Ok(held) => match wanted(held, options, *needed_secs, now) {
                Some(until_secs) => late.push((name, until_secs)),
                None => {
                    known.note(name, held.map_or(0, |held| held.until_secs));
                    locked.objects += 1;
                }
            },
            Err(error) => locked.note(name, &error),
        }
    }
    let put = |(name, until_secs): &(&String, i64)| lock(client, name, *until_secs, options.mode);
    let set = client.send(("lock", "objects"), late.iter().map(put).collect());
    for ((name, until_secs), answer) in late.iter().zip(set) {
        match answer {
            Ok(_) => {
                known.note(name, *until_secs);
                locked.note_prolonged();
            }
            Err(error) => locked.note(name, &error),
        }
    }
}

impl KnownLocks {
    fn note(&mut self, name: &str, until_secs: i64) {
        self.0.insert(name.to_owned(), until_secs);
    }

    fn is_enough(&self, object: &Object, now: i64) -> bool {
        self.0
            .get(&object.name)
            .is_some_and(|until_secs| *until_secs >= enough(object.needed_secs, now))
    }
}

impl Locked {
    fn note_prolonged(&mut self) {
        self.objects += 1;
        self.prolonged += 1;
    }

    fn note(&mut self, name: &str, error: &StorageError) {
        self.failed += 1;
        if self.reasons.len() < NAMED_MAX {
            self.reasons.push(format!("{name}: {}", error.source));
        }
    }
}

/// Until when an object is to be locked that is needed until `needed_secs`; `None` where its lock is good enough.
fn wanted(held: Option<Held>, options: LockOptions, needed_secs: i64, now: i64) -> Option<i64> {
    let is_strict = |held: &Held| held.is_compliance || options.mode == LockMode::Governance;
    let is_enough = |held: Held| is_strict(&held) && held.until_secs >= enough(needed_secs, now);
    if held.is_some_and(is_enough) {
        return None;
    }
    let until_secs = needed_secs.saturating_add(options.spare_secs);
    let until_secs = until_secs.clamp(now + LEAST_SECS, now + MOST_SECS);
    // A stricter lock that ends earlier would be refused.
    Some(held.map_or(until_secs, |held| until_secs.max(held.until_secs)))
}

/// The earliest end of a lock that need not be prolonged.
fn enough(needed_secs: i64, now: i64) -> i64 {
    needed_secs.min(now + MOST_SECS - SLACK_SECS)
}

fn lock_of(client: &Client, name: &str) -> Request {
    Request::get(client.path(name), &[("retention", "")])
}

fn lock(client: &Client, name: &str, until_secs: i64, mode: LockMode) -> Request {
    let until = Timestamp::from_second(until_secs).unwrap_or(Timestamp::MAX);
    let mode = mode.name();
    let body = format!(
        "<Retention xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Mode>{mode}</Mode><RetainUntilDate>{until}</RetainUntilDate></Retention>"
    );
    let sum = BASE64.encode(digest(&SHA256, body.as_bytes()).as_ref());
    let request = Request::put(client.path(name), &[("retention", "")], body);
    match HeaderValue::from_str(&sum) {
        Ok(sum) => request.with(CHECKSUM, sum),
        Err(_) => request,
    }
}

/// The lock that this answer tells.
pub(crate) fn held(answer: &[u8]) -> StorageResult<Option<Held>> {
    let held = parsed(answer).and_then(|found: Retention| {
        let until: Timestamp = found.until.parse().ok()?;
        let is_compliance = found.mode == LockMode::Compliance.name();
        Some(Held { until_secs: until.as_second(), is_compliance })
    });
    let wrong = "the storage says no time until which it is locked";
    let wrong = || Error::new(ErrorKind::InvalidData, wrong);
    held.map(Some).ok_or_else(|| StorageError::new("lock", "object", wrong()))
}

/// The answer for an object that was never locked.
fn no_lock(error: StorageError) -> StorageResult<Option<Held>> {
    if says_no_lock(&error) { Ok(None) } else { Err(error) }
}

fn says_no_lock(error: &StorageError) -> bool {
    let said = error.source.to_string();
    NO_LOCK.iter().any(|code| said.contains(code))
}

fn now_secs() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_set_where_it_ends_too_early_or_is_too_weak() {
        let (day, now) = (86_400, 1_000_000_000);
        let held =
            |days: i64, is_compliance| Some(Held { until_secs: now + days * day, is_compliance });
        let set = |held, mode, needed: i64| {
            let until = wanted(held, LockOptions::exact(mode), now + needed * day, now);
            until.map(|until| (until - now) as f64 / day as f64)
        };
        use LockMode::{Compliance, Governance};
        assert_eq!(set(None, Compliance, 10), Some(10.0));
        assert_eq!(set(held(9, true), Compliance, 10), Some(10.0));
        assert_eq!(set(held(10, true), Compliance, 10), None);
        assert_eq!(set(held(20, false), Governance, 10), None);
        assert_eq!(set(held(20, true), Governance, 10), None, "compliance is more");
        assert_eq!(
            set(held(20, false), Compliance, 10),
            Some(20.0),
            "stricter, and no end is earlier"
        );
        assert_eq!(set(None, Compliance, 4000), Some(365.0));
        assert_eq!(set(held(340, true), Compliance, 4000), None);
        assert_eq!(set(held(334, true), Compliance, 4000), Some(365.0));
        assert_eq!(set(None, Compliance, -3), Some(1.0 / 24.0));
        let spare = LockOptions { mode: Compliance, spare_secs: 3 * day };
        assert_eq!(wanted(None, spare, i64::MAX, now), Some(now + 365 * day));
        assert_eq!(wanted(None, spare, now + 10 * day, now), Some(now + 13 * day));
        assert_eq!(wanted(held(13, true), spare, now + 12 * day, now), None, "for some days");
    }

    #[test]
    fn an_answer_without_a_time_is_no_lock_and_no_freedom() {
        let answer = |until: &str| {
            format!(
                "<Retention xmlns=\"x\"><Mode>COMPLIANCE</Mode><RetainUntilDate>{until}</RetainUntilDate></Retention>"
            )
        };
        let good = held(answer("2030-01-01T00:00:00.000Z").as_bytes()).unwrap().unwrap();
        assert!(good.is_compliance && good.until_secs == 1_893_456_000);
        for bad in ["", "soon", "2030"] {
            assert!(held(answer(bad).as_bytes()).is_err(), "{bad}");
        }
        assert!(held(b"").is_err() && held(b"\xff<Retention>").is_err());
    }
}
