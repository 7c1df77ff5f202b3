//! Enrollment tokens: an administrator says which node a machine may become, and where it backs up.

use crate::certificate_issuer::CertificateIssuer;
use crate::domain_keys::other_settings;
use crate::domain_repository::DomainRepositories;
use crate::error::parse_name;
use crate::home::Room;
use crate::open::Parts;
use crate::pools::{Pools, main};
use crate::server_identity::ServerIdentity;
use crate::sites::Sites;
use crate::storage_servers::StorageServerTable;
use crate::{Error, Result, by, home, random};
use api::domains::{PARITY_PERCENT_MAX, WantedSettings};
use api::enroll::{IssuedToken, KeyMode, NewToken};
use api::storage_servers::ANY;
use api::{Name, Token};
use catalog::Catalog;
use catalog::storage_servers::StorageServer;
use catalog::tokens::TokenTerms;
use site::{DEFAULT_UNIT, Unit};
use std::sync::Arc;

/// Default validity of a token: one hour.
pub(crate) const VALID_SECS_DEFAULT: u64 = 3600;
/// Longest validity of a token: 30 days.
pub(crate) const VALID_SECS_MAX: u64 = 30 * 86_400;

/// Makes the tokens of nodes.
pub(crate) struct Tokens {
    catalog: Arc<Catalog>,
    issuer: Arc<CertificateIssuer>,
    identity: Arc<ServerIdentity>,
    repositories: Arc<DomainRepositories>,
    pools: Pools,
    table: Arc<StorageServerTable>,
    sites: Arc<Sites>,
}

/// Where a new domain is to lie, and which unit says so, if one does.
#[derive(Default)]
struct Placement {
    storage: Option<Name>,
    pool: Option<Name>,
    unit: Option<String>,
}

impl Tokens {
    /// For nodes of this server.
    pub(crate) fn new(parts: &Parts, sites: Arc<Sites>) -> Self {
        Self {
            catalog: parts.catalog.clone(),
            issuer: parts.issuer.clone(),
            identity: parts.identity.clone(),
            repositories: parts.repositories.clone(),
            pools: Pools::of(parts),
            table: parts.table.clone(),
            sites,
        }
    }

    /// Creates a token; its secret is in the reply and nowhere else.
    ///
    /// # Errors
    /// [`Error::Usage`] when the domain has other keys; [`Error::Catalog`].
    pub(crate) fn make(&self, who: &str, new: &NewToken) -> Result<IssuedToken> {
        let by = by(who);
        let known = self.catalog.node(&new.node)?;
        let replaces = known.is_some();
        let role = new.role.or(known.as_ref().map(|node| node.role)).unwrap_or_default();
        // A machine that takes the place of another one backs up to where that did, and may do no more.
        let domain = match new.domain.clone().or(known.map(|node| node.domain)) {
            Some(domain) => domain,
            None => self.own_domain(&new.node)?,
        };
        let keys = self.keys_of(&domain, new.keys)?;
        let placement = self.placement_of(&domain, new)?;
        let storage = self.storage_of(&domain, placement.storage.as_ref())?;
        let pool = self.pool_of(&domain, storage.as_ref(), placement.pool.as_ref())?;
        let settings = self.settings_of(&domain, new)?;
        let valid_secs = new.valid_secs.unwrap_or(VALID_SECS_DEFAULT).clamp(1, VALID_SECS_MAX);
        let expires = by.now_secs.saturating_add_unsigned(valid_secs);
        let token =
            Token { secret: *random::<16>()?, ca_fingerprint: self.issuer.fingerprint_prefix() };
        let node = new.node.clone();
        let terms = TokenTerms { node, domain, role, keys, expires, storage, pool, settings };
        self.catalog.add_token(by, &pki::fingerprint(&token.secret), &terms)?;
        let (text, server) = (token.to_text(), self.identity.address());
        let TokenTerms { node, domain, role, storage, pool, .. } = terms;
        let (token, unit) = (text, placement.unit);
        Ok(IssuedToken {
            token,
            node,
            domain,
            role,
            storage,
            pool,
            unit,
            server,
            expires,
            replaces,
        })
    }

    /// The domain of a new node's own name, unless it is that of others: whoever joins them reads what they store, and
    /// has to be asked for by name.
    fn own_domain(&self, node: &Name) -> Result<Name> {
        match self.catalog.nodes_of(node)?.first() {
            Some(other) => Err(Error::Unfit {
                message: format!(
                    "the domain '{node}' is that of other nodes, such as '{}'",
                    other.name
                ),
                hint: format!(
                    "To let it join them, and read what they store: icecore server token {node} --domain {node}. For a domain of its own: --domain NAME"
                ),
            }),
            None => Ok(node.clone()),
        }
    }

    /// Where the domain is to lie: as the request says; else, if it is new, as its unit says.
    fn placement_of(&self, domain: &Name, new: &NewToken) -> Result<Placement> {
        let (storage, pool) = (new.storage.clone(), new.pool.clone());
        let is_said = storage.is_some() || pool.is_some();
        if is_said && new.unit.is_some() {
            return Err(Error::Usage(
                "the unit says where the domain lies: name a unit, a pool or a storage server"
                    .to_owned(),
            ));
        }
        let stored = self.sites.stored()?;
        let wanted = new.unit.as_ref().map_or(DEFAULT_UNIT, Name::as_str);
        let unit = stored.site.units.get(wanted);
        // That one is there even if nobody declares it.
        if unit.is_none() && wanted != DEFAULT_UNIT {
            let message = format!("there is no unit '{wanted}': icecore server unit list");
            return Err(Error::Usage(message));
        }
        match unit {
            Some(unit) if !is_said && self.catalog.domain(domain)?.is_none() => {
                of_unit(wanted, unit)
            }
            _ => Ok(Placement { storage, pool, unit: None }),
        }
    }

