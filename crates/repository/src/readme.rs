//! A few lines for a person who finds a repository in some years and does not know what it is. No program
//! reads them.

use crate::Result;
use crate::storage::Storage;

pub(crate) const NAME: &str = "README";
const TEXT: &str = "\
This folder is a backup repository of Icecore, format version 1.

What it holds is encrypted. To open it you need a password, a recovery key or a key file
that was made for it, and the program `icecore`:

    icecore snapshots --repo THIS-FOLDER
    icecore restore latest --repo THIS-FOLDER --target SOME-EMPTY-FOLDER

The format is written down, byte by byte, in the files docs/FORMAT.md and docs/CRYPTO.md of the
program's sources, so that a program that reads it can be written again.

Do not change or delete anything in here by hand. To copy it, copy all of it while no backup runs.
If something is damaged, start with: icecore check --repo THIS-FOLDER
";

/// Writes it.
pub(crate) fn write(storage: &dyn Storage) -> Result<()> {
    Ok(storage.put(NAME, TEXT.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_it_is_in_lines_that_fit_a_terminal() {
        assert!(TEXT.is_ascii() && TEXT.ends_with('\n'));
        assert!(TEXT.lines().all(|line| line.len() <= 100));
        assert!(TEXT.contains("Icecore") && TEXT.contains("docs/FORMAT.md"));
    }
}
