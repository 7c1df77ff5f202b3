//! `icecore server export`.

use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::{Failure, Result};
use api::sites::SiteFile;
use std::io::Write;

/// Print the whole site as a file for `apply`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server export > site.toml\n  icecore server export --json\n\nTo apply an export changes nothing."
)]
pub(crate) struct Export {}

impl Export {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let file: SiteFile = reach.get("/site")?;
        if !context.out.json {
            // The bytes of a file, not lines for people: they are printed even when quiet.
            context.out.stdout().write_all(file.text.as_bytes()).map_err(Failure::from)?;
        }
        context.out.summary(Code::Complete, &file)
    }
}
