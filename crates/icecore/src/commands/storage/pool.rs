//! `icecore storage pool`.

use crate::codes::Code;
use crate::commands::server::pool::{StateArg, table};
use crate::context::Context;
use crate::failure::{Failure, Result};
use api::Name;
use api::pools::{Pool, PoolState};
use serde::Serialize;
use server_contract::folder::Folder;
use server_contract::pool::MAIN;
use std::path::{Path, PathBuf};

const ALL_OF_THEM: &str = "All of them: icecore storage pool list";

/// Add pools to this storage server, say what each is used for, and remove them.
///
/// A pool is a directory for the repositories of domains. The first one, `main`, was chosen when the machine was
/// enrolled. A new domain goes to the pool with the most free bytes, and stays there.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore storage pool add second /mnt/second\n  icecore storage pool list\n  icecore storage pool state second draining\n\nThe storage server can be running or not."
)]
pub(super) struct PoolArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    Add(Add),
    /// List the pools with their state, room and domains.
    #[command(after_help = "Example:\n  icecore storage pool list --json")]
    List,
    State(SetState),
    Remove(Remove),
}

/// Turn a directory of this machine into a pool; or say where a pool that moved is now (its superblock identifies it).
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  icecore storage pool add second /mnt/second\n\nMount the file system first: the storage server remembers that it was mounted, and refuses the pool when it is not. If the storage server is a service, name the directory to its unit, too, or it is read-only after the next start: systemctl edit icecore-storage, ReadWritePaths=/mnt/second."
)]
struct Add {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: Name,
    /// Its directory, which must exist.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Take a pool that is there already, as that of a machine that is gone: a storage server that uses it loses it.
    #[arg(long)]
    accept: bool,
}

/// Change what a pool is used for. It applies to sessions that begin later.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore storage pool state second read-only\n  icecore storage pool state main draining"
)]
struct SetState {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: Name,
    /// What for.
    #[arg(value_name = "STATE", value_enum)]
    state: StateArg,
}

/// Forget a further pool in which no domains lie, or one that is lost.
///
/// What lies in its directory stays there. While a pool is away, new domains wait, because they may lie there: a pool
/// that will never come back has to be removed.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore storage pool remove second\n  icecore storage pool remove second --lost"
)]
struct Remove {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: Name,
    /// Its disk is lost, with all domains on it: the next backups of their nodes start with nothing.
    #[arg(long)]
    lost: bool,
}

#[derive(Serialize)]
struct Count {
    pools: usize,
}

impl PoolArgs {
    pub(super) fn run(&self, data: &Path, context: &Context) -> Result<Code> {
        let folder = opened(data)?;
        match &self.action {
            Action::Add(add) => add.run(&folder, context),
            Action::List => list(&folder, context),
            Action::State(state) => state.run(&folder, context),
            Action::Remove(remove) => remove.run(&folder, context),
        }
    }
}

impl Add {
    fn run(&self, folder: &Folder, context: &Context) -> Result<Code> {
        if self.name.as_str() == MAIN {
            return Err(Failure::usage(format!("the first pool is called '{MAIN}'"))
                .hint("Choose another name."));
        }
        if self.dir.to_string_lossy().starts_with("s3://") {
            return Err(Failure::usage("a further pool of a storage server is a directory").hint(
                "For a bucket enroll another storage server: icecore storage enroll --pool s3://BUCKET/PREFIX",
            ));
        }
        let hint = "Give an empty directory of a file system that is mounted: findmnt --target DIR. If it is a pool of a machine that is gone: --accept";
        let added = folder.add_pool(&self.name, &self.dir, self.accept);
        added.map_err(|error| Failure::usage(error.to_string()).hint(hint))?;
        shown(folder, Some(&self.name), context)
    }
}

