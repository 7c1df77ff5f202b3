//! Which certificates are refused, whatever the catalog says: a catalog that was restored from an older copy does not
//! know whom its server has revoked since.
//!
//! The file `revoked` has a line for each certificate, not for each name: a machine that enrolls again under the name
//! has another certificate. It takes what the catalog says, and loses nothing that the catalog does not know any more.

use crate::checked_file::{self, Found};
use crate::error::refused;
use crate::{Result, SERVER, by, now_secs};
use api::Name;
use catalog::Catalog;
use catalog::certificates::{Holder, IssuedCertificate};
use parking_lot::Mutex;
use server_contract::folder::Folder;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const FILE: &str = "revoked";
/// Where a damaged file goes when an administrator says that the server goes on without it.
const DAMAGED: &str = "revoked.damaged";
/// How long an expired certificate stays in the list: clocks go wrong.
const EXPIRED_KEPT_SECS: i64 = 400 * 86_400;

/// A revoked certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Revoked {
    of: Holder,
    holder: Name,
    since: i64,
    not_after: i64,
}

#[derive(Default)]
struct List {
    /// By serial number.
    certificates: BTreeMap<String, Revoked>,
    /// Why nobody knows whether this is all.
    fault: Option<String>,
    /// Whether the file lacks some of them.
    is_behind: bool,
}

/// The list of revoked certificates.
pub(crate) struct Revocations {
    folder: Arc<Folder>,
    catalog: Arc<Catalog>,
    list: Mutex<List>,
}

impl Revocations {
    /// Whether there is a list in `folder`.
    pub(crate) fn is_in(folder: &Folder) -> bool {
        folder.file(FILE).exists()
    }

    /// The list in `folder`. Where none `is_expected`, it is made of the catalog.
    ///
    /// # Errors
    /// [`crate::Error::System`], [`crate::Error::Catalog`].
    pub(crate) fn open(
        folder: Arc<Folder>,
        catalog: Arc<Catalog>,
        is_expected: bool,
    ) -> Result<Self> {
        let path = folder.file(FILE);
        let fault = |what: &str| Some(format!("{} is {what}", path.display()));
        let list = match checked_file::read(&folder, FILE)? {
            Found::Whole(body) => List { certificates: parse(&body), ..List::default() },
            Found::Damaged(text) => {
                List { certificates: parse(&text), fault: fault("damaged"), is_behind: false }
            }
            Found::Missing if is_expected => List { fault: fault("missing"), ..List::default() },
            Found::Missing => List { is_behind: true, ..List::default() },
        };
        let revocations = Self { folder, catalog, list: Mutex::new(list) };
        // A full disk keeps no server from its start.
        match revocations.catch_up() {
            Err(error @ crate::Error::Catalog(_)) => return Err(error),
            Err(error) => tracing::error!(%error, "cannot write the list of revoked certificates"),
            Ok(()) => {}
        }
        Ok(revocations)
    }

    /// Whose revoked certificate this is; `None` for one that is not revoked.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] while nobody knows which ones are.
    pub(crate) fn holder_of(&self, serial: &str) -> Result<Option<Name>> {
        let list = self.list.lock();
        if list.fault.is_some() {
            let message = "the server admits nobody: it does not know any more which certificates it has revoked";
            return Err(refused(
                message.to_owned(),
                "An administrator of the server sees what to do: icecore server status",
            ));
        }
        Ok(list.certificates.get(serial).map(|revoked| revoked.holder.clone()))
    }

    /// Takes over what the catalog has revoked, durably; and the catalog takes over who has only revoked certificates.
    ///
    /// # Errors
    /// [`crate::Error::System`], [`crate::Error::Catalog`]: the list is right in memory, and written the next time.
    pub(crate) fn catch_up(&self) -> Result<()> {
        let all = self.catalog.certificates()?;
        self.add(all.iter().filter(|one| one.revoked))?;
        for (of, holder) in self.given_back(&all) {
            tracing::warn!(%holder, "the catalog did not know that it was revoked");
            match of {
                Holder::Node => self.catalog.revoke_node(by(SERVER), &holder)?,
                Holder::StorageServer => {
                    self.catalog.revoke_storage_server(by(SERVER), &holder)?;
                }
            }
        }
        Ok(())
    }

