//! `icecore version`.

use crate::codes::Code;
use crate::context::Context;
use crate::failure::Result;
use serde::Serialize;

/// Show the version of this program.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  icecore version\n  icecore version --json")]
pub(crate) struct Version {}

#[derive(Serialize)]
struct Shown {
    version: &'static str,
    system: &'static str,
    processor: &'static str,
}

impl Version {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let (system, processor) = (std::env::consts::OS, std::env::consts::ARCH);
        let shown = Shown { version: env!("CARGO_PKG_VERSION"), system, processor };
        context.out.print(&format!("icecore {} ({system}, {processor})", shown.version))?;
        context.out.summary(Code::Complete, &shown)
    }
}
