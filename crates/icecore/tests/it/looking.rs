//! Naming snapshots, and looking into them.

use crate::machine::Machine;

#[test]
fn a_snapshot_is_named_by_id_time_or_latest() {
    let machine = Machine::new();
    let first = machine.backup_with(&["--node", "one"]);
    machine.write("hello.txt", b"newer");
    let second = machine.backup_with(&["--node", "two"]);
    let shown = machine.run(["snapshots", "--json"]).lines();
    let time = |at: usize| shown[at]["time"].as_str().unwrap().to_owned();
    let hello = |snapshot: &str| {
        machine.run(["cat", &machine.stored(snapshot, "hello.txt")]).ends(0).text()
    };
    let day = &time(1)[..10];
    let seconds = time(1)[..19].replace('T', " ");
    let newer = [
        "latest",
        &second[..8],
        &second,
        day,
        &seconds,
        &format!("{}Z", &time(1)[..19]),
        "latest@two",
        &format!("{day}@two"),
    ];
    newer.iter().for_each(|name| assert_eq!(hello(name), "newer", "{name}"));
    let older = ["latest@one", &first[..8], &format!("{seconds}@one"), &first.to_uppercase()];
    older.iter().for_each(|name| assert_eq!(hello(name), "hello", "{name}"));
    for missing in
        ["2001-01-01", "2001-01-01 14:00", "latest@three", &format!("{}@two", &first[..8])]
    {
        machine.run(["ls", missing]).ends(1);
    }
}

#[test]
fn paths_are_the_same_with_and_without_a_slash() {
    let machine = Machine::new();
    machine.backup();
    let path = machine.source().display().to_string();
    for path in [path.clone(), path[1..].to_owned(), format!("{path}/"), format!("/{path}/./")] {
        let listed = machine.run(["ls", &format!("latest:{path}")]).ends(0).text();
        assert_eq!(listed.lines().count(), 2, "{path}: {listed}");
    }
}

#[test]
fn a_directory_is_listed_flat_or_deep() {
    let machine = Machine::new();
    machine.backup();
    let stored = machine.stored("latest", "");
    assert!(!machine.run(["ls", &stored]).ends(0).text().contains("folder/large"));
    assert!(machine.run(["ls", "-R", &stored]).ends(0).text().contains("folder/large"));
    let long = machine.run(["ls", "-l", &machine.stored("latest", "hello.txt")]).ends(0).text();
    let row = long.lines().nth(1).unwrap();
    assert!(row.starts_with("-rw") && row.contains("5 B"), "{long}");
    // Without a path, what lies in the folder that was backed up: not the way to it.
    let names = |words: &[&str]| {
        let text = machine.run(words).ends(0).text();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let source = machine.source();
    let expected = ["folder", "hello.txt"].map(|name| source.join(name).display().to_string());
    assert_eq!(names(&["ls", "latest"]), expected);
    assert!(names(&["ls", "-R", "latest"]).len() > 3);
}

#[test]
fn every_version_of_a_file_is_found_once() {
    let machine = Machine::new();
    let ids = [machine.backup(), machine.backup()];
    machine.write("hello.txt", b"other version");
    machine.backup();
    std::fs::remove_file(machine.source().join("hello.txt")).unwrap();
    machine.backup();
    let lines = machine.run(["find", "hello*", "--json"]).ends(0).lines();
    let versions: Vec<_> = lines.iter().filter(|line| line["message_type"] == "version").collect();
    assert_eq!(versions.len(), 2, "{lines:?}");
    assert_eq!(versions[0]["snapshots"], serde_json::json!(ids));
    assert_eq!((&versions[0]["size"], &versions[1]["size"]), (&5.into(), &13.into()));
    assert_eq!(machine.run(["find", "HELLO*", "--json"]).last()["versions"], 0);
    assert_eq!(machine.run(["find", "-i", "HELLO*", "--json"]).last()["versions"], 2);
    assert_eq!(machine.run(["find", "/**/source/folder/*", "--json"]).last()["files"], 1);
}

#[test]
fn a_difference_is_told_by_its_kind() {
    let machine = Machine::new();
    machine.write("gone", b"");
    machine.write("touched", b"");
    let first = machine.backup();
    std::fs::remove_file(machine.source().join("gone")).unwrap();
    machine.write("new", b"new");
    machine.write("hello.txt", b"longer than before");
    let touched =
        std::fs::File::options().write(true).open(machine.source().join("touched")).unwrap();
    touched.set_modified(std::time::UNIX_EPOCH).unwrap();
    machine.backup();
    let lines = machine
        .run(["diff", &machine.stored(&first, ""), &machine.stored("latest", ""), "--json"])
        .ends(0)
        .lines();
    let change = |name: &str| {
        let line = lines
            .iter()
            .find(|line| line["path"].as_str().is_some_and(|path| path.ends_with(name)));
        line.map(|line| line["change"].as_str().unwrap().to_owned())
    };
    let found = ["/gone", "/new", "/hello.txt", "/touched", "/folder/large"].map(change);
    let expected = [Some("removed"), Some("added"), Some("content"), Some("attributes"), None];
    assert_eq!(found.each_ref().map(Option::as_deref), expected);
}

#[test]
fn a_map_lists_everything_once() {
    let machine = Machine::new();
    machine.write("with, comma", b"");
    machine.backup();
    let text = machine.run(["map", &machine.stored("latest", "")]).ends(0).text();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("path,type,mode,owner,size,mtime,chunks,bytes,status"));
    assert_eq!(lines.count(), 5, "{text}");
    assert!(text.contains("with, comma\",file,"), "{text}");
    let large =
        machine.run(["map", "--json", &machine.stored("latest", "folder/large")]).ends(0).lines();
    assert_eq!((&large[0]["size"], &large[0]["bytes"]), (&300_000.into(), &300_000.into()));
}

