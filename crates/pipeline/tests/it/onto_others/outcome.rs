//! What must be so after a restore, whatever was there before.

use super::seen::Seen;
use super::shape::{Object, Thing};
use super::{Case, Ran, State};
use ::restore::Overwrite;
use format::entry::Entry;
use rustix::fs::FileType;
use std::collections::{BTreeMap, BTreeSet};

/// The case, what was there, and what is there now.
pub(super) struct Outcome<'a> {
    pub(super) case: &'a Case,
    pub(super) entries: BTreeMap<String, Entry>,
    pub(super) before: &'a State,
    pub(super) ran: &'a Ran,
    /// Paths of which somebody was told.
    named: BTreeSet<String>,
}

impl<'a> Outcome<'a> {
    pub(super) fn new(case: &'a Case, before: &'a State, ran: &'a Ran) -> Self {
        let path = |entry: &Entry| String::from_utf8(entry.path.clone()).unwrap();
        let entries = case.snapshot.entries();
        let entries = entries.into_iter().map(|entry| (path(&entry), entry)).collect();
        let named = ran.lines.iter().filter(|line| !line.starts_with("note: "));
        let named = named.filter_map(|line| Some(line.split_once(": ")?.0.to_owned())).collect();
        Self { case, entries, before, ran, named }
    }

    pub(super) fn is_named(&self, path: &str) -> bool {
        let mut ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        ends.any(|end| self.named.contains(&path[..end]))
    }

    fn is_above_sources(&self, path: &str) -> bool {
        let below = |source: &&str, above: &str| source[1..].starts_with(&format!("{above}/"));
        self.case.sources.iter().any(|source| below(source, path))
            && !self.case.sources.iter().any(|source| {
                let source = &source[1..];
                source.is_empty() || path == source || path.starts_with(&format!("{source}/"))
            })
    }

    /// Whether the options keep what is there, of whatever content.
    fn keeps(&self, there: &Seen, entry: &Entry) -> bool {
        match self.case.overwrite {
            Overwrite::Never => true,
            Overwrite::IfNewer => there.time >= (entry.mtime.secs, entry.mtime.nanos),
            Overwrite::IfChanged | Overwrite::Always => false,
        }
    }

    /// What the snapshot has came, was kept for the options, or is named.
    pub(super) fn all_came(&self) -> Result<(), String> {
        for (path, entry) in &self.entries {
            let object = &self.case.snapshot.0[&**path];
            let (before, after) = (self.before.get(path), self.ran.after.get(path));
            if self.is_named(path) {
                continue;
            }
            let Some(after) = after else { return Err(format!("{path} is missing, unnamed")) };
            let is_kept = before.is_some_and(|before| {
                let stays = match before.kind == FileType::Directory && object.is_directory() {
                    true => self.case.overwrite == Overwrite::Never || self.is_above_sources(path),
                    false => self.keeps(before, entry),
                };
                stays && is_untouched(before, after)
            });
            let after = &self.without_kept_lock(path, after, object);
            let is_made = after.is_like(entry, object)
                && (after.is(entry, object)
                    || object.is_directory() && self.is_above_sources(path));
            if !is_kept && !is_made {
                return Err(format!("{path} is neither kept nor restored: {after:?}"));
            }
        }
        self.names_are_one()
    }

    /// A directory keeps its lock while something in it stays for that, and is named.
    fn without_kept_lock(&self, path: &str, after: &Seen, object: &Object) -> Seen {
        let is_in_it = |named: &String| named.rsplit_once('/').is_some_and(|it| it.0 == path);
        let was_locked = self.before.get(path).is_some_and(|before| before.is_locked);
        match was_locked && self.case.delete && self.named.iter().any(is_in_it) {
            true => Seen { is_locked: object.may_be_locked(), ..after.clone() },
            false => after.clone(),
        }
    }

    /// Names of one file are names of one file.
    fn names_are_one(&self) -> Result<(), String> {
        let mut inodes: BTreeMap<u64, (u64, &str)> = BTreeMap::new();
        for (path, entry) in self.entries.iter().filter(|(_, entry)| entry.links > 1) {
            let (before, after) = (self.before.get(path), self.ran.after.get(path));
            let (Some(after), false) = (after, self.is_named(path)) else { continue };
            if before.is_some_and(|before| self.keeps(before, entry) && before == after) {
                continue;
            }
            let (first, of) = *inodes.entry(entry.inode).or_insert((after.inode, path));
            if first != after.inode {
                return Err(format!("{path} and {of} are two files, unnamed"));
            }
        }
        Ok(())
    }

