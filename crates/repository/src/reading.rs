//! Reading records: healed with parity when they are damaged, and found again while reclaim moves them.

use crate::container::read::ContainerReader;
use crate::{Error, Repository, Result, container};
use format::record::verify;
use ids::{ContainerNo, ObjectId, RecordLocation};
use std::sync::Arc;

/// Containers kept open for reading.
const OPEN_CONTAINERS_MAX: usize = 64;
/// Readers look at the index again at most this often when files vanish under them.
pub(crate) const REFRESH_MAX: usize = 8;

impl Repository {
    /// The locations of the records that hold `ids`; `None` for an unknown id.
    pub fn locate(&self, ids: &[ObjectId]) -> Result<Vec<Option<RecordLocation>>> {
        self.index().find_many(ids)
    }

    /// Reads the record at `location`. The caller verifies it when it opens the seal; when it is damaged,
    /// [`Repository::heal`] may help.
    pub fn read(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> Result<()> {
        match self.container(location.container)?.read(location, buffer) {
            Err(_) if self.heal(location, buffer) => Ok(()),
            result => result,
        }
    }

    /// Reads the record at `location`, from parity when its checksum does not fit.
    pub(crate) fn read_good(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> Result<()> {
        self.read(location, buffer)?;
        if let Err(reason) = verify(buffer)
            && !self.heal(location, buffer)
        {
            return Err(Error::damaged(&container::name(location.container), reason));
        }
        Ok(())
    }

    /// Heals the record at `location`: from where it lies, if only what this machine keeps of it is damaged, or with the
    /// parity of its container. `false` when that was not possible or not needed.
    pub fn heal(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> bool {
        if self.healed.lock().is_hopeless(&location) {
            return false;
        }
        if self.is_good_afresh(location, buffer) {
            return true;
        }
        let is_healed =
            self.container(location.container).is_ok_and(|it| it.heal(location, buffer));
        self.healed.lock().note(location, is_healed);
        is_healed
    }

    /// Reads the record at `location` once more, without what this machine keeps; whether it is good now. It is not damage,
    /// and so not noted: what lies there is whole.
    fn is_good_afresh(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> bool {
        if !self.storage.distrust(&container::name(location.container)) {
            return false;
        }
        self.close(&[location.container]);
        let container = self.container(location.container);
        container.and_then(|it| it.read(location, buffer)).is_ok() && verify(buffer).is_ok()
    }

    /// Records that the record at `location` was healed.
    pub fn note_healed(&self, location: RecordLocation) {
        self.healed.lock().note(location, true);
    }

    /// Locations of the records that were healed so far, sorted.
    pub fn healed(&self) -> Vec<RecordLocation> {
        self.healed.lock().locations()
    }

    /// Finds and reads the record that holds `id`, even while reclaim moves it.
    pub fn fetch(&self, id: &ObjectId, buffer: &mut Vec<u8>) -> Result<RecordLocation> {
        for _ in 0..REFRESH_MAX {
            let Some(location) = self.index().find_many(&[*id])?[0] else { break };
            match self.read(location, buffer) {
                Err(error) if error.is_container_missing() => {
                    self.refresh_after(location.container)?
                }
                result => return result.map(|()| location),
            }
        }
        Err(Error::ObjectMissing(*id))
    }

    /// Closes a container that no longer exists, and reads the index again.
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
