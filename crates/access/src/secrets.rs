//! Secrets in the agent's folder, and who has seen them.
//!
//! ```text
//! managed.key         opens this node's slot in a managed domain; the server saw it when this machine enrolled
//! slot.key            opens this node's slot where only nodes know keys; made here, and no server has seen it
//! recovery.key        the recovery key of such a domain, until a person has put it away
//! next-recovery.key   the same before the domain is there
//! slot.key.NAME       set aside: of the repository or domain NAME, or `unknown`
//! recovery.key.NAME   the same; before-REPOSITORY where only that is known
//! ```
//!
//! Before, both secrets were in `slot.key`, one after the other: what a server had seen then sealed a domain that it
//! must not read, and the only copy of the other was written over.

use crate::files;
use crate::identity::{self, Agent};
use crate::{Error, Result};
use api::enroll::{EnrollReply, KeyMode};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::path::Path;
use zeroize::Zeroizing;

/// What the server has seen.
pub(crate) const MANAGED: &str = "managed.key";
/// What no server has seen.
pub const SLOT: &str = "slot.key";
/// The recovery key of a domain whose keys only nodes know.
pub const RECOVERY: &str = "recovery.key";
/// Files of one name that are set aside.
const ASIDE_MAX: u32 = 1000;

/// The text of the managed secret, and its file. Agents that enrolled with an earlier version have it in `slot.key`.
pub(crate) fn managed(folder: &Path) -> Result<Option<(&'static str, Zeroizing<String>)>> {
    for name in [MANAGED, SLOT] {
        if let Some(text) = files::read(&folder.join(name))? {
            return Ok(Some((name, text)));
        }
    }
    Ok(None)
}

/// Before the identity is replaced by what the server `told`: nothing that a server may have seen stays in `slot.key`,
/// and no recovery key of another domain in `recovery.key`.
pub(crate) fn make_way(folder: &Path, told: &EnrollReply) -> Result<()> {
    let was = match identity::agent(folder) {
        // Enrolling again is what mends it.
        Err(Error::Damaged { .. }) => None,
        was => was?,
    };
    if may_have_been_seen(folder, was.as_ref(), told)? {
        set_aside(folder, SLOT, was.as_ref().map_or("unknown", name_of))?;
    }
    match &was {
        Some(was) if is_other(was, told) => set_aside(folder, RECOVERY, name_of(was)),
        _ => Ok(()),
    }
}

/// Whether `slot.key` may be the secret of a managed slot, which an earlier version has put there. Before there is a
/// `managed.key`, this was asked.
fn may_have_been_seen(folder: &Path, was: Option<&Agent>, told: &EnrollReply) -> Result<bool> {
    if files::read(&folder.join(MANAGED))?.is_some() {
        return Ok(false);
    }
    Ok(match was.map(|was| was.keys) {
        Some(KeyMode::Client) => false,
        Some(KeyMode::Managed) => true,
        // Nobody knows whose it is. Where there is a repository, it seals nothing new, and may be what opens it.
        None => told.keys == KeyMode::Managed || told.repository.is_none(),
    })
}

/// Whether the server told of another domain than this machine was in.
fn is_other(was: &Agent, told: &EnrollReply) -> bool {
    let is_other_repository = match (&was.repository, &told.repository) {
        (Some(was), Some(told)) => was != told,
        // Not yet made, or the server has forgotten which it is.
        _ => false,
    };
    is_other_repository || was.domain != told.domain || was.keys != told.keys
}

/// What is set aside is named after its repository; after the domain if that is not known, or is no name for a file.
fn name_of(agent: &Agent) -> &str {
    let is_id = |id: &&str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    agent.repository.as_deref().filter(is_id).unwrap_or(agent.domain.as_str())
}

/// Durably renames the file `file` to one that ends with `name`, over no other; nothing if it does not exist.
///
/// # Errors
/// [`Error::File`].
pub fn set_aside(folder: &Path, file: &str, name: &str) -> Result<()> {
    let from = folder.join(file);
    let failed = |error: Errno| files::file(&from)(error.into());
    for number in 1..=ASIDE_MAX {
        let number = if number == 1 { String::new() } else { format!(".{number}") };
        let to = folder.join(format!("{file}.{name}{number}"));
        match renameat_with(CWD, &from, CWD, &to, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            Err(Errno::NOENT) => return Ok(()),
            renamed => return renamed.map_err(failed).and_then(|()| files::sync_parent_of(&from)),
        }
    }
    Err(failed(Errno::EXIST))
}
