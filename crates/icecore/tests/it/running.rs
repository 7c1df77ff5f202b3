//! `icecore run`: schedules and retention of a file, on one machine without a server.

use crate::machine::{Machine, Ran, ended};
use serde_json::Value;
use std::path::PathBuf;

/// A file with one policy for the source of the machine. `more` stands in its tables.
fn declare(machine: &Machine, schedule: &str, class: &str) -> PathBuf {
    declare_paths(machine, &[machine.source()], schedule, class, "")
}

/// The same for other paths, with more of the policy.
fn declare_paths(
    machine: &Machine,
    paths: &[PathBuf],
    schedule: &str,
    class: &str,
    more: &str,
) -> PathBuf {
    let paths = serde_json::to_string(paths).unwrap(); // as TOML has them, too
    let text = format!(
        "[schedule.due]\n{schedule}\n[retention.kept.class.standard]\n{class}\n\
         [policy.home]\npaths = {paths}\nexcludes = [\"*.tmp\"]\nschedules = [\"due\"]\nretention = \"kept\"\n{more}"
    );
    let file = machine.path("site.toml");
    std::fs::write(&file, text).unwrap();
    file
}

fn run(machine: &Machine, flags: &[&str]) -> Ran {
    let (file, state) = (machine.path("site.toml"), machine.path("state"));
    let fixed = ["run", "--json", file.to_str().unwrap(), "--state", state.to_str().unwrap()];
    machine.run([&fixed[..], flags].concat())
}

fn runs(ran: &Ran) -> Vec<Value> {
    ran.lines().into_iter().filter(|line| line["message_type"] == "run").collect()
}

fn snapshots(machine: &Machine) -> usize {
    let ran = machine.run(["snapshots", "--json"]).ends(0);
    ran.lines().iter().filter(|line| line["message_type"] == "snapshot").count()
}

/// As if so many seconds had passed since what is settled.
fn let_pass(machine: &Machine, secs: i64) {
    let_pass_since(machine, secs, secs);
}

/// The same with another number of seconds since snapshots came into the trash.
fn let_pass_since(machine: &Machine, settled_secs: i64, trash_secs: i64) {
    let secs = settled_secs;
    let folder = std::fs::read_dir(machine.path("state")).unwrap();
    let file = folder
        .map(|one| one.unwrap().path())
        .find(|path| path.extension() == Some("json".as_ref()));
    let file = file.unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    // Only the program reads numbers of 128 bits.
    let (before, rest) = text.split_once("\"boot\":").unwrap();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap();
    let (boot, rest) = rest.split_at(digits);
    let mut state: Value = serde_json::from_str(&format!("{before}\"boot\":0{rest}")).unwrap();
    for settled in state["schedules"].as_object_mut().unwrap().values_mut() {
        settled["secs"] = (settled["secs"].as_i64().unwrap() - secs).into();
        if let Some(ended) = settled["failed"].get("ended_secs").and_then(Value::as_i64) {
            settled["failed"]["ended_secs"] = (ended - secs).into();
        }
    }
    for since in state["trash"].as_object_mut().unwrap().values_mut() {
        *since = (since.as_i64().unwrap() - trash_secs).into();
    }
    let text = state.to_string().replace("\"boot\":0", &format!("\"boot\":{boot}"));
    std::fs::write(&file, text).unwrap();
}

#[test]
fn what_is_due_is_backed_up_once_and_what_passed_is_told() {
    let machine = Machine::new();
    machine.write("left.tmp", b"left out");
    declare(&machine, "every = \"1 minute\"\nwindow = \"always\"", "keep_last = \"all\"");
    let first = run(&machine, &[]).ends(0);
    assert_eq!(runs(&first)[0]["is_due"], false, "a schedule applies from when it is first seen");
    assert_eq!(snapshots(&machine), 0);

    let_pass(&machine, 600);
    let dry = run(&machine, &["--dry-run"]).ends(0);
    assert_eq!((&runs(&dry)[0]["is_due"], snapshots(&machine)), (&true.into(), 0));
    let second = run(&machine, &[]).ends(0);
    let ran = &runs(&second)[0];
    assert_eq!((&ran["result"], snapshots(&machine)), (&"complete".into(), 1), "{ran}");
    let missed = ran["missed"].as_i64().unwrap();
    assert!((8..=10).contains(&missed), "ten minutes passed: {ran}");
    let listed = machine.run(["ls", "-R", "latest"]).ends(0).text();
    assert!(listed.contains("hello.txt") && !listed.contains("left.tmp"), "{listed}");

    let third = run(&machine, &[]).ends(0);
    assert_eq!((&runs(&third)[0]["is_due"], snapshots(&machine)), (&false.into(), 1));
}

