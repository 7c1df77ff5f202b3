//! Putting a repository back to what it was at a moment, from the versions that a bucket keeps of its objects.
//!
//! Who has our credentials can remove objects and write others in their places; where the bucket keeps versions, that
//! only hides what was there, and what was locked cannot be removed at all. Objects that came after the moment go, too:
//! a row of numbered objects (`docs/FORMAT.md`, chapter 17) would else go on where a stranger left it.

use crate::client::Client;
use crate::lease;
use crate::names::{LEASE, NUMBER_MAX, is_ours, number, numbered};
use crate::signed::{Request, parsed, unreadable};
use crate::storage::ObjectStorage;
use jiff::Timestamp;
use object_store::path::Path;
use repository::config;
use repository::storage::{StorageError, StorageResult};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};

/// Failures that are named.
const NAMED_MAX: usize = 5;

/// What was, or would be, put back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutBack {
    /// Objects that had been removed or overwritten since.
    pub restored: u64,
    /// Objects that came later, and were removed.
    pub removed: u64,
    /// Objects that are as they were.
    pub unchanged: u64,
    /// Objects that could not be put back.
    pub failed: u64,
    /// Names and reasons of the first of them.
    pub reasons: Vec<String>,
}

/// What is done with one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// This version of it becomes the current one.
    Restore(String),
    /// It goes.
    Remove,
}

/// One version of an object, or the mark that it was removed.
#[derive(Clone, Debug, Deserialize)]
struct Version {
    #[serde(rename = "Key")]
    key: String,
    #[serde(rename = "VersionId")]
    id: String,
    #[serde(rename = "IsLatest", default)]
    is_latest: bool,
    #[serde(rename = "LastModified")]
    modified: String,
    #[serde(rename = "ETag", default)]
    tag: Option<String>,
    #[serde(skip)]
    is_mark: bool,
}

#[derive(Deserialize)]
struct Page {
    #[serde(rename = "IsTruncated", default)]
    is_truncated: bool,
    #[serde(rename = "NextKeyMarker", default)]
    next_key: String,
    #[serde(rename = "NextVersionIdMarker", default)]
    next_version: String,
    #[serde(rename = "Version", default)]
    versions: Vec<Version>,
    #[serde(rename = "DeleteMarker", default)]
    marks: Vec<Version>,
}

/// Of the versions of one object, those that count: however many there are, two are kept in memory.
#[derive(Default)]
struct Object {
    latest: Option<Version>,
    /// The newest one that was there at that time, and when it was written.
    at_moment: Option<(Timestamp, Version)>,
}

impl Object {
    /// With the same time, an object counts for more than a mark that it was removed: clocks of storages tell seconds.
    fn note(&mut self, version: Version, moment: Timestamp) -> StorageResult<()> {
        let written = written(&version)?;
        if version.is_latest {
            self.latest = Some(version.clone());
        }
        let order = |at: Timestamp, version: &Version| (at, !version.is_mark, version.is_latest);
        let known = self.at_moment.as_ref().map(|(at, version)| order(*at, version));
        if written <= moment && known.is_none_or(|known| known < order(written, &version)) {
            self.at_moment = Some((written, version));
        }
        Ok(())
    }

    /// Whether it was not there at that time, and is not now, but was removed since.
    fn came_and_went(&self, moment: Timestamp) -> bool {
        let mark = self.latest.as_ref().filter(|latest| latest.is_mark);
        self.step().is_none() && mark.is_some_and(|mark| written(mark).is_ok_and(|at| at > moment))
    }

    /// `None` when it is as it was.
    fn step(&self) -> Option<Step> {
        let there = self.latest.as_ref().filter(|latest| !latest.is_mark);
        let wanted = self.at_moment.as_ref().map(|(_, version)| version);
        match (wanted.filter(|version| !version.is_mark), there) {
            (None, None) => None,
            (None, Some(_)) => Some(Step::Remove),
            (Some(wanted), Some(there)) if is_same(wanted, there) => None,
            (Some(wanted), _) => Some(Step::Restore(wanted.id.clone())),
        }
    }
}

/// Also a copy of it, which an earlier run has put there.
fn is_same(wanted: &Version, there: &Version) -> bool {
    wanted.id == there.id || (wanted.tag.is_some() && wanted.tag == there.tag)
}

/// When it was written. versitygw says other times of earlier versions and of marks; but its ids are ULIDs, which begin
/// with the time at which they were made.
fn written(version: &Version) -> StorageResult<Timestamp> {
    let wrong = || Error::new(ErrorKind::InvalidData, "the storage says no time");
    let said = made(&version.id).or_else(|| version.modified.parse().ok());
    said.ok_or_else(|| StorageError::new("list", &version.key, wrong()))
}

