//! What a person sees: progress on a terminal, colors, and tables that fit.

use crate::machine::{Machine, Ran, ended, random};
use std::process::{Command, Stdio};

/// Beginnings of colors, and the command that clears a line.
const RED: &str = "\u{1b}[31m";
const YELLOW: &str = "\u{1b}[33m";
const CLEAR_LINE: &str = "\u{1b}[2K";
/// What only progress shows.
const LEFT: &str = " left";

/// Runs the binary on a terminal of `columns`; nothing where no program makes terminals.
fn on_terminal(machine: &Machine, columns: u16, words: &[&str]) -> Option<Ran> {
    on_terminal_with(machine, columns, words, ("TERM", "xterm"))
}

fn on_terminal_with(
    machine: &Machine,
    columns: u16,
    words: &[&str],
    (name, value): (&str, &str),
) -> Option<Ran> {
    let has_script = Command::new("script").arg("--version").stdout(Stdio::null()).status();
    if !has_script.is_ok_and(|status| status.success()) {
        testkit::skip("needs script of util-linux, which runs programs on a terminal");
        return None;
    }
    let inner = machine.command(words);
    let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap());
    let line: Vec<_> =
        [inner.get_program()].into_iter().chain(inner.get_args()).map(quoted).collect();
    let line = format!("stty cols {columns} rows 24; exec {}", line.join(" "));
    let mut command = Command::new("script");
    command.args(["-qefc", &line, "/dev/null"]).stdin(Stdio::null()).env_clear();
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Some(ended(command.env("SHELL", "/bin/sh").env("TERM", "xterm").env(name, value)))
}

/// What the progress line showed, one after the other, without what clears it.
fn frames(ran: &Ran) -> Vec<String> {
    let text = ran.text();
    let drawn = text.split(['\r', '\n']).map(|part| part.replace(CLEAR_LINE, ""));
    drawn.filter(|part| part.contains("00:0")).map(|part| part.trim_end().to_owned()).collect()
}

/// What stands on the screen in the end: a line that is cleared and drawn again counts once.
fn screen(ran: &Ran) -> Vec<String> {
    let shown = |line: &str| {
        let line = line.trim_end_matches('\r');
        line.rsplit('\r').next().unwrap_or_default().replace(CLEAR_LINE, "").trim_end().to_owned()
    };
    ran.text().trim_end().split('\n').map(shown).collect()
}

/// A backup that reads one large file for some two seconds, and knows from the last one how much there is.
fn slow_backup(machine: &Machine) -> [String; 4] {
    machine.write("folder/large", &random(12 << 20));
    machine.backup();
    machine.write("folder/large", &random(12 << 20)[1..]);
    ["backup", machine.source().to_str().unwrap(), "--limit-read", "6M"].map(str::to_owned)
}

#[test]
fn progress_is_one_line_that_is_drawn_again_and_gone_at_the_end() {
    let machine = Machine::new();
    let words = slow_backup(&machine);
    let Some(ran) = on_terminal(&machine, 110, &words.each_ref().map(String::as_str)) else {
        return;
    };
    assert_eq!(ran.code, 0, "{}", ran.text());
    let frames = frames(&ran);
    assert!(frames.len() >= 4, "{frames:#?}");
    let full = frames.iter().filter(|frame| frame.contains("MiB/s") && frame.contains(LEFT));
    let full: Vec<_> = full.collect();
    assert!(!full.is_empty(), "rate and time left: {frames:#?}");
    // One large file is no reason to stand at 0 %.
    let percent =
        |frame: &&String| frame.split(" %").next()?.rsplit(' ').next()?.parse::<u32>().ok();
    let mut percents: Vec<_> = full.iter().copied().filter_map(|frame| percent(&frame)).collect();
    assert!(percents.is_sorted(), "{percents:?}");
    percents.dedup();
    assert!(percents.len() >= 2 && percents.iter().all(|it| (2..100).contains(it)), "{percents:?}");
    let screen = screen(&ran);
    assert!(screen[0].starts_with("Saved snapshot "), "{screen:#?}");
    assert!(!screen.iter().any(|line| line.contains(LEFT)), "{screen:#?}");
    assert!(screen.len() <= 5, "no lines are left behind: {screen:#?}");
}

#[test]
fn progress_breaks_no_line_of_a_narrow_terminal() {
    let machine = Machine::new();
    machine.write("写真/夏休みの思い出/とても長い名前のファイル", &random(3 << 20));
    let source = machine.source();
    for columns in [12, 40, 61] {
        let words = ["backup", source.to_str().unwrap(), "--full", "--limit-read", "3M"];
        let Some(ran) = on_terminal(&machine, columns, &words) else { return };
        let frames = frames(&ran);
        assert!(frames.len() >= 2, "{frames:#?}");
        let wide = |char: char| if char >= '\u{3000}' { 2 } else { 1 };
        let width = |frame: &String| frame.chars().map(wide).sum::<u32>();
        let fits = |frame: &String| width(frame) < u32::from(columns);
        assert!(frames.iter().all(fits), "{columns}: {frames:#?}");
    }
}

