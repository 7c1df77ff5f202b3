//! The flags of `icecore backup`.

use super::stream;
use crate::client_options::resolve::Resolved;
use crate::failure::{Failure, Result};
use crate::hooks::{self, HookReport};
use crate::wait::Wait;
use crate::{time, units};
use capture::excludes::ExcludeTag;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, FromArgMatches};
use format::entry::Time;
use seal::Level;
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "Examples:
  icecore backup /home /etc --exclude '*.tmp' --tag daily
  icecore backup / --one-file-system --exclude /var/cache
  icecore backup ~ --exclude-if-present .nobackup --iexclude '*.iso' --skip-if-unchanged
  find /srv -name '*.conf' -print0 | icecore backup --files-from-raw -
  icecore backup --profile work --wait 10m
  icecore backup /snapshots/home --as /home
  icecore backup /srv --limit-write 20M --limit-cpu 50 --idle-io
  mysqldump shop | icecore backup --stdin shop.sql
  icecore backup --command shop.dump -- pg_dump -Fc shop
  icecore backup /srv --hook-pre dump-shop --hook-post tidy-up

If the command of --command fails, no snapshot is made; if icecore stops, so does the command. It has \
no terminal: give it passwords in files. The repository itself is always excluded.

A PATH that is a symbolic link is stored as a link; with a slash at its end (/srv/data/) it means the directory \
behind it.

Exit code 3: a snapshot was made, but some objects could not be read.";

