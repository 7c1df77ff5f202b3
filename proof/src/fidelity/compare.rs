//! Two looks compared: what differs, and whether somebody said so.

use super::look::escape;
use crate::client::Ran;
use std::collections::{BTreeMap, HashMap};

/// Attributes that no backup of Icecore holds (`docs/TESTING.md`, fault 34).
const NOT_KEPT: [&str; 2] = ["nocow", "noatime"];
/// What the blocks of a restored file may take more than those of its source: other file systems
/// cut elsewhere. A hole that is lost takes more than that.
const ALLOCATED_MORE: u64 = 512 << 10;

/// The objects of a tree: all fields of each by path.
pub(crate) type Seen = BTreeMap<String, String>;

/// What was reported, by path as a look shows it.
#[derive(Debug, Default)]
pub(crate) struct Reported(HashMap<String, Vec<String>>);

/// What came of one cell of the matrix.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) objects: u64,
    pub(crate) reported: u64,
    pub(crate) not_kept: u64,
    pub(crate) lost: u64,
}

struct Difference {
    path: String,
    key: String,
    was: String,
    is: String,
}

pub(crate) fn parse(look: &str) -> Seen {
    let split = |line: &str| line.split_once('\t').map(|(path, rest)| (path.into(), rest.into()));
    look.lines().filter_map(split).collect()
}

/// What a restore says once of all owners that it could not set, in a note.
const OWNERS: &str = "owners not restored: ";
/// The same of times that the file system keeps less exactly, at an end of its range too.
const TIMES: &str = "times of change that differ by less than a second: ";

impl Reported {
    /// Adds what a command reported of the objects below one of these places.
    pub(crate) fn add(&mut self, ran: &Ran, places: &[&str]) {
        for line in ran.lines().iter().filter(|line| line["message_type"] == "problem") {
            let path = match line["path_base64"].as_str() {
                Some(text) => from_base64(text),
                None => line["path"].as_str().unwrap_or_default().as_bytes().to_vec(),
            };
            let path = escape(&path);
            let below = places.iter().find_map(|place| path.strip_prefix(place));
            let path = below.unwrap_or(&path).trim_start_matches('/').to_owned();
            let reason = line["reason"].as_str().unwrap_or_default().to_owned();
            self.0.entry(path).or_default().push(reason);
        }
        for line in ran.lines().iter().filter(|line| line["message_type"] == "note") {
            let text = line["message"].as_str().unwrap_or_default();
            if text.starts_with(OWNERS) || text.starts_with(TIMES) {
                self.0.entry(String::new()).or_default().push(text.to_owned());
            }
        }
    }

    /// Takes over what the backup reported.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (path, reasons) in &other.0 {
            self.0.entry(path.clone()).or_default().extend(reasons.iter().cloned());
        }
    }

    /// Whether somebody said so. `user` restored; what belonged to others (`is_foreign`) is told once.
    fn covers(&self, difference: &Difference, user: u32, is_foreign: bool) -> bool {
        let said = |path: &str, key: &str| {
            let reasons = self.0.get(path).map(Vec::as_slice).unwrap_or_default();
            reasons.iter().any(|reason| speaks_of(reason, key))
        };
        // Owners are told once, with what hangs on them: setuid for another owner is a right that
        // nobody granted. Root can give everything away, and whoever restores may only have become
        // the owner: anything else is a loss whatever was said elsewhere.
        let anywhere = |word: &str| self.0.values().flatten().any(|text| text.contains(word));
        let by_owner = match difference.key.as_str() {
            "uid" | "gid" => difference.is == user.to_string(),
            "mode" => is_foreign && is_without_set_id(&difference.was, &difference.is),
            _ => false,
        };
        let by_owner = by_owner && user != 0;
        said(&difference.path, &difference.key)
            || (by_owner && anywhere(OWNERS))
            || (difference.key == "mtime" && is_same_second(difference) && anywhere(TIMES))
            || (difference.key == "missing" && parents(&difference.path).any(|path| said(path, "")))
    }
}

/// Whether a report speaks of this attribute: of all, when the object is not there or not whole.
fn speaks_of(reason: &str, key: &str) -> bool {
    let Some((before, _)) = reason.split_once(" not restored") else { return true };
    let words = match key.split(' ').next().unwrap_or_default() {
        "uid" | "gid" => "owner",
        "mode" => "mode",
        "mtime" => "time of change",
        "flags" => "inode flags",
        "xattr" => "attribute",
        "group" => "Link",
        _ => return false,
    };
    before.contains(words)
}

fn is_same_second(difference: &Difference) -> bool {
    let second = |time: &str| time.split('.').next().map(str::to_owned);
    second(&difference.was) == second(&difference.is)
}

fn is_without_set_id(was: &str, is: &str) -> bool {
    let parse = |text: &str| u32::from_str_radix(text, 8).ok();
    parse(was).map(|mode| mode & 0o1777) == parse(is).map(|mode| mode & 0o1777)
}

fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

/// Whether an object with these fields belongs to somebody else.
fn is_foreign(fields: &str, user: u32) -> bool {
    let of = |key: &str| fields.split('\t').find_map(|field| field.strip_prefix(key));
    [of("uid="), of("gid=")].into_iter().flatten().any(|owner| owner != user.to_string())
}

