//! The flags of `icecore backup`.

use crate::failure::{Failure, Result};
use crate::wait::Wait;
use crate::{time, units};
use capture::excludes::ExcludeTag;
use clap::builder::{OsStringValueParser, TypedValueParser};
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

A command that fails makes no snapshot, and one that is running ends when icecore does. It has no \
terminal: give it passwords by file. The repository itself is always left out.

Exit code 3: stored, but parts could not be read.";

/// Store files, or what a program prints, in a new snapshot.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Backup {
    /// Files and directories [default: `paths` of the config file]; with --command, the command and its arguments after
    /// `--`.
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
    /// Also what this file lists, one path a line; `-` for the standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stdin", "command", "shown_as"])]
    pub(crate) files_from: Vec<PathBuf>,
    /// The same, each path ended by a NUL byte, as `find -print0` does.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stdin", "command", "shown_as"])]
    pub(crate) files_from_raw: Vec<PathBuf>,
    /// Store the standard input as a file of this name.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["command", "paths"])]
    pub(crate) stdin: Option<OsString>,
    /// Run a command and store what it prints as a file of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) command: Option<OsString>,
    /// A label; may be given several times.
    #[arg(long = "tag", value_name = "TAG", value_parser = parse_tag)]
    pub(crate) tags: Vec<String>,
    /// Name of this machine in the repository [default: the host name].
    #[arg(long, alias = "host", value_name = "NAME", value_parser = parse_node)]
    pub(crate) node: Option<String>,
    /// Store the one PATH as if it lay here.
    #[arg(long = "as", value_name = "PATH")]
    pub(crate) shown_as: Option<PathBuf>,
    /// The time of the snapshot instead of now: '2026-11-20 14:00:05', not in the future. One from before the last snapshot of
    /// the same contradicts the order: it is listed, and rules of `forget` hold it back.
    #[arg(long, value_name = "TIME", value_parser = time::parse_moment)]
    pub(crate) time: Option<Time>,
    /// Make no snapshot when nothing has changed since the one before.
    #[arg(long, conflicts_with_all = ["stdin", "command", "dry_run"])]
    pub(crate) skip_if_unchanged: bool,
    #[command(flatten)]
    pub(crate) wait: Wait,
    /// Read all files again, whatever their times say.
    #[arg(long)]
    pub(crate) full: bool,
    /// Tell what would be read, and store nothing.
    #[arg(short = 'n', long, conflicts_with_all = ["stdin", "command"])]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// The paths were chosen by the server, which may see only what lies below these folders.
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) within: Vec<PathBuf>,
    /// Threads that read [default: as many as the disks like].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,
    /// How much at once, from 1 to 10: readers, and streams to the server; `auto` fits disks and network.
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = parse_parallel, conflicts_with = "threads")]
    pub(crate) parallel: Parallel,
    /// `auto` (by what it gives), or a Zstandard level: 1 is quick, 19 small, negative ones quicker.
    #[arg(long, value_name = "LEVEL", default_value = "auto", allow_negative_numbers = true, value_parser = parse_level)]
    pub(crate) compression: Level,
    /// Lower the processor priority by this much.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..=19))]
    pub(crate) nice: i32,
    /// Use the disks only when nobody else does.
    #[arg(long)]
    pub(crate) idle_io: bool,
    /// Read at most this much of the source a second: 500K, 20M, 1G.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_rate)]
    pub(crate) limit_read: Option<u64>,
    /// Write at most this much to the repository a second.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_rate)]
    pub(crate) limit_write: Option<u64>,
    /// Use at most this share of all processors, in per cent.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) limit_cpu: Option<u32>,
    /// Inode numbers mean nothing on this file system (some network ones).
    #[arg(long)]
    pub(crate) ignore_inode: bool,
    /// Open every record again before it is stored.
    #[arg(long)]
    pub(crate) verify_blocks: bool,
    /// What to print at the end: a summary, or every field of the report.
    #[arg(long, value_enum, value_name = "DETAIL", default_value = "summary")]
    pub(crate) report: Detail,
    /// On a node of a server, and with a write-only key: most that the chunk cache of each source may take on this machine;
    /// 0 for none.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = units::parse_bytes)]
    pub(crate) chunk_cache_size: u64,
    /// Where the chunk cache lies [default: beside what the agent keeps].
    #[arg(long, value_name = "DIR")]
    pub(crate) chunk_cache: Option<PathBuf>,
}

