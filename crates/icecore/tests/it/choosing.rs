//! Naming the repository, and what goes into a backup.

use crate::machine::{Machine, Ran, ended};
use std::process::Command;

impl Machine {
    /// Names of the files in the newest snapshot, relative to the source.
    fn newest(&self) -> Vec<String> {
        let lines = self.run(["ls", "-R", "--json", &self.stored("latest", "")]).ends(0).lines();
        let paths = lines.iter().filter_map(|line| line["path"].as_str().map(str::to_owned));
        let start = format!("{}/", self.source().display());
        let start = start.trim_start_matches('/');
        paths
            .filter_map(|path| path.trim_start_matches('/').strip_prefix(start).map(str::to_owned))
            .collect()
    }

    /// Backs up what the words say, in the folder that has the source.
    fn backs_up(&self, words: &[&str]) -> Ran {
        let mut command = self.command(["backup", "--json"].iter().chain(words));
        ended(command.current_dir(self.path("")))
    }
}

#[test]
fn a_domain_beside_a_repository_is_refused() {
    let machine = Machine::new();
    machine.backup();
    for words in [&["snapshots"][..], &["restore", "latest", "--target", "/nowhere"], &["init"]] {
        let ran = machine.run(words.iter().chain(&["--domain", "web"])).ends(2);
        assert!(ran.stderr.contains("--domain web"), "{}", ran.stderr);
    }
}

#[test]
fn an_address_is_no_directory() {
    let machine = Machine::bare();
    for location in ["s3:foo/bar", "sftp:host:/x", "https://host/x"] {
        for command in ["init", "snapshots"] {
            let mut command = machine.command([command, "--repo", location]);
            let ran = ended(command.current_dir(machine.path("home"))).ends(2);
            assert!(ran.stderr.contains("not supported yet"), "{}", ran.stderr);
        }
    }
    assert_eq!(std::fs::read_dir(machine.path("home")).unwrap().count(), 0);
    let mut command = machine.command(["init", "--repo", "./s3:foo"]);
    ended(command.current_dir(machine.path("home"))).ends(0);
}

/// Seen: a named link was left out without a word, since --only knew what is behind it by another name.
#[test]
fn only_means_what_is_behind_a_link_that_was_named() {
    let machine = Machine::new();
    machine.write("part/x", b"x");
    let (link, other) = (machine.path("link"), machine.path("other"));
    std::os::unix::fs::symlink(machine.source(), &link).unwrap();
    std::fs::create_dir(&other).unwrap();
    let (link, other) = (link.to_str().unwrap(), other.to_str().unwrap());
    let (slash, only) = (format!("{link}/"), format!("{link}/part"));
    let ran = machine.run(["backup", &slash, other, "--only", &only]).ends(0);
    let told = format!("--only takes nothing of it: {other}");
    assert!(ran.stderr.contains(&told), "{ran:?}");
    let listed = machine.run(["ls", "-R", &format!("latest:{link}")]).ends(0).text();
    assert!(listed.contains("part/x") && !listed.contains("hello.txt"), "{listed}");
    // The link itself is all that is behind it.
    machine.run(["backup", &slash, other, "--only", link, "--only", other]).ends(0);
    let listed = machine.run(["ls", "-R", &format!("latest:{link}")]).ends(0).text();
    assert!(listed.contains("hello.txt"), "{listed}");
}

/// Refused before with "no PATH has anything that --only takes", although it takes nearly everything.
#[test]
fn only_with_nothing_but_exceptions_takes_all_else() {
    let machine = Machine::new();
    machine.write("part/deep/x", b"x");
    machine.write("part/x.tmp", b"x");
    let source = machine.source();
    let source = source.to_str().unwrap();
    let listed = |patterns: &[&str]| {
        machine.run([&["backup", source], patterns].concat()).ends(0);
        machine.run(["ls", "-R", &format!("latest:{source}")]).ends(0).text()
    };
    let text = listed(&["--only", "!*.tmp", "--only", "!deep/"]);
    assert!(text.contains("hello.txt") && text.contains("part"), "{text}");
    assert!(!text.contains("x.tmp") && !text.contains("deep"), "{text}");
    // One that takes says what is taken, as before.
    let text = listed(&["--only", "part/", "--only", "!*.tmp"]);
    assert!(text.contains("deep/x") && !text.contains("hello.txt"), "{text}");
    assert!(!text.contains("x.tmp"), "{text}");
}

