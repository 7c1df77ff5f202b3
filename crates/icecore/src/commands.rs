//! The commands: one file each.

pub(crate) mod agent;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod cat;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod copy;
pub(crate) mod diff;
pub(crate) mod dump;
pub(crate) mod exit_codes;
pub(crate) mod explain;
pub(crate) mod find;
pub(crate) mod forget;
mod groups;
pub(crate) mod init;
pub(crate) mod key;
mod keyless;
pub(crate) mod lock_helper;
pub(crate) mod ls;
pub(crate) mod map;
pub(crate) mod net;
mod object_lock;
pub(crate) mod options;
pub(crate) mod pool;
mod reach;
pub(crate) mod rebuild;
pub(crate) mod reclaim;
pub(crate) mod restore;
pub(crate) mod run;
pub(crate) mod server;
pub(crate) mod snapshots;
pub(crate) mod stats;
pub(crate) mod storage;
pub(crate) mod storage_class;
pub(crate) mod tag;
mod token_given;
pub(crate) mod version;
pub(crate) mod words;

use crate::codes::Code;
use crate::context::Context;
use crate::failure::Result;
use clap::Subcommand;

/// The commands.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Init(init::Init),
    Backup(Box<backup::Backup>),
    Snapshots(snapshots::Snapshots),
    Ls(ls::Ls),
    Find(find::Find),
    Diff(diff::Diff),
    Cat(cat::Cat),
    Dump(dump::Dump),
    Map(map::Map),
    Restore(Box<restore::Restore>),
    Run(run::Run),
    #[command(alias = "export")]
    Copy(Box<copy::Copy>),
    Check(check::Check),
    Forget(Box<forget::Forget>),
    Reclaim(reclaim::Reclaim),
    #[command(hide = true, alias = "gc")]
    Prune(reclaim::Reclaim),
    Stats(stats::Stats),
    Key(key::Key),
    Tag(tag::Tag),
    Rebuild(rebuild::Rebuild),
    Pool(pool::Pool),
    Bench(bench::Bench),
    Explain(Box<explain::Explain>),
    Options(Box<options::Options>),
    Server(Box<server::Server>),
    Agent(agent::Agent),
    Storage(storage::Storage),
    Net(net::Net),
    #[command(name = "lock-helper")]
    LockHelper(lock_helper::LockHelper),
    #[command(name = "object-lock")]
    ObjectLock(object_lock::ObjectLock),
    #[command(name = "storage-class")]
    StorageClass(storage_class::StorageClass),
    Version(version::Version),
    #[command(hide = true)]
    Mount(words::Mount),
    #[command(hide = true)]
    Unlock(words::Unlock),
    Completions(completions::Completions),
    Man(completions::Man),
    #[command(name = "exit-codes")]
    ExitCodes(exit_codes::ExitCodes),
}

impl Command {
    /// Whether it serves many clients.
    pub(crate) fn is_of_servers(&self) -> bool {
        matches!(self, Self::Server(_) | Self::Storage(_))
    }

    /// Whether it works through a repository, and what that costs is worth a line.
    pub(crate) fn is_job(&self) -> bool {
        use Command::{Backup, Check, Forget, Init, Prune, Rebuild, Reclaim, Restore, Run};
        matches!(
            self,
            Init(_)
                | Backup(_)
                | Restore(_)
                | Run(_)
                | Check(_)
                | Forget(_)
                | Reclaim(_)
                | Prune(_)
                | Rebuild(_)
        )
    }
}

/// Before a command runs: the options that the server sets now.
pub(crate) fn prepare(command: &Command, context: &mut Context) -> Result<()> {
    let asks = match command {
        Command::Backup(_) => true,
        Command::Options(options) => options.refresh,
        _ => false,
    };
    if asks { context.ask_for_options(backup::takes) } else { Ok(()) }
}

/// Runs one command; `describe` describes the whole command line.
pub(crate) fn run(
    command: &Command,
    context: &Context,
    describe: fn() -> clap::Command,
) -> Result<Code> {
    match command {
        Command::Init(init) => init.run(context),
        Command::Backup(backup) => backup.run(context),
        Command::Snapshots(snapshots) => snapshots.run(context),
        Command::Ls(ls) => ls.run(context),
        Command::Find(find) => find.run(context),
        Command::Diff(diff) => diff.run(context),
        Command::Cat(cat) => cat.run(context),
        Command::Dump(dump) => dump.run(context),
        Command::Map(map) => map.run(context),
        Command::Restore(restore) => restore.run(context),
        Command::StorageClass(class) => class.run(context),
        Command::Run(run) => run.run(context),
        Command::Copy(copy) => copy.run(context),
        Command::Check(check) => check.run(context),
        Command::Forget(forget) => forget.run(context),
        Command::Reclaim(reclaim) => reclaim.run(context),
        Command::Prune(reclaim) => {
            context.out.remark("this is called reclaim here: icecore reclaim");
            reclaim.run(context)
        }
        Command::Stats(stats) => stats.run(context),
        Command::Key(key) => key.run(context),
        Command::Tag(tag) => tag.run(context),
        Command::Rebuild(rebuild) => rebuild.run(context),
        Command::Pool(pool) => pool.run(context),
        Command::Bench(bench) => bench.run(context),
        Command::Explain(explain) => explain.run(context),
        Command::Options(options) => options.run(context),
        Command::Server(server) => server.run(context),
        Command::Agent(agent) => agent.run(context),
        Command::Storage(storage) => storage.run(context),
        Command::Net(net) => net.run(context),
        Command::LockHelper(helper) => helper.run(context),
        Command::ObjectLock(lock) => lock.run(context),
        Command::Version(version) => version.run(context),
        Command::Mount(mount) => mount.run(),
        Command::Unlock(unlock) => unlock.run(),
        Command::Completions(completions) => completions.run(context, describe),
        Command::Man(man) => man.run(context, describe),
        Command::ExitCodes(exit_codes) => exit_codes.run(context),
    }
}
