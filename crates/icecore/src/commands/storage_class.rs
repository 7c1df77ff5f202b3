//! `icecore storage-class`.

use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::place;
use object_storage::STANDARD;
use repository::storage::StorageError;
use serde::Serialize;
use std::io::ErrorKind;

/// Show or set the storage class into which containers with file content are written to a bucket.
///
/// Only content goes there. What backups, listings and checks read (trees, index, snapshots, keys) stays in the
/// standard class. What is in the bucket already stays where it is. Needs no password.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore storage-class --repo s3://bucket/prefix\n  icecore storage-class DEEP_ARCHIVE --repo s3://bucket/prefix\n  icecore storage-class STANDARD --repo s3://bucket/prefix\n  icecore storage-class GLACIER_IR --repo s3://bucket/pool/domains/web\n\nFrom GLACIER and DEEP_ARCHIVE, content has to be brought back before a restore, which takes hours: icecore restore latest --plan. Storages charge for at least 90 or 180 days. A lost index cannot be rebuilt while containers are archived: keep a copy, or bring all of them back first."
)]
pub(crate) struct StorageClass {
    /// The class, as the storage calls it: STANDARD_IA, GLACIER_IR, GLACIER, DEEP_ARCHIVE... Without it, show which one
    /// is set.
    #[arg(value_name = "CLASS")]
    class: Option<String>,
}

#[derive(Serialize)]
struct Shown {
    location: String,
    /// None: nothing was set, and content lies in containers with other things.
    storage_class: Option<String>,
}

impl StorageClass {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let bucket = place::open_object_storage(&context.repo()?, &context.out)?;
        if let Some(class) = &self.class {
            if !bucket.has_repository().map_err(|error| failed(error, context))? {
                let location = context.location();
                let none = store::Error::NoRepository { location: location.clone() };
                return Err(Failure::from(none).at(&location));
            }
            bucket.set_storage_class(class).map_err(|error| failed(error, context))?;
            context.out.line(&set(class))?;
        }
        let class = bucket.storage_class().map_err(|error| failed(error, context))?;
        if self.class.is_none() {
            context.out.line(&match &class {
                Some(class) => format!("Containers with file content are written into {class}"),
                None => "No storage class is set: containers are written into the class that the bucket gives them".to_owned(),
            })?;
        }
        let shown = Shown { location: context.location(), storage_class: class };
        context.out.summary(Code::Complete, &shown)
    }
}

fn set(class: &str) -> String {
    match class {
        STANDARD => "Containers with file content are written apart from the rest, into the standard class. What lies in another class stays there.".to_owned(),
        class => format!("From the next backup on, containers with file content are written into {class}. What is there already stays where it is."),
    }
}

/// The error of a class that cannot be set or read.
pub(crate) fn failed(error: StorageError, context: &Context) -> Failure {
    let kind = error.source.kind();
    let failure = Failure::from(store::Error::from(error)).at(&context.location());
    match kind {
        ErrorKind::Unsupported | ErrorKind::InvalidInput => Failure { code: Code::Usage, ..failure }
            .hint("Take a class that your storage has. At AWS: STANDARD_IA, ONEZONE_IA, INTELLIGENT_TIERING, GLACIER_IR, GLACIER, DEEP_ARCHIVE"),
        _ => failure,
    }
}