/// Back up files, or the output of a command, in a new snapshot.
#[derive(clap::Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Backup {
    /// Files and directories to back up [default: `paths` of the config file]. With --command: the command and its
    /// arguments, after `--`.
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
    /// Also back up the paths listed in this file, one per line; `-` is the standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stdin", "command", "shown_as"])]
    pub(crate) files_from: Vec<PathBuf>,
    /// The same, with each path ended by a NUL byte, as `find -print0` prints them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stdin", "command", "shown_as"])]
    pub(crate) files_from_raw: Vec<PathBuf>,
    /// Back up the standard input as a file with this name.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["command", "paths"])]
    pub(crate) stdin: Option<OsString>,
    /// Run a command and back up its output as a file with this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) command: Option<OsString>,
    /// Tag the snapshot. Can be given several times.
    #[arg(long = "tag", value_name = "TAG", value_parser = parse_tag)]
    pub(crate) tags: Vec<String>,
    /// Name of this node in the repository [default: the host name].
    #[arg(long, alias = "host", value_name = "NAME", value_parser = parse_node)]
    pub(crate) node: Option<String>,
    /// Store the single PATH as if it were at this path.
    #[arg(long = "as", value_name = "PATH")]
    pub(crate) shown_as: Option<PathBuf>,
    /// Time of the snapshot instead of now, not in the future: '2026-11-20 14:00:05'. A time more than ten minutes
    /// before the newest snapshot of the same source makes the new snapshot suspect: it is listed, and no rule of
    /// `forget` counts it.
    #[arg(long, value_name = "TIME", value_parser = time::parse_moment)]
    pub(crate) time: Option<Time>,
    /// Make no snapshot if nothing has changed since the last one, and the last one has all the given tags.
    #[arg(long, conflicts_with_all = ["stdin", "command", "dry_run"])]
    pub(crate) skip_if_unchanged: bool,
    #[command(flatten)]
    pub(crate) wait: Wait,
    /// Read all files, even if they seem unchanged.
    #[arg(long)]
    pub(crate) full: bool,
    /// Also read files that changed at this time or later, even if they seem unchanged: an age (30d, 1y) or a time.
    #[arg(long, value_name = "AGE|TIME", value_parser = time::parse_since)]
    pub(crate) read_since: Option<Time>,
    /// Back up only what matches this pattern, as for --exclude; with a `!` before it, not what matches. The last one
    /// that matches a path, or a directory above it, counts. If each has a `!`, all is backed up that matches none. Such
    /// snapshots are a source of their own.
    #[arg(long, value_name = "PATTERN", conflicts_with_all = ["stdin", "command"])]
    pub(crate) only: Vec<String>,
    /// What tells the snapshots from others of the same paths, in place of the patterns of --only.
    #[arg(long, value_name = "NAME", hide = true)]
    pub(crate) series: Option<String>,
    /// List what would be read, and store nothing.
    #[arg(short = 'n', long, conflicts_with_all = ["stdin", "command"])]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// The server chose the paths, and may see only what is in these directories.
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) within: Vec<PathBuf>,
    /// Reader threads [default: chosen for the disks].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,
    /// Parallelism from 1 to 10, for readers and for streams to the server; `auto` adapts to disks and network.
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = parse_parallel, conflicts_with = "threads")]
    pub(crate) parallel: Parallel,
    /// Zstandard level from -7 (fastest) to 19 (smallest), or `auto`, which adapts to the data and the bottleneck.
    #[arg(long, value_name = "LEVEL", default_value = "auto", allow_negative_numbers = true, value_parser = parse_level)]
    pub(crate) compression: Level,
    /// Lower the CPU priority by this much (0 to 19).
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..=19))]
    pub(crate) nice: i32,
    /// Use the disks only when they are idle.
    #[arg(long)]
    pub(crate) idle_io: bool,
    /// Maximum bytes read from the source per second: 500K, 20M, 1G.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_rate)]
    pub(crate) limit_read: Option<u64>,
    /// Maximum bytes written to the repository per second.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_rate)]
    pub(crate) limit_write: Option<u64>,
    /// Maximum share of all CPUs, in percent.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) limit_cpu: Option<u32>,
    /// Make what was stored durable after so many bytes, in addition to every 4 GiB and five minutes.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub(crate) checkpoint_bytes: Option<u64>,
    /// Make what was stored durable after reading this many objects.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) checkpoint_objects: Option<u64>,
    /// Before the backup, run this hook of `hooks.toml` in the agent state directory. If it fails, nothing is backed up.
    #[arg(long, value_name = "NAME", value_parser = hooks::parse_name)]
    pub(crate) hook_pre: Vec<String>,
    /// After the backup, run this hook, however the backup ended.
    #[arg(long, value_name = "NAME", value_parser = hooks::parse_name)]
    pub(crate) hook_post: Vec<String>,
    /// If the backup failed, run this hook, before those of --hook-post.
    #[arg(long, value_name = "NAME", value_parser = hooks::parse_name)]
    pub(crate) hook_on_failure: Vec<String>,
    /// How the hooks before this backup ended.
    #[arg(skip)]
    pub(crate) hooks_run: Vec<HookReport>,
    /// Whether there are hooks around this backup, and whether those after it have run.
    #[arg(skip)]
    pub(crate) runs_hooks: bool,
    #[arg(skip)]
    pub(crate) has_run_hooks: std::cell::Cell<bool>,
    /// Ignore inode numbers: on some network file systems they change.
    #[arg(long)]
    pub(crate) ignore_inode: bool,
    /// Decrypt and check every record before it is stored.
    #[arg(long)]
    pub(crate) verify_blocks: bool,
    /// What to print at the end.
    #[arg(long, value_enum, value_name = "DETAIL", default_value = "summary")]
    pub(crate) report: Detail,
    /// On a node of a server, with a bucket, and with a write-only key: maximum size of the chunk cache of each source
    /// on this machine; 0 for no cache.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = units::parse_bytes)]
    pub(crate) chunk_cache_size: u64,
    /// Directory of the chunk cache [default: in the agent state directory; of a bucket, in the cache directory].
    #[arg(long, value_name = "DIR")]
    pub(crate) chunk_cache: Option<PathBuf>,
}

/// What is excluded from a backup; the same for `explain`.
#[derive(clap::Args, Debug, Default, Clone)]
pub(crate) struct Choice {
    /// Exclude what matches this pattern, as in .gitignore. A pattern that begins with `/` is an absolute path; one
    /// that contains a slash is relative to the current directory.
    #[arg(short, long = "exclude", value_name = "PATTERN")]
    pub(crate) excludes: Vec<String>,
    /// The same, ignoring case. Applied after --exclude.
    #[arg(long = "iexclude", value_name = "PATTERN")]
    pub(crate) excludes_of_any_case: Vec<String>,
    /// Exclude what matches a pattern in this file. A pattern that contains a slash is an absolute path.
    #[arg(long = "exclude-from", alias = "exclude-file", value_name = "FILE")]
    pub(crate) exclude_files: Vec<PathBuf>,
    /// Exclude the content of directories that contain a file NAME (that begins with HEADER). A named PATH is never
    /// excluded.
    #[arg(long = "exclude-if-present", value_name = "NAME[:HEADER]", value_parser = OsStringValueParser::new().try_map(|text| ExcludeTag::parse(&text)))]
    pub(crate) tags_that_exclude: Vec<ExcludeTag>,
    /// Exclude what .gitignore files in the source exclude.
    #[arg(long)]
    pub(crate) gitignore: bool,
    /// Do not cross into other file systems.
    #[arg(short = 'x', long)]
    pub(crate) one_file_system: bool,
    /// Also back up directories that a CACHEDIR.TAG marks as caches.
    #[arg(long)]
    pub(crate) no_cache_tags: bool,
    /// Exclude files larger than this: 500M, 10G.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub(crate) exclude_larger_than: Option<u64>,
    /// Exclude files last modified before this: an age (30d, 1y) or a time. Of a day, the whole day stays.
    #[arg(long = "exclude-older-than", alias = "older-than", value_name = "AGE|TIME", value_parser = time::parse_since)]
    pub(crate) older_than: Option<Time>,
    /// Exclude files last modified after this. Of a day, the whole day stays.
    #[arg(long = "exclude-newer-than", alias = "newer-than", value_name = "AGE|TIME", value_parser = time::parse_until)]
    pub(crate) newer_than: Option<Time>,
    /// Exclude files marked with `chattr +d`.
    #[arg(long)]
    pub(crate) nodump: bool,
}

