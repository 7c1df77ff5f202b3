//! Paths as they were typed, and as the walk wants them.

use crate::failure::{Failure, Result};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// The path as the walk wants it: from `/`, without `.` and `..`. A link as last name stays one.
pub(crate) fn absolute(path: &OsStr) -> Result<Vec<u8>> {
    if path.is_empty() {
        return Err(Failure::usage("a PATH is empty"));
    }
    let path = Path::new(path);
    let full = std::path::absolute(path).map_err(|error| Failure::file(path, &error))?;
    // `..` behind a link is not the directory above its name: only the system knows.
    let full = if full.components().any(|part| part == Component::ParentDir) {
        resolved(&full)?
    } else {
        full
    };
    let clean: PathBuf = full.components().collect();
    Ok(OsString::from(clean).into_vec())
}

fn resolved(path: &Path) -> Result<PathBuf> {
    let (parent, name) = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => (parent, Some(name)),
        _ => (path, None), // ends in `..`
    };
    let parent = parent.canonicalize().map_err(|error| Failure::file(parent, &error))?;
    Ok(name.map_or(parent.clone(), |name| parent.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str) -> String {
        String::from_utf8(absolute(OsStr::new(path)).unwrap()).unwrap()
    }

    #[test]
    fn paths_are_made_absolute_and_clean() {
        assert_eq!(shown("/usr//share/./doc/"), "/usr/share/doc");
        assert_eq!(shown("/"), "/");
        assert_eq!(
            shown("/usr/share/.."),
            std::fs::canonicalize("/usr").unwrap().to_str().unwrap()
        );
        assert!(shown("Cargo.toml").ends_with("/icecore/Cargo.toml"));
        assert!(absolute(OsStr::new("")).is_err());
    }

    #[test]
    fn a_link_as_last_name_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::create_dir(folder.join("a")).unwrap();
        std::os::unix::fs::symlink("/", folder.join("link")).unwrap();
        let path = folder.join("a/../link");
        assert_eq!(shown(path.to_str().unwrap()), folder.join("link").to_str().unwrap());
    }
}
