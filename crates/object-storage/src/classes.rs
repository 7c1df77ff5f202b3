//! Storage classes: what reading an object costs that lies in one, and how it is brought back.
//!
//! Hours are those that AWS publishes ("Archive retrieval options"). Other storages have classes of other names: what is
//! not known here counts as cold, so nobody pays for a read that he did not ask for.

use repository::storage::{StorageError, StorageResult};
use std::io::{Error, ErrorKind};

/// The class of what has none.
pub const STANDARD: &str = "STANDARD";
/// Classes that are no archive: a read costs little (at AWS, in those of "infrequent access" as much as a month of storage),
/// so that reclaim gains by it.
const WARM: [&str; 6] = [
    STANDARD,
    "STANDARD_IA",
    "ONEZONE_IA",
    "INTELLIGENT_TIERING",
    "REDUCED_REDUNDANCY",
    "EXPRESS_ONEZONE",
];
/// Classes from which an object has to be brought back before it can be read.
const ARCHIVES: [&str; 2] = ["GLACIER", "DEEP_ARCHIVE"];
/// The longest name of a class.
const NAME_MAX: usize = 64;

/// How fast an object is brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// In minutes, for the highest price; not from the deepest archives.
    Expedited,
    /// What the storage takes if nothing is said.
    Standard,
    /// The cheapest one.
    Bulk,
}

impl Tier {
    /// The fastest one first.
    pub const ALL: [Tier; 3] = [Tier::Expedited, Tier::Standard, Tier::Bulk];

    /// As the storage calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Expedited => "Expedited",
            Self::Standard => "Standard",
            Self::Bulk => "Bulk",
        }
    }

    /// How long it takes from `archive`, as AWS publishes; `None` where it is not offered.
    pub fn takes(self, archive: &str) -> Option<&'static str> {
        let is_deep = matches!(archive, "DEEP_ARCHIVE" | "DEEP_ARCHIVE_ACCESS");
        match (self, is_deep) {
            (Self::Expedited, true) => None,
            (Self::Expedited, false) => Some("1 to 5 minutes"),
            (Self::Standard, true) => Some("within 12 hours"),
            (Self::Standard, false) => Some("3 to 5 hours"),
            (Self::Bulk, true) => Some("within 48 hours"),
            (Self::Bulk, false) => Some("5 to 12 hours"),
        }
    }
}

/// Whether reading from `class` costs more than usual.
pub(crate) fn is_cold(class: &str) -> bool {
    !WARM.contains(&class)
}

/// Whether an object in `class` has to be brought back first.
pub(crate) fn is_archive(class: &str) -> bool {
    ARCHIVES.contains(&class)
}

/// `class`, if a storage can have one of that name.
pub(crate) fn checked(class: &str) -> StorageResult<&str> {
    let is_sign =
        |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    if !class.is_empty() && class.len() <= NAME_MAX && class.bytes().all(is_sign) {
        return Ok(class);
    }
    let why = "the name of a storage class has capital letters, digits and _, as in DEEP_ARCHIVE";
    Err(StorageError::new("use the storage class", class, Error::new(ErrorKind::InvalidInput, why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_knows_is_cold_and_can_be_read() {
        assert!(is_cold("MY_TAPE") && !is_archive("MY_TAPE"));
        assert!(is_cold("GLACIER_IR") && !is_archive("GLACIER_IR") && !is_cold("STANDARD_IA"));
        assert!(!is_cold(STANDARD) && is_archive("GLACIER") && is_archive("DEEP_ARCHIVE"));
    }

    #[test]
    fn the_deepest_archive_gives_nothing_back_in_minutes() {
        let all = |archive| Tier::ALL.map(|tier| tier.takes(archive).is_some());
        assert_eq!(all("DEEP_ARCHIVE"), [false, true, true]);
        assert_eq!(all("GLACIER"), [true; 3]);
    }

    #[test]
    fn a_name_that_no_header_can_have_is_refused() {
        assert!(checked("DEEP_ARCHIVE").is_ok() && checked("COLD-2").is_ok());
        ["", "deep archive", "A\r\nB", &"A".repeat(65)]
            .iter()
            .for_each(|name| assert!(checked(name).is_err()));
    }
}
