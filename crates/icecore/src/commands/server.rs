//! `icecore server`.

mod catalog;
mod causes;
mod domains;
mod job;
mod jobs;
mod key;
mod limits;
mod look;
mod maintenance;
mod node_commands;
mod nodes;
mod options;
mod place;
pub(crate) mod pool;
mod protection;
mod quota;
mod report;
mod retention;
pub(crate) mod run;
pub(crate) mod site;
mod start;
mod storage_servers;
mod token;
mod upkeep;
mod watch;

use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::Result;
use crate::{time, units};
use ::site::Kind;
use format::entry::Time;

/// Run a backup server, or manage a running one.
///
/// Without a subcommand, starts the server. The first start creates everything it needs in its directory: certificate
/// authority, keys, catalog. The subcommands manage a running server, as its administrator.
#[derive(clap::Args, Debug)]
#[command(
    args_conflicts_with_subcommands = false,
    after_help = "Examples:\n  icecore server --data /srv/icecore --name backup.example.com\n  icecore server token web-01\n  icecore server sessions\n  icecore server revoke web-01\n\nThe subcommands find the server by --data or ICECORE_DATA on its own machine (they need access to its files), or by --server URL, --ca FILE and ICECORE_ADMIN_TOKEN from another machine."
)]
pub(crate) struct Server {
    // First: what follows a group with a heading stands below that heading.
    #[command(flatten)]
    start: run::Start,
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    Token(token::TokenArgs),
    Nodes(nodes::Nodes),
    Revoke(nodes::Revoke),
    Remove(nodes::Remove),
    AllowForget(nodes::AllowForget),
    DenyForget(nodes::DenyForget),
    Domains(domains::Domains),
    RemoveDomain(domains::RemoveDomain),
    PlaceDomain(place::PlaceDomain),
    Key(key::Key),
    Snapshots(domains::Snapshots),
    Check(maintenance::Check),
    Reclaim(maintenance::Reclaim),
    Forget(maintenance::ForgetIn),
    Grants(domains::Grants),
    Grant(domains::GrantArgs),
    Ungrant(domains::Ungrant),
    Sessions(jobs::Sessions),
    Jobs(jobs::JobsArgs),
    Protection(protection::Protection),
    Report(report::Report),
    Job(job::JobArgs),
    Start(start::StartArgs),
    Cancel(jobs::Cancel),
    Limit(limits::LimitArgs),
    Options(options::OptionsArgs),
    Backup(node_commands::Backup),
    Restore(node_commands::Restore),
    Commands(node_commands::Commands),
    StorageServers(storage_servers::StoragesArgs),
    Apply(site::Apply),
    Export(site::Export),
    /// Declare policies: what is backed up, when, where to and for how long.
    Policy(site::Objects),
    /// Declare schedules: when backups are due.
    Schedule(site::Objects),
    /// Declare retentions: how long snapshots are kept.
    Retention(site::Retention),
    /// Declare storage units: where backups go, and how many at once.
    Unit(site::Objects),
    /// Declare groups of nodes.
    Group(site::Objects),
    /// Declare labels and settings of nodes; `nodes` lists those that are enrolled.
    Node(site::Objects),
    /// Declare holds: snapshots that stay until they are released.
    Hold(site::Objects),
    Snapshot(retention::SnapshotArgs),
    Source(retention::SourceArgs),
    Expire(retention::ExpireArgs),
    Upkeep(upkeep::UpkeepArgs),
    Quota(quota::QuotaArgs),
    Pool(pool::PoolArgs),
    Clock(retention::ClockArgs),
    Catalog(catalog::CatalogArgs),
    Status(look::Status),
    Audit(look::Audit),
}