#[test]
fn a_backup_that_failed_is_tried_again_and_its_code_is_the_end() {
    let machine = Machine::new();
    declare(&machine, "every = \"1 day\"\nwindow = \"always\"", "keep_last = 9");
    run(&machine, &[]).ends(0);
    let_pass(&machine, 2 * 86_400);
    let source = machine.source();
    let away = machine.path("away");
    std::fs::rename(&source, &away).unwrap();
    let failed = run(&machine, &[]);
    assert_ne!(failed.code, 0, "{}", failed.text());
    assert_eq!(snapshots(&machine), 0);
    std::fs::rename(&away, &source).unwrap();
    let too_early = run(&machine, &[]).ends(0);
    assert_eq!(runs(&too_early)[0]["is_due"], false, "a retry waits five minutes");
    let_pass(&machine, 301);
    let again = run(&machine, &[]).ends(0);
    assert_eq!(runs(&again)[0]["result"], "complete", "{}", again.text());
}

#[test]
fn what_no_rule_keeps_lies_in_the_trash_and_then_goes() {
    let machine = Machine::new();
    declare(&machine, "at = \"00:00\"", "keep_last = 1\ntrash = \"7 days\"");
    for text in ["one", "two", "three"] {
        machine.write("changes", text.as_bytes());
        let ran = run(&machine, &["--force", "home"]).ends(0);
        assert_eq!(runs(&ran)[0]["result"], "complete", "{}", ran.text());
    }
    let last = run(&machine, &[]).ends(0).last();
    assert_eq!(
        (&last["kept"], &last["trash"], &last["expired"]),
        (&1.into(), &2.into(), &0.into())
    );
    assert_eq!(snapshots(&machine), 3, "what lies in the trash can be restored");

    // A policy that keeps more brings it back.
    declare(&machine, "at = \"00:00\"", "keep_last = 2\ntrash = \"7 days\"");
    let last = run(&machine, &[]).ends(0).last();
    assert_eq!((&last["kept"], &last["trash"]), (&2.into(), &1.into()));

    let_pass_since(&machine, 0, 7 * 86_400 + 1);
    let dry = run(&machine, &["--dry-run"]).ends(0).last();
    assert_eq!((&dry["expired"], snapshots(&machine)), (&1.into(), 3));
    let last = run(&machine, &[]).ends(0).last();
    assert_eq!((&last["kept"], &last["expired"], snapshots(&machine)), (&2.into(), &1.into(), 2));
    machine.run(["check", "--read-data"]).ends(0);
}

#[test]
fn a_snapshot_whose_tree_is_lost_pushes_no_other_out() {
    let machine = Machine::new();
    declare(&machine, "at = \"00:00\"", "keep_last = \"all\"\ntrash = \"0 days\"");
    for text in ["one", "two", "three"] {
        machine.write("changes", text.as_bytes());
        run(&machine, &["--force", "home"]).ends(0);
    }
    let all = machine.snapshots();
    std::fs::remove_file(machine.containers().last().unwrap()).unwrap();
    declare(&machine, "at = \"00:00\"", "keep_last = 1\ntrash = \"0 days\"");
    let last = run(&machine, &[]).last();
    assert_eq!((&last["kept"], &last["trash"]), (&2.into(), &1.into()), "{last}");
    let_pass_since(&machine, 0, 1);
    // Space is not freed while something is lost.
    run(&machine, &[]).ends(14);
    assert_eq!(machine.snapshots(), all[1..]);
}

#[test]
fn what_others_store_in_the_repository_is_not_judged() {
    let machine = Machine::new();
    declare(&machine, "at = \"00:00\"", "keep_last = 1\ntrash = \"0 days\"");
    let source = machine.source();
    for node in ["other", "other"] {
        machine.write("changes", node.as_bytes());
        machine.run(["backup", source.to_str().unwrap(), "--node", node]).ends(0);
    }
    let folder = source.join("folder");
    machine.run(["backup", folder.to_str().unwrap()]).ends(0);
    run(&machine, &["--force", "home"]).ends(0);
    run(&machine, &[]).ends(0);
    assert_eq!(snapshots(&machine), 4);
}

