//! The sealed session keys of a container: whoever reads its records needs them first.

use crate::container::read::ContainerReader;
use crate::{Error, Repository, Result};
use format::record::RecordKind;
use ids::{ContainerNo, RecordLocation};

impl Repository {
    /// The sealed session keys in a container, as far as they can be read; with `healed`, with the help of parity.
    pub fn session_keys(&self, container: ContainerNo, healed: bool) -> Result<Vec<Vec<u8>>> {
        let reader = self.container(container)?;
        if !healed {
            return keys_in(&reader);
        }
        let Some(healed) = reader.healed()? else { return Ok(Vec::new()) };
        let keys = keys_in(&healed)?;
        if let Some(row) = healed.rows()?.iter().find(|row| row.has_kind(RecordKind::Session)) {
            self.note_healed(RecordLocation { container, offset: row.offset, length: row.length });
        }
        Ok(keys)
    }
}

/// The clear parts of the session records in a container; an error when there are records and none can be read.
fn keys_in(reader: &ContainerReader) -> Result<Vec<Vec<u8>>> {
    let rows = match reader.rows() {
        Ok(rows) => rows,
        // The footer is damaged: the records still say what they are.
        Err(_) => reader.walk(|_, _| ())?.rows,
    };
    let (mut keys, mut failed) = (Vec::new(), None);
    for row in rows.iter().filter(|row| row.has_kind(RecordKind::Session)) {
        // Each is there twice, so a damaged one does not matter while the other is good.
        match reader.associated(row).and_then(clear_of) {
            Ok(key) => keys.push(key),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if keys.is_empty() => Err(error),
        _ => Ok(keys),
    }
}

fn clear_of(associated: Vec<u8>) -> Result<Vec<u8>> {
    let record = format::record::head_only(&associated);
    Ok(record.map_err(|reason| Error::damaged("session record", reason))?.clear.to_vec())
}
