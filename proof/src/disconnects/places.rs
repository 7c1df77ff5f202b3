//! Where domains lie: with the server that governs, or on a storage server; and the ways to both.

use super::proxy::Proxy;
use crate::client::Client;
use crate::failed;
use crate::server::{NewNode, Server};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Where the storage server listens.
const STORAGE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// By which name nodes and the server call it, at the same port: there the way to it begins.
const CALLED: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3));

/// Both servers.
pub(crate) struct Places {
    server: Server,
    storage: Server,
    /// From the storage server to the one that governs.
    pub(crate) asking: Arc<Proxy>,
    to_storage: Arc<Proxy>,
}

impl Places {
    /// Starts them.
    pub(crate) fn start(work: &Path, binary: &Path) -> Result<Self, String> {
        let server = Server::start_in(work, binary)?;
        let asking = Arc::new(way_to(&server)?);
        let storage = server.start_storage(work, STORAGE, CALLED, asking.port())?;
        let begin = SocketAddr::new(CALLED, storage.at().port());
        let to_storage = Arc::new(Proxy::start(begin, storage.at())?);
        Ok(Self { server, storage, asking, to_storage })
    }

    /// A node, and the ways that it goes.
    pub(crate) fn enroll(
        &self,
        new: &NewNode,
        work: &Path,
    ) -> Result<(Client, Vec<Arc<Proxy>>), String> {
        let mut ways = vec![Arc::new(way_to(&self.server)?)];
        let client = self.server.enroll(new, &work.join(new.name), ways[0].port())?;
        if new.is_elsewhere {
            ways.push(self.to_storage.clone());
        }
        Ok((client, ways))
    }

    /// The storage server, or the one that governs.
    pub(crate) fn of(&self, is_storage: bool) -> &Server {
        if is_storage { &self.storage } else { &self.server }
    }

    pub(crate) fn of_mut(&mut self, is_storage: bool) -> &mut Server {
        if is_storage { &mut self.storage } else { &mut self.server }
    }

    /// Nothing is wrong with their own ways any more.
    pub(crate) fn calm(&self) {
        self.asking.calm();
        self.to_storage.calm();
    }

    pub(crate) fn kill(&mut self) {
        self.server.kill();
        self.storage.kill();
    }

    pub(crate) fn have_not_panicked(&self) -> Result<(), String> {
        self.server.has_not_panicked().and_then(|()| self.storage.has_not_panicked())
    }

    /// Bytes that all repositories take.
    pub(crate) fn stored_bytes(&self, work: &Path) -> Result<u64, String> {
        let bytes =
            |pool| bytes_below(&work.join(pool)).map_err(failed("measure the repositories"));
        Ok(bytes("server/pool")? + bytes("storage/pool")?)
    }
}

fn way_to(server: &Server) -> Result<Proxy, String> {
    Proxy::start(SocketAddr::new(HERE, 0), server.at())
}

fn bytes_below(folder: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let (path, metadata) = entry.and_then(|it| Ok((it.path(), it.metadata()?)))?;
        bytes += if metadata.is_dir() { bytes_below(&path)? } else { metadata.len() };
    }
    Ok(bytes)
}