impl SetState {
    fn run(&self, folder: &Folder, context: &Context) -> Result<Code> {
        let name = (self.name.as_str() != MAIN).then_some(&self.name);
        let set = folder.set_pool_state(name, self.state.of_api());
        set.map_err(|error| Failure::usage(error.to_string()).hint(ALL_OF_THEM))?;
        shown(folder, name, context)
    }
}

impl Remove {
    fn run(&self, folder: &Folder, context: &Context) -> Result<Code> {
        if self.name.as_str() == MAIN {
            return Err(Failure::usage("the first pool cannot be removed")
                .hint("For no new domains there: icecore storage pool state main draining"));
        }
        let hint = "With domains in it: icecore storage pool state NAME draining. If its disk is lost for good: --lost";
        let removed = folder.remove_pool(&self.name, self.lost);
        removed.map_err(|error| Failure::usage(error.to_string()).hint(hint))?;
        list(folder, context)
    }
}

fn shown(folder: &Folder, name: Option<&Name>, context: &Context) -> Result<Code> {
    let shown = of(folder, name)?;
    table(std::slice::from_ref(&shown)).print(&context.out)?;
    context.out.summary(Code::Complete, &shown)
}

fn list(folder: &Folder, context: &Context) -> Result<Code> {
    let further = folder.further_pools()?;
    let names = [None].into_iter().chain(further.iter().map(Some));
    let pools = names.map(|name| of(folder, name)).collect::<Result<Vec<_>>>()?;
    pools.iter().try_for_each(|pool| context.out.record("pool", pool))?;
    table(&pools).print(&context.out)?;
    context.out.summary(Code::Complete, &Count { pools: pools.len() })
}

/// The directory of a domain in one of the pools that are not offline; in the first one if it is in none. Whoever
/// writes may not in a pool that is read-only.
pub(super) fn folder_of(data: &Path, domain: &Name, writes: bool) -> Result<PathBuf> {
    let folder = opened(data)?;
    let further = folder.further_pools()?;
    for pool in [None].into_iter().chain(further.iter().map(Some)) {
        let state = folder.pool_state(pool)?;
        let found = folder.domain(pool, domain);
        if state == PoolState::Offline || !found.is_dir() {
            continue;
        }
        if writes && state == PoolState::ReadOnly {
            let name = pool.map_or(MAIN, Name::as_str);
            let hint = format!("To write there: icecore storage pool state {name} online");
            let message = format!("the pool '{name}' is read-only");
            return Err(Failure::new(Code::NotAllowed, message).hint(hint));
        }
        return Ok(found);
    }
    Ok(folder.domain(None, domain))
}

fn opened(data: &Path) -> Result<Folder> {
    let hint = "Name its directory with --data, or enroll this machine: icecore storage enroll";
    Folder::look_storage(data).map_err(|error| {
        let message = format!("there is no storage server in {}: {error}", data.display());
        Failure::usage(message).hint(hint)
    })
}

fn of(folder: &Folder, name: Option<&Name>) -> Result<Pool> {
    let fault = folder.verify_pool(name).err().map(|error| error.source.to_string());
    let [free_bytes, total_bytes] = if fault.is_none() { folder.room(name) } else { [None, None] };
    let path = folder.place_of(name);
    let (domains, free_inodes) = match fault {
        None => (domains(&folder.pool(name)), folder.free_inodes(name)),
        Some(_) => (Vec::new(), None),
    };
    let main =
        || MAIN.parse().map_err(|error: api::name::BadName| Failure::usage(error.to_string()));
    let (path, state) = (path.display().to_string(), folder.pool_state(name)?);
    let name = name.cloned().map_or_else(main, Ok)?;
    Ok(Pool { name, path, state, free_bytes, total_bytes, free_inodes, domains, fault })
}

/// The names of the domains in a pool, sorted.
fn domains(pool: &Path) -> Vec<Name> {
    let entries = std::fs::read_dir(pool.join("domains")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<Name> = names.filter_map(|name| name.parse().ok()).collect();
    names.sort();
    names
}
