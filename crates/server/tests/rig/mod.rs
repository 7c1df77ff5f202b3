//! A server of the API on loopback, with real TLS.

use access::{Admin, Client};
use api::enrol::{KeyMode, NewToken, Role, TokenMade};
use server::authority::Peer;
use server::control::{Control, http_only};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::JoinHandle;

pub(crate) struct Rig {
    pub(crate) control: Arc<Control>,
    pub(crate) url: String,
    pub(crate) address: SocketAddr,
    place: tempfile::TempDir,
    server: JoinHandle<std::io::Result<()>>,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.server.abort();
    }
}

#[allow(dead_code, reason = "not every test needs all of it")]
impl Rig {
    pub(crate) async fn start() -> Self {
        let place = tempfile::tempdir().unwrap();
        let control = Control::open(&place.path().join("data"), &[]).unwrap();
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        control.listens_at(address).unwrap();
        let url = control.address();
        let server = tokio::spawn(http_only::run(control.clone(), listener));
        Self { control, url, address, place, server }
    }

    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub(crate) fn admin(&self) -> Client {
        let data = Some(self.folder("data"));
        Admin { data, ..Admin::default() }.client().unwrap()
    }

    pub(crate) async fn token(&self, new: NewToken) -> TokenMade {
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
    NewToken {
        node: node.parse().unwrap(),
        domain: None,
        keys: KeyMode::Managed,
        role: Role::Full,
        valid_secs: None,
    }
}
