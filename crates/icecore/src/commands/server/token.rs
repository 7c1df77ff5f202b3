//! `icecore server token`.

use super::when;
use crate::codes::Code;
use crate::commands::init::{Dedup, Privacy};
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::Result;
use api::Name;
use api::domains::Domains;
use api::enroll::{IssuedToken, KeyMode, NewToken, Role};
use api::storage_servers::{ANY, IssuedStorageServerToken, NewStorageServerToken};

/// Create a token that enrolls one machine, once, as a node or storage server.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server token web-01\n  icecore server token db-01 --keys client\n  icecore server token vault --privacy hardened --parity 3\n  icecore server token archive --dedup off\n  icecore server token web-02 --write-only --valid 1d\n  icecore server token disk-1 --storage\n  icecore server token web-03 --on disk-1\n  icecore server token web-04 --on any\n\nIf the node exists already, the machine that enrolls replaces it, with the same domain and rights unless you name others: the certificates of the earlier machine become invalid."
)]
pub(crate) struct TokenArgs {
    /// Name of the node: a-z, 0-9, '.', '_', '-'.
    #[arg(value_name = "NODE")]
    node: Name,
    /// Dedup domain of the node [default: the one that it has; for a new node, its own]. Nodes of one domain share
    /// their stored data and must trust each other: each can find out whether another one has stored certain data, and
    /// can store a false chunk that damages later backups of the same data by others (a restore detects it, but the
    /// chunk is lost).
    #[arg(long, value_name = "DOMAIN", value_parser = super::domain_text)]
    domain: Option<String>,
    /// Who has the keys of a new domain.
    #[arg(long, value_enum, default_value = "managed")]
    keys: Keys,
    /// The node can back up, but not read [default: what it can do now; a new node can read].
    #[arg(long)]
    write_only: bool,
    /// The node can back up and read, even if it was write-only.
    #[arg(long, conflicts_with = "write_only")]
    read_write: bool,
    /// Enroll a storage server with this name, which holds the repositories of some domains.
    #[arg(long, conflicts_with_all = ["domain", "keys", "write_only", "read_write", "on", "pool", "unit", "privacy", "parity", "dedup"])]
    storage: bool,
    /// Storage server that holds a new domain, or `any`, to choose one by free space [default: this server].
    #[arg(long, value_name = "STORAGE")]
    on: Option<Name>,
    /// Unit that says on which storage server or in which pool a new domain lies [default: the unit `default`, if it is
    /// declared and says so].
    #[arg(long, value_name = "UNIT", conflicts_with_all = ["on", "pool"])]
    unit: Option<Name>,
    /// Pool of this server for a new domain [default: the one with the most free bytes].
    #[arg(long, value_name = "POOL", conflicts_with = "on")]
    pool: Option<Name>,
    /// Privacy of a new domain: what chunk sizes reveal to an observer of the storage. With `hardened` they reveal
    /// nothing about the key. Cannot be changed later [default: standard].
    #[arg(long, value_enum)]
    privacy: Option<Privacy>,
    /// Parity of a new domain in percent, to repair damaged sectors: 1 to 25, or 0 for none.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(..=25))]
    parity: Option<u32>,
    /// Whether backups to a new domain share equal data. With `off` each one stores all of its own. Cannot be changed
    /// later [default: on].
    #[arg(long, value_enum)]
    dedup: Option<Dedup>,
    /// How long the token is valid: 15min, 1h, 7d; at most 30d.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_valid)]
    valid: u64,
}

/// Who has the keys of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Keys {
    /// The server makes the keys and keeps an encrypted copy: if the node is lost, another one can restore.
    Managed,
    /// Only the node has the keys: the server cannot read the backups, and nobody can help if the keys are lost.
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
            role: self.role(),
            valid_secs: Some(self.valid),
            storage: self.on.clone(),
            pool: self.pool.clone(),
            unit: self.unit.clone(),
            privacy: self.privacy.map(Into::into),
            parity_percent: self.parity,
            dedup: self.dedup.map(Into::into),
        };
        let made: IssuedToken = reach.post("/tokens", &new)?;
        if made.replaces {
            let role = if made.role == Role::WriteOnly { ", write-only" } else { "" };
            context.out.remark(&format!(
                "node '{}' exists already: the machine that enrolls replaces it, in the domain '{}'{role}",
                made.node, made.domain
            ));
        }
        if self.reads_all(&made, reach) {
            context.out.remark(&format!(
                "the domain '{}' exists already: this node will be able to read all that is stored in it. To prevent that, create another token: icecore server token {} --domain {0} --write-only",
                made.domain, made.node
            ));
        }
        if let Some(line) = self.chosen(&made) {
            context.out.line(&line)?;
        }
        context.out.line(&format!("Run this on {}, before {}:", made.node, when(made.expires)))?;
        context.out.print(&format!("icecore agent enroll {} {}", made.server, made.token))?;
        context.out.summary(Code::Complete, &made)
    }
}

impl TokenArgs {
    fn role(&self) -> Option<Role> {
        match (self.write_only, self.read_write) {
            (true, _) => Some(Role::WriteOnly),
            (_, true) => Some(Role::Full),
            _ => None,
        }
    }

    /// Whether a new node gets to read what others have stored, and nobody said that it may. One that was removed may
    /// have been write-only: that is known no more.
    fn reads_all(&self, made: &IssuedToken, reach: &Reach) -> bool {
        if made.replaces || made.role != Role::Full || self.read_write {
            return false;
        }
        // The token is made: it is printed in any case.
        let Ok(Domains { domains }) = reach.get("/domains") else { return false };
        domains.iter().any(|domain| domain.name == made.domain && domain.repository.is_some())
    }

    /// Where the domain lies, if somebody else than this command chose it.
    fn chosen(&self, made: &IssuedToken) -> Option<String> {
        let is_any = self.on.as_ref().is_some_and(|on| on.as_str() == ANY);
        let unit = made.unit.as_ref();
        let place = match (&made.storage, &made.pool) {
            (Some(storage), _) if is_any || unit.is_some() => {
                format!("on storage server '{storage}'")
            }
            (None, Some(pool)) if unit.is_some() => format!("in pool '{pool}'"),
            _ => return None,
        };
        let by = unit.map_or_else(String::new, |unit| format!(", as the unit '{unit}' says"));
        Some(format!("Domain '{}' lies {place}{by}.", made.domain))
    }

    fn for_storage(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let new =
            NewStorageServerToken { storage: self.node.clone(), valid_secs: Some(self.valid) };
        let made: IssuedStorageServerToken = reach.post("/storage-server-tokens", &new)?;
        let name = &made.storage;
        if made.replaces {
            let note = format!(
                "storage server '{name}' exists already: the machine that enrolls replaces it"
            );
            context.out.remark(&note);
        }
        let end = when(made.expires);
        context.out.line(&format!(
            "Run this on {name}, before {end}, with the host name that nodes will use:"
        ))?;
        let (server, token) = (&made.server, &made.token);
        context.out.print(&format!("icecore storage enroll {server} {token} --name HOST"))?;
        context.out.summary(Code::Complete, &made)
    }
}

fn parse_valid(text: &str) -> std::result::Result<u64, String> {
    let secs = crate::time::parse_term(text)?;
    if (1..=30 * 86_400).contains(&secs) {
        return Ok(secs);
    }
    Err("a token is valid for 30 days at most; write 15min, 1h or 7d".to_owned())
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
