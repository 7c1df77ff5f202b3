//! The copies of a repository that `--copies`, `ICECORE_COPIES` or the config file name: reads fall back to them.

use crate::client_options::Layer;
use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result, quoted};
use crate::out::Out;
use crate::place::Reads;
use crate::secret::Ask;
use crate::{location, lost_config, place, units};
use pipeline::{Error, UnlockedRepository};
use repository::Repository;
use repository::fallback::{self, Copy, CopyUse};
use std::path::PathBuf;
use std::sync::Arc;
use store::Config;

/// The copies that are named, in their order.
pub(crate) fn named(context: &Context) -> Result<Vec<Copy>> {
    let values = context.resolved.chosen("copies").iter().flat_map(|chosen| &chosen.values);
    let places: Vec<PathBuf> = values.map(PathBuf::from).collect();
    places.iter().try_for_each(|place| location::refuse_addresses(place))?;
    Ok(places.into_iter().map(|place| copy(place, context.out.clone())).collect())
}

fn copy(place: PathBuf, out: Arc<Out>) -> Copy {
    let name = place.display().to_string();
    let open = move || place::open(&place, Reads::Fresh, &out).map_err(|failure| failure.message);
    Copy::new(name, Box::new(open))
}

/// The command that repairs from the copies that are named; `None` without one. What was typed has to be typed again.
pub(crate) fn repair(context: &Context) -> Option<String> {
    let chosen = context.resolved.chosen("copies").last()?;
    let typed = chosen.values.iter().filter(|_| chosen.layer == Layer::CommandLine);
    let flags = typed.map(|copy| format!(" --copies {}", quoted(&copy.to_string_lossy())));
    Some(format!("icecore check --repair{}", flags.collect::<String>()))
}

/// Who is told to create a repository where one was lost would begin anew beside its copy.
pub(crate) fn before_creating(context: &Context, failure: Failure) -> Failure {
    let location = context.location();
    let has_lost_config = failure.code == Code::Damage && lost_config::is_at(&location);
    let is_lost = failure.code == Code::NoRepository || has_lost_config;
    let copies = named(context).ok().filter(|_| is_lost && context.remote().is_none());
    let Ok((place, _)) = fallback::instead(&copies.unwrap_or_default()) else { return failure };
    if has_lost_config {
        return lost_config::failure(&location, Some(&place));
    }
    failure.hint(format!(
        "Is its file system mounted? If the repository is lost, make it again from the copy: icecore copy --repo {} --to {}",
        quoted(&place),
        quoted(&location)
    ))
}

/// Those of the named copies that open, for a repair of the repository with the settings `config`.
pub(crate) fn opened(context: &Context, config: &Config) -> Result<Vec<Arc<Repository>>> {
    let copies = named(context)?;
    let tried = copies.iter().map(|copy| (copy, copy.look(config)));
    let opened = tried.filter_map(|(copy, opened)| {
        opened.inspect_err(|reason| unusable(context, &copy.place, reason)).ok()
    });
    Ok(opened.collect())
}

/// Opens the repository with its copies, or the first copy that opens in its place.
pub(crate) fn open(context: &Context, copies: Vec<Copy>) -> Result<UnlockedRepository> {
    let failed = |error| context.failure(error);
    let first = context
        .storage_with(Reads::Cached)
        .and_then(|storage| Repository::open(storage).map_err(|error| failed(error.into())));
    let secret = context.secret(Ask::Once)?;
    match first {
        Ok(first) => match UnlockedRepository::open_with_copies(first, copies, secret.slot()) {
            Ok((repository, copies)) => {
                context.read_through(copies);
                Ok(repository)
            }
            // The file of the key: the copy has it, too.
            Err(error @ (Error::Crypto(_) | Error::KeysMissing(_))) => {
                let instead = open_instead(context, &named(context)?, failed(error))?;
                UnlockedRepository::open_local(instead, secret.slot()).map_err(failed)
            }
            Err(error) => Err(failed(error)),
        },
        Err(failure) => {
            let instead = open_instead(context, &copies, failure)?;
            UnlockedRepository::open_local(instead, secret.slot()).map_err(failed)
        }
    }
}

/// The first copy that opens; what the repository said if none does.
fn open_instead(context: &Context, copies: &[Copy], failure: Failure) -> Result<Repository> {
    match fallback::instead(copies) {
        Ok((place, repository)) => {
            let location = context.location();
            context.out.note(&format!(
                "{}: reading from the copy {place}. To make the repository again, once its directory is empty, or to bring the file of a key back: icecore copy --repo {} --to {}",
                failure.message,
                quoted(&place),
                quoted(&location)
            ));
            Ok(repository)
        }
        Err(reasons) => {
            reasons.iter().for_each(|(place, reason)| unusable(context, place, reason));
            Err(failure)
        }
    }
}

fn unusable(context: &Context, place: &str, reason: &str) {
    context.out.note(&format!("the copy {place} cannot be used: {reason}"));
}

/// Says what was read from copies.
pub(crate) fn tell(context: &Context, uses: &[CopyUse]) {
    for CopyUse { place, reads, problem } in uses {
        if let Some(reason) = problem {
            unusable(context, place, reason);
        }
        if *reads > 0 {
            context.out.note(&format!(
                "{} had been lost and {} read from the copy {place}. To repair the repository: icecore check --repair --copies {}",
                units::many(*reads, "record"),
                if *reads == 1 { "was" } else { "were" },
                quoted(place)
            ));
        }
    }
}
