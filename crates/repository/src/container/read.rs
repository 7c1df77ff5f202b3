//! Reading containers: one record, the list of records, or all that can be made out of a
//! damaged one.

use crate::container::lenient::Lenient;
use crate::container::{healed_name, name, part_name};
use crate::parity::{HealedFile, ParitySection, locate};
use crate::storage::{FileReader, Storage, StorageError};
use crate::{Error, Result};
use format::container::{self, HEADER_BYTES, Header, Row, TRAILER_BYTES};
use format::limits::RECORD_BYTES_MAX;
use format::record::{self, MAGIC, RecordKind};
use ids::{ContainerNo, ObjectId, RecordLocation, RepositoryId};
use std::sync::{Arc, OnceLock};

/// An open container.
pub struct ContainerReader {
    file: Arc<dyn FileReader>,
    name: String,
    number: ContainerNo,
    /// Searched for once: no container gains or loses its parity while it is open.
    parity: OnceLock<Option<ParitySection>>,
}

/// What [`ContainerReader::walk`] found.
#[derive(Default, Debug)]
pub struct ContainerWalk {
    /// Records whose checksum is good.
    pub rows: Vec<Row>,
    /// Ranges that hold no good record: offset and length in bytes.
    pub damaged: Vec<(u64, u64)>,
}

impl ContainerReader {
    /// Opens the finished container `number`.
    pub fn open(storage: &dyn Storage, number: ContainerNo) -> Result<Self> {
        Self::open_named(storage, number, name(number))
    }

    /// Opens what an interrupted session left of the container `number`.
    pub(crate) fn open_part(storage: &dyn Storage, number: ContainerNo) -> Result<Self> {
        Self::open_named(storage, number, part_name(number))
    }

    /// Opens what a repair wrote, before it has its name.
    pub(crate) fn open_healed(storage: &dyn Storage, number: ContainerNo) -> Result<Self> {
        Self::open_named(storage, number, healed_name(number))
    }

    fn open_named(storage: &dyn Storage, number: ContainerNo, name: String) -> Result<Self> {
        let gone = |error: StorageError| {
            if error.is_not_found() { Error::ContainerMissing(number) } else { error.into() }
        };
        let file = storage.open(&name).map_err(gone)?.into();
        Ok(Self { file, name, number, parity: OnceLock::new() })
    }

    /// The file as it lies there.
    pub(crate) fn file(&self) -> &Arc<dyn FileReader> {
        &self.file
    }

    /// The parity section, if there is one.
    pub fn parity(&self) -> Result<Option<ParitySection>> {
        if let Some(known) = self.parity.get() {
            return Ok(*known);
        }
        let section = locate(&*self.file).map_err(|error| self.gone(error))?;
        Ok(*self.parity.get_or_init(|| section))
    }

    /// This container as it was written, as far as parity can heal it. Reads and checks 8 MiB for the first byte, so it
    /// is only for callers that found damage.
    pub fn healed(&self) -> Result<Option<Self>> {
        let Some(section) = self.parity()? else { return Ok(None) };
        let file = Arc::new(HealedFile::new(self.file.clone(), section.geometry));
        let parity = OnceLock::from(None);
        Ok(Some(Self { file, name: self.name.clone(), number: self.number, parity }))
    }

