//! Damage to data at rest.

use super::content::Content;
use super::{Disk, Fault, FileNo, State};
use std::ops::Range;

/// Damage to one file, on the disk and in the cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Corruption {
    /// One bit of a byte is flipped.
    Flip(usize, u32),
    /// These bytes are zeros.
    Zeros(Range<usize>),
    /// The file is truncated to this length.
    CutAt(usize),
    /// The file is missing.
    Gone,
    /// It has the content of another file.
    ContentOf(String),
}

impl Disk {
    /// Damages the file `name`.
    pub fn corrupt(&self, name: &str, rot: &Corruption) {
        if *rot == Corruption::Gone {
            self.hide_file(name);
            return;
        }
        let mut state = self.state.lock();
        let Some(file) = state.names.file(name) else { return };
        match rot {
            Corruption::Flip(at, bit) => state.files[file].flip(*at, *bit),
            Corruption::Zeros(range) => {
                state.files[file].overwrite(range.start, &vec![0; range.len()])
            }
            Corruption::CutAt(length) => state.files[file].cut(*length),
            Corruption::ContentOf(other) => state.exchange(file, other),
            Corruption::Gone => {}
        }
    }
}

/// What rots at once.
const SECTOR: usize = 512;

impl State {
    /// One half of the sectors of containers, or of some stretch of them.
    pub(super) fn corrupt_containers(&mut self) {
        let containers = self.names.files().into_iter().filter(|it| it.starts_with("containers/"));
        let containers: Vec<FileNo> = containers.filter_map(|it| self.names.file(&it)).collect();
        for file in containers {
            let length = self.files[file].cached().len();
            let first = self.random.index(length / SECTOR + 1);
            for sector in first..length.div_ceil(SECTOR) {
                if self.random.one_in(2) {
                    self.files[file].overwrite(sector * SECTOR, &[0; SECTOR]);
                }
            }
        }
    }

    fn exchange(&mut self, file: FileNo, other: &str) {
        let Some(other) = self.names.file(other) else { return };
        let bytes = self.files[other].cached().to_vec();
        self.files[file] = Content::default();
        self.files[file].append(&bytes);
        self.files[file].sync();
    }

    /// What of `bytes`, which are to be appended to `file`, really is.
    pub(super) fn written(&mut self, file: FileNo, bytes: Vec<u8>) -> Vec<u8> {
        match self.write_fault.take() {
            None => bytes,
            Some(fault) => {
                let zeros = vec![0; bytes.len()];
                if fault == Fault::MisdirectedWrite {
                    let others = self.names.numbers().filter(|other| *other != file);
                    let others: Vec<FileNo> = others.collect();
                    if !others.is_empty() {
                        let other = *self.random.pick(&others);
                        let at = self.random.index(self.files[other].cached().len().max(1));
                        self.files[other].overwrite(at, &bytes);
                    }
                }
                zeros
            }
        }
    }
}