/// The time in a ULID: its first ten digits are milliseconds since 1970, in the alphabet of Crockford.
fn made(id: &str) -> Option<Timestamp> {
    const DIGITS: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let values: Option<Vec<usize>> =
        id.bytes().map(|byte| DIGITS.iter().position(|digit| *digit == byte)).collect();
    let values = values.filter(|values| values.len() == 26 && values[0] < 8)?;
    let millis = values.iter().take(10).fold(0_i64, |millis, value| millis << 5 | *value as i64);
    Timestamp::from_millisecond(millis).ok()
}

impl ObjectStorage {
    /// Puts each object back to its version of `moment_secs`, in seconds since 1970 by the clock of the storage; with
    /// `dry_run`, only says what it would do. `told` hears of each step with the name of its object.
    ///
    /// What lies beside the repository in its bucket is left alone. Nobody may write to the repository meanwhile.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] when the bucket keeps no versions; [`ErrorKind::InvalidInput`] when there was no
    /// repository at that time; those of listings. What fails of single objects is in the report.
    pub fn put_back(
        &self,
        moment_secs: i64,
        dry_run: bool,
        told: &mut dyn FnMut(&str, &Step),
    ) -> StorageResult<PutBack> {
        let client = self.client();
        keeps_versions(client)?;
        let moment = Timestamp::from_second(moment_secs).unwrap_or(Timestamp::MIN);
        was_there(client, moment)?;
        let frees = !dry_run && client.takes_marks_for_objects()?;
        let how = How { client, moment, dry_run, frees };
        let (mut done, mut leases) = (PutBack::default(), Leases::default());
        let mut seen: BTreeMap<String, Object> = BTreeMap::new();
        let mut next = Some((String::new(), String::new()));
        while let Some(behind) = next.take() {
            let page: Page = client
                .page("versions", [("key-marker", &behind.0), ("version-id-marker", &behind.1)])?;
            let marks = page.marks.into_iter().map(|mark| Version { is_mark: true, ..mark });
            for version in page.versions.into_iter().chain(marks) {
                seen.entry(version.key.clone()).or_default().note(version, moment)?;
            }
            let open = if page.is_truncated {
                if (&page.next_key, &page.next_version) == (&behind.0, &behind.1) {
                    return Err(unreadable("list", client.location()));
                }
                next = Some((page.next_key.clone(), page.next_version));
                seen.split_off(&page.next_key)
            } else {
                BTreeMap::new()
            };
            for (key, object) in std::mem::replace(&mut seen, open) {
                let Some(name) = ours(client, &key) else { continue };
                leases.note(&name, &object);
                done.carry_out(&how, &name, &object, told);
            }
        }
        if let (false, Some(passed)) = (dry_run, leases.to_pass()) {
            let outcome = lease::pass(client, passed);
            outcome.unwrap_or_else(|error| {
                done.note_failure(&numbered(LEASE, passed), &said(error));
            });
        }
        Ok(done)
    }
}

/// The name of the object with this key, if a repository can have it.
fn ours(client: &Client, key: &str) -> Option<String> {
    let name = client.relative(&Path::from(key));
    (client.path(&name).as_ref() == key && is_ours(&name)).then_some(name)
}

/// Numbers of leases, whatever became of them.
#[derive(Default)]
struct Leases {
    highest: u64,
    /// The highest that is put back.
    at_moment: u64,
}

impl Leases {
    fn note(&mut self, name: &str, object: &Object) {
        let lease = name.strip_prefix(LEASE).and_then(|rest| number(rest.strip_prefix('/')?));
        let Some(lease) = lease else { return };
        self.highest = self.highest.max(lease);
        if object.at_moment.as_ref().is_some_and(|(_, version)| !version.is_mark) {
            self.at_moment = self.at_moment.max(lease);
        }
    }

    /// The lease that is taken for nobody, so that none is given twice: who has one of those that are removed, and
    /// slept meanwhile, would take another writer's for its own. A stranger's number may be so high that hardly any
    /// would be left.
    fn to_pass(&self) -> Option<u64> {
        let is_later = self.highest > self.at_moment && self.highest < NUMBER_MAX / 2;
        is_later.then(|| self.highest + 1)
    }
}

/// How objects are put back.
struct How<'a> {
    client: &'a Client,
    moment: Timestamp,
    dry_run: bool,
    /// Whether names have to be freed under which something was removed.
    frees: bool,
}