/// What is left out of a backup; the same for `explain`.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct Choice {
    /// Leave out what matches: a pattern as in .gitignore; `/` in front is the root of the machine, and a pattern with a
    /// slash in it begins in the current directory.
    #[arg(short, long = "exclude", value_name = "PATTERN")]
    pub(crate) excludes: Vec<String>,
    /// The same, whatever the case of letters; looked at after --exclude.
    #[arg(long = "iexclude", value_name = "PATTERN")]
    pub(crate) excludes_of_any_case: Vec<String>,
    /// Leave out what matches a pattern in this file; a slash in front or in the middle is the root of the machine.
    #[arg(long = "exclude-from", alias = "exclude-file", value_name = "FILE")]
    pub(crate) exclude_files: Vec<PathBuf>,
    /// Leave out what lies in a directory with a file NAME (that begins with HEADER); a PATH that was named stays in.
    #[arg(long = "exclude-if-present", value_name = "NAME[:HEADER]", value_parser = OsStringValueParser::new().try_map(|text| ExcludeTag::parse(&text)))]
    pub(crate) tags_that_exclude: Vec<ExcludeTag>,
    /// Leave out what .gitignore files on the way say.
    #[arg(long)]
    pub(crate) gitignore: bool,
    /// Stay on the file system of each PATH.
    #[arg(short = 'x', long)]
    pub(crate) one_file_system: bool,
    /// Store caches too: directories that a CACHEDIR.TAG marks as such are left out otherwise.
    #[arg(long)]
    pub(crate) no_cache_tags: bool,
    /// Leave out files larger than this: 500M, 10G.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub(crate) exclude_larger_than: Option<u64>,
    /// Leave out files last changed before this: an age (30d, 1y) or a time.
    #[arg(long = "exclude-older-than", alias = "older-than", value_name = "AGE|TIME", value_parser = time::parse_limit)]
    pub(crate) older_than: Option<Time>,
    /// Leave out files last changed after this.
    #[arg(long = "exclude-newer-than", alias = "newer-than", value_name = "AGE|TIME", value_parser = time::parse_limit)]
    pub(crate) newer_than: Option<Time>,
    /// Leave out files marked with `chattr +d`.
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
    /// Files that leave out the directory they lie in.
    pub(crate) fn tag_files(&self) -> Vec<ExcludeTag> {
        let caches = (!self.no_cache_tags).then(ExcludeTag::of_caches);
        caches.into_iter().chain(self.tags_that_exclude.iter().cloned()).collect()
    }
}

impl Backup {
    /// Threads that read, when somebody said.
    pub(crate) fn readers(&self) -> Option<usize> {
        self.threads.map(usize::from).or(self.parallel.map(usize::from))
    }

    /// What clap cannot say.
    pub(crate) fn check(&self) -> Result<()> {
        if self.shown_as.is_some() && (self.paths.len() != 1 || self.command.is_some()) {
            return Err(
                Failure::usage("--as needs exactly one PATH").hint("Back up the paths one by one.")
            );
        }
        if self.command.is_some() && self.paths.is_empty() {
            return Err(Failure::usage("--command needs the command after `--`")
                .hint("For example: icecore backup --command shop.dump -- pg_dump -Fc shop"));
        }
        Ok(())
    }
}

/// The one knob of how much is done at once; `None` is `auto`.
pub(crate) type Parallel = Option<u8>;

fn parse_parallel(text: &str) -> std::result::Result<Parallel, String> {
    match text.parse() {
        _ if text == "auto" => Ok(None),
        Ok(number @ 1..=10) => Ok(Some(number)),
        _ => Err("write auto, or a number from 1 to 10".into()),
    }
}

/// A tag is a word for people and for policies.
pub(crate) fn parse_tag(text: &str) -> std::result::Result<String, String> {
    let is_bad = text.trim().is_empty() || text.contains(',') || text.chars().any(char::is_control);
    if is_bad {
        Err("a tag has at least one letter, and no comma or control character".into())
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
        Err("a node name has no ':', '/', '@' or control character".into())
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
