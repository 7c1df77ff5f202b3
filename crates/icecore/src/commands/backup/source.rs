//! From flags to what is backed up and how.

use super::{Backup, Choice, links, lists, stream};
use crate::client_options::Layer;
use crate::client_options::table::EXCLUDE;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Result};
use crate::paths::absolute;
use crate::place;
use capture::excludes::{self, Excludes, ExcludesBuilder, Only, PatternError};
use capture::walk::SourceRoot;
use pipeline::backup::{BackupOptions, TransactionLimits};
use pipeline::select::clean_path;
use pipeline::throttle::ResourceLimits;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Fewest threads that walk: listing waits for disks more than for processors.
const WALK_THREADS_MIN: usize = 2;
/// Threads that read: the pipeline looks at the disks.
const AS_DISKS_LIKE: usize = 0;

/// The options that the flags and the profile ask for.
pub(super) fn options(flags: &Backup, context: &Context) -> Result<BackupOptions> {
    let Named { mut roots, mut paths, links } = named(flags, context)?;
    let only = only(flags, &links)?;
    if let Some(only) = &only {
        keep_only(&mut roots, only, context)?;
        paths.extend(marks(flags));
    }
    super::within::check(&roots, &flags.within)?;
    if context.global.server.node_command {
        super::within::refuse_excluded(
            &roots,
            &flags.within,
            &own_excludes(&flags.choice, context)?,
        )?;
    }
    let readers = flags.readers(&context.resolved);
    let choice = links::seen_through(&flags.choice, &links);
    Ok(BackupOptions {
        roots,
        node: node_name(flags.node.as_deref(), context)?,
        paths,
        tags: flags.tags.clone(),
        mount_points: capture::mount_points::wanted(),
        walk: capture::walk::WalkOptions {
            refuse_links_to_roots: !flags.within.is_empty(),
            only: only.map(Arc::new),
            ..walk(&choice, context, readers.unwrap_or_else(processors))?
        },
        read: Default::default(),
        threads: readers.unwrap_or(AS_DISKS_LIKE),
        level: flags.compression,
        full: flags.full,
        read_since: flags.read_since,
        ignore_inode: flags.ignore_inode,
        verify_blocks: flags.verify_blocks,
        limits: ResourceLimits {
            read_bytes_per_sec: flags.limit_read.unwrap_or(0),
            write_bytes_per_sec: flags.limit_write.unwrap_or(0),
            cpu_percent: flags.limit_cpu.unwrap_or(0),
        },
        checkpoint_after: TransactionLimits {
            bytes: flags.checkpoint_bytes.unwrap_or(0),
            objects: flags.checkpoint_objects.unwrap_or(0),
        },
        cache: None,
        is_partial: false,
        time: flags.time,
        skip_if_unchanged: flags.skip_if_unchanged,
    })
}

/// What `--only` takes, if it was given. Patterns that only take back take back from everything.
fn only(flags: &Backup, links: &[links::Link]) -> Result<Option<Only>> {
    let typed = &flags.only;
    let takes_back = |pattern: &String| pattern.starts_with('!');
    let is_of_all = !typed.is_empty() && typed.iter().all(takes_back);
    let all = is_of_all.then(|| "/**".to_owned());
    let taken = typed.iter().flat_map(|pattern| links::taken(pattern, links));
    let patterns: Vec<_> = all.into_iter().chain(taken).collect();
    Only::new(&patterns).map_err(|error| Failure::usage(error.to_string()))
}

/// What names a source of which only a part is taken. None of it is a path: those begin with a slash.
pub(super) fn marks(flags: &Backup) -> Vec<String> {
    match flags.series.as_deref() {
        Some("") => Vec::new(),
        Some(class) => vec![escape::escape(format!("class {class}").as_bytes())],
        None => {
            let mark = |pattern: &String| escape::escape(format!("only {pattern}").as_bytes());
            let mut marks: Vec<_> = flags.only.iter().map(mark).collect();
            marks.sort_unstable();
            marks
        }
    }
}

