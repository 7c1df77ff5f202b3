//! Finds the snapshot that a user names: `latest`, a prefix of an id, or a time; optionally of one
//! node, and optionally with a path in it.
//!
//! The newest is the one created last, whatever the clocks said. With several sources, the newest
//! snapshot of each is tried, the newest first, and the first one that contains the path is used. Of
//! the classes of one source, made together, the one that has most of the path is used.

mod classes;
mod passed_over;

use crate::effective_time;
use crate::manifest::{ManifestReader, Snapshot, fetch_all};
use crate::receipts::ReceiptStatus;
use crate::{Error, Result, UnlockedRepository};
use classes::Found;
use format::entry::Time;
use format::manifest::Head;
use ids::{ObjectId, SnapshotId};
use rustc_hash::FxHashSet;
use store::{SnapshotRef, StoredSnapshot};

/// The length of an id in hexadecimal digits.
const ID_DIGITS_MAX: usize = 2 * ids::SnapshotId::LEN;

/// How a snapshot is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectBy {
    /// The newest, or the one this many before it of the same source.
    Latest(u32),
    /// By a prefix of its id.
    IdPrefix(String),
    /// The newest one at or before this time.
    AtOrBefore(Time),
}

/// Names a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSelector {
    /// How it is named.
    pub by: SelectBy,
    /// Only snapshots of this node.
    pub node: Option<String>,
}

/// Further conditions on a snapshot.
#[derive(Clone, Copy)]
pub struct SnapshotFilter<'a> {
    /// Whether a snapshot may be chosen.
    pub snapshot: &'a dyn Fn(&Snapshot) -> bool,
    /// The path that it should contain; empty for any.
    pub path: &'a [u8],
}

impl SnapshotFilter<'_> {
    /// No conditions.
    pub const ANY: SnapshotFilter<'static> = SnapshotFilter { snapshot: &|_| true, path: b"" };
}

/// The snapshot that was found.
#[derive(Clone, Debug)]
pub struct Selected {
    /// The newest of those that can be read.
    pub snapshot: Snapshot,
    /// Newer ones that cannot be read, and may be what was asked for.
    pub unread: Vec<SnapshotId>,
}

/// Parses a time as users write it; the caller knows the local time zone.
pub type TimeParser<'a> = &'a dyn Fn(&str) -> Option<Time>;

impl SnapshotSelector {
    /// Parses `latest`, `latest~1`, an id or a time, each with or without `@node`.
    pub fn parse(text: &str, time: TimeParser<'_>) -> Option<Self> {
        let (name, node) = match text.split_once('@') {
            Some((_, node)) if node.is_empty() || node.contains([':', '/']) => return None,
            Some((name, node)) => (name, Some(node.to_owned())),
            None => (text, None),
        };
        let by = match name {
            "latest" => SelectBy::Latest(0),
            back if back.starts_with("latest~") => {
                SelectBy::Latest(back["latest~".len()..].parse().ok()?)
            }
            id if is_id(id) => SelectBy::IdPrefix(id.to_ascii_lowercase()),
            other => SelectBy::AtOrBefore(time(other)?),
        };
        Some(Self { by, node })
    }

