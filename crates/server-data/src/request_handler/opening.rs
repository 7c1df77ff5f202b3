//! Opening a domain: access, redirects, the keys of receipts, and the first settings.

use super::open_domain::OpenDomain;
use super::writing::is_writable;
use super::{Answer, RequestHandler};
use crate::faults;
use crate::receipts::Receipts;
use protocol::Packet;
use protocol::fault::{Code, fault};
use protocol::packet::{PathBytes, Purpose};
use repository::Repository;
use repository::config::Config;
use repository::keys::Keys;
use repository::receipts::ReceiptKey;
use server_contract::Repositories;
use server_contract::access_control::Access;
use server_contract::settings::settings_of;
use std::sync::Arc;

/// The first version that knows `Redirect`.
const VERSION_REDIRECT: u16 = 2;

impl RequestHandler {
    pub(super) fn open(&mut self, domain: &str, purpose: Purpose) -> Answer {
        let name = (!domain.is_empty()).then_some(domain);
        let access = self.shared.access_control.access(&self.handle.node, name);
        let access = access.map_err(|refusal| faults::of_refusal(&refusal))?;
        if let Some((host, port)) = self.redirect(&access)? {
            // Who waits for commands waits here.
            if purpose != Purpose::Agent {
                return Ok(Some(Packet::Redirect { host, port }));
            }
            self.is_for(purpose);
            return Ok(Some(not_opened(&access)));
        }
        let opened = self.opened(access, Some(purpose))?;
        self.is_for(purpose);
        if purpose == Purpose::Restore && !self.job_begins("restore") {
            // As the end of the connection: who comes back asks again by itself.
            self.handle.end_with(faults::too_many_jobs(&self.handle.node.name));
            return Ok(None);
        }
        Ok(Some(opened))
    }

    /// A connection says once what it is for.
    fn is_for(&self, purpose: Purpose) {
        let before = self.handle.purpose.lock().replace(purpose);
        if purpose == Purpose::Agent && before != Some(Purpose::Agent) {
            self.shared.access_control.agent_connected(&self.handle.node);
        }
    }

    pub(super) fn redirect(&self, access: &Access) -> Result<Option<(String, u16)>, Packet> {
        let place = self.shared.access_control.storage_server_of(&access.domain);
        let place = place.map_err(|refusal| faults::of_refusal(&refusal))?;
        if place.is_some() && self.version < VERSION_REDIRECT {
            let text = "the domain lies on a storage server, and this program is too old for that";
            return Err(fault(Code::Version, text, "Use a newer icecore on this machine.", &[]));
        }
        Ok(place)
    }

    pub(super) fn opened(
        &mut self,
        access: Access,
        purpose: Option<Purpose>,
    ) -> Result<Packet, Packet> {
        let domain = match self.shared.domains.open(&access.path) {
            Ok(domain) => Some(domain),
            Err(error) if is_not_made(&error) => None,
            Err(_) if self.shared.domains.is_closed(&access.path) => {
                return Err(faults::moving(&access.domain));
            }
            Err(error) => return Err(faults::of_engine(&error)),
        };
        let repository = domain.as_ref().map(|domain| &domain.repository);
        let config = repository.map_or_else(Vec::new, |it| it.config().encode());
        let packet = Packet::Opened {
            domain: access.domain.clone(),
            config: PathBytes(config),
            damage_epoch: repository.map_or(0, |repository| repository.damage_epoch()),
            may_write: access.may_write,
            may_read: access.may_read,
            may_init: access.may_init,
            receipt_keys: self.receipt_keys(repository)?,
        };
        *self.handle.access.lock() = Some(access.clone());
        self.open = Some(OpenDomain::new(access, domain, purpose));
        Ok(packet)
    }

    /// Receipt keys for a node: this server's own first, then those that `repository` names, which are only as good
    /// as whoever can write its files. A server without a key sends none.
    pub(super) fn receipt_keys(
        &self,
        repository: Option<&Arc<Repository>>,
    ) -> Result<Vec<PathBytes>, Packet> {
        let Some(own) = self.shared.receipts.as_deref().map(Receipts::key) else {
            return Ok(Vec::new());
        };
        let others = self.known_receipt_keys(repository)?.into_iter().filter(|key| *key != own);
        Ok([own].into_iter().chain(others).map(|key| PathBytes(key.to_vec())).collect())
    }

    /// The keys that verify receipts of `repository`: those that it knows, and that of this server.
    pub(super) fn known_receipt_keys(
        &self,
        repository: Option<&Arc<Repository>>,
    ) -> Result<Vec<ReceiptKey>, Packet> {
        let mut keys = match repository.map(|repository| repository.receipt_keys()) {
            // Damaged: written anew with the next receipt. Until then others are not believed.
            None | Some(Err(repository::Error::Damaged { .. })) => Vec::new(),
            Some(keys) => keys.map_err(|error| faults::of_engine(&error))?,
        };
        let own = self.shared.receipts.as_deref().map(Receipts::key);
        keys.extend(own.filter(|own| !keys.contains(own)));
        Ok(keys)
    }

    /// Creates the repository of a domain with client-held keys.
    pub(super) fn init(&mut self, config: &PathBytes, keys: &Keys) -> Answer {
        let Some(OpenDomain { access, .. }) = self.open.take() else {
            return Err(faults::no_session());
        };
        if !access.may_init {
            return Err(faults::not_allowed(
                "this node may not create the repository of its domain",
            ));
        }
        is_writable(&access)?;
        let config = Config::decode(&config.0).map_err(|reason| {
            faults::of_engine(&repository::Error::damaged("the settings", reason))
        })?;
        // What the administrator wanted of the domain: only now can it be had.
        let made_with = settings_of(&config);
        if !access.settings.is_none_or(|wanted| made_with == Some(wanted)) {
            return Err(faults::not_allowed(
                "the repository does not have the privacy, parity and deduplication of its domain",
            ));
        }
        let made = self.shared.domains.init(&access.path, config, keys);
        made.map_err(|error| faults::of_engine(&error))?;
        self.opened(access, None).map(Some)
    }
}

/// The reply for a domain on another server, without its repository.
fn not_opened(access: &Access) -> Packet {
    Packet::Opened {
        domain: access.domain.clone(),
        config: PathBytes::default(),
        damage_epoch: 0,
        may_write: false,
        may_read: false,
        may_init: false,
        receipt_keys: Vec::new(),
    }
}

fn is_not_made(error: &repository::Error) -> bool {
    match error {
        repository::Error::NoRepository { .. } => true,
        repository::Error::Storage(error) => error.is_not_found(),
        _ => false,
    }
}
