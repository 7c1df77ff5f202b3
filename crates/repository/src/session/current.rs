//! The containers that a session fills: one for everything, or a second one for content of files where the storage
//! keeps that apart.

use crate::Result;
use crate::container::write::ContainerWriter;
use crate::storage::Storage;
use format::record::RecordKind;

/// The containers under construction.
#[derive(Default)]
pub(super) struct Current {
    content: Option<ContainerWriter>,
    rest: Option<ContainerWriter>,
    /// Asked once: what a session has begun it goes on with.
    separates: Option<bool>,
}

impl Current {
    /// Where a record of `kind` goes.
    pub(super) fn slot(
        &mut self,
        storage: &dyn Storage,
        kind: RecordKind,
    ) -> Result<&mut Option<ContainerWriter>> {
        let separates = match self.separates {
            Some(known) => known,
            None => *self.separates.insert(storage.separates_content()?),
        };
        let is_apart = separates && kind == RecordKind::Data;
        Ok(if is_apart { &mut self.content } else { &mut self.rest })
    }

    /// Takes all of them; the one with the manifest comes last.
    pub(super) fn take(&mut self) -> impl Iterator<Item = ContainerWriter> + use<> {
        self.content.take().into_iter().chain(self.rest.take())
    }
}
