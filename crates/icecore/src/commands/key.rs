//! `icecore key`.

use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::secret::{self, Ask, Secret};
use crate::{escape, time};
use client::Archive;
use crypto::{KdfParams, Role, SlotInfo, SlotSecret};
use format::entry::Time;
use ids::KeyId;
use serde::Serialize;
use std::path::PathBuf;
use zeroize::Zeroizing;

/// Keys: who can open the repository.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore key list\n  icecore key add --label laptop\n  icecore key add --write-only --new-password-file /etc/icecore/pass\n  icecore key recovery > recovery-key.txt"
)]
pub(crate) struct Key {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Add a password.
    Add {
        /// Its holder can back up, and read nothing.
        #[arg(long)]
        write_only: bool,
        /// A text that tells keys apart, at most 64 bytes.
        #[arg(long, value_name = "TEXT", default_value = "")]
        label: String,
        /// Read the new password from this file instead of asking.
        #[arg(long, value_name = "FILE")]
        new_password_file: Option<PathBuf>,
    },
    /// List the keys.
    List,
    /// Remove a key; never the last one that can read.
    Remove {
        /// The beginning of its id.
        #[arg(value_name = "KEY")]
        id: String,
    },
    /// Make a recovery key and print it once; keep it on paper.
    Recovery {
        /// A text that tells keys apart.
        #[arg(long, value_name = "TEXT", default_value = "recovery key")]
        label: String,
    },
}

#[derive(Serialize)]
struct Shown<'a> {
    key: String,
    role: &'static str,
    kind: &'static str,
    label: &'a str,
    created: String,
    is_current: bool,
}

impl<'a> Shown<'a> {
    fn new(id: KeyId, info: &'a SlotInfo, current: KeyId) -> Self {
        Self {
            key: id.to_string(),
            role: info.role.name(),
            kind: if info.kdf.is_some() { "password" } else { "recovery" },
            label: &info.label,
            created: time::json(created(info)),
            is_current: id == current,
        }
    }

    fn row(&self, info: &SlotInfo) -> String {
        let sign = if self.is_current { "*" } else { " " };
        let label = escape::text(self.label);
        format!(
            "{sign} {}  {:<11}{:<10}{}  {label}",
            self.key,
            self.role,
            self.kind,
            time::show(created(info))
        )
    }
}

fn created(info: &SlotInfo) -> Time {
    Time { secs: info.created_secs, nanos: 0 }
}

#[derive(Serialize)]
struct Count {
    keys: usize,
}

#[derive(Serialize)]
struct Changed<'a> {
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery_key: Option<&'a str>,
}

impl Key {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let archive = context.open()?;
        match &self.action {
            Action::Add { write_only, label, new_password_file } => {
                let role = if *write_only { Role::WriteOnly } else { Role::Full };
                add(context, &archive, role, label, new_password_file.as_ref())
            }
            Action::List => list(context, &archive),
            Action::Remove { id } => remove(context, &archive, id),
            Action::Recovery { label } => recovery(context, &archive, label),
        }
    }
}

fn add(
    context: &Context,
    archive: &Archive,
    role: Role,
    label: &str,
    file: Option<&PathBuf>,
) -> Result<Code> {
    let new: Secret = match file {
        Some(file) => secret::from_file(file)?,
        None => secret::prompt("New password", Ask::Twice)?,
    };
    let id = archive
        .add_key(role, new.slot(), KdfParams::DEFAULT, label)
        .map_err(|error| context.failure(error))?;
    context.out.line(&format!("added the key {id}"))?;
    context.out.summary(Code::Complete, &Changed { key: id.to_string(), recovery_key: None })
}

fn list(context: &Context, archive: &Archive) -> Result<Code> {
    let slots = archive.slots().map_err(|error| context.failure(error))?;
    for (id, info) in &slots {
        let shown = Shown::new(*id, info, archive.slot.id);
        context.out.item("key", &shown, || shown.row(info))?;
    }
    context.out.summary(Code::Complete, &Count { keys: slots.len() })
}

fn remove(context: &Context, archive: &Archive, prefix: &str) -> Result<Code> {
    let slots = archive.slots().map_err(|error| context.failure(error))?;
    let fitting: Vec<_> = slots
        .iter()
        .filter(|(id, _)| !prefix.is_empty() && id.to_string().starts_with(prefix))
        .collect();
    let hint = "All keys: icecore key list";
    let id = match fitting.as_slice() {
        [(id, _)] => *id,
        [] => {
            return Err(
                Failure::new(Code::Failed, format!("there is no key '{prefix}'")).hint(hint)
            );
        }
        _ => {
            return Err(Failure::new(Code::Failed, format!("{prefix} matches more than one key"))
                .hint(hint));
        }
    };
    archive.remove_key(id).map_err(|error| context.failure(error))?;
    context.out.line(&format!(
        "removed the key {id}; who knew it and copied the repository can still read that copy"
    ))?;
    context.out.summary(Code::Complete, &Changed { key: id.to_string(), recovery_key: None })
}

fn recovery(context: &Context, archive: &Archive, label: &str) -> Result<Code> {
    let mut key = Zeroizing::new([0; 32]);
    getrandom::fill(&mut key[..]).map_err(|error| context.failure(error.into()))?;
    let id = archive.add_key(Role::Full, SlotSecret::Recovery(*key), KdfParams::DEFAULT, label);
    let id = id.map_err(|error| context.failure(error))?;
    let text = Zeroizing::new(crypto::recovery_to_text(&key));
    // A key that nobody has seen would open for nobody: it goes again.
    if let Err(failure) = context.out.print(&text).and_then(|()| context.out.flush()) {
        archive.remove_key(id).map_err(|error| context.failure(error))?;
        let failure = Failure { is_quiet: false, ..failure };
        return Err(failure.hint("The recovery key was removed again: it was not shown."));
    }
    context.out.note(&format!("key {id}: print it and keep it away from this machine; it opens the repository like a password"));
    context.out.summary(Code::Complete, &Changed { key: id.to_string(), recovery_key: Some(&text) })
}
