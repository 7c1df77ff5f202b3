//! From a password or recovery key to the key that opens a slot.

use argon2::{Algorithm, Argon2, Params, Version};
use zeroize::Zeroizing;

use super::SlotSecret;
use crate::Error;
use crate::context::{self, derive};

/// Most memory a slot may ask for: 1 GiB, in KiB.
pub(super) const MAX_MEMORY_KIB: u32 = 1 << 20;
/// Most passes a slot may ask for.
pub(super) const MAX_PASSES: u32 = 16;
/// Most lanes a slot may ask for.
pub(super) const MAX_LANES: u32 = 16;
pub(super) const SALT_LEN: usize = 16;

/// Cost of Argon2id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KdfParams {
    /// Memory in KiB, at most 1 GiB and at least 8 for each lane.
    pub memory_kib: u32,
    /// Passes over the memory, 1 to 16.
    pub passes: u32,
    /// Lanes, 1 to 16.
    pub lanes: u32,
}

impl KdfParams {
    /// The most memory, in KiB.
    pub const MEMORY_KIB_MAX: u32 = MAX_MEMORY_KIB;
    /// The most passes.
    pub const PASSES_MAX: u32 = MAX_PASSES;
    /// 19 MiB, 2 passes, 1 lane: OWASP's first recommendation, and opening a repository stays
    /// under 50 ms.
    pub const DEFAULT: Self = Self { memory_kib: 19 * 1024, passes: 2, lanes: 1 };

    /// Checked before the hash runs: the numbers may come from a hostile file.
    fn check(self) -> Result<Params, Error> {
        let within = |value, max, what| match value {
            1.. if value <= max => Ok(()),
            _ => Err(Error::KdfLimits { what }),
        };
        within(self.memory_kib, MAX_MEMORY_KIB, "memory")?;
        within(self.passes, MAX_PASSES, "passes")?;
        within(self.lanes, MAX_LANES, "lanes")?;
        Params::new(self.memory_kib, self.passes, self.lanes, Some(32))
            .map_err(|_| Error::KdfLimits { what: "memory for each lane" })
    }
}

impl Default for KdfParams {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// How a slot's key comes from its secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kdf {
    Argon2id(KdfParams),
    Recovery,
}

impl Kdf {
    pub(super) fn for_secret(secret: &SlotSecret<'_>, params: KdfParams) -> Result<Self, Error> {
        match secret {
            SlotSecret::Password([]) => Err(Error::EmptyPassword),
            SlotSecret::Password(_) => params.check().map(|_| Self::Argon2id(params)),
            SlotSecret::Recovery(_) => Ok(Self::Recovery),
        }
    }

    /// The key-encryption key. [`Error::WrongKey`] when the secret is of the other kind.
    pub(super) fn kek(
        self,
        secret: &SlotSecret<'_>,
        salt: &[u8; SALT_LEN],
    ) -> Result<Zeroizing<[u8; 32]>, Error> {
        match (self, secret) {
            (Self::Argon2id(params), SlotSecret::Password(password)) => {
                argon2id(params, password, salt)
            }
            (Self::Recovery, SlotSecret::Recovery(key)) => {
                Ok(derive(context::RECOVERY_KEK, &[key, salt]))
            }
            _ => Err(Error::WrongKey),
        }
    }

    pub(super) fn params(self) -> Option<KdfParams> {
        match self {
            Self::Argon2id(params) => Some(params),
            Self::Recovery => None,
        }
    }
}

fn argon2id(
    params: KdfParams,
    password: &[u8],
    salt: &[u8; SALT_LEN],
) -> Result<Zeroizing<[u8; 32]>, Error> {
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params.check()?);
    let mut kek = Zeroizing::new([0; 32]);
    match argon2.hash_password_into(password, salt, &mut kek[..]) {
        Ok(()) => Ok(kek),
        Err(argon2::Error::OutOfMemory) => Err(Error::OutOfMemory),
        Err(_) => Err(Error::WrongKey), // a password of 4 GiB or more
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CHEAP, hex};

    fn params(memory_kib: u32, passes: u32, lanes: u32) -> KdfParams {
        KdfParams { memory_kib, passes, lanes }
    }

    #[test]
    fn keys_of_fixed_secrets_are_fixed() {
        let password = Kdf::Argon2id(CHEAP).kek(&SlotSecret::Password(b"password"), &[1; 16]);
        let recovery = Kdf::Recovery.kek(&SlotSecret::Recovery([2; 32]), &[1; 16]);
        assert_eq!(
            hex(&password.expect("cheap")[..]),
            "55dbcec536a7ea872cbe528dfbbdb777efd2d13a7c8ea45133d0f58684ca1fe7"
        );
        assert_eq!(
            hex(&recovery.expect("cheap")[..]),
            "1c2a15f2094323f8d25b65e0c67dbf78a23702a09de3e03901ba60afd600547d"
        );
    }

    #[test]
    fn greedy_and_senseless_parameters_are_refused_before_they_run() {
        let refused = [
            params(MAX_MEMORY_KIB + 1, 1, 1),
            params(u32::MAX, 1, 1),
            params(64, MAX_PASSES + 1, 1),
            params(1024, 1, MAX_LANES + 1),
            params(0, 1, 1),
            params(8, 0, 1),
            params(8, 1, 0),
            params(15, 1, 2),
        ];
        for params in refused {
            let started = Kdf::Argon2id(params).kek(&SlotSecret::Password(b"p"), &[0; 16]);
            assert!(matches!(started, Err(Error::KdfLimits { .. })), "{params:?}");
        }
    }

    #[test]
    fn the_default_is_within_the_limits() {
        assert!(KdfParams::DEFAULT.check().is_ok());
        assert!(params(MAX_MEMORY_KIB, MAX_PASSES, MAX_LANES).check().is_ok());
    }
}
