//! Which snapshot the user means: `latest`, the beginning of an id, or a time; optionally of one
//! node; optionally with a path in it.

use crate::manifest::{ManifestReader, Snapshot, fetched};
use crate::{Archive, Error, Result};
use format::entry::Time;
use repository::snapshots::{SnapshotRef, Stored};

/// Longest id in hexadecimal digits.
const ID_DIGITS_MAX: usize = 2 * ids::SnapshotId::LEN;

/// A way to name a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// The newest.
    Latest,
    /// The one whose id begins so.
    Id(String),
    /// The newest at or before this time.
    AtOrBefore(Time),
}

/// What names a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Which one.
    pub when: When,
    /// Only of this node.
    pub node: Option<String>,
}

/// Reads a time as users write it. What a local time is, only the caller knows.
pub type TimeParser<'a> = &'a dyn Fn(&str) -> Option<Time>;

impl Selector {
    /// Reads `latest`, an id or a time, each with or without `@node`.
    pub fn parse(text: &str, time: TimeParser<'_>) -> Option<Self> {
        let (name, node) = match text.split_once('@') {
            Some((_, node)) if node.is_empty() || node.contains([':', '/']) => return None,
            Some((name, node)) => (name, Some(node.to_owned())),
            None => (text, None),
        };
        let when = match name {
            "latest" => When::Latest,
            id if is_id(id) => When::Id(id.to_ascii_lowercase()),
            other => When::AtOrBefore(time(other)?),
        };
        Some(Self { when, node })
    }

    /// Reads `SNAP` or `SNAP:PATH`. Times have colons too: the longest beginning that names a
    /// snapshot does.
    pub fn parse_with_path(text: &[u8], time: TimeParser<'_>) -> Option<(Self, Vec<u8>)> {
        let colons = text.iter().enumerate().filter(|(_, byte)| **byte == b':').map(|(at, _)| at);
        let ends = colons.chain([text.len()]);
        let parsed =
            |end: usize| Some((Self::parse(str::from_utf8(text.get(..end)?).ok()?, time)?, end));
        let (selector, end) = ends.filter_map(parsed).last()?;
        let path = text.get(end + 1..).unwrap_or_default();
        Some((selector, clean_path(path)))
    }
}