    /// An existing domain keeps its keys, whatever the default of the request.
    fn keys_of(&self, domain: &Name, asked: KeyMode) -> Result<KeyMode> {
        match self.catalog.domain(domain)? {
            Some(domain) if asked == KeyMode::Client && domain.keys != asked => {
                let name = domain.name;
                Err(Error::Usage(format!(
                    "the server manages the keys of the domain '{name}', and that cannot be changed"
                )))
            }
            Some(domain) => Ok(domain.keys),
            None => Ok(asked),
        }
    }

    /// An existing domain keeps its settings.
    fn settings_of(&self, domain: &Name, new: &NewToken) -> Result<WantedSettings> {
        let (privacy, parity_percent, dedup) = (new.privacy, new.parity_percent, new.dedup);
        if parity_percent.is_some_and(|percent| percent > PARITY_PERCENT_MAX) {
            return Err(Error::Usage(format!("parity is 0 to {PARITY_PERCENT_MAX} per cent")));
        }
        let wanted = WantedSettings { privacy, parity_percent, dedup };
        match self.catalog.domain(domain)? {
            Some(domain) if !wanted.fit(domain.settings) => Err(other_settings(&domain)),
            _ => Ok(wanted),
        }
    }

    /// The pool that is asked for: an existing domain stays where it lies, and on a storage server there is none.
    fn pool_of(
        &self,
        domain: &Name,
        storage: Option<&Name>,
        asked: Option<&Name>,
    ) -> Result<Option<Name>> {
        let Some(asked) = asked else { return Ok(None) };
        if let Some(storage) = storage {
            let message =
                format!("the domain '{domain}' lies on {storage}, which has no pools to choose");
            return Err(Error::Usage(message));
        }
        match self.catalog.domain(domain)?.map(|known| known.pool.unwrap_or_else(main)) {
            Some(known) if known != *asked => Err(Error::Usage(format!(
                "the domain '{domain}' lies in the pool '{known}' already"
            ))),
            Some(_) => Ok(None),
            None => self.pools.choose(domain, Some(asked)).map(|_| Some(asked.clone())),
        }
    }

    /// An existing domain stays where it lies.
    fn storage_of(&self, domain: &Name, asked: Option<&Name>) -> Result<Option<Name>> {
        let known = self.catalog.domain(domain)?.map(|domain| domain.storage);
        match (known, asked) {
            (Some(known), Some(asked)) if asked.as_str() == ANY => Ok(known),
            (None, Some(asked)) if asked.as_str() == ANY => match self.found_on(domain) {
                Some(storage) => Ok(Some(storage)),
                None => self.home_of(domain).map(Some),
            },
            (Some(known), Some(asked)) if known.as_ref() != Some(asked) => {
                let place = known.map_or("this server".to_owned(), |known| known.to_string());
                Err(Error::Usage(format!("the domain '{domain}' lies on {place} already")))
            }
            (Some(known), _) => Ok(known),
            (None, Some(asked)) => {
                self.repositories.address_of_storage_server(asked).map(|_| Some(asked.clone()))
            }
            (None, None) => Ok(self.found_on(domain)),
        }
    }

    /// The storage server that has a domain which the catalog has lost. When one cannot be asked, whoever enrolls with
    /// the token is told.
    fn found_on(&self, domain: &Name) -> Option<Name> {
        let found = self.repositories.found_on(domain, None);
        let failed = |error: &Error| {
            tracing::warn!(%error, %domain, "not every storage server was asked for a domain");
        };
        found.inspect_err(failed).ok().flatten()
    }

    /// The storage server for a new domain, of those that are connected.
    fn home_of(&self, domain: &Name) -> Result<Name> {
        let known = self.catalog.storage_servers()?.into_iter();
        let there = known.filter(|one| !one.revoked && self.table.is_connected(&one.name));
        let room = |one: StorageServer| {
            let room = match self.table.has_bucket(&one.name) {
                true => Room::Unbounded,
                false => Room::Bytes(one.bytes[0]?),
            };
            Some((one.name, room))
        };
        let there: Vec<_> = there.filter_map(room).collect();
        home::choose(domain, &there).ok_or_else(|| Error::Unfit {
            message: "no storage server is connected and has room".to_owned(),
            hint: "To see them: icecore server storage-servers".to_owned(),
        })
    }
}

/// Where the unit `name` says that new domains lie.
fn of_unit(name: &str, unit: &Unit) -> Result<Placement> {
    let parsed = |text: &Option<String>| text.as_deref().map(parse_name).transpose();
    let (storage, pool) = (parsed(&unit.on)?, parsed(&unit.pool)?);
    let says_where = storage.is_some() || pool.is_some();
    Ok(Placement { storage, pool, unit: says_where.then(|| name.to_owned()) })
}
