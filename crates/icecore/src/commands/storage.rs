//! `icecore storage`.

mod control_server;
mod run;

use crate::codes::Code;
use crate::commands::keyless::{self, Reclaiming};
use crate::commands::token_given::TokenGiven;
use crate::context::Context;
use crate::failure::{Failure, Result};
use access::blocking;
use access::storage_server::StorageIdentity as Identity;
use api::Name;
use clap::builder::{OsStringValueParser, TypedValueParser};
use format::entry::Time;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a storage server keeps its files, when nobody says.
pub(crate) const DATA_DEFAULT: &str = "/var/lib/icecore/storage";

/// This machine as a storage server: it holds the repositories of some domains.
///
/// Without a further word the storage server itself is started. Who may do what it asks the server; it knows no keys.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore storage enroll https://backup.example.com:8477 ice1-... --name disk-1.example.com\n  icecore storage\n\nThe token is made on the server: icecore server token NAME --storage"
)]
pub(crate) struct Storage {
    /// Folder of its files and repositories.
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "ICECORE_STORAGE_DATA",
        hide_env_values = true,
        value_parser = OsStringValueParser::new().map(PathBuf::from)
    )]
    data: Option<PathBuf>,
    #[command(flatten)]
    start: run::Start,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    Enroll(Enroll),
    /// Show what this machine is to its server. Asks nobody.
    #[command(after_help = "Example:\n  icecore storage status --json")]
    Status,
    Check(Check),
    Reclaim(Reclaim),
}

/// Check a domain that lies here, without its keys: checksums, and that nothing is missing.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  icecore storage check web-01\n\nThe storage server may run or not. Whether what is sealed is what it should be, only a node with the key can say: icecore check"
)]
struct Check {
    /// The domain.
    #[arg(id = "of", value_name = "DOMAIN")]
    domain: Name,
}

/// Give back the space of what was forgotten in a domain that lies here, without its keys.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore storage reclaim web-01 --dry-run\n  icecore storage reclaim web-01 --wait 10m\n\nThe storage server may run or not; while a node backs up to the domain, it is refused, or waits with --wait. When a snapshot that nobody forgot has lost its file, nothing is removed."
)]
struct Reclaim {
    /// The domain.
    #[arg(id = "of", value_name = "DOMAIN")]
    domain: Name,
    #[command(flatten)]
    how: Reclaiming,
}

/// Become a storage server. The line to type is printed by: icecore server token NAME --storage
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  icecore storage enroll https://backup.example.com:8477 ice1-... --name disk-1.example.com\n\nWhen the answer was lost, type the same line again. Repositories that are in the folder stay."
)]
struct Enroll {
    /// Address of the server.
    #[arg(value_name = "URL")]
    url: String,
    #[command(flatten)]
    token: TokenGiven,
    /// A name or address by which nodes call it; the first is what they are told.
    #[arg(long = "name", value_name = "HOST", required = true)]
    names: Vec<String>,
    /// Listen at this address and port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "[::]:8477")]
    listen: SocketAddr,
    /// Take the place of what this machine was to a server before.
    #[arg(long)]
    replace: bool,
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    settings: &'a access::storage_server::Settings,
    certificate_expires: String,
}

impl Storage {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        match &self.action {
            None => self.start.run(&self.data(), context),
            Some(Action::Enroll(enroll)) => {
                self.enroll(enroll)?;
                self.show(context)
            }
            Some(Action::Status) => self.show(context),
            Some(Action::Check(check)) => keyless::check(context, &self.folder(&check.domain)?),
            Some(Action::Reclaim(reclaim)) => {
                reclaim.how.run(context, &self.folder(&reclaim.domain)?)
            }
        }
    }

    fn data(&self) -> PathBuf {
        let given = self.data.clone().filter(|path| !path.as_os_str().is_empty());
        given.unwrap_or_else(|| PathBuf::from(DATA_DEFAULT))
    }

    /// Where the repository of a domain lies.
    fn folder(&self, domain: &Name) -> Result<PathBuf> {
        let folder = self.data().join("pool/domains").join(domain.as_str());
        if folder.is_dir() {
            return Ok(folder);
        }
        let message = format!("there is no domain '{domain}' here ({})", folder.display());
        let hint = "On the server, which domain lies where: icecore server domains";
        Err(Failure::new(Code::NoRepository, message).hint(hint))
    }

    fn enroll(&self, enroll: &Enroll) -> Result<()> {
        let Enroll { url, token, names, listen, replace } = enroll;
        let place = (*listen, &names[..]);
        let data = self.data();
        blocking::wait(access::storage_server::enroll(
            url,
            &token.read()?,
            &data,
            place,
            *replace,
        ))?;
        Ok(())
    }

    fn show(&self, context: &Context) -> Result<Code> {
        let identity = Identity::load(&self.data())?;
        let (settings, expires) = (&identity.settings, identity.certificate.not_after_secs);
        let certificate_expires = crate::time::json(Time { secs: expires, nanos: 0 });
        for line in [
            format!("server       {}", settings.server),
            format!("storage      {}", settings.storage),
            format!("called       {}", settings.names.join(" ")),
            format!("listens at   {}", settings.listen),
            format!("certificate  until {}", super::server::when(expires)),
        ] {
            context.out.line(&crate::escape::text(&line))?;
        }
        context.out.summary(Code::Complete, &Shown { settings, certificate_expires })
    }
}
