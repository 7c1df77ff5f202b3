//! Deliveries: the secret of a new key epoch, sealed to a key that was made in an older one.
//!
//! The public half of a delivery key is in the key's slot, certified by the root key. Its secret half derives from what
//! only the holder of the slot can open.

use ids::{KeyEpoch, KeyId, RepositoryId};
use zeroize::Zeroize;

use crate::context::{self, derive};
use crate::epoch::EpochSecret;
use crate::error::damaged;
use crate::recipient::{SingleUseKey, exchange};
use crate::{Error, RecipientPublic, RecipientSecret, TAG_LEN};

/// Length of a sealed secret.
pub(crate) const DELIVERY_LEN: usize = 32 + TAG_LEN;

/// A sealed secret of an epoch.
pub(crate) type Delivery = [u8; DELIVERY_LEN];

/// The key that deliveries are sealed to; zeros for a key that needs none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeliveryKey(pub(crate) [u8; 32]);

impl DeliveryKey {
    /// For a key that needs no deliveries, because it can compute all secrets, or none.
    pub(crate) const NONE: Self = Self([0; 32]);
}

/// The secret half, from the seed in a slot.
pub(crate) fn secret_of(seed: &[u8; 32]) -> RecipientSecret {
    RecipientSecret::from_bytes(*derive(context::DELIVERY_KEY, &[seed]))
}

/// The public half.
pub(crate) fn public_of(seed: &[u8; 32]) -> DeliveryKey {
    DeliveryKey(*secret_of(seed).public().as_bytes())
}

/// What a delivery is for: all of it is bound into its key.
#[derive(Clone, Copy)]
pub(crate) struct Purpose {
    pub(crate) repository: RepositoryId,
    pub(crate) epoch: KeyEpoch,
    pub(crate) key: KeyId,
}

impl Purpose {
    /// A key for one message: no other delivery has the same ephemeral key, epoch and key id.
    fn key(self, shared: &[u8; 32], ephemeral: &RecipientPublic, to: &DeliveryKey) -> SingleUseKey {
        let epoch = self.epoch.0.to_le_bytes();
        let parts: [&[u8]; 6] =
            [shared, ephemeral.as_bytes(), &to.0, &self.repository.0, &epoch, &self.key.0];
        SingleUseKey::new(derive(context::DELIVERY, &parts))
    }
}

/// `secret`, readable for the holder of `to` alone.
pub(crate) fn seal(
    secret: &EpochSecret,
    ephemeral: &RecipientSecret,
    to: &DeliveryKey,
    purpose: Purpose,
) -> Result<Delivery, Error> {
    let shared = exchange(ephemeral, &RecipientPublic::from_bytes(to.0))?;
    let mut buffer = Vec::with_capacity(DELIVERY_LEN);
    buffer.extend_from_slice(secret.as_bytes());
    purpose.key(&shared, &ephemeral.public(), to).seal(&[], &mut buffer);
    buffer.try_into().map_err(|_| damaged("a delivery"))
}

/// What [`seal`] sealed to the public half of `own`.
pub(crate) fn open(
    mut sealed: Delivery,
    own: &RecipientSecret,
    ephemeral: &RecipientPublic,
    purpose: Purpose,
) -> Result<EpochSecret, Error> {
    let shared = exchange(own, ephemeral)?;
    let key = purpose.key(&shared, ephemeral, &DeliveryKey(*own.public().as_bytes()));
    let plain = key.open(&[], &mut sealed).ok_or(damaged("a delivery"))?;
    let secret = (&*plain).try_into().map(EpochSecret::from_bytes);
    plain.zeroize();
    secret.map_err(|_| damaged("a delivery"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    const PURPOSE: Purpose =
        Purpose { repository: RepositoryId([5; 16]), epoch: KeyEpoch(3), key: KeyId([6; 8]) };

    fn sealed() -> (Delivery, RecipientPublic) {
        let ephemeral = RecipientSecret::from_bytes([8; 32]);
        let secret = EpochSecret::from_bytes([9; 32]);
        let sealed = seal(&secret, &ephemeral, &public_of(&[1; 32]), PURPOSE).expect("strong");
        (sealed, ephemeral.public())
    }

    #[test]
    fn a_delivery_of_fixed_keys_is_fixed_and_opens() {
        let (sealed, ephemeral) = sealed();
        assert_eq!(
            hex(&sealed),
            "3d4d8e1d4c809a8bd1b8d668b5ca1e396cc68acfac20289a2707685bc6c4ac8cf9081e93a26ad7c6e4b520ee481e0660"
        );
        let opened = open(sealed, &secret_of(&[1; 32]), &ephemeral, PURPOSE).expect("its own");
        assert_eq!(opened.as_bytes(), &[9; 32]);
    }

    #[test]
    fn a_delivery_opens_for_its_key_epoch_and_repository_only() {
        let (sealed, ephemeral) = sealed();
        let own = secret_of(&[1; 32]);
        for purpose in [
            Purpose { repository: RepositoryId([4; 16]), ..PURPOSE },
            Purpose { epoch: KeyEpoch(4), ..PURPOSE },
            Purpose { key: KeyId([7; 8]), ..PURPOSE },
        ] {
            assert!(open(sealed, &own, &ephemeral, purpose).is_err());
        }
        assert!(open(sealed, &secret_of(&[2; 32]), &ephemeral, PURPOSE).is_err());
        let other = RecipientSecret::from_bytes([3; 32]).public();
        assert!(open(sealed, &own, &other, PURPOSE).is_err());
        for at in 0..sealed.len() {
            let mut bad = sealed;
            bad[at] ^= 1;
            assert!(open(bad, &own, &ephemeral, PURPOSE).is_err(), "byte {at}");
        }
    }

    #[test]
    fn nothing_is_delivered_to_a_key_without_strength() {
        let ephemeral = RecipientSecret::from_bytes([8; 32]);
        let secret = EpochSecret::from_bytes([9; 32]);
        assert!(seal(&secret, &ephemeral, &DeliveryKey::NONE, PURPOSE).is_err());
    }
}