#[test]
fn mistakes_are_told_with_their_line_and_nothing_runs() {
    let machine = Machine::new();
    let file = declare(&machine, "every = \"1 minute\"", "keep_last = 1");
    let failed = run(&machine, &[]).ends(2);
    assert!(
        failed.text().contains("window") && failed.text().contains("\"line\":"),
        "{}",
        failed.text()
    );
    std::fs::write(&file, "[policy.a]\npaths = [\"/x\"]\n[policy.b]\npaths = [\"/x\"]\n").unwrap();
    let failed = run(&machine, &[]).ends(2);
    assert!(failed.text().contains("same paths"), "{}", failed.text());
    let two = "[policy.a]\npaths = [\"/x/y\"]\n[policy.b]\npaths = [\"/x//./y/\"]\n";
    std::fs::write(&file, two).unwrap();
    let failed = run(&machine, &[]).ends(2);
    assert!(failed.text().contains("same paths: /x/y"), "{}", failed.text());
    let failed = run(&machine, &["--force", "c"]).ends(2);
    assert!(failed.text().contains("no policy 'c'"), "{}", failed.text());
}

/// The wall clock and the time that the machine was running disagree.
fn wind(machine: &Machine, secs: i64) {
    let folder = std::fs::read_dir(machine.path("state")).unwrap();
    let mut files = folder.map(|one| one.unwrap().path());
    let file = files.find(|path| path.extension() == Some("json".as_ref())).unwrap();
    let mut text = std::fs::read_to_string(&file).unwrap();
    for name in ["believed_secs", "anchor_secs"] {
        let at = text.find(name).unwrap() + name.len() + 2;
        let end = at + text[at..].find(|c: char| !c.is_ascii_digit()).unwrap();
        let wound: i64 = text[at..end].parse::<i64>().unwrap() + secs;
        text.replace_range(at..end, &wound.to_string());
    }
    std::fs::write(&file, text).unwrap();
}

/// Nothing was deleted any more, and nothing said why.
/// A machine that was off for months backs up when it is on again, whether its clock is believed or not.
#[test]
fn what_was_missed_is_made_up_for_while_the_clock_is_in_doubt() {
    const DAY: i64 = 86_400;
    let machine = Machine::new();
    declare(&machine, "every = \"1 day\"\nwindow = \"always\"", "keep_last = \"all\"");
    run(&machine, &[]).ends(0);
    let_pass(&machine, 100 * DAY);
    wind(&machine, -99 * DAY);
    let late = run(&machine, &[]).ends(0);
    assert!(late.text().contains("ahead of"), "{}", late.text());
    assert_eq!(runs(&late)[0]["result"], "complete", "{}", late.text());
    let again = run(&machine, &[]).ends(0);
    assert_eq!(runs(&again)[0]["is_due"], false, "once: {}", again.text());
    let confirmed = run(&machine, &["--confirm-clock"]).ends(0);
    assert_eq!(runs(&confirmed)[0]["is_due"], false, "{}", confirmed.text());
    assert_eq!(snapshots(&machine), 1);
}

#[test]
fn a_clock_in_doubt_is_told_with_what_ends_it() {
    let machine = Machine::new();
    declare(&machine, "every = \"1 hour\"\nwindow = \"always\"", "keep_last = 1");
    run(&machine, &[]).ends(0);
    wind(&machine, -20_000);
    let said = |flags: &[&str]| {
        let ran = run(&machine, flags).ends(0);
        [ran.text(), ran.stderr].concat()
    };
    let doubtful = said(&["--dry-run"]);
    assert!(doubtful.contains("ahead of") && doubtful.contains("--confirm-clock"), "{doubtful}");
    run(&machine, &["--confirm-clock"]).ends(0);
    let certain = said(&[]);
    assert!(!certain.contains("clock"), "{certain}");
    // It was ahead once, and is right now: to say so does not help, and nobody is told to.
    wind(&machine, 20_000);
    for flags in [&[][..], &["--confirm-clock"]] {
        let doubtful = said(flags);
        assert!(doubtful.contains("behind") && doubtful.contains("caught up"), "{doubtful}");
    }
}

/// Seen: a slash at the end of a path, and its snapshots were kept for ever, without a word.
/// Without --repo it confirmed nothing: no repository was given.
#[test]
fn what_confirms_a_clock_can_be_typed_as_it_is_told() {
    let machine = Machine::new();
    declare(&machine, "every = \"1 hour\"\nwindow = \"always\"", "keep_last = 1");
    let (file, state) = (machine.path("site.toml"), machine.path("state"));
    let repo = machine.path("repository");
    let told = [&file, &state, &repo].map(|path| path.to_str().unwrap());
    let run = |words: &[&str]| {
        let mut command = machine.command(words);
        ended(command.env_remove("ICECORE_REPO")).ends(0)
    };
    let first = ["run", told[0], "--state", told[1], "--repo", told[2]];
    run(&first);
    wind(&machine, -20_000);
    let said = run(&first).stderr;
    let at = said.find("icecore run ").unwrap_or_else(|| panic!("{said}"));
    let words: Vec<_> = said[at..].lines().next().unwrap().split(' ').skip(1).collect();
    assert!(words.contains(&"--confirm-clock"), "{said}");
    run(&words);
    assert!(!run(&first).stderr.contains("clock"));
}

