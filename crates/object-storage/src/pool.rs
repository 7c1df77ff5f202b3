//! What a pool in a bucket has beside its repositories: a row of superblocks, and a directory of domains.
//!
//! ```text
//! superblock/NUMBER       which pool this is; the highest number counts, and each is created only if it is absent
//! domains/NAME/           the repository of a domain
//! ```

use crate::away::Away;
use crate::client::Client;
use crate::connect::{Access, connect, no_credentials};
use crate::credentials::{Credentials, variable};
use crate::location::Location;
use crate::names::{number, numbered};
use crate::probe;
use crate::roots;
use bytes::Bytes;
use repository::config;
use repository::storage::{StorageError, StorageResult};
use std::io::{Error, ErrorKind};

const SUPERBLOCK: &str = "superblock";
const DOMAINS: &str = "domains";
/// So many superblocks are kept, for people who look.
const KEPT: usize = 4;
/// Whoever asks for a superblock waits for an answer: the next look repeats it.
const RETRIES: usize = 4;

/// A pool in a bucket.
pub struct BucketPool {
    client: Client,
}

impl BucketPool {
    /// The pool at `location`, by the credentials of the environment. No request is sent.
    ///
    /// # Errors
    /// When there are no credentials, or they make no sense.
    pub fn from_environment(location: &Location) -> StorageResult<Self> {
        let found = Credentials::find(variable);
        let credentials = found.map_err(|reason| no_credentials(location, reason))?;
        Ok(Self::new(connect(
            location,
            &Access { credentials, retries: RETRIES, away: Away::NONE },
        )?))
    }

    /// The pool that `client` reaches.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The number of the last superblock, with the tag by which the storage tells contents apart, if it has one; `None`
    /// where there is none. One request.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn last_superblock(&self) -> StorageResult<Option<(u64, Option<String>)>> {
        Ok(self.rows()?.into_iter().max())
    }

    /// The content of the superblock `number`.
    ///
    /// # Errors
    /// Those of the storage; [`ErrorKind::InvalidData`] when it is damaged.
    pub fn superblock(&self, number: u64) -> StorageResult<Bytes> {
        let object = self.client.get(&numbered(SUPERBLOCK, number))?;
        let damaged = || Error::new(ErrorKind::InvalidData, "it is damaged");
        roots::decode(&object).ok_or_else(|| StorageError::new("read", SUPERBLOCK, damaged()))
    }

    /// The length of all containers of the domain `name`: as many requests as there are thousands of them.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn stored_bytes(&self, name: &str) -> StorageResult<u64> {
        let containers = format!("{DOMAINS}/{name}/containers");
        let listed = self.client.list(&containers, &containers)?;
        Ok(listed.iter().map(|(_, found)| found.length).fold(0, u64::saturating_add))
    }

    /// Writes the superblock `number`. Of those who write the same number, one succeeds.
    ///
    /// # Errors
    /// [`StorageError::already_exists`] when somebody else has written it; those of the storage.
    pub fn put_superblock(&self, number: u64, content: &[u8]) -> StorageResult<()> {
        let name = numbered(SUPERBLOCK, number);
        if self.client.create(&name, &roots::encode(content))?.is_none() {
            let reason = "another server has taken the pool over";
            return Err(StorageError::new(
                "write",
                SUPERBLOCK,
                Error::new(ErrorKind::AlreadyExists, reason),
            ));
        }
        // It is written, whatever becomes of the older ones: who thinks that it is not writes one more at each attempt.
        let _ = self.tidy();
        Ok(())
    }

    /// Removes superblocks that nobody looks at any more.
    fn tidy(&self) -> StorageResult<()> {
        let mut old = self.rows()?;
        old.sort_unstable();
        old.truncate(old.len().saturating_sub(KEPT));
        let old: Vec<_> = old.iter().map(|(number, _)| numbered(SUPERBLOCK, *number)).collect();
        self.client.delete(&old)
    }

    fn rows(&self) -> StorageResult<Vec<(u64, Option<String>)>> {
        let listed = self.client.list(SUPERBLOCK, SUPERBLOCK)?.into_iter();
        let of = |name: &str| number(name.strip_prefix(SUPERBLOCK)?.strip_prefix('/')?);
        Ok(listed.filter_map(|(name, found)| Some((of(&name)?, found.tag))).collect())
    }

    /// The names of the directories below `domains/`.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn domains(&self) -> StorageResult<Vec<String>> {
        let listed = self.client.list_directory(DOMAINS)?.into_iter();
        Ok(listed.filter(|(_, length)| length.is_none()).map(|(name, _)| name).collect())
    }

    /// Whether the domain `name` has a repository: one of the two objects that say which. What a move has copied in part
    /// is none.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn has_repository(&self, name: &str) -> StorageResult<bool> {
        for config in config::NAMES {
            match self.client.length(&format!("{DOMAINS}/{name}/{config}")) {
                Err(error) if error.is_not_found() => {}
                there => return there.map(|_| true),
            }
        }
        Ok(false)
    }

    /// Checks that two writers cannot create the same object: for a new pool.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] when they can; those of the storage.
    pub fn probe(&self) -> StorageResult<()> {
        probe::race(&self.client)
    }
}

