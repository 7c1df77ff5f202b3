//! `icecore net`.

use crate::codes::Code;
use crate::context::Context;
use crate::failure::Result;
use crate::node::{Node, not_enrolled};
use crate::units::rate;
use remote::net_test::Measured;
use remote::{Purpose, Remote};
use serde::Serialize;
use std::time::Duration;

/// Look at the way between this node and its server.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  icecore net test\n  icecore net test --seconds 30 --json")]
pub(crate) struct Net {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Measure round trip and rate in both directions, through TLS, as jobs have them.
    #[command(
        after_help = "Examples:\n  icecore net test\n  icecore net test --seconds 30 --json\n  icecore net test --socket-buffer 64KiB"
    )]
    Test {
        /// How long, in each direction.
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
        seconds: u64,
    },
}

#[derive(Serialize)]
struct Shown {
    server: String,
    #[serde(flatten)]
    measured: Measured,
    network: remote::figures::WireReport,
}

impl Net {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let Action::Test { seconds } = self.action;
        let node = Node::find(context)?.ok_or_else(|| not_enrolled(context))?;
        context.watch_signals();
        let target = node.target(context, Purpose::Measure)?;
        let failed = |error| context.failure(client::Error::Repository(error));
        let bare = Remote::connect_bare(&target, Purpose::Measure).map_err(failed)?;
        let measured = bare.net_test(Duration::from_secs(seconds)).map_err(failed)?;
        let network = bare.report();
        for line in lines(&target.describe(), &measured, &network) {
            context.out.print(&line)?;
        }
        context.out.summary(Code::Complete, &Shown { server: target.describe(), measured, network })
    }
}

fn lines(server: &str, measured: &Measured, network: &remote::figures::WireReport) -> [String; 4] {
    [
        format!("server         {server}"),
        format!(
            "round trip     {:.2} ms with TLS and the server's work; TCP {:.2} ms, least {:.2} ms",
            measured.round_trip_ms, network.rtt_ms, network.min_rtt_ms
        ),
        format!("to the server  {}", rate(measured.up_bytes_per_sec)),
        format!("from it        {}", rate(measured.down_bytes_per_sec)),
    ]
}
