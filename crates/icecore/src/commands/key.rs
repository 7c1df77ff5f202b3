//! `icecore key`.

use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::password_cost::{self, PasswordCost};
use crate::secret::{self, Ask, Secret};
use crate::table::{Table, flexible, left};
use crate::wait::Wait;
use crate::{escape, time};
use crypto::{KdfParams, Role, SlotInfo, SlotSecret};
use format::entry::Time;
use ids::KeyId;
use pipeline::UnlockedRepository;
use pipeline::keyring::KeyRemoval;
use serde::Serialize;
use std::path::PathBuf;
use zeroize::Zeroizing;

/// Manage keys: passwords and recovery keys that open the repository.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore key list\n  icecore key add --label laptop\n  icecore key add --write-only --new-password-file /etc/icecore/pass\n  icecore key add --read-only --label drill\n  icecore key add --read-write --node web\n  icecore key passwd --password-cost 256MiB\n  icecore key recovery --wait 10m > recovery-key.txt\n  icecore key remove 81b0e6aa"
)]
pub(crate) struct Key {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Add a password.
    Add {
        #[command(flatten)]
        role: RoleFlags,
        /// The key can back up only as this node.
        #[arg(long, value_name = "NAME", conflicts_with_all = ["label", "read_only"])]
        node: Option<String>,
        /// Label of the key, at most 64 bytes.
        #[arg(long, value_name = "TEXT", default_value = "")]
        label: String,
        /// Read the new password from this file.
        #[arg(long, value_name = "FILE")]
        new_password_file: Option<PathBuf>,
        #[command(flatten)]
        cost: PasswordCost,
        #[command(flatten)]
        wait: Wait,
    },
    /// List keys.
    List,
    /// Remove a key, damaged or not. The last full key cannot be removed.
    Remove {
        /// Id of the key, or the beginning of it.
        #[arg(value_name = "KEY")]
        id: String,
        #[command(flatten)]
        wait: Wait,
    },
    /// Change the password that opened the repository. The old password stops working. Its cost stays the same unless
    /// another one is given.
    Passwd {
        /// Read the new password from this file.
        #[arg(long, value_name = "FILE")]
        new_password_file: Option<PathBuf>,
        #[command(flatten)]
        cost: PasswordCost,
        #[command(flatten)]
        wait: Wait,
    },
    /// Make a recovery key and print it once. Keep it on paper.
    Recovery {
        /// Label of the key.
        #[arg(long, value_name = "TEXT", default_value = "recovery key")]
        label: String,
        #[command(flatten)]
        wait: Wait,
    },
}

/// What the new key may do; everything by default.
#[derive(clap::Args, Debug)]
#[group(multiple = false)]
struct RoleFlags {
    /// The key can back up, but not read.
    #[arg(long)]
    write_only: bool,
    /// The key can restore, and repair what is there (check --repair, rebuild), but neither back up nor forget.
    #[arg(long)]
    read_only: bool,
    /// The key can back up and restore, but not add or remove keys.
    #[arg(long)]
    read_write: bool,
}

impl RoleFlags {
    fn role(&self) -> Role {
        match self {
            Self { write_only: true, .. } => Role::WriteOnly,
            Self { read_only: true, .. } => Role::Reader,
            Self { read_write: true, .. } => Role::ReadWrite,
            _ => Role::Full,
        }
    }
}

#[derive(Serialize)]
struct Shown<'a> {
    key: String,
    role: &'static str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_cost: Option<Cost>,
    label: &'a str,
    created: String,
    key_epoch: u32,
    is_current: bool,
}

/// What each guess of a password costs.
#[derive(Serialize)]
struct Cost {
    memory_bytes: u64,
    passes: u32,
    lanes: u32,
}

impl From<KdfParams> for Cost {
    fn from(KdfParams { memory_kib, passes, lanes }: KdfParams) -> Self {
        Self { memory_bytes: u64::from(memory_kib) << 10, passes, lanes }
    }
}

impl<'a> Shown<'a> {
    fn new(id: KeyId, info: &'a SlotInfo, current: KeyId) -> Self {
        Self {
            key: id.to_string(),
            role: info.role.name(),
            kind: if info.kdf.is_some() { "password" } else { "recovery" },
            password_cost: info.kdf.map(Cost::from),
            label: &info.label,
            created: time::json(created(info)),
            key_epoch: info.epoch.0,
            is_current: id == current,
        }
    }

    fn row(&self, info: &SlotInfo) -> [String; 7] {
        [
            if self.is_current { "*".to_owned() } else { " ".to_owned() },
            self.key.clone(),
            self.role.to_owned(),
            self.kind.to_owned(),
            info.kdf.map_or_else(String::new, password_cost::shown),
            time::show(created(info)),
            escape::text(self.label),
        ]
    }
}

fn created(info: &SlotInfo) -> Time {
    Time { secs: info.created_secs, nanos: 0 }
}

#[derive(Serialize)]
struct Count {
    keys: usize,
    /// The one that new backups are sealed in; `None` where the key list is lost.
    key_epoch: Option<u32>,
}

