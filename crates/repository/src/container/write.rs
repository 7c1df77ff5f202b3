//! Writing a container. It has its final name only after all of it is durable.

use crate::Result;
use crate::container::{name, part_name, shard};
use crate::parity::Encoder;
use crate::storage::{FileWriter, Storage};
use format::container::{Header, Row, encode_footer};
use format::record::RecordKind;
use ids::{ContainerNo, RecordLocation};

/// Objects after which a container is finished, however short it is: half of those after which a session makes a
/// checkpoint. It takes in what is durable, and objects of a few bytes each would fill the memory before they fill a
/// container.
pub(crate) const OBJECTS_MAX: usize = 1 << 17;

/// A container under construction.
pub(crate) struct ContainerWriter {
    file: Box<dyn FileWriter>,
    header: Header,
    rows: Vec<Row>,
    length: u64,
    /// Objects so far.
    objects: usize,
    /// The session records so far: without them nothing else can be opened, so they stand at both
    /// ends.
    sessions: Vec<Vec<u8>>,
    parity: Option<Encoder>,
}

impl ContainerWriter {
    /// Creates the container that `header` describes, with `parity_percent` of parity.
    pub(crate) fn create(
        storage: &dyn Storage,
        header: Header,
        parity_percent: u32,
    ) -> Result<Self> {
        storage.create_directory(&shard(header.number))?;
        let file = storage.create(&part_name(header.number))?;
        let (rows, sessions) = Default::default();
        let parity = (parity_percent > 0).then(|| Encoder::new(parity_percent));
        let mut writer = Self { file, header, rows, length: 0, objects: 0, sessions, parity };
        writer.write(&[&header.encode()])?;
        Ok(writer)
    }

    /// Its number.
    pub(crate) fn number(&self) -> ContainerNo {
        self.header.number
    }

    /// Length in bytes so far.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Notes that `count` objects were appended.
    pub(crate) fn note_objects(&mut self, count: usize) {
        self.objects += count;
    }

    /// Whether it holds as much as containers of `bytes` do.
    pub(crate) fn is_full(&self, bytes: u64) -> bool {
        self.length >= bytes || self.objects >= OBJECTS_MAX
    }

    /// Appends a record of `kind`, given in `parts`.
    pub(crate) fn append(&mut self, kind: RecordKind, parts: &[&[u8]]) -> Result<RecordLocation> {
        if kind == RecordKind::Session {
            self.sessions.push(parts.concat());
        }
        self.append_once(kind, parts)
    }

    /// Appends a session record, if it is not here yet.
    pub(crate) fn append_key(&mut self, key_record: Option<&[u8]>) -> Result<()> {
        match key_record {
            Some(bytes) if !self.sessions.iter().any(|known| known.as_slice() == bytes) => {
                self.append(RecordKind::Session, &[bytes]).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn append_once(&mut self, kind: RecordKind, parts: &[&[u8]]) -> Result<RecordLocation> {
        let length = parts.iter().map(|part| part.len()).sum::<usize>() as u32;
        let offset = self.length as u32;
        self.write(parts)?;
        self.rows.push(Row { kind: kind as u8, offset, length });
        Ok(RecordLocation { container: self.number(), offset, length })
    }

    fn write(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.file.append(parts)?;
        self.length += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        match &mut self.parity {
            Some(parity) => parts.iter().try_for_each(|part| parity.push(part)),
            None => Ok(()),
        }
    }

    /// Writes the session records once more, the footer and the parity, and makes the container durable, without
    /// giving it its name. After an error nothing of the file may be believed: the system forgets
    /// what it could not write.
    pub(crate) fn sync(&mut self) -> Result<()> {
        for record in std::mem::take(&mut self.sessions) {
            self.append_once(RecordKind::Session, &[&record])?;
        }
        let footer = encode_footer(&self.rows);
        self.write(&[&footer])?;
        if let Some(parity) = self.parity.take() {
            parity.finish(|parts| Ok(self.file.append(parts)?))?;
        }
        Ok(self.file.sync()?)
    }

    /// Gives the durable container its name.
    ///
    /// # Errors
    /// [`crate::storage::StorageError::already_exists`] when another container has it.
    pub(crate) fn publish(&self, storage: &dyn Storage) -> Result<ContainerNo> {
        let number = self.number();
        let (from, to) = (part_name(number), name(number));
        match self.is_content() {
            true => storage.publish_content(&from, &to)?,
            false => storage.publish(&from, &to)?,
        }
        Ok(number)
    }

    /// Whether it holds content of files and nothing else but keys: no command but a restore reads it.
    fn is_content(&self) -> bool {
        let is_data = |row: &Row| row.has_kind(RecordKind::Data);
        let is_quiet = |row: &Row| is_data(row) || row.has_kind(RecordKind::Session);
        self.rows.iter().any(is_data) && self.rows.iter().all(is_quiet)
    }

    /// The records appended so far.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }
}
