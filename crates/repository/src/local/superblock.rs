//! The superblock of a pool: a small file that says which pool a directory is. Without it a directory where nothing is
//! mounted would look like a new and empty pool.
//!
//! ```text
//! icecore pool 1
//! id 3f2504e04f8941d39a0c0305e82c3301
//! generation 7
//! storage disk-1
//! further archive 91c3b9a2f1f24d56a7e4a0a5d8c6e1b0
//! check 9c56cc51b374c3ba189210d5b6d4bf57
//! ```

use super::LocalStorage;
use crate::storage::{Storage, StorageError, StorageResult, read_small};
use std::io::{Error, ErrorKind};

/// Name of the file.
pub const FILE: &str = "superblock";
const FILE_BYTES_MAX: usize = 64 << 10;
/// Most further pools that a first one names: with names of 63 bytes, they fill less than a file that is read.
pub const FURTHER_MAX: usize = 500;
const MAGIC: &str = "icecore pool 1";
const ID_DIGITS: usize = 32;

/// Which pool it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Random: 32 hex digits.
    pub id: String,
    /// Rises when a server begins to use the pool. One that finds a higher one than its own has lost the pool.
    pub generation: u64,
    /// Name of the storage server to which it belongs, if it is one.
    pub storage: Option<String>,
    /// In the first pool of a server: the others that it has.
    pub further: Vec<FurtherPool>,
}

/// A further pool, as the first one of its server names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FurtherPool {
    /// A name of letters, digits and dashes.
    pub name: String,
    /// That of its superblock.
    pub id: String,
}

impl Superblock {
    /// A new pool with the random `id`.
    pub fn new(id: [u8; 16]) -> Self {
        let id = id.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { id, generation: 1, storage: None, further: Vec::new() }
    }

    /// Reads it in the directory of the pool; `None` if there is none.
    ///
    /// # Errors
    /// Those of the storage, and [`ErrorKind::InvalidData`] if it is damaged.
    pub fn read(storage: &LocalStorage) -> StorageResult<Option<Self>> {
        match read_small(storage, FILE, FILE_BYTES_MAX) {
            Err(error) if error.is_not_found() => Ok(None),
            bytes => Self::decode(&bytes?).map(Some).ok_or_else(damaged),
        }
    }

    /// Durably replaces it.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn write(&self, storage: &LocalStorage) -> StorageResult<()> {
        storage.put(FILE, self.encode().as_bytes())
    }

    /// The text of the file.
    pub fn encode(&self) -> String {
        let Self { id, generation, storage, further } = self;
        let storage = storage.as_ref().map(|name| format!("storage {name}\n")).unwrap_or_default();
        let further: String =
            further.iter().map(|pool| format!("further {} {}\n", pool.name, pool.id)).collect();
        let body = format!("{MAGIC}\nid {id}\ngeneration {generation}\n{storage}{further}");
        let check = checksum(&body);
        format!("{body}check {check}\n")
    }

    /// The superblock in the bytes of the file; `None` if they are not what was written.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (body, check) = text.strip_suffix('\n')?.rsplit_once("check ")?;
        let lines: Vec<&str> = body.lines().collect();
        let [MAGIC, id, generation, ref others @ ..] = lines[..] else { return None };
        let (id, generation) = (id.strip_prefix("id ")?, generation.strip_prefix("generation ")?);
        let is_id = id.len() == ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_good = is_id && check == checksum(body);
        let storage = others.iter().find_map(|line| line.strip_prefix("storage "));
        let further = others.iter().filter_map(|line| further_pool(line)).collect();
        let (id, storage) = (id.to_owned(), storage.map(str::to_owned));
        let found = Self { id, generation: generation.parse().ok()?, storage, further };
        is_good.then_some(found)
    }
}

fn further_pool(line: &str) -> Option<FurtherPool> {
    let (name, id) = line.strip_prefix("further ")?.split_once(' ')?;
    Some(FurtherPool { name: name.to_owned(), id: id.to_owned() })
}

/// As everywhere in the format: the first 16 bytes of BLAKE3.
fn checksum(body: &str) -> String {
    blake3::hash(body.as_bytes()).to_hex()[..32].to_owned()
}

fn damaged() -> StorageError {
    StorageError::new("read", FILE, Error::new(ErrorKind::InvalidData, "it is damaged"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superblock_is_read_back_and_flips_are_found() {
        let storage = Some("disk-1".to_owned());
        let further = ["archive", "fast"]
            .map(|name| FurtherPool { name: name.to_owned(), id: "0b".repeat(16) })
            .to_vec();
        let pool = Superblock { generation: 7, storage, further, ..Superblock::new([0xab; 16]) };
        let mut bytes = pool.encode().into_bytes();
        assert_eq!(Superblock::decode(&bytes).as_ref(), Some(&pool));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                assert_eq!(Superblock::decode(&bytes), None, "byte {at}, bit {bit}");
                bytes[at] ^= 1 << bit;
            }
            assert_eq!(Superblock::decode(&bytes[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn as_many_further_pools_as_there_may_be_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::open(folder.path()).unwrap();
        let pool = |n: usize| FurtherPool { name: format!("{n:a>63}"), id: "0b".repeat(16) };
        let further = (0..FURTHER_MAX).map(pool).collect();
        let (generation, storage_server) = (u64::MAX, Some("s".repeat(63)));
        let full = Superblock {
            generation,
            storage: storage_server,
            further,
            ..Superblock::new([0xab; 16])
        };
        full.write(&storage).unwrap();
        assert_eq!(Superblock::read(&storage).unwrap(), Some(full));
    }

    #[test]
    fn lines_of_a_later_version_are_passed_over() {
        let body = format!("{MAGIC}\nid {}\ngeneration 3\nowner x\n", "0".repeat(32));
        let text = format!("{body}check {}\n", checksum(&body));
        assert_eq!(Superblock::decode(text.as_bytes()).unwrap().generation, 3);
    }

    #[test]
    fn a_missing_one_is_none_and_a_damaged_one_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::open(folder.path()).unwrap();
        assert_eq!(Superblock::read(&storage).unwrap(), None);
        let pool = Superblock::new([1; 16]);
        pool.write(&storage).unwrap();
        assert_eq!(Superblock::read(&storage).unwrap(), Some(pool));
        std::fs::write(folder.path().join(FILE), "icecore pool 1\n").unwrap();
        assert!(Superblock::read(&storage).is_err());
    }
}
