//! The commands: one file each.

pub(crate) mod agent;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod cat;
pub(crate) mod check;
pub(crate) mod completions;
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
pub(crate) mod ls;
pub(crate) mod map;
pub(crate) mod net;
mod reach;
pub(crate) mod rebuild;
pub(crate) mod reclaim;
pub(crate) mod restore;
pub(crate) mod server;
pub(crate) mod snapshots;
pub(crate) mod stats;
pub(crate) mod storage;
pub(crate) mod tag;
mod token_given;
pub(crate) mod version;
pub(crate) mod words;

use crate::cli::Command;
use crate::codes::Code;
use crate::context::Context;
use crate::failure::Result;

/// Runs one command.
pub(crate) fn run(command: &Command, context: &Context) -> Result<Code> {
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
        Command::Bench(bench) => bench.run(context),
        Command::Explain(explain) => explain.run(context),
        Command::Server(server) => server.run(context),
        Command::Agent(agent) => agent.run(context),
        Command::Storage(storage) => storage.run(context),
        Command::Net(net) => net.run(context),
        Command::Version(version) => version.run(context),
        Command::Mount(mount) => mount.run(),
        Command::Unlock(unlock) => unlock.run(),
        Command::Completions(completions) => completions.run(context),
        Command::Man(man) => man.run(context),
        Command::ExitCodes(exit_codes) => exit_codes.run(context),
    }
}
