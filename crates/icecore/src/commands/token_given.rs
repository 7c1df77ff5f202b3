//! A token for enrollment. An argument is seen by everybody on the machine while the command runs, and stays in the
//! history of a shell; a file, the standard input and the environment are not.

use crate::codes::Code;
use crate::failure::{Failure, Result};
use std::io::Read;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// A token has some sixty characters.
const BYTES_MAX: u64 = 4096;

/// Where a token comes from.
#[derive(clap::Args, Debug)]
pub(crate) struct TokenGiven {
    /// The token. Other users of this machine can see arguments; --token-file and ICECORE_TOKEN hide it from them.
    #[arg(
        value_name = "TOKEN",
        env = "ICECORE_TOKEN",
        hide_env_values = true,
        required_unless_present = "token_file"
    )]
    token: Option<String>,
    /// Read the token from this file; `-` is the standard input.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl TokenGiven {
    /// The token: of the file where one is named.
    pub(crate) fn read(&self) -> Result<Zeroizing<String>> {
        let text = match &self.token_file {
            Some(file) if file == Path::new("-") => text(std::io::stdin(), file)?,
            Some(file) => {
                let opened = std::fs::File::open(file);
                text(opened.map_err(|error| Failure::file(file, &error))?, file)?
            }
            None => Zeroizing::new(self.token.clone().unwrap_or_default()),
        };
        Ok(Zeroizing::new(text.trim().to_owned()))
    }
}

fn text(from: impl Read, file: &Path) -> Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    let read = from.take(BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| Failure::file(file, &error))?;
    if text.trim().is_empty() {
        let message = format!("{} contains no token", file.display());
        return Err(Failure::new(Code::Usage, message)
            .hint("Create one on the server: icecore server token NODE"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_file(file: &Path) -> TokenGiven {
        TokenGiven { token: Some("of the environment".into()), token_file: Some(file.to_owned()) }
    }

    #[test]
    fn a_named_file_comes_before_the_environment_and_its_line_end_is_not_meant() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "ice1-abc\n").unwrap();
        assert_eq!(*of_file(&file).read().unwrap(), "ice1-abc");
        let given = TokenGiven { token: Some(" ice1-x".into()), token_file: None };
        assert_eq!(*given.read().unwrap(), "ice1-x");
    }

    #[test]
    fn a_file_without_a_token_and_one_that_is_not_there_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        assert!(of_file(&file).read().is_err());
        std::fs::write(&file, " \n").unwrap();
        assert_eq!(of_file(&file).read().unwrap_err().code, Code::Usage);
    }
}
