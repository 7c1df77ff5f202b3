//! `icecore init`.

use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Result, quoted};
use crate::lost_config;
use crate::password_cost::PasswordCost;
use crate::secret::Ask;
use object_storage::ObjectStorage;
use pipeline::UnlockedRepository;
use pipeline::unlocked::InitOptions;
use repository::storage::Storage;
use serde::Serialize;

/// Create a repository, in a directory that is new, empty, or was begun by an `init` before.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore init --repo /mnt/backup\n  icecore init --repo s3://bucket/prefix\n  icecore init --repo s3://bucket/prefix --storage-class DEEP_ARCHIVE\n  icecore init --repo /mnt/backup --privacy hardened\n  icecore init --repo /mnt/backup --parity 3\n  icecore init --repo /mnt/images --dedup off\n  icecore init --repo /mnt/backup --password-cost 256MiB\n\nParity needs its share of the space and some time in each backup. With 3 %, every 8 MiB can lose 62 sectors (248 KiB in a row): restores still work, and `icecore check --repair` repairs the sectors. It does not replace a second copy: if the disk is lost, so is its parity."
)]
pub(crate) struct Init {
    /// What chunk sizes reveal to an observer of the storage. With `hardened` they reveal nothing about the key.
    #[arg(long, value_enum, default_value = "standard")]
    privacy: Privacy,
    /// Parity in percent of the stored data, to repair damaged sectors: 1 to 25, or 0 for none. Cannot be changed
    /// later.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=25))]
    parity: u32,
    /// Whether backups share equal data. With `off` each backup stores all of its own: damage reaches one snapshot only,
    /// and each takes the space of a first backup. Cannot be changed later.
    #[arg(long, value_enum, default_value = "on")]
    dedup: Dedup,
    /// In a bucket: the storage class for containers with file content, such as GLACIER_IR or DEEP_ARCHIVE. Can be
    /// changed later: icecore storage-class.
    #[arg(long, value_name = "CLASS")]
    storage_class: Option<String>,
    #[command(flatten)]
    cost: PasswordCost,
}

/// Privacy levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Privacy {
    /// Chunk boundaries depend on a key, lengths are padded.
    Standard,
    /// Chunk boundaries reveal nothing about the key; slower.
    Hardened,
}

/// Whether backups share equal data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Dedup {
    /// Equal data is stored once.
    On,
    /// Each backup stores all of its data.
    Off,
}

impl From<Privacy> for api::domains::Privacy {
    fn from(privacy: Privacy) -> Self {
        match privacy {
            Privacy::Standard => Self::Standard,
            Privacy::Hardened => Self::Hardened,
        }
    }
}

impl From<Dedup> for api::domains::Dedup {
    fn from(dedup: Dedup) -> Self {
        match dedup {
            Dedup::On => Self::On,
            Dedup::Off => Self::Off,
        }
    }
}

#[derive(Serialize)]
struct Made {
    repository: String,
    location: String,
    privacy: Privacy,
    parity_percent: u32,
    dedup: Dedup,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_class: Option<String>,
    key: String,
}

impl Init {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let repo = context.repo()?;
        crate::place::refuse_files_of_others(&repo, "--repo")?;
        if self.storage_class.is_some() {
            crate::place::refuse_directories(&repo)?;
        }
        let secret = context.secret(Ask::Twice)?;
        let storage = crate::place::create(&repo, &context.out)?;
        refuse_what_lost_its_config(&*storage, context)?;
        let privacy = match self.privacy {
            Privacy::Standard => crypto::Privacy::Standard,
            Privacy::Hardened => crypto::Privacy::Hardened,
        };
        let (parity_percent, kdf) = (self.parity, self.cost.kdf(None));
        let dedup = self.dedup == Dedup::On;
        let options = InitOptions { privacy, parity_percent, dedup, kdf, ..InitOptions::default() };
        let bucket = self.bucket(context)?;
        let repository = UnlockedRepository::init(storage, secret.slot(), options)
            .map_err(|error| context.failure(error))?;
        if let (Some(class), Some(bucket)) = (&self.storage_class, bucket) {
            let set = bucket.set_storage_class(class);
            set.map_err(|error| super::storage_class::failed(error, context))?;
        }
        let id = repository.store.config().repository;
        let location = context.location();
        context.out.line(&format!("Created repository {id} at {location}"))?;
        context.out.line("Nobody can reset the password. Without it, or a recovery key, the backups cannot be read.")?;
        context.out.line(&format!(
            "To make a recovery key for printing: icecore key recovery --repo {}",
            quoted(&location)
        ))?;
        let made = Made {
            repository: id.to_string(),
            location,
            privacy: self.privacy,
            parity_percent: self.parity,
            dedup: self.dedup,
            storage_class: self.storage_class.clone(),
            key: repository.slot.id.to_string(),
        };
        context.out.summary(Code::Complete, &made)
    }
}

impl Init {
    /// The bucket, if content is to lie in a storage class that it has.
    fn bucket(&self, context: &Context) -> Result<Option<ObjectStorage>> {
        let Some(class) = &self.storage_class else { return Ok(None) };
        let bucket = crate::place::open_object_storage(&context.repo()?, &context.out)?;
        let tried = bucket.try_storage_class(class);
        tried.map_err(|error| super::storage_class::failed(error, context))?;
        Ok(Some(bucket))
    }
}

/// A new config beside old snapshots would make them unreadable for good.
fn refuse_what_lost_its_config(storage: &dyn Storage, context: &Context) -> Result<()> {
    match lost_config::is_in(storage) {
        true => Err(lost_config::failure(&context.location(), None)),
        false => Ok(()),
    }
}
