//! Namespaces of its own for a rig that starts servers or makes networks: whatever ends it ends all of that.

use crate::options::said;
use std::process::{Command, ExitCode};

/// Marks the process in the namespaces, and says how its folder is called: its id is the same in all of them.
pub(crate) const INSIDE: &str = "--inside";

/// Runs the rig `name` again where nothing is seen of it.
pub(crate) fn again(name: &str, arguments: &[String]) -> ExitCode {
    let this = match std::env::current_exe() {
        Ok(this) => this,
        Err(error) => return said(name, Err(format!("cannot find this program: {error}"))),
    };
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    // The first process of these namespaces has to collect the servers that are killed, which this program would not.
    command.args(["bash", "-c", r#""$0" "$@"; exit $?"#]);
    command.arg(this).arg(name).args(arguments);
    match command.args([INSIDE, &format!("{name}-{}", std::process::id())]).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => said(name, Err(format!("cannot start unshare: {error}"))),
    }
}
