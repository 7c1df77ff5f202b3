//! This machine as a node: a repository on its server, opened with what enrollment gave.

pub(crate) mod allow;
pub(crate) mod cache;
mod first_open;
pub(crate) mod job;
mod key_lists;
pub(crate) mod keys;
pub(crate) mod memory;
pub(crate) mod network;
pub(crate) mod policy;
mod receipt_keys;
pub(crate) mod renewal;
pub(crate) mod source_lock;
pub(crate) mod streams;

use crate::client_options::resolve::Resolved;
use crate::codes::Code;
use crate::failure::{Failure, Result};
use crate::options::Global;
use crate::out::Out;
use crate::progress::is_on_terminal;
use access::identity::Agent;
use access::{Client, Identity, blocking};
use api::domains::Privacy;
use api::enroll::{KeyMode, Role};
use crypto::SlotSecret;
use first_open::FirstOpen;
use memory::{Compared, Memory};
use pipeline::UnlockedRepository;
use remote::{Endpoint, Purpose, Remote};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// How long a job waits for a server that went away.
const JOB_PATIENCE: Duration = Duration::from_secs(30 * 60);
/// How long a job that nobody watches tries to reach the server at first: it may be starting.
const FIRST_PATIENCE: Duration = Duration::from_secs(120);
/// How long a person waits who only looks.
const LOOK_PATIENCE: Duration = Duration::from_secs(30);

/// What this machine is to its server, and how to reach it.
pub(crate) struct Node {
    pub(crate) folder: PathBuf,
    pub(crate) identity: Identity,
}

/// The command that works with the node, and its options.
pub(crate) struct Caller<'a> {
    pub(crate) options: &'a Global,
    pub(crate) resolved: &'a Resolved,
    pub(crate) out: &'a Out,
    /// Streams of a job; 0 for as many as help.
    pub(crate) streams: u8,
    pub(crate) wait_control: remote::WaitControl,
}

/// The repository of a domain, opened.
pub(crate) struct Opened {
    pub(crate) repository: UnlockedRepository,
    pub(crate) remote: Arc<Remote>,
    /// What the server shows, compared with what this machine remembers.
    pub(crate) compared: Compared,
}

impl Node {
    /// What the agent state directory says; `None` if this machine is not a node.
    pub(crate) fn find(folder: PathBuf, out: &Out) -> Result<Option<Self>> {
        match access::identity::agent(&folder) {
            Ok(Some(_)) => {}
            // It belongs to another user: for this one, the machine is not a node.
            Err(access::Error::File { source, .. })
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                return Ok(None);
            }
            Ok(None) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        renewal::renew(&folder, out);
        let identity = Identity::load(&folder)?;
        Ok(Some(Self { folder, identity }))
    }

    /// The server, for `purpose`.
    pub(crate) fn endpoint(&self, caller: &Caller<'_>, purpose: Purpose) -> Result<Endpoint> {
        let server = &caller.options.server;
        let is_job = matches!(purpose, Purpose::Backup | Purpose::Restore | Purpose::Agent);
        Ok(Endpoint {
            host: self.identity.server.host.clone(),
            port: self.identity.server.port,
            tls: access::reloading_certificate::tls(&self.folder, &self.identity, protocol::ALPN)?,
            domain: self.domain(caller).unwrap_or_default(),
            what: server.command_number.map_or_else(String::new, api::commands::what_of),
            buffer_bytes: server.socket_buffer.unwrap_or(0) as usize,
            streams: caller.streams,
            limits: [0, 0],
            first_patience: if is_job && !is_on_terminal() {
                FIRST_PATIENCE
            } else {
                Duration::ZERO
            },
            patience: if is_job { JOB_PATIENCE } else { LOOK_PATIENCE },
            wait_control: caller.wait_control.clone(),
        })
    }

    /// The domain that is named, when it is not the node's own.
    fn domain(&self, caller: &Caller<'_>) -> Option<String> {
        let named = caller.options.server.domain.clone();
        named.filter(|name| *name != self.identity.agent.domain.to_string())
    }

    /// A first backup has its repository already, or makes it: for a backup, one that is missing is lost.
    fn with_advice(&self, failure: Failure, purpose: Purpose) -> Failure {
        if failure.message == remote::CERTIFICATE_ENDED {
            return self.unless_valid(failure);
        }
        if failure.code != Code::NoRepository || purpose != Purpose::Backup {
            return failure;
        }
        let (node, domain) = (&self.identity.agent.node, &self.identity.agent.domain);
        failure.hint(format!(
            "It was deleted, or its disk is lost, or a pool of its storage server is not there: ask the administrator to look: icecore server status. If it is gone for good, to start over, once all other nodes of the domain are removed, there: icecore server remove {node} && icecore server remove-domain {domain} --lost && icecore server token {node}{}; here: icecore agent enroll --replace URL TOKEN",
            terms(&self.identity.agent)
        ))
    }

