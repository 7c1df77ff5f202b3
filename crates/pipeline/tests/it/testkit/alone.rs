//! What is measured of a whole process is measured in one of its own: other tests run in this one.

use std::process::Command;

/// Tells the process of its own that it is one.
const VARIABLE: &str = "ICECORE_TEST_ALONE";

/// Runs the test `name` of this binary again, alone. True in the process in which it is alone: only there it goes on.
pub(crate) fn is_alone(name: &str) -> bool {
    if std::env::var_os(VARIABLE).is_some() {
        return true;
    }
    let this = std::env::current_exe().unwrap();
    let words = ["--exact", name, "--nocapture", "--test-threads", "1"];
    let ran = Command::new(this).args(words).env(VARIABLE, "1").output().unwrap();
    let said =
        [ran.stdout, ran.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(ran.status.success(), "{said}");
    // Without a test of that name nothing runs, and nothing fails.
    assert!(said.contains("1 passed"), "there is no test {name}: {said}");
    false
}
