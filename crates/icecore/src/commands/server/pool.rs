//! `icecore server pool`.

use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::table::{Table, flexible, left, right};
use crate::terminal::Paint;
use crate::{escape, units};
use api::Name;
use api::pools::{MoveDomain, NewPool, Pool, PoolState, Pools, RemovePool, SetPoolState};
use api::upkeep::StartedUpkeepJob;
use serde::Serialize;
use std::path::PathBuf;

/// Add pools to a server, say what each is used for, and move domains.
///
/// A pool is a directory for the repositories of domains. The first one, `main`, lies in the directory of the server's
/// files. A new domain goes to the pool with the most free bytes, or to the one that its token names.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server pool add fast /mnt/fast\n  icecore server pool list\n  icecore server token web-01 --pool fast\n  icecore server pool state main draining\n  icecore server pool move web-01 fast\n\nHow containers are written to it: icecore pool tune /mnt/fast"
)]
pub(crate) struct PoolArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    Add(Add),
    /// List the pools with their state, room and domains.
    #[command(after_help = "Example:\n  icecore server pool list --json")]
    List,
    /// Show one pool.
    #[command(after_help = "Example:\n  icecore server pool show fast")]
    Show {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: Name,
    },
    State(SetState),
    Move(Move),
    Remove(Remove),
}

/// Turn a directory of the server, or a part of a bucket, into a pool; or say where a pool that moved is now (its
/// superblock identifies it).
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server pool add fast /mnt/fast\n  icecore server pool add cloud s3://bucket/icecore\n\nMount the file system first: the server remembers that it was mounted, and refuses the pool when it is not. If the server is a service, name the directory to its unit, too, or it is read-only after the next start: systemctl edit icecore-server, ReadWritePaths=/mnt/fast. For a bucket the server needs AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for an object store other than AWS, AWS_ENDPOINT_URL in its environment: in /etc/icecore/server.env if it is a service."
)]
struct Add {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: Name,
    /// Its directory on the server, which must exist; or s3://BUCKET/PREFIX.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Take a pool that is there already. Only when the server says that it is another one, and it is the right one:
    /// a server that uses it loses it.
    #[arg(long)]
    accept: bool,
}

/// Change what a pool is used for. It applies to sessions that begin later.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  icecore server pool state fast read-only")]
struct SetState {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: Name,
    /// What for.
    #[arg(value_name = "STATE", value_enum)]
    state: StateArg,
}

/// Move a domain to another pool, while nodes use it.
///
/// A job copies the domain beside backups and restores, and compares each file. When nothing runs in the domain, it is
/// closed while the rest is copied, usually for less than a second; nodes that connect meanwhile wait. Then the
/// directory in the old pool is removed.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server pool move web-01 fast\n  icecore server pool move web-01 fast --limit 50M\n  icecore server pool move web-01 main --interrupt\n\nA move that was interrupted, also by a power cut, is resumed by the server, or with the same command. To end one: icecore server cancel JOB"
)]
struct Move {
    /// The domain.
    #[arg(id = "of", value_name = "DOMAIN")]
    domain: Name,
    /// The pool: one of the server, or of the storage server on which the domain lies.
    #[arg(value_name = "POOL")]
    pool: Name,
    /// End what runs in the domain, instead of waiting until nothing does. Backups start again by themselves and send
    /// what is missing.
    #[arg(long)]
    interrupt: bool,
    /// Copy at most so much in a second while the domain is in use: 50M.
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    limit: Option<u64>,
}

/// Forget a further pool in which no domains lie, or one that is lost.
///
/// What lies in its directory stays there. Domains that lay in a pool that is lost stay in the list of domains, until
/// each was brought back from its copy to a new pool of the same name, or removed.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server pool remove fast\n  icecore server pool remove fast --lost\n\nAfter a lost disk: icecore server pool add fast /mnt/new, then for each domain: icecore copy --repo COPY --to /mnt/new/domains/DOMAIN"
)]
struct Remove {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: Name,
    /// Its disk is lost, with all domains on it.
    #[arg(long)]
    lost: bool,
}

