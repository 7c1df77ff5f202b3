//! Storage servers: enrollment, renewal, what they may ask, and revocation.
//!
//! A storage server stores repositories and has no key of them. It asks the control server who may do what, and only
//! about domains that it stores.

mod heartbeat;
mod names;

pub use heartbeat::StorageServerTable;

use super::access_control::refused;
use super::admission::is_forked;
use super::enroll::{
    VALID_SECS_DEFAULT, VALID_SECS_MAX, certificate, checked_version, renew_reply, token_hash,
};
use super::{Control, Error, Result, SERVER, random};
use crate::access_control::{Node, Peer};
use api::enroll::{RenewReply, RenewRequest};
use api::storage_servers::{
    AccessReply, AccessRequest, AdmitReply, EnrollStorageServerReply, EnrollStorageServerRequest,
    IssuedStorageServerToken, NewStorageServerToken, NodeConnection, StorageServer, StorageServers,
};
use api::{Name, Token};
use catalog::certificates::{Holder, Renewal};
use catalog::storage_servers::{StorageServerEnrollment, StorageServerTokenUse};
use catalog::tokens::TokenHash;
use ids::KeyId;
use pki::ServerNames;
use std::net::IpAddr;

/// Prefix of the name of a storage server in its certificate: no node can have such a name.
const PREFIX: &str = "storage:";

/// A storage server, identified by the certificate that it showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmittedStorageServer {
    /// Its name.
    pub name: Name,
    /// Serial number of the certificate.
    pub serial: String,
}

impl Control {
    /// Creates a token; its secret is in the reply and nowhere else.
    ///
    /// # Errors
    /// [`super::Error::Catalog`], [`super::Error::NoRandom`].
    pub fn make_storage_server_token(
        &self,
        who: &str,
        new: &NewStorageServerToken,
    ) -> Result<IssuedStorageServerToken> {
        let by = self.by(who);
        let valid_secs = new.valid_secs.unwrap_or(VALID_SECS_DEFAULT).clamp(1, VALID_SECS_MAX);
        let expires = by.now_secs.saturating_add_unsigned(valid_secs);
        let token =
            Token { secret: *random::<16>()?, ca_fingerprint: self.ca_fingerprint_prefix() };
        let hash = pki::fingerprint(&token.secret);
        self.catalog.add_storage_server_token(by, &hash, &new.storage, expires)?;
        let replaces = self.catalog.storage_server(&new.storage)?.is_some();
        let (token, server, storage) = (token.to_text(), self.address(), new.storage.clone());
        Ok(IssuedStorageServerToken { token, storage, server, expires, replaces })
    }

    /// Enrolls a machine with a valid token as a storage server.
    ///
    /// # Errors
    /// As [`Control::enroll`].
    pub fn enroll_storage_server(
        &self,
        from: IpAddr,
        request: &EnrollStorageServerRequest,
    ) -> Result<EnrollStorageServerReply> {
        self.attempts.check(from)?;
        let hash = token_hash(&request.secret).inspect_err(|_| self.attempts.failed(from))?;
        let sent = digest(request);
        let look = || self.catalog.storage_server_token(&hash, &sent, self.now_secs());
        match look().inspect_err(|_| self.attempts.failed(from))? {
            StorageServerTokenUse::Answered(answer) => Ok(*answer),
            // Once more when it is its turn: the same request may have come twice.
            StorageServerTokenUse::Good(name) => self.key_locks.with(&name, || match look()? {
                StorageServerTokenUse::Answered(answer) => Ok(*answer),
                StorageServerTokenUse::Good(name) => {
                    self.enroll_storage_server_as(&name, &hash, &sent, request)
                }
            }),
        }
    }

    fn enroll_storage_server_as(
        &self,
        name: &Name,
        token: &TokenHash,
        sent: &[u8; 32],
        request: &EnrollStorageServerRequest,
    ) -> Result<EnrollStorageServerReply> {
        let version = checked_version(&request.version)?;
        let names = self.checked_names(name, &request.names)?;
        let issued = self.issue_storage(name, &names, &request.request)?;
        let answer = EnrollStorageServerReply {
            storage: name.clone(),
            certificate: issued.pem.clone(),
            ca_certificate: self.ca_pem.clone(),
            expires: issued.not_after_secs,
        };
        let (certificate, answer_ref, names) = (certificate(&issued), &answer, &names[..]);
        let new = StorageServerEnrollment {
            token,
            request: sent,
            answer: answer_ref,
            certificate: &certificate,
            names,
            version,
        };
        self.catalog.enroll_storage_server(self.by(SERVER), new)?;
        Ok(answer)
    }

