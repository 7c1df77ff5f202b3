//! The file `config`: what a repository is. Written once, at `init`.

use crate::storage::{Storage, read_small};
use crate::{Error, Result};
use format::limits::PARITY_PERCENT_MAX;
use format::wire::{Reader, checksum};
use ids::RepositoryId;

const NAME: &str = "config";
const MAGIC: [u8; 8] = *b"ICEREPO1";
/// Feature bit 0: containers carry parity (`docs/FORMAT.md`, F-5.6). How much stands in bits 8 to 15.
const FEATURE_PARITY: u64 = 1;
const PARITY_SHIFT: u32 = 8;
const BYTES: usize = 8 + 16 + 8 + 8 + 1 + 12 + 32 + 16;

/// What a repository is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its name.
    pub repository: RepositoryId,
    /// Features that a program must know to open it: see [`Config::with_parity`].
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
    /// This with `percent` of parity in every container; 0 for none.
    pub fn with_parity(self, percent: u32) -> Self {
        let features = match percent {
            0 => 0,
            percent => FEATURE_PARITY | u64::from(percent) << PARITY_SHIFT,
        };
        Self { features, ..self }
    }

    /// Parity of the containers in per cent; 0 for none.
    pub fn parity_percent(&self) -> u32 {
        (self.features >> PARITY_SHIFT) as u32
    }

    /// What an older program does with parity, this one does with all that it does not know.
    fn knows_features(&self) -> Result<()> {
        let percent = self.parity_percent();
        let known = percent <= PARITY_PERCENT_MAX && *self == self.with_parity(percent);
        if known { Ok(()) } else { Err(Error::UnknownFeatures(self.features)) }
    }

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
        config.knows_features().map(|()| config)
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

    /// The file's bytes.
    pub fn encode(&self) -> Vec<u8> {
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

    /// The config in the file's bytes.
    pub fn decode(bytes: &[u8]) -> format::Result<Self> {
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

    fn config() -> Config {
        Config {
            repository: RepositoryId([1; 16]),
            features: 0,
            created_secs: 2,
            privacy: 1,
            chunk_bytes: [3, 4, 5],
            root_key: [6; 32],
        }
    }

    #[test]
    fn parity_is_a_feature_and_others_are_refused() {
        for percent in [0, 1, 25] {
            let config = config().with_parity(percent);
            assert_eq!(config.parity_percent(), percent);
            assert!(config.knows_features().is_ok());
            assert_eq!(config.features == 0, percent == 0, "older programs refuse parity");
        }
        for features in [1, 2, 3, 1 << 8, 1 | 26 << 8, 1 | 3 << 8 | 1 << 16, 1 | 3 << 8 | 1 << 63] {
            let unknown = Config { features, ..config() };
            assert!(unknown.knows_features().is_err(), "{features:#x}");
        }
    }

    #[test]
    fn a_config_is_read_back_and_flips_are_found() {
        let config = config().with_parity(3);
        let bytes = config.encode();
        assert_eq!(Config::decode(&bytes), Ok(config));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Config::decode(&damaged).is_err());
        }
    }
}