/// Named paths are backed up whatever patterns exclude, but not what `--only` does not take.
fn keep_only(roots: &mut Vec<SourceRoot>, only: &Only, context: &Context) -> Result<()> {
    let is_directory = |path: &[u8]| {
        let found =
            std::fs::symlink_metadata(std::path::Path::new(std::ffi::OsStr::from_bytes(path)));
        // What is not there is told later.
        found.map_or(true, |found| found.is_dir())
    };
    let (before, mut first) = (roots.len(), None);
    roots.retain(|root| {
        let is_taken =
            root.source == b"/" || only.includes(&root.source, is_directory(&root.source));
        if !is_taken {
            first.get_or_insert_with(|| escape::escape(links::shown(root)));
        }
        is_taken
    });
    if let Some(path) = first.filter(|_| !roots.is_empty()) {
        let others = match before - roots.len() - 1 {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        context.out.note(&format!("left out, since --only takes nothing of it: {path}{others}"));
    }
    if roots.is_empty() {
        return Err(Failure::usage("no PATH has anything that --only takes"));
    }
    Ok(())
}

/// Processors that we may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What this machine is called in the repository.
pub(crate) fn node_name(typed: Option<&str>, context: &Context) -> Result<String> {
    let chosen = || context.resolved.value("node").map(|name| name.to_string_lossy().into_owned());
    let named = typed.map(str::to_owned).or_else(chosen);
    let name =
        named.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
    super::flags::parse_node(&name).map_err(|reason| {
        Failure::usage(format!("'{name}': {reason}")).hint("Choose another name: --node NAME")
    })
}

/// Where to walk, and what the source is called.
#[derive(Default)]
pub(super) struct Named {
    pub(super) roots: Vec<SourceRoot>,
    /// All that was named, and where the snapshot has it.
    pub(super) paths: Vec<String>,
    /// What is walked elsewhere than it was named.
    links: Vec<links::Link>,
}

pub(super) fn named(flags: &Backup, context: &Context) -> Result<Named> {
    if let Some(name) = flags.stdin.as_ref().or(flags.command.as_ref()) {
        return Ok(Named {
            paths: vec![escape::escape(&stream::called(name))],
            ..Named::default()
        });
    }
    located(&lists::wanted(flags, context)?, flags, context)
}

/// What a backup calls its source that takes its paths from the config file, or from the environment; `None` if those
/// name none.
pub(crate) fn paths_of_file(context: &Context) -> Result<Option<Vec<String>>> {
    let own = crate::profile::own_paths(&context.resolved)?;
    if own.is_empty() {
        return Ok(None);
    }
    let own: Vec<_> = own.into_iter().map(OsString::from).collect();
    located(&own, &Backup::said(&[])?, context).map(|named| Some(named.paths))
}

/// What tells the snapshots of a source from all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) node: String,
    pub(crate) paths: Vec<String>,
}

impl Identity {
    /// That of what a backup with these words backs up.
    pub(crate) fn of(words: &[OsString], context: &Context) -> Result<Self> {
        let flags = Backup::said(words)?;
        let mut paths = named(&flags, context)?.paths;
        paths.extend(marks(&flags));
        Ok(Self { node: node_name(flags.node.as_deref(), context)?, paths })
    }
}

/// Where the `typed` paths are, and what the source that they make is called.
fn located(typed: &[OsString], flags: &Backup, context: &Context) -> Result<Named> {
    let sources = typed.iter().map(|path| absolute(path)).collect::<Result<Vec<_>>>()?;
    sources.iter().try_for_each(|path| refuse_own_repository(path, context))?;
    let rooted =
        |path: &PathBuf| [b"/", clean_path(path.as_os_str().as_bytes()).as_slice()].concat();
    let shown_as = flags.shown_as.as_ref().map(rooted);
    let follows = flags.within.is_empty();
    let root = |(typed, path): (&OsString, &Vec<u8>)| match follows && links::is_followed(typed) {
        true => links::behind(path.clone(), shown_as.clone()),
        false => SourceRoot { source: path.clone(), shown_as: shown_as.clone() },
    };
    let mut roots: Vec<_> = typed.iter().zip(&sources).map(root).collect();
    if follows && shown_as.is_none() {
        roots = links::placed(roots);
    }
    let typed = sources.iter().map(|source| shown_as.as_ref().unwrap_or(source).as_slice());
    let mut paths: Vec<_> =
        typed.chain(roots.iter().map(links::shown)).map(escape::escape).collect();
    paths.sort_unstable();
    paths.dedup();
    lists::refuse_too_many(&paths)?;
    let links = sources.into_iter().zip(&roots).map(|(named, root)| (named, root.source.clone()));
    let links = links.filter(|(named, walked)| named != walked).collect();
    Ok(Named { roots, paths, links })
}