fn is_id(text: &str) -> bool {
    (1..=ID_DIGITS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A path as snapshots have it: no slash in front or at the end, no empty names, no `.`.
pub fn clean_path(path: &[u8]) -> Vec<u8> {
    let names = path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    names.collect::<Vec<_>>().join(&b'/')
}

/// The snapshot that `selector` names. What is damaged and might have been meant is told to
/// `note`.
pub fn find(
    archive: &Archive,
    selector: &Selector,
    note: &mut dyn FnMut(&str),
) -> Result<Snapshot> {
    let mut reader = ManifestReader::new(archive)?;
    match &selector.when {
        When::Id(prefix) => {
            let name = by_id(archive, prefix)?;
            let found = reader.read(name)?;
            belongs_to(&found, selector).then_some(found).ok_or_else(|| missing(selector))
        }
        When::Latest => newest(archive, &mut reader, selector, None, note),
        When::AtOrBefore(time) => newest(archive, &mut reader, selector, Some(*time), note),
    }
}

/// The name of the snapshot whose id `selector` gives, whether or not it can be read; `None` when it
/// names a snapshot in another way, or only of a node.
pub fn named_by_id(archive: &Archive, selector: &Selector) -> Result<Option<SnapshotRef>> {
    match (&selector.when, &selector.node) {
        (When::Id(prefix), None) => by_id(archive, prefix).map(Some),
        _ => Ok(None),
    }
}

fn by_id(archive: &Archive, prefix: &str) -> Result<SnapshotRef> {
    let names = archive.store.snapshots()?;
    let mut fitting = names.into_iter().filter(|name| name.id.to_string().starts_with(prefix));
    let first = fitting.next().ok_or_else(|| Error::NoSnapshot(prefix.to_owned()))?;
    if fitting.next().is_some() {
        return Err(Error::Ambiguous(prefix.to_owned()));
    }
    Ok(first)
}

/// The newest by the time of the backup: a change of tags makes a new record of an old snapshot,
/// so numbers alone do not tell.
fn newest(
    archive: &Archive,
    reader: &mut ManifestReader<'_>,
    selector: &Selector,
    limit: Option<Time>,
    note: &mut dyn FnMut(&str),
) -> Result<Snapshot> {
    archive.reader_keys()?;
    let (mut times, mut kept) = (Vec::new(), None);
    let names = archive.store.snapshots()?;
    for (name, stored) in fetched(archive, &names) {
        match stored {
            Ok(stored) => {
                let head = &stored.head;
                let time = Time { secs: head.time_secs, nanos: head.time_nanos };
                if limit.is_none_or(|limit| time <= limit) {
                    times.push((time, name));
                    keep_newer(&mut kept, (time, name), stored);
                }
            }
            Err(repository::Error::SnapshotMissing(_)) => {} // forgotten meanwhile
            Err(error) => pass_over(name, error.into(), note)?,
        }
    }
    times.sort_unstable();
    for (_, name) in times.into_iter().rev() {
        // The first one is here already; others are seldom wanted, and memory stays small.
        let read = match kept.take() {
            Some((_, stored)) => reader.open(stored),
            None => reader.read(name),
        };
        match read {
            Ok(snapshot) if belongs_to(&snapshot, selector) => return Ok(snapshot),
            Ok(_) | Err(Error::Repository(repository::Error::SnapshotMissing(_))) => {}
            Err(error) => pass_over(name, error, note)?,
        }
    }
    Err(missing(selector))
}

type Dated = (Time, SnapshotRef);

fn keep_newer(kept: &mut Option<(Dated, Stored)>, new: Dated, stored: Stored) {
    if kept.as_ref().is_none_or(|(old, _)| *old < new) {
        *kept = Some((new, stored));
    }
}

/// Damage of one snapshot costs no other. What would fail for all of them ends the search.
fn pass_over(name: SnapshotRef, error: Error, note: &mut dyn FnMut(&str)) -> Result<()> {
    if matches!(error, Error::Repository(repository::Error::Storage(_)) | Error::WriteOnly) {
        return Err(error);
    }
    match error {
        Error::NotTrusted { .. } => note(&format!("{error}; it is passed over")),
        _ => note(&format!("snapshot {} cannot be read and is passed over: {error}", name.id)),
    }
    Ok(())
}

fn belongs_to(snapshot: &Snapshot, selector: &Selector) -> bool {
    selector.node.as_ref().is_none_or(|node| *node == snapshot.body.node)
}

fn missing(selector: &Selector) -> Error {
    let what = match &selector.when {
        When::Latest => "latest".to_owned(),
        When::Id(id) => id.clone(),
        When::AtOrBefore(_) => "this time".to_owned(),
    };
    Error::NoSnapshot(
        selector.node.as_ref().map_or(what.clone(), |node| format!("{what} of {node}")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Knows `D`, `D hh:mm` and `D hh:mm:ss`.
    fn time(text: &str) -> Option<Time> {
        let rest = text.strip_prefix("2026-11-20")?;
        let is_time = |text: &str| {
            matches!(text.len(), 0 | 6 | 9) && text.split(':').skip(1).all(|part| part.len() == 2)
        };
        is_time(rest).then_some(Time { secs: rest.len() as i64, nanos: 0 })
    }

    fn parse(text: &str) -> Option<(When, Option<String>, String)> {
        let (selector, path) = Selector::parse_with_path(text.as_bytes(), &time)?;
        Some((selector.when, selector.node, String::from_utf8(path).unwrap()))
    }

    #[test]
    fn snapshots_and_paths_are_told_apart() {
        let at = |secs| When::AtOrBefore(Time { secs, nanos: 0 });
        let id = |text: &str| When::Id(text.into());
        let table = [
            ("latest", When::Latest, None, ""),
            ("latest:/etc/hosts", When::Latest, None, "etc/hosts"),
            ("latest:etc//./hosts/", When::Latest, None, "etc/hosts"),
            ("latest:", When::Latest, None, ""),
            ("latest@web-1:/a:b", When::Latest, Some("web-1"), "a:b"),
            ("3FA9", id("3fa9"), None, ""),
            ("3fa9:x:y", id("3fa9"), None, "x:y"),
            ("2026-11-20", at(0), None, ""),
            ("2026-11-20:/etc", at(0), None, "etc"),
            ("2026-11-20 14:00", at(6), None, ""),
            ("2026-11-20 14:00:/etc", at(6), None, "etc"),
            ("2026-11-20 14:00:30", at(9), None, ""),
            ("2026-11-20 14:00:30:/etc", at(9), None, "etc"),
            ("2026-11-20 14:00@web:/etc:x", at(6), Some("web"), "etc:x"),
        ];
        for (text, when, node, path) in table {
            assert_eq!(
                parse(text),
                Some((when, node.map(str::to_owned), path.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn what_names_no_snapshot_is_refused() {
        for text in [
            "",
            ":",
            ":/etc",
            "newest",
            "xyz:/etc",
            "latest@",
            "latest@:/etc",
            "2026-11",
            "/etc",
            &"a".repeat(33),
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn paths_are_bytes() {
        let (_, path) = Selector::parse_with_path(b"latest:/a\xff", &time).unwrap();
        assert_eq!(path, b"a\xff");
    }
}
