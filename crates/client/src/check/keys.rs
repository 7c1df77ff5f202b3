//! Key slots, the key list and the settings: each is as its maker made it, lies under its own
//! name, and what stands twice does so.

use super::{CheckReport, Damage};
use crate::{Result, UnlockedRepository};
use crypto::{KeyEntry, LAST_KEY_EPOCH};
use ids::KeyId;
use repository::config::Config;

/// What stands twice and is lost or damaged in one place.
fn ills(repository: &UnlockedRepository) -> Result<Vec<(&'static str, String)>> {
    let mut ills = Config::problems(&**repository.local()?.storage())?;
    ills.extend(repository.local()?.key_list_problems()?);
    Ok(ills)
}

pub(super) fn check(repository: &UnlockedRepository, report: &mut CheckReport) -> Result<()> {
    let damages = &mut report.damages;
    let mut tell = |what, healable| damages.push(Damage { what, healable, ..Damage::default() });
    // Without it nobody can say what is forged: `rebuild` makes it anew.
    let list = repository.refresh_key_list()?;
    for (name, why) in ills(repository)? {
        tell(format!("{why} ({name}, which stands twice)"), true);
    }
    for (id, slot) in repository.local()?.key_slots()? {
        match crypto::verify_slot_certificate(&slot, &repository.slot.root) {
            Ok(info) if info.id != id => {
                tell(unusable(id, &format!("it is the slot of key {}", info.id)), false);
                report.damaged_keys.push(id.to_string());
            }
            Ok(_) if list.is_live(id) => {}
            // A removal that was cut off, or somebody put it back: it signs nothing either way.
            Ok(_) => report.notes.push(Damage { what: left(id), ..Damage::default() }),
            Err(error) => {
                tell(unusable(id, &error.to_string()), false);
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

/// Said once there are no more key epochs.
const LAST: &str = "this is the last key epoch: whoever holds a key that is removed from now on can read what is stored later. Make a new repository: icecore init";

/// The list is at least of the epoch in which everything was stored that opened.
pub(super) fn check_epoch(repository: &UnlockedRepository, report: &mut CheckReport) -> Result<()> {
    let (list, latest) =
        (repository.key_list()?, repository.blocks()?.opener().latest_opened_epoch());
    if latest > list.epoch() {
        let what = format!(
            "the key list is of key epoch {}, and something was stored in epoch {latest}: the list is an old one, and removed keys look valid; with a full key: icecore rebuild",
            list.epoch()
        );
        report.damages.push(Damage { what, ..Damage::default() });
    }
    Ok(())
}

fn undelivered(entry: &KeyEntry) -> String {
    let id = entry.id;
    format!(
        "key {id} ({}) cannot read what is stored now: its slot was not there when the key epoch began. If it is there again, any change of keys gives it the secret; else: icecore key remove {id}",
        entry.label
    )
}

fn unusable(id: KeyId, reason: &str) -> String {
    format!("key {id}: {reason}; its password opens nothing any more")
}

fn left(id: KeyId) -> String {
    format!("key {id} was removed, and its slot is there: icecore key remove {id}")
}

/// Writes again what stands twice and is ill in one place.
pub(super) fn repair(
    repository: &UnlockedRepository,
    lease: &repository::lease::Lease,
    report: &mut CheckReport,
) -> Result<()> {
    // Only one that the root key signed is copied.
    repository.refresh_key_list()?;
    let ills = ills(repository)?;
    if ills.iter().any(|(name, _)| !name.starts_with("keys/")) {
        lease.verify()?;
        repository.local()?.config().write(&**repository.local()?.storage())?;
    }
    if ills.iter().any(|(name, _)| name.starts_with("keys/"))
        && let Some(list) = repository.local()?.key_list()?
    {
        repository.local()?.replace_key_list(lease, &list)?;
    }
    report.repaired.extend(ills.into_iter().map(|(name, why)| format!("{name}: {why}")));
    Ok(())
}
