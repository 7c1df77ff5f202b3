//! `icecore copy`.

mod lost;

use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result, quoted};
use crate::filter::Filter;
use crate::place::{self, Reads};
use crate::wait::Wait;
use crate::{lost_config, progress, units};
use ids::SnapshotId;
use object_storage::Location;
use pipeline::UnlockedRepository;
use pipeline::copy::{self, CopyOptions, CopyReport};
use repository::snapshots::SnapshotRef;
use repository::storage::{Storage, StorageError};
use repository::{Repository, config, directories};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EXAMPLES: &str = "Examples:
  icecore copy --to /mnt/second
  icecore copy --to s3://bucket/prefix
  icecore copy --to /mnt/second 3fa9c1d2 77b0e4aa
  icecore copy --to /mnt/removable --node web-1 --tag monthly
  icecore copy --to /mnt/second --dry-run
  icecore copy --repo /mnt/second --to /mnt/first   (makes a lost repository again)

The copy is a whole repository, with the same keys and passwords: every command works on it. No password is \
needed, unless --node, --tag, --path or something else than ids chooses the snapshots. What is there is not \
copied again, and a copy that was interrupted goes on. What was forgotten there stays so, unless it is named or \
--again is given. To free its space, use forget and reclaim there: they do not touch this repository.

To export snapshots, for example to a removable disk, name them. To make an archive of one: icecore dump.";

/// Copy snapshots to a second place.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Copy {
    /// Snapshots to copy [default: all].
    #[arg(value_name = "SNAP")]
    snapshots: Vec<String>,
    /// Where to: a directory, or s3://BUCKET/PREFIX. If it holds no repository, one is made.
    #[arg(long, value_name = "REPOSITORY")]
    to: PathBuf,
    #[command(flatten)]
    filter: Filter,
    /// Copy again what was forgotten there.
    #[arg(long)]
    again: bool,
    /// Also copy snapshots that have lost parts, without those parts.
    #[arg(long)]
    accept_damage: bool,
    /// Give the copy the keys of this repository, even if keys were changed in the copy: keys made there no longer open
    /// it.
    #[arg(long)]
    replace_keys: bool,
    /// Give the copy the keys of this repository even if snapshots that were made in the copy are lost by that.
    #[arg(long)]
    give_up: bool,
    /// Show what would be copied, and change nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    wait: Wait,
}

/// Lost containers of the copy that are told one by one; all are counted.
const TOLD_MAX: usize = 10;

/// The result as a line of JSON shows it.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    report: &'a CopyReport,
    /// Numbers of the containers that the copy lost before.
    lost_containers: Vec<u64>,
}

/// Whether something could not be written: only the copy is.
fn is_of_writing(error: &pipeline::Error) -> bool {
    let reads = ["open", "read", "list", "ask for the length of"];
    let is_write = |error: &StorageError| !reads.contains(&error.operation);
    matches!(error, pipeline::Error::Repository(store::Error::Storage(error)) if is_write(error))
}

fn is_damage(error: &repository::Error) -> bool {
    matches!(error, repository::Error::Damaged { .. })
}

