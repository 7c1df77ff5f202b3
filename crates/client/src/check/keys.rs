//! Key slots, the list of signers and the settings: each is as its maker made it, lies under its own
//! name, and what stands twice does so.

use super::{Damage, Report};
use crate::{Archive, Result};
use crypto::{SignerInfo, SignerList, SlotInfo};
use ids::KeyId;
use repository::config::Config;

/// What stands twice and is lost or damaged in one place.
fn ills(archive: &Archive) -> Result<Vec<(&'static str, String)>> {
    let mut ills = Config::ills(&**archive.local()?.storage())?;
    ills.extend(archive.local()?.ills_of_signers()?);
    Ok(ills)
}

pub(super) fn check(archive: &Archive, report: &mut Report) -> Result<()> {
    let damages = &mut report.damages;
    let mut tell = |what, healable| damages.push(Damage { what, healable, ..Damage::default() });
    // Without it nobody can say what is forged: `rebuild` makes it anew.
    let list = archive.signers_anew()?;
    for (name, why) in ills(archive)? {
        tell(format!("{why} ({name}, which stands twice)"), true);
    }
    for (id, slot) in archive.local()?.key_slots()? {
        match crypto::verify_slot_certificate(&slot, &archive.slot.root) {
            Ok(info) if info.id != id => {
                tell(unusable(id, &format!("it is the slot of key {}", info.id)), false);
                report.damaged_keys.push(id.to_string());
            }
            Ok(info) if is_known(&list, &info) => {}
            // A removal that was cut off, or somebody put it back: it signs nothing either way.
            Ok(_) => report.notes.push(Damage { what: left(id), ..Damage::default() }),
            Err(error) => {
                tell(unusable(id, &error.to_string()), false);
                report.damaged_keys.push(id.to_string());
            }
        }
    }
    Ok(())
}

fn unusable(id: KeyId, reason: &str) -> String {
    format!("key {id}: {reason}; its password opens nothing any more")
}

fn left(id: KeyId) -> String {
    format!("key {id} was removed, and its slot is there: icecore key remove {id}")
}

fn is_known(list: &SignerList, info: &SlotInfo) -> bool {
    !info.role.writes() || list.find(info.id).is_some_and(SignerInfo::is_live)
}

/// Writes again what stands twice and is ill in one place.
pub(super) fn repair(
    archive: &Archive,
    lease: &repository::lease::Lease,
    report: &mut Report,
) -> Result<()> {
    // Only one that the root key signed is copied.
    archive.signers_anew()?;
    let ills = ills(archive)?;
    if ills.iter().any(|(name, _)| !name.starts_with("keys/")) {
        lease.verify()?;
        archive.local()?.config().write(&**archive.local()?.storage())?;
    }
    if ills.iter().any(|(name, _)| name.starts_with("keys/"))
        && let Some(list) = archive.local()?.signers()?
    {
        archive.local()?.replace_signers(lease, &list)?;
    }
    report.repaired.extend(ills.into_iter().map(|(name, why)| format!("{name}: {why}")));
    Ok(())
}