/// How much the report at the end says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Detail {
    /// At most twelve lines.
    Summary,
    /// Every field.
    Full,
}

impl Choice {
    /// Tag files, each of which excludes the directory that contains it.
    pub(crate) fn tag_files(&self) -> Vec<ExcludeTag> {
        let caches = (!self.no_cache_tags).then(ExcludeTag::of_caches);
        caches.into_iter().chain(self.tags_that_exclude.iter().cloned()).collect()
    }
}

impl Backup {
    /// The flags of a command line, without the name of the command.
    pub(crate) fn said(words: &[OsString]) -> Result<Self> {
        let command = clap::Command::new("backup").no_binary_name(true);
        let matches = Self::augment_args(command).try_get_matches_from(words);
        let flags = matches.and_then(|mut matches| Self::from_arg_matches_mut(&mut matches));
        flags.map_err(|error| {
            let text = error.to_string();
            Failure::usage(text.lines().next().unwrap_or_default().trim_start_matches("error: "))
        })
    }

    /// Reader threads, if given. Of `--threads` and `--parallel` at most one is in effect.
    pub(crate) fn readers(&self, resolved: &Resolved) -> Option<usize> {
        let by_parallel = resolved.chosen("threads").is_empty();
        if by_parallel { self.parallel.map(usize::from) } else { self.threads.map(usize::from) }
    }

    /// What clap cannot check.
    pub(crate) fn check(&self) -> Result<()> {
        if self.shown_as.is_some() && (self.paths.len() != 1 || self.command.is_some()) {
            return Err(
                Failure::usage("--as needs exactly one PATH").hint("Run one backup for each path.")
            );
        }
        for (name, flag) in [(&self.stdin, "--stdin"), (&self.command, "--command")] {
            name.iter().try_for_each(|name| stream::refuse_bad_name(name, flag))?;
        }
        if self.command.is_some() && self.paths.is_empty() {
            return Err(Failure::usage("--command needs a command after `--`")
                .hint("For example: icecore backup --command shop.dump -- pg_dump -Fc shop"));
        }
        Ok(())
    }
}

/// Parallelism; `None` is `auto`.
pub(crate) type Parallel = Option<u8>;

fn parse_parallel(text: &str) -> std::result::Result<Parallel, String> {
    match text.parse() {
        _ if text == "auto" => Ok(None),
        Ok(number @ 1..=10) => Ok(Some(number)),
        _ => Err("write auto or a number from 1 to 10".into()),
    }
}

/// A tag is a word for people and for policies.
pub(crate) fn parse_tag(text: &str) -> std::result::Result<String, String> {
    let is_bad = text.trim().is_empty() || text.contains(',') || text.chars().any(char::is_control);
    if is_bad {
        Err("a tag needs at least one visible character, and no comma or control character".into())
    } else {
        Ok(text.to_owned())
    }
}

/// A name that can stand in `SNAP@node`.
pub(crate) fn parse_node(text: &str) -> std::result::Result<String, String> {
    let is_bad = text.trim().is_empty()
        || text.contains([':', '/', '@'])
        || text.chars().any(char::is_control);
    if is_bad {
        Err("a node name must not be empty or contain ':', '/', '@' or control characters".into())
    } else {
        Ok(text.to_owned())
    }
}

fn parse_level(text: &str) -> std::result::Result<Level, String> {
    if text == "auto" {
        return Ok(Level::Auto);
    }
    let level = text.parse().ok().filter(|level| (-7..=19).contains(level));
    level.map(Level::Fixed).ok_or_else(|| "write auto, or a level from -7 to 19".into())
}
