//! Named paths that are symbolic links.

use super::Choice;
use crate::context::Context;
use crate::escape;
use capture::excludes;
use capture::walk::SourceRoot;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Whether it is written so that a link means what is behind it.
pub(super) fn is_followed(typed: &OsStr) -> bool {
    matches!(typed.as_bytes(), [.., b'/'] | [.., b'/', b'.'])
}

/// A link that is written with a slash at its end means the directory behind it, as everywhere else. The snapshot has
/// that under the name of the link. (Where somebody else chose the path, no link is followed.) Where nothing is behind
/// it, it stays as it was written, and is missed as any other path that is not there.
pub(super) fn behind(path: Vec<u8>, shown_as: Option<Vec<u8>>) -> SourceRoot {
    let link = as_path(&path);
    if !link.is_symlink() {
        return SourceRoot { source: path, shown_as };
    }
    match link.canonicalize() {
        Ok(real) => {
            let source = real.into_os_string().into_vec();
            SourceRoot { source, shown_as: shown_as.or(Some(path)) }
        }
        Err(_) => SourceRoot { source: [path.as_slice(), b"/"].concat(), shown_as },
    }
}

/// Sources in each other, of which one was named through a link: the snapshot has room for one thing in one place. What
/// gets another place may have a third one in it then.
pub(super) fn placed(mut roots: Vec<SourceRoot>) -> Vec<SourceRoot> {
    for _ in 0..=roots.len() {
        let places: HashMap<_, _> = roots.iter().map(|it| (as_path(shown(it)), it)).collect();
        let see = |root| through_link(root, &places).unwrap_or_else(|| root.clone());
        let seen: Vec<_> = roots.iter().map(see).collect();
        if seen.iter().all(|root| root.shown_as.is_none()) {
            break;
        }
        let placed: Vec<_> = seen.iter().map(|root| place(root, &seen)).collect();
        if placed == roots {
            break;
        }
        roots = placed;
    }
    roots
}

/// A path below another source that leads through a link there: the snapshot has the link, so nothing is below it.
fn through_link(root: &SourceRoot, places: &HashMap<&Path, &SourceRoot>) -> Option<SourceRoot> {
    let path = as_path(&root.source);
    let above = path.ancestors().skip(1).filter_map(|place| Some((place, places.get(place)?)));
    let above: Vec<_> = above.collect();
    if root.shown_as.is_some() || above.is_empty() {
        return None;
    }
    let real = unlinked(root)?;
    let leads_elsewhere = |(place, other): &(&Path, &&SourceRoot)| {
        let below = path.strip_prefix(place).unwrap_or(path);
        unlinked(other).is_none_or(|other| other.join(below) != real)
    };
    let (source, shown_as) = (bytes(real.clone()), Some(root.source.clone()));
    above.iter().any(leads_elsewhere).then_some(SourceRoot { source, shown_as })
}

/// Where a source is without the links above it; a link that is one itself stays.
fn unlinked(root: &SourceRoot) -> Option<PathBuf> {
    let path = as_path(&root.source);
    let Some((above, name)) = path.parent().zip(path.file_name()) else { return Some(path.into()) };
    Some(above.canonicalize().ok()?.join(name))
}

fn place(root: &SourceRoot, all: &[SourceRoot]) -> SourceRoot {
    let shown = as_path(shown(root));
    let holds_it = |other: &&SourceRoot| {
        let place = as_path(self::shown(other));
        // A link that is itself a source has its place.
        *other != root && shown.starts_with(place) && (shown != place || root.shown_as.is_some())
    };
    // The outermost one, whose content the snapshot has in any case.
    let outer = all.iter().filter(holds_it).min_by_key(|other| self::shown(other).len());
    let Some(outer) = outer else { return root.clone() };
    let (source, outer_shown) = (as_path(&root.source), as_path(self::shown(outer)));
    match (&root.shown_as, &outer.shown_as) {
        // The link itself is in the snapshot, so what is behind it goes where it is.
        (Some(_), _) => match source.strip_prefix(as_path(&outer.source)) {
            Ok(below) => mapped(&root.source, &outer_shown.join(below)),
            Err(_) => SourceRoot::at(&root.source),
        },
        // What was named through a link is in what is behind that link.
        (None, Some(_)) => {
            let below = shown.strip_prefix(outer_shown).unwrap_or(shown);
            mapped(&bytes(as_path(&outer.source).join(below)), shown)
        }
        (None, None) => root.clone(),
    }
}

fn mapped(source: &[u8], shown: &Path) -> SourceRoot {
    let shown = bytes(shown.components().collect());
    SourceRoot { source: source.to_vec(), shown_as: (shown != source).then_some(shown) }
}

/// Patterns of the command line that begin with a named link: the walk knows only the path behind it. Each of `links` is
/// a path as it was named, and what is walked for it.
pub(super) fn seen_through(choice: &Choice, links: &[Link]) -> Choice {
    let mut choice = choice.clone();
    if !links.is_empty() {
        choice.excludes.iter_mut().for_each(|it| *it = behind_links(it, links, false));
        choice.excludes_of_any_case.iter_mut().for_each(|it| *it = behind_links(it, links, true));
    }
    choice
}