    fn issue_storage(&self, name: &Name, names: &[String], request: &str) -> Result<pki::Issued> {
        let names = ServerNames::of(names.iter().map(String::as_str));
        let subject = format!("{PREFIX}{name}");
        Ok(self.ca.issue_storage(request, &subject, &names, self.now_secs())?)
    }

    /// Admits the storage server that shows this certificate.
    ///
    /// # Errors
    /// [`super::Error::Refused`] when the certificate is unknown, expired or revoked, or when another machine has
    /// shown a later one.
    pub fn admit_storage_server(&self, peer: &Peer) -> Result<AdmittedStorageServer> {
        let facts = pki::inspect(&peer.certificate)?;
        let known = self.catalog.certificate(Holder::StorageServer, &facts.serial)?;
        let known = known.filter(|it| facts.common_name == format!("{PREFIX}{}", it.holder));
        let known = known.ok_or_else(|| {
            refused("this certificate does not belong to a storage server".to_owned(), "")
        })?;
        let (name, now_secs) = (known.holder.clone(), self.now_secs());
        if known.revoked {
            let message = format!("the storage server '{name}' is revoked");
            return Err(refused(message, &enroll_again(&name)));
        }
        if known.not_after.min(facts.not_after_secs) <= now_secs {
            return Err(refused(
                format!("the certificate of '{name}' has expired"),
                &enroll_again(&name),
            ));
        }
        if is_forked(&known, now_secs) {
            self.catalog.forked(self.by(SERVER), Holder::StorageServer, &name, &facts.serial)?;
            return Err(self.storage_server_has_forked(&name, &facts.serial));
        }
        if !known.used {
            self.catalog.certificate_used(Holder::StorageServer, &facts.serial, now_secs)?;
        }
        Ok(AdmittedStorageServer { name, serial: facts.serial })
    }

    /// Stops a storage server whose certificates two machines have shown: nodes are not redirected there any more.
    fn storage_server_has_forked(&self, storage: &Name, serial: &str) -> Error {
        self.revocations.revoke_node(&format!("{PREFIX}{storage}"));
        self.drop_storage_server(storage);
        tracing::error!(%storage, serial, "ALARM: two machines show certificates of one storage server; both were stopped");
        let message = format!(
            "another machine has shown the certificates of the storage server '{storage}': both were stopped"
        );
        refused(message, &enroll_again(storage))
    }

    /// Admits a storage server to a data connection, for measuring. Under its name, which no node can have, it opens
    /// nothing. `None` for other peers.
    pub(crate) fn admit_to_measure(&self, peer: &Peer) -> Result<Option<Node>> {
        let facts = pki::inspect(&peer.certificate)?;
        if !facts.common_name.starts_with(PREFIX) {
            return Ok(None);
        }
        let revoked = self.revocations.flag(&facts.serial, &facts.common_name);
        self.admit_storage_server(peer)?;
        Ok(Some(Node { name: facts.common_name, serial: facts.serial, revoked }))
    }

    /// Issues the next certificate of an admitted storage server, under its names. Renewals are a chain, as those of
    /// nodes.
    ///
    /// # Errors
    /// [`super::Error::Pki`] for a bad request; [`super::Error::Catalog`] when it was revoked meanwhile;
    /// [`super::Error::Refused`] when two machines renew from one certificate.
    pub fn renew_storage_server(
        &self,
        shown: &AdmittedStorageServer,
        request: &RenewRequest,
    ) -> Result<RenewReply> {
        let version = checked_version(&request.version)?;
        let storage = &shown.name;
        let missing =
            || catalog::Error::Missing { what: "storage server", name: storage.to_string() };
        let names = self.catalog.storage_server(storage)?.ok_or_else(missing)?.names;
        self.lead_to_one_machine(&names)?;
        let issued = self.issue_storage(storage, &names, &request.request)?;
        let (who, key) = (format!("storage {storage}"), pki::request::key_of(&request.request)?);
        let next = certificate(&issued);
        let asked = Renewal {
            of: Holder::StorageServer,
            holder: storage,
            predecessor: &shown.serial,
            key: &key,
            next: &next,
            pem: &issued.pem,
            version,
        };
        let renewed = self.catalog.renew(self.by(&who), asked)?;
        renew_reply(renewed, issued)
            .ok_or_else(|| self.storage_server_has_forked(storage, &shown.serial))
    }

