//! `icecore server storage-servers`.

use super::look::maybe_bytes;
use super::maybe;
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::escape;
use crate::failure::Result;
use api::storage_servers::{StorageServer, StorageServers};
use serde::Serialize;

/// List the further storage servers.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  icecore server storage-servers\n\nTo add one: icecore server token NAME --storage"
)]
pub(crate) struct StoragesArgs {}

#[derive(Serialize)]
struct Count {
    storage_servers: usize,
}

impl StoragesArgs {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let StorageServers { storage_servers } = reach.get("/storage-servers")?;
        context.out.line(&format!(
            "{:<16} {:<10} {:>8} {:>10} {:>10} {:<20} CALLED",
            "STORAGE", "STATE", "DOMAINS", "FREE", "OF", "LAST SEEN"
        ))?;
        for storage in &storage_servers {
            context.out.item("storage", storage, || row(storage))?;
        }
        for storage in &storage_servers {
            if let Some(alarm) = &storage.alarm {
                context.out.note(&format!("ALARM: {}: {alarm}", storage.name));
            }
        }
        context.out.summary(Code::Complete, &Count { storage_servers: storage_servers.len() })
    }
}

fn row(storage: &StorageServer) -> String {
    let state = match (storage.revoked, storage.connected) {
        _ if storage.alarm.is_some() => "ALARM",
        (true, _) => "revoked",
        (false, true) => "connected",
        (false, false) => "away",
    };
    let (free, total) = (maybe_bytes(storage.free_bytes), maybe_bytes(storage.total_bytes));
    let (name, domains, seen) = (storage.name.as_str(), storage.domains, maybe(storage.last_seen));
    let port = storage.port.map_or(String::new(), |port| format!(" port {port}"));
    let called = escape::text(&format!("{}{port}", storage.names.join(" ")));
    format!("{name:<16} {state:<10} {domains:>8} {free:>10} {total:>10} {seen:<20} {called}")
}
