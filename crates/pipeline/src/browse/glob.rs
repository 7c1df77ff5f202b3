//! Patterns for searching: `*`, `?`, `[a-z]`, and `**` across directories. They match bytes, not
//! characters, so that every name can be matched.

/// A pattern: without a slash it matches names, with one it matches whole paths.
#[derive(Clone, Debug)]
pub struct Glob {
    pattern: Vec<u8>,
    of_paths: bool,
    ignore_case: bool,
}

impl Glob {
    /// Parses a pattern.
    pub fn new(pattern: &[u8], ignore_case: bool) -> Self {
        let of_paths = pattern.contains(&b'/');
        let mut pattern = pattern.strip_prefix(b"/").unwrap_or(pattern).to_vec();
        if ignore_case {
            pattern.make_ascii_lowercase();
        }
        Self { pattern, of_paths, ignore_case }
    }

    /// Whether the pattern matches `path`.
    pub fn matches(&self, path: &[u8]) -> bool {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let text = if self.of_paths { path } else { name };
        if self.ignore_case { self.of_text(&text.to_ascii_lowercase()) } else { self.of_text(text) }
    }

    fn of_text(&self, text: &[u8]) -> bool {
        if self.of_paths {
            matches_path(&self.pattern, text)
        } else {
            matches_name(&self.pattern, text)
        }
    }
}

/// Whether `pattern` matches `path`, name by name; `**` matches any number of names. Backtracks
/// only to the last `**`, so the time is at most proportional to pattern times path.
fn matches_path(pattern: &[u8], path: &[u8]) -> bool {
    let slash = |byte: &u8| *byte == b'/';
    let (pattern, names): (Vec<_>, Vec<_>) =
        (pattern.split(slash).collect(), path.split(slash).collect());
    let (mut at, mut name) = (0, 0);
    let mut last: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(at), names.get(name)) {
            (None, None) => return true,
            (Some(&b"**"), next) => {
                // At the end it matches what is in the directory, not the directory itself.
                if at + 1 == pattern.len() {
                    return next.is_some();
                }
                at += 1;
                last = Some((at, name));
                continue;
            }
            (Some(wanted), Some(found)) if matches_name(wanted, found) => {
                (at, name) = (at + 1, name + 1);
                continue;
            }
            _ => {}
        }
        let Some((after, tried)) = last.filter(|(_, tried)| *tried < names.len()) else {
            return false;
        };
        (at, name) = (after, tried + 1);
        last = Some((at, name));
    }
}

/// The same within a name, with `*`.
fn matches_name(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut of_name) = (0, 0);
    let mut last: Option<(usize, usize)> = None;
    loop {
        let rest = pattern.get(at..).unwrap_or_default();
        match (rest.first(), name.get(of_name)) {
            (None, None) => return true,
            (Some(b'*'), _) => {
                at += 1;
                last = Some((at, of_name));
                continue;
            }
            (Some(_), Some(byte)) => {
                if let Some(taken) = one(rest, *byte) {
                    (at, of_name) = (at + taken, of_name + 1);
                    continue;
                }
            }
            _ => {}
        }
        let Some((after, tried)) = last.filter(|(_, tried)| *tried < name.len()) else {
            return false;
        };
        (at, of_name) = (after, tried + 1);
        last = Some((at, of_name));
    }
}

/// How many bytes of the pattern match `byte`, if they do.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => (byte != b'/').then_some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => match class(rest, byte) {
            Some((taken, is_in)) => (is_in && byte != b'/').then_some(taken + 1),
            None => (byte == b'[').then_some(1), // not closed: a literal bracket
        },
        [plain, ..] => (*plain == byte).then_some(1),
        [] => None,
    }
}

/// The length of a class after its `[`, and whether `byte` is in it.
fn class(text: &[u8], byte: u8) -> Option<(usize, bool)> {
    let negated = matches!(text.first(), Some(b'!' | b'^'));
    let (mut at, mut is_in) = (usize::from(negated), false);
    let first = at;
    loop {
        match text.get(at..)? {
            [b']', ..] if at > first => return Some((at + 1, is_in != negated)),
            [low, b'-', high, ..] if *high != b']' => {
                is_in |= (*low..=*high).contains(&byte);
                at += 3;
            }
            [single, ..] => {
                is_in |= *single == byte;
                at += 1;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_shells_mean() {
        let table: &[(&[u8], &[u8], bool)] = &[
            (b"*.rs", b"src/main.rs", true),
            (b"*.rs", b"src/main.rss", false),
            (b"main", b"src/main", true),
            (b"main", b"main/src", false),
            (b"m??n", b"a/main", true),
            (b"[a-m]ain", b"a/main", true),
            (b"[!a-m]ain", b"a/main", false),
            (b"[]]", b"]", true),
            (b"[x", b"[x", true),
            (b"\\*", b"*", true),
            (b"\\*", b"x", false),
            (b"/etc/*", b"etc/hosts", true),
            (b"/etc/*", b"etc/ssl/x", false),
            (b"/etc/**", b"etc/ssl/x", true),
            (b"/**/x", b"x", true),
            (b"/**/x", b"a/b/x", true),
            (b"/**/x", b"abx", false),
            (b"/etc/**", b"etc", false),
            (b"/etc/**", b"etcetera/x", false),
            (b"/a/**/x", b"a/x", true),
            (b"/a/**/b/*", b"a/1/b/2/b/3", true),
            (b"/a/**/b/*", b"a/1/b/2/3", false),
            (b"*\xff*", b"a\xffb", true),
            (b"*", b"a/\n", true),
            (b"a*b*c", b"aXbYbZc", true),
        ];
        for (pattern, path, expected) in table {
            assert_eq!(
                Glob::new(pattern, false).matches(path),
                *expected,
                "{} {}",
                pattern.escape_ascii(),
                path.escape_ascii()
            );
        }
    }

    #[test]
    fn case_can_be_ignored() {
        assert!(Glob::new(b"*.JPG", true).matches(b"a/B.jpg"));
        assert!(!Glob::new(b"*.JPG", false).matches(b"a/B.jpg"));
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let pattern = b"*a".repeat(50);
        assert!(!Glob::new(&pattern, false).matches(&b"a".repeat(49)));
        assert!(!Glob::new(&b"**/a*".repeat(30), false).matches(&b"a/".repeat(2000)));
    }
}