impl Copy {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let storage = context.storage()?;
        self.refuse_itself(context)?;
        let options = CopyOptions {
            snapshots: self.chosen(context, &storage)?,
            again: self.again || !self.snapshots.is_empty(),
            dry_run: self.dry_run,
            accept_damage: self.accept_damage,
            replace_keys: self.replace_keys,
            give_up: self.give_up,
        };
        let source = Repository::open(storage).map_err(|error| context.failure(error.into()))?;
        let source = Arc::new(source);
        let target = self.target(context)?;
        context.listen_for_signals();
        let run = || copy::run(&source, &target, &options, &context.progress);
        let report = {
            let _shown = progress::Shown::start(&context.progress, &context.out, None);
            self.wait.patiently(context, run)
        };
        let report = report.map_err(|error| self.failure(context, error))?;
        self.tell(context, &report)?;
        let lost = self.lost(context, &target)?;
        let is_whole = report.is_whole() && lost.is_empty();
        let code = if is_whole { Code::Complete } else { Code::Damage };
        let code = context.code_of_choice(code);
        context.out.summary(code, &Told { report: &report, lost_containers: lost })
    }

    /// The containers that the copy has lost, which are told.
    fn lost(&self, context: &Context, target: &Arc<dyn Storage>) -> Result<Vec<u64>> {
        let exists = config::exists(&**target).unwrap_or(false);
        let found = if exists { lost::containers(target, self.dry_run) } else { Ok(Vec::new()) };
        let found = found.map_err(|error| self.of_copy(Failure::from(error)))?;
        for damage in found.iter().take(TOLD_MAX) {
            let number = damage.container;
            context.out.note(&format!("container {number} of the copy {}", damage.reason));
        }
        if let Some(more) = found.len().checked_sub(TOLD_MAX).filter(|more| *more > 0) {
            context.out.note(&format!("and {} of it", units::many(more as u64, "more container")));
        }
        if !found.is_empty() {
            let (location, place) = (context.location(), self.place());
            context.out.note(&format!(
                "what needs them cannot be restored from the copy. To store it there again: icecore check --repair --copies {} --repo {}",
                quoted(&location),
                quoted(&place)
            ));
        }
        Ok(found.iter().map(|damage| damage.container.0).collect())
    }

    /// A dry run makes no directory.
    fn target(&self, context: &Context) -> Result<Arc<dyn Storage>> {
        crate::location::refuse_addresses(&self.to)?;
        let opened = place::open(&self.to, Reads::Fresh, &context.out);
        if opened.as_ref().is_ok_and(|there| lost_config::is_in(&**there)) {
            return Err(lost_config::failure(&self.place(), Some(&context.location())));
        }
        place::refuse_files_of_others(&self.to, "--to")?;
        if let Ok(there) = &opened
            && (self.dry_run || config::exists(&**there).unwrap_or(false))
        {
            let damaged = config::read(&**there).err().filter(is_damage);
            if !self.dry_run && damaged.is_none() {
                let made = directories::make_missing(&**there);
                made.map_err(|error| self.of_copy(Failure::from(error)))?;
            }
            return damaged.map_or(opened, |error| Err(self.of_copy(Failure::from(error))));
        }
        if !self.dry_run {
            let mounted =
                "If a file system should be mounted there, mount it and remove what was made";
            let place = self.place();
            context.out.remark(&match place.starts_with("s3://") {
                true => format!("{place} has no copy yet: it is made now"),
                false => format!("{place} has no copy yet: it is made now. {mounted}"),
            });
            return place::create(&self.to, &context.out);
        }
        let hint = format!("Make the directory: mkdir {}", quoted(&self.place()));
        opened.map_err(|failure| failure.hint(hint))
    }

    fn place(&self) -> String {
        self.to.display().to_string()
    }

    fn refuse_itself(&self, context: &Context) -> Result<()> {
        let repo = context.repo()?;
        if repo != self.to && !place::lies_in(&self.to, &repo) && !lies_in_bucket(&self.to, &repo) {
            return Ok(());
        }
        let failure = Failure::usage("the copy would be in the repository itself");
        Err(failure.hint("Give another directory or bucket: icecore copy --to /mnt/second"))
    }

    /// The snapshots that the command line names; `None` for all. Only what is sealed needs a key.
    fn chosen(
        &self,
        context: &Context,
        storage: &Arc<dyn Storage>,
    ) -> Result<Option<Vec<SnapshotRef>>> {
        if self.snapshots.is_empty() && !self.filter.is_any() {
            return Ok(None);
        }
        if !self.filter.is_any() && self.snapshots.iter().all(|text| is_id(text)) {
            return by_ids(context, storage, &self.snapshots).map(Some);
        }
        let secret = context.secret(crate::secret::Ask::Once)?;
        let repository = UnlockedRepository::open(storage.clone(), secret.slot())
            .map_err(|error| context.failure(error))?;
        if !self.snapshots.is_empty() {
            let find =
                |text: &String| context.snapshot_and_path(&repository, text.as_ref(), &self.filter);
            let found = self.snapshots.iter().map(|text| Ok(find(text)?.0.name));
            return found.collect::<Result<_>>().map(Some);
        }
        let all = context.snapshots(&repository)?.0;
        self.filter.refuse_unmet(&all)?;
        let taken = all.iter().filter(|snapshot| self.filter.takes(snapshot));
        Ok(Some(taken.map(|snapshot| snapshot.name).collect()))
    }

    /// Only the copy is written, and so in use or full.
    fn failure(&self, context: &Context, error: pipeline::Error) -> Failure {
        let writes = is_of_writing(&error);
        let failure = Failure::from(error);
        match failure.code {
            _ if writes => self.of_copy(failure),
            Code::InUse | Code::NoSpace => failure.at(&self.place()),
            Code::Usage => {
                failure.hint("Give an empty directory, or the one that holds the copy: --to DIR")
            }
            _ => failure.at(&context.location()),
        }
    }

    /// It is the copy that could not be used, and not what is copied.
    fn of_copy(&self, failure: Failure) -> Failure {
        let message = format!("the copy in {}: {}", self.place(), failure.message);
        Failure { message, ..failure }.at(&self.place())
    }

    fn tell(&self, context: &Context, report: &CopyReport) -> Result<()> {
        for lost in &report.lost {
            context.out.note(&format!("object {} is lost: {}", lost.id, lost.reason));
        }
        for left in &report.left_out {
            context.out.note(&format!("snapshot {:.8} was not copied: {}", left.id, left.reason));
        }
        if !report.left_out.is_empty() || report.lost_objects > 0 {
            context.out.note(&format!(
                "to see what is affected: icecore check --read-data. To copy those snapshots without what is lost: icecore copy --accept-damage --to {}",
                quoted(&self.place())
            ));
        }
        for snapshot in &report.disowned {
            context.out.note(&format!(
                "snapshot {snapshot:.8} of the copy is untrusted from now on: no key of this repository signed it. To remove it: icecore forget {snapshot:.8} --damaged --repo {}",
                quoted(&self.place())
            ));
        }
        for key in &report.lost_keys {
            context.out.note(&format!(
                "the key {key} has no file in the copy: its file is damaged or missing here. Its password does not open the copy; another one does. If a further copy has it: icecore copy --repo THAT-COPY --to {}. If none has it: icecore key remove {key}",
                quoted(&context.location())
            ));
        }
        self.lines(report).iter().try_for_each(|line| context.out.line(line))
    }

    fn lines(&self, report: &CopyReport) -> Vec<String> {
        let (place, count) = (self.place(), report.snapshots.len() as u64);
        let there = units::many(report.present, "snapshot");
        let first = match (count, self.dry_run) {
            (0, _) if report.is_whole() => format!("Nothing to copy: {there} in {place}"),
            (_, true) => format!(
                "Would copy {} to {place}: {}. Nothing was changed (--dry-run).",
                units::many(count, "snapshot"),
                units::bytes(report.bytes)
            ),
            _ => format!(
                "Copied {} to {place}: {} in {}",
                units::many(count, "snapshot"),
                units::bytes(report.bytes),
                units::duration(report.elapsed_secs)
            ),
        };
        let mut lines = vec![first];
        if count > 0 && report.present > 0 {
            lines.push(format!(
                "  {there} {} there before",
                if report.present == 1 { "was" } else { "were" }
            ));
        }
        if report.forgotten_there > 0 {
            let what = units::many(report.forgotten_there, "snapshot");
            lines.push(format!(
                "  {what} of before stay forgotten there; to copy them again: --again"
            ));
        }
        if report.forgotten_meanwhile > 0 {
            let what = units::many(report.forgotten_meanwhile, "snapshot");
            lines.push(format!("  {what} had been forgotten here in the meantime"));
        }
        lines
    }
}

