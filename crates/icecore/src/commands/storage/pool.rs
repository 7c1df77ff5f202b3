//! `icecore storage pool`.

use crate::codes::Code;
use crate::commands::server::pool::table;
use crate::context::Context;
use crate::failure::{Failure, Result};
use api::Name;
use api::pools::{Pool, PoolState};
use serde::Serialize;
use server_contract::folder::Folder;
use server_contract::pool::MAIN;
use std::path::{Path, PathBuf};

/// Add pools to this storage server, and list them.
///
/// A pool is a directory for the repositories of domains. The first one, `main`, was chosen when the machine was
/// enrolled. A new domain goes to the pool with the most free bytes, and stays there.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore storage pool add second /mnt/second\n  icecore storage pool list\n\nThe storage server can be running or not."
)]
pub(super) struct PoolArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    Add(Add),
    /// List the pools with their room and domains.
    #[command(after_help = "Example:\n  icecore storage pool list --json")]
    List,
}

/// Make a directory of this machine a pool; or say where a pool is now, which is known by its superblock.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  icecore storage pool add second /mnt/second\n\nMount the file system first: the storage server remembers that it was mounted, and a pool that is not is an error."
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
        let shown = of(folder, Some(&self.name))?;
        table(std::slice::from_ref(&shown)).print(&context.out)?;
        context.out.summary(Code::Complete, &shown)
    }
}

fn list(folder: &Folder, context: &Context) -> Result<Code> {
    let further = folder.further_pools()?;
    let names = [None].into_iter().chain(further.iter().map(Some));
    let pools = names.map(|name| of(folder, name)).collect::<Result<Vec<_>>>()?;
    pools.iter().try_for_each(|pool| context.out.record("pool", pool))?;
    table(&pools).print(&context.out)?;
    context.out.summary(Code::Complete, &Count { pools: pools.len() })
}

/// The directory of a domain in one of the pools; in the first one if it is in none.
pub(super) fn folder_of(data: &Path, domain: &Name) -> Result<PathBuf> {
    let folder = opened(data)?;
    let further = folder.further_pools()?;
    let mut all = [None].into_iter().chain(further.iter().map(Some));
    let found = all.find_map(|pool| Some(folder.domain(pool, domain)).filter(|it| it.is_dir()));
    Ok(found.unwrap_or_else(|| folder.domain(None, domain)))
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
    let (path, state) = (path.display().to_string(), PoolState::Online);
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
