//! Key slots: each is as its maker made it, and lies under its own name.

use super::{Damage, Report};
use crate::manifest::root_key;
use crate::{Archive, Result};

pub(super) fn check(archive: &Archive, report: &mut Report) -> Result<()> {
    let root = root_key(archive);
    for (id, slot) in archive.local()?.key_slots()? {
        let reason = match crypto::verify_slot_certificate(&slot, &root) {
            Ok(info) if info.id == id => continue,
            Ok(info) => format!("it is the slot of key {}", info.id),
            Err(error) => error.to_string(),
        };
        let what = format!("key {id}: {reason}; its password may open nothing any more");
        report.damages.push(Damage { what, ..Damage::default() });
    }
    Ok(())
}