impl PutBack {
    fn carry_out(
        &mut self,
        how: &How,
        name: &str,
        object: &Object,
        told: &mut dyn FnMut(&str, &Step),
    ) {
        let client = how.client;
        let Some(step) = object.step() else {
            self.unchanged += 1;
            if how.frees && object.came_and_went(how.moment) {
                free(client, name).unwrap_or_else(|error| self.note_failure(name, &said(error)));
            }
            return;
        };
        told(name, &step);
        let outcome = match &step {
            _ if how.dry_run => Ok(()),
            Step::Restore(version) => client.restore(name, version).map_err(said),
            Step::Remove => client.delete(&[name.to_owned()]).map_err(said),
        };
        match (outcome, step) {
            (Ok(()), Step::Restore(_)) => self.restored += 1,
            (Ok(()), Step::Remove) => self.removed += 1,
            (Err(why), _) => self.note_failure(name, &why),
        }
    }

    fn note_failure(&mut self, name: &str, why: &str) {
        self.failed += 1;
        if self.reasons.len() < NAMED_MAX {
            self.reasons.push(format!("{name}: {why}"));
        }
    }
}

/// Refuses a time before the repository was made, for a year that is mistyped: everything came later, and would go.
fn was_there(client: &Client, moment: Timestamp) -> StorageResult<()> {
    let mut first: Option<Timestamp> = None;
    for name in config::NAMES {
        for version in versions_of(client, name)?.iter().filter(|version| !version.is_mark) {
            let written = written(version)?;
            first = Some(first.map_or(written, |first| first.min(written)));
        }
    }
    if first.is_some_and(|first| first <= moment) {
        return Ok(());
    }
    let there = match first {
        Some(first) => format!("the first version of its file config is of {first:.0}"),
        None => "the bucket has no version of its file config".to_owned(),
    };
    let why = format!("there was no repository at {moment:.0}: {there}");
    Err(StorageError::new("put back", client.location(), Error::new(ErrorKind::InvalidInput, why)))
}

/// The versions of the object `name` and the marks that it was removed, in the order of the storage.
fn versions_of(client: &Client, name: &str) -> StorageResult<Vec<Version>> {
    let key = client.path(name);
    // Longer names that begin like this one come behind it.
    let request = Request::get("".into(), &[("versions", ""), ("prefix", key.as_ref())]);
    let answer = client.ask("list", request)?;
    let page: Page = parsed(&answer).ok_or_else(|| unreadable("list", client.location()))?;
    let marks = page.marks.into_iter().map(|mark| Version { is_mark: true, ..mark });
    let all = page.versions.into_iter().chain(marks);
    Ok(all.filter(|version| version.key == key.as_ref()).collect())
}

/// The tags of the versions of the object `name`, the newest first, if the last that is known of it is the mark that it
/// was removed; else none.
pub(crate) fn tags_below_mark(client: &Client, name: &str) -> StorageResult<Vec<String>> {
    let all = versions_of(client, name)?;
    if !all.iter().any(|version| version.is_latest && version.is_mark) {
        return Ok(Vec::new());
    }
    let objects = all.into_iter().filter(|version| !version.is_mark);
    let dated: StorageResult<Vec<_>> =
        objects.map(|object| written(&object).map(|at| (at, object.tag))).collect();
    let mut dated = dated?;
    // Of one second, as the storage has them: the newest first.
    dated.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    Ok(dated.into_iter().filter_map(|(_, tag)| tag).collect())
}

/// Makes it possible to create the object `name` once more where the storage takes the mark over it for an object: a
/// mark remembers the tag of what was removed, and that version may be gone. So the marks go, which nobody misses, and
/// what they hid gets a new one. Whoever is killed in between leaves an object that came later, and goes on with that.
fn free(client: &Client, name: &str) -> StorageResult<()> {
    let mut marks: Vec<_> =
        versions_of(client, name)?.into_iter().filter(|version| version.is_mark).collect();
    // With the last one, what was before it comes back: that is to be no mark.
    marks.sort_by_key(|mark| mark.is_latest);
    for mark in marks {
        let request = Request::delete(client.path(name), &[("versionId", &mark.id)]);
        client.ask("remove a mark of", request)?;
    }
    client.delete(&[name.to_owned()])
}

fn said(error: StorageError) -> String {
    error.source.to_string()
}

fn keeps_versions(client: &Client) -> StorageResult<()> {
    #[derive(Deserialize)]
    struct Versioning {
        #[serde(rename = "Status", default)]
        status: String,
    }
    let request = Request::get("".into(), &[("versioning", "")]);
    let answer = client.ask("ask for versions of", request)?;
    let found: Option<Versioning> = parsed(&answer);
    // What was kept before it was suspended can still be had.
    if found.is_some_and(|found| !found.status.is_empty()) {
        return Ok(());
    }
    let why = Error::new(ErrorKind::Unsupported, "the bucket keeps no versions of its objects");
    Err(StorageError::new("restore", client.location(), why))
}

