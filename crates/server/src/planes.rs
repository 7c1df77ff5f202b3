//! A control server: both planes, joined here and nowhere else.

use crate::listen::{self, Listening};
use crate::moving::Mover;
use crate::securing::{Keepers, Securing, pool_answers};
use crate::upkeep::Worker;
use parking_lot::Mutex;
use server_contract::pool::LatencyNotes;
use server_control::Control;
use server_control::http::router;
use server_data::Shared;
use server_data::receipts::Receipts;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;

/// How often the server looks whether the repositories of all domains are there.
const REPOSITORIES_EVERY: Duration = Duration::from_secs(300);
/// How often it looks for backups that are due. A queued job is seen by its node within as much again.
const SCHEDULE_EVERY: Duration = Duration::from_secs(2);
/// How often it looks whether retention is to be carried out: once a day it is.
const EXPIRE_EVERY: Duration = Duration::from_secs(5 * 60);

/// Nodes wait so long at a start until it was looked whether keys that were removed came back.
const KEYS_FIRST: Duration = Duration::from_secs(30);

/// How often a server notes how long operations on its pools take.
const NOTE_EVERY: Duration = Duration::from_secs(10);

/// Notes in the folder `data` of a server how long operations on its pools take, until the future is dropped.
pub async fn note_latencies(data: PathBuf) {
    let notes = Arc::new(Mutex::new(LatencyNotes::new(&data)));
    loop {
        tokio::time::sleep(NOTE_EVERY).await;
        let (notes, now_secs) = (notes.clone(), now_secs());
        let _ = tokio::task::spawn_blocking(move || notes.lock().note(now_secs)).await; // nobody misses it
    }
}

pub(crate) fn now_secs() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// Both planes of a server.
#[derive(Clone)]
pub struct Planes {
    /// The control plane.
    pub control: Arc<Control>,
    /// The data plane. It asks the control plane through `AccessControl`.
    pub data: Arc<Shared>,
    securing: Option<Arc<Securing>>,
}

impl Planes {
    /// Joins a data plane to `control`, which from now on writes repositories through the leases of that data plane.
    ///
    /// # Errors
    /// Those of [`Receipts::open`], in the server's folder.
    pub fn join(control: Arc<Control>) -> io::Result<Self> {
        let receipts = Receipts::open(&control.folder().file(""))?;
        let data = Shared::with_receipts(control.clone(), Some(receipts));
        control.set_repositories(data.domains.clone());
        control.set_upkeep(Arc::new(Worker(data.domains.clone())), Arc::new(Mover(data.clone())));
        Ok(Self { control, data, securing: None })
    }

    /// Has `keepers` keep what locked snapshots need.
    #[must_use]
    pub fn with_keepers(self, keepers: &Keepers) -> Self {
        let (listed, told) = (self.control.clone(), self.control.clone());
        let folders = move || {
            listed.domain_folders().unwrap_or_else(|error| {
                tracing::error!(%error, "cannot list the domains");
                Vec::new()
            })
        };
        let asked = self.control.clone();
        let answers = move |domain: &Path| pool_answers(asked.folder(), domain);
        let told = move |kept| told.set_kept_locks(kept);
        let domains = self.data.domains.clone();
        let securing =
            Securing::new(keepers, domains, (Box::new(folders), Box::new(answers)), Box::new(told));
        Self { securing: Some(Arc::new(securing)), ..self }
    }

    /// Serves both planes on `listener`, and does the periodic tasks, until the future is dropped.
    pub async fn run(&self, listener: TcpListener) {
        self.remove_returned_keys().await;
        let (tls, http) = (self.control.tls(), router(self.control.clone()));
        let listening = Listening { listener, tls, shared: self.data.clone(), http };
        tokio::select! {
            () = listen::run(listening) => {}
            () = self.keep_up() => {}
            () = self.look_for_repositories() => {}
            () = self.start_backups() => {}
            () = self.expire_snapshots() => {}
            () = note_latencies(self.control.folder().file("")) => {}
            () = crate::securing::run(self.securing.clone()) => {}
        }
    }

    /// Storage that does not answer keeps no server from its start: it is looked at again later.
    async fn remove_returned_keys(&self) {
        let control = self.control.clone();
        let removal = tokio::task::spawn_blocking(move || control.remove_returned_keys());
        if tokio::time::timeout(KEYS_FIRST, removal).await.is_err() {
            tracing::warn!("still looking for keys that were removed and came back");
        }
    }

    async fn look_for_repositories(&self) {
        loop {
            let control = self.control.clone();
            let _ = tokio::task::spawn_blocking(move || control.look_for_repositories()).await; // a bug is in the log
            tokio::time::sleep(REPOSITORIES_EVERY).await;
        }
    }

    async fn start_backups(&self) {
        loop {
            tokio::time::sleep(SCHEDULE_EVERY).await;
            let control = self.control.clone();
            let _ = tokio::task::spawn_blocking(move || control.start_what_is_due()).await; // a bug is in the log
        }
    }

    async fn expire_snapshots(&self) {
        loop {
            tokio::time::sleep(EXPIRE_EVERY).await;
            let control = self.control.clone();
            let _ = tokio::task::spawn_blocking(move || control.expire_if_due()).await; // a bug is in the log
        }
    }

    async fn keep_up(&self) {
        loop {
            self.control.housekeeping_is_due().await;
            let control = self.control.clone();
            let _ = tokio::task::spawn_blocking(move || control.housekeeping()).await; // a bug is in the log
        }
    }
}