#[test]
fn snapshots_of_a_path_are_found_however_it_is_typed() {
    let machine = Machine::new();
    machine.backup();
    crate::machine::ended(&mut machine.command(["backup", "--stdin", "dump.sql", "-q"])).ends(0);
    let source = machine.source();
    let absolute = source.display().to_string();
    for typed in [&absolute, &format!("{absolute}/"), "source", "./folder/../source", "dump.sql"] {
        let mut command = machine.command(["snapshots", "--json", "--path", typed]);
        let ran = crate::machine::ended(command.current_dir(machine.path(""))).ends(0);
        // `..` asks the system, and this folder does not exist there.
        let expected = if typed.contains("..") { 0 } else { 1 };
        assert_eq!(ran.last()["snapshots"], expected, "{typed}");
    }
}

#[test]
fn paths_that_are_in_no_snapshot_are_told() {
    let machine = Machine::new();
    let first = machine.backup();
    machine.write("new", b"");
    machine.backup();
    let diff = |name: &str| {
        machine.run(["diff", &machine.stored(&first, name), &machine.stored("latest", name)])
    };
    assert!(diff("new").ends(0).text().contains("1 added"));
    assert!(diff("typo").ends(1).stderr.contains("typo is not in the snapshot"));
    let out = machine.path("out");
    let out = out.to_str().unwrap();
    let ran = machine.run(["restore", "latest", "--target", out, "--include", "typo"]).ends(1);
    assert!(ran.stderr.contains("--include"), "{}", ran.stderr);
    machine.run(["restore", "latest", "--target", out, "--include", "hello.txt"]).ends(0);
    machine.run(["restore", "latest", "--target", out, "--include", "hello.txt"]).ends(0);
    machine.run(["bench", "walk", "/does/not/exist"]).ends(1);
}

#[test]
fn what_is_no_file_is_named_for_what_it_is() {
    let machine = Machine::new();
    std::os::unix::fs::symlink("hello.txt", machine.source().join("link")).unwrap();
    machine.backup();
    let ran = machine.run(["cat", &machine.stored("latest", "link")]).ends(1);
    assert!(ran.stderr.contains("a symlink to hello.txt"), "{}", ran.stderr);
}