/// What a pool is used for.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum StateArg {
    /// Everything.
    Online,
    /// Restores and checks: nothing is written.
    ReadOnly,
    /// Everything but new domains.
    Draining,
    /// Nothing: nobody looks for it.
    Offline,
}

#[derive(Serialize)]
struct Count {
    pools: usize,
}

impl PoolArgs {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        match &self.action {
            Action::Add(add) => add.run(reach, context),
            Action::List => list(reach, context),
            Action::Show { name } => show(name, reach, context),
            Action::State(state) => state.run(reach, context),
            Action::Move(wanted) => wanted.run(reach, context),
            Action::Remove(remove) => remove.run(reach, context),
        }
    }
}

impl Add {
    fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let path = self.dir.display().to_string();
        let new = NewPool { name: self.name.clone(), path, accept: self.accept };
        shown(&reach.post("/pools", &new)?, context)
    }
}

impl SetState {
    fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let (path, state) = (format!("/pools/{}/state", self.name), self.state.of_api());
        shown(&reach.post(&path, &SetPoolState { state })?, context)
    }
}

impl Remove {
    fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let path = format!("/pools/{}/remove", self.name);
        let left = reach.post(&path, &RemovePool { lost: self.lost })?;
        listed(left, context)
    }
}

impl StateArg {
    pub(crate) fn of_api(self) -> PoolState {
        match self {
            Self::Online => PoolState::Online,
            Self::ReadOnly => PoolState::ReadOnly,
            Self::Draining => PoolState::Draining,
            Self::Offline => PoolState::Offline,
        }
    }
}

impl Move {
    fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let (pool, bytes_per_sec) = (self.pool.clone(), self.limit);
        let wanted = MoveDomain { pool, interrupt: self.interrupt, bytes_per_sec };
        let started: StartedUpkeepJob =
            reach.post(&format!("/domains/{}/move", self.domain), &wanted)?;
        let job = started.job.unwrap_or_default();
        context.out.line(&format!(
            "Job {job} moves the domain {} to the pool {}. How it goes: icecore server jobs --watch",
            self.domain, self.pool
        ))?;
        context.out.summary(Code::Complete, &started)
    }
}

fn shown(pool: &Pool, context: &Context) -> Result<Code> {
    context.out.record("pool", pool)?;
    table(std::slice::from_ref(pool)).print(&context.out)?;
    context.out.summary(Code::Complete, &Count { pools: 1 })
}

fn show(name: &Name, reach: &Reach, context: &Context) -> Result<Code> {
    let Pools { pools } = reach.get("/pools")?;
    let Some(pool) = pools.iter().find(|pool| pool.name == *name) else {
        return Err(Failure::usage(format!("there is no pool '{name}'"))
            .hint("All of them: icecore server pool list"));
    };
    shown(pool, context)
}

fn list(reach: &Reach, context: &Context) -> Result<Code> {
    listed(reach.get("/pools")?, context)
}

fn listed(Pools { pools }: Pools, context: &Context) -> Result<Code> {
    pools.iter().try_for_each(|pool| context.out.record("pool", pool))?;
    table(&pools).print(&context.out)?;
    context.out.summary(Code::Complete, &Count { pools: pools.len() })
}

/// Pools, as people read them.
pub(crate) fn table(pools: &[Pool]) -> Table {
    let mut table = Table::new(&[
        left("POOL"),
        left("STATE"),
        right("FREE"),
        right("SIZE"),
        left("DIRECTORY"),
        flexible("DOMAINS"),
    ]);
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), units::bytes);
    for pool in pools {
        let domains: Vec<_> = pool.domains.iter().map(|name| escape::text(name.as_str())).collect();
        let state = pool.fault.as_ref().map_or_else(
            || pool.state.to_string(),
            |why| format!("{}: {}", pool.state, escape::text(why)),
        );
        table.row([
            escape::text(pool.name.as_str()),
            state,
            bytes(pool.free_bytes),
            bytes(pool.total_bytes),
            escape::text(&pool.path),
            domains.join(" "),
        ]);
        if pool.fault.is_some() {
            table.paint(1, Paint::Red);
        }
    }
    table
}
