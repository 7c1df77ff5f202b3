//! `icecore help exit-codes`.

use crate::codes::{self, Code, Row};
use crate::context::Context;
use crate::failure::Result;
use crate::out::Nothing;

/// List the exit codes and their meanings.
#[derive(clap::Args, Debug)]
#[command(after_help = codes::table())]
pub(crate) struct ExitCodes {}

impl ExitCodes {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        for code in Code::ALL {
            context.out.item("exit_code", &Row::from(code), || codes::row(code))?;
        }
        context.out.summary(Code::Complete, &Nothing {})
    }
}