    /// Whether a node may connect to a storage server.
    ///
    /// # Errors
    /// [`super::Error::Refused`].
    pub fn admit_for_storage_server(&self, asked: &NodeConnection) -> Result<AdmitReply> {
        self.known_node(&asked.serial, &asked.node, Some(asked.address))?;
        Ok(AdmitReply { limits: self.limit_for(asked.node.as_str(), asked.address) })
    }

    /// The node that a storage server names, if it may connect.
    pub(super) fn known_node(
        &self,
        serial: &str,
        node: &Name,
        address: Option<IpAddr>,
    ) -> Result<Node> {
        let facts = pki::Facts {
            serial: serial.to_owned(),
            common_name: node.to_string(),
            // The storage server has verified the certificate; what the catalog says of its end holds.
            not_before_secs: 0,
            not_after_secs: i64::MAX,
        };
        self.admit_by_facts(&facts, address)
    }

    /// What a node may do with a domain on `storage`.
    ///
    /// # Errors
    /// [`super::Error::Refused`], also when the domain does not lie there.
    pub fn access_for_storage_server(
        &self,
        storage: &Name,
        asked: &AccessRequest,
    ) -> Result<AccessReply> {
        let node = self.known_node(&asked.serial, &asked.node, None)?;
        let access = self.access_of(&node, asked.domain.as_ref().map(Name::as_str))?;
        let domain = super::access_control::parse(&access.domain)?;
        if !self.lies_on(storage, &domain)? {
            let message = format!("the domain '{domain}' does not lie on this storage server");
            return Err(refused(message, "To see where it lies: icecore server domains"));
        }
        let (may_write, may_read, may_init) = (access.may_write, access.may_read, access.may_init);
        let key = access.key.map(|key| KeyId(key).to_string());
        let settings = access.settings.unwrap_or_default();
        Ok(AccessReply { domain, may_write, may_read, may_init, key, settings })
    }

    pub(super) fn lies_on(&self, storage: &Name, domain: &Name) -> Result<bool> {
        let known = self.catalog.domain(domain)?;
        Ok(known.is_some_and(|domain| domain.storage.as_ref() == Some(storage)))
    }

    /// Revokes a storage server: its requests are refused, and nodes are not redirected there any more.
    ///
    /// # Errors
    /// [`super::Error::Catalog`] if it does not exist.
    pub fn revoke_storage_server(&self, who: &str, storage: &Name) -> Result<()> {
        self.catalog.revoke_storage_server(self.by(who), storage)?;
        self.revocations.revoke_node(&format!("{PREFIX}{storage}"));
        self.drop_storage_server(storage);
        Ok(())
    }

    /// All storage servers.
    ///
    /// # Errors
    /// [`super::Error::Catalog`].
    pub fn list_storage_servers(&self) -> Result<StorageServers> {
        let storage_servers =
            self.catalog.storage_servers()?.into_iter().map(|storage| StorageServer {
                connected: self.storage_servers.is_connected(&storage.name),
                name: storage.name,
                names: storage.names,
                port: storage.port,
                made: storage.made,
                last_seen: storage.last_seen,
                version: storage.version,
                revoked: storage.revoked,
                domains: storage.domains,
                alarm: storage.alarm,
                free_bytes: storage.bytes[0],
                total_bytes: storage.bytes[1],
            });
        Ok(StorageServers { storage_servers: storage_servers.collect() })
    }
}

/// The commands with which a storage server enrolls again.
fn enroll_again(storage: &Name) -> String {
    format!(
        "On the server: icecore server token {storage} --storage; then here, with the line that it prints and --replace: icecore storage enroll"
    )
}

/// Identifies a request: the same request, sent again, gets the same reply.
fn digest(request: &EnrollStorageServerRequest) -> [u8; 32] {
    pki::fingerprint(format!("{}\0{}", request.request, request.names.join("\0")).as_bytes())
}