/// Seen: `backup /srv/data/` stored a link and no file, and said nothing of it.
#[test]
fn a_link_with_a_slash_at_its_end_is_the_directory_behind_it() {
    let machine = Machine::new();
    let link = machine.path("link");
    std::os::unix::fs::symlink(machine.source(), &link).unwrap();
    let link = link.to_str().unwrap();
    let alone = machine.run(["backup", link]).ends(0);
    let advice = format!("icecore backup {link}/");
    assert!(alone.stderr.contains("only the link") && alone.stderr.contains(&advice), "{alone:?}");
    let listed = |path: &str| {
        let snapshot = format!("latest:{path}");
        machine.run(["ls", "-R", &snapshot]).text()
    };
    assert!(!listed(link).contains("hello.txt"));
    for slash in ["/", "/."] {
        let ran = machine.run(["backup", &format!("{link}{slash}")]).ends(0);
        assert!(!ran.stderr.contains("only the link"), "{ran:?}");
        assert!(listed(link).contains("hello.txt"), "{}", listed(link));
        let target = machine.path("target");
        let from = format!("latest:{link}");
        machine.run(["restore", &from, "--target", target.to_str().unwrap()]).ends(0);
        assert_eq!(std::fs::read_to_string(target.join("hello.txt")).unwrap(), "hello");
        std::fs::remove_dir_all(target).unwrap();
    }
    // The snapshots of both ways of writing it are of one source.
    let again = machine.run(["backup", &format!("{link}/")]).ends(0).text();
    assert!(again.contains(" unchanged") && !again.contains(" new"), "{again}");
    std::fs::remove_dir_all(machine.source()).unwrap();
    assert_ne!(machine.run(["backup", &format!("{link}/")]).code, 0);
}

#[test]
fn what_is_marked_nodump_is_explained_as_it_is_backed_up() {
    let machine = Machine::new();
    machine.write("marked/deep/file", b"x");
    let marked = machine.source().join("marked");
    let chattr = ended(Command::new("chattr").arg("+d").arg(&marked));
    assert_eq!(chattr.code, 0, "this test needs a file system with chattr +d: {}", chattr.stderr);
    let explain = |name: &str, more: &[&str]| {
        let (path, root) = (machine.source().join(name), machine.source());
        let words = ["explain", path.to_str().unwrap(), "--root", root.to_str().unwrap()];
        machine.run(words.iter().chain(more)).ends(0).text()
    };
    assert!(explain("marked", &[]).starts_with("in: "));
    for name in ["marked", "marked/deep/file"] {
        let text = explain(name, &["--nodump"]);
        assert!(text.starts_with("out: ") && text.contains("chattr +d"), "{text}");
    }
    assert!(explain("hello.txt", &["--nodump"]).starts_with("in: "));
    machine.backs_up(&["source", "--nodump"]).ends(0);
    assert_eq!(machine.newest(), ["folder", "folder/large", "hello.txt"]);
}

#[test]
fn a_tag_file_keeps_the_rest_of_its_directory_out() {
    let machine = Machine::new();
    machine.write("scratch/.nobackup", b"");
    machine.write("scratch/big", b"x");
    machine.write("other/mark", b"keep out of it");
    machine.write("other/big", b"x");
    let flags = ["--exclude-if-present", ".nobackup", "--exclude-if-present", "mark:keep out"];
    let words: Vec<_> = ["source"].iter().chain(&flags).copied().collect();
    machine.backs_up(&words).ends(0);
    let expected = [
        "folder",
        "folder/large",
        "hello.txt",
        "other",
        "other/mark",
        "scratch",
        "scratch/.nobackup",
    ];
    assert_eq!(machine.newest(), expected);
    let (path, root) = (machine.source().join("scratch/big"), machine.source());
    let words = ["explain", path.to_str().unwrap(), "--root", root.to_str().unwrap()];
    let text = machine.run(words.iter().chain(&flags)).ends(0).text();
    assert!(text.starts_with("out: ") && text.contains(".nobackup"), "{text}");
    machine.backs_up(&["source", "--exclude-if-present", "a/b"]).ends(2);
}

