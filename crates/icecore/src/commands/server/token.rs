//! `icecore server token`.

use super::when;
use crate::codes::Code;
use crate::commands::init::Privacy;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::Result;
use api::Name;
use api::enroll::{IssuedToken, KeyMode, NewToken, Role};
use api::storage_servers::{IssuedStorageServerToken, NewStorageServerToken};

/// Make a token with which one machine enrolls, once, as NODE or storage server.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server token web-01\n  icecore server token db-01 --keys client\n  icecore server token vault --privacy hardened --parity 3\n  icecore server token web-02 --write-only --valid 1d\n  icecore server token disk-1 --storage\n  icecore server token web-03 --on disk-1\n\nA token of a node that exists gives its place to the machine that enrolls: what was issued to the one before is good no more."
)]
pub(crate) struct TokenArgs {
    /// The node's name: a-z, 0-9, '.', '_', '-'.
    #[arg(value_name = "NODE")]
    node: Name,
    /// Store in this dedup domain instead of one of its own. Nodes of one domain share what they store, and must trust
    /// each other: each can find out whether another has stored a certain piece of data, and can store a piece that
    /// spoils later backups of the same data by others (readers notice, the piece is lost).
    #[arg(long, value_name = "DOMAIN", value_parser = super::domain_text)]
    domain: Option<String>,
    /// Who knows the keys of a new domain.
    #[arg(long, value_enum, default_value = "managed")]
    keys: Keys,
    /// The node backs up, and can read nothing back.
    #[arg(long)]
    write_only: bool,
    /// The machine becomes a storage server of this name, which holds the repositories of some domains.
    #[arg(long, conflicts_with_all = ["domain", "keys", "write_only", "on", "privacy", "parity"])]
    storage: bool,
    /// The storage server that holds the domain, when the domain is made; this server when it is not given.
    #[arg(long, value_name = "STORAGE")]
    on: Option<Name>,
    /// What sizes of chunks may tell who sees the storage, when the domain is made; `hardened` cuts so that nothing of
    /// the key leaks. Without it: standard. It cannot be changed later.
    #[arg(long, value_enum)]
    privacy: Option<Privacy>,
    /// Parity of the domain in per cent, when it is made: it makes rotten sectors good again. 1 to 25, or 0 for none.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(..=25))]
    parity: Option<u32>,
    /// How long the token is good: 15min, 1h, 7d; at most 30d.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_valid)]
    valid: u64,
}

/// Who knows the keys of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Keys {
    /// The server makes them and keeps a sealed copy: another node can restore when this one is lost.
    Managed,
    /// Only the node: the server cannot read, and nobody can help when they are lost.
    Client,
}

impl TokenArgs {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        if self.storage {
            return self.for_storage(reach, context);
        }
        let new = NewToken {
            node: self.node.clone(),
            domain: super::domain(self.domain.as_ref())?,
            keys: if self.keys == Keys::Client { KeyMode::Client } else { KeyMode::Managed },
            role: if self.write_only { Role::WriteOnly } else { Role::Full },
            valid_secs: Some(self.valid),
            storage: self.on.clone(),
            privacy: self.privacy.map(Into::into),
            parity_percent: self.parity,
        };
        let made: IssuedToken = reach.post("/tokens", &new)?;
        if made.replaces {
            context
                .out
                .remark(&format!("there is a node '{}': enrolling takes its place", made.node));
        }
        context.out.line(&format!("Type this on {}, before {}:", made.node, when(made.expires)))?;
        context.out.print(&format!("icecore agent enroll {} {}", made.server, made.token))?;
        context.out.summary(Code::Complete, &made)
    }
}

impl TokenArgs {
    fn for_storage(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let new =
            NewStorageServerToken { storage: self.node.clone(), valid_secs: Some(self.valid) };
        let made: IssuedStorageServerToken = reach.post("/storage-server-tokens", &new)?;
        let name = &made.storage;
        if made.replaces {
            let note = format!("there is a storage server '{name}': enrolling takes its place");
            context.out.remark(&note);
        }
        let end = when(made.expires);
        context.out.line(&format!(
            "Type this on {name}, before {end}, with the name by which nodes call it:"
        ))?;
        let (server, token) = (&made.server, &made.token);
        context.out.print(&format!("icecore storage enroll {server} {token} --name HOST"))?;
        context.out.summary(Code::Complete, &made)
    }
}

/// Minutes too: `m` are months, as everywhere here.
fn parse_valid(text: &str) -> std::result::Result<u64, String> {
    let minutes = text.strip_suffix("min").and_then(|number| number.parse::<u64>().ok());
    let secs =
        minutes.map_or_else(|| crate::time::parse_span(text), |n| Ok(n.saturating_mul(60)))?;
    if (1..=30 * 86_400).contains(&secs) {
        return Ok(secs);
    }
    Err("a token is good for 30 days at most; write 15min, 1h or 7d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_tokens_are_read() {
        assert_eq!(parse_valid("15min"), Ok(900));
        assert_eq!(parse_valid("30d"), Ok(2_592_000));
        ["", "0h", "31d", "1m1d", "min"]
            .iter()
            .for_each(|text| assert!(parse_valid(text).is_err()));
    }
}