/// What the walk goes into and leaves out.
pub(crate) fn walk(
    choice: &Choice,
    context: &Context,
    threads: usize,
) -> Result<capture::walk::WalkOptions> {
    Ok(capture::walk::WalkOptions {
        threads: threads.max(WALK_THREADS_MIN),
        one_file_system: choice.one_file_system,
        excludes: Arc::new(excludes(choice, context)?),
        only: None,
        gitignore: choice.gitignore,
        tags: choice.tag_files(),
        larger_than: choice.exclude_larger_than,
        older_than: choice.older_than,
        newer_than: choice.newer_than,
        nodump: choice.nodump,
        refuse_links_to_roots: false,
    })
}

/// Where the repository lies: a backup that holds itself doubles with every run.
fn own_repository(context: &Context) -> Option<PathBuf> {
    context.repo().ok()?.canonicalize().ok()
}

/// What is named is backed up whatever is excluded.
fn refuse_own_repository(source: &[u8], context: &Context) -> Result<()> {
    let source = Path::new(OsStr::from_bytes(source));
    match own_repository(context).filter(|own| place::lies_in(source, own)) {
        None => Ok(()),
        Some(own) => {
            let (source, own) = (source.display(), own.display());
            let message = format!("{source} lies in the repository {own} itself");
            Err(Failure::usage(message).hint("To have it twice: icecore copy --to DIR"))
        }
    }
}

/// Our own repository, then the patterns that the server suggests, of the config file and of the environment, then
/// those of files, of the command line, and those that the server forces: the last one that matches wins. Those of a
/// node command stand on its command line, and take back nothing that the others exclude.
pub(crate) fn excludes(choice: &Choice, context: &Context) -> Result<Excludes> {
    let mut builder = Excludes::builder();
    if let Some(own) = own_repository(context) {
        builder.directory(own.as_os_str().as_bytes());
    }
    add(&mut builder, context, |layer| layer > Layer::CommandLine)?;
    add_files(&mut builder, choice)?;
    builder.mark_command_line();
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let is_foreign = context.global.server.node_command;
    for pattern in &choice.excludes {
        let pattern = excludes::anchored(pattern, &here);
        let added = if is_foreign { builder.foreign(&pattern) } else { builder.pattern(&pattern) };
        added.map_err(no_pattern)?;
    }
    for pattern in &choice.excludes_of_any_case {
        builder.pattern_ignore_case(&excludes::anchored(pattern, &here)).map_err(no_pattern)?;
    }
    add(&mut builder, context, |layer| layer == Layer::Forced)?;
    builder.build().map_err(no_pattern)
}

/// What this machine itself excludes, whatever a server wants.
fn own_excludes(choice: &Choice, context: &Context) -> Result<Excludes> {
    let mut builder = Excludes::builder();
    add(&mut builder, context, |layer| layer > Layer::CommandLine && layer != Layer::Suggested)?;
    add_files(&mut builder, choice)?;
    builder.build().map_err(no_pattern)
}

/// Adds the patterns of the option that stand in some layers.
fn add(
    builder: &mut ExcludesBuilder,
    context: &Context,
    is_wanted: impl Fn(Layer) -> bool,
) -> Result<()> {
    let chosen = context.resolved.chosen(EXCLUDE).iter();
    let wanted = chosen.filter(|candidate| is_wanted(candidate.layer));
    let mut patterns = wanted.flat_map(|candidate| &candidate.values);
    patterns
        .try_for_each(|one| builder.pattern(&one.to_string_lossy()).map(drop).map_err(no_pattern))
}

fn add_files(builder: &mut ExcludesBuilder, choice: &Choice) -> Result<()> {
    let mut files = choice.exclude_files.iter();
    files.try_for_each(|file| builder.file(file).map(drop).map_err(no_pattern))
}

fn no_pattern(error: PatternError) -> Failure {
    Failure::usage(error.to_string())
}
