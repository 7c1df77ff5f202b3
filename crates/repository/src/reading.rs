//! Reading records: with the help of parity where they rotted, and while reclaim moves them.

use crate::container::read::ContainerReader;
use crate::{Error, Repository, Result, container};
use format::record::verify;
use ids::{ContainerNo, ObjectId, Place};
use std::sync::Arc;

/// Containers kept open for reading.
const OPEN_CONTAINERS_MAX: usize = 64;
/// Readers look at the index again at most this often when files vanish under them.
pub(crate) const REFRESH_MAX: usize = 8;

impl Repository {
    /// Reads the record at `place`. Whether it is good is for who opens its seal; when it is not,
    /// [`Repository::heal`] may help.
    pub fn read(&self, place: Place, buffer: &mut Vec<u8>) -> Result<()> {
        match self.container(place.container)?.read(place, buffer) {
            Err(_) if self.heal(place, buffer) => Ok(()),
            result => result,
        }
    }

    /// Reads the record at `place`, from parity when its checksum does not fit.
    pub(crate) fn read_good(&self, place: Place, buffer: &mut Vec<u8>) -> Result<()> {
        self.read(place, buffer)?;
        if let Err(reason) = verify(buffer)
            && !self.heal(place, buffer)
        {
            return Err(Error::damaged(&container::name(place.container), reason));
        }
        Ok(())
    }

    /// Makes the record at `place` good from the parity of its container. Whether that was done:
    /// not when nothing was wrong with it.
    pub fn heal(&self, place: Place, buffer: &mut Vec<u8>) -> bool {
        if self.healed.lock().get(&place) == Some(&false) {
            return false;
        }
        let is_healed = self.container(place.container).is_ok_and(|it| it.heal(place, buffer));
        self.healed.lock().insert(place, is_healed);
        is_healed
    }

    /// Notes that the record at `place` was read from parity.
    pub fn note_healed(&self, place: Place) {
        self.healed.lock().insert(place, true);
    }

    /// Records that were read from parity so far, sorted.
    pub fn healed(&self) -> Vec<Place> {
        self.healed.lock().iter().filter(|(_, healed)| **healed).map(|(place, _)| *place).collect()
    }

    /// Finds and reads the record that holds `id`, even while reclaim moves it.
    pub fn fetch(&self, id: &ObjectId, buffer: &mut Vec<u8>) -> Result<Place> {
        for _ in 0..REFRESH_MAX {
            let Some(place) = self.index().find_many(&[*id])?[0] else { break };
            match self.read(place, buffer) {
                Err(error) if error.is_gone() => self.refresh_after(place.container)?,
                result => return result.map(|()| place),
            }
        }
        Err(Error::ObjectMissing(*id))
    }

    /// Forgets an open container that vanished, and looks at the index again.
    pub fn refresh_after(&self, gone: ContainerNo) -> Result<()> {
        self.open.lock().retain(|reader| reader.number() != gone);
        self.refresh()
    }

    /// The container `number`, open.
    pub fn container(&self, number: ContainerNo) -> Result<Arc<ContainerReader>> {
        if let Some(reader) = self.open.lock().iter().find(|reader| reader.number() == number) {
            return Ok(reader.clone());
        }
        let reader = Arc::new(ContainerReader::open(&*self.storage, number)?);
        let mut open = self.open.lock();
        open.push_front(reader.clone());
        open.truncate(OPEN_CONTAINERS_MAX);
        Ok(reader)
    }

    /// Lets go of the open containers `numbers`, so that their space comes back.
    pub(crate) fn close(&self, numbers: &[ContainerNo]) {
        self.open.lock().retain(|reader| !numbers.contains(&reader.number()));
    }
}
