//! Waiting for what others do.

use std::time::{Duration, Instant};

/// What takes longer hangs.
const LONGEST: Duration = Duration::from_secs(60);

/// Waits until `is_so`.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), String> {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > LONGEST {
            return Err(format!("waited in vain until {what}"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