impl Server {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let reach = &self.reach;
        match &self.action {
            None => self.start.run(reach, context),
            Some(Action::Token(token)) => token.run(reach, context),
            Some(Action::Nodes(nodes)) => nodes.run(reach, context),
            Some(Action::Revoke(revoke)) => revoke.run(reach, context),
            Some(Action::Remove(remove)) => remove.run(reach, context),
            Some(Action::AllowForget(allow)) => allow.run(reach, context),
            Some(Action::DenyForget(deny)) => deny.run(reach, context),
            Some(Action::Domains(domains)) => domains.run(reach, context),
            Some(Action::RemoveDomain(remove)) => remove.run(reach, context),
            Some(Action::PlaceDomain(place)) => place.run(reach, context),
            Some(Action::Key(key)) => key.run(reach, context),
            Some(Action::Snapshots(snapshots)) => snapshots.run(reach, context),
            Some(Action::Check(check)) => check.run(reach, context),
            Some(Action::Reclaim(reclaim)) => reclaim.run(reach, context),
            Some(Action::Forget(forget)) => forget.run(reach, context),
            Some(Action::Grants(grants)) => grants.run(reach, context),
            Some(Action::Grant(grant)) => grant.run(reach, context),
            Some(Action::Ungrant(ungrant)) => ungrant.run(reach, context),
            Some(Action::Sessions(sessions)) => sessions.run(reach, context),
            Some(Action::Jobs(jobs)) => jobs.run(reach, context),
            Some(Action::Protection(protection)) => protection.run(reach, context),
            Some(Action::Report(report)) => report.run(reach, context),
            Some(Action::Job(job)) => job.run(reach, context),
            Some(Action::Start(start)) => start.run(reach, context),
            Some(Action::Cancel(cancel)) => cancel.run(reach, context),
            Some(Action::Limit(limit)) => limit.run(reach, context),
            Some(Action::Options(options)) => options.run(reach, context),
            Some(Action::Backup(backup)) => backup.run(reach, context),
            Some(Action::Restore(restore)) => restore.run(reach, context),
            Some(Action::Commands(commands)) => commands.run(reach, context),
            Some(Action::StorageServers(storage_servers)) => storage_servers.run(reach, context),
            Some(Action::Apply(apply)) => apply.run(reach, context),
            Some(Action::Export(export)) => export.run(reach, context),
            Some(Action::Policy(objects)) => objects.run(Kind::Policy, reach, context),
            Some(Action::Schedule(objects)) => objects.run(Kind::Schedule, reach, context),
            Some(Action::Retention(retention)) => retention.run(reach, context),
            Some(Action::Unit(objects)) => objects.run(Kind::Unit, reach, context),
            Some(Action::Group(objects)) => objects.run(Kind::Group, reach, context),
            Some(Action::Node(objects)) => objects.run(Kind::Node, reach, context),
            Some(Action::Hold(objects)) => objects.run(Kind::Hold, reach, context),
            Some(Action::Snapshot(snapshot)) => snapshot.run(reach, context),
            Some(Action::Source(source)) => source.run(reach, context),
            Some(Action::Clock(clock)) => clock.run(reach, context),
            Some(Action::Expire(expire)) => expire.run(reach, context),
            Some(Action::Upkeep(upkeep)) => upkeep.run(reach, context),
            Some(Action::Quota(quota)) => quota.run(reach, context),
            Some(Action::Pool(pool)) => pool.run(reach, context),
            Some(Action::Catalog(catalog)) => catalog.run(reach, context),
            Some(Action::Status(status)) => status.run(reach, context),
            Some(Action::Audit(audit)) => audit.run(reach, context),
        }
    }
}

/// A point in time for people.
pub(crate) fn when(secs: i64) -> String {
    time::show(Time { secs, nanos: 0 })
}

/// How long ago something was; `never` when it was not.
fn ago(secs: Option<i64>) -> String {
    let now_secs = jiff::Timestamp::now().as_second();
    secs.map_or_else(|| "never".to_owned(), |secs| units::ago(now_secs.saturating_sub(secs)))
}

/// A word as JSON has it.
pub(crate) fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// Reads the name of a domain where the flag is the one of all commands, whose value is a text.
fn domain_text(text: &str) -> std::result::Result<String, String> {
    text.parse::<api::Name>().map(String::from).map_err(|error| error.to_string())
}

/// The domain that [`domain_text`] has read.
fn domain(text: Option<&String>) -> Result<Option<api::Name>> {
    text.map(|text| text.parse())
        .transpose()
        .map_err(|error: api::name::BadName| crate::failure::Failure::usage(error.to_string()))
}
