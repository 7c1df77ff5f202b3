//! Containers in cold storage classes: which of them need not be read, for they hold nothing but content of files.

use crate::{Repository, Result, container};
use ids::ContainerNo;
use rustc_hash::FxHashSet;

impl Repository {
    /// Those of `numbers` that are cold and hold nothing but content of files, as their writer has marked them: no
    /// manifest is missed by who does not read them. Asks only where such containers are written.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn cold_content(&self, numbers: &[ContainerNo]) -> Result<FxHashSet<ContainerNo>> {
        if !self.storage.separates_content()? {
            return Ok(FxHashSet::default());
        }
        let names: Vec<_> = numbers.iter().map(|number| container::name(*number)).collect();
        let cold = self.storage.cold(&names)?.into_iter().zip(numbers);
        let is_content =
            |cold: &Option<crate::storage::Cold>| cold.as_ref().is_some_and(|it| it.is_content);
        Ok(cold.filter(|(cold, _)| is_content(cold)).map(|(_, number)| *number).collect())
    }

    /// Whether the container `number`, which is archived, holds nothing but content of files.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn is_archived_content(&self, number: ContainerNo) -> Result<bool> {
        let cold = self.storage.cold(&[container::name(number)])?;
        Ok(cold.into_iter().flatten().any(|cold| cold.is_content))
    }
}
