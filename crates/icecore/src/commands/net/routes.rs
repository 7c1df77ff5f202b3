//! The routes that can be measured: who calls whom, with which certificate.

use super::control_server;
use crate::codes::Code;
use crate::commands::reach::{DATA_DEFAULT, Reach};
use crate::commands::storage::DATA_DEFAULT as STORAGE_DATA_DEFAULT;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::node::{network, not_enrolled};
use api::Name;
use api::storage_servers::{StorageServer, StorageServers};
use remote::net_test::NetworkTest;
use remote::{Endpoint, Purpose};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A route that is measured.
pub(super) struct Route {
    /// The caller, for people.
    pub(super) from: String,
    /// The other end.
    pub(super) to: String,
    pub(super) target: Endpoint,
    /// What to do when nobody answers.
    hint: &'static str,
}

impl Route {
    pub(super) fn connect(&self) -> Result<NetworkTest> {
        NetworkTest::connect(&self.target).map_err(|error| self.failed(error))
    }

    /// Opens the domain of a node, as a job does: the server then announces bandwidth limits and may name a storage
    /// server.
    pub(super) fn open(
        &self,
        test: &NetworkTest,
        context: &Context,
    ) -> Result<Option<(String, u16)>> {
        let address = test.open(&self.target.domain).map_err(|error| self.failed(error))?;
        if let Some(([up, down], reason)) = test.new_limits() {
            context.out.note(&network::limits(up, down, &reason));
        }
        Ok(address)
    }

    /// From the same node to the storage server that holds its domain.
    pub(super) fn led_to(&self, (host, port): (String, u16)) -> Self {
        Self {
            from: self.from.clone(),
            to: "the storage server of the domain".to_owned(),
            target: Endpoint { host, port, ..self.target.clone() },
            hint: "Check that it runs (icecore server storage-servers), and that its port is reachable from here.",
        }
    }

    pub(super) fn sends_on(&self) -> Failure {
        let text = format!(
            "the storage server {} directs nodes to another server",
            self.target.describe()
        );
        Failure::new(Code::Failed, text)
            .hint("Only the control server may do that. To see where the domain is stored: icecore server domains")
    }

    pub(super) fn failed(&self, error: store::Error) -> Failure {
        let failure = Failure::from(error);
        match failure.code {
            Code::Unreachable => failure.hint(self.hint),
            _ => failure.at_server(),
        }
    }
}

/// From this node to its server.
pub(super) fn of_node(context: &Context) -> Result<Route> {
    let node = context.agent()?.ok_or_else(|| {
        let known = not_enrolled(&context.agent_folder());
        let hint = known.hint.clone().unwrap_or_default();
        known.hint(format!("{hint}. On a server: icecore net test --help"))
    })?;
    Ok(Route {
        from: format!("node {}", node.identity.agent.node),
        to: "the server".to_owned(),
        target: node.endpoint(&context.caller(), Purpose::Measure)?,
        hint: "Check that the server runs, and that its port is reachable from here.",
    })
}

/// From this storage server to its server.
pub(super) fn of_storage(data: Option<&Path>, context: &Context) -> Result<Route> {
    let folder = folder(data, "ICECORE_STORAGE_DATA", STORAGE_DATA_DEFAULT);
    let identity = access::storage_server::StorageIdentity::load(&folder)?;
    let tls = identity.tls(protocol::ALPN)?;
    let (host, port) = (identity.server.host.clone(), identity.server.port);
    Ok(Route {
        from: format!("storage server {}", identity.settings.storage),
        to: "the server".to_owned(),
        target: target(host, port, tls, context),
        hint: "Check that the server runs, and that its port is reachable from here.",
    })
}

/// From the server to the storage server `to`, or to all of them.
pub(super) fn of_server(
    data: Option<&Path>,
    to: Option<&Name>,
    context: &Context,
) -> Result<Vec<Route>> {
    let folder = folder(data, "ICECORE_DATA", DATA_DEFAULT);
    let StorageServers { storage_servers } = Reach::on(&folder).get("/storage-servers")?;
    let is_meant = |storage: &StorageServer| match to {
        Some(name) => storage.name == *name,
        None => !storage.revoked && storage.port.is_some(),
    };
    let meant: Vec<_> = storage_servers.iter().filter(|storage| is_meant(storage)).collect();
    if meant.is_empty() {
        let what = to.map_or("there is no storage server".to_owned(), |name| {
            format!("there is no storage server '{name}'")
        });
        return Err(
            Failure::new(Code::Failed, what).hint("To list them: icecore server storage-servers")
        );
    }
    let tls = control_server::tls(&folder)?;
    meant.into_iter().map(|storage| to_storage(storage, tls.clone(), context)).collect()
}

fn to_storage(
    storage: &StorageServer,
    tls: Arc<rustls::ClientConfig>,
    context: &Context,
) -> Result<Route> {
    let name = &storage.name;
    let (Some(host), Some(port), false) = (storage.names.first(), storage.port, storage.revoked)
    else {
        let why = if storage.revoked { "is revoked" } else { "has never connected" };
        let text = format!("the storage server '{name}' {why}");
        return Err(
            Failure::new(Code::Failed, text).hint("Start it on its machine: icecore storage")
        );
    };
    Ok(Route {
        from: "the server".to_owned(),
        to: format!("storage server {name}"),
        target: target(host.clone(), port, tls, context),
        hint: "Check that it runs (icecore storage), and that its port is reachable from here.",
    })
}

/// What was given; else what the environment says, as with the commands that run there.
fn folder(given: Option<&Path>, variable: &str, default: &str) -> PathBuf {
    let named = std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    given.map(Path::to_owned).or(named).unwrap_or_else(|| PathBuf::from(default))
}

fn target(host: String, port: u16, tls: Arc<rustls::ClientConfig>, context: &Context) -> Endpoint {
    Endpoint {
        host,
        port,
        tls,
        domain: String::new(),
        what: String::new(),
        buffer_bytes: context.global.server.socket_buffer.unwrap_or(0) as usize,
        streams: 0,
        limits: [0, 0],
        first_patience: Duration::ZERO,
        patience: Duration::ZERO,
        wait_control: Default::default(),
    }
}