    /// Adds certificates, durably.
    ///
    /// # Errors
    /// As [`Revocations::catch_up`].
    pub(crate) fn add<'a>(
        &self,
        revoked: impl IntoIterator<Item = &'a IssuedCertificate>,
    ) -> Result<()> {
        let (mut list, since) = (self.list.lock(), now_secs());
        for IssuedCertificate { of, holder, serial, not_after, .. } in revoked {
            if is_over(*not_after, since) || list.certificates.contains_key(serial) {
                continue;
            }
            let (of, holder, not_after) = (*of, holder.clone(), *not_after);
            list.certificates.insert(serial.clone(), Revoked { of, holder, since, not_after });
            list.is_behind = true;
        }
        self.write(&mut list, since)
    }

    /// Those that the catalog lets in although none of their certificates is good.
    fn given_back(&self, all: &[IssuedCertificate]) -> BTreeSet<(Holder, Name)> {
        let list = self.list.lock();
        let is_listed = |one: &&IssuedCertificate| list.certificates.contains_key(&one.serial);
        let good = all.iter().filter(|one| !one.revoked);
        let (listed, others): (Vec<_>, Vec<_>) = good.partition(is_listed);
        let has_others =
            |of, holder: &Name| others.iter().any(|it| it.of == of && it.holder == *holder);
        let given_back = listed.into_iter().filter(|one| !has_others(one.of, &one.holder));
        given_back.map(|one| (one.of, one.holder.clone())).collect()
    }

    /// Nothing is written in the place of a file that is damaged or missing, until somebody says so.
    fn write(&self, list: &mut List, now_secs: i64) -> Result<()> {
        if !list.is_behind || list.fault.is_some() {
            return Ok(());
        }
        list.certificates.retain(|_, revoked| !is_over(revoked.not_after, now_secs));
        checked_file::write(&self.folder, FILE, &text(&list.certificates))?;
        list.is_behind = false;
        Ok(())
    }

    /// Why nobody is admitted.
    pub(crate) fn fault(&self) -> Option<String> {
        let fault = self.list.lock().fault.clone()?;
        Some(format!(
            "{fault}, so nobody knows which certificates were revoked, and no node is admitted. Bring it back from its copy, and start the server again; or let the catalog say who is revoked: icecore server catalog confirm"
        ))
    }

    /// An administrator says that what the catalog and the rest of the file say is all.
    ///
    /// # Errors
    /// As [`Revocations::catch_up`].
    pub(crate) fn confirm(&self) -> Result<()> {
        let mut list = self.list.lock();
        if list.fault.is_none() {
            return Ok(());
        }
        if Self::is_in(&self.folder) {
            let to = self.folder.file(DAMAGED);
            std::fs::rename(self.folder.file(FILE), &to)
                .map_err(server_contract::Error::file(&to))?;
        }
        let fault = list.fault.take();
        list.is_behind = true;
        self.write(&mut list, now_secs()).inspect_err(|_| list.fault = fault)
    }
}

fn is_over(not_after: i64, now_secs: i64) -> bool {
    not_after < now_secs.saturating_sub(EXPIRED_KEPT_SECS)
}

fn text(certificates: &BTreeMap<String, Revoked>) -> String {
    let line = |(serial, revoked): (&String, &Revoked)| {
        let Revoked { of, holder, since, not_after } = revoked;
        format!("{serial} {} {holder} {since} {not_after}\n", word(*of))
    };
    certificates.iter().map(line).collect()
}

/// All lines that can be understood.
fn parse(text: &str) -> BTreeMap<String, Revoked> {
    let line = |line: &str| {
        let [serial, of, holder, since, not_after] =
            line.split(' ').collect::<Vec<_>>().try_into().ok()?;
        let of = [Holder::Node, Holder::StorageServer].into_iter().find(|it| word(*it) == of)?;
        let (since, not_after) = (since.parse().ok()?, not_after.parse().ok()?);
        let holder = holder.parse().ok()?;
        Some((serial.to_owned(), Revoked { of, holder, since, not_after }))
    };
    text.lines().filter_map(line).collect()
}

fn word(of: Holder) -> &'static str {
    match of {
        Holder::Node => "node",
        Holder::StorageServer => "storage-server",
    }
}

#[cfg(test)]
mod tests;
