//! Why a path is included or excluded, for `icecore explain PATH`.

use super::gitignore::{GitignoreStack, PatternVerdict};
use super::{Excludes, Rule};
use crate::walk::{self, Directory, DirectoryHandles};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// Whether a path is included, and by which rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExcludeDecision {
    /// Whether it is part of the backup.
    pub included: bool,
    /// The pattern that decided; `None` if no pattern matches, or the path is not below the root.
    pub by: Option<Rule>,
    /// The path that the pattern matched: `path` or a directory above it.
    pub matched: Vec<u8>,
}

/// Explains what the patterns do to `path` below `root` (both absolute). Size, age and file-system
/// limits are not considered. The root itself is always included.
pub fn explain(excludes: &Excludes, gitignore: bool, root: &[u8], path: &[u8]) -> ExcludeDecision {
    let inside = path
        .strip_prefix(root)
        .filter(|rest| rest.is_empty() || rest.starts_with(b"/") || root.ends_with(b"/"));
    let Some(inside) = inside else {
        return ExcludeDecision { included: false, by: None, matched: path.to_vec() };
    };
    let mut state = ExcludeDecision { included: true, by: None, matched: path.to_vec() };
    let (mut here, mut gitignores) = (root.to_vec(), None);
    for name in inside.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        if gitignore {
            gitignores = gitignore_in(&here, gitignores);
        }
        if !here.ends_with(b"/") {
            here.push(b'/');
        }
        here.extend_from_slice(name);
        let found = identity(&here);
        let is_directory = here.len() < path.len() || found.is_some();
        let by_path = decide(excludes, gitignores.as_deref(), &here, is_directory);
        let decided = found.and_then(|found| excludes.decide_found(&here, found)).or(by_path);
        if let Some((verdict, rule)) = decided {
            state = ExcludeDecision {
                included: verdict == PatternVerdict::Include,
                by: Some(rule.clone()),
                matched: here.clone(),
            };
        }
        if !state.included {
            break;
        }
    }
    state
}

/// The user's patterns first, then the `.gitignore` files.
pub(crate) fn decide<'a>(
    excludes: &'a Excludes,
    gitignores: Option<&'a GitignoreStack>,
    path: &[u8],
    is_directory: bool,
) -> Option<(PatternVerdict, &'a Rule)> {
    let own = excludes.decide(path, is_directory);
    own.or_else(|| gitignores?.decide(path, is_directory))
}

fn gitignore_in(
    directory: &[u8],
    outer: Option<Arc<GitignoreStack>>,
) -> Option<Arc<GitignoreStack>> {
    let opened = Directory::starting_at(directory, &DirectoryHandles::new());
    match walk::gitignore_in(&opened) {
        Ok(text) => Some(Arc::new(GitignoreStack::new(directory.to_vec(), &text, outer))),
        Err(_) => outer,
    }
}

