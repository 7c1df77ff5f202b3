//! The list of signers: each slot whose holder ever was allowed to sign, signed by the root key.
//!
//! A slot's file says what a password opens; this list says whose signature counts. A key that was
//! removed stays in it, with the last sequence of a snapshot that it may have signed: what it signed
//! before goes on to be good, what comes later is nobody's. Who is not in the list is unknown.
//!
//! ```text
//! ┌─ head, 44 ──────────────────────────────────────┬ entries, 115 each ┬ signature, 64 ┬ checksum, 16 ┐
//! │ magic 8 │ repository 16 │ version 8 │ made 8 │ n 4 │                   │               │              │
//! └── signed by the root ────────────────────────────────────────────────┘               │              │
//! └── covered by the checksum ────────────────────────────────────────────────────────────┘              │
//! ```
//! The table of an entry stands in `docs/CRYPTO.md`.

use ids::{KeyId, RepositoryId};

use crate::context;
use crate::error::damaged;
use crate::slot::{MAX_LABEL_LEN, is_label};
use crate::{Error, KeyMaterial, Role, RootVerifyKey, SIGNATURE_LEN, VerifyKey};

const MAGIC: &[u8; 8] = b"ICESIGN1";
const HEAD_LEN: usize = 8 + 16 + 8 + 8 + 4;
const ENTRY_LEN: usize = 8 + 32 + 1 + 1 + 8 + 1 + MAX_LABEL_LEN;
const CHECKSUM_LEN: usize = 16;
const TAIL_LEN: usize = SIGNATURE_LEN + CHECKSUM_LEN;
/// Most signers of a repository: at ten changes a day enough for eighteen years.
pub const SIGNERS_MAX: usize = 1 << 16;
/// Longest list in bytes.
pub const SIGNER_LIST_MAX: usize = HEAD_LEN + SIGNERS_MAX * ENTRY_LEN + TAIL_LEN;
const FLAG_BOUND: u8 = 1;
const FLAG_REMOVED: u8 = 2;

/// Who may sign.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignerInfo {
    /// The slot.
    pub id: KeyId,
    /// Checks its signatures.
    pub verify_key: VerifyKey,
    /// What its holder may do.
    pub role: Role,
    /// Whether it may sign for the node that `label` names and for no other.
    pub bound: bool,
    /// The slot's label.
    pub label: String,
    /// Of a key that was removed: the last sequence of a snapshot that it may have signed.
    pub valid_up_to: Option<u64>,
}

impl SignerInfo {
    /// Whether a snapshot with the number `sequence` may be signed by it.
    pub fn may_sign(&self, sequence: u64) -> bool {
        self.valid_up_to.is_none_or(|last| sequence <= last)
    }

    /// Whether it may sign for `node`.
    pub fn may_sign_for(&self, node: &str) -> bool {
        !self.bound || self.label == node
    }

    /// Whether its key was not removed.
    pub fn is_live(&self) -> bool {
        self.valid_up_to.is_none()
    }
}

/// All signers of a repository, by their ids.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignerList {
    repository: RepositoryId,
    version: u64,
    made_secs: i64,
    signers: Vec<SignerInfo>,
}

impl SignerList {
    /// The first list of a repository: nobody.
    pub fn new(repository: RepositoryId) -> Self {
        Self { repository, version: 0, made_secs: 0, signers: Vec::new() }
    }

    /// The same, as if so many had been before: for who makes a new list in the place of lost ones.
    pub fn after(self, version: u64) -> Self {
        Self { version, ..self }
    }

    /// Rises with each change: who remembers it notices an older list.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// All of them, by their ids.
    pub fn signers(&self) -> &[SignerInfo] {
        &self.signers
    }

    /// What is known of `id`.
    pub fn find(&self, id: KeyId) -> Option<&SignerInfo> {
        self.place(id).ok().map(|at| &self.signers[at])
    }

    fn place(&self, id: KeyId) -> Result<usize, usize> {
        self.signers.binary_search_by_key(&id, |signer| signer.id)
    }

    /// The next list: this one and `signers`.
    ///
    /// # Errors
    /// [`Error::TooManySigners`].
    pub fn with(
        mut self,
        signers: impl IntoIterator<Item = SignerInfo>,
        made_secs: i64,
    ) -> Result<Self, Error> {
        for signer in signers {
            match self.place(signer.id) {
                Ok(at) => self.signers[at] = signer,
                Err(at) => self.signers.insert(at, signer),
            }
        }
        match self.signers.len() {
            0..=SIGNERS_MAX => Ok(self.next(made_secs)),
            count => Err(Error::TooManySigners { count }),
        }
    }

    /// The next list: this one, in which `id` was removed after the snapshot number `last`. One that
    /// was removed before keeps the number of then.
    pub fn without(mut self, id: KeyId, last: u64, made_secs: i64) -> Self {
        if let Ok(at) = self.place(id) {
            self.signers[at].valid_up_to.get_or_insert(last);
        }
        self.next(made_secs)
    }

    fn next(self, made_secs: i64) -> Self {
        Self { version: self.version.saturating_add(1), made_secs, ..self }
    }

