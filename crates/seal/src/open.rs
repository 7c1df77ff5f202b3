//! Opening records. The seal is checked first: what is decompressed was written by a writer of
//! this repository, and its size was bound by the seal.

use crate::sealer::PACKED_LENGTH_BYTES;
use crate::{Error, Result};
use crypto::{ReaderKeys, SessionKey, SignedKeyList};
use format::page::PageKind;
use format::record::{self, Codec, Header, Record, RecordKind};
use ids::{KeyEpoch, ObjectId, SessionId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Session keys kept; a repository of many small backups has many.
const SESSIONS_MAX: usize = 4096;

/// Opens records. Used by many threads.
pub struct Opener {
    /// They read more once a key list with a delivery was seen.
    keys: Mutex<ReaderKeys>,
    sessions: Mutex<HashMap<SessionId, Arc<SessionKey>>>,
    /// The latest key epoch of a session that opened.
    latest_opened: AtomicU32,
}

/// The plaintext of a record.
pub struct OpenedBlock {
    /// What it holds.
    pub kind: RecordKind,
    /// The ids of its objects.
    pub ids: Vec<ObjectId>,
    /// All payloads and their lengths.
    plain: Vec<u8>,
    /// Where each payload begins and ends.
    ranges: Vec<std::ops::Range<u32>>,
    /// Of pages: what they are and what they refer to.
    pages: Vec<(PageKind, Vec<ObjectId>)>,
}

impl OpenedBlock {
    /// The payload of object number `at`.
    pub fn payload(&self, at: usize) -> &[u8] {
        let range = self.ranges.get(at).cloned().unwrap_or(0..0);
        self.plain.get(range.start as usize..range.end as usize).unwrap_or_default()
    }

    /// Kind and references of page number `at`; `None` for chunks.
    pub fn page_head(&self, at: usize) -> Option<(PageKind, &[ObjectId])> {
        self.pages.get(at).map(|(kind, refs)| (*kind, &refs[..]))
    }

    /// The payload of `id`.
    pub fn find(&self, id: &ObjectId) -> Option<&[u8]> {
        self.ids.iter().position(|other| other == id).map(|at| self.payload(at))
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        let refs: usize = self.pages.iter().map(|(_, refs)| refs.len()).sum();
        self.plain.len() + (self.ids.len() + refs) * (ObjectId::LEN + 8)
    }
}

impl Opener {
    /// An opener with `keys`.
    pub fn new(keys: ReaderKeys) -> Self {
        Self {
            keys: Mutex::new(keys),
            sessions: Mutex::default(),
            latest_opened: AtomicU32::new(0),
        }
    }

    /// The latest key epoch that it can read.
    pub fn latest_epoch(&self) -> KeyEpoch {
        self.keys().latest_epoch()
    }

    /// Learns the secret of the key epoch of `list`, if the list delivers it to these keys.
    pub fn learn_delivery(&self, list: &SignedKeyList) -> Result<()> {
        let next = self.keys().with_delivery(list)?;
        if let Some(next) = next {
            *self.keys() = next;
        }
        Ok(())
    }

    /// The latest key epoch of a session that it opened.
    pub fn latest_opened_epoch(&self) -> KeyEpoch {
        KeyEpoch(self.latest_opened.load(Ordering::Relaxed))
    }

    /// Whether the key of `session` is known already.
    pub fn knows_session(&self, session: &SessionId) -> bool {
        self.lock().contains_key(session)
    }

    /// Learns a session key from the clear part of a session record.
    pub fn learn_session(&self, sealed: &[u8]) -> Result<()> {
        let keys = self.keys().clone();
        let key = keys.open_session(sealed)?;
        // It opened, so it is what it says: nobody else knows whom to seal to in a later epoch.
        let epoch = crypto::session::epoch_of(sealed).unwrap_or_default();
        self.latest_opened.fetch_max(epoch.0, Ordering::Relaxed);
        let mut sessions = self.lock();
        if sessions.len() >= SESSIONS_MAX {
            sessions.clear();
        }
        sessions.insert(key.session(), Arc::new(key));
        Ok(())
    }

    /// Opens a record whose session is known. Decrypts `bytes` in place.
    pub fn open(
        &self,
        bytes: &mut [u8],
        unpacker: &mut zstd::bulk::Decompressor<'static>,
    ) -> Result<OpenedBlock> {
        let record = record::split(bytes)?;
        let ids = record::object_ids(&record)?;
        let pages = page_heads(&record)?;
        let header = record.header;
        let key = self.lock().get(&header.session).cloned();
        let key = key.ok_or(crypto::Error::WrongKey)?;
        let (associated, rest) = bytes.split_at_mut(header.associated_bytes());
        let sealed = &mut rest[..header.sealed_bytes as usize];
        let plain = unseal(&key, &header, associated, sealed, unpacker)?;
        let ranges = ranges(&plain, ids.len())?;
        Ok(OpenedBlock { kind: header.kind, ids, plain, ranges, pages })
    }

    /// Opens a record that holds one sealed part and no objects.
    pub fn open_single(
        &self,
        bytes: &mut [u8],
        unpacker: &mut zstd::bulk::Decompressor<'static>,
    ) -> Result<Vec<u8>> {
        Ok(self.open(bytes, unpacker)?.plain)
    }

    fn keys(&self) -> MutexGuard<'_, ReaderKeys> {
        // A panic elsewhere leaves them whole: they are only ever replaced.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<SessionKey>>> {
        // A panic elsewhere leaves the map whole: it is only ever inserted into or cleared.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decrypts and decompresses.
pub(crate) fn unseal(
    key: &SessionKey,
    header: &Header,
    associated: &[u8],
    sealed: &mut [u8],
    unpacker: &mut zstd::bulk::Decompressor<'static>,
) -> Result<Vec<u8>> {
    let padded = key.open_in_place(header.nonce, associated, sealed)?;
    let (rest, length) =
        padded.split_last_chunk::<PACKED_LENGTH_BYTES>().ok_or(Error::Decompress)?;
    let packed = rest.get(..u32::from_le_bytes(*length) as usize).ok_or(Error::Decompress)?;
    let plain = match header.codec {
        Codec::Raw => packed.to_vec(),
        Codec::Zstd => unpacker
            .decompress(packed, header.plain_bytes as usize)
            .map_err(|_| Error::Decompress)?,
    };
    if plain.len() == header.plain_bytes as usize { Ok(plain) } else { Err(Error::Decompress) }
}

fn page_heads(record: &Record<'_>) -> Result<Vec<(PageKind, Vec<ObjectId>)>> {
    if record.header.kind != RecordKind::Pages {
        return Ok(Vec::new());
    }
    let heads = format::page::heads(record)?;
    Ok(heads.iter().map(|head| (head.kind, head.refs().collect())).collect())
}

fn ranges(plain: &[u8], objects: usize) -> Result<Vec<std::ops::Range<u32>>> {
    if objects == 0 {
        return Ok(Vec::new());
    }
    let mut end = 0;
    let payloads = record::payloads(plain, objects)?;
    let next = payloads.iter().map(|payload| {
        let start = end;
        end += payload.len() as u32;
        start..end
    });
    Ok(next.collect())
}