    /// Parses `SNAP` or `SNAP:PATH`. Times contain colons, too, so the longest prefix that names a
    /// snapshot is used.
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

/// Normalizes a path as snapshots store it: no leading or trailing slash, no empty names, no `.`.
pub fn clean_path(path: &[u8]) -> Vec<u8> {
    let names = path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    names.collect::<Vec<_>>().join(&b'/')
}

/// Finds the snapshot that `selector` names and `filter` accepts. `note` is called for snapshots
/// that are damaged or untrusted and might have been meant.
///
/// # Errors
/// [`Error::SnapshotNotFound`], [`Error::SnapshotUnread`], [`Error::Ambiguous`]; [`Error::WriteOnly`] for write-only
/// keys.
pub fn find(
    repository: &UnlockedRepository,
    selector: &SnapshotSelector,
    filter: SnapshotFilter<'_>,
    note: &mut dyn FnMut(&str),
) -> Result<Selected> {
    repository.reader_keys()?;
    let reader = ManifestReader::new(repository)?;
    let (kept, unread) = (None, Vec::new());
    let mut search = Search { repository, reader, selector, filter, note, kept, unread };
    match &selector.by {
        SelectBy::IdPrefix(prefix) => {
            let found = search.reader.read(find_by_id(repository, prefix)?)?;
            let found = search.takes(&found).then_some(found).ok_or_else(|| search.missing())?;
            Ok(Selected { snapshot: found, unread: Vec::new() })
        }
        SelectBy::Latest(back) => {
            let candidates = search.candidates()?;
            search.newest(&candidates, *back).map(|found| search.selected(found))
        }
        SelectBy::AtOrBefore(time) => {
            let mut candidates = search.candidates()?;
            search.keep_at_or_before(*time, &mut candidates);
            search.newest(&candidates, 0).map(|found| search.selected(found))
        }
    }
}

/// Resolves a selector that is a prefix of an id, whether or not the snapshot can be read; `None`
/// for other selectors, and for those with a node.
///
/// # Errors
/// [`Error::SnapshotNotFound`], [`Error::Ambiguous`].
pub fn resolve_id(
    repository: &UnlockedRepository,
    selector: &SnapshotSelector,
) -> Result<Option<SnapshotRef>> {
    match (&selector.by, &selector.node) {
        (SelectBy::IdPrefix(prefix), None) => find_by_id(repository, prefix).map(Some),
        _ => Ok(None),
    }
}

fn find_by_id(repository: &UnlockedRepository, prefix: &str) -> Result<SnapshotRef> {
    let names = repository.store.snapshots()?.into_iter();
    let mut fitting: Vec<_> = names.filter(|name| name.id.begins_with(prefix)).collect();
    if fitting.len() > 1 && fitting.iter().all(|name| name.id == fitting[0].id) {
        // Somebody has copied or renamed its file: a snapshot says itself which number it has.
        let read = |name: &SnapshotRef| repository.store.snapshot(*name).is_ok();
        let one = fitting.iter().copied().find(read).unwrap_or(fitting[0]);
        fitting = vec![one];
    }
    only(prefix, fitting)
}

/// The one snapshot that fits `prefix`.
///
/// # Errors
/// [`Error::SnapshotNotFound`], [`Error::Ambiguous`].
pub fn only(prefix: &str, fitting: Vec<SnapshotRef>) -> Result<SnapshotRef> {
    match fitting.as_slice() {
        [one] => Ok(*one),
        [] => Err(Error::SnapshotNotFound(prefix.to_owned())),
        _ => {
            let fitting = fitting.into_iter().map(|name| name.id).collect();
            Err(Error::Ambiguous { prefix: prefix.to_owned(), fitting })
        }
    }
}

/// The unencrypted part of a snapshot.
type Candidate = (SnapshotRef, Head, ReceiptStatus);

/// A search for the newest one.
struct Search<'a> {
    repository: &'a UnlockedRepository,
    reader: ManifestReader<'a>,
    selector: &'a SnapshotSelector,
    filter: SnapshotFilter<'a>,
    note: &'a mut dyn FnMut(&str),
    /// The newest candidate, kept so that it need not be fetched again.
    kept: Option<StoredSnapshot>,
    /// What is damaged, and was passed over.
    unread: Vec<SnapshotRef>,
}

