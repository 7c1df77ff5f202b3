//! Key slots, the key list and the settings: each has a valid signature and its own name, and what
//! is stored twice is there twice.

use super::{CheckReport, Damage};
use crate::{Result, UnlockedRepository};
use crypto::{KeyEntry, LAST_KEY_EPOCH};
use ids::KeyId;
use repository::config;

/// Files that are stored twice, with one copy lost or damaged.
fn ills(repository: &UnlockedRepository) -> Result<Vec<(&'static str, String)>> {
    let mut ills = config::problems(&**repository.local()?.storage())?;
    ills.extend(repository.local()?.key_list_problems()?);
    Ok(ills)
}

pub(super) fn check(repository: &UnlockedRepository, report: &mut CheckReport) -> Result<()> {
    let damages = &mut report.damages;
    // Without the key list, forgeries cannot be recognized; `rebuild` restores it.
    let list = repository.refresh_key_list()?;
    for (name, why) in ills(repository)? {
        let what = format!("{why} ({name}, which is stored twice)");
        damages.push(Damage { what, healable: true, has_twin: true, ..Damage::default() });
    }
    let mut tell = |what| damages.push(Damage { what, ..Damage::default() });
    // No damage: a command that was killed leaves a key so that nobody was given.
    let lost = repository.keys_without_slot()?;
    let told = lost.iter().map(without_file);
    report.notes.extend(told.map(|what| Damage { what, ..Damage::default() }));
    for (id, slot) in repository.local()?.key_slots()? {
        match crypto::verify_slot_certificate(&slot, &repository.slot.root) {
            Ok(info) if info.id != id => {
                tell(unusable(id, &format!("it is the slot of key {}", info.id)));
                report.damaged_keys.push(id.to_string());
            }
            Ok(_) if list.is_live(id) => {}
            // Its removal did not finish, or somebody put it back: its signatures do not count
            // either way.
            Ok(_) => report.notes.push(Damage { what: left(id), ..Damage::default() }),
            Err(error) => {
                tell(unusable(id, &error.to_string()));
                report.damaged_keys.push(id.to_string());
            }
        }
    }
    for entry in list.undelivered() {
        report.notes.push(Damage { what: undelivered(entry), ..Damage::default() });
    }
    if list.epoch() == LAST_KEY_EPOCH {
        report.notes.push(Damage { what: LAST.to_owned(), ..Damage::default() });
    }
    Ok(())
}

/// The note in the last key epoch.
const LAST: &str = "this is the last key epoch: the holder of a key that is removed from now on can still read what is stored later. Create a new repository: icecore init";

/// The key list must not be older than the newest epoch of any record that was opened.
pub(super) fn check_epoch(repository: &UnlockedRepository, report: &mut CheckReport) -> Result<()> {
    let (list, latest) =
        (repository.key_list()?, repository.blocks()?.opener().latest_opened_epoch());
    if latest > list.epoch() {
        let what = format!(
            "the key list is of key epoch {}, but data was stored in epoch {latest}: the list is old, and removed keys look valid. With a full key: icecore rebuild",
            list.epoch()
        );
        report.damages.push(Damage { what, ..Damage::default() });
    }
    Ok(())
}

fn undelivered(entry: &KeyEntry) -> String {
    let id = entry.id;
    format!(
        "key {id} ({}) cannot read what is stored now, because its slot was missing when the key epoch began. If the slot is back, the next change of keys delivers the secret; otherwise: icecore key remove {id}",
        entry.label
    )
}

fn unusable(id: KeyId, reason: &str) -> String {
    format!("key {id}: {reason}; its password no longer opens the repository")
}

fn without_file(entry: &KeyEntry) -> String {
    let id = entry.id;
    format!(
        "key {id} ({}) has no file any more (keys/{id}), so its password or recovery key opens nothing. Bring the file back from a copy: icecore copy --repo COPY --to REPOSITORY. Without a copy: icecore key remove {id}, and make a new key",
        entry.label
    )
}

fn left(id: KeyId) -> String {
    format!("key {id} was removed, but its slot still exists: icecore key remove {id}")
}

/// Restores the lost or damaged copy of files that are stored twice.
pub(super) fn repair(
    repository: &UnlockedRepository,
    lease: &repository::lease::Lease,
    report: &mut CheckReport,
) -> Result<()> {
    // Only a list that the root key signed is copied.
    repository.refresh_key_list()?;
    let ills = ills(repository)?;
    if ills.iter().any(|(name, _)| !name.starts_with("keys/")) {
        lease.verify()?;
        let local = repository.local()?;
        config::write(local.config(), &**local.storage())?;
    }
    if ills.iter().any(|(name, _)| name.starts_with("keys/"))
        && let Some(list) = repository.local()?.key_list()?
    {
        repository.local()?.replace_key_list(lease, &list)?;
    }
    report.repaired.extend(ills.into_iter().map(|(name, why)| format!("{name}: {why}")));
    Ok(())
}
