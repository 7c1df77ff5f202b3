//! Secrets at rest in the catalog, sealed with a key in another file: a copy of the catalog alone opens no domain.

use crate::{Error, Result, random};
use api::enroll::KeyMode;
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use catalog::Catalog;
use data_encoding::HEXLOWER;
use ids::RepositoryId;
use server_contract::folder::Folder;
use zeroize::Zeroizing;

/// The file with the key.
const NAME: &str = "master.key";

/// Seals the secrets of managed domains.
pub(crate) struct MasterKey {
    key: Zeroizing<[u8; 32]>,
    seal: RandomizedNonceKey,
}

/// The key of managed domains. A new one only where there is none of them yet, and none with which not one secret
/// opens: else all would look well until the first secret that is needed.
pub(crate) fn open_master(folder: &Folder, catalog: &Catalog) -> Result<MasterKey> {
    let domains = catalog.domains()?;
    let is_needed = domains.iter().any(|domain| domain.keys == KeyMode::Managed);
    let path = folder.file(NAME);
    let text = folder.secret(NAME, || match is_needed {
        true => Err(Error::NoMasterKey { path: path.clone() }),
        false => new_key(),
    })?;
    let key = MasterKey::from_text(&text)?;
    let mut sealed =
        domains.iter().filter_map(|it| Some((it.name.as_str(), it.sealed.as_deref()?)));
    let is_another = sealed.clone().next().is_some()
        && !sealed.any(|(domain, sealed)| key.open(domain, sealed).is_ok());
    if is_another { Err(Error::AnotherMasterKey { path }) } else { Ok(key) }
}

/// A new key as text.
fn new_key() -> Result<Zeroizing<String>> {
    Ok(Zeroizing::new(HEXLOWER.encode(&random::<32>()?[..])))
}

impl MasterKey {
    /// The key in `text`.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is none.
    pub(crate) fn from_text(text: &str) -> Result<Self> {
        let bad = || {
            Error::Usage("master.key does not contain 64 hex digits: bring it back from the copy of the server's files".to_owned())
        };
        let bytes = Zeroizing::new(HEXLOWER.decode(text.as_bytes()).map_err(|_| bad())?);
        let key: [u8; 32] = bytes.as_slice().try_into().map_err(|_| bad())?;
        let seal = RandomizedNonceKey::new(&AES_256_GCM, &bytes).map_err(|_| bad())?;
        Ok(Self { key: Zeroizing::new(key), seal })
    }

    /// What opens the server's own slot in `repository`, if it was made for the domain `name`. It needs no catalog.
    pub(crate) fn slot_secret(&self, name: &str, repository: RepositoryId) -> Zeroizing<[u8; 32]> {
        crypto::server_slot_secret(&self.key, repository, name)
    }

    /// Seals the secret of `domain`: nonce, sealed bytes, tag. Opens for no other domain.
    ///
    /// # Errors
    /// [`Error::System`].
    pub(crate) fn seal(&self, domain: &str, secret: &[u8; 32]) -> Result<Vec<u8>> {
        let mut sealed = secret.to_vec();
        let nonce = self.seal.seal_in_place_append_tag(Aad::from(domain.as_bytes()), &mut sealed);
        let nonce = nonce.map_err(|_| server_contract::Error::NoRandom)?;
        Ok([&nonce.as_ref()[..], &sealed].concat())
    }

    /// The secret of `domain`.
    ///
    /// # Errors
    /// [`Error::Sealed`] when it was not sealed with this key for this domain.
    pub(crate) fn open(&self, domain: &str, sealed: &[u8]) -> Result<Zeroizing<[u8; 32]>> {
        let wrong = || Error::Sealed(domain.to_owned());
        let (nonce, body) = sealed.split_first_chunk::<NONCE_LEN>().ok_or_else(wrong)?;
        let mut body = Zeroizing::new(body.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = self.seal.open_in_place(nonce, Aad::from(domain.as_bytes()), &mut body);
        let plain: &[u8] = plain.map_err(|_| wrong())?;
        Ok(Zeroizing::new(plain.try_into().map_err(|_| wrong())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_opens_for_its_domain_and_key_only() {
        let key = MasterKey::from_text(&new_key().unwrap()).unwrap();
        let sealed = key.seal("web", &[7; 32]).unwrap();
        assert_eq!(*key.open("web", &sealed).unwrap(), [7; 32]);
        assert!(key.open("db", &sealed).is_err());
        let other = MasterKey::from_text(&new_key().unwrap()).unwrap();
        assert!(other.open("web", &sealed).is_err());
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(key.open("web", &changed).is_err());
        }
        assert!(key.open("web", &[]).is_err());
    }

    #[test]
    fn a_key_file_without_a_key_is_refused() {
        ["", "00", "zz"].iter().for_each(|text| assert!(MasterKey::from_text(text).is_err()));
    }
}
