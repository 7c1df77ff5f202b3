//! What cannot be tested here is said, with its reason, and never passes for success.
//!
//! `make test` names a file in `ICECORE_SKIPS`, to which each skip adds its line; at the end it prints
//! them and fails, unless `ALLOW_SKIP=1`. The shell's part of the same is `.ci/skip`.

use std::fs::File;
use std::io::{Result, Write};
use std::path::Path;

/// Names the file that collects skips.
pub const VARIABLE: &str = "ICECORE_SKIPS";

/// Notes that the running test, or a part of it, could not be made because of `reason`. The line goes
/// past what the test runner holds back, to standard error and to the file of [`VARIABLE`].
///
/// # Panics
/// When that file cannot be written: a skip must not go unseen.
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    let line = line(thread.name().unwrap_or("a test"), reason);
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(file) = std::env::var_os(VARIABLE) {
        append(file.as_ref(), &line).expect("the file that collects skips can be written");
    }
}

fn line(test: &str, reason: &str) -> String {
    format!("SKIPPED: {test}: {reason}\n")
}

/// In one write: tests of many processes add to the file.
fn append(file: &Path, line: &str) -> Result<()> {
    File::options().append(true).create(true).open(file)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_one_line_with_test_and_reason_and_stays_beside_others() {
        let file = std::env::temp_dir().join(format!("icecore-skips-{}", std::process::id()));
        for reason in ["no root", "no mount"] {
            append(&file, &line("some_test", reason)).unwrap();
        }
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(text, "SKIPPED: some_test: no root\nSKIPPED: some_test: no mount\n");
    }
}
