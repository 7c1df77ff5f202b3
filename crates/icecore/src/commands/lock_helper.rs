//! `icecore lock-helper`.

use super::server::run::begin_log;
use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result, quoted};
use crate::table::{Table, left, right};
use crate::{escape, time, units};
use clap::builder::{OsStringValueParser, TypedValueParser};
use format::entry::Time;
use lock_helper::{Content, Error, Helper, Pool, Recovered};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where it listens.
const SOCKET: &str = "/run/icecore/lock-helper";
const POOL: &str = "/var/lib/icecore/server/pool";
/// What to type after files got their names back.
const REBUILD: &str = "Next, for each domain, as the user of the server, with KEY from `icecore server key DOMAIN` or a recovery key: ICECORE_PASSWORD=KEY icecore rebuild --repo POOL/domains/DOMAIN";
/// What to type if the first one of several files is not the right one.
const OTHERS: &str = "The others are beside it, as NAME.kept-N. Those that were kept after somebody took the server over may be forged. If the one in place is damaged or too old: repeat this with --before TIME, the time of the takeover, or, for one file, mv NAME.kept-N NAME";

/// Protect the files of locked snapshots from a server that was broken into. Runs as root, beside the server.
///
/// The server names the files that locked snapshots need, and until when. The helper makes them root's and gives each a
/// second name in POOL/.locked, where only root can remove it. So whoever took the server over can remove the server's
/// names, and not the data. Nobody can shorten a time.
#[derive(clap::Args, Debug)]
#[command(
    args_conflicts_with_subcommands = false,
    after_help = "Examples:\n  icecore lock-helper --pool /var/lib/icecore/server/pool\n  icecore server --lock-helper /run/icecore/lock-helper\n  icecore lock-helper list --pool /var/lib/icecore/server/pool\n  icecore lock-helper recover --pool /var/lib/icecore/server/pool\n\nThe server must run as a user of its own, to whom the pool belongs. It protects from that user, and not from root."
)]
pub(crate) struct LockHelper {
    /// Directory of a pool; can be repeated [default: /var/lib/icecore/server/pool].
    #[arg(long = "pool", value_name = "DIR", global = true, value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pools: Vec<PathBuf>,
    /// Where it listens for the server.
    #[arg(long, value_name = "SOCKET", default_value = SOCKET, value_hint = clap::ValueHint::FilePath)]
    socket: PathBuf,
    /// Log level.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = ["error", "warn", "info", "debug"])]
    log: String,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Show what is kept of each domain, and until when.
    #[command(after_help = "Example:\n  icecore lock-helper list --pool /srv/icecore/pool")]
    List,
    /// Give what is kept its names back, after somebody removed or replaced files.
    ///
    /// What was put in the place of a kept file gets another name beside it. Where several files of one name are kept,
    /// the one that was kept first comes into its place, and the others beside it as NAME.kept-N.
    #[command(
        after_help = "Examples:\n  icecore lock-helper recover --pool /srv/icecore/pool\n  icecore lock-helper recover --pool /srv/icecore/pool --before '2026-11-20 14:00'\n\nThe server must be stopped. Then rebuild the index of each domain, as the user of the server: ICECORE_PASSWORD=KEY icecore rebuild --repo POOL/domains/DOMAIN. KEY is what `icecore server key DOMAIN` prints, or a recovery key where only nodes have keys."
    )]
    Recover {
        /// Of several files of one name, put the last one that was kept before TIME in its place: one before somebody
        /// took the server over.
        #[arg(long, value_name = "TIME", value_parser = time::parse_moment)]
        before: Option<Time>,
    },
}

#[derive(Serialize)]
struct Row {
    pool: PathBuf,
    domain: String,
    files: u64,
    bytes: u64,
    first_ends: Option<String>,
    last_ends: Option<String>,
}

impl Row {
    /// Two pools may have domains of the same name.
    fn cells(&self, has_pool: bool) -> Vec<String> {
        let end = |end: &Option<String>| end.clone().unwrap_or_default();
        let pool = has_pool.then(|| escape::text(&self.pool.to_string_lossy()));
        let cells = [
            escape::text(&self.domain),
            units::count(self.files),
            units::bytes(self.bytes),
            end(&self.first_ends),
            end(&self.last_ends),
        ];
        pool.into_iter().chain(cells).collect()
    }
}

