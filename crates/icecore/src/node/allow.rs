//! The file `allow.toml` beside the identity of a machine: what its server may command, and which client options it
//! may not set. Nothing is allowed because the file is missing, and it is not believed when others may write to it.

use crate::client_options::table;
use rustix::fs::{Mode, OFlags};
use serde::Deserialize;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Its name.
pub(crate) const ALLOW: &str = "allow.toml";
/// It has three lists of folders, one of options and a word.
const BYTES_MAX: u64 = 64 << 10;
/// Others may write: group and world.
const WRITE_OF_OTHERS: u32 = 0o022;

/// The file `allow.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Allow {
    /// Restores may go below these folders.
    pub(crate) restore_below: Vec<PathBuf>,
    /// They may make devices, and programs that run with the rights of others (setuid, setgid, capabilities). Where
    /// other users reach the folders, a hostile server gives them those rights.
    pub(crate) restore_privileged: bool,
    /// What is backed up when a command names nothing.
    pub(crate) backup: Vec<String>,
    /// Backups by command may take what is below these folders; nothing when there are none.
    pub(crate) backup_below: Vec<PathBuf>,
    /// Client options that the server does not set, whatever it says.
    pub(crate) own: Vec<String>,
}

/// What the machine allows.
pub(crate) fn read(folder: &Path) -> Result<Allow, String> {
    let Some(text) = own_file(folder, ALLOW)? else { return Ok(Allow::default()) };
    let said = |text: String| format!("{}: {text}", folder.join(ALLOW).display());
    let allow: Allow = toml::from_str(&text).map_err(|error| said(error.message().to_owned()))?;
    match allow.own.iter().find(|name| table::row(name).is_none()) {
        Some(name) => Err(said(format!("`own` names '{name}', which is no option"))),
        None => Ok(allow),
    }
}

/// The text of the file `name` of the agent's folder, which only root and our user may write; `None` without one.
pub(crate) fn own_file(folder: &Path, name: &str) -> Result<Option<String>, String> {
    let path = folder.join(name);
    let said = |text: String| format!("{}: {text}", path.display());
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::open(&path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(said(error.to_string())),
    };
    check(&file).map_err(said)?;
    let mut text = String::new();
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|error| said(error.to_string()))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(said(format!("it has more than {BYTES_MAX} bytes")));
    }
    Ok(Some(text))
}

fn check(file: &File) -> Result<(), String> {
    let about = file.metadata().map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is no file".to_owned());
    }
    let own = rustix::process::geteuid().as_raw();
    if (about.uid() != 0 && about.uid() != own) || about.mode() & WRITE_OF_OTHERS != 0 {
        return Err(
            "others may write to it, so it is not believed: chown and chmod go-w it".to_owned()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn write(folder: &Path, text: &str, mode: u32) {
        std::fs::write(folder.join(ALLOW), text).unwrap();
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(folder.join(ALLOW), mode).unwrap();
    }

    #[test]
    fn the_files_of_the_guides_are_read_and_allow_something() {
        let blocks = crate::profile::blocks_of_guides().into_iter();
        let files: Vec<_> = blocks.filter(|text| text.contains("_below =")).collect();
        assert!(!files.is_empty());
        for text in files {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), text, 0o600);
            let Allow { restore_below, backup, backup_below, .. } = read(folder.path()).unwrap();
            assert!(!backup.is_empty() && !backup_below.is_empty() && !restore_below.is_empty());
        }
    }

    #[test]
    fn a_file_that_others_may_write_to_allows_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let text = "restore_below = [\"/srv\"]";
        for mode in [0o666, 0o664, 0o646] {
            write(folder.path(), text, mode);
            assert!(read(folder.path()).unwrap_err().contains("others may write"), "{mode:o}");
        }
        write(folder.path(), text, 0o644);
        assert_eq!(read(folder.path()).unwrap().restore_below, [PathBuf::from("/srv")]);
    }

    #[test]
    fn own_options_are_read_and_must_exist() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "own = [\"compression\", \"nice\"]", 0o600);
        assert_eq!(read(folder.path()).unwrap().own, ["compression", "nice"]);
        write(folder.path(), "own = [\"compresion\"]", 0o600);
        assert!(read(folder.path()).unwrap_err().contains("compresion"));
    }

    #[test]
    fn no_file_a_link_and_an_endless_one_allow_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).unwrap().restore_below.is_empty());
        std::os::unix::fs::symlink("/dev/zero", folder.path().join(ALLOW)).unwrap();
        assert!(read(folder.path()).is_err());
        std::fs::remove_file(folder.path().join(ALLOW)).unwrap();
        write(folder.path(), &"#".repeat(70_000), 0o600);
        assert!(read(folder.path()).unwrap_err().contains("more than"));
    }
}