    /// Of a domain whose keys the server knows, another enrollment gets another key.
    fn with_key_advice(&self, failure: Failure, is_typed: bool) -> Failure {
        let agent = &self.identity.agent;
        if is_typed || agent.keys == KeyMode::Client {
            return of_typed(failure, is_typed);
        }
        let token = format!("icecore server token {}{}", agent.node, terms(agent));
        keys::with_another_key(failure, &token)
    }

    /// Whoever enrolls anew with a server whose clock is wrong gets a certificate that ends as early.
    fn unless_valid(&self, failure: Failure) -> Failure {
        let ends = self.identity.certificate.not_after_secs;
        if ends <= jiff::Timestamp::now().as_second() {
            return failure;
        }
        let ends = clock::civil::utc(ends);
        let message = format!(
            "the server says that the certificate of this machine is not valid, but by the clock of this machine it is, until {ends}"
        );
        Failure::new(Code::NotAllowed, message)
            .hint("One of the two clocks is wrong. Set it (timedatectl), and try again.")
    }

    /// Opens the repository on the server.
    pub(crate) fn open(&self, caller: &Caller<'_>, purpose: Purpose) -> Result<Opened> {
        let endpoint = self.endpoint(caller, purpose)?;
        let failed = |error| Failure::from(error).at_server();
        let (first, secret) = match self.domain(caller) {
            Some(domain) => (None, self.secret_of(&domain, caller)?),
            // In this order: the secret is made in a first open as well.
            None => {
                (FirstOpen::take(self, caller, endpoint.patience)?, Own::Key(self.own_secret()?))
            }
        };
        let remote = match (&secret, &first) {
            (Own::Key(secret), Some(first)) => {
                let settings = self.identity.agent.settings;
                let make = || {
                    first.has_made.set(true);
                    keys::make(&self.folder, secret, self.role(), settings)
                };
                Remote::connect_or_init(&endpoint, purpose, make)
            }
            _ => Remote::connect(&endpoint, purpose),
        };
        let remote = remote.map_err(pipeline::Error::Repository).map_err(failed);
        let remote = remote.map_err(|failure| self.with_advice(failure, purpose))?;
        tell_limits(&remote, caller.out);
        let repository = match &secret {
            Own::Key(secret) => {
                let own =
                    UnlockedRepository::open_store(remote.clone(), SlotSecret::Recovery(**secret));
                match self.typed_instead(caller)? {
                    Some(typed) if own.is_err() => {
                        UnlockedRepository::open_store(remote.clone(), typed.slot())
                    }
                    _ => own,
                }
            }
            Own::Typed(secret) => UnlockedRepository::open_store(remote.clone(), secret.slot()),
        };
        let is_typed = matches!(secret, Own::Typed(_));
        let repository =
            repository.map_err(|error| self.with_key_advice(failed(error), is_typed))?;
        if let Some(first) = &first {
            let made = repository.store.config().repository.to_string();
            first.settle(self, &remote, &made)?;
        }
        if self.domain(caller).is_none() {
            self.check_repository(&repository)?;
        }
        key_lists::remember(&self.folder, &repository, caller.out)?;
        receipt_keys::believe(&self.folder, &remote, caller.out)?;
        let compared = Memory::load(&self.folder, &repository)?.compare(&repository)?;
        Ok(Opened { repository, remote, compared })
    }

    /// The repository of the node's own domain is always the same one.
    fn check_repository(&self, repository: &UnlockedRepository) -> Result<()> {
        self.check_settings(repository)?;
        let shown = repository.store.config().repository.to_string();
        let known = match &self.identity.agent.repository {
            Some(known) => Some(known.clone()),
            // Another process of this machine may have made it, and noted it, since this one began.
            None => access::identity::agent(&self.folder)?.and_then(|agent| agent.repository),
        };
        match known {
            None => Ok(access::identity::note_repository(&self.folder, &shown)?),
            Some(known) if known == shown => Ok(()),
            Some(known) => Err(Failure::new(
                Code::Damage,
                format!("the server presents repository {shown}, but the repository of this machine is {known}"),
            )
            .hint("Ask the administrator of the server. To accept the new repository: icecore agent enroll --replace URL TOKEN")),
        }
    }

    /// Where only nodes know keys: a recovery key that a person has, for a machine that is new in
    /// its domain.
    fn typed_instead(&self, caller: &Caller<'_>) -> Result<Option<crate::secret::Secret>> {
        match self.identity.agent.keys {
            KeyMode::Client => crate::secret::get_if_given(caller.resolved),
            KeyMode::Managed => Ok(None),
        }
    }

