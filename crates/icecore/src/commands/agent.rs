//! `icecore agent`.

mod cancelled;
mod daemon;
mod done;
mod node_commands;
mod orphaned;
mod recovery;

use crate::codes::Code;
use crate::commands::init::Privacy;
use crate::commands::token_given::TokenGiven;
use crate::context::Context;
use crate::failure::{Failure, Result, quoted};
use crate::node::keys;
use crate::time;
use access::{Identity, blocking};
use api::enroll::KeyMode;
use format::entry::Time;
use serde::Serialize;
use std::path::Path;

/// Run or manage the agent: this machine as a node of a server.
#[derive(clap::Args, Debug)]
///
/// Without a subcommand, runs the agent: it stays connected to the server and runs the backups and restores that the
/// server requests.
#[command(
    after_help = "Examples:\n  icecore agent enroll https://backup.example.com:8477 ice1-...\n  icecore agent status"
)]
pub(crate) struct Agent {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Enroll this machine as a node. The server prints the command line: icecore server token NODE
    #[command(
        after_help = "Examples:\n  icecore agent enroll https://backup.example.com:8477 ice1-...\n  icecore agent enroll https://backup.example.com:8477 --token-file - < token\n\nThe token identifies the server's certificate authority, so nobody can intercept the connection. If the connection fails before the reply arrives, run the same command again."
    )]
    Enroll {
        /// URL of the server.
        #[arg(value_name = "URL")]
        url: String,
        #[command(flatten)]
        token: TokenGiven,
        /// The minimum privacy that this machine accepts: with `hardened`, it does not join a domain with less.
        #[arg(long, value_enum, default_value = "standard")]
        privacy: Privacy,
        /// Replace an earlier enrollment of this machine.
        #[arg(long)]
        replace: bool,
    },
    /// Show the enrollment of this machine. Does not contact the server.
    #[command(after_help = "Example:\n  icecore agent status --json")]
    Status,
    Recovery(recovery::Recovery),
    /// Renew the certificate now. The agent does this automatically in time.
    #[command(after_help = "Examples:\n  icecore agent renew\n  icecore agent renew --if-due")]
    Renew {
        /// Only if less than a third of its lifetime is left.
        #[arg(long)]
        if_due: bool,
    },
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    agent: &'a access::identity::Agent,
    certificate_expires: String,
    folder: String,
    /// Whether the recovery key of the domain is there.
    holds_recovery_key: bool,
}

#[derive(Serialize)]
struct Expires {
    certificate_expires: String,
}

impl Agent {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        match &self.action {
            None => daemon::run(context),
            Some(Action::Enroll { url, token, privacy, replace }) => {
                let (folder, privacy) = (context.agent_folder(), (*privacy).into());
                let token = token.read()?;
                let enrolled =
                    access::enroll::enroll_with_privacy(url, &token, &folder, *replace, privacy);
                let response = blocking::wait(enrolled)?;
                let (node, domain) = (&response.node, &response.domain);
                context
                    .out
                    .line(&format!("This machine is now node {node} in domain {domain}."))?;
                tell_recovery(context)?;
                self.show(context)
            }
            Some(Action::Status) => {
                let identity = Identity::load(&context.agent_folder())?;
                lines(&identity).iter().try_for_each(|line| context.out.print(line))?;
                if let Some(warning) = recovery::warning(&context.agent_folder())? {
                    context.out.remark(&warning);
                }
                self.show(context)
            }
            Some(Action::Recovery(recovery)) => recovery.run(context),
            Some(Action::Renew { if_due }) => renew(*if_due, context),
        }
    }

    fn show(&self, context: &Context) -> Result<Code> {
        let folder = context.agent_folder();
        let identity = Identity::load(&folder)?;
        let shown = Shown {
            agent: &identity.agent,
            certificate_expires: json(identity.certificate.not_after_secs),
            holds_recovery_key: keys::waiting_recovery(&folder)?.is_some(),
            folder: folder.display().to_string(),
        };
        context.out.summary(Code::Complete, &shown)
    }
}

/// Where only nodes know keys: makes them, and tells where the recovery key waits to be put away.
fn tell_recovery(context: &Context) -> Result<()> {
    let Some(node) = context.agent()?.filter(|node| node.identity.agent.keys == KeyMode::Client)
    else {
        return Ok(());
    };
    let opened = context.open_node(&node, remote::Purpose::Read);
    opened.map_err(|failure| match failure.code {
        Code::WrongKey => without_keys(failure, &node.folder),
        _ => failure,
    })?;
    recovery::tell(context, &node.folder)
}

/// The domain has keys already, and this machine none of them.
fn without_keys(failure: Failure, folder: &Path) -> Failure {
    let folder = quoted(&folder.display().to_string());
    Failure { hint: None, ..failure }.hint(format!("The machine is enrolled, but only nodes know the keys of this domain. Copy slot.key from the machine that had this name, or from where you keep it, to {folder} (same owner, mode 600); or give each command the recovery key: --password-file FILE"))
}

fn renew(if_due: bool, context: &Context) -> Result<Code> {
    let folder = context.agent_folder();
    let expires = if if_due {
        let now_secs = jiff::Timestamp::now().as_second();
        blocking::wait(access::renew::renew_if_due(&folder, now_secs))?.0
    } else {
        blocking::wait(access::renew::renew(&folder))?.expires
    };
    context.out.line(&format!("The certificate is valid until {}.", show(expires)))?;
    context.out.summary(Code::Complete, &Expires { certificate_expires: json(expires) })
}

fn lines(identity: &Identity) -> [String; 6] {
    let agent = &identity.agent;
    [
        format!("server       {}", identity.server),
        format!("node         {}", agent.node),
        format!("domain       {}", agent.domain),
        format!(
            "repository   {}",
            agent.repository.as_deref().unwrap_or("none yet: the first backup creates it")
        ),
        format!("privacy      {}", agent.settings.privacy),
        format!("certificate  valid until {}", show(identity.certificate.not_after_secs)),
    ]
    .map(|line| crate::escape::text(&line))
}

fn json(secs: i64) -> String {
    time::json(Time { secs, nanos: 0 })
}

fn show(secs: i64) -> String {
    time::show(Time { secs, nanos: 0 })
}
