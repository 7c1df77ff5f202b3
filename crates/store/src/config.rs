//! The settings of a repository: written by `init` and never changed. The root key signs them; without a key only their
//! checksum can be verified.

use format::limits::PARITY_PERCENT_MAX;
use format::wire::{Reader, checksum};
use ids::RepositoryId;

const MAGIC: [u8; 8] = *b"ICEREPO2";
/// Feature bit 0: containers have parity (`docs/FORMAT.md`, F-5.6). Bits 8 to 15 hold the percentage.
const FEATURE_PARITY: u64 = 1;
const PARITY_SHIFT: u32 = 8;
/// Feature bit 1: no object is shared by two backups (`docs/CRYPTO.md`, "Ids").
const FEATURE_NO_DEDUP: u64 = 2;
/// Bytes reserved for optional features.
pub const EXTENSION_BYTES: usize = 64;
const SIGNED_BYTES: usize = 8 + 16 + 8 + 8 + 8 + 1 + 12 + 32 + EXTENSION_BYTES;
const SIGNATURE_BYTES: usize = 64;

/// The settings of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its name.
    pub repository: RepositoryId,
    /// Features that a program must support to open it: see [`Config::with_parity`].
    pub features: u64,
    /// Features that a program may ignore.
    pub optional: u64,
    /// When it was created, in seconds since 1970.
    pub created_secs: i64,
    /// Privacy level: 1 standard, 2 hardened, as in key slots.
    pub privacy: u8,
    /// Smallest, average and largest chunk in bytes.
    pub chunk_bytes: [u32; 3],
    /// Public key that vouches for key slots, signers, and this.
    pub root_key: [u8; 32],
    /// Data of optional features; zeros when there are none.
    pub extension: [u8; EXTENSION_BYTES],
    /// Signature of the root key over all of this.
    pub signature: [u8; SIGNATURE_BYTES],
}

impl Config {
    /// Length of its file in bytes.
    pub const BYTES: usize = SIGNED_BYTES + SIGNATURE_BYTES + 16;

    /// Settings without features and signature.
    pub fn new(
        repository: RepositoryId,
        root_key: [u8; 32],
        created_secs: i64,
        privacy: u8,
        chunk_bytes: [u32; 3],
    ) -> Self {
        let (features, optional) = (0, 0);
        let (extension, signature) = ([0; EXTENSION_BYTES], [0; SIGNATURE_BYTES]);
        Self {
            repository,
            features,
            optional,
            created_secs,
            privacy,
            chunk_bytes,
            root_key,
            extension,
            signature,
        }
    }

    /// This with `percent` of parity in every container; 0 for none.
    pub fn with_parity(self, percent: u32) -> Self {
        let parity = match percent {
            0 => 0,
            percent => FEATURE_PARITY | u64::from(percent) << PARITY_SHIFT,
        };
        Self { features: self.features & FEATURE_NO_DEDUP | parity, ..self }
    }

    /// This with or without deduplication between backups.
    pub fn with_dedup(self, dedup: bool) -> Self {
        let rest = self.features & !FEATURE_NO_DEDUP;
        Self { features: if dedup { rest } else { rest | FEATURE_NO_DEDUP }, ..self }
    }

    /// This with the signature that `sign` makes.
    pub fn signed(self, sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_BYTES]) -> Self {
        Self { signature: sign(&self.signed_bytes()), ..self }
    }

    /// Whether backups share equal data; else each one stores all of its own.
    pub fn dedup(&self) -> bool {
        self.features & FEATURE_NO_DEDUP == 0
    }

    /// Parity of the containers in per cent; 0 for none.
    pub fn parity_percent(&self) -> u32 {
        (self.features >> PARITY_SHIFT) as u32
    }

    /// Features that this program does not know, so that it must not open the repository: `None` if it knows all.
    pub fn unknown_features(&self) -> Option<u64> {
        // What an older program does with parity, this one does with all that it does not know.
        let percent = self.parity_percent();
        let is_known = percent <= PARITY_PERCENT_MAX && *self == self.with_parity(percent);
        (!is_known).then_some(self.features)
    }

    /// The bytes that the root key signs.
    pub fn signed_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.repository.0);
        out.extend_from_slice(&self.features.to_le_bytes());
        out.extend_from_slice(&self.optional.to_le_bytes());
        out.extend_from_slice(&self.created_secs.to_le_bytes());
        out.push(self.privacy);
        self.chunk_bytes.iter().for_each(|bytes| out.extend_from_slice(&bytes.to_le_bytes()));
        out.extend_from_slice(&self.root_key);
        out.extend_from_slice(&self.extension);
        out
    }

    /// The file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.signed_bytes();
        out.extend_from_slice(&self.signature);
        let sum = checksum(&[&out]);
        out.extend_from_slice(&sum);
        out
    }

    /// The config in the file's bytes.
    pub fn decode(bytes: &[u8]) -> format::Result<Self> {
        let mut reader = Reader::new(bytes, "config");
        let covered = reader.clone().bytes(Self::BYTES - 16)?;
        if reader.array()? != MAGIC {
            return Err(reader.invalid());
        }
        let config = Self {
            repository: RepositoryId(reader.array()?),
            features: reader.u64()?,
            optional: reader.u64()?,
            created_secs: reader.u64()? as i64,
            privacy: reader.u8()?,
            chunk_bytes: [reader.u32()?, reader.u32()?, reader.u32()?],
            root_key: reader.array()?,
            extension: reader.array()?,
            signature: reader.array()?,
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
        Config::new(RepositoryId([1; 16]), [6; 32], 2, 1, [3, 4, 5])
    }

    #[test]
    fn parity_and_no_deduplication_are_features_and_others_are_refused() {
        for percent in [0, 1, 25] {
            let config = config().with_parity(percent);
            assert_eq!(config.parity_percent(), percent);
            assert_eq!(config.unknown_features(), None);
            assert_eq!(config.features == 0, percent == 0, "older programs refuse parity");
            let apart = config.with_dedup(false);
            assert_eq!((apart.dedup(), config.dedup()), (false, true));
            assert_eq!((apart.parity_percent(), apart.unknown_features()), (percent, None));
            assert_eq!(apart.features & 2, 2, "older programs refuse it");
            assert_eq!(apart.with_dedup(true), config);
        }
        for features in
            [1, 3, 4, 6, 1 << 8, 1 | 26 << 8, 1 | 3 << 8 | 1 << 16, 1 | 3 << 8 | 1 << 63]
        {
            let unknown = Config { features, ..config() };
            assert_eq!(unknown.unknown_features(), Some(features));
        }
    }

    #[test]
    fn what_is_optional_need_not_be_known_and_is_signed() {
        let mut signed = Vec::new();
        let some = Config { optional: 1 << 40, extension: [9; EXTENSION_BYTES], ..config() };
        let some = some.signed(|bytes| {
            signed = bytes.to_vec();
            [8; 64]
        });
        assert_eq!(some.unknown_features(), None);
        assert_eq!(Config::decode(&some.encode()), Ok(some));
        assert_eq!(signed, some.signed_bytes());
        assert_ne!(signed, config().signed_bytes());
    }

    #[test]
    fn a_config_is_read_back_and_flips_are_found() {
        let config = config().with_parity(3).signed(|_| [7; 64]);
        let bytes = config.encode();
        assert_eq!((Config::decode(&bytes), bytes.len()), (Ok(config), Config::BYTES));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Config::decode(&damaged).is_err());
        }
    }
}
