//! The key of a managed domain, for users who can read the server's own files: without it nobody could
//! check, forget and reclaim there.

use super::folder::Folder;
use super::open::open_master;
use super::{Control, Error, Result};
use api::Name;
use catalog::{By, Catalog};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Name in the audit log of a user who works with the files instead of the API.
const READER: &str = "who may read the server's files";

impl Control {
    /// The recovery key of the server's own slot in `domain`, as text. The server whose files lie in
    /// `folder` may run or not. It is noted in the audit log.
    ///
    /// # Errors
    /// [`Error::NoKeys`] for domains whose keys only nodes know; [`Error::Usage`] when there is no such
    /// domain; [`Error::File`], [`Error::Catalog`], [`Error::Sealed`].
    pub fn domain_key(folder: &Path, domain: &Name) -> Result<Zeroizing<String>> {
        let folder = Folder::look(folder)?;
        let catalog = Catalog::open(&folder.catalog()?)?;
        let known = catalog.domain(domain)?;
        let known = known.ok_or_else(|| Error::Usage(format!("there is no domain '{domain}'")))?;
        let sealed = known.sealed.ok_or_else(|| Error::NoKeys(domain.to_string()))?;
        let secret = open_master(&folder, &catalog)?.open(domain.as_str(), &sealed)?;
        let by = By { who: READER, now_secs: now_secs() };
        catalog.audit_note(by, "domain.key", domain.as_str(), "shown")?;
        Ok(Zeroizing::new(crypto::recovery_to_text(&secret)))
    }

    /// The folder of the repository of a managed domain, and what opens the server's own slot there: to forget in it.
    /// The server whose files lie in `folder` may run or not. It is noted in the audit log.
    ///
    /// # Errors
    /// As [`Control::domain_key`]; [`Error::OnStorageServer`].
    pub fn open_to_forget(folder: &Path, domain: &Name) -> Result<(PathBuf, Zeroizing<[u8; 32]>)> {
        let folder = Folder::look(folder)?;
        let catalog = Catalog::open(&folder.catalog()?)?;
        let known = catalog.domain(domain)?;
        let known = known.ok_or_else(|| Error::Usage(format!("there is no domain '{domain}'")))?;
        let sealed = known.sealed.ok_or_else(|| Error::NoKeys(domain.to_string()))?;
        if let Some(storage) = known.storage {
            return Err(on_storage_server(domain, &storage));
        }
        let secret = open_master(&folder, &catalog)?.open(domain.as_str(), &sealed)?;
        let by = By { who: READER, now_secs: now_secs() };
        catalog.audit_note(by, "domain.forget", domain.as_str(), "with the server's own key")?;
        Ok((folder.domain(domain), secret))
    }
}

impl Control {
    /// The folder of the repository of `domain`, for what needs none of its keys. The server whose files lie in
    /// `folder` may run or not. `action` is noted in the audit log.
    ///
    /// # Errors
    /// [`Error::Usage`] when there is no such domain; [`Error::OnStorageServer`]; [`Error::File`], [`Error::Catalog`].
    pub fn domain_folder(folder: &Path, domain: &Name, action: &str) -> Result<PathBuf> {
        let folder = Folder::look(folder)?;
        let catalog = Catalog::open(&folder.catalog()?)?;
        let known = catalog.domain(domain)?;
        let known = known.ok_or_else(|| Error::Usage(format!("there is no domain '{domain}'")))?;
        if let Some(storage) = known.storage {
            return Err(on_storage_server(domain, &storage));
        }
        let by = By { who: READER, now_secs: now_secs() };
        catalog.audit_note(by, action, domain.as_str(), "without keys")?;
        Ok(folder.domain(domain))
    }
}

fn on_storage_server(domain: &Name, storage: &Name) -> Error {
    Error::OnStorageServer { domain: domain.to_string(), storage: storage.to_string() }
}

fn now_secs() -> i64 {
    jiff::Timestamp::now().as_second()
}
