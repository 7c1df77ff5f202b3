//! Compressors: what compresses and seals blocks, one for each core.

use super::options::BackupOptions;
use crate::Result;
use crypto::IdKey;
use format::record::SealedRecord;
use parking_lot::{Condvar, Mutex};
use seal::{Block, BlockCompressor, Sealer};

/// Compresses and seals blocks. There is one per core, whatever the number of reading threads:
/// memory stays small, and threads that wait for disks do not slow down compression.
pub(super) struct Compressor {
    pub(super) record: SealedRecord,
    packer: BlockCompressor,
    verifier: Option<zstd::bulk::Decompressor<'static>>,
}

/// The free compressors.
pub(super) struct CompressorPool {
    free: Mutex<Vec<Compressor>>,
    returned: Condvar,
}

impl CompressorPool {
    pub(super) fn new(options: &BackupOptions, count: usize) -> Result<Self> {
        let free = (0..count.max(1)).map(|_| Compressor::new(options)).collect::<Result<_>>()?;
        Ok(Self { free: Mutex::new(free), returned: Condvar::new() })
    }

    pub(super) fn take(&self) -> Compressor {
        let mut free = self.free.lock();
        loop {
            if let Some(compressor) = free.pop() {
                return compressor;
            }
            self.returned.wait(&mut free);
        }
    }

    pub(super) fn give_back(&self, compressor: Compressor) {
        self.free.lock().push(compressor);
        self.returned.notify_one();
    }
}

impl Compressor {
    fn new(options: &BackupOptions) -> Result<Self> {
        let verifier = match options.verify_blocks {
            true => Some(zstd::bulk::Decompressor::new().map_err(|_| seal::Error::Decompress)?),
            false => None,
        };
        Ok(Self {
            record: Sealer::empty_record(),
            packer: BlockCompressor::new(options.level)?,
            verifier,
        })
    }

    /// Compresses and seals `block`, and verifies the result if requested.
    pub(super) fn seal(
        &mut self,
        block: &mut Block,
        level: u8,
        sealer: &Sealer,
        ids: &IdKey,
    ) -> Result<()> {
        self.packer.set_auto_step(level)?;
        sealer.seal_block(block, &mut self.packer, &mut self.record)?;
        if let Some(unpacker) = &mut self.verifier {
            sealer.verify(&self.record, unpacker, |bytes| ids.chunk_id(bytes))?;
        }
        Ok(())
    }
}
