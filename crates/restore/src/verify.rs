//! Inspecting existing objects: before writing (unchanged?) and after (as recorded?).

use crate::abilities::TimeMatch;
use crate::flags;
use crate::handle::AttributeHandle;
use crate::names;
use crate::problem::{Attribute, RestoreCause, RestoreOperation, RestoreProblem};
use crate::replace;
use crate::system::{self, ONLY_PATH, READ};
use crate::target::Target;
use crate::xattrs;
use format::entry::{Entry, Kind};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, Statx};
use rustix::io::Errno;
use std::fs::File;

/// An attribute that differs from the snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Path below the target.
    pub path: Vec<u8>,
    /// What differs.
    pub attribute: Attribute,
}

/// Whether an existing object matches an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContentMatch {
    /// It equals the entry.
    Equal,
    /// It seems equal, but a restore that did not finish wrote it, or the file system keeps times
    /// less exactly: the content must be compared.
    Uncertain,
    /// It has to be restored.
    Different,
}

/// The object of an entry as it is on disk.
struct Found {
    directory: OwnedFd,
    object: OwnedFd,
    stat: Statx,
}

impl Target {
    /// Whether the object at `path` may be that of `entry`, another name of it, as far as kind, size and mtime tell.
    pub fn may_be(&self, path: &[u8], entry: &Entry) -> bool {
        let Ok(found) = self.look(path) else { return false };
        system::kind(&found) == Some(entry.kind())
            && (entry.kind() != Kind::File || found.stx_size == entry.size)
            && self.match_time(&found, entry.mtime) != TimeMatch::Different
    }

    /// Whether anything has this path.
    pub fn is_there(&self, path: &[u8]) -> bool {
        self.look(path).is_ok()
    }

    /// Whether a restore of the same that did not finish has begun what is at the path of a file: it has to be as that
    /// leaves one, finished or not. What somebody put there since has another mode, and its own time.
    pub fn is_begun(&self, entry: &Entry) -> bool {
        let scope = self.0.options.scope.as_ref();
        self.look(&entry.path).is_ok_and(|stat| {
            let is_finished = system::mtime(&stat) == entry.mtime && stat.stx_size == entry.size;
            let early = [0o600, u32::from(entry.attributes.mode) & 0o777];
            let is_as_created = stat.stx_uid == self.0.credentials.uid
                && stat.stx_size <= entry.size
                && early.contains(&system::mode(&stat));
            (is_finished || is_as_created) && self.0.unfinished.has_begun(&stat, scope)
        })
    }

    pub(crate) fn look(&self, path: &[u8]) -> Result<Statx, RestoreProblem> {
        let (directory, name) = names::split(path, RestoreOperation::Inspect)?;
        let held = self.existing(directory, RestoreOperation::Inspect)?;
        let problem = |error: Errno| RestoreProblem::new(path, RestoreOperation::Inspect, error);
        system::stat_at(held.as_fd(), name).map_err(problem)
    }

    /// Whether the object exists with the same kind, size and mtime (symlinks: the same target), so
    /// that a resumed restore need not fetch it. Then its other attributes are corrected. The inode
    /// does not matter.
    pub fn match_metadata(&self, entry: &Entry) -> ContentMatch {
        self.match_object(entry, false)
    }

    /// The same after [`ContentMatch::Uncertain`], once the content was found equal.
    pub fn match_after_comparison(&self, entry: &Entry) -> ContentMatch {
        self.match_object(entry, true)
    }

    fn match_object(&self, entry: &Entry, is_compared: bool) -> ContentMatch {
        let Ok((directory, name)) = names::split(&entry.path, RestoreOperation::Inspect) else {
            return ContentMatch::Different;
        };
        let Ok(open) = self.existing(directory, RestoreOperation::Inspect) else {
            return ContentMatch::Different;
        };
        let Ok(stat) = system::stat_at(open.as_fd(), name) else { return ContentMatch::Different };
        let timed = self.match_time(&stat, entry.mtime);
        if timed == TimeMatch::Different || !replace::is_alike(open.as_fd(), name, &stat, entry) {
            return ContentMatch::Different;
        }
        if self.is_of_another(open.as_fd(), &entry.path) {
            return ContentMatch::Different;
        }
        let is_rough = timed == TimeMatch::Rough && entry.kind() == Kind::File;
        if !is_compared && (is_rough || self.is_uncertain(&stat, entry)) {
            return ContentMatch::Uncertain;
        }
        match self.fix_attributes(open.as_fd(), name, &stat, entry) {
            true => ContentMatch::Equal,
            false => ContentMatch::Different,
        }
    }

