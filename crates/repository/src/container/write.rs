//! Writing a container. It has its final name only after all of it is durable.

use crate::Result;
use crate::container::{name, part_name, shard};
use crate::storage::{FileWriter, Storage};
use format::container::{Header, Row, encode_footer};
use format::record::RecordKind;
use ids::{ContainerNo, Place};

/// A container under construction.
pub(crate) struct ContainerWriter {
    file: Box<dyn FileWriter>,
    header: Header,
    rows: Vec<Row>,
    length: u64,
    /// The session records so far: without them nothing else can be opened, so they stand at both
    /// ends.
    sessions: Vec<Vec<u8>>,
}

impl ContainerWriter {
    /// Starts the container that `header` describes.
    pub(crate) fn create(storage: &dyn Storage, header: Header) -> Result<Self> {
        storage.create_directory(&shard(header.number))?;
        let mut file = storage.create(&part_name(header.number))?;
        let bytes = header.encode();
        file.append(&[&bytes])?;
        let (rows, sessions) = Default::default();
        Ok(Self { file, header, rows, length: bytes.len() as u64, sessions })
    }

    /// Its number.
    pub(crate) fn number(&self) -> ContainerNo {
        self.header.number
    }

    /// Length in bytes so far.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Appends a record of `kind` given in `parts`.
    pub(crate) fn append(&mut self, kind: RecordKind, parts: &[&[u8]]) -> Result<Place> {
        if kind == RecordKind::Session {
            self.sessions.push(parts.concat());
        }
        self.append_once(kind, parts)
    }

    fn append_once(&mut self, kind: RecordKind, parts: &[&[u8]]) -> Result<Place> {
        let length = parts.iter().map(|part| part.len()).sum::<usize>() as u32;
        self.file.append(parts)?;
        let offset = self.length as u32;
        self.rows.push(Row { kind: kind as u8, offset, length });
        self.length += u64::from(length);
        Ok(Place { container: self.number(), offset, length })
    }

    /// Writes the session records once more and the footer, and makes the container durable, without
    /// giving it its name. After an error nothing of the file may be believed: the system forgets
    /// what it could not write.
    pub(crate) fn sync(&mut self) -> Result<()> {
        for record in std::mem::take(&mut self.sessions) {
            self.append_once(RecordKind::Session, &[&record])?;
        }
        let footer = encode_footer(&self.rows);
        self.file.append(&[&footer])?;
        Ok(self.file.sync()?)
    }

    /// Gives the durable container its name.
    pub(crate) fn publish(self, storage: &dyn Storage) -> Result<ContainerNo> {
        let number = self.number();
        storage.publish(&part_name(number), &name(number))?;
        Ok(number)
    }

    /// The records appended so far.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }
}
