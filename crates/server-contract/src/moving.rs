//! Moving a domain from one pool to another: what the control plane decides, and the holder of the domains does.
//!
//! What is being copied lies beside the domains of the target, in a directory that is none of a domain:
//!
//! ```text
//! .NAME.moving     copied in part
//! .NAME.moved      whole and durable: only now the catalog may name this pool
//! NAME             the domain
//! ```
//! The directory in the source is removed last. Who finds two of them, or none where the catalog says, opens neither.
//! In a pool in a bucket these are notes, of which each leads to the same objects ([`crate::pool::moves`]).

use crate::upkeep::UpkeepError;
use repository::watch::Watch;
use std::path::{Path, PathBuf};

/// Which domain to move where.
#[derive(Clone, Copy, Debug)]
pub struct MoveRequest<'a> {
    /// Its directory; it may be gone when an earlier move was killed.
    pub from: &'a Path,
    /// Its directory in the other pool.
    pub to: &'a Path,
    /// What its directory would be in all others: moves to there that were given up may have left something.
    pub others: &'a [PathBuf],
    /// What runs in the domain is ended, instead of waited for.
    pub interrupt: bool,
    /// The most bytes to copy in a second while the domain is in use; `None` for no limit. While it is closed, nobody
    /// else is there to be spared, and everybody waits.
    pub bytes_per_sec: Option<u64>,
    /// An earlier move was killed when the catalog named the other pool already.
    pub is_switched: bool,
}

/// What a move asks of the control plane.
pub trait MoveControl: Sync {
    /// Lets nobody use the domain from now on, for whom it is not being moved; `false` if somebody does still.
    fn is_free(&self) -> bool;

    /// Both pools may still be used for the move: an administrator may have changed their states since it began.
    ///
    /// # Errors
    /// Why not.
    fn may_go_on(&self) -> Result<(), String>;

    /// The domain may be used, until [`MoveControl::is_free`] is called again.
    fn reopen(&self);

    /// From now on the domain lies in the other pool.
    ///
    /// # Errors
    /// Why that could not be noted.
    fn switch(&self) -> Result<(), String>;
}

/// What a move did: the report of its job is made of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Files that were copied.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// For how long nobody could use the domain, in milliseconds.
    pub closed_ms: u64,
    /// Whether it is done; else it was cancelled, and the domain lies where it did.
    pub is_done: bool,
}

/// Who moves domains, beside the sessions that use them.
pub trait DomainMover: Send + Sync {
    /// Moves a domain, or goes on where an earlier move ended.
    ///
    /// # Errors
    /// [`UpkeepError`]; the next move goes on.
    fn move_domain(
        &self,
        request: &MoveRequest<'_>,
        control: &dyn MoveControl,
        watch: &dyn Watch,
    ) -> Result<Moved, UpkeepError>;
}

/// Where a copy that is not whole lies.
pub fn unfinished(domain: &Path) -> PathBuf {
    beside(domain, "moving")
}

/// Where a copy that is whole waits until the catalog names its pool.
pub fn finished(domain: &Path) -> PathBuf {
    beside(domain, "moved")
}

/// Where a directory lies that is being removed.
pub fn leftover(domain: &Path) -> PathBuf {
    beside(domain, "removed")
}

/// The directory of the domain to which one of these names belongs; its own is that of the domain.
pub fn domain_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = name.strip_prefix('.').and_then(|name| name.rsplit_once('.'));
    beside.map_or_else(|| path.to_owned(), |(domain, _)| path.with_file_name(domain))
}

/// No domain has a name that begins with a dot.
fn beside(domain: &Path, what: &str) -> PathBuf {
    let name = domain.file_name().unwrap_or_default().to_string_lossy();
    domain.with_file_name(format!(".{name}.{what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Name;

    #[test]
    fn what_is_beside_a_domain_is_none() {
        let domain = Path::new("/pool/domains/web-01");
        for path in [unfinished(domain), finished(domain), leftover(domain)] {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert_eq!(path.parent(), domain.parent());
            assert!(name.parse::<Name>().is_err(), "{name}");
            assert_eq!(domain_of(&path), domain);
        }
        assert_eq!(domain_of(domain), domain);
    }
}