#[test]
fn a_relative_exclude_begins_where_it_was_typed() {
    let machine = Machine::new();
    machine.write("folder/IMG.JPG", b"x");
    let left_out = |flags: &[&str]| {
        let words: Vec<_> = ["source"].iter().chain(flags).copied().collect();
        (machine.backs_up(&words).ends(0), machine.newest())
    };
    let (ran, left) = left_out(&["--exclude", "source/folder"]);
    assert_eq!(left, ["hello.txt"]);
    assert!(!ran.text().contains("matched nothing"), "{}", ran.text());
    assert_eq!(left_out(&["--exclude", "./source/hello.txt"]).1.len(), 3);
    assert_eq!(left_out(&["--iexclude", "*.jpg"]).1, ["folder", "folder/large", "hello.txt"]);
    let (ran, left) = left_out(&["--exclude", "fodler/*", "--exclude", "*.JPG"]);
    assert_eq!(left.len(), 3);
    let text = ran.text();
    assert!(text.contains("fodler/*") && text.contains("matched nothing"), "{text}");
    assert_eq!(text.matches("matched nothing").count(), 1, "{text}");
    for pattern in ["", "[", "!", "/", "a[b"] {
        machine.backs_up(&["source", "--exclude", pattern]).ends(2);
    }
}

/// Seen: an older content was restored without a word.
#[test]
fn a_time_says_that_it_passes_over_snapshots_whose_times_are_suspect() {
    let machine = Machine::new();
    for time in ["2026-11-18 12:00", "2026-11-26 12:00", "2026-11-20 13:59", "2026-11-20 14:10"] {
        machine.write("when", time.as_bytes());
        machine.backup_with(&["--time", time]);
    }
    let shown = machine.run(["cat", &machine.stored("2026-11-20 14:00", "when")]).ends(0);
    assert_eq!(shown.text(), "2026-11-18 12:00");
    assert!(
        shown.stderr.contains("1 snapshot whose time is suspect is passed over"),
        "{}",
        shown.stderr
    );
    let shown = machine.run(["cat", &machine.stored("2026-11-18 12:00", "when")]).ends(0);
    assert!(!shown.stderr.contains("suspect"), "{}", shown.stderr);
}

/// Seen: the whole backup ended with 1, and nothing was saved.
#[test]
fn a_link_with_a_slash_at_its_end_and_nothing_behind_it_costs_only_itself() {
    let machine = Machine::new();
    let link = machine.path("dangling");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    let link = format!("{}/", link.display());
    let source = machine.source();
    for more in [&["--dry-run"][..], &[]] {
        let words = [&["backup", source.to_str().unwrap(), &link], more].concat();
        let ran = machine.run(words).ends(3);
        assert!(ran.stderr.contains(link.trim_end_matches('/')), "{ran:?}");
    }
    assert!(machine.run(["ls", "-R", "latest"]).ends(0).text().contains("hello.txt"));
}

/// Seen: refused, as two sources for one place, of which only one had been named.
#[test]
fn a_link_in_another_source_may_be_named_with_a_slash_at_its_end() {
    let machine = Machine::new();
    let source = machine.source();
    std::fs::create_dir(source.join("real")).unwrap();
    std::fs::write(source.join("real/deep"), "deep").unwrap();
    std::os::unix::fs::symlink("real", source.join("link")).unwrap();
    let link = format!("{}/link/", source.display());
    machine.run(["backup", source.to_str().unwrap(), &link]).ends(0);
    let listed = machine.run(["ls", "-R", "latest"]).ends(0).text();
    let ends = |end: &str| listed.lines().filter(|line| line.contains(end)).count();
    assert_eq!((ends("real/deep"), ends("link/deep")), (1, 0), "{listed}");
    // A pattern may begin with what was typed.
    let exclude = format!("{link}deep");
    machine.run(["backup", &link, "--exclude", &exclude]).ends(0);
    assert!(!machine.run(["ls", "-R", "latest"]).ends(0).text().contains("deep"));
    let mut command = machine.command(["backup", "link/", "--exclude", "link/deep"]);
    ended(command.current_dir(&source)).ends(0);
    assert!(!machine.run(["ls", "-R", "latest"]).ends(0).text().contains("deep"));
}