#[derive(Serialize)]
struct Changed<'a> {
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery_key: Option<&'a str>,
}

impl Key {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let repository = context.open()?;
        match &self.action {
            Action::Add { role, node, label, new_password_file, cost, wait } => {
                let (role, kdf) = (role.role(), cost.kdf(None));
                let new = New { role, label, node: node.as_deref(), kdf, wait: *wait };
                add(context, &repository, &new, new_password_file.as_ref())
            }
            Action::Passwd { new_password_file, cost, wait } => {
                change(context, &repository, new_password_file.as_ref(), *cost, *wait)
            }
            Action::List => list(context, &repository),
            Action::Remove { id, wait } => remove(context, &repository, id, *wait),
            Action::Recovery { label, wait } => recovery(context, &repository, label, *wait),
        }
    }
}

/// What is said of a new key.
struct New<'a> {
    role: Role,
    label: &'a str,
    node: Option<&'a str>,
    kdf: KdfParams,
    wait: Wait,
}

impl New<'_> {
    fn add(
        &self,
        context: &Context,
        repository: &UnlockedRepository,
        secret: &Secret,
    ) -> pipeline::Result<KeyId> {
        let (role, kdf) = (self.role, self.kdf);
        self.wait.patiently(context, || match self.node {
            Some(node) => repository.add_key_of_node(role, secret.slot(), kdf, node),
            None => repository.add_key(role, secret.slot(), kdf, self.label),
        })
    }
}

fn new_secret(file: Option<&PathBuf>) -> Result<Secret> {
    match file {
        Some(file) => secret::from_file(file),
        None => secret::prompt("New password", Ask::Twice),
    }
}

/// Refuses a new password that opens another key than `own`: whoever has it may do what that key may.
fn check_new(
    context: &Context,
    repository: &UnlockedRepository,
    secret: &Secret,
    own: Option<KeyId>,
) -> Result<()> {
    let opened = repository.opened_by(secret.slot()).map_err(|error| context.failure(error))?;
    let Some(slot) = opened.filter(|slot| Some(slot.id) != own) else { return Ok(()) };
    let (id, role) = (slot.id, slot.role.name());
    Err(Failure::usage(format!("key {id} ({role}) has the same password")).hint(
        "Nothing was changed. Choose another password: this one would still open that key. All keys: icecore key list",
    ))
}

/// The new slot first: whatever happens between, one of both passwords opens.
fn change(
    context: &Context,
    repository: &UnlockedRepository,
    file: Option<&PathBuf>,
    cost: PasswordCost,
    wait: Wait,
) -> Result<Code> {
    repository.certifier().map_err(|error| context.failure(error))?;
    let old = &repository.slot;
    if old.kdf.is_none() {
        return Err(no_password());
    }
    let secret = new_secret(file)?;
    check_new(context, repository, &secret, Some(old.id))?;
    let node = old.bound.then_some(old.label.as_str());
    let new = New { role: old.role, label: &old.label, node, kdf: cost.kdf(old.kdf), wait };
    let id = new.add(context, repository, &secret).map_err(|error| context.failure(error))?;
    let removed = wait.patiently(context, || repository.remove_key(old.id));
    removed.map_err(|error| {
        let hint =
            format!("Both passwords work now. Remove the old one: icecore key remove {}", old.id);
        context.failure(error).hint(hint)
    })?;
    context.out.line(&format!("Changed the password: key {id} replaces key {}", old.id))?;
    context.out.summary(Code::Complete, &Changed { key: id.to_string(), recovery_key: None })
}

/// A recovery key may be the last thing that opens the repository: no password takes its place.
fn no_password() -> Failure {
    Failure::usage("the repository was opened with a recovery key, and not with the password to change")
        .hint("Nothing was changed. Add a password: icecore key add. Then remove the old one, which icecore key list shows: icecore key remove KEY")
}

fn add(
    context: &Context,
    repository: &UnlockedRepository,
    new: &New<'_>,
    file: Option<&PathBuf>,
) -> Result<Code> {
    repository.certifier().map_err(|error| context.failure(error))?;
    let secret = new_secret(file)?;
    check_new(context, repository, &secret, None)?;
    let id = new.add(context, repository, &secret).map_err(|error| context.failure(error))?;
    context.out.line(&format!("Added key {id}"))?;
    context.out.summary(Code::Complete, &Changed { key: id.to_string(), recovery_key: None })
}