impl Search<'_> {
    /// All snapshots that a known key signed, the newest first.
    fn candidates(&mut self) -> Result<Vec<Candidate>> {
        let names = self.repository.store.snapshots()?;
        let mut all = Vec::with_capacity(names.len());
        for (name, stored) in fetch_all(self.repository, &names) {
            let checked = stored
                .map_err(Error::from)
                .and_then(|stored| self.reader.check_signature(&stored).map(|_| stored));
            match checked {
                Ok(stored) => {
                    all.push((name, stored.head, self.reader.receipt_status(&stored)));
                    self.keep(stored);
                }
                Err(Error::Repository(store::Error::SnapshotMissing(_))) => {} // forgotten meanwhile
                Err(error) => self.pass_over(name, error)?,
            }
        }
        all.sort_unstable_by_key(|(_, head, _)| {
            std::cmp::Reverse(effective_time::creation_order(head))
        });
        Ok(all)
    }

    /// Keeps a candidate if it is newer than the one kept, and old enough.
    fn keep(&mut self, new: StoredSnapshot) {
        let is_newer = |old: &StoredSnapshot| {
            effective_time::creation_order(&old.head) < effective_time::creation_order(&new.head)
        };
        let is_old_enough = match self.selector.by {
            SelectBy::AtOrBefore(time) => effective_time::recorded_time(&new.head) <= time,
            _ => true,
        };
        if is_old_enough && self.kept.as_ref().is_none_or(is_newer) {
            self.kept = Some(new);
        }
    }

    /// Retains the candidates at or before `time`. Suspect ones are removed: their time is unknown. That is said of
    /// those which would be meant by the time that they have.
    fn keep_at_or_before(&mut self, time: Time, candidates: &mut Vec<Candidate>) {
        let heads: Vec<_> =
            candidates.iter().map(|(_, head, word)| (*head, word.clone())).collect();
        let mut times =
            effective_time::effective_times(&heads, self.repository.now_secs()).into_iter();
        let (mut suspect, mut first_later) = (0, u64::MAX);
        candidates.retain(|(name, head, _)| {
            let is_dated = times.next().is_some_and(|effective| effective.time().is_some());
            let is_early = effective_time::recorded_time(head) <= time;
            suspect += usize::from(is_early && !is_dated);
            if is_dated && !is_early {
                first_later = first_later.min(name.sequence);
            }
            is_dated && is_early
        });
        // What was made after a later one is later, too.
        self.unread.retain(|name| name.sequence < first_later);
        if suspect > 0 {
            let passed = match suspect {
                1 => "1 snapshot whose time is suspect is passed over".to_owned(),
                many => format!("{many} snapshots whose times are suspect are passed over"),
            };
            (self.note)(&format!("{passed}; to use one, name it by its id: icecore snapshots -l"));
        }
    }

    /// The newest of `candidates` that contains the path, or the one `back` before it of the same
    /// source. If none contains the path, the newest: the caller then reports the missing path.
    fn newest(&mut self, candidates: &[Candidate], back: u32) -> Result<Snapshot> {
        let (mut passed, mut first) = (FxHashSet::default(), None);
        for (at, (name, head, _)) in candidates.iter().enumerate() {
            if passed.contains(&head.source) {
                continue;
            }
            let Some(snapshot) = self.read(*name)? else { continue };
            passed.insert(head.source);
            if let Some(extent) = self.extent(&snapshot)? {
                let found = Found { snapshot, extent, at };
                let Found { snapshot, at, .. } = self.best_class(found, candidates, &mut passed)?;
                return self.before(snapshot, &candidates[at + 1..], back);
            }
            first.get_or_insert((snapshot, at));
        }
        match first {
            Some((snapshot, at)) => self.before(snapshot, &candidates[at + 1..], back),
            None => Err(self.missing()),
        }
    }

    /// The snapshot `back` before `snapshot`, among the `older` ones.
    fn before(&mut self, snapshot: Snapshot, older: &[Candidate], back: u32) -> Result<Snapshot> {
        let (source, mut found, mut left): (ObjectId, _, _) =
            (snapshot.head.source, snapshot, back);
        for (name, ..) in older.iter().filter(|(_, head, _)| head.source == source) {
            if left == 0 {
                break;
            }
            if let Some(snapshot) = self.read(*name)? {
                (found, left) = (snapshot, left - 1);
            }
        }
        if left == 0 { Ok(found) } else { Err(self.missing()) }
    }

    /// Reads a snapshot, if it is readable, trusted and accepted.
    fn read(&mut self, name: SnapshotRef) -> Result<Option<Snapshot>> {
        let read = match self.kept.take_if(|kept| kept.name == name) {
            Some(kept) => self.reader.open(kept),
            None => self.reader.read(name),
        };
        match read {
            Ok(snapshot) => Ok(Some(snapshot).filter(|snapshot| self.takes(snapshot))),
            Err(Error::Repository(store::Error::SnapshotMissing(_))) => Ok(None),
            Err(error) => self.pass_over(name, error).map(|()| None),
        }
    }

    fn takes(&self, snapshot: &Snapshot) -> bool {
        let is_of_node = |node: &String| *node == snapshot.body.node;
        self.selector.node.as_ref().is_none_or(is_of_node) && (self.filter.snapshot)(snapshot)
    }
}

/// What `selector` names, in words.
fn wanted(selector: &SnapshotSelector) -> String {
    let what = match &selector.by {
        SelectBy::Latest(0) => "latest".to_owned(),
        SelectBy::Latest(back) => format!("latest~{back}"),
        SelectBy::IdPrefix(id) => id.clone(),
        SelectBy::AtOrBefore(_) => "this time".to_owned(),
    };
    selector.node.as_ref().map_or(what.clone(), |node| format!("{what} of {node}"))
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

    fn parse(text: &str) -> Option<(SelectBy, Option<String>, String)> {
        let (selector, path) = SnapshotSelector::parse_with_path(text.as_bytes(), &time)?;
        Some((selector.by, selector.node, String::from_utf8(path).unwrap()))
    }

    #[test]
    fn snapshots_and_paths_are_told_apart() {
        let at = |secs| SelectBy::AtOrBefore(Time { secs, nanos: 0 });
        let id = |text: &str| SelectBy::IdPrefix(text.into());
        let table = [
            ("latest", SelectBy::Latest(0), None, ""),
            ("latest:/etc/hosts", SelectBy::Latest(0), None, "etc/hosts"),
            ("latest:etc//./hosts/", SelectBy::Latest(0), None, "etc/hosts"),
            ("latest:", SelectBy::Latest(0), None, ""),
            ("latest~1", SelectBy::Latest(1), None, ""),
            ("latest~12@web:/a~1", SelectBy::Latest(12), Some("web"), "a~1"),
            ("latest@web-1:/a:b", SelectBy::Latest(0), Some("web-1"), "a:b"),
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
            "latest~",
            "latest~x",
            "latest~-1",
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
        let (_, path) = SnapshotSelector::parse_with_path(b"latest:/a\xff", &time).unwrap();
        assert_eq!(path, b"a\xff");
    }
}
