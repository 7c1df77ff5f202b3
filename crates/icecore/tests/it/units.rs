//! The units for systemd, as far as they can be looked at where no systemd runs.

use crate::machine::{Machine, Ran, around, ended};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The units, and how exposed each may be by `systemd-analyze security`: ten times what it prints.
const UNITS: [(&str, &str); 5] = [
    ("icecore-server", "20"),
    ("icecore-storage", "20"),
    ("icecore-lock-helper", "30"),
    ("icecore-agent", "60"),
    ("icecore-run", "60"),
];

fn unit(name: &str) -> PathBuf {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    units.join(format!("{name}.service"))
}

fn analyze(words: &[&str], unit: &Path) -> Ran {
    ended(Command::new("systemd-analyze").args(words).arg(unit))
}

/// As a unit of the system starts it.
///
/// Docs: `docs/GUIDE-ONE-MACHINE.md`, the configuration file.
#[test]
fn without_home_the_configuration_file_of_the_user_is_found() {
    let machine = Machine::new();
    let folder = machine.path("home/.config/icecore");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), "exclude = [\"private/\"]\n").unwrap();
    let command = machine.command(["options"]);
    let script =
        "mount --bind \"$HOME\" \"$(getent passwd 0 | cut -d: -f6)\" && unset HOME && exec \"$@\"";
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", script, "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    let ran = ended(&mut around(shell, &command));
    if ran.stderr.contains("unshare") || ran.stderr.contains("mount:") {
        return testkit::skip("nothing can be mounted: not root");
    }
    let shown = ran.ends(0).text();
    assert!(shown.contains("private/"), "{shown}");
}

/// The version that began has children of its own kind.
#[test]
fn a_program_that_is_replaced_while_it_runs_starts_itself() {
    let machine = Machine::new();
    let (program, file) = (machine.path("program"), machine.path("site.toml"));
    // Not by this process: what another test starts meanwhile would have it open for writing.
    ended(Command::new("cp").arg(env!("CARGO_BIN_EXE_icecore")).arg(&program)).ends(0);
    let paths = serde_json::to_string(&[machine.source()]).unwrap();
    let text = format!(
        "[schedule.due]\nevery = \"1 day\"\nwindow = \"always\"\n[policy.home]\npaths = {paths}\nschedules = [\"due\"]\n"
    );
    std::fs::write(&file, text).unwrap();
    let state = machine.path("state");
    let words = ["run", "--json", file.to_str().unwrap(), "--state", state.to_str().unwrap()];
    let command = machine.command([&words[..], &["--force", "home"]].concat());
    // As if it had been started before it was replaced.
    let script = "exec 3<\"$0\" && rm \"$0\" && exec /proc/self/fd/3 \"$@\"";
    let mut gone = Command::new("sh");
    gone.args(["-c", script]).arg(&program).args(command.get_args());
    let ran = ended(&mut around(gone, &command)).ends(0);
    assert!(!program.exists(), "{ran:?}");
    assert_eq!(machine.snapshots().len(), 1, "{ran:?}");
}

/// What a systemd that does not run here would do.
#[test]
fn the_units_say_what_the_program_cannot() {
    let text = |name: &str| std::fs::read_to_string(unit(name)).unwrap();
    for name in ["icecore-agent", "icecore-run"] {
        let has = |line: &str| assert!(text(name).contains(line), "{name}: {line}");
        has("\nEnvironment=HOME=%h\n");
        ["CAP_SETUID", "CAP_SETGID"].iter().for_each(|it| has(it)); // hooks of other users
    }
    for (name, _) in &UNITS[..4] {
        assert!(text(name).contains("\nRestart=always\n"), "{name}");
    }
}

#[test]
fn the_units_are_as_systemd_wants_them() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return testkit::skip("there is no systemd-analyze");
    }
    let machine = Machine::bare();
    let pages = machine.path("man");
    machine.run(["man", "--dir", pages.to_str().unwrap()]).ends(0);
    for (name, exposure_max) in UNITS {
        let text = std::fs::read_to_string(unit(name)).unwrap();
        // The program is not installed where tests run.
        let copy = machine.path(&format!("{name}.service"));
        let program = env!("CARGO_BIN_EXE_icecore");
        assert!(text.contains("ExecStart=/usr/bin/icecore "), "{name}");
        std::fs::write(&copy, text.replace("/usr/bin/icecore", program)).unwrap();
        let verified = analyze(&["verify", "--man=no"], &copy).ends(0);
        assert!(!verified.stderr.contains(name), "{}", verified.stderr);
        let threshold = format!("--threshold={exposure_max}");
        analyze(&["security", "--offline=true", "--no-pager", &threshold], &copy).ends(0);
        let page = text.lines().find_map(|line| line.strip_prefix("Documentation=man:")).unwrap();
        let page = page.strip_suffix("(1)").unwrap();
        assert!(pages.join(format!("{page}.1")).exists(), "{page}");
    }
}
