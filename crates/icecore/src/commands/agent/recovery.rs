//! `icecore agent recovery`: the recovery key of a domain whose keys only its nodes know lies in the agent's folder
//! until a person has put it away. Whoever reads it can read every backup of the domain.

use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::node::keys;
use crate::secret::{self, Ask};
use crypto::SlotSecret;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What `agent enroll` and `agent recovery` advise.
const PUT_AWAY: &str = "icecore agent recovery --put-away";

/// Show the recovery key in the agent state directory, or remove it from there.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore agent recovery              # shows it: print it or write it down\n  icecore agent recovery --put-away   # compares it with your copy, then removes the file\n  icecore agent recovery --put-away --copy /media/stick/recovery-key.txt\n\nOnly domains with client keys have one. As long as it is on this machine, whoever breaks into the machine can read all backups of the domain. If it is nowhere else, losing the machine means losing its backups."
)]
pub(super) struct Recovery {
    /// Compare it with your copy, then remove it from this machine.
    #[arg(long)]
    put_away: bool,
    /// Read your copy from this file.
    #[arg(long, value_name = "FILE", requires = "put_away")]
    copy: Option<PathBuf>,
}

#[derive(Serialize)]
struct Summary<'a> {
    file: String,
    is_put_away: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery_key: Option<&'a str>,
}

impl Recovery {
    pub(super) fn run(&self, context: &Context) -> Result<Code> {
        let folder = context.agent_folder();
        let (path, key) = keys::waiting_recovery(&folder)?.ok_or_else(|| nothing_there(&folder))?;
        let file = path.display().to_string();
        if !self.put_away {
            context.out.print(&key)?;
            context.out.remark(&format!(
                "Keep it away from this machine, then remove it from here: {PUT_AWAY}"
            ));
            let summary = Summary { file, is_put_away: false, recovery_key: Some(&key) };
            return context.out.summary(Code::Complete, &summary);
        }
        self.compare(&key, &file)?;
        keys::remove_recovery(&folder)?;
        context.out.line(&format!("Your copy is correct. Removed {file}"))?;
        let summary = Summary { file, is_put_away: true, recovery_key: None };
        context.out.summary(Code::Complete, &summary)
    }

    /// A copy with a typing error is worthless.
    fn compare(&self, key: &str, file: &str) -> Result<()> {
        let copy = match &self.copy {
            Some(copy) => secret::from_file(copy)?,
            None => {
                secret::prompt("Recovery key, from your copy", Ask::Once).map_err(|failure| {
                    failure.hint(
                        "Give your copy in a file: icecore agent recovery --put-away --copy FILE",
                    )
                })?
            }
        };
        let known = crypto::recovery_from_text(key).map_err(pipeline::Error::from)?;
        if matches!(copy.slot(), SlotSecret::Recovery(typed) if typed == known) {
            return Ok(());
        }
        let message =
            format!("the copy differs from the recovery key in {file}; nothing was removed");
        Err(Failure::new(Code::WrongKey, message).hint("Make a new copy: icecore agent recovery"))
    }
}

fn nothing_there(folder: &Path) -> Failure {
    let message = format!("there is no recovery key in {}", folder.display());
    Failure::new(Code::Failed, message).hint(
        "It was put away, or the server manages the keys of this domain (icecore agent status). To make another one, on the machine that holds the repository: icecore key recovery",
    )
}

/// A warning that the key is still there; nothing if it is not.
pub(super) fn warning(folder: &Path) -> Result<Option<String>> {
    let waiting = keys::waiting_recovery(folder)?;
    Ok(waiting.map(|(path, _)| {
        format!(
            "the recovery key of this domain is still in {}: whoever reads it can read every backup. Copy it, then: {PUT_AWAY}",
            path.display()
        )
    }))
}

/// What is said when it was just made.
pub(super) fn tell(context: &Context, folder: &Path) -> Result<()> {
    let Some((path, key)) = keys::waiting_recovery(folder)? else { return Ok(()) };
    context.out.line("Only this machine and this recovery key can read its backups:")?;
    context.out.line(&format!("  {}", *key))?;
    context.out.line(&format!(
        "Keep it away from this machine. It is also in {} until you remove it: {PUT_AWAY}",
        path.display()
    ))
}