/// How many versions and marks the page `answer` has, whose times can be read. For the fuzzer.
pub(crate) fn readable(answer: &[u8]) -> usize {
    let Some(page): Option<Page> = parsed(answer) else { return 0 };
    page.versions.iter().chain(&page.marks).filter(|version| written(version).is_ok()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(id: &str, modified: &str, is_latest: bool, is_mark: bool) -> Version {
        let (key, tag) = ("key".to_owned(), (!is_mark).then(|| format!("tag of {id}")));
        let (id, modified) = (id.to_owned(), format!("2026-01-01T00:00:{modified}Z"));
        Version { key, id, is_latest, modified, tag, is_mark }
    }

    fn step(versions: &[Version]) -> Option<Step> {
        let moment = "2026-01-01T00:00:30Z".parse().unwrap();
        let mut object = Object::default();
        versions.iter().for_each(|one| object.note(one.clone(), moment).unwrap());
        let mut backwards = Object::default();
        versions.iter().rev().for_each(|one| backwards.note(one.clone(), moment).unwrap());
        assert_eq!(object.step(), backwards.step(), "in any order");
        object.step()
    }

    #[test]
    fn an_object_becomes_what_it_was_at_the_moment() {
        let (old, there) = (version("a", "10", false, false), version("a", "10", true, false));
        let (rubbish, gone) = (version("b", "40", true, false), version("c", "40", true, true));
        let restored = Some(Step::Restore("a".into()));
        assert_eq!(step(std::slice::from_ref(&there)), None);
        assert_eq!(step(&[old.clone(), rubbish.clone()]), restored);
        assert_eq!(step(&[old.clone(), gone.clone()]), restored);
        assert_eq!(step(std::slice::from_ref(&rubbish)), Some(Step::Remove), "it came later");
        assert_eq!(step(&[version("b", "40", false, false), gone.clone()]), None, "and went");
        let removed = version("m", "20", false, true);
        assert_eq!(step(&[old.clone(), removed.clone(), rubbish]), Some(Step::Remove));
        assert_eq!(step(&[old.clone(), removed, gone.clone()]), None, "it had been removed before");
        let same_second = version("m", "10", false, true);
        assert_eq!(step(&[old.clone(), same_second, gone]), restored, "in doubt it was there");
        let copy = Version { tag: old.tag.clone(), ..version("d", "50", true, false) };
        assert_eq!(step(&[old, copy]), None, "an earlier run has put it there");
    }

    #[test]
    fn the_id_of_a_version_can_say_when_it_was_written() {
        let id = "01M8A5PVA21YFC9XP89K02DM68";
        let at = made(id).unwrap();
        assert_eq!(at.to_string(), "2026-11-25T20:17:45.794Z");
        for other in ["null", "", "3sL4kqtJlcpXroDTDmJ-rmSpXd3dIbrHY", "01m8a5pva21yfc9xp89k02dm68"]
        {
            assert_eq!(made(other), None, "{other}");
        }
        let replaced = Version { id: id.into(), ..version("a", "10", false, false) };
        assert_eq!(written(&replaced).unwrap(), at, "whatever else is said");
        let other = Version { modified: "soon".into(), ..version("a", "10", false, false) };
        assert!(written(&other).is_err());
    }

    #[test]
    fn a_page_is_read_in_which_versions_and_marks_take_turns() {
        let text = "<ListVersionsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
            <IsTruncated>true</IsTruncated>\
            <NextKeyMarker>b</NextKeyMarker><NextVersionIdMarker>2</NextVersionIdMarker>\
            <Version><Key>a</Key><VersionId>1</VersionId><IsLatest>true</IsLatest>\
            <LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;x&quot;</ETag>\
            <Owner><ID>me</ID></Owner></Version>\
            <DeleteMarker><Key>b</Key><VersionId>3</VersionId><IsLatest>true</IsLatest>\
            <LastModified>2026-01-01T00:00:00Z</LastModified></DeleteMarker>\
            <Version><Key>b</Key><VersionId>2</VersionId><IsLatest>false</IsLatest>\
            <LastModified>2026-01-01T00:00:00Z</LastModified></Version>\
            </ListVersionsResult>";
        let page: Page = parsed(text.as_bytes()).unwrap();
        assert_eq!(readable(text.as_bytes()), 3);
        assert_eq!((page.versions.len(), page.marks.len(), page.is_truncated), (2, 1, true));
        assert_eq!((&*page.next_key, &*page.next_version), ("b", "2"));
        assert_eq!(page.versions[0].tag.as_deref(), Some("\"x\""));
    }
}
