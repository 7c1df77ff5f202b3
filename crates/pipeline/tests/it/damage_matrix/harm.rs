//! What can be done to which part of which file.

use super::lab::Lab;
use crate::testkit::TestFolder;
use format::container::{HEADER_BYTES, Row, TRAILER_BYTES};
use format::record::{self, CHECKSUM_BYTES, RecordKind};
use ids::ContainerNo;
use repository::container::read::ContainerReader;
use std::ops::Range;

/// What a disk writes and loses as one.
const SECTOR_BYTES: usize = 512;

/// Every kind of file that a repository has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Kind {
    Config,
    Lock,
    Lease,
    Key,
    Container,
    State,
    Run,
    Snapshot,
}

impl Kind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Config,
        Self::Lock,
        Self::Lease,
        Self::Key,
        Self::Container,
        Self::State,
        Self::Run,
        Self::Snapshot,
    ];

    fn prefix(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Lock => "lock",
            Self::Lease => "lease",
            Self::Key => "keys/",
            Self::Container => "containers/",
            Self::State => "index/state",
            Self::Run => "index/run-",
            Self::Snapshot => "snapshots/",
        }
    }

    /// The files of this kind.
    pub(crate) fn files(self, folder: &TestFolder) -> Vec<String> {
        let fits = |name: &String| name.starts_with(self.prefix());
        folder.files().into_iter().filter(fits).collect()
    }
}

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum How {
    Delete,
    Truncate,
    Flip,
    ZeroSector,
    Swap,
    Older,
}

/// One damage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Harm {
    pub(crate) kind: Kind,
    pub(crate) file: String,
    pub(crate) how: How,
    /// What lies there, and where.
    pub(crate) region: &'static str,
    range: Range<usize>,
}

impl std::fmt::Display for Harm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = self.file.char_indices().nth(34).map_or(self.file.len(), |(at, _)| at);
        write!(f, "{:?} {} of {}", self.how, self.region, &self.file[..end])
    }
}

impl Harm {
    /// All harms of `lab`; those of the same kind of file stand together.
    pub(crate) fn all(lab: &Lab) -> Vec<Self> {
        let mut harms = Vec::new();
        for kind in Kind::ALL {
            for file in Self::chosen(lab, kind) {
                harms.extend(Self::of(lab, kind, &file));
            }
        }
        harms
    }

    /// Of many files of a kind a few: those of containers and snapshots that differ in what they
    /// hold.
    fn chosen(lab: &Lab, kind: Kind) -> Vec<String> {
        let files = kind.files(&lab.folder);
        match kind {
            // The first one holds most of the data, one has a tombstone, the last is the newest.
            Kind::Container => {
                let holds = |file: &&String| rows(lab, file).iter().any(is_tombstone);
                let tombstone = files.iter().find(holds);
                [files.first(), files.get(1), tombstone].into_iter().flatten().cloned().collect()
            }
            Kind::Snapshot => {
                [files.first(), files.last()].into_iter().flatten().cloned().collect()
            }
            _ => files.into_iter().take(1).collect(),
        }
    }

    fn of(lab: &Lab, kind: Kind, file: &str) -> Vec<Self> {
        let whole = 0..length(&lab.folder, file);
        let harm = |how, (region, range): (&'static str, Range<usize>)| Self {
            kind,
            file: file.to_owned(),
            how,
            region,
            range,
        };
        let regions = regions(lab, kind, file);
        let parts = regions.into_iter().flat_map(|region| {
            [How::Truncate, How::Flip, How::ZeroSector].map(|how| harm(how, region.clone()))
        });
        [How::Delete, How::Swap, How::Older]
            .map(|how| harm(how, ("all", whole.clone())))
            .into_iter()
            .chain(parts)
            .collect()
    }

    /// A copy of the repository with this damage; `None` when nothing is another thing then.
    pub(crate) fn done(&self, lab: &Lab) -> Option<TestFolder> {
        let copy = lab.folder.copied();
        let path = copy.repository().join(&self.file);
        let mut bytes = std::fs::read(&path).unwrap();
        let before = bytes.clone();
        let (start, end) = (self.range.start, self.range.end);
        match self.how {
            How::Delete => {
                std::fs::remove_file(&path).unwrap();
                return Some(copy);
            }
            How::Truncate => bytes.truncate((start + end) / 2),
            How::Flip => *bytes.get_mut((start + end) / 2)? ^= 0x10,
            How::ZeroSector => {
                let from = (start + end) / 2 / SECTOR_BYTES * SECTOR_BYTES;
                let to = bytes.len().min(from + SECTOR_BYTES);
                bytes[from..to].fill(0);
            }
            How::Older => bytes = self.older(lab)?,
            How::Swap => return self.swapped(lab, copy, &before),
        }
        std::fs::write(&path, &bytes).unwrap();
        (bytes != before).then_some(copy)
    }

    /// What the file held two backups ago; the one before it where files never change.
    fn older(&self, lab: &Lab) -> Option<Vec<u8>> {
        let files = self.kind.files(&lab.folder);
        let at = files.iter().position(|file| *file == self.file)?;
        let (folder, name) = match self.kind {
            Kind::Config | Kind::Lock | Kind::Lease | Kind::State => {
                (&lab.older, self.file.clone())
            }
            Kind::Run => (&lab.older, self.kind.files(&lab.older).first()?.clone()),
            _ => (&lab.folder, files[(at + files.len() - 1) % files.len()].clone()),
        };
        std::fs::read(folder.repository().join(name)).ok()
    }