/// What a pattern of --only takes: what it says, and what is behind the named link that it is or begins with.
pub(super) fn taken(pattern: &str, links: &[Link]) -> Vec<String> {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let full = excludes::anchored(pattern, &here);
    let behind = behind_links(pattern, links, false);
    let literal = |path: &[u8]| excludes::literal(&String::from_utf8_lossy(path));
    let is_it = |(named, _): &&Link| literal(named) == full.trim_end_matches('/');
    let itself = links.iter().find(is_it).map(|(_, walked)| literal(walked));
    let mut all: Vec<_> = [full, behind].into_iter().chain(itself).collect();
    all.dedup();
    all
}

/// A pattern as the walk knows it. Of links in each other the longest one that it begins with leads furthest.
pub(super) fn behind_links(pattern: &str, links: &[Link], of_any_case: bool) -> String {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let full = excludes::anchored(pattern, &here);
    let mut by_length: Vec<_> = links.iter().collect();
    by_length.sort_by_key(|(named, _)| std::cmp::Reverse(named.len()));
    by_length.into_iter().find_map(|it| behind_link(&full, it, of_any_case)).unwrap_or(full)
}

/// The path of a source as it was named, and the one that is walked.
pub(super) type Link = (Vec<u8>, Vec<u8>);

fn behind_link(pattern: &str, (link, real): &Link, of_any_case: bool) -> Option<String> {
    let literal = |path: &[u8]| excludes::literal(&String::from_utf8_lossy(path));
    let (sign, path) = match pattern.strip_prefix('!') {
        Some(path) => ("!", path),
        None => ("", pattern),
    };
    let link = literal(link);
    let is_it =
        |begin: &str| begin == link || of_any_case && begin.to_lowercase() == link.to_lowercase();
    let (begin, below) = path.split_at_checked(link.len())?;
    let below = below.strip_prefix('/').filter(|_| is_it(begin))?;
    Some(format!("{sign}{}/{below}", literal(real).trim_end_matches('/')))
}

/// Links among the named paths: what is behind them is not backed up, which is seldom meant.
pub(super) fn tell(context: &Context, roots: &[SourceRoot]) {
    for root in roots {
        let path = as_path(&root.source);
        if path.is_symlink() && path.is_dir() {
            let shown = escape::escape(&root.source);
            context.out.note(&format!("{shown} is a symbolic link to a directory, and only the link is backed up. To back up what is behind it: icecore backup {shown}/"));
        }
    }
}

/// Where the snapshot has a source.
pub(super) fn shown(root: &SourceRoot) -> &[u8] {
    root.shown_as.as_ref().unwrap_or(&root.source)
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn bytes(path: PathBuf) -> Vec<u8> {
    OsString::from(path).into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behind(source: &str, link: &str) -> SourceRoot {
        SourceRoot { source: source.into(), shown_as: Some(link.into()) }
    }

    #[test]
    fn sources_in_each_other_have_one_place_each() {
        let at = |path: &str| SourceRoot::at(path.as_bytes());
        let cases = [
            // What is behind the link is in the other source already, or elsewhere.
            ([at("/s"), behind("/s/real", "/s/link")], [at("/s"), at("/s/real")]),
            ([at("/s"), behind("/real", "/s/link")], [at("/s"), at("/real")]),
            ([at("/s/link"), behind("/s/real", "/s/link")], [at("/s/link"), at("/s/real")]),
            ([at("/"), behind("/s/real", "/s/link")], [at("/"), at("/s/real")]),
            // A source in what is behind a link.
            ([behind("/r", "/l"), at("/l/sub")], [behind("/r", "/l"), behind("/r/sub", "/l/sub")]),
            (
                [behind("/r", "/l"), behind("/r/real", "/l/link")],
                [behind("/r", "/l"), behind("/r/real", "/l/real")],
            ),
            // Beside each other.
            ([at("/s"), behind("/s/real", "/link")], [at("/s"), behind("/s/real", "/link")]),
            ([at("/s"), at("/s/real")], [at("/s"), at("/s/real")]),
        ];
        for ([one, two], expected) in cases {
            assert_eq!(placed(vec![one.clone(), two.clone()]), expected, "{one:?} {two:?}");
            let turned: Vec<_> = expected.into_iter().rev().collect();
            assert_eq!(placed(vec![two.clone(), one.clone()]), turned, "{two:?} {one:?}");
        }
    }

    #[test]
    fn of_links_in_each_other_the_longest_counts() {
        let link = |named: &[u8], walked: &[u8]| (named.to_vec(), walked.to_vec());
        let links = [link(b"/s", b"/r"), link(b"/s/deep", b"/q")];
        for links in [&links[..], &[links[1].clone(), links[0].clone()]] {
            assert_eq!(behind_links("/s/deep/x", links, false), "/q/x");
            assert_eq!(behind_links("/s/x", links, false), "/r/x");
        }
    }

    #[test]
    fn a_pattern_that_begins_with_a_link_means_what_is_behind_it() {
        let (link, real) = (b"/s/li[nk".to_vec(), b"/r*".to_vec());
        let both = (link, real);
        let seen = |pattern: &str| behind_link(pattern, &both, false);
        assert_eq!(behind_link(r"/S/LI\[NK/sub", &both, true).as_deref(), Some(r"/r\*/sub"));
        assert_eq!(behind_link(r"/S/LI\[NK/sub", &both, false), None);
        assert_eq!(seen(r"/s/li\[nk/sub/*.o").as_deref(), Some(r"/r\*/sub/*.o"));
        assert_eq!(seen(r"!/s/li\[nk/sub").as_deref(), Some(r"!/r\*/sub"));
        for other in ["sub", "/s", r"/s/li\[nk", r"/s/li\[nk2/sub"] {
            assert_eq!(seen(other), None, "{other}");
        }
    }
}
