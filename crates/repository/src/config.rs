//! The file `config`: what a repository is. Written once, at `init`.

use crate::storage::{Storage, read_small};
use crate::{Error, Result};
use format::wire::{Reader, checksum};
use ids::RepositoryId;

const NAME: &str = "config";
const MAGIC: [u8; 8] = *b"ICEREPO1";
const BYTES: usize = 8 + 16 + 8 + 8 + 1 + 12 + 32 + 16;

/// What a repository is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its name.
    pub repository: RepositoryId,
    /// Features that a program must know to open it; none so far.
    pub features: u64,
    /// When it was made, seconds since 1970.
    pub created_secs: i64,
    /// Privacy level: 0 standard, 1 hardened.
    pub privacy: u8,
    /// Smallest, average and largest chunk in bytes.
    pub chunk_bytes: [u32; 3],
    /// Public key that vouches for the key slots.
    pub root_key: [u8; 32],
}

impl Config {
    /// Reads the config.
    pub fn read(storage: &dyn Storage) -> Result<Self> {
        let bytes = read_small(storage, NAME, BYTES).map_err(|error| {
            if error.is_not_found() {
                Error::NoRepository { location: storage.describe() }
            } else {
                error.into()
            }
        })?;
        let config = Self::decode(&bytes).map_err(|reason| Error::damaged(NAME, reason))?;
        if config.features != 0 {
            return Err(Error::UnknownFeatures(config.features));
        }
        Ok(config)
    }

    /// Whether there is a config.
    pub fn exists(storage: &dyn Storage) -> Result<bool> {
        match storage.open(NAME) {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Durably writes the config: the last step of `init`.
    pub fn write(&self, storage: &dyn Storage) -> Result<()> {
        Ok(storage.put(NAME, &self.encode())?)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.repository.0);
        out.extend_from_slice(&self.features.to_le_bytes());
        out.extend_from_slice(&self.created_secs.to_le_bytes());
        out.push(self.privacy);
        self.chunk_bytes.iter().for_each(|bytes| out.extend_from_slice(&bytes.to_le_bytes()));
        out.extend_from_slice(&self.root_key);
        let sum = checksum(&[&out]);
        out.extend_from_slice(&sum);
        out
    }

    fn decode(bytes: &[u8]) -> format::Result<Self> {
        let mut reader = Reader::new(bytes, "config");
        let covered = reader.clone().bytes(BYTES - 16)?;
        if reader.array()? != MAGIC {
            return Err(reader.invalid());
        }
        let config = Self {
            repository: RepositoryId(reader.array()?),
            features: reader.u64()?,
            created_secs: reader.u64()? as i64,
            privacy: reader.u8()?,
            chunk_bytes: [reader.u32()?, reader.u32()?, reader.u32()?],
            root_key: reader.array()?,
        };
        if reader.array()? != checksum(&[covered]) {
            return Err(format::Error::Checksum { what: "config" });
        }
        reader.end().map(|()| config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_is_read_back_and_flips_are_found() {
        let config = Config {
            repository: RepositoryId([1; 16]),
            features: 0,
            created_secs: 2,
            privacy: 1,
            chunk_bytes: [3, 4, 5],
            root_key: [6; 32],
        };
        let bytes = config.encode();
        assert_eq!(Config::decode(&bytes), Ok(config));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Config::decode(&damaged).is_err());
        }
    }
}
