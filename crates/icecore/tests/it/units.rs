//! The units for systemd, as far as they can be looked at where no systemd runs.

use crate::machine::{Machine, Ran, ended};
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
