//! `icecore server storage-servers`.

use super::ago;
use super::look::maybe_bytes;
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::escape;
use crate::failure::Result;
use crate::table::{Table, left, right};
use crate::terminal::Paint;
use crate::units;
use api::Name;
use api::storage_servers::{StorageServer, StorageServers};
use serde::Serialize;

/// List storage servers, and what is wrong with them.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  icecore server storage-servers\n\nALARM: two machines use its certificates, one of its pools cannot be used, or its clock differs from that of this server. A line below the table says which.\n\nTo add one: icecore server token NAME --storage"
)]
pub(crate) struct StoragesArgs {}

#[derive(Serialize)]
struct Count {
    storage_servers: usize,
}

impl StoragesArgs {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let StorageServers { storage_servers } = reach.get("/storage-servers")?;
        let mut table = Table::new(&[
            left("STORAGE"),
            left("STATE"),
            right("DOMAINS"),
            right("FREE"),
            right("TOTAL"),
            left("LAST SEEN"),
            left("ADDRESS"),
        ]);
        for storage in &storage_servers {
            context.out.record("storage", storage)?;
            table.row(row(storage));
            if is_alarming(storage) {
                table.paint(1, Paint::Red);
            }
        }
        table.print(&context.out)?;
        if storage_servers.is_empty() {
            context.out.line(
                "There are no storage servers. To add one: icecore server token NAME --storage",
            )?;
        }
        for storage in &storage_servers {
            if let Some(alarm) = &storage.alarm {
                context.out.note(&format!("ALARM: {}: {alarm}", storage.name));
            }
            if let Some(ahead_secs) = storage.clock_ahead_secs {
                context.out.note(&wrong_clock(&storage.name, ahead_secs));
            }
            for fault in &storage.pool_faults {
                context.out.note(&format!(
                    "ALARM: {}: {fault}. On that machine: icecore storage pool list",
                    storage.name
                ));
            }
        }
        context.out.summary(Code::Complete, &Count { storage_servers: storage_servers.len() })
    }
}

fn is_alarming(storage: &StorageServer) -> bool {
    storage.alarm.is_some() || !storage.pool_faults.is_empty() || storage.clock_ahead_secs.is_some()
}

fn wrong_clock(storage: &Name, ahead_secs: i64) -> String {
    let side = if ahead_secs > 0 { "ahead of" } else { "behind" };
    let by = units::duration(ahead_secs.unsigned_abs() as f64);
    format!(
        "ALARM: {storage}: its clock is {by} {side} that of this server. On both machines: timedatectl. Let it be set from the network: timedatectl set-ntp true"
    )
}

fn row(storage: &StorageServer) -> [String; 7] {
    let state = match (storage.revoked, storage.connected) {
        _ if is_alarming(storage) => "ALARM",
        (true, _) => "revoked",
        (false, true) => "connected",
        (false, false) => "away",
    };
    let port = storage.port.map_or(String::new(), |port| format!(" port {port}"));
    [
        storage.name.to_string(),
        state.to_owned(),
        units::count(storage.domains),
        maybe_bytes(storage.free_bytes),
        maybe_bytes(storage.total_bytes),
        if storage.connected { "now".to_owned() } else { ago(storage.last_seen) },
        escape::text(&format!("{}{port}", storage.names.join(" "))),
    ]
}
