//! Sealing: the session's key and its nonces.

use crate::block::{Block, BlockCompressor, Similarity};
use crate::{Error, Result};
use crypto::padding::{padme, seven_bits};
use crypto::{
    Cipher, NonceCounter, Privacy, Recipient, SealedSession, SessionKey, TAG_LEN, WriterKeys,
};
use format::record::{Codec, HEADER_BYTES, Header, RecordKind, SealedRecord};
use ids::{ObjectId, SessionId};

/// Bytes at the end of the sealed plaintext that say how long the packed part is.
pub(crate) const PACKED_LENGTH_BYTES: usize = 4;

/// Seals the records of one session. Used by many threads.
pub struct Sealer {
    key: SessionKey,
    nonces: NonceCounter,
    sealed: SealedSession,
    padded: fn(u64) -> u64,
}

impl Sealer {
    /// A session sealed to the recipient of the epoch in which `keys` were made.
    pub fn new(keys: &WriterKeys, random: [u8; 80], cipher: Cipher) -> Self {
        Self::with_recipient(&keys.recipient, keys, random, cipher)
    }

    /// A session with fresh random bytes: 16 for its id, 32 for its key, 32 to seal that key to `recipient`.
    pub fn with_recipient(
        recipient: &Recipient,
        keys: &WriterKeys,
        random: [u8; 80],
        cipher: Cipher,
    ) -> Self {
        let (mut id, mut key_bytes, mut ephemeral) = ([0; 16], [0; 32], [0; 32]);
        id.copy_from_slice(&random[..16]);
        key_bytes.copy_from_slice(&random[16..48]);
        ephemeral.copy_from_slice(&random[48..]);
        let key = SessionKey::new(SessionId(id), key_bytes, cipher);
        let sealed = key.seal_for(recipient, keys.repository, ephemeral);
        let padded = match keys.privacy {
            Privacy::Standard => seven_bits,
            Privacy::Hardened => padme,
        };
        Self { key, nonces: NonceCounter::new(), sealed, padded }
    }

    /// The session record, which holds the sealed key. It is the first record in every container.
    pub fn session_record(&self) -> SealedRecord {
        format::record::session_record(self.key.session(), &self.sealed.0)
    }

    /// An empty record, to be used again and again.
    pub fn empty_record() -> SealedRecord {
        SealedRecord {
            kind: RecordKind::Data,
            ids: Vec::new(),
            associated: Vec::new(),
            sealed: Vec::new(),
        }
    }

    /// Makes `record` of the objects in `block` and empties the block.
    pub fn seal_block(
        &self,
        block: &mut Block,
        compressor: &mut BlockCompressor,
        record: &mut SealedRecord,
    ) -> Result<()> {
        let objects = block.len();
        let (plain, similar) = block.plaintext();
        let plain_bytes = plain.len();
        let codec = compressor.pack(plain, similar, &mut record.sealed)?;
        std::mem::swap(&mut record.ids, &mut block.ids);
        let counts = [objects, block.clear.len(), plain_bytes, 0];
        self.finish(block.kind(), codec, counts, &block.clear, record)?;
        block.clear();
        Ok(())
    }

    /// A record of one part that is sealed and one that stays in the clear.
    pub fn seal_single(
        &self,
        kind: RecordKind,
        clear: &[u8],
        plain: &[u8],
        compressor: &mut BlockCompressor,
    ) -> Result<SealedRecord> {
        let mut record = Self::empty_record();
        let codec = compressor.pack(plain, &Similarity::default(), &mut record.sealed)?;
        self.finish(kind, codec, [0, clear.len(), plain.len(), 0], clear, &mut record)?;
        Ok(record)
    }

    /// Pads and seals what was packed into `record`.
    pub(crate) fn finish(
        &self,
        kind: RecordKind,
        codec: Codec,
        mut counts: [usize; 4],
        clear: &[u8],
        record: &mut SealedRecord,
    ) -> Result<()> {
        let packed = record.sealed.len();
        let padded = (self.padded)((packed + PACKED_LENGTH_BYTES) as u64) as usize;
        record.sealed.resize(padded - PACKED_LENGTH_BYTES, 0);
        record.sealed.extend_from_slice(&(packed as u32).to_le_bytes());
        let nonce = self.nonces.next(padded)?;
        counts[3] = padded + TAG_LEN;
        let header = self.header(kind, codec, nonce.counter(), counts);
        record.kind = kind;
        record.associated.clear();
        record.associated.reserve(HEADER_BYTES + clear.len());
        record.associated.extend_from_slice(&header.encode()?);
        record.associated.extend_from_slice(clear);
        self.key.seal_in_place(nonce, &record.associated, &mut record.sealed);
        Ok(())
    }

    fn header(&self, kind: RecordKind, codec: Codec, nonce: u64, counts: [usize; 4]) -> Header {
        let [objects, clear_bytes, plain_bytes, sealed_bytes] =
            counts.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        let session = self.key.session();
        Header { kind, codec, session, nonce, objects, clear_bytes, plain_bytes, sealed_bytes }
    }

    /// The plaintext of a record of [`Self::seal_single`], to verify it before it is stored.
    pub fn open_sealed(
        &self,
        record: &SealedRecord,
        unpacker: &mut zstd::bulk::Decompressor<'static>,
    ) -> Result<Vec<u8>> {
        let mut sealed = record.sealed.clone();
        let header = Header::decode(&record.associated)?;
        crate::open::unseal(&self.key, &header, &record.associated, &mut sealed, unpacker)
    }

    /// Opens `record` again and compares the id of each chunk with `name`: finds errors of the memory or of the
    /// compressor before the record is stored.
    pub fn verify(
        &self,
        record: &SealedRecord,
        unpacker: &mut zstd::bulk::Decompressor<'static>,
        name: impl Fn(&[u8]) -> ObjectId,
    ) -> Result<()> {
        let mut sealed = record.sealed.clone();
        let header = Header::decode(&record.associated)?;
        let plain =
            crate::open::unseal(&self.key, &header, &record.associated, &mut sealed, unpacker)?;
        let payloads = format::record::payloads(&plain, record.ids.len())?;
        match record.ids.iter().zip(payloads).find(|(id, bytes)| name(bytes) != **id) {
            Some((id, _)) => Err(Error::WrongContent(*id)),
            None => Ok(()),
        }
    }
}
