//! What the repository of a domain consists of, and whether another place has it.

use crate::domain_repository::DomainRepository;
use crate::error::refused;
use crate::{Error, Result};
use api::Name;
use crypto::{RootVerifyKey, SignedKeyList};
use ids::{KeyId, SnapshotId};
use repository::config::Config;
use std::collections::BTreeSet;

/// What a domain consists of, as far as another place has to have it.
pub(super) struct Contents {
    pub(super) repository: String,
    pub(super) snapshots: BTreeSet<SnapshotId>,
    key_list: Option<Vec<u8>>,
    key_slots: BTreeSet<KeyId>,
    /// Keys in use, of the list that the repository's root key signed.
    live_keys: Option<BTreeSet<KeyId>>,
}

impl Contents {
    /// What the repository of the domain `name` has on `place`; `None` if there is none.
    pub(super) fn of(
        repository: &DomainRepository,
        name: &Name,
        place: &str,
    ) -> Result<Option<Self>> {
        let Some(config) = repository.config()? else { return Ok(None) };
        let key_list = repository.key_list().map_err(|error| match error {
            Error::Repository(repository::Error::Damaged { .. }) => list_is_damaged(name, place),
            error => error,
        })?;
        Ok(Some(Self {
            repository: config.repository.to_string(),
            snapshots: repository.snapshot_names()?.into_iter().map(|name| name.id).collect(),
            key_slots: repository.key_slots()?.into_iter().map(|(id, _)| id).collect(),
            live_keys: key_list.as_deref().and_then(|list| live_keys(&config, list)),
            key_list,
        }))
    }

    /// How many keys in use have no file there.
    ///
    /// # Errors
    /// [`Error::Refused`] when none has: nobody could open it, and no node back up.
    pub(super) fn keys_missing(&self, name: &Name, place: &str) -> Result<u64> {
        let live = self.live_keys.as_ref().ok_or_else(|| list_is_damaged(name, place))?;
        let missing = live.difference(&self.key_slots).count();
        if missing == live.len() {
            let message =
                format!("the copy of the domain '{name}' on {place} has no file of a key");
            let hint = "Bring the files of its directory keys/ there, from this copy's source or another copy: icecore copy --repo COPY --to PLACE";
            return Err(refused(message, hint));
        }
        Ok(missing as u64)
    }

    pub(super) fn is_all_in(&self, other: &Self, domain: &Name, place: &str) -> Result<()> {
        let lacks = self.snapshots.difference(&other.snapshots).count();
        let what = if self.repository != other.repository {
            "is another repository".to_owned()
        } else if lacks > 0 {
            format!("lacks {lacks} snapshot{}", if lacks == 1 { "" } else { "s" })
        } else if (&self.key_list, &self.key_slots) != (&other.key_list, &other.key_slots) {
            "has other keys".to_owned()
        } else {
            return Ok(());
        };
        let message = format!("the copy of the domain '{domain}' on {place} {what}");
        let hint = "Copy it again, then repeat the command. If the copy says that both went on apart, see chapter 12 of the guide for servers: 'Bring a domain to another server'";
        Err(refused(message, hint))
    }
}

fn live_keys(config: &Config, list: &[u8]) -> Option<BTreeSet<KeyId>> {
    let root = RootVerifyKey::from_bytes(config.root_key);
    let list = SignedKeyList::verify(list, &root, config.repository).ok()?;
    let live = list.entries().iter().filter(|entry| entry.is_live());
    Some(live.map(|entry| entry.id).collect())
}

/// A copy takes over no list that it cannot compare with its own, so there is nothing to copy into it.
fn list_is_damaged(name: &Name, place: &str) -> Error {
    let message = format!("the list of keys of the domain '{name}' is damaged on {place}");
    let hint = "With a key, make it again from the keys: icecore rebuild --repo PLACE. Or, if that is a copy, delete its directory there, and copy again: icecore copy --repo SOURCE --to PLACE";
    refused(message, hint)
}
