//! `icecore init`.

use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result, quoted};
use crate::password_cost::PasswordCost;
use crate::secret::Ask;
use client::UnlockedRepository;
use client::unlocked::InitOptions;
use repository::local::LocalStorage;
use repository::storage::Storage;
use serde::Serialize;
use std::sync::Arc;

/// Make a new repository.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore init --repo /mnt/backup\n  icecore init --repo /mnt/backup --privacy hardened\n  icecore init --repo /mnt/backup --parity 3\n  icecore init --repo /mnt/backup --password-cost 256MiB\n\nParity costs its share of the space and some time of each backup. With 3 every stretch of 8 MiB may lose 62 sectors (248 KiB in a row): restores go on, and `icecore check --repair` writes them as they were. It is no second copy: a disk that is gone is gone."
)]
pub(crate) struct Init {
    /// What sizes of chunks may tell an observer; `hardened` cuts so that nothing of the key leaks.
    #[arg(long, value_enum, default_value = "standard")]
    privacy: Privacy,
    /// Parity of all that is stored, in per cent: it makes rotten sectors good again. 1 to 25, or 0
    /// for none; chosen once.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=25))]
    parity: u32,
    #[command(flatten)]
    cost: PasswordCost,
}

/// Privacy levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Privacy {
    /// Keyed cutting, padded lengths.
    Standard,
    /// Cut points that leak nothing of the key; slower.
    Hardened,
}

impl From<Privacy> for api::domains::Privacy {
    fn from(privacy: Privacy) -> Self {
        match privacy {
            Privacy::Standard => Self::Standard,
            Privacy::Hardened => Self::Hardened,
        }
    }
}

#[derive(Serialize)]
struct Made {
    repository: String,
    location: String,
    privacy: Privacy,
    parity_percent: u32,
    key: String,
}

impl Init {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let repo = context.repo()?;
        let secret = context.secret(Ask::Twice)?;
        let storage = LocalStorage::create(&repo)
            .map_err(|error| Failure::from(repository::Error::from(error)).at(&context.place()))?;
        refuse_what_lost_its_config(&storage, context)?;
        let privacy = match self.privacy {
            Privacy::Standard => crypto::Privacy::Standard,
            Privacy::Hardened => crypto::Privacy::Hardened,
        };
        let (parity_percent, kdf) = (self.parity, self.cost.kdf(None));
        let options = InitOptions { privacy, parity_percent, kdf, ..InitOptions::default() };
        let archive = UnlockedRepository::init(Arc::new(storage), secret.slot(), options)
            .map_err(|error| context.failure(error))?;
        let id = archive.store.config().repository;
        let place = context.place();
        context.out.line(&format!("made the repository {id} at {place}"))?;
        context.out.line("Without the password nothing can be read again: nobody can reset it.")?;
        context.out.line(&format!(
            "A recovery key to print: icecore key recovery --repo {}",
            quoted(&place)
        ))?;
        let made = Made {
            repository: id.to_string(),
            location: place,
            privacy: self.privacy,
            parity_percent: self.parity,
            key: archive.slot.id.to_string(),
        };
        context.out.summary(Code::Complete, &made)
    }
}

/// A new config beside old snapshots would make them unreadable for good.
fn refuse_what_lost_its_config(storage: &LocalStorage, context: &Context) -> Result<()> {
    let has_config = storage.open("config").is_ok();
    if has_config || storage.list("snapshots").unwrap_or_default().is_empty() {
        return Ok(());
    }
    let message = format!("{} holds snapshots, but its file 'config' is missing", context.place());
    Err(Failure::new(Code::Damage, message).hint(
        "Put the file back from a copy of the repository, or make a new one at another place.",
    ))
}
