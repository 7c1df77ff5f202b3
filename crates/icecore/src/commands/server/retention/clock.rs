//! `icecore server clock`.

use crate::clock_advice::advised;
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::commands::server::when;
use crate::context::Context;
use crate::escape;
use crate::failure::Result;
use api::retention::ConfirmedClock;

/// Say that the clock of the server's machine is right, when the server doubts it.
///
/// The server believes the clock within bounds: after more than 30 days off, or when the clock jumps, it is in doubt,
/// and nothing expires. Look at the clock of the machine first.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  icecore server clock confirm")]
pub(crate) struct ClockArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// The clock of the machine is right.
    Confirm,
}

impl ClockArgs {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let Action::Confirm = self.action;
        let done: ConfirmedClock = reach.post("/clock/confirm", &serde_json::json!({}))?;
        context.out.line(&format!("The server continues from {}.", when(done.time)))?;
        if let Some(doubt) = &done.doubt {
            context
                .out
                .note(&escape::text(&format!("nothing expires while {}", advised(doubt, ""))));
        }
        context.out.summary(Code::Complete, &done)
    }
}
