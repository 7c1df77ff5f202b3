//! Files that may be open at once.

use crate::codes::Code;
use crate::failure::{Failure, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Containers, index, sources and targets that are open at a time. With less, a container that
/// cannot be opened would look like one that is damaged.
const LEAST: u64 = 128;

/// Takes all that the system allows; says so when that is too little to work with.
pub(crate) fn make_room() -> Result<()> {
    let Some(maximum) = getrlimit(Resource::Nofile).maximum else { return Ok(()) };
    if maximum < LEAST {
        let message = format!("only {maximum} files may be open at once, and {LEAST} are needed");
        return Err(Failure::new(Code::Failed, message)
            .hint("Allow more: ulimit -n 1024, or LimitNOFILE=1024 in a systemd unit."));
    }
    // What cannot be raised is mostly enough as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(maximum), maximum: Some(maximum) });
    Ok(())
}
