//! `icecore server check`, `reclaim`, `forget`: what the host of a server does with domains whose keys it does not
//! have.

use crate::codes::Code;
use crate::commands::forget::Forget;
use crate::commands::keyless::{self, Reclaiming};
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::{Failure, Result};
use api::Name;
use crypto::SlotSecret;
use pipeline::UnlockedRepository;
use server_contract::repositories;
use std::path::PathBuf;

/// Check a domain without its keys: checksums, and that nothing is missing. Needs access to the server's files.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  icecore server check web-01\n\nThe server can be running or not. Only a node with the key can verify the encrypted content: icecore check"
)]
pub(crate) struct Check {
    /// The domain.
    #[arg(id = "of", value_name = "DOMAIN")]
    domain: Name,
}

/// Free the space of forgotten snapshots in a domain, without its keys. Needs access to the server's files.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server reclaim web-01 --dry-run\n  icecore server reclaim web-01 --wait 10m\n\nThe server can be running or not. While a node backs up to the domain, the command fails, or waits with --wait. If a snapshot that nobody forgot has lost its file, nothing is removed."
)]
pub(crate) struct Reclaim {
    /// The domain.
    #[arg(id = "of", value_name = "DOMAIN")]
    domain: Name,
    #[command(flatten)]
    how: Reclaiming,
}

/// Forget snapshots of a managed domain, with the server's key. Needs access to the server's files.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server forget web-01 --keep-daily 7 --keep-weekly 5 --keep-monthly 12 --dry-run\n  icecore server forget web-01 --keep-within 90d --prune --wait 10m\n\nWhat is locked or held stays. For the retention rules, see: icecore forget --help. The server can be running or not. While a node backs up to the domain, the command fails, or waits with --wait."
)]
pub(crate) struct ForgetIn {
    /// The domain.
    #[arg(id = "of", value_name = "DOMAIN")]
    domain: Name,
    #[command(flatten)]
    forget: Forget,
}

impl ForgetIn {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let open = || {
            let opened = server_control::offline::open_to_forget(&reach.data(), &self.domain);
            let (folder, secret) = opened.map_err(|error| self.unopened(error))?;
            let storage = repositories::storage(&folder)
                .map_err(|error| keyless::not_opened(store::Error::from(error).into(), &folder))?;
            let kept = server_control::offline::kept_snapshots(
                &reach.data(),
                &self.domain,
                storage.clone(),
            )?;
            let opened = UnlockedRepository::open(storage, SlotSecret::Recovery(*secret));
            let opened = opened.map_err(|error| keyless::not_opened(error.into(), &folder))?;
            Ok((opened, kept))
        };
        let reclaim = format!(": icecore server reclaim {} (or use --prune)", self.domain);
        self.forget.run_in(context, open, &reclaim)
    }

    /// Where only nodes know the keys, one of them forgets.
    fn unopened(&self, error: server_control::Error) -> Failure {
        let is_of_nodes = matches!(error, server_control::Error::NoKeys(_));
        let is_there = matches!(error, server_control::Error::OnStorageServer { .. });
        let mut failure = Failure::from(error);
        if is_there {
            failure.hint = Some(format!(
                "Print its key on this machine: icecore server key {0}. Then use it on that machine: ICECORE_PASSWORD=KEY icecore forget --repo DATA/pool/domains/{0} --keep-daily 7 --dry-run",
                self.domain
            ));
        }
        if is_of_nodes {
            failure.hint = Some(format!(
                "With its recovery key: icecore forget --repo DATA/pool/domains/{} --password-file FILE. Or from a node that is allowed to: icecore server allow-forget NODE",
                self.domain
            ));
        }
        failure
    }
}

impl Check {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        keyless::check(context, &folder(reach, &self.domain, ("check", "domain.check"))?)
    }
}

impl Reclaim {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let action = if self.how.dry_run { "domain.check" } else { "domain.reclaim" };
        self.how.run(context, &folder(reach, &self.domain, ("reclaim", action))?)
    }
}

/// The folder of a domain; what is done with it, on the command line and in the audit list.
fn folder(reach: &Reach, domain: &Name, (word, action): (&str, &str)) -> Result<PathBuf> {
    let folder = server_control::offline::domain_folder(&reach.data(), domain, action);
    folder.map_err(|error| {
        let is_there = matches!(error, server_control::Error::OnStorageServer { .. });
        let mut failure = Failure::from(error);
        if is_there {
            failure.hint = Some(format!("On that machine: icecore storage {word} {domain}"));
        }
        failure
    })
}