#[test]
fn where_nobody_watches_there_is_no_progress_and_no_color() {
    let machine = Machine::new();
    let words = slow_backup(&machine);
    let ran = machine.run(&words).ends(0);
    assert_eq!(ran.stderr, "");
    assert!(ran.text().starts_with("Saved snapshot ") && !ran.text().contains('\u{1b}'));
    let quiet: Vec<_> = words.iter().map(String::as_str).chain(["-q", "--full"]).collect();
    let Some(ran) = on_terminal(&machine, 80, &quiet) else { return };
    assert_eq!(ran.text(), "", "quiet on a terminal, too");
    let again: Vec<_> = words.iter().map(String::as_str).chain(["--full"]).collect();
    let ran = on_terminal_with(&machine, 80, &again, ("TERM", "dumb")).unwrap();
    assert!(!ran.text().contains(['\u{1b}', '⠁']), "no line is drawn again: {:?}", ran.text());
}

/// Seen: a directory that stood at a further name of a file was deleted, and the dry run had not said so.
#[test]
fn nothing_is_deleted_before_somebody_was_asked() {
    let machine = Machine::new();
    machine.write("a", b"data");
    std::fs::hard_link(machine.source().join("a"), machine.source().join("b")).unwrap();
    machine.write("d/e/f", b"x");
    machine.backup();
    let (target, from) = (machine.path("target"), format!("latest:{}", machine.source().display()));
    let words = ["restore", &from, "--target", target.to_str().unwrap(), "--delete"];
    let stands_at = |path: &str| {
        std::fs::create_dir_all(target.join(path)).unwrap();
        std::fs::write(target.join(path).join("precious"), "p").unwrap();
    };
    for (path, link) in [("b/deep", None), ("mine", Some("d"))] {
        let _ = std::fs::remove_dir_all(&target); // there is none at first
        stands_at(path);
        let elsewhere = machine.path("home");
        if let Some(link) = link {
            std::os::unix::fs::symlink(elsewhere, target.join(link)).unwrap();
        }
        let Some(ran) = on_terminal(&machine, 100, &words) else { return };
        assert_ne!(ran.code, 0, "{}", ran.text());
        assert!(
            ran.text().contains("Delete ") && ran.text().contains("not confirmed"),
            "{}",
            ran.text()
        );
        assert!(target.join(path).join("precious").exists());
    }
}

#[test]
fn colors_are_shown_on_a_terminal_and_nowhere_else() {
    let machine = Machine::new();
    let (source, missing) = (machine.source(), machine.path("source/missing"));
    let words = ["backup", source.to_str().unwrap(), missing.to_str().unwrap()];
    machine.run(words).ends(3);
    // A failure of ours, one of the parser, and a table that marks a partial snapshot.
    let table =
        [(&["ls", "none"][..], RED), (&["snapshots", "--latset"], RED), (&["snapshots"], YELLOW)];
    for (words, color) in table {
        let Some(ran) = on_terminal(&machine, 80, words) else { return };
        assert!(ran.text().contains(color), "{words:?}: {:?}", ran.text());
        for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
            let plain = on_terminal_with(&machine, 80, words, variable).unwrap();
            assert!(!plain.text().contains('\u{1b}'), "{variable:?} {words:?}: {:?}", plain.text());
        }
        let piped = machine.run(words);
        assert!(!piped.text().contains('\u{1b}') && !piped.stderr.contains('\u{1b}'), "{words:?}");
    }
}

#[test]
fn tables_align_wide_names_and_fit_the_terminal() {
    let machine = Machine::new();
    machine.backup_with(&["--node", "web-01"]);
    machine.backup_with(&["--node", "サーバー"]);
    machine.backup_with(&["--node", "cafe\u{301}", "--tag", &"很长的标签".repeat(9)]);
    let wide = |char: char| match char {
        '\u{301}' => 0,
        '\u{3000}'.. => 2,
        _ => 1,
    };
    let width = |text: &str| text.chars().map(wide).sum::<usize>();
    let piped = machine.run(["snapshots"]).ends(0).text();
    let starts: Vec<_> = piped
        .lines()
        .skip(1)
        .take(3)
        .map(|line| width(&line[..line.find(" /").unwrap()]))
        .collect();
    assert_eq!(starts, [starts[0]; 3], "{piped}");
    let Some(ran) = on_terminal(&machine, 100, &["snapshots"]) else { return };
    let screen = screen(&ran);
    assert!(screen[0].starts_with("ID ") && screen[3].ends_with('…'), "{screen:#?}");
    assert!(screen[..4].iter().all(|line| width(line) <= 100), "{screen:#?}");
}
