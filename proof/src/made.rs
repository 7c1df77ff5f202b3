//! What a rig works on: a repository of each kind that `init` makes.

use crate::icecore::Icecore;
use crate::volume::Volume;
use std::path::{Path, PathBuf};
use testkit::s3::Gateway;

/// Kinds of repositories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In a directory.
    Directory,
    /// In a directory; each backup stores all of its data.
    WithoutDedup,
    /// In a bucket, at an object storage that this process starts.
    Bucket,
}

impl Kind {
    /// Its name as an option; a directory when there is none.
    pub(crate) fn named(name: Option<&str>) -> Result<Self, String> {
        match name {
            None | Some("directory") => Ok(Self::Directory),
            Some("without-dedup") => Ok(Self::WithoutDedup),
            Some("bucket") => Ok(Self::Bucket),
            Some(other) => Err(format!("--kind {other}: write directory, without-dedup or bucket")),
        }
    }

    /// A new repository at `directory`, or in a bucket.
    pub(crate) fn make(
        self,
        binary: &Path,
        directory: &Path,
        volume: Option<Volume>,
    ) -> Result<Icecore, String> {
        let (repository, mut variables) = match self {
            Self::Bucket => in_bucket(),
            _ => (directory.to_owned(), Vec::new()),
        };
        // What is killed may be writing there, too.
        let cache = directory.with_file_name("cache");
        variables.push(("ICECORE_CACHE_DIR", cache.to_string_lossy().into_owned()));
        let icecore = Icecore { binary: binary.to_owned(), repository, volume, variables };
        let location = icecore.repository.to_string_lossy().into_owned();
        let mut words = vec!["init", "--repo", &*location];
        if self == Self::WithoutDedup {
            words.extend(["--dedup", "off"]);
        }
        icecore.run(&words)?;
        Ok(icecore)
    }
}

/// An address in a new bucket, and with which variables programs reach it.
fn in_bucket() -> (PathBuf, Vec<(&'static str, String)>) {
    let gateway = Gateway::shared();
    let location = format!("s3://{}/repository", gateway.bucket());
    (location.into(), gateway.variables().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_nobody_knows_is_told_and_none_is_a_directory() {
        assert_eq!(Kind::named(None), Ok(Kind::Directory));
        assert_eq!(Kind::named(Some("bucket")), Ok(Kind::Bucket));
        let why = Kind::named(Some("s3")).unwrap_err();
        assert!(why.contains("--kind s3") && why.contains("without-dedup"), "{why}");
    }
}