    /// The file, signed by the root key.
    pub fn sign(&self, material: &KeyMaterial) -> Vec<u8> {
        let mut out = self.encode();
        let signature = material.sign_as_root(&message(&out));
        out.extend_from_slice(&signature);
        out.extend_from_slice(&checksum(&out));
        out
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_LEN + self.signers.len() * ENTRY_LEN + TAIL_LEN);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.repository.0);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.made_secs.to_le_bytes());
        out.extend_from_slice(&(self.signers.len() as u32).to_le_bytes());
        self.signers.iter().for_each(|signer| encode_signer(signer, &mut out));
        out
    }

    /// The list in `bytes`, provided that the holder of `root`'s secret made it for `repository`.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the bytes are no list of this repository, [`Error::BadSignature`] when
    /// somebody else made it.
    pub fn verify(
        bytes: &[u8],
        root: &RootVerifyKey,
        repository: RepositoryId,
    ) -> Result<Self, Error> {
        let (signed, tail) = split(bytes)?;
        let (signature, _) = tail.split_at(SIGNATURE_LEN);
        root.0.verify(&message(signed), signature)?;
        let list = Self::decode(signed)?;
        if list.repository == repository { Ok(list) } else { Err(wrong()) }
    }

    fn decode(signed: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(signed);
        if reader.take()? != *MAGIC {
            return Err(wrong());
        }
        let repository = RepositoryId(reader.take()?);
        let version = u64::from_le_bytes(reader.take()?);
        let made_secs = i64::from_le_bytes(reader.take()?);
        let count = u32::from_le_bytes(reader.take()?) as usize;
        if count > SIGNERS_MAX || reader.0.len() != count * ENTRY_LEN {
            return Err(wrong());
        }
        let signers: Vec<_> =
            (0..count).map(|_| take_signer(&mut reader)).collect::<Result<_, _>>()?;
        if !signers.is_sorted_by(|one, next| one.id < next.id) {
            return Err(wrong());
        }
        Ok(Self { repository, version, made_secs, signers })
    }
}

/// The version of the list in `bytes`, for who has no key: whether it is signed is another question.
///
/// # Errors
/// [`Error::Damaged`] when the bytes are no list.
pub fn version_of(bytes: &[u8]) -> Result<u64, Error> {
    Ok(SignerList::decode(split(bytes)?.0)?.version)
}

/// What is signed, and signature and checksum, when the checksum fits.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let at = bytes.len().checked_sub(TAIL_LEN).filter(|_| bytes.len() <= SIGNER_LIST_MAX);
    let (signed, tail) = bytes.split_at(at.ok_or(wrong())?);
    let (checked, sum) = bytes.split_at(bytes.len() - CHECKSUM_LEN);
    if sum == checksum(checked) { Ok((signed, tail)) } else { Err(wrong()) }
}

const fn wrong() -> Error {
    damaged("the list of signers")
}

fn message(signed: &[u8]) -> Vec<u8> {
    [context::SIGNER_LIST.as_bytes(), signed].concat()
}

/// The same that the engine uses: who has no key tells a list from a damaged one.
fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_LEN] {
    let mut sum = [0; CHECKSUM_LEN];
    sum.copy_from_slice(&blake3::hash(bytes).as_bytes()[..CHECKSUM_LEN]);
    sum
}

fn encode_signer(signer: &SignerInfo, out: &mut Vec<u8>) {
    let end = out.len() + ENTRY_LEN;
    let flags = u8::from(signer.bound) * FLAG_BOUND + u8::from(!signer.is_live()) * FLAG_REMOVED;
    out.extend_from_slice(&signer.id.0);
    out.extend_from_slice(signer.verify_key.as_bytes());
    out.extend_from_slice(&[signer.role as u8, flags]);
    out.extend_from_slice(&signer.valid_up_to.unwrap_or_default().to_le_bytes());
    out.push(signer.label.len() as u8); // at most 64: it is the label of a slot
    out.extend_from_slice(signer.label.as_bytes());
    out.resize(end, 0);
}

fn take_signer(reader: &mut Reader<'_>) -> Result<SignerInfo, Error> {
    let (id, verify_key) = (KeyId(reader.take()?), VerifyKey::from_bytes(reader.take()?));
    let [role, flags] = reader.take()?;
    let role = Role::from_byte(role).filter(|role| role.writes()).ok_or(wrong())?;
    let last = u64::from_le_bytes(reader.take()?);
    let is_removed = flags & FLAG_REMOVED != 0;
    if flags & !(FLAG_BOUND | FLAG_REMOVED) != 0 || (!is_removed && last != 0) {
        return Err(wrong());
    }
    let (valid_up_to, bound) = (is_removed.then_some(last), flags & FLAG_BOUND != 0);
    Ok(SignerInfo { id, verify_key, role, bound, label: take_label(reader)?, valid_up_to })
}

fn take_label(reader: &mut Reader<'_>) -> Result<String, Error> {
    let [length] = reader.take()?;
    let field: [u8; MAX_LABEL_LEN] = reader.take()?;
    let (text, rest) = field.split_at_checked(length.into()).ok_or(wrong())?;
    let text = str::from_utf8(text).map_err(|_| wrong())?;
    let is_good = is_label(text) && rest.iter().all(|byte| *byte == 0);
    is_good.then(|| text.to_owned()).ok_or(wrong())
}

/// Takes fixed lengths from the front.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(wrong())?;
        self.0 = rest;
        Ok(*taken)
    }
}

#[cfg(test)]
mod tests;