    /// Heals the record at `location` into `buffer`; `false` when that was not possible or not needed. Only bytes that
    /// match the checksum of the record are returned.
    pub fn heal(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> bool {
        if self.has_good(location, buffer) {
            return false;
        }
        matches!(self.healed(), Ok(Some(healed)) if healed.has_good(location, buffer))
    }

    /// Whether the record at `location` is good; then `buffer` holds it.
    fn has_good(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> bool {
        let is_read = self.read(location, buffer).is_ok();
        is_read && record::verify(buffer).is_ok_and(|record| is_at(&record, location))
    }

    /// Its number.
    pub fn number(&self) -> ContainerNo {
        self.number
    }

    /// Its length in bytes, parity included.
    pub fn length(&self) -> Result<u64> {
        self.file.length().map_err(|error| self.gone(error))
    }

    /// Fills `buffer` with the bytes from `offset` on.
    fn fill(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|error| self.gone(error))
    }

    /// Some storages look for a file only when it is read.
    fn gone(&self, error: StorageError) -> Error {
        if error.is_not_found() { Error::ContainerMissing(self.number) } else { error.into() }
    }

    /// Its length in bytes without parity: where its trailer ends.
    fn content_bytes(&self) -> Result<u64> {
        match self.parity()? {
            Some(section) => Ok(section.geometry.protected()),
            None => self.length(),
        }
    }

    /// Reads the bytes at `location` into `buffer`. No record is longer than the limit, whoever says so: a node that
    /// reads names locations itself.
    pub fn read(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> Result<()> {
        if location.length as usize > RECORD_BYTES_MAX {
            let reason = format::Error::Invalid { what: "length of a record" };
            return Err(Error::damaged(&self.name, reason));
        }
        buffer.clear();
        buffer.resize(location.length as usize, 0);
        self.fill(buffer, location.offset.into())
    }

    /// The header, when both ends of the container are intact and it belongs to `repository`.
    pub fn header(&self, repository: RepositoryId) -> Result<Header> {
        let header = self.any_header()?;
        if header.repository != repository || header.number != self.number {
            return Err(self.damaged(format::Error::Invalid { what: "container header" }));
        }
        Ok(header)
    }

    /// The header, of whatever repository.
    pub(crate) fn any_header(&self) -> Result<Header> {
        let mut bytes = [0; HEADER_BYTES];
        self.fill(&mut bytes, 0)?;
        Header::decode(&bytes).map_err(|reason| self.damaged(reason))
    }

    /// The records, as the footer lists them.
    pub fn rows(&self) -> Result<Vec<Row>> {
        let length = self.content_bytes()?;
        let damaged = |reason| self.damaged(reason);
        let mut trailer = [0; TRAILER_BYTES];
        let end = length.checked_sub(TRAILER_BYTES as u64).ok_or(EARLY).map_err(damaged)?;
        self.fill(&mut trailer, end)?;
        let footer_bytes = container::footer_bytes(&trailer).map_err(damaged)?;
        let start = end.checked_sub(footer_bytes as u64).ok_or(EARLY).map_err(damaged)?;
        let mut footer = vec![0; footer_bytes];
        self.fill(&mut footer, start)?;
        container::decode_footer(&footer, &trailer, length).map_err(damaged)
    }

    /// Where a container ends that has lost both heads of its parity, and nothing else: behind the
    /// footer that follows its last record, and lists just these.
    pub(crate) fn end_by_records(&self) -> Result<Option<u64>> {
        let mut end = HEADER_BYTES as u64;
        let mut is_next = |row: &Row| {
            let follows = u64::from(row.offset) == end;
            end += if follows { row.length.into() } else { 0 };
            follows
        };
        let mut rows = self.walk(|_, _| ())?.rows;
        // What is found behind may be a copy: the parity of a single shard is one.
        rows.truncate(rows.iter().take_while(|row| is_next(row)).count());
        let footer = container::encode_footer(&rows);
        let mut there = vec![0; footer.len()];
        let is_there = self.file.read_exact_at(&mut there, end).is_ok() && there == footer;
        Ok((is_there && !rows.is_empty()).then_some(end + footer.len() as u64))
    }

    /// The header and clear part of the record at `row`.
    pub fn associated(&self, row: &Row) -> Result<Vec<u8>> {
        let mut head = vec![0; record::HEADER_BYTES];
        self.fill(&mut head, row.offset.into())?;
        let header = record::Header::decode(&head).map_err(|reason| self.damaged(reason))?;
        if header.record_bytes() != row.length as usize {
            return Err(self.damaged(format::Error::Invalid { what: "record length" }));
        }
        head.resize(header.associated_bytes(), 0);
        self.fill(
            &mut head[record::HEADER_BYTES..],
            u64::from(row.offset) + record::HEADER_BYTES as u64,
        )?;
        Ok(head)
    }

    /// The objects in the record at `row`; none if it is no record of objects.
    pub fn object_ids(&self, row: &Row) -> Result<Vec<ObjectId>> {
        if !row.has_kind(RecordKind::Data) && !row.has_kind(RecordKind::Pages) {
            return Ok(Vec::new());
        }
        let associated = self.associated(row)?;
        let head = record::head_only(&associated).map_err(|reason| self.damaged(reason))?;
        record::object_ids(&head).map_err(|reason| self.damaged(reason))
    }

    /// Reads all bytes, with or without a footer, and calls `visit` with every good record. Sectors that cannot be read
    /// are reported as damage.
    pub fn walk(
        &self,
        mut visit: impl FnMut(RecordLocation, &record::Record<'_>),
    ) -> Result<ContainerWalk> {
        let mut file = Lenient::new(&*self.file);
        let length = self.content_bytes().or_else(|_| self.content_bytes())?;
        let mut walk = ContainerWalk::default();
        let mut buffer = Vec::new();
        let mut offset = HEADER_BYTES as u64;
        while offset < length {
            match good_record(&mut file, offset, length, &mut buffer)? {
                Some(header) => {
                    let bytes = header.record_bytes() as u32;
                    let location = RecordLocation {
                        container: self.number,
                        offset: offset as u32,
                        length: bytes,
                    };
                    let row =
                        Row { kind: header.kind as u8, offset: location.offset, length: bytes };
                    if let Ok(record) = record::split(&buffer) {
                        visit(location, &record);
                    }
                    walk.rows.push(row);
                    offset += u64::from(bytes);
                }
                None if is_footer(&mut file, offset, length)? => break,
                None => {
                    let next = next_good(&mut file, offset + 1, length, &mut buffer)?;
                    walk.damaged.push((offset, next - offset));
                    offset = next;
                }
            }
        }
        Ok(walk)
    }

    fn damaged(&self, reason: format::Error) -> Error {
        Error::damaged(&self.name, reason)
    }
}

/// The record at `offset`, read into `buffer`, if it is good.
fn good_record(
    file: &mut Lenient<'_>,
    offset: u64,
    length: u64,
    buffer: &mut Vec<u8>,
) -> Result<Option<record::Header>> {
    if offset + record::HEADER_BYTES as u64 > length {
        return Ok(None);
    }
    let mut head = [0; record::HEADER_BYTES];
    file.read(&mut head, offset)?;
    let Ok(header) = record::Header::decode(&head) else { return Ok(None) };
    let bytes = header.record_bytes();
    if offset + bytes as u64 > length {
        return Ok(None);
    }
    buffer.resize(bytes, 0);
    file.read(buffer, offset)?;
    Ok(record::verify(buffer).is_ok().then_some(header))
}

fn is_footer(file: &mut Lenient<'_>, offset: u64, length: u64) -> Result<bool> {
    let Some(footer_bytes) = (length - offset).checked_sub(TRAILER_BYTES as u64) else {
        return Ok(false);
    };
    let mut trailer = [0; TRAILER_BYTES];
    file.read(&mut trailer, length - TRAILER_BYTES as u64)?;
    Ok(container::footer_bytes(&trailer) == Ok(footer_bytes as usize))
}

/// The next offset from `offset` on at which something good begins, or the end.
fn next_good(
    file: &mut Lenient<'_>,
    mut offset: u64,
    length: u64,
    buffer: &mut Vec<u8>,
) -> Result<u64> {
    /// Bytes that are searched at once.
    const WINDOW_BYTES: u64 = 1 << 20;
    let mut window = Vec::new();
    while offset < length {
        let bytes = WINDOW_BYTES.min(length - offset);
        window.resize(bytes as usize, 0);
        file.read(&mut window, offset)?;
        for at in memchr::memmem::find_iter(&window, &MAGIC) {
            if good_record(file, offset + at as u64, length, buffer)?.is_some() {
                return Ok(offset + at as u64);
            }
        }
        if bytes < WINDOW_BYTES {
            break;
        }
        // The magic may lie across two windows.
        offset += bytes - (MAGIC.len() as u64 - 1);
    }
    Ok(length)
}

/// Whether `record` is as long as its place says.
fn is_at(record: &record::Record<'_>, location: RecordLocation) -> bool {
    record.header.record_bytes() == location.length as usize
}

const EARLY: format::Error = format::Error::Truncated { what: "container" };
