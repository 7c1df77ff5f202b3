//! The storage class into which containers with content of files are written: an object of the repository, so that all
//! who write to it do the same (`docs/FORMAT.md`, F-17.14).

use crate::archived;
use crate::classes::{self, STANDARD};
use crate::client::Kind;
use crate::storage::ObjectStorage;
use bytes::Bytes;
use repository::storage::{StorageError, StorageResult};
use std::io::{Error, ErrorKind};

/// The object with the setting.
pub(crate) const SETTING: &str = "storage-class";
/// Written into a class to see whether the storage has it.
const PROBE: &str = "storage-class.probe";
const FIRST_LINE: &str = "icecore storage-class 1";

impl ObjectStorage {
    /// The class into which containers with content of files are written; `None` if nothing was set.
    ///
    /// # Errors
    /// Those of the storage; when the setting is not understood: to write into another class could cost more.
    pub fn storage_class(&self) -> StorageResult<Option<String>> {
        if !self.has_setting() {
            return Ok(None);
        }
        let text = match self.get_seldom(SETTING) {
            Err(error) if error.is_not_found() => return Ok(None),
            text => text?,
        };
        decode(&text).map(|class| Some(class.to_owned()))
    }

    /// From now on, who begins to write writes such containers into `class`. What is there stays where it is.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] when the storage has no such class; those of the storage.
    pub fn set_storage_class(&self, class: &str) -> StorageResult<()> {
        self.try_storage_class(class)?;
        let text = format!("{FIRST_LINE}\nclass {class}\n");
        self.client().put(SETTING, text.into())?;
        self.note_setting();
        Ok(())
    }

    /// Writes an object into `class`, and looks where it is: many storages take the name of any class, and keep none.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] when the storage has no such class; those of the storage.
    pub fn try_storage_class(&self, class: &str) -> StorageResult<()> {
        if classes::checked(class)? == STANDARD {
            return Ok(());
        }
        let client = self.client();
        let kind = Kind { class: Some(class.to_owned()), ..Kind::default() };
        let refused = |why: String| {
            StorageError::new(
                "use the storage class",
                class,
                Error::new(ErrorKind::Unsupported, why),
            )
        };
        client.put_as(PROBE, Bytes::from_static(b"probe"), &kind).map_err(|error| {
            if error.is_unreachable() { error } else { refused(error.source.to_string()) }
        })?;
        let kept = archived::state(client, PROBE)?.class;
        client.delete(&[PROBE.to_owned()])?;
        if kept == class {
            return Ok(());
        }
        Err(refused(format!("the storage took an object for it and keeps it as {kept}")))
    }
}

fn decode(text: &[u8]) -> StorageResult<&str> {
    let text = std::str::from_utf8(text).unwrap_or_default();
    let mut lines = text.lines();
    let is_ours = lines.next() == Some(FIRST_LINE);
    let class = lines.find_map(|line| line.strip_prefix("class ")).filter(|_| is_ours);
    let wrong = || Error::new(ErrorKind::InvalidInput, "its setting is not understood");
    classes::checked(class.ok_or_else(|| StorageError::new("read", SETTING, wrong()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_not_understood_is_no_class() {
        assert_eq!(decode(b"icecore storage-class 1\nclass GLACIER\n").unwrap(), "GLACIER");
        assert_eq!(
            decode(b"icecore storage-class 1\nlater yes\nclass GLACIER").unwrap(),
            "GLACIER"
        );
        let bad: [&[u8]; 4] =
            [b"", b"class GLACIER", b"icecore storage-class 1\nclass a b", b"\xff"];
        bad.iter().for_each(|text| assert!(decode(text).is_err()));
    }
}