#[derive(Default, Serialize)]
struct Summary {
    present: u64,
    recovered: u64,
    replaced: u64,
    /// Names under which several files are kept.
    versions: u64,
    problems: u64,
}

#[derive(Serialize)]
struct Problem<'a> {
    message: &'a str,
}

#[derive(Serialize)]
struct Several {
    path: PathBuf,
    since: Vec<Option<String>>,
    in_place: usize,
}

impl LockHelper {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        match self.action {
            None => self.serve(context),
            Some(Action::List) => self.list(context),
            Some(Action::Recover { before }) => self.recover(context, before.map(|it| it.secs)),
        }
    }

    fn serve(&self, context: &Context) -> Result<Code> {
        begin_log(&self.log);
        let helper = Helper::open(&self.paths()).map_err(failed)?;
        let listener = helper.listen(&self.socket).map_err(|error| Failure {
            hint: is_missing(&error)
                .then(|| "Name a socket whose directory is there: --socket SOCKET".into()),
            ..failed(error)
        })?;
        for pool in helper.pools() {
            context.out.line(&format!("keeping the locked files of {}", pool.path().display()))?;
        }
        context.out.line(&format!("listening at {}", self.socket.display()))?;
        context.out.flush()?;
        lock_helper::serve(&Arc::new(helper), &listener);
        Ok(Code::Complete)
    }

    fn list(&self, context: &Context) -> Result<Code> {
        let paths = self.paths();
        let of_pool = (paths.len() > 1).then(|| left("POOL"));
        let columns =
            [left("DOMAIN"), right("FILES"), right("SIZE"), left("FIRST ENDS"), left("LAST ENDS")];
        let columns: Vec<_> = of_pool.into_iter().chain(columns).collect();
        let mut table = Table::new(&columns);
        let mut files = 0;
        for path in &paths {
            let Some(pool) = existing(path)? else { continue };
            for (place, content) in pool.content().map_err(failed)? {
                let row = row(pool.path(), &place, &content);
                context.out.record("domain", &row)?;
                files += row.files;
                table.row(row.cells(paths.len() > 1));
            }
        }
        if files == 0 {
            context
                .out
                .line("Nothing is kept. Whether something should be: icecore server status")?;
        } else {
            table.print(&context.out)?;
        }
        context.out.summary(Code::Complete, &crate::out::Nothing {})
    }

    fn recover(&self, context: &Context, before_secs: Option<i64>) -> Result<Code> {
        let mut all = Summary::default();
        let paths = self.paths();
        let mut empty = Vec::new();
        for path in &paths {
            let pool = existing(path)?;
            let done = pool.map(|pool| pool.recover(before_secs).map_err(failed)).transpose()?;
            let Some(done) = done.filter(|done| !done.is_nothing()) else {
                empty.push(nothing_kept(path));
                continue;
            };
            all.add(&done);
            show_versions(context, &done)?;
            for message in &done.problems {
                context.out.line(&format!("not recovered: {}", escape::text(message)))?;
                record(context, "problem", &Problem { message })?;
            }
        }
        if empty.len() == paths.len() {
            return Err(empty.swap_remove(0));
        }
        for Failure { message, hint, .. } in &empty {
            context.out.line(&format!("{message}. {}", hint.as_deref().unwrap_or_default()))?;
            record(context, "problem", &Problem { message })?;
        }
        all.problems += empty.len() as u64;
        all.show(context)?;
        let code = if all.problems == 0 { Code::Complete } else { Code::Partial };
        context.out.summary(code, &all)
    }

    fn paths(&self) -> Vec<PathBuf> {
        if self.pools.is_empty() { vec![POOL.into()] } else { self.pools.clone() }
    }
}

impl Summary {
    fn add(&mut self, done: &Recovered) {
        self.present += done.present;
        self.recovered += done.recovered;
        self.replaced += done.replaced;
        self.versions += done.versions.len() as u64;
        self.problems += done.problems.len() as u64;
    }