/// The same as [`place::lies_in`] for addresses of buckets. Around `repo` is no harm: a lost repository may be made
/// again of a copy that lies in its place.
fn lies_in_bucket(to: &Path, repo: &Path) -> bool {
    let [to, repo] = [to, repo].map(|place| place.to_str().and_then(Location::parse)?.ok());
    let is_in =
        |to: &Location, repo: &Location| to.overlaps(repo) && to.prefix.len() >= repo.prefix.len();
    to.zip(repo).is_some_and(|(to, repo)| is_in(&to, &repo))
}

fn is_id(text: &str) -> bool {
    (1..=2 * SnapshotId::LEN).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The snapshots by nothing but the ids that their files are named by.
fn by_ids(
    context: &Context,
    storage: &Arc<dyn Storage>,
    texts: &[String],
) -> Result<Vec<SnapshotRef>> {
    let failed = |error: repository::Error| context.failure(error.into());
    let repository = Repository::open(storage.clone()).map_err(failed)?;
    let all = repository.snapshots().map_err(failed)?;
    let find = |text: &String| {
        let prefix = text.to_ascii_lowercase();
        let fitting = all.iter().filter(|name| name.id.begins_with(&prefix)).copied().collect();
        pipeline::select::only(text, fitting).map_err(|error| context.failure(error))
    };
    texts.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_does_not_lie_in_the_bucket_of_its_own_repository() {
        let is_refused = |to: &str, repo: &str| lies_in_bucket(Path::new(to), Path::new(repo));
        for (to, repo, refused) in [
            ("s3://b/one", "s3://b/one/", true),
            ("s3://b/one/copy", "s3://b/one", true),
            ("s3://b/one", "s3://b", true),
            ("s3://b/one-2", "s3://b/one", false),
            ("s3://b/two", "s3://b/one", false),
            ("s3://c/one", "s3://b/one", false),
            ("s3://b/one", "s3://b/one/copy", false),
            ("/mnt/one", "s3://b/one", false),
        ] {
            assert_eq!(is_refused(to, repo), refused, "{to} {repo}");
        }
    }
}
