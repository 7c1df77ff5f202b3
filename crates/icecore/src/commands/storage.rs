//! `icecore storage`.

mod control_server;
mod pool;
mod run;

use crate::codes::Code;
use crate::commands::keyless::{self, Reclaiming};
use crate::commands::token_given::TokenGiven;
use crate::context::Context;
use crate::failure::{Failure, Result};
use access::blocking;
use access::storage_server::{Machine, StorageIdentity as Identity};
use api::Name;
use clap::builder::{OsStringValueParser, TypedValueParser};
use format::entry::Time;
use serde::Serialize;
use server_contract::folder::Folder;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// Where a storage server keeps its files, when nobody says.
pub(crate) const DATA_DEFAULT: &str = "/var/lib/icecore/storage";

/// Where it listens, when nobody says.
const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 8477);

/// Run or manage a storage server: this machine holds the repositories of some domains.
///
/// Without a subcommand, starts the storage server. It has no keys, and asks the control server who may do what.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore storage enroll https://backup.example.com:8477 ice1-... --name disk-1.example.com\n  icecore storage\n\nThe token comes from the server: icecore server token NAME --storage"
)]
pub(crate) struct Storage {
    /// Directory of its files and repositories.
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
    /// Show the enrollment of this machine. Does not contact the server.
    #[command(after_help = "Example:\n  icecore storage status --json")]
    Status,
    Check(Check),
    Reclaim(Reclaim),
    Pool(pool::PoolArgs),
}

/// Check a domain on this machine without its keys: checksums, and that nothing is missing.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  icecore storage check web-01\n\nThe storage server can be running or not. Only a node with the key can verify the encrypted content: icecore check"
)]
struct Check {
    /// The domain.
    #[arg(id = "of", value_name = "DOMAIN")]
    domain: Name,
}

/// Free the space of forgotten snapshots in a domain on this machine, without its keys.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore storage reclaim web-01 --dry-run\n  icecore storage reclaim web-01 --wait 10m\n\nThe storage server can be running or not. While a node backs up to the domain, the command fails, or waits with --wait. If a snapshot that nobody forgot has lost its file, nothing is removed."
)]
struct Reclaim {
    /// The domain.
    #[arg(id = "of", value_name = "DOMAIN")]
    domain: Name,
    #[command(flatten)]
    how: Reclaiming,
}

/// Enroll this machine as a storage server. The server prints the command line: icecore server token NAME --storage
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore storage enroll https://backup.example.com:8477 ice1-... --name disk-1.example.com\n  icecore storage enroll https://backup.example.com:8477 ice1-... --name spare.example.com --pool /mnt/shared/disk-1 --take-over\n  icecore storage enroll https://backup.example.com:8477 ice1-... --name disk-2.example.com --pool s3://bucket/disk-2\n\nIf the connection fails before the reply arrives, run the same command again. Repositories in the directory stay."
)]
struct Enroll {
    /// URL of the server.
    #[arg(value_name = "URL")]
    url: String,
    #[command(flatten)]
    token: TokenGiven,
    /// Name or address of this machine for nodes. Nodes are told the first one.
    #[arg(long = "name", value_name = "HOST", required = true)]
    names: Vec<String>,
    /// Address and port to listen on [default: as before, if this machine was enrolled; else [::]:8477].
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Replace an earlier enrollment of this machine.
    #[arg(long)]
    replace: bool,
    /// Directory for the repositories, as on a shared file system, or s3://BUCKET/PREFIX [default: pool in the
    /// directory of its files].
    #[arg(long, value_name = "DIR")]
    pool: Option<PathBuf>,
    /// The pool was used by another machine, which is gone or must not use it any more: take it over.
    #[arg(long, requires = "pool")]
    take_over: bool,
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    settings: &'a access::storage_server::Settings,
    certificate_expires: String,
    /// Further pools of the storage server before, of which nobody has said where they lie.
    missed_pools: Vec<String>,
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
            Some(Action::Check(check)) => {
                keyless::check(context, &self.folder(&check.domain, false)?)
            }
            Some(Action::Reclaim(reclaim)) => {
                let writes = !reclaim.how.dry_run;
                reclaim.how.run(context, &self.folder(&reclaim.domain, writes)?)
            }
            Some(Action::Pool(pool)) => pool.run(&self.data(), context),
        }
    }

    fn data(&self) -> PathBuf {
        let given = self.data.clone().filter(|path| !path.as_os_str().is_empty());
        given.unwrap_or_else(|| PathBuf::from(DATA_DEFAULT))
    }

    /// Where the repository of a domain lies, if the state of its pool lets one read or write there.
    fn folder(&self, domain: &Name, writes: bool) -> Result<PathBuf> {
        let folder = pool::folder_of(&self.data(), domain, writes)?;
        if folder.is_dir() {
            return Ok(folder);
        }
        let message = format!("domain '{domain}' is not on this machine ({})", folder.display());
        let hint = "To see where domains are stored, on the server: icecore server domains";
        Err(Failure::new(Code::NoRepository, message).hint(hint))
    }

    fn enroll(&self, enroll: &Enroll) -> Result<()> {
        let Enroll { url, token, names, listen, replace, pool, take_over } = enroll;
        let data = self.data();
        let linked =
            |pool| Folder::link_pool(&data, pool, *take_over).map_err(|error| no_pool(&error));
        let pool_of = pool.as_deref().map(linked).transpose()?.flatten();
        let before = || access::storage_server::listens_at(&data).unwrap_or(LISTEN_DEFAULT);
        let listen = listen.unwrap_or_else(before);
        let machine = Machine { listen, names, pool_of: pool_of.as_deref() };
        let token = token.read()?;
        blocking::wait(access::storage_server::enroll(url, &token, &data, machine, *replace))?;
        Ok(())
    }

    fn show(&self, context: &Context) -> Result<Code> {
        let identity = Identity::load(&self.data())?;
        let (settings, expires) = (&identity.settings, identity.certificate.not_after_secs);
        let certificate_expires = crate::time::json(Time { secs: expires, nanos: 0 });
        let missed_pools = self.missed_pools();
        for line in [
            format!("server       {}", settings.server),
            format!("storage      {}", settings.storage),
            format!("names        {}", settings.names.join(" ")),
            format!("listens on   {}", settings.listen),
            format!("certificate  valid until {}", super::server::when(expires)),
        ] {
            context.out.line(&crate::escape::text(&line))?;
        }
        for pool in &missed_pools {
            let add = format!("icecore storage pool add {pool} DIR");
            let line = format!(
                "ALARM        the storage server before had the pool '{pool}', too: its domains wait until it is added: {add}"
            );
            context.out.line(&crate::escape::text(&line))?;
        }
        context.out.summary(Code::Complete, &Shown { settings, certificate_expires, missed_pools })
    }

    /// None while the first pool cannot be read: the program says that when it starts.
    fn missed_pools(&self) -> Vec<String> {
        let folder = Folder::look_storage(&self.data());
        folder.and_then(|folder| folder.missed_pools()).unwrap_or_default()
    }
}

fn no_pool(error: &server_contract::Error) -> Failure {
    let hint = "Nothing was changed, and the token is still good. Mount the file system of the pool, or name another directory: --pool DIR";
    Failure::new(Code::Usage, error.to_string()).hint(hint)
}
