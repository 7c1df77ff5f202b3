//! What users do who can read the server's own files, whether it runs or not: without the key of a managed domain
//! nobody could check, forget and reclaim there. Each step is noted in the audit log.

use crate::catalog_location::stored;
use crate::catalog_mark::CatalogMark;
use crate::machine_clock::MachineClock;
use crate::pools::{DomainFolder, place_of};
use crate::retention::{SnapshotStore, kept, known};
use crate::sealing::{MasterKey, open_master};
use crate::{Error, Result, by};
use ::retention::Facts;
use api::Name;
use catalog::Catalog;
use catalog::domains::Domain;
use clock::{Doubt, Reading};
use ids::{RepositoryId, SnapshotId};
use repository::Repository;
use repository::snapshots::SnapshotRef;
use repository::storage::Storage;
use server_contract::Expired;
use server_contract::folder::Folder;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Looks without changing anything, as the audit log names it.
const CHECK: &str = "domain.check";
/// Name in the audit log of a user who works with the files instead of the API.
pub(crate) const READER: &str = "who may read the server's files";

/// The recovery key of the server's own slot in `domain`, as text. `folder` has the server's files.
///
/// # Errors
/// [`Error::NoKeys`] for domains whose keys only nodes know; [`Error::Usage`] when there is no such domain;
/// [`Error::System`], [`Error::Catalog`], [`Error::Sealed`].
pub fn domain_key(folder: &Path, domain: &Name) -> Result<Zeroizing<String>> {
    let files = Files::open(folder)?;
    let secret = files.secret(&files.domain(domain)?)?;
    files.note("domain.key", domain, "shown")?;
    Ok(Zeroizing::new(crypto::recovery_to_text(&secret)))
}

/// The recovery key of the server's own slot in a copy of a managed domain, the repository `of`, as text. It needs
/// `master.key` alone: neither the catalog, which has no entry of it then, nor a pool.
///
/// # Errors
/// [`Error::NoMasterKey`], [`Error::System`].
pub fn copied_domain_key(
    folder: &Path,
    domain: &Name,
    of: RepositoryId,
) -> Result<Zeroizing<String>> {
    let folder = Folder::look(folder)?;
    let missing = || Error::NoMasterKey { path: folder.file("master.key") };
    let master = MasterKey::from_text(&folder.secret("master.key", || Err(missing()))?)?;
    Ok(Zeroizing::new(crypto::recovery_to_text(&master.slot_secret(domain.as_str(), of))))
}

/// The folder of the repository of a managed domain, and what opens the server's own slot there: to forget in it.
/// `folder` has the server's files.
///
/// # Errors
/// As [`domain_key`]; [`Error::OnStorageServer`].
pub fn open_to_forget(folder: &Path, domain: &Name) -> Result<(PathBuf, Zeroizing<[u8; 32]>)> {
    let files = Files::open(folder)?;
    let known = files.domain(domain)?;
    sealed(&known)?;
    must_lie_here(&known)?;
    let secret = files.secret(&known)?;
    let folder = files.place(&known, true)?;
    files.note("domain.forget", domain, "with the server's own key")?;
    Ok((folder, secret))
}

/// The snapshots of the repository of `domain`, in `storage`, that nobody may forget, and why: what a hold or a lock
/// keeps; all of them while the time or the catalog is in doubt. `folder` has the server's files.
///
/// # Errors
/// [`Error::System`], [`Error::Catalog`], [`Error::Usage`], [`Error::Repository`]: then nobody knows what may go.
pub fn kept_snapshots(
    folder: &Path,
    domain: &Name,
    storage: Arc<dyn Storage>,
) -> Result<BTreeMap<SnapshotId, String>> {
    let files = Files::open(folder)?;
    let catalog = Arc::new(files.catalog);
    let reading = MachineClock::new(catalog.clone()).read()?;
    let is_older = CatalogMark::is_doubted(&files.folder, &catalog)?;
    let doubt = if is_older { Some(Doubt::Catalog) } else { reading.doubt };
    let repository = OpenRepository(Repository::open(storage)?);
    kept(&catalog, &repository, domain, Reading { doubt, ..reading })
}

/// A repository that was opened, of whichever domain.
struct OpenRepository(Repository);

impl SnapshotStore for OpenRepository {
    fn names(&self, _: &Name) -> Result<Vec<SnapshotRef>> {
        Ok(self.0.current_snapshots()?)
    }

    fn facts(&self, _: &Name, names: &[SnapshotRef]) -> Result<Vec<Facts>> {
        known(names, names.iter().map(|name| self.0.received(*name)).collect())
    }

    fn expire(&self, domain: &Name, _: &[SnapshotId], _: Reading) -> Result<Expired> {
        Err(Error::Usage(format!("the domain '{domain}' was opened to look at it")))
    }
}

/// The folder of the repository of `domain`, for what needs none of its keys. `folder` has the server's files;
/// `action` is noted in the audit log.
///
/// # Errors
/// [`Error::Usage`] when there is no such domain; [`Error::OnStorageServer`]; [`Error::System`], [`Error::Catalog`].
pub fn domain_folder(folder: &Path, domain: &Name, action: &str) -> Result<PathBuf> {
    let files = Files::open(folder)?;
    let known = files.domain(domain)?;
    must_lie_here(&known)?;
    let folder = files.place(&known, action != CHECK)?;
    files.note(action, domain, "without keys")?;
    Ok(folder)
}

/// The files of a server.
struct Files {
    folder: Folder,
    catalog: Catalog,
}

impl Files {
    fn open(folder: &Path) -> Result<Self> {
        let folder = Folder::look(folder)?;
        let catalog = Catalog::open(&stored(&folder)?)?;
        Ok(Self { folder, catalog })
    }

    fn domain(&self, name: &Name) -> Result<Domain> {
        let known = self.catalog.domain(name)?;
        known.ok_or_else(|| Error::Usage(format!("there is no domain '{name}'")))
    }

    /// Where a domain lies, unless it is to be written there and may not.
    fn place(&self, domain: &Domain, writes: bool) -> Result<PathBuf> {
        let DomainFolder { folder, read_only } = place_of(&self.catalog, &self.folder, domain)?;
        self.folder.verify_pool(domain.pool.as_ref()).map_err(repository::Error::from)?;
        match read_only.filter(|_| writes) {
            Some(refusal) => Err(refusal.into()),
            None => Ok(folder),
        }
    }

    fn secret(&self, domain: &Domain) -> Result<Zeroizing<[u8; 32]>> {
        let sealed = sealed(domain)?;
        open_master(&self.folder, &self.catalog)?.open(domain.name.as_str(), sealed)
    }

    fn note(&self, action: &str, domain: &Name, detail: &str) -> Result<()> {
        Ok(self.catalog.audit_note(by(READER), action, domain.as_str(), detail)?)
    }
}

fn sealed(domain: &Domain) -> Result<&[u8]> {
    domain.sealed.as_deref().ok_or_else(|| Error::NoKeys(domain.name.to_string()))
}

fn must_lie_here(domain: &Domain) -> Result<()> {
    let Some(storage) = &domain.storage else { return Ok(()) };
    Err(Error::OnStorageServer { domain: domain.name.to_string(), storage: storage.to_string() })
}