    /// Compares all attributes with the object on disk. Owners are not compared if the process may
    /// not set them, modes and owners if the file system keeps none, and times only as exactly as
    /// it keeps them (one degradation each for the whole restore); link counts, inode numbers and
    /// ctime never are.
    pub fn compare_metadata(&self, entry: &Entry) -> Vec<Difference> {
        let differing = match self.find(&entry.path) {
            Ok(found) => self.differing(&found, entry),
            Err(_) => vec![Attribute::Presence],
        };
        let path = || entry.path.clone();
        differing.into_iter().map(|attribute| Difference { path: path(), attribute }).collect()
    }

    /// Opens a restored regular file to read its content.
    pub fn open_for_verify(&self, path: &[u8]) -> Result<File, RestoreProblem> {
        let problem =
            |cause: RestoreCause| RestoreProblem::new(path, RestoreOperation::Open, cause);
        let (directory, name) = names::split(path, RestoreOperation::Open)?;
        let open = self.existing(directory, RestoreOperation::Open)?;
        let file = rustix::fs::openat(&open, name, READ, Mode::empty())
            .map_err(|error| problem(error.into()))?;
        let stat = system::stat_open(file.as_fd()).map_err(|error| problem(error.into()))?;
        if system::file_type(&stat) != FileType::RegularFile {
            return Err(problem(RestoreCause::WrongKind));
        }
        Ok(file.into())
    }

    fn find(&self, path: &[u8]) -> Result<Found, RestoreProblem> {
        let (directory, name) = match path {
            b"" => (path, &b"."[..]), // the root itself
            _ => names::split(path, RestoreOperation::Inspect)?,
        };
        let problem = |error: Errno| RestoreProblem::new(path, RestoreOperation::Inspect, error);
        let directory = self.existing(directory, RestoreOperation::Inspect)?;
        let object =
            rustix::fs::openat(&directory, name, ONLY_PATH, Mode::empty()).map_err(problem)?;
        let stat = system::stat_open(object.as_fd()).map_err(problem)?;
        Ok(Found { directory, object, stat })
    }

    fn differing(&self, found: &Found, entry: &Entry) -> Vec<Attribute> {
        if system::kind(&found.stat) != Some(entry.kind()) {
            return vec![Attribute::Kind];
        }
        if self.0.options.is_above_sources(&entry.path) && !self.has_made_above(&found.stat) {
            return Vec::new(); // it keeps what it has
        }
        let mut list = self.differing_numbers(&found.stat, entry);
        let directory = found.directory.as_fd();
        if entry.kind() == Kind::Symlink && !replace::has_target(directory, entry.name(), entry) {
            list.push(Attribute::LinkTarget);
        }
        list.extend(differing_xattrs(found.object.as_fd(), entry).map(Attribute::Xattr));
        list
    }

    fn differing_numbers(&self, stat: &Statx, entry: &Entry) -> Vec<Attribute> {
        let kind = entry.kind();
        let device = matches!(kind, Kind::CharDevice | Kind::BlockDevice);
        let owner = (stat.stx_uid, stat.stx_gid) != self.0.owners.of(&entry.attributes);
        let keeps_modes = self.keeps_modes(stat);
        let may_chown = self.0.credentials.may_chown && keeps_modes;
        // Without the right owner, setuid and setgid were dropped on purpose.
        let bits = if owner && !may_chown { 0o1777 } else { 0o7777 };
        let mode = (system::mode(stat) ^ self.mode_of(entry)) & bits;
        [
            (owner && may_chown, Attribute::Owner),
            (mode != 0 && keeps_modes && kind != Kind::Symlink, Attribute::Mode),
            (kind == Kind::File && stat.stx_size != entry.size, Attribute::Size),
            (self.match_time(stat, entry.mtime) == TimeMatch::Different, Attribute::Mtime),
            (device && system::rdev(stat) != entry.rdev, Attribute::Device),
            (
                flags::has_flags(kind) && flags::recorded(stat) != entry.attributes.inode_flags,
                Attribute::InodeFlags,
            ),
        ]
        .into_iter()
        .filter_map(|(differs, attribute)| differs.then_some(attribute))
        .collect()
    }
}

/// The names of recorded attributes that differ, and of attributes of the user that are not
/// recorded.
pub(crate) fn differing_xattrs(
    object: BorrowedFd<'_>,
    entry: &Entry,
) -> impl Iterator<Item = Vec<u8>> {
    let handle = AttributeHandle::path(object);
    let recorded = &entry.attributes.xattrs;
    let wrong = xattrs::wanted(entry).filter(move |xattr| {
        !matches!(xattrs::value(handle, &xattr.name), Ok(Some(value)) if value == xattr.value)
    });
    let there = xattrs::names(handle).unwrap_or_default().into_iter();
    let foreign = there.filter(|name| {
        xattrs::is_ours_to_remove(name)
            && xattrs::knows_all(entry)
            && !recorded.iter().any(|xattr| xattr.name == *name)
    });
    wrong.map(|xattr| xattr.name.clone()).chain(foreign)
}
