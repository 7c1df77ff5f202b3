//! `icecore agent`.

mod allow;
mod daemon;
mod node_commands;
mod recovery;

use crate::codes::Code;
use crate::commands::init::Privacy;
use crate::commands::token_given::TokenGiven;
use crate::context::Context;
use crate::failure::Result;
use crate::node::{Node, keys};
use crate::time;
use access::{Identity, blocking};
use api::enroll::KeyMode;
use format::entry::Time;
use serde::Serialize;

/// This machine as a node of a server.
#[derive(clap::Args, Debug)]
///
/// Without a further word the agent itself runs: it keeps one connection to the server and starts jobs when told.
#[command(
    after_help = "Examples:\n  icecore agent enroll https://backup.example.com:8477 ice1-...\n  icecore agent status"
)]
pub(crate) struct Agent {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Become a node. The line to type is printed by: icecore server token NODE
    #[command(
        after_help = "Examples:\n  icecore agent enroll https://backup.example.com:8477 ice1-...\n  icecore agent enroll https://backup.example.com:8477 --token-file - < token\n\nThe token names the server's certificate ca, so that nobody can stand in between. When the answer was lost, type the same line again."
    )]
    Enroll {
        /// Address of the server.
        #[arg(value_name = "URL")]
        url: String,
        #[command(flatten)]
        token: TokenGiven,
        /// The least privacy that this machine puts up with: with `hardened` it becomes no node in a domain with less.
        #[arg(long, value_enum, default_value = "standard")]
        privacy: Privacy,
        /// Take the place of what this machine was to a server before.
        #[arg(long)]
        replace: bool,
    },
    /// Show what this machine is to its server. Asks nobody.
    #[command(after_help = "Example:\n  icecore agent status --json")]
    Status,
    Recovery(recovery::Recovery),
    /// Get the next certificate now. The agent does it by itself in time.
    #[command(after_help = "Examples:\n  icecore agent renew\n  icecore agent renew --if-due")]
    Renew {
        /// Only when a third of the life of this one is left.
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
    /// Whether the recovery key of the domain lies there.
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
                let told = blocking::wait(enrolled)?;
                let (node, domain) = (&told.node, &told.domain);
                context
                    .out
                    .line(&format!("this machine is the node {node} in the domain {domain}"))?;
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
    let Some(node) =
        Node::find(context)?.filter(|node| node.identity.agent.keys == KeyMode::Client)
    else {
        return Ok(());
    };
    node.open(context, remote::Purpose::Read)?;
    recovery::tell(context, &node.folder)
}

fn renew(if_due: bool, context: &Context) -> Result<Code> {
    let folder = context.agent_folder();
    let expires = if if_due {
        let now_secs = jiff::Timestamp::now().as_second();
        blocking::wait(access::renew::renew_if_due(&folder, now_secs))?.0
    } else {
        blocking::wait(access::renew::renew(&folder))?.expires
    };
    context.out.line(&format!("the certificate is good until {}", show(expires)))?;
    context.out.summary(Code::Complete, &Expires { certificate_expires: json(expires) })
}

fn lines(identity: &Identity) -> [String; 6] {
    let agent = &identity.agent;
    [
        format!("server       {}", identity.server),
        format!("node         {}", agent.node),
        format!("domain       {}", agent.domain),
        format!("repository   {}", agent.repository.as_deref().unwrap_or("not made yet")),
        format!("privacy      {}", agent.settings.privacy),
        format!("certificate  until {}", show(identity.certificate.not_after_secs)),
    ]
    .map(|line| crate::escape::text(&line))
}

fn json(secs: i64) -> String {
    time::json(Time { secs, nanos: 0 })
}

fn show(secs: i64) -> String {
    time::show(Time { secs, nanos: 0 })
}
