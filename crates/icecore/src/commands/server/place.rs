//! `icecore server place-domain`.

use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::Result;
use crate::units;
use api::Name;
use api::domains::{NewPlace, PlacedDomain};

const EXAMPLES: &str = "Examples:
  icecore server place-domain web-01 --on disk-2
  icecore server place-domain web-01 --here --pool fast
  icecore server place-domain web-01 --on disk-2 --lost   (its old storage server or disk is gone)

Copy the repository there first; how, and what to do with the old one, says chapter 12 of the guide for servers.";

/// Let a domain lie on another storage server, or on this server, once its repository was copied there.
///
/// Refused while a job uses the domain, or when the copy lacks a snapshot or a key. Nodes follow by themselves.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlaceDomain {
    /// The domain.
    #[arg(value_name = "DOMAIN")]
    name: Name,
    #[command(flatten)]
    place: NewServer,
    /// The pool of this server.
    #[arg(long, value_name = "POOL", requires = "here", conflicts_with = "storage")]
    pool: Option<Name>,
    /// What lay at the old place is lost: compare nothing with it.
    #[arg(long)]
    lost: bool,
}

#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
struct NewServer {
    /// The storage server.
    #[arg(id = "storage", long = "on", value_name = "STORAGE")]
    storage: Option<Name>,
    /// This server.
    #[arg(long)]
    here: bool,
}

impl PlaceDomain {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let (storage, pool, lost) = (self.place.storage.clone(), self.pool.clone(), self.lost);
        let wanted = NewPlace { storage, pool, lost };
        let placed: PlacedDomain = reach.post(&format!("/domains/{}/place", self.name), &wanted)?;
        let place = self.place.storage.as_ref();
        let place = place.map_or_else(|| "this server".to_owned(), |name| format!("'{name}'"));
        context.out.line(&format!("The domain {} lies on {place} from now on.", self.name))?;
        if placed.missing > 0 {
            let missing = units::many(placed.missing, "snapshot");
            context.out.note(&format!("{missing} of it that the server knows are not there"));
        }
        context.out.summary(Code::Complete, &placed)
    }
}
