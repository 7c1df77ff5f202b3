//! Small files beside the catalog that must be whole: their last line is a checksum of all lines before it.

use crate::{Error, Result};
use data_encoding::HEXLOWER;
use server_contract::folder::Folder;
use std::io::ErrorKind;

/// Larger files than this are not ours.
const BYTES_MAX: usize = 16 << 20;
const END: &str = "end ";

/// What is found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// There is no such file.
    Missing,
    /// All that was written.
    Whole(String),
    /// Something else; what can be read of it.
    Damaged(String),
}

/// Reads the file `name`.
///
/// # Errors
/// [`Error::System`] when the disk does not give it.
pub(crate) fn read(folder: &Folder, name: &str) -> Result<Found> {
    let text = match folder.text_up_to(name, BYTES_MAX as u64 + 1) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(Found::Missing),
        Err(server_contract::Error::File { source, .. })
            if source.kind() == ErrorKind::InvalidData =>
        {
            return Ok(Found::Damaged(String::new()));
        }
        Err(error) => return Err(error.into()),
    };
    let is_whole = |body: &&str| text == with_end(body);
    let body = text.rfind(END).map(|at| &text[..at]).filter(is_whole).map(str::to_owned);
    Ok(body.map_or(Found::Damaged(text), Found::Whole))
}

/// Durably replaces the file `name` with `body`, whole lines.
///
/// # Errors
/// [`Error::System`]; [`Error::Usage`] when it is too large.
pub(crate) fn write(folder: &Folder, name: &str, body: &str) -> Result<()> {
    let text = with_end(body);
    if text.len() > BYTES_MAX {
        let path = folder.file(name);
        return Err(Error::Usage(format!("{} would be too large", path.display())));
    }
    Ok(folder.replace_secret(name, &text)?)
}

fn with_end(body: &str) -> String {
    format!("{body}{END}{}\n", HEXLOWER.encode(&pki::fingerprint(body.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_with_one_changed_or_missing_byte_is_damaged() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap();
        let found = || read(&folder, "file").unwrap();
        assert_eq!(found(), Found::Missing);
        write(&folder, "file", "a 1\nb 2\n").unwrap();
        assert_eq!(found(), Found::Whole("a 1\nb 2\n".to_owned()));
        let (path, whole) = (folder.file("file"), fs::read(folder.file("file")).unwrap());
        for at in 0..whole.len() {
            fs::write(&path, &whole[..at]).unwrap();
            assert!(matches!(found(), Found::Damaged(_)), "cut at {at}");
            let mut changed = whole.clone();
            changed[at] ^= 0x81;
            fs::write(&path, changed).unwrap();
            assert!(matches!(found(), Found::Damaged(_)), "changed at {at}");
        }
        fs::write(&path, [&whole[..], b"more\n"].concat()).unwrap();
        assert!(matches!(found(), Found::Damaged(_)));
        write(&folder, "file", "").unwrap();
        assert_eq!(found(), Found::Whole(String::new()));
    }

    /// What a crash leaves of a replacement lies beside the file.
    #[test]
    fn a_replacement_that_was_torn_leaves_the_file_as_it_was() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap();
        write(&folder, "file", "a\n").unwrap();
        fs::write(folder.file(".file.part"), "a\nb").unwrap();
        assert_eq!(read(&folder, "file").unwrap(), Found::Whole("a\n".to_owned()));
        write(&folder, "file", "a\nb\n").unwrap();
        assert_eq!(read(&folder, "file").unwrap(), Found::Whole("a\nb\n".to_owned()));
    }
}
