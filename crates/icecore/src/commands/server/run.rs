//! Starting the server.

use crate::codes::Code;
use crate::commands::object_lock::LockModeArg;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::{Failure, Result};
use server::Planes;
use server::securing::Keepers;
use server_contract::folder::FirstPool;
use server_control::Control;
use server_data::Shared;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// When the server stops, running work has this time to end. It is safe to interrupt it at any moment.
pub(crate) const THREADS_WITHIN: Duration = Duration::from_secs(2);

/// Of that, so long the server waits for its catalog, which may hang, to note what it has seen: nobody misses it.
const NOTED_WITHIN: Duration = Duration::from_secs(1);

/// How the server is started.
#[derive(clap::Args, Debug)]
pub(crate) struct Start {
    /// Address and port to listen on.
    #[arg(long, value_name = "ADDR:PORT", default_value = "[::]:8477")]
    listen: SocketAddr,
    /// Name or address of this server; can be given several times. Nodes are told the first one.
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    /// Where the first start makes the first pool: a directory, for example on another disk, or s3://BUCKET/PREFIX
    /// [default: pool in the directory of the server's files].
    #[arg(long, value_name = "PLACE")]
    pool: Option<PathBuf>,
    /// The first start takes over a pool that was used by another server, which is gone.
    #[arg(long, requires = "pool")]
    take_over: bool,
    /// Size of the socket buffers of all connections [default: chosen by the system].
    #[arg(long, value_name = "SIZE", value_parser = crate::units::parse_bytes)]
    socket_buffer: Option<u64>,
    /// Delete ended jobs and commands from the lists after this time.
    #[arg(long, value_name = "TIME", default_value = "400d", value_parser = crate::time::parse_span)]
    keep_jobs: u64,
    #[command(flatten)]
    keepers: KeepersArgs,
    /// Log level.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = ["error", "warn", "info", "debug"])]
    log: String,
}

/// Who keeps what locked snapshots need from this server.
#[derive(clap::Args, Debug)]
pub(crate) struct KeepersArgs {
    /// Socket of the lock helper, which protects the files of locked snapshots from this server: see `icecore
    /// lock-helper`.
    #[arg(long = "lock-helper", value_name = "SOCKET", value_hint = clap::ValueHint::FilePath)]
    lock_helper: Option<PathBuf>,
    /// Have the storages of pools in buckets lock the objects of locked snapshots, by Object Lock. Who can end such a
    /// lock early: nobody (compliance), or whoever may bypass it (governance).
    #[arg(long, value_name = "MODE", value_enum)]
    object_lock: Option<LockModeArg>,
}

impl KeepersArgs {
    /// Those that were named, if any.
    pub(crate) fn keepers(&self) -> Option<Keepers> {
        let object_lock = self.object_lock.map(LockModeArg::of_api);
        let keepers = Keepers { lock_helper: self.lock_helper.clone(), object_lock };
        (!keepers.is_empty()).then_some(keepers)
    }
}

impl Start {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        crate::descriptors::make_room()?;
        begin_log(&self.log);
        let first = self.pool.clone().map(|place| FirstPool { place, take_over: self.take_over });
        let control = Control::open_in(&reach.data(), &self.names, first.as_ref())?;
        control.keep_jobs(self.keep_jobs);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            // More than connections that may wait for one at once.
            .max_blocking_threads(1024)
            .enable_all()
            .build();
        let runtime = runtime.map_err(Failure::from)?;
        let code = runtime.block_on(self.serve(control, context));
        runtime.shutdown_timeout(THREADS_WITHIN.saturating_sub(NOTED_WITHIN));
        code
    }

    async fn serve(&self, control: Arc<Control>, context: &Context) -> Result<Code> {
        let listener = transport::socket::listen(self.listen, self.buffer_bytes());
        let listener = listener.map_err(|error| {
            let failure =
                Failure::new(Code::Failed, format!("cannot listen on {}: {error}", self.listen));
            failure
                .hint("Another program may use this port. Choose another one: --listen ADDR:PORT")
        })?;
        control.listens_at(listener.local_addr()?)?;
        context.out.line(&format!("serving {}", control.address()))?;
        context.out.line("To add a node: icecore server token NODE")?;
        context.out.flush()?;
        let mut planes = Planes::join(control.clone())
            .map_err(|error| Failure::new(Code::Failed, format!("receipts: {error}")))?;
        if let Some(keepers) = self.keepers.keepers() {
            planes = planes.with_keepers(&keepers);
        }
        tokio::select! {
            () = planes.run(listener) => {}
            stopped = asked_to_stop() => stopped?,
        }
        stop(&planes.data).await;
        let noted = tokio::task::spawn_blocking(move || control.note_seen());
        let _ = tokio::time::timeout(NOTED_WITHIN, noted).await; // a bug is in the log
        context.out.summary(Code::Complete, &crate::out::Nothing {})
    }

    fn buffer_bytes(&self) -> usize {
        self.socket_buffer.unwrap_or(0) as usize
    }
}

/// The log goes to the error stream: whoever starts the server keeps it.
pub(crate) fn begin_log(level: &str) {
    let level = level.parse().unwrap_or(tracing::Level::INFO);
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    let _ = log.with_ansi(false).try_init(); // one that is there already goes on
}

/// Ends all sessions. A second signal does not wait for them.
pub(crate) async fn stop(shared: &Shared) {
    tokio::select! {
        () = shared.stop() => {}
        _ = asked_to_stop() => {}
    }
}

/// Being killed at any moment is safe; who asks is answered sooner.
pub(crate) async fn asked_to_stop() -> std::io::Result<()> {
    let mut end = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = end.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
