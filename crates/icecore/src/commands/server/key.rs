//! `icecore server key`.

use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::Result;
use crate::place::Reads;
use api::Name;
use crypto::SlotSecret;
use pipeline::UnlockedRepository;
use serde::Serialize;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Show the key of a managed domain, for maintenance on this machine. Needs access to the server's files.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  ICECORE_PASSWORD=$(icecore server key web-01 --quiet) icecore forget --keep-daily 30 --repo /var/lib/icecore/server/pool/domains/web-01\n  icecore server key web-01 --copy /mnt/second/web-01\n\nWhoever has this key can read everything in the domain. The audit log records this command, unless it is for a copy."
)]
pub(crate) struct Key {
    /// The domain.
    #[arg(id = "of", value_name = "DOMAIN")]
    domain: Name,
    /// Show the key for a copy of the domain, by its repository: a directory, or s3://BUCKET/PREFIX. It needs the
    /// server's `master.key` alone, so it works when the catalog is lost.
    #[arg(long, value_name = "REPOSITORY")]
    copy: Option<PathBuf>,
}

#[derive(Serialize)]
struct ShownKey<'a> {
    recovery_key: &'a str,
}

impl Key {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let key = match &self.copy {
            None => server_control::offline::domain_key(&reach.data(), &self.domain)?,
            Some(copy) => self.key_of_copy(copy, reach, context)?,
        };
        context.out.print(&key)?;
        context.out.summary(Code::Complete, &ShownKey { recovery_key: &key })
    }

    fn key_of_copy(
        &self,
        copy: &Path,
        reach: &Reach,
        context: &Context,
    ) -> Result<Zeroizing<String>> {
        let storage = crate::place::open(copy, Reads::Cached, &context.out)?;
        let of = repository::config::read(&*storage).map_err(store::Error::from)?.repository;
        let key = server_control::offline::copied_domain_key(&reach.data(), &self.domain, of)?;
        let failed = |error| context.failure(error);
        let secret =
            crypto::recovery_from_text(&key).map_err(|_| failed(pipeline::Error::WrongKey))?;
        match UnlockedRepository::open(storage, SlotSecret::Recovery(secret)) {
            Ok(_) => Ok(key),
            Err(error) => Err(failed(error)),
        }
    }
}