/// Device and inode of a directory.
fn identity(path: &[u8]) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(Path::new(OsStr::from_bytes(path))).ok()?;
    found.is_dir().then(|| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excludes(patterns: &[&str]) -> Excludes {
        let mut builder = Excludes::builder();
        for pattern in patterns {
            builder.pattern(pattern).unwrap();
        }
        builder.build().unwrap()
    }

    #[test]
    fn patterns_mean_what_gitignore_says() {
        // patterns, path (a trailing slash marks a directory), left out?
        let table: &[(&[&str], &[u8], bool)] = &[
            (&["*.o"], b"/a/b/x.o", true),
            (&["*.o", "!keep.o"], b"/a/keep.o", false),
            (&["!keep.o", "*.o"], b"/a/keep.o", true),
            (&["/a"], b"/a/", true),
            (&["/a"], b"/b/a", false),
            (&["a/b"], b"/a/b", true),
            (&["a/b"], b"/x/a/b", false),
            (&["build/"], b"/x/build/", true),
            (&["build/"], b"/x/build", false),
            (&["**/cache"], b"/x/y/cache/", true),
            (&["/x/**/z"], b"/x/z", true),
            (&["/x/**/z"], b"/x/1/2/z", true),
            (&["/x/**"], b"/x/", false),
            (&["/x/**"], b"/x/y", true),
            (&["/x/*/z"], b"/x/1/2/z", false),
            (&["[ab]?"], b"/a1", true),
            (&["[!ab]?"], b"/a1", false),
            // A class matches no slash, and a slash in it anchors the pattern.
            (&["core[!.]*"], b"/srv/corefile", true),
            (&["core[!.]*"], b"/srv/core/main.c", false),
            (&["core[^.]*/"], b"/srv/core/main/", false),
            (&["/var/log[!s]*"], b"/var/log/syslog", false),
            (&["/var/log[!s]*"], b"/var/log1", true),
            (&["a[.-0]b"], b"/a/b", false),
            (&["a[.-0]b"], b"/x/a.b", true),
            (&["a[/]b"], b"/a/b", false),
            (&["a[/x]b"], b"/axb", true),
            (&["a[/x]b"], b"/y/axb", false),
            (&["x[!a]"], b"/x\xff", true),
            // Braces are characters.
            (&["*.{log,tmp}"], b"/x.log", false),
            (&["*.{log,tmp}"], b"/x.{log,tmp}", true),
            (&["{{cookie}}/"], b"/a/{{cookie}}/", true),
            (&["{{cookie}}/"], b"/a/cookie/", false),
            (&["a{"], b"/a{", true),
            (&["[{}]"], b"/}", true),
            // Classes have names.
            (&["log[[:digit:]]"], b"/log1", true),
            (&["log[[:digit:]]"], b"/logd]", false),
            (&["log[![:digit:]x]"], b"/logy", true),
            (&["log[![:digit:]x]"], b"/log7", false),
            (&["[[:punct:]]"], b"/-", true),
            (&["a[[:punct:]]b"], b"/a/b", false),
            (&["[\\]x]"], b"/]", true),
            (&["[a\\-c]"], b"/b", false),
            (&["#x"], b"/#x", true),
            (&["\\!x"], b"/!x", true),
            (&["x*y"], b"/x\xffy", true),
            (&["x?y"], b"/x\xffy", true),
            (&["*"], b"/\xff\xfe\n", true),
            (&["\u{e9}"], "/\u{e9}".as_bytes(), true),
        ];
        for (patterns, path, skipped) in table {
            let rules = excludes(patterns);
            let name = path.strip_suffix(b"/").unwrap_or(path);
            let verdict = decide(&rules, None, name, path.ends_with(b"/")).map(|found| found.0);
            let found = verdict == Some(PatternVerdict::Exclude);
            assert_eq!(found, *skipped, "{patterns:?} {:?}", String::from_utf8_lossy(path));
        }
    }

    #[test]
    fn what_lies_in_an_excluded_directory_cannot_be_brought_back() {
        let rules = excludes(&["/a/b/", "!/a/b/c"]);
        let decision = explain(&rules, false, b"/", b"/a/b/c");
        assert!(!decision.included);
        assert_eq!(decision.matched, b"/a/b");
        assert_eq!(decision.by.unwrap().pattern, "/a/b/");
    }

    #[test]
    fn explain_names_file_and_line_and_the_innermost_gitignore_wins() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("in")).unwrap();
        std::fs::write(folder.path().join(".gitignore"), "# all\n\n*.log\r\n[\n").unwrap();
        std::fs::write(folder.path().join("in/.gitignore"), "!good.log\n").unwrap();
        let root = folder.path().as_os_str().as_bytes();
        let at = |name: &str| [root, b"/", name.as_bytes()].concat();
        let bad = explain(&Excludes::none(), true, root, &at("in/bad.log"));
        let rule = bad.by.clone().unwrap();
        assert!(!bad.included);
        assert_eq!((rule.pattern.as_str(), rule.line), ("*.log", 3));
        assert!(rule.file.unwrap().ends_with(".gitignore"));
        assert!(explain(&Excludes::none(), true, root, &at("in/good.log")).included);
        assert!(explain(&Excludes::none(), false, root, &at("in/bad.log")).included);
        assert!(!explain(&excludes(&["*.log"]), true, root, &at("in/good.log")).included);
        assert!(!explain(&Excludes::none(), true, root, b"/elsewhere").included);
    }

    /// Seen: it waited for a writer for ever, and obeyed a file that no walk reads.
    #[test]
    fn explain_reads_no_gitignore_that_the_walk_does_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().as_os_str().as_bytes();
        let log = [root, b"/x.log"].concat();
        let file = folder.path().join(".gitignore");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &file,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(explain(&Excludes::none(), true, root, &log).included);
        std::fs::remove_file(&file).unwrap();
        std::fs::write(folder.path().join("other"), "*.log\n").unwrap();
        std::os::unix::fs::symlink("other", &file).unwrap();
        assert!(explain(&Excludes::none(), true, root, &log).included);
        std::fs::rename(folder.path().join("other"), &file).unwrap();
        assert!(!explain(&Excludes::none(), true, root, &log).included);
    }

    /// Seen: `--exclude-from /dev/zero` took all memory.
    #[test]
    fn a_file_of_patterns_that_has_no_end_is_refused() {
        let mut builder = Excludes::builder();
        let error = builder.file(Path::new("/dev/zero")).map(drop).unwrap_err().to_string();
        assert!(error.contains("/dev/zero") && error.contains("64 MiB"), "{error}");
    }

    #[test]
    fn patterns_of_a_file_are_read_with_comments_and_bad_ones_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("patterns");
        std::fs::write(&file, "\u{feff}# comment\n*.tmp\n\n!a.tmp\n").unwrap();
        let mut builder = Excludes::builder();
        builder.file(&file).unwrap();
        let rules = builder.build().unwrap();
        assert_eq!(explain(&rules, false, b"/", b"/b.tmp").by.unwrap().line, 2);
        assert!(explain(&rules, false, b"/", b"/a.tmp").included);
        std::fs::write(&file, "ok\n[a\n").unwrap();
        let error = Excludes::builder().file(&file).unwrap_err().to_string();
        assert!(error.contains(":2)"), "{error}");
        assert!(Excludes::builder().file(Path::new("/nonexistent")).is_err());
    }
}
