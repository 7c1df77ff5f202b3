//! Starting the server.

use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::{Failure, Result};
use server::control::{Control, http_only};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// How the server is started.
#[derive(clap::Args, Debug)]
pub(crate) struct Start {
    /// Listen at this address and port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "[::]:8477")]
    listen: SocketAddr,
    /// A further name or address by which machines call it; the first is what they are told.
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    /// How much the log tells.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = ["error", "warn", "info", "debug"])]
    log: String,
}

impl Start {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        crate::descriptors::make_room()?;
        self.begin_log();
        let control = Control::open(&reach.data(), &self.names)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.map_err(Failure::from)?.block_on(self.serve(control, context))
    }

    async fn serve(&self, control: Arc<Control>, context: &Context) -> Result<Code> {
        let listener = TcpListener::bind(self.listen).await.map_err(|error| {
            let failure =
                Failure::new(Code::Failed, format!("cannot listen at {}: {error}", self.listen));
            failure.hint("Another program may have this port: give another one with --listen")
        })?;
        control.listens_at(listener.local_addr()?)?;
        context.out.line(&format!("serving {}", control.address()))?;
        context.out.line("To add a machine: icecore server token NODE")?;
        context.out.flush()?;
        tokio::select! {
            done = http_only::run(control, listener) => done?,
            stopped = asked_to_stop() => stopped?,
        }
        context.out.summary(Code::Complete, &crate::out::Nothing {})
    }

    /// The log goes to the error stream: whoever starts the server keeps it.
    fn begin_log(&self) {
        let level = self.log.parse().unwrap_or(tracing::Level::INFO);
        let log = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
        let _ = log.with_ansi(false).try_init(); // one that is there already goes on
    }
}

/// Being killed at any moment is safe; who asks is answered sooner.
async fn asked_to_stop() -> std::io::Result<()> {
    let mut end = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = end.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
