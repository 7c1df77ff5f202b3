//! `icecore net`.

mod control_server;
mod routes;

use crate::codes::Code;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Result};
use crate::node::network;
use crate::units::{count, rate};
use clap::builder::{OsStringValueParser, TypedValueParser};
use remote::metrics::NetworkReport;
use remote::net_test::{Measurement, NetworkTest};
use routes::Route;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Test the network between nodes, the server and storage servers.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore net test\n  icecore net test --seconds 30 --json\n  icecore net test --from storage\n  icecore net test --from server --to disk-1"
)]
pub(crate) struct Net {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    Test(Test),
}

/// Measure round-trip time and throughput in both directions, through TLS, as jobs do.
///
/// Tests the route from a node to its server, and, if its domain is on a storage server, the route to that one, which
/// the data takes. With --from: from a storage server to its control server, or from the server to its storage
/// servers.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore net test\n  icecore net test --seconds 30 --json\n  icecore net test --domain web-01\n  icecore net test --socket-buffer 64KiB\n  icecore net test --from storage --data /srv/icecore\n  icecore net test --from server --to disk-1 --data /srv/icecore\n\nTo list storage servers: icecore server storage-servers"
)]
struct Test {
    /// Duration of the test in each direction, in seconds.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// What this machine is.
    #[arg(long, value_name = "ROLE", value_enum, default_value_t = Role::Node)]
    from: Role,
    /// With --from server: the storage server to test [default: all].
    #[arg(long, value_name = "STORAGE")]
    to: Option<api::Name>,
    /// With --from: directory of the server's or storage server's files [env: ICECORE_DATA, ICECORE_STORAGE_DATA].
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    data: Option<PathBuf>,
}

/// Whose route it is.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A node of a server.
    Node,
    /// A storage server. Needs access to its files.
    Storage,
    /// The server. Needs access to its files.
    Server,
}

#[derive(Serialize)]
struct Shown {
    from: String,
    to: String,
    server: String,
    #[serde(flatten)]
    measured: Measurement,
    verdict: String,
    network: NetworkReport,
}

impl Net {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let Action::Test(test) = &self.action;
        test.run(context)
    }
}

impl Test {
    fn run(&self, context: &Context) -> Result<Code> {
        self.check_flags()?;
        context.watch_signals();
        let routes = match self.from {
            Role::Node => return self.of_node(context),
            Role::Storage => vec![routes::of_storage(self.data.as_deref(), context)?],
            Role::Server => routes::of_server(self.data.as_deref(), self.to.as_ref(), context)?,
        };
        self.each(&routes, context)
    }

    /// One that fails does not keep the others from being measured.
    fn each(&self, routes: &[Route], context: &Context) -> Result<Code> {
        let (mut last, mut failed) = (None, None);
        for route in routes {
            let measured = route.connect().and_then(|test| self.measure(route, &test, context));
            match measured {
                Ok(shown) => last = Some(shown),
                Err(failure) if routes.len() == 1 => return Err(failure),
                Err(failure) => {
                    context
                        .out
                        .note(&format!("{} to {}: {}", route.from, route.to, failure.message));
                    failed = Some(failure);
                }
            }
        }
        failed.map_or_else(|| summary(last, context), Err)
    }

    fn check_flags(&self) -> Result<()> {
        let hint = "For a node, use --agent-dir. Examples: icecore net test --help";
        if self.to.is_some() && self.from != Role::Server {
            return Err(Failure::usage("--to is for --from server").hint(hint));
        }
        if self.data.is_some() && self.from == Role::Node {
            return Err(Failure::usage("--data is for --from server and --from storage").hint(hint));
        }
        Ok(())
    }

    /// To the server, and to where that one sends its nodes.
    fn of_node(&self, context: &Context) -> Result<Code> {
        let route = routes::of_node(context)?;
        let test = route.connect()?;
        let address = route.open(&test, context)?;
        let mut last = self.measure(&route, &test, context)?;
        drop(test);
        if let Some(address) = address {
            let route = route.led_to(address);
            let test = route.connect()?;
            if route.open(&test, context)?.is_some() {
                return Err(route.sends_on());
            }
            last = self.measure(&route, &test, context)?;
        }
        summary(Some(last), context)
    }

    /// Measures, and shows it.
    fn measure(&self, route: &Route, test: &NetworkTest, context: &Context) -> Result<Shown> {
        let measured = test.measure(Duration::from_secs(self.seconds));
        let measured = measured.map_err(|error| route.failed(error))?;
        let shown = Shown {
            from: route.from.clone(),
            to: route.to.clone(),
            server: route.target.describe(),
            verdict: network::verdict(&measured.sending, measured.sending_secs)
                .unwrap_or_else(|| "unknown: too little data was sent".to_owned()),
            measured,
            network: test.report(),
        };
        if context.out.json {
            context.out.item("route", &shown, String::new)?;
        }
        for line in lines(&shown) {
            context.out.print(&escape::text(&line))?;
        }
        Ok(shown)
    }
}

/// The route that data takes is the last one.
fn summary(last: Option<Shown>, context: &Context) -> Result<Code> {
    match last {
        Some(last) => context.out.summary(Code::Complete, &last),
        None => context.out.summary(Code::Complete, &crate::out::Nothing {}),
    }
}

fn lines(shown: &Shown) -> [String; 7] {
    let (measured, network) = (&shown.measured, &shown.network);
    [
        format!("{} to {}, {}", shown.from, shown.to, shown.server),
        format!(
            "  round trip     {:.2} ms including TLS and the server's work; TCP {:.2} ms, minimum {:.2} ms",
            measured.round_trip_ms, network.rtt_ms, network.min_rtt_ms
        ),
        format!("  upload         {}", rate(measured.up_bytes_per_sec)),
        format!("  download       {}", rate(measured.down_bytes_per_sec)),
        format!("  retransmitted  {} segments (upload)", count(network.retransmitted.into())),
        format!("  socket buffers {}", network::buffers(network)),
        format!("  Bottleneck (upload): {}", shown.verdict),
    ]
}