    fn show(&self, context: &Context) -> Result<()> {
        let (recovered, present) =
            (units::many(self.recovered, "file"), units::count(self.present));
        context.out.line(&format!("{recovered} recovered; {present} in place"))?;
        if self.replaced > 0 {
            let replaced = units::count(self.replaced);
            context
                .out
                .line(&format!("set aside, with names that end in .replaced-N: {replaced}"))?;
        }
        if self.problems > 0 {
            // What has its name by the time at which root removes it may be the directory of the helper.
            context.out.line(
                "End what still runs as the user of the server. Remove what is in the way of what was not recovered, as that \
                 user and never as root, and repeat this command.",
            )?;
        }
        if self.recovered > 0 {
            context.out.line(REBUILD)?;
        }
        Ok(())
    }
}

/// Whoever reads the output may go away: the further pools are recovered all the same, and the code says how it ended.
fn record<T: Serialize>(context: &Context, kind: &'static str, value: &T) -> Result<()> {
    Failure::ignore_broken_pipe(context.out.record(kind, value))
}

/// Names under which several files are kept: which one is in place, and how to have another one.
fn show_versions(context: &Context, done: &Recovered) -> Result<()> {
    for one in &done.versions {
        let since = |secs: &i64| (*secs != 0).then(|| time::show(Time { secs: *secs, nanos: 0 }));
        let since: Vec<_> = one.since_secs.iter().map(since).collect();
        let shown = since.iter().map(|it| it.as_deref().unwrap_or("a time that nobody knows"));
        let path = escape::text(&one.path.to_string_lossy());
        let shown: Vec<_> = shown.collect();
        context.out.line(&format!(
            "{path}: {} files were kept, since {}; in place: number {}",
            shown.len(),
            shown.join(", "),
            one.in_place
        ))?;
        let (path, in_place) = (one.path.clone(), one.in_place);
        record(context, "versions", &Several { path, since, in_place })?;
    }
    if !done.versions.is_empty() {
        context.out.line(OTHERS)?;
    }
    Ok(())
}

fn existing(path: &Path) -> Result<Option<Pool>> {
    Pool::existing(path).map_err(failed)
}

/// In a pool of which nothing is kept there is nothing to recover: perhaps it is not the one that was meant.
fn nothing_kept(path: &Path) -> Failure {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let at = path.display();
    let failure = Failure::new(Code::Failed, format!("{at}: nothing is kept in this pool"));
    // Somebody who took the server over made these names. Without -T, a link there leads what is kept elsewhere.
    match Pool::beside(&path).first().map(|other| quoted(&other.to_string_lossy())) {
        Some(other) => {
            let (at, aside) = (quoted(&at.to_string()), quoted(&format!("{at}.forged")));
            failure.hint(format!(
                "There is one with files that are kept beside it. If somebody renamed the pool: mv -T {at} {aside} && mv -T \
                 {other} {at}, and repeat this command. If it is another pool: --pool {other}"
            ))
        }
        None => failure.hint(
            "If its file system is not mounted, mount it. If somebody moved it, its clock is where it is now: find / -user \
             root -name clock -path '*/.locked/clock'",
        ),
    }
}

fn row(pool: &Path, place: &str, content: &Content) -> Row {
    let end = |secs: i64| time::show(Time { secs, nanos: 0 });
    // Where the pool is a domain, that is called what the directory is.
    let own = || pool.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let domain = place.strip_prefix("domains/").unwrap_or(place).to_owned();
    Row {
        pool: pool.to_owned(),
        domain: if domain.is_empty() { own() } else { domain },
        files: content.files,
        bytes: content.bytes,
        first_ends: content.until_secs.map(|(first, _)| end(first)),
        last_ends: content.until_secs.map(|(_, last)| end(last)),
    }
}

fn failed(error: Error) -> Failure {
    let kind = match &error {
        Error::File { source, .. } => Some(source.kind()),
        Error::NotRoot => Some(io::ErrorKind::PermissionDenied),
        _ => None,
    };
    let failure = |code| Failure::new(code, error.to_string());
    match kind {
        Some(io::ErrorKind::PermissionDenied) => failure(Code::NotAllowed).hint("Run it as root."),
        Some(io::ErrorKind::NotFound) => {
            failure(Code::Failed).hint("Name the directory of the pool: --pool DIR")
        }
        _ => failure(Code::Failed),
    }
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::File { source, .. } if source.kind() == io::ErrorKind::NotFound)
}