    /// What was there and is of no snapshot stays, or goes if that was asked for.
    pub(super) fn others_stay(&self) -> Result<(), String> {
        for (path, before) in
            self.before.iter().filter(|(path, _)| !self.entries.contains_key(*path))
        {
            match self.ran.after.get(path) {
                Some(after) if is_untouched(before, after) => {
                    if self.must_go(path) {
                        return Err(format!("{path} is not in the snapshot, and was not deleted"));
                    }
                }
                Some(after) => return Err(format!("{path} was changed: {before:?} {after:?}")),
                None if self.may_go(path, before) => {}
                None => return Err(format!("{path} is gone")),
            }
        }
        Ok(())
    }

    /// What may be deleted: what has no lock in it, in a directory that the backup entered and knows, or in one that
    /// has the name of something else.
    fn may_go(&self, path: &str, before: &Seen) -> bool {
        let below = format!("{path}/");
        let has_lock =
            self.before.iter().any(|(other, seen)| other.starts_with(&below) && seen.is_locked);
        let mut ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        let first = ends.find_map(|end| {
            let entry = self.entries.get(&path[..end]);
            let is_directory = |_: &&Entry| self.case.snapshot.0[&path[..end]].is_directory();
            (!entry.is_some_and(|entry| is_directory(&entry))).then_some((&path[..end], entry))
        });
        let is_extraneous = match first {
            Some((there, Some(entry))) => !self.keeps(&self.before[there], entry),
            Some((there, None)) => self.is_known(there.rsplit_once('/').map_or("", |it| it.0)),
            None => false,
        };
        self.case.delete && is_extraneous && !before.is_locked && !has_lock
    }

    /// Whether the backup has all that is in a directory.
    fn is_known(&self, directory: &str) -> bool {
        if directory.is_empty() {
            return self.case.sources == ["/"] && !self.case.is_passed;
        }
        let has = self.case.snapshot.0.get(directory);
        has.is_some_and(|it| matches!(it.thing, Thing::Directory))
            && !self.is_above_sources(directory)
    }

    fn must_go(&self, path: &str) -> bool {
        let Some((above, _)) = path.rsplit_once('/') else {
            return self.ran.report.failed == 0
                && self.case.sources == ["/"]
                && self.may_go(path, &self.before[path]);
        };
        let is_entered = self.entries.contains_key(above)
            && self.before.get(above).is_some_and(|above| above.kind == FileType::Directory)
            && self.case.snapshot.0[above].is_directory();
        is_entered && self.ran.report.failed == 0 && self.may_go(path, &self.before[path])
    }

    /// What the options, or the backup, forbid to replace is as it was.
    fn kept_stays(&self) -> Result<(), String> {
        for (path, entry) in &self.entries {
            let Some(before) = self.before.get(path) else { continue };
            let object = &self.case.snapshot.0[&**path];
            let is_always = self.case.overwrite == Overwrite::Always;
            let is_unread = matches!(object.thing, Thing::Unread) && !is_always;
            let are_directories = object.is_directory() && before.kind == FileType::Directory;
            let is_above = self.is_above_sources(path) && object.is_directory();
            let must_stay = match are_directories {
                true => self.case.overwrite == Overwrite::Never || is_above,
                false => is_unread || is_above || self.keeps(before, entry),
            };
            let after = self.ran.after.get(path);
            if must_stay && !after.is_some_and(|after| is_untouched(before, after)) {
                return Err(format!("{path} was to stay: {before:?} {after:?}"));
            }
        }
        Ok(())
    }

    pub(super) fn nothing_is_left(&self) -> Result<(), String> {
        let left = self.ran.after.keys().find(|path| path.contains(".icecore"));
        left.map_or(Ok(()), |left| Err(format!("{left} is left")))
    }

    pub(super) fn holds(&self) -> Result<(), String> {
        self.all_came()?;
        self.others_stay()?;
        self.kept_stays()?;
        self.nothing_is_left()
    }
}

/// Whether it is the same object as before; what a directory has in it gives it another time.
fn is_untouched(before: &Seen, after: &Seen) -> bool {
    match before.kind {
        FileType::Directory => Seen { time: before.time, ..after.clone() } == *before,
        _ => before == after,
    }
}