    fn may_make_repository(&self) -> bool {
        let agent = &self.identity.agent;
        agent.keys == KeyMode::Client && agent.repository.is_none()
    }

    /// A server that shows other settings than at enrollment would make the node store in a form that tells more.
    fn check_settings(&self, repository: &UnlockedRepository) -> Result<()> {
        let wanted = self.identity.agent.settings;
        // Its privacy is that of the slot, or it would not have opened.
        let shown = server_contract::settings::settings_of(repository.store.config());
        if shown == Some(wanted) {
            return Ok(());
        }
        let shown = shown.map_or_else(|| "unknown privacy".to_owned(), |shown| shown.to_string());
        let domain = &self.identity.agent.domain;
        let message = format!(
            "the repository of the domain '{domain}' has {shown}, but this machine enrolled for {wanted}; nothing was stored"
        );
        Err(Failure::new(Code::Damage, message).hint(
            "Ask the administrator of the server. To accept the domain as it is: icecore agent enroll --replace URL TOKEN",
        ))
    }

    fn role(&self) -> crypto::Role {
        match self.identity.agent.role {
            Role::Full => crypto::Role::Full,
            Role::WriteOnly => crypto::Role::WriteOnly,
        }
    }

    /// What opens this node's slot.
    fn own_secret(&self) -> Result<Zeroizing<[u8; 32]>> {
        match &self.identity.slot_secret {
            Some(secret) => Ok(secret.clone()),
            None => keys::own(&self.folder),
        }
    }

    /// What opens the domain of another node: a key that the server makes for who was granted it,
    /// or, where only nodes know keys, the recovery key or password that a person has. The server is
    /// asked first: a password that lies in the environment is of another repository.
    fn secret_of(&self, domain: &str, caller: &Caller<'_>) -> Result<Own> {
        match self.granted_key(domain) {
            Ok(key) => Ok(Own::Key(key)),
            Err(failure) if failure.code == Code::Usage => Err(failure),
            Err(failure) => {
                let typed = crate::secret::get_if_given(caller.resolved)?;
                typed.map(Own::Typed).ok_or(failure)
            }
        }
    }

    /// A key of the domain that the server makes and this node knows alone.
    fn granted_key(&self, domain: &str) -> Result<Zeroizing<[u8; 32]>> {
        let mut secret = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *secret).map_err(pipeline::Error::from)?;
        let name = domain.parse().map_err(|_| {
            Failure::usage(format!("'{domain}' is not a domain name"))
                .hint("To list domains, on the server: icecore server domains")
        })?;
        let request = api::enroll::NewKey { domain: name, slot_secret: keys::hex(&secret[..]) };
        let client = Client::of_folder(&self.folder, &self.identity)?;
        let _: api::enroll::IssuedKey = blocking::wait(client.post("/node/keys", &request))?;
        Ok(secret)
    }
}

fn tell_limits(remote: &Remote, out: &Out) {
    if let Some(([up, down], reason)) = remote.new_limits() {
        out.note(&network::limits(up, down, &reason));
    }
}

fn privacy_of(privacy: Privacy) -> crypto::Privacy {
    match privacy {
        Privacy::Standard => crypto::Privacy::Standard,
        Privacy::Hardened => crypto::Privacy::Hardened,
    }
}

/// What opens a key slot.
enum Own {
    Key(Zeroizing<[u8; 32]>),
    Typed(crate::secret::Secret),
}

/// What a person gave does not open the domain: that is not this machine's own key.
fn of_typed(failure: Failure, is_typed: bool) -> Failure {
    if !is_typed || failure.code != Code::WrongKey {
        return failure;
    }
    let hint = "The password or recovery key that was given (ICECORE_PASSWORD, --password-file, the config file) does not belong to a key of that domain.";
    Failure { hint: Some(hint.into()), ..failure }
}

/// This machine is not a node, but the command needs one.
pub(crate) fn not_enrolled(folder: &Path) -> Failure {
    Failure::new(
        Code::Failed,
        format!("this machine is not a node of a server ({})", folder.display()),
    )
    .hint("On the server: icecore server token NODE. Then on this machine: icecore agent enroll URL TOKEN")
}

/// What a token for a new node has to say, so that it becomes what `agent` is.
fn terms(agent: &Agent) -> String {
    let domain = (agent.domain != agent.node).then(|| format!(" --domain {}", agent.domain));
    let keys = (agent.keys == KeyMode::Client).then(|| " --keys client".to_owned());
    let role = (agent.role == Role::WriteOnly).then(|| " --write-only".to_owned());
    [domain, keys, role].into_iter().flatten().collect()
}