#[test]
fn a_retention_applies_however_the_path_is_written() {
    for path in ["source/", "./source//", "link/", r"o\dd", "\u{1b}["] {
        let machine = Machine::new();
        std::os::unix::fs::symlink("source", machine.path("link")).unwrap();
        for odd in [r"o\dd", "\u{1b}["] {
            std::fs::create_dir(machine.path(odd)).unwrap();
        }
        let paths = [PathBuf::from(format!("{}/{path}", machine.path("").display()))];
        let rules = "keep_last = 1\ntrash = \"7 days\"";
        declare_paths(&machine, &paths, "at = \"00:00\"", rules, "");
        for text in ["one", "two", "three"] {
            machine.write("changes", text.as_bytes());
            std::fs::write(machine.path(r"o\dd/changes"), text).unwrap();
            let ran = run(&machine, &["--force", "home"]).ends(0);
            assert!(!ran.text().contains("applies to no"), "{path}: {}", ran.text());
        }
        let last = run(&machine, &[]).ends(0).last();
        assert_eq!((&last["kept"], &last["trash"]), (&1.into(), &2.into()), "{path}: {last}");
    }
}

/// Seen: the option `tags` was given to the backup as `--tags`, which it does not know.
#[test]
fn options_of_a_policy_are_given_by_their_flags() {
    let machine = Machine::new();
    let more = "options = { tags = { value = [\"a b\", \"c\"] }, nice = { value = 1 } }\n";
    let paths = [machine.source()];
    declare_paths(&machine, &paths, "at = \"00:00\"", "keep_last = 1", more);
    run(&machine, &["--force", "home"]).ends(0);
    let listed = machine.run(["snapshots", "--json"]).ends(0).lines();
    assert_eq!(listed[0]["tags"], serde_json::json!(["a b", "c"]));
}

#[test]
fn a_retention_that_applies_to_nothing_is_told_after_a_backup() {
    let machine = Machine::new();
    let (link, source) = (machine.source().join("link"), machine.source());
    std::fs::create_dir(source.join("other")).unwrap();
    std::os::unix::fs::symlink("folder", &link).unwrap();
    std::fs::create_dir(machine.path("agent")).unwrap();
    let hooks = machine.path("agent/hooks.toml");
    let turn = format!("ln -sfn other {}", link.display());
    let text = format!("[hook.turn]\ncommand = [\"/bin/sh\", \"-c\", \"{turn}\"]\n");
    std::fs::write(&hooks, text).unwrap();
    std::fs::set_permissions(&hooks, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    // What the snapshot is called depends on where the link leads.
    let paths = [source.clone(), PathBuf::from(format!("{}/", link.display()))];
    let more = "hooks = { post = \"turn\" }\n";
    declare_paths(&machine, &paths, "at = \"00:00\"", "keep_last = 1", more);
    let ran = run(&machine, &["--force", "home"]).ends(0);
    let said = [ran.text(), ran.stderr.clone()].concat();
    assert!(
        said.contains("policy home, source ") && said.contains("applies to no snapshot"),
        "{said}"
    );
    let again = run(&machine, &["--force", "home"]).ends(0);
    let said = [again.text(), again.stderr.clone()].concat();
    assert!(!said.contains("applies to no snapshot"), "{said}");
}

#[test]
fn what_comes_next_is_shown_in_the_time_of_the_machine_and_told_in_utc() {
    let machine = Machine::new();
    let file = declare(&machine, "at = \"00:30\"", "keep_last = 1");
    let next = runs(&run(&machine, &[]).ends(0))[0]["next"].as_str().unwrap().to_owned();
    let state = machine.path("state");
    let words = ["run".as_ref(), file.as_os_str(), "--state".as_ref(), state.as_os_str()];
    let shown = ended(machine.command(words).env("TZ", "Asia/Karachi")).ends(0).text();
    let zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(5));
    let local = next.parse::<jiff::Timestamp>().unwrap().to_zoned(zone);
    let local = local.strftime("%Y-%m-%d %H:%M:%S").to_string();
    assert!(next.ends_with('Z') && shown.contains(&local), "{next}: {shown}");
}