/// Compares what `user` restored; the first few losses in words.
pub(crate) fn compare(
    was: &Seen,
    is: &Seen,
    reported: &Reported,
    user: u32,
) -> (Tally, Vec<String>) {
    let mut tally = Tally { objects: was.len() as u64, ..Tally::default() };
    let mut losses = Vec::new();
    for difference in differences(was, is) {
        let is_foreign = was.get(&difference.path).is_some_and(|fields| is_foreign(fields, user));
        let Difference { path, key, was, is } = &difference;
        if NOT_KEPT.contains(&key.as_str()) {
            tally.not_kept += 1;
        } else if reported.covers(&difference, user, is_foreign) {
            tally.reported += 1;
        } else {
            tally.lost += 1;
            let path = path.get(..200).unwrap_or(path);
            losses.push(format!("{path}: {key} was {was}, is {is}"));
        }
    }
    losses.truncate(12);
    (tally, losses)
}

fn differences(was: &Seen, is: &Seen) -> Vec<Difference> {
    let mut found = Vec::new();
    let whole = |path: &String, key: &str| Difference {
        path: path.clone(),
        key: key.to_owned(),
        was: String::new(),
        is: String::new(),
    };
    for (path, fields) in was {
        match is.get(path) {
            None => found.push(whole(path, "missing")),
            Some(others) if others != fields => in_fields(path, fields, others, &mut found),
            Some(_) => {}
        }
    }
    found.extend(is.keys().filter(|path| !was.contains_key(*path)).map(|path| whole(path, "new")));
    found
}

fn in_fields(path: &str, was: &str, is: &str, found: &mut Vec<Difference>) {
    fn split(fields: &str) -> BTreeMap<&str, &str> {
        fields.split('\t').filter_map(|field| field.split_once('=')).collect()
    }
    let (was, is) = (split(was), split(is));
    let keys: std::collections::BTreeSet<_> = was.keys().chain(is.keys()).collect();
    for key in keys {
        // A file system without flags shows none: that is none set.
        let none = if matches!(*key, "flags") { "0" } else { "" };
        let get = |side: &BTreeMap<&str, &str>| side.get(key).copied().unwrap_or(none).to_owned();
        let (was, is) = (get(&was), get(&is));
        let equal = match *key {
            "allocated" => is_no_more(&was, &is),
            "nocow" | "noatime" => was != "true" || is == "true",
            _ => was == is,
        };
        if !equal {
            found.push(Difference { path: path.into(), key: (*key).into(), was, is });
        }
    }
}

fn is_no_more(was: &str, is: &str) -> bool {
    let bytes = |text: &str| text.parse::<u64>().unwrap_or_default();
    bytes(is) <= bytes(was) + bytes(was) / 4 + ALLOCATED_MORE
}

fn from_base64(text: &str) -> Vec<u8> {
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for letter in text.chars().map_while(|letter| LETTERS.find(letter)) {
        bits = bits << 6 | letter as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(was: &str, is: &str, reports: &[(&str, &str)]) -> (u64, u64) {
        tally_as(0, was, is, reports)
    }

    fn tally_as(user: u32, was: &str, is: &str, reports: &[(&str, &str)]) -> (u64, u64) {
        let mut reported = Reported::default();
        for (path, text) in reports {
            reported.0.entry((*path).into()).or_default().push((*text).into());
        }
        let (tally, _) = compare(&parse(was), &parse(is), &reported, user);
        (tally.reported, tally.lost)
    }

    #[test]
    fn a_difference_that_nobody_reported_is_a_loss() {
        let (was, is) = ("a\tmode=644\tmtime=1.5", "a\tmode=644\tmtime=1.0");
        assert_eq!(tally(was, was, &[]), (0, 0));
        assert_eq!(tally(was, is, &[]), (0, 1));
        assert_eq!(tally(was, is, &[("a", "time of change not restored: no")]), (1, 0));
        assert_eq!(tally(was, is, &[("a", "mode not restored: no")]), (0, 1));
        assert_eq!(tally(was, is, &[("b", "time of change not restored: no")]), (0, 1));
        assert_eq!(tally(was, "", &[]), (0, 1));
        assert_eq!(tally("", was, &[]), (0, 1));
    }

    #[test]
    fn a_word_on_owners_excuses_only_what_a_plain_user_cannot_do() {
        let said = [("", "owners not restored: 2, the first of a")];
        let (was, is) = ("a\tuid=5\tgid=7\tmode=4755", "a\tuid=7\tgid=7\tmode=755");
        assert_eq!(tally_as(7, was, is, &said), (2, 0));
        assert_eq!(tally_as(0, was, is, &said), (0, 2), "root can do all");
        let other = "a\tuid=9\tgid=7\tmode=4755";
        assert_eq!(tally_as(7, was, other, &said), (0, 1), "it went to a third");
        let own = ("a\tuid=7\tgid=7\tmode=4755", "a\tuid=7\tgid=7\tmode=755");
        assert_eq!(tally_as(7, own.0, own.1, &said), (0, 1), "setuid of one's own stays");
        assert_eq!(tally_as(7, was, is, &[]), (0, 2));
    }

    #[test]
    fn a_word_on_times_excuses_less_than_a_second() {
        let said = [("", "times of change that differ by less than a second: 2, the first of a")];
        assert_eq!(tally("a\tmtime=-5.9", "a\tmtime=-5.0", &said), (1, 0));
        assert_eq!(tally("a\tmtime=-5.9", "a\tmtime=-5.0", &[]), (0, 1));
        assert_eq!(tally("a\tmtime=5.9", "a\tmtime=6.0", &said), (0, 1));
    }

    #[test]
    fn base64_comes_back() {
        assert_eq!(from_base64("Zm9vYg=="), b"foob");
        assert_eq!(from_base64("L2H/"), b"/a\xff");
    }
}
