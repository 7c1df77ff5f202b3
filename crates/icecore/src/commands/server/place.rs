//! `icecore server place-domain`.

use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::Result;
use crate::{escape, units};
use api::Name;
use api::domains::{NewPlace, PlacedDomain};

const EXAMPLES: &str = "Examples:
  icecore server place-domain web-01 --on disk-2
  icecore server place-domain web-01 --here --pool fast
  icecore server place-domain web-01 --on disk-2 --lost   # its old storage server or disk is gone

Copy the repository there first. Chapter 12 of the guide for servers says how, and what to do with the old one.";

/// Let a domain lie on another storage server, or on this server, once its repository was copied there.
///
/// Refused while a job uses the domain, or when the copy lacks a snapshot, a key or a container. Nodes follow by
/// themselves.
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
        self.tell_what_is_missing(&placed, context);
        context.out.line(&format!("  next     {}", self.next()))?;
        context.out.summary(Code::Complete, &placed)
    }

    /// Of a copy that was taken because nothing better is there.
    fn tell_what_is_missing(&self, placed: &PlacedDomain, context: &Context) {
        let note = |text: String| context.out.note(&text);
        if placed.missing > 0 {
            let missing = units::many(placed.missing, "snapshot");
            note(format!("{missing} that the server knows are missing there"));
        }
        if placed.keys_missing > 0 {
            let missing = units::many(placed.keys_missing, "key");
            note(format!(
                "the files of {missing} in use are missing: whoever has such a key cannot open the copy with it"
            ));
        }
        placed.damages.iter().for_each(|damage| note(escape::text(damage)));
        if placed.damaged > 0 {
            let damaged = units::many(placed.damaged, "container");
            note(format!(
                "data of {damaged} is missing. The check below says which snapshots need it; another copy can heal it: icecore check --repair --repo REPOSITORY --copies COPY"
            ));
        }
    }

    /// What comes before anybody deletes the old directory.
    fn next(&self) -> String {
        match &self.place.storage {
            Some(storage) => {
                format!("on the machine of {storage}: icecore storage check {}", self.name)
            }
            None => format!("icecore server check {}", self.name),
        }
    }
}