    /// Two files of a kind take each other's names; where there is one only, it is a stranger's. Two
    /// runs of the index say the same in any order, so that theirs is a stranger's too.
    fn swapped(&self, lab: &Lab, copy: TestFolder, before: &[u8]) -> Option<TestFolder> {
        let files = self.kind.files(&lab.folder);
        let next = files.iter().cycle().skip_while(|file| **file != self.file).nth(1)?;
        let there = if *next == self.file || self.kind == Kind::Run {
            let stranger = self.kind.files(&lab.stranger).first()?.clone();
            std::fs::read(lab.stranger.repository().join(stranger)).unwrap()
        } else {
            let there = std::fs::read(lab.folder.repository().join(next)).unwrap();
            std::fs::write(copy.repository().join(next), before).unwrap();
            there
        };
        std::fs::write(copy.repository().join(&self.file), &there).unwrap();
        (there != before).then_some(copy)
    }
}

fn length(folder: &TestFolder, file: &str) -> usize {
    std::fs::metadata(folder.repository().join(file)).unwrap().len() as usize
}

fn regions(lab: &Lab, kind: Kind, file: &str) -> Vec<(&'static str, Range<usize>)> {
    let length = length(&lab.folder, file);
    match kind {
        Kind::Lock => Vec::new(),
        Kind::Container => of_container(lab, file, length),
        Kind::Snapshot => {
            vec![("session", 0..60), ("manifest", 200..length - 20), ("end", length - 16..length)]
        }
        Kind::Run => vec![
            ("header", 0..64),
            ("page", 64..600),
            ("fence and filter", 64 + 4096..length - 48),
            ("trailer", length - 48..length),
        ],
        _ => vec![("start", 0..8), ("middle", 0..length), ("end", length - 8..length)],
    }
}

/// Each kind of record once, in its four parts, and what is around them.
fn of_container(lab: &Lab, file: &str, length: usize) -> Vec<(&'static str, Range<usize>)> {
    let rows = rows(lab, file);
    let mut regions = vec![("header", 0..HEADER_BYTES)];
    let kinds = [
        (RecordKind::Session, ["session head", "session clear", "", "session sum"]),
        (RecordKind::Data, ["data head", "data clear", "data sealed", "data sum"]),
        (RecordKind::Pages, ["pages head", "pages clear", "pages sealed", "pages sum"]),
        (
            RecordKind::Manifest,
            ["manifest head", "manifest clear", "manifest sealed", "manifest sum"],
        ),
        (
            RecordKind::Tombstone,
            ["tombstone head", "tombstone clear", "tombstone sealed", "tombstone sum"],
        ),
    ];
    for (kind, names) in kinds {
        if let Some(row) = rows.iter().find(|row| row.has_kind(kind)) {
            let parts = names.into_iter().zip(of_record(lab, file, row));
            regions.extend(parts.filter(|(name, range)| !name.is_empty() && !range.is_empty()));
        }
    }
    let footer = rows.last().map_or(HEADER_BYTES, |row| (row.offset + row.length) as usize);
    regions.push(("footer", footer..length - TRAILER_BYTES));
    regions.push(("trailer", length - TRAILER_BYTES..length));
    regions
}

fn of_record(lab: &Lab, file: &str, row: &Row) -> [Range<usize>; 4] {
    let bytes = std::fs::read(lab.folder.repository().join(file)).unwrap();
    let start = row.offset as usize;
    let header = record::Header::decode(&bytes[start..]).unwrap();
    let clear = start + record::HEADER_BYTES;
    let sealed = start + header.associated_bytes();
    let end = start + row.length as usize;
    [start..clear, clear..sealed, sealed..end - CHECKSUM_BYTES, end - CHECKSUM_BYTES..end]
}

fn is_tombstone(row: &Row) -> bool {
    row.has_kind(RecordKind::Tombstone)
}

fn rows(lab: &Lab, file: &str) -> Vec<Row> {
    let hex = file.rsplit('/').next().unwrap().trim_end_matches(".ice");
    let number = ContainerNo(u64::from_str_radix(hex, 16).unwrap());
    ContainerReader::open(&*lab.folder.storage(), number).unwrap().rows().unwrap()
}

impl Harm {
    /// Whether there is a record of which it hits the checksum and nothing else.
    pub(crate) fn hits_only_a_sum(&self, lab: &Lab) -> bool {
        let middle = (self.range.start + self.range.end) / 2;
        let first = match self.how {
            How::Flip => middle,
            // Of the sector before nothing is touched, and what comes behind is another record.
            How::ZeroSector => middle / SECTOR_BYTES * SECTOR_BYTES,
            _ => return false,
        };
        let is_in_sum = |row: &Row| {
            let end = (row.offset + row.length) as usize;
            (end - CHECKSUM_BYTES..end).contains(&first)
        };
        self.kind == Kind::Container && rows(lab, &self.file).iter().any(is_in_sum)
    }

    /// Whether it hits the record at `location`.
    pub(crate) fn hits(&self, lab: &Lab, location: ids::RecordLocation) -> bool {
        let (start, end) = (location.offset as usize, (location.offset + location.length) as usize);
        let middle = (self.range.start + self.range.end) / 2;
        let is_here = self.file.ends_with(&format!("{}.ice", location.container));
        match self.how {
            How::Swap => {
                let files = self.kind.files(&lab.folder);
                let next = files.iter().cycle().skip_while(|file| **file != self.file).nth(1);
                is_here
                    || next
                        .is_some_and(|next| next.ends_with(&format!("{}.ice", location.container)))
            }
            How::Delete | How::Older => is_here,
            How::Truncate => is_here && end > middle,
            How::Flip => is_here && (start..end).contains(&middle),
            How::ZeroSector => {
                let from = middle / SECTOR_BYTES * SECTOR_BYTES;
                is_here && start < from + SECTOR_BYTES && end > from
            }
        }
    }
}
