//! `icecore agent`.

use crate::codes::Code;
use crate::context::Context;
use crate::failure::Result;
use crate::time;
use access::{Identity, blocking};
use clap::builder::{OsStringValueParser, TypedValueParser};
use format::entry::Time;
use serde::Serialize;
use std::path::PathBuf;

/// This machine as a node of a server.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore agent enroll https://backup.example.com:8477 ice1-...\n  icecore agent status"
)]
pub(crate) struct Agent {
    /// Folder of what this machine is to its server: /var/lib/icecore/agent for root, else in the user's own state.
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "ICECORE_AGENT_DIR",
        hide_env_values = true,
        value_parser = OsStringValueParser::new().map(PathBuf::from)
    )]
    agent_dir: Option<PathBuf>,
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Become a node. The line to type is printed by: icecore server token NODE
    #[command(
        after_help = "Example:\n  icecore agent enroll https://backup.example.com:8477 ice1-...\n\nThe token names the server's certificate authority, so that nobody can stand in between. When the answer was\nlost, type the same line again."
    )]
    Enroll {
        /// Address of the server.
        #[arg(value_name = "URL")]
        url: String,
        /// The token.
        #[arg(value_name = "TOKEN")]
        token: String,
        /// Take the place of what this machine was to a server before.
        #[arg(long)]
        replace: bool,
    },
    /// Show what this machine is to its server. Asks nobody.
    #[command(after_help = "Example:\n  icecore agent status --json")]
    Status,
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
    certificate_expires: i64,
    folder: String,
}

#[derive(Serialize)]
struct Expires {
    certificate_expires: i64,
}

impl Agent {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        match &self.action {
            Action::Enroll { url, token, replace } => {
                let folder = self.folder();
                let told = blocking::wait(access::enrol::enroll(url, token, &folder, *replace))?;
                let (node, domain) = (&told.node, &told.domain);
                context
                    .out
                    .line(&format!("this machine is the node {node} in the domain {domain}"))?;
                self.show(context)
            }
            Action::Status => {
                let identity = Identity::load(&self.folder())?;
                lines(&identity).iter().try_for_each(|line| context.out.print(line))?;
                self.show(context)
            }
            Action::Renew { if_due } => self.renew(*if_due, context),
        }
    }

    fn renew(&self, if_due: bool, context: &Context) -> Result<Code> {
        let folder = self.folder();
        let expires = if if_due {
            let now_secs = jiff::Timestamp::now().as_second();
            blocking::wait(access::renew::renew_if_due(&folder, now_secs))?.0
        } else {
            blocking::wait(access::renew::renew(&folder))?.expires
        };
        context.out.line(&format!("the certificate is good until {}", show(expires)))?;
        context.out.summary(Code::Complete, &Expires { certificate_expires: expires })
    }

    fn folder(&self) -> PathBuf {
        let given = self.agent_dir.clone().filter(|path| !path.as_os_str().is_empty());
        given.unwrap_or_else(access::default_folder)
    }

    fn show(&self, context: &Context) -> Result<Code> {
        let folder = self.folder();
        let identity = Identity::load(&folder)?;
        let shown = Shown {
            agent: &identity.agent,
            certificate_expires: identity.certificate.not_after_secs,
            folder: folder.display().to_string(),
        };
        context.out.summary(Code::Complete, &shown)
    }
}

fn lines(identity: &Identity) -> [String; 5] {
    let agent = &identity.agent;
    [
        format!("server       {}", identity.server),
        format!("node         {}", agent.node),
        format!("domain       {}", agent.domain),
        format!("repository   {}", agent.repository.as_deref().unwrap_or("not made yet")),
        format!("certificate  until {}", show(identity.certificate.not_after_secs)),
    ]
    .map(|line| crate::escape::text(&line))
}

fn show(secs: i64) -> String {
    time::show(Time { secs, nanos: 0 })
}
