//! `icecore server catalog`: where the catalog lies, its move to another database, and that it counts as it is.

use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::Result;
use crate::{escape, units};
use api::status::ConfirmedCatalog;
use serde::Serialize;
use server_control::catalog_location;

/// Show where the catalog lies, move it to another database, or say that it counts as it is.
///
/// `show` and `move` need access to the server's files.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server catalog show\n  icecore server catalog move 'host=/run/postgresql user=icecore dbname=icecore'\n  icecore server catalog move 'postgres://icecore@db.example.com/icecore?sslrootcert=/etc/icecore/db-ca.pem'\n  icecore server catalog move /srv/icecore/new-catalog.sqlite\n  icecore server catalog confirm\n\nThe server must be stopped for a move, and the new database must be empty. The old catalog stays as it was, marked as moved. Put a password into PGPASSWORD, for the move and for the server: then no file and no list of processes shows it."
)]
pub(crate) struct CatalogArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Show where the catalog lies.
    Show,
    /// Move the catalog to another database: SQLite or PostgreSQL, 14 or newer. A move that was interrupted can be
    /// repeated.
    Move {
        /// The new database: `postgres://USER@HOST/DATABASE?sslrootcert=FILE`, `host=DIR dbname=DATABASE`, or the path
        /// of a new file.
        #[arg(value_name = "TO")]
        to: String,
    },
    /// Say that the catalog counts as it is, when it was restored from an older copy or created again.
    ///
    /// Until then nothing expires: the catalog may lack holds, policies and grants. Look at them first. What the server
    /// has revoked stays revoked.
    #[command(
        after_help = "Examples:\n  icecore server status\n  icecore server hold list\n  icecore server catalog confirm"
    )]
    Confirm,
}

#[derive(Serialize)]
struct Shown {
    location: String,
    database: &'static str,
}

#[derive(Serialize)]
struct Moved {
    from: String,
    to: String,
    rows: u64,
}

impl CatalogArgs {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        match &self.action {
            Action::Show => show(reach, context),
            Action::Move { to } => move_to(reach, context, to),
            Action::Confirm => confirm(reach, context),
        }
    }
}

fn show(reach: &Reach, context: &Context) -> Result<Code> {
    let location = catalog_location::of(&reach.data())?;
    let database = if location.is_file() { "SQLite" } else { "PostgreSQL" };
    let location = location.to_string();
    context.out.print(&format!("{} ({database})", escape::text(&location)))?;
    context.out.summary(Code::Complete, &Shown { location, database })
}

fn move_to(reach: &Reach, context: &Context, to: &str) -> Result<Code> {
    let moved = catalog_location::move_to(&reach.data(), to)?;
    let rows = moved.rows.iter().map(|(_, rows)| rows).sum();
    let (from, to) = (moved.from, moved.to);
    let copied = if moved.rows.is_empty() {
        "an earlier move had copied it".to_owned()
    } else {
        format!("{}, compared", units::many(rows, "row"))
    };
    context.out.line(&format!("moved to {} ({copied})", escape::text(&to)))?;
    context.out.line(&format!("{} is out of date from now on", escape::text(&from)))?;
    context.out.line("Start the server again: icecore server")?;
    context.out.summary(Code::Complete, &Moved { from, to, rows })
}

fn confirm(reach: &Reach, context: &Context) -> Result<Code> {
    let done: ConfirmedCatalog = reach.post("/catalog/confirm", &serde_json::json!({}))?;
    for fault in &done.ended {
        context.out.line(&escape::text(&format!("was: {fault}")))?;
    }
    let entries = units::many(done.entries, "entry");
    context.out.line(&format!(
        "The server continues with its catalog as it is: {entries} in its audit log."
    ))?;
    context.out.summary(Code::Complete, &done)
}
