//! A copy of a repository, which is opened when it is first needed.

use crate::Repository;
use crate::config::Config;
use crate::storage::Storage;
use std::sync::{Arc, OnceLock};

/// Opens the storage of a copy, or says why not.
pub type OpenStorage = Box<dyn Fn() -> std::result::Result<Arc<dyn Storage>, String> + Send + Sync>;

/// A copy that may be read.
pub struct Copy {
    /// Where it is, for messages.
    pub place: String,
    open: OpenStorage,
    pub(super) opened: OnceLock<std::result::Result<Arc<Repository>, String>>,
}

impl Copy {
    /// A copy at `place` that `open` opens when it is needed.
    pub fn new(place: String, open: OpenStorage) -> Self {
        Self { place, open, opened: OnceLock::new() }
    }

    /// The repository in it, if it is a copy of `first`; receipts are believed in it as in that.
    pub(super) fn repository(&self, first: &Repository) -> Option<&Arc<Repository>> {
        let opened = self.opened.get_or_init(|| {
            let copy = self.look(first.config())?;
            first.verifier.get().into_iter().for_each(|verifier| copy.verify_with(*verifier));
            Ok(copy)
        });
        opened.as_ref().ok()
    }

    /// Opens it, if it is a copy of the repository with the settings `config`.
    ///
    /// # Errors
    /// Why it cannot be used, for people.
    pub fn look(&self, config: &Config) -> std::result::Result<Arc<Repository>, String> {
        let repository = Repository::open((self.open)()?).map_err(|error| error.to_string())?;
        if repository.config() != config {
            return Err("it holds another repository".to_owned());
        }
        Ok(Arc::new(repository))
    }
}

/// What was read from one copy, because the first place had lost it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyUse {
    /// The copy.
    pub place: String,
    /// Records, snapshots and lists that were read from it.
    pub reads: u64,
    /// Why it could not be used.
    pub problem: Option<String>,
}

/// The first of `copies` that opens, for when the first place does not; with its name.
///
/// # Errors
/// Why none opens: place and reason of each.
pub fn instead(
    copies: &[Copy],
) -> std::result::Result<(String, Repository), Vec<(String, String)>> {
    let mut failed = Vec::new();
    for copy in copies {
        let opened = (copy.open)()
            .and_then(|storage| Repository::open(storage).map_err(|error| error.to_string()));
        match opened {
            Ok(repository) => return Ok((copy.place.clone(), repository)),
            Err(reason) => failed.push((copy.place.clone(), reason)),
        }
    }
    Err(failed)
}