fn list(context: &Context, repository: &UnlockedRepository) -> Result<Code> {
    let slots = repository.slots().map_err(|error| context.failure(error))?;
    let mut table = Table::new(&[
        left(""),
        left("KEY"),
        left("ROLE"),
        left("KIND"),
        left("COST OF A GUESS"),
        left("CREATED"),
        flexible("LABEL"),
    ]);
    for (id, info) in &slots {
        let shown = Shown::new(*id, info, repository.slot.id);
        context.out.record("key", &shown)?;
        table.row(shown.row(info));
    }
    table.print(&context.out)?;
    context.out.line("* the key that opened the repository for this command")?;
    let damaged = damaged(repository, &slots).map_err(|error| context.failure(error))?;
    for id in &damaged {
        context.out.note(&format!(
            "key {id} is damaged and opens nothing. Remove it: icecore key remove {id}"
        ));
    }
    // Without a key list, slots can be listed all the same.
    for key in repository.keys_without_slot().unwrap_or_default() {
        context.out.note(&format!(
            "key {} ({}) has no file any more and opens nothing. What to do: icecore check",
            key.id, key.label
        ));
    }
    let epoch = repository.key_list().map(|list| list.epoch().0).ok();
    context.out.summary(Code::Complete, &Count { keys: slots.len(), key_epoch: epoch })
}

/// Slots that nobody vouches for as they are.
fn damaged(
    repository: &UnlockedRepository,
    good: &[(KeyId, SlotInfo)],
) -> pipeline::Result<Vec<KeyId>> {
    let all = repository.store.key_slots()?.into_iter().map(|(id, _)| id);
    Ok(all.filter(|id| !good.iter().any(|(other, _)| other == id)).collect())
}

fn remove(
    context: &Context,
    repository: &UnlockedRepository,
    prefix: &str,
    wait: Wait,
) -> Result<Code> {
    let ids = repository.key_ids().map_err(|error| context.failure(error))?;
    let is_meant = |id: &&KeyId| !prefix.is_empty() && id.begins_with(prefix);
    let fitting: Vec<_> = ids.iter().filter(is_meant).collect();
    let hint = "All keys: icecore key list";
    let id = match fitting.as_slice() {
        [id] => **id,
        [] => {
            return Err(
                Failure::new(Code::Failed, format!("there is no key '{prefix}'")).hint(hint)
            );
        }
        _ => {
            return Err(Failure::new(
                Code::Failed,
                format!("'{prefix}' matches more than one key"),
            )
            .hint(hint));
        }
    };
    let removed = wait.patiently(context, || repository.remove_key(id));
    let removed = removed.map_err(|error| context.failure(error))?;
    context.out.line(&format!("Removed key {id}. {}", after(&removed)))?;
    context.out.summary(Code::Complete, &Changed { key: id.to_string(), recovery_key: None })
}

/// What whoever knew the removed key can do still.
fn after(removed: &KeyRemoval) -> &'static str {
    match removed {
        KeyRemoval { role: None, .. } => "It was damaged and opened nothing.",
        KeyRemoval { role: Some(Role::WriteOnly), .. } => "It could not read backups.",
        KeyRemoval { role: Some(Role::Full), .. } => {
            "It was a full key: whoever knows it and can reach the storage can still read all backups, also new ones. To prevent that, create a new repository: icecore init"
        }
        KeyRemoval { still_reads: true, .. } => {
            "There are no more key epochs: whoever knows it and can reach the storage can still read new backups. To prevent that, create a new repository: icecore init"
        }
        _ => {
            "Whoever knows it cannot read new backups, but can still read earlier ones in the storage or in a copy of it."
        }
    }
}

fn recovery(
    context: &Context,
    repository: &UnlockedRepository,
    label: &str,
    wait: Wait,
) -> Result<Code> {
    let mut key = Zeroizing::new([0; 32]);
    getrandom::fill(&mut key[..]).map_err(|error| context.failure(error.into()))?;
    let (secret, kdf) = (SlotSecret::Recovery(*key), KdfParams::DEFAULT);
    let id = wait.patiently(context, || repository.add_key(Role::Full, secret, kdf, label));
    let id = id.map_err(|error| context.failure(error))?;
    let text = Zeroizing::new(crypto::recovery_to_text(&key));
    // A key that nobody has seen would open for nobody: it goes again.
    if let Err(failure) = context.out.print(&text).and_then(|()| context.out.flush()) {
        repository.remove_key(id).map_err(|error| context.failure(error))?;
        let failure = Failure { is_quiet: false, ..failure };
        return Err(failure.hint("The recovery key could not be shown, so it was removed again."));
    }
    context.out.note(&format!("key {id}: print it, and keep it away from this machine. It opens the repository like a password"));
    context.out.summary(Code::Complete, &Changed { key: id.to_string(), recovery_key: Some(&text) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::KeyEpoch;

    #[test]
    fn after_a_removal_it_is_said_who_can_read_on() {
        let said = |role, begins, still_reads| after(&KeyRemoval { role, begins, still_reads });
        let next = Some(KeyEpoch(1));
        for role in [Role::Reader, Role::ReadWrite] {
            assert!(said(Some(role), next, false).contains("cannot read new backups"));
            assert!(said(Some(role), None, true).contains("There are no more key epochs"));
        }
        for begins in [next, None] {
            let full = said(Some(Role::Full), begins, begins.is_none());
            assert!(full.contains("still read all backups") && full.contains("icecore init"));
        }
        assert!(said(Some(Role::WriteOnly), None, false).contains("could not read"));
        assert!(said(None, None, false).contains("damaged"));
    }
}
