//! Words of other programs, answered.

use crate::codes::Code;
use crate::failure::{Failure, Result};
use std::ffi::OsString;

/// Mounting is not there yet.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore ls latest:/etc\n  icecore restore latest:/etc --target /tmp/etc"
)]
pub(crate) struct Mount {
    #[arg(hide = true, num_args = 0.., allow_hyphen_values = true, trailing_var_arg = true)]
    words: Vec<OsString>,
}

impl Mount {
    pub(crate) fn run(&self) -> Result<Code> {
        Err(Failure::usage("a repository cannot be mounted yet")
            .hint("Look into a snapshot: icecore ls, find, cat; bring a part back: icecore restore latest:/PATH --target DIR"))
    }
}

/// There is nothing to unlock.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  icecore reclaim --wait 10m")]
pub(crate) struct Unlock {
    #[arg(hide = true, num_args = 0.., allow_hyphen_values = true, trailing_var_arg = true)]
    words: Vec<OsString>,
}

impl Unlock {
    pub(crate) fn run(&self) -> Result<Code> {
        Err(Failure::usage(
            "there is nothing to unlock: a lock ends with the process that holds it",
        )
        .hint(
            "Who holds it is told by the command that finds it in use; to wait for it: --wait 10m",
        ))
    }
}
