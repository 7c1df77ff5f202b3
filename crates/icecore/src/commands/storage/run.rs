//! Starting a storage server.

use super::control_server::Asking;
use crate::codes::Code;
use crate::commands::server::run::{KeepersArgs, THREADS_WITHIN, asked_to_stop, begin_log, stop};
use crate::context::Context;
use crate::failure::{Failure, Result};
use access::LiveIdentity;
use access::storage_server::StorageIdentity;
use server::listen::{self, Listening};
use server::storage_server::{ControlServerError, StorageServer, no_http};
use server_contract::folder::Folder;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Interval of heartbeats to the control server: a revoked node is out within two of them.
const NEWS_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked whether the certificate has to be renewed.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// How the storage server is started.
#[derive(clap::Args, Debug)]
pub(crate) struct Start {
    /// Address and port to listen on [default: as given at enrollment].
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Size of the socket buffers of all connections [default: chosen by the system].
    #[arg(long, value_name = "SIZE", value_parser = crate::units::parse_bytes)]
    socket_buffer: Option<u64>,
    #[command(flatten)]
    keepers: KeepersArgs,
    /// Log level.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = ["error", "warn", "info", "debug"])]
    log: String,
}

impl Start {
    pub(crate) fn run(&self, data: &Path, context: &Context) -> Result<Code> {
        crate::descriptors::make_room()?;
        begin_log(&self.log);
        let settings = StorageIdentity::load(data)?.settings;
        let listen = self.listen.unwrap_or(settings.listen);
        let kept = LiveIdentity::load(data)?;
        let folder = Folder::open_storage(data, &settings.storage)?;
        let storage_server = StorageServer::new(folder, Arc::new(Asking(kept.clone())))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            // More than connections that may wait for one at once.
            .max_blocking_threads(1024)
            .enable_all()
            .build();
        let runtime = runtime.map_err(Failure::from)?;
        let code = runtime.block_on(self.serve((listen, data), kept, storage_server, context));
        runtime.shutdown_timeout(THREADS_WITHIN);
        code
    }

    async fn serve(
        &self,
        (listen, data): (SocketAddr, &Path),
        kept: Arc<LiveIdentity>,
        storage_server: Arc<StorageServer>,
        context: &Context,
    ) -> Result<Code> {
        let buffer_bytes = self.socket_buffer.unwrap_or(0) as usize;
        let listener = transport::socket::listen(listen, buffer_bytes).map_err(|error| {
            Failure::new(Code::Failed, format!("cannot listen on {listen}: {error}"))
                .hint("Another program may use this port. Choose another one: --listen ADDR:PORT")
        })?;
        let at = listener.local_addr()?;
        storage_server.listens_at(at.port());
        context.out.line(&format!("storing at {at}"))?;
        context.out.flush()?;
        let shared = storage_server
            .data_plane()
            .map_err(|error| Failure::new(Code::Failed, format!("receipts: {error}")))?;
        let tls = kept.tls()?;
        let securing = self
            .keepers
            .keepers()
            .map(|keepers| Arc::new(storage_server.securing(&keepers, &shared)));
        let listening = Listening { listener, tls, shared: shared.clone(), http: no_http() };
        let refused = tokio::select! {
            () = listen::run(listening) => None,
            refused = tell(storage_server) => Some(refused),
            () = kept.renew_forever(LOOK_EVERY, now_secs, not_renewed) => None,
            () = server::note_latencies(data.to_owned()) => None,
            () = server::securing::run(securing) => None,
            stopped = asked_to_stop() => stopped.map(|()| None)?,
        };
        stop(&shared).await;
        if let Some(refused) = refused {
            return Err(refused);
        }
        context.out.summary(Code::Complete, &crate::out::Nothing {})
    }
}

/// Tells the control server how it is, until that one says that it may not be a storage server any more.
async fn tell(storage_server: Arc<StorageServer>) -> Failure {
    let mut ticks = tokio::time::interval(NEWS_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut was_away = false;
    loop {
        ticks.tick().await;
        let storage_server = storage_server.clone();
        let result = tokio::task::spawn_blocking(move || storage_server.heartbeat()).await;
        match result {
            Ok(Err(ControlServerError::Refused { message, hint })) => {
                return Failure::new(Code::NotAllowed, message).hint(hint);
            }
            Ok(Err(ControlServerError::Unreachable(why))) if !was_away => {
                tracing::warn!(why, "the control server is unreachable");
                was_away = true;
            }
            Ok(Ok(())) if was_away => {
                tracing::info!("the control server is reachable again");
                was_away = false;
            }
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "the heartbeat failed"),
        }
    }
}

fn now_secs() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// It is good for days still, and the next look tries again.
fn not_renewed(error: &access::Error) {
    tracing::error!(%error, next = error.hint(), "cannot renew the certificate");
}
