//! The key of a managed domain, for who may read the server's own files: without it nobody could
//! check, forget and reclaim there.

use super::folder::Folder;
use super::open::open_master;
use super::{Control, Error, Result};
use api::Name;
use catalog::{By, Catalog};
use std::path::Path;
use zeroize::Zeroizing;

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
        let by = By { who: "who may read the server's files", now_secs: now_secs() };
        catalog.audit_note(by, "domain.key", domain.as_str(), "shown")?;
        Ok(Zeroizing::new(crypto::recovery_to_text(&secret)))
    }
}

fn now_secs() -> i64 {
    jiff::Timestamp::now().as_second()
}