impl Location {
    /// Where the repository of the domain `name` lies in the pool at this address.
    pub fn of_domain(&self, name: &str) -> Self {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        let prefix = format!("{}{slash}{DOMAINS}/{name}", self.prefix);
        Self { bucket: self.bucket.clone(), prefix }
    }

    /// Whether one of the two addresses lies within the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        let [one, two] = [self, other].map(|at| format!("{}/", at.prefix.trim_matches('/')));
        let [one, two] = [one, two].map(|prefix| prefix.trim_start_matches('/').to_owned());
        self.bucket == other.bucket && (one.starts_with(&two) || two.starts_with(&one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;
    use std::sync::Arc;

    fn pool(store: &Arc<InMemory>, prefix: &str) -> BucketPool {
        BucketPool::new(Client::new(store.clone(), store.clone(), prefix, "s3://b").unwrap())
    }

    #[test]
    fn the_last_superblock_counts_and_each_number_is_written_once() {
        for prefix in ["", "backup/one"] {
            let store = Arc::new(InMemory::new());
            let (one, two) = (pool(&store, prefix), pool(&store, prefix));
            assert_eq!(one.last_superblock().unwrap(), None);
            for number in 1..=9 {
                one.put_superblock(number, &[number as u8]).unwrap();
            }
            assert!(two.put_superblock(9, b"other").unwrap_err().already_exists());
            assert_eq!(two.last_superblock().unwrap().unwrap().0, 9);
            assert_eq!(two.superblock(9).unwrap(), [9][..]);
            assert_eq!(two.rows().unwrap().len(), KEPT);
            assert_eq!(pool(&store, "another").last_superblock().unwrap(), None);
        }
    }

    #[test]
    fn a_superblock_that_is_damaged_is_an_error_and_none_is_not() {
        let store = Arc::new(InMemory::new());
        let pool = pool(&store, "p");
        pool.put_superblock(1, b"good").unwrap();
        pool.client.put(&numbered(SUPERBLOCK, 2), Bytes::from_static(b"ICEROOT1")).unwrap();
        assert_eq!(pool.superblock(1).unwrap(), b"good"[..]);
        assert_eq!(pool.superblock(2).unwrap_err().source.kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn a_domain_stores_what_its_containers_have_together() {
        let store = Arc::new(InMemory::new());
        let pool = pool(&store, "p");
        assert_eq!(pool.stored_bytes("web").unwrap(), 0);
        for (name, bytes) in [
            ("domains/web/containers/00000000/0000000001.ice", &b"four"[..]),
            ("domains/web/containers/00000001/0000000400.ice", b"three"),
            ("domains/web/config", b"no container"),
            ("domains/web-2/containers/00000000/0000000001.ice", b"another domain"),
        ] {
            pool.client.put(name, Bytes::from_static(bytes)).unwrap();
        }
        assert_eq!(pool.stored_bytes("web").unwrap(), 9);
    }

    #[test]
    fn domains_are_the_directories_below_domains() {
        let store = Arc::new(InMemory::new());
        let pool = pool(&store, "p");
        assert!(pool.domains().unwrap().is_empty());
        for name in ["domains/web-1/config", "domains/db/lease/1", "domains/file", "other/x"] {
            pool.client.put(name, Bytes::from_static(b"x")).unwrap();
        }
        assert_eq!(pool.domains().unwrap(), ["db", "web-1"]);
    }

    #[test]
    fn a_domain_lies_below_its_pool_and_pools_do_not_lie_in_one_another() {
        let at = |text: &str| Location::parse(text).unwrap().unwrap();
        assert_eq!(at("s3://b").of_domain("web").to_string(), "s3://b/domains/web");
        assert_eq!(at("s3://b/p/q/").of_domain("web").to_string(), "s3://b/p/q/domains/web");
        for (one, two, overlaps) in [
            ("s3://b", "s3://b/p", true),
            ("s3://b/p", "s3://b/p/domains/web", true),
            ("s3://b/p", "s3://b/p", true),
            ("s3://b/p", "s3://b/p2", false),
            ("s3://b/p", "s3://c/p", false),
        ] {
            assert_eq!(at(one).overlaps(&at(two)), overlaps, "{one} {two}");
            assert_eq!(at(two).overlaps(&at(one)), overlaps, "{two} {one}");
        }
    }
}
