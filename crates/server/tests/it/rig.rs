//! A server on loopback, with real TLS.

use access::{Admin, Client};
use api::enroll::{IssuedToken, NewToken};
use server::listen::{self, Listening};
use server_contract::access_control::Peer;
use server_control::Control;
use server_control::http::router;
use server_data::Shared;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::JoinHandle;

pub(crate) struct Rig {
    pub(crate) control: Arc<Control>,
    pub(crate) url: String,
    place: tempfile::TempDir,
    server: JoinHandle<()>,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap()).await
    }

    /// Ends the server, and starts one in the same folder.
    pub(crate) async fn restart(self) -> Self {
        self.restart_after(|_| {}).await
    }

    /// The same; meanwhile somebody does something to the folder of its files.
    pub(crate) async fn restart_after(self, meanwhile: impl FnOnce(&Path)) -> Self {
        let Self { control, place, server, .. } = self;
        server.abort();
        let _ = server.await;
        let gone = std::sync::Arc::downgrade(&control);
        drop(control);
        // Connections of the old one may take a moment to end.
        for _ in 0..100 {
            if gone.strong_count() == 0 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        meanwhile(&place.path().join("data"));
        Self::start_in(place).await
    }

    async fn start_in(place: tempfile::TempDir) -> Self {
        let control = Control::open(&place.path().join("data"), &[]).unwrap();
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        control.listens_at(address).unwrap();
        let url = control.address();
        let (tls, http) = (control.tls(), router(control.clone()));
        let shared = Shared::new(control.clone());
        let server = tokio::spawn(listen::run(Listening { listener, tls, shared, http }));
        Self { control, url, place, server }
    }

    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub(crate) fn admin(&self) -> Client {
        let data = Some(self.folder("data"));
        Admin { data, ..Admin::default() }.client().unwrap()
    }

    pub(crate) async fn token(&self, new: NewToken) -> IssuedToken {
        self.admin().post("/tokens", &new).await.unwrap()
    }

    /// The machine of this folder, as the server sees it.
    pub(crate) fn peer(&self, agent: &Path) -> Peer {
        let pem = std::fs::read_to_string(agent.join("node.pem")).unwrap();
        let certificate = pki::client::certificate_of(&pem).unwrap().to_vec();
        Peer { certificate, address: Ipv4Addr::LOCALHOST.into() }
    }
}

pub(crate) fn new_token(node: &str) -> NewToken {
    NewToken::of(node.parse().unwrap())
}