/// Seen: the tag was dropped without a word, and with it what `forget --keep-tag` keeps.
#[test]
fn a_tag_that_the_last_snapshot_does_not_have_makes_one_though_nothing_has_changed() {
    let machine = Machine::new();
    let source = machine.source();
    // The folders above change while other tests run.
    let fixed = ["backup", "--json", "--skip-if-unchanged", source.to_str().unwrap(), "--as", "/s"];
    let backup = |words: &[&str]| {
        machine.run(fixed.iter().chain(words)).ends(0).last()["is_skipped"].clone()
    };
    assert_eq!(backup(&["--tag", "one"]), false);
    assert_eq!(backup(&["--tag", "one"]), true);
    assert_eq!(backup(&[]), true);
    assert_eq!(backup(&["--tag", "two", "--tag", "one"]), false, "it has not both");
    assert_eq!(backup(&["--tag", "two"]), true);
    assert_eq!(machine.snapshots().len(), 2);
    // Who cannot read the tags is told what adds them.
    let new = machine.path("new");
    std::fs::write(&new, "new\n").unwrap();
    machine
        .run(["key", "add", "--write-only", "--new-password-file", new.to_str().unwrap()])
        .ends(0);
    let mut command = machine.command(fixed.iter().chain(&["--tag", "a b"]));
    let ran = ended(command.env_remove("ICECORE_PASSWORD").env("ICECORE_PASSWORD_FILE", &new));
    let last = machine.snapshots().pop().unwrap();
    let advice = format!("icecore tag add {} 'a b'", &last[..8]);
    let said = [ran.text(), ran.stderr.clone()].concat();
    assert_eq!(
        (ran.code, machine.snapshots().len(), said.contains(&advice)),
        (0, 2, true),
        "{said}"
    );
}

/// Seen: a repository that was also mounted elsewhere was backed up into itself.
#[test]
fn a_repository_that_is_mounted_elsewhere_is_not_in_its_own_backup_either() {
    let machine = Machine::new();
    let at = machine.source().join("mounted");
    std::fs::create_dir(&at).unwrap();
    let bind = |words: &[&std::ffi::OsStr]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stderr(std::process::Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let repository = machine.path("repository");
    if !bind(&["mount".as_ref(), "--bind".as_ref(), repository.as_ref(), at.as_ref()]) {
        return testkit::skip("nothing can be mounted: not root");
    }
    let config = at.join("config");
    let ran = [
        machine.run(["backup", machine.source().to_str().unwrap()]),
        machine.run(["backup", at.to_str().unwrap()]),
        machine.run(["explain", config.to_str().unwrap()]),
    ];
    bind(&["umount".as_ref(), "--lazy".as_ref(), at.as_ref()]);
    let [whole, itself, explained] = ran;
    whole.ends(0);
    let names = machine.newest();
    assert!(names.contains(&"hello.txt".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("mounted")), "{names:?}");
    assert!(itself.ends(2).stderr.contains("in the repository"));
    assert!(explained.ends(0).text().starts_with("out: "));
}

/// Whoever clears a repository up, or gives its disk back, has been told of no other.
#[test]
fn no_repository_is_made_inside_of_another_one() {
    let machine = Machine::new();
    let repository = machine.path("repository");
    std::os::unix::fs::symlink(repository.join("containers"), machine.path("link")).unwrap();
    for inside in [repository.join("containers"), repository.join("new"), machine.path("link/x")] {
        let ran = machine.run(["init", "--repo", inside.to_str().unwrap()]).ends(2);
        assert!(ran.stderr.contains("is in the repository"), "{ran:?}");
        assert!(!inside.join("config").exists(), "{ran:?}");
    }
    let beside = ["init", "--repo", &format!("{}-2", repository.display())];
    machine.run(beside).ends(0);
    machine.run(["init"]).ends(1);
    // Other programs have files of the same names.
    std::fs::create_dir_all(machine.path("docker/containers")).unwrap();
    std::fs::write(machine.path("docker/config"), b"[main]").unwrap();
    std::fs::create_dir(machine.path("docker/config.copy")).unwrap();
    let below = machine.path("docker/icecore");
    machine.run(["init", "--repo", below.to_str().unwrap()]).ends(0);
}

/// The second copy was refused, as if it were made inside of the first one.
#[test]
fn a_repository_is_found_by_every_name_that_its_directory_has() {
    let machine = Machine::new();
    machine.backup();
    let link = machine.path("link");
    std::os::unix::fs::symlink(machine.path("second"), &link).unwrap();
    std::fs::create_dir(machine.path("second")).unwrap();
    let source = machine.path("repository/..").join("second");
    for to in [source, link.clone(), link, machine.path("second/.")] {
        machine.run(["copy", "--to", to.to_str().unwrap()]).ends(0);
        let again = machine.run(["init", "--repo", to.to_str().unwrap()]).ends(1);
        assert!(!again.stderr.contains("is in the repository"), "{again:?}");
    }
}
