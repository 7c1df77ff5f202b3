//! Storage servers: enrollment, renewal, what they may ask, and revocation.
//!
//! A storage server stores repositories and has no key of them. It asks the control server who may do what, and only
//! about domains that it stores.

mod heartbeat;
mod moves;
mod names;
mod requests;
mod table;

pub(crate) use moves::{StorageMoves, WhatIsHeard};
pub(crate) use requests::StorageServerRequests;
pub(crate) use table::{Entered, StorageServerTable};

use crate::admission::{Admission, is_forked};
use crate::attempt_limiter::AttemptLimiter;
use crate::certificate_issuer::CertificateIssuer;
use crate::domain_locks::DomainLocks;
use crate::enroll::{certificate, checked_version, renew_reply, token_hash};
use crate::error::{missing, refused};
use crate::open::Parts;
use crate::revocations::Revocations;
use crate::server_identity::ServerIdentity;
use crate::tokens::{VALID_SECS_DEFAULT, VALID_SECS_MAX};
use crate::{Error, Result, SERVER, by, now_secs, random};
use api::enroll::{RenewReply, RenewRequest};
use api::storage_servers::{
    ANY, EnrollStorageServerReply, EnrollStorageServerRequest, IssuedStorageServerToken,
    NewStorageServerToken, StorageServer,
};
use api::{Name, Token};
use catalog::Catalog;
use catalog::certificates::{Holder, Renewal};
use catalog::storage_servers::{StorageServerEnrollment, StorageServerTokenUse};
use catalog::tokens::TokenHash;
use pki::ServerNames;
use server_contract::access_control::{Node, Peer};
use std::net::IpAddr;
use std::sync::Arc;

/// Prefix of the name of a storage server in its certificate: no node can have such a name.
const PREFIX: &str = "storage:";

/// A storage server, identified by the certificate that it showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdmittedStorageServer {
    /// Its name.
    pub name: Name,
    /// Serial number of the certificate.
    pub serial: String,
}

/// Storage servers, as an administrator sees them, and their certificates.
pub(crate) struct StorageServers {
    catalog: Arc<Catalog>,
    issuer: Arc<CertificateIssuer>,
    identity: Arc<ServerIdentity>,
    admission: Arc<Admission>,
    revoked: Arc<Revocations>,
    attempts: Arc<AttemptLimiter>,
    locks: Arc<DomainLocks>,
    table: Arc<StorageServerTable>,
}

impl StorageServers {
    /// Those of this control server.
    pub(crate) fn new(parts: &Parts) -> Self {
        Self {
            catalog: parts.catalog.clone(),
            issuer: parts.issuer.clone(),
            identity: parts.identity.clone(),
            admission: parts.admission.clone(),
            revoked: parts.mark.revocations(),
            attempts: parts.attempts.clone(),
            locks: parts.locks.clone(),
            table: parts.table.clone(),
        }
    }

    /// Creates a token; its secret is in the reply and nowhere else.
    ///
    /// # Errors
    /// [`crate::Error::Usage`] for a name that stands for something else; [`crate::Error::Catalog`],
    /// [`crate::Error::System`].
    pub(crate) fn make_token(
        &self,
        who: &str,
        new: &NewStorageServerToken,
    ) -> Result<IssuedStorageServerToken> {
        if new.storage.as_str() == ANY {
            return Err(Error::Usage(format!("'{ANY}' stands for any storage server")));
        }
        let by = by(who);
        let valid_secs = new.valid_secs.unwrap_or(VALID_SECS_DEFAULT).clamp(1, VALID_SECS_MAX);
        let expires = by.now_secs.saturating_add_unsigned(valid_secs);
        let token =
            Token { secret: *random::<16>()?, ca_fingerprint: self.issuer.fingerprint_prefix() };
        let hash = pki::fingerprint(&token.secret);
        self.catalog.add_storage_server_token(by, &hash, &new.storage, expires)?;
        let replaces = self.catalog.storage_server(&new.storage)?.is_some();
        let (token, server, storage) =
            (token.to_text(), self.identity.address(), new.storage.clone());
        Ok(IssuedStorageServerToken { token, storage, server, expires, replaces })
    }

    /// Enrolls a machine with a valid token as a storage server.
    ///
    /// # Errors
    /// As [`crate::enroll::Enrollment::enroll`].
    pub(crate) fn enroll(
        &self,
        from: IpAddr,
        request: &EnrollStorageServerRequest,
    ) -> Result<EnrollStorageServerReply> {
        self.attempts.check(from)?;
        let hash = token_hash(&request.secret).inspect_err(|_| self.attempts.failed(from))?;
        let sent = digest(request);
        let look = || self.catalog.storage_server_token(&hash, &sent, now_secs());
        match look().inspect_err(|_| self.attempts.failed(from))? {
            StorageServerTokenUse::Answered(answer) => Ok(*answer),
            // Once more when it is its turn: the same request may have come twice.
            StorageServerTokenUse::Good(name) => self.locks.with(&name, || match look()? {
                StorageServerTokenUse::Answered(answer) => Ok(*answer),
                StorageServerTokenUse::Good(name) => self.enroll_as(&name, &hash, &sent, request),
            }),
        }
    }

    fn enroll_as(
        &self,
        name: &Name,
        token: &TokenHash,
        sent: &[u8; 32],
        request: &EnrollStorageServerRequest,
    ) -> Result<EnrollStorageServerReply> {
        let version = checked_version(&request.version)?;
        if let Some(owner) = request.pool_of.as_ref().filter(|owner| *owner != name.as_str()) {
            return Err(other_pool(name, owner));
        }
        let names = self.checked_names(name, &request.names)?;
        let issued = self.issue(name, &names, &request.request)?;
        let answer = EnrollStorageServerReply {
            storage: name.clone(),
            certificate: issued.pem.clone(),
            ca_certificate: self.issuer.pem().to_owned(),
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
        self.catalog.enroll_storage_server(by(SERVER), new)?;
        self.admission.list_revoked();
        Ok(answer)
    }

    fn issue(&self, name: &Name, names: &[String], request: &str) -> Result<pki::Issued> {
        let names = ServerNames::of(names.iter().map(String::as_str));
        let subject = format!("{PREFIX}{name}");
        Ok(self.issuer.ca().issue_storage(request, &subject, &names, now_secs())?)
    }

    /// Admits the storage server that shows this certificate.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] when the certificate is unknown, expired or revoked, or when another machine has
    /// shown a later one.
    pub(crate) fn admit(&self, peer: &Peer) -> Result<AdmittedStorageServer> {
        let facts = pki::inspect(&peer.certificate)?;
        let known = self.catalog.certificate(Holder::StorageServer, &facts.serial)?;
        let known = known.filter(|it| facts.common_name == format!("{PREFIX}{}", it.holder));
        let known = known.ok_or_else(unknown)?;
        let (name, now_secs) = (known.holder.clone(), now_secs());
        if known.revoked || self.admission.is_listed(&facts.serial)? {
            return Err(self.is_void(&name)?);
        }
        if known.not_after.min(facts.not_after_secs) <= now_secs {
            return Err(refused(
                format!("the certificate of '{name}' has expired"),
                &enroll_again(&name),
            ));
        }
        if is_forked(&known, now_secs) {
            self.catalog.forked(by(SERVER), Holder::StorageServer, &name, &facts.serial)?;
            return Err(self.has_forked(&name, &facts.serial));
        }
        if !known.used {
            self.catalog.certificate_used(Holder::StorageServer, &facts.serial, now_secs)?;
        }
        Ok(AdmittedStorageServer { name, serial: facts.serial })
    }

    /// Stops a storage server whose certificates two machines have shown: nodes are not redirected there any more.
    fn has_forked(&self, storage: &Name, serial: &str) -> Error {
        self.admission.revoke(&format!("{PREFIX}{storage}"));
        self.table.remove(storage);
        self.admission.list_revoked();
        tracing::error!(%storage, serial, "ALARM: two machines show certificates of one storage server; both were stopped");
        let message = format!(
            "another machine has shown the certificates of the storage server '{storage}': both were stopped"
        );
        refused(message, &enroll_again(storage))
    }

    /// Why a certificate is void: the storage server was revoked, or another machine has its name since. Whoever then
    /// enrolled the old one again would take the name away from that.
    fn is_void(&self, name: &Name) -> Result<Error> {
        let known = self.catalog.storage_server(name)?;
        if known.is_none_or(|known| known.revoked) {
            let message = format!("the storage server '{name}' is revoked");
            return Ok(refused(message, &enroll_again(name)));
        }
        let message = format!(
            "the storage server '{name}' has been enrolled again since then, for example because another machine took over its pool: this machine no longer has that name"
        );
        let hint = "Leave this one stopped. Which machine has the name, on the server: icecore server storage-servers";
        Ok(refused(message, hint))
    }

    /// Admits a storage server to a data connection, for measuring. Under its name, which no node can have, it opens
    /// nothing. `None` for other peers.
    pub(crate) fn admit_to_measure(&self, peer: &Peer) -> Result<Option<Node>> {
        let facts = pki::inspect(&peer.certificate)?;
        if !facts.common_name.starts_with(PREFIX) {
            return Ok(None);
        }
        let revoked = self.admission.revocation_flag(&facts.serial, &facts.common_name);
        self.admit(peer)?;
        Ok(Some(Node { name: facts.common_name, serial: facts.serial, revoked }))
    }

    /// Issues the next certificate of an admitted storage server, under its names. Renewals are a chain, as those of
    /// nodes.
    ///
    /// # Errors
    /// [`crate::Error::Pki`] for a bad request; [`crate::Error::Catalog`] when it was revoked meanwhile;
    /// [`crate::Error::Refused`] when two machines renew from one certificate.
    pub(crate) fn renew(
        &self,
        shown: &AdmittedStorageServer,
        request: &RenewRequest,
    ) -> Result<RenewReply> {
        let version = checked_version(&request.version)?;
        let storage = &shown.name;
        let known = self.catalog.storage_server(storage)?;
        let names = known.ok_or_else(|| missing("storage server", storage))?.names;
        self.lead_to_one_machine(&names)?;
        let issued = self.issue(storage, &names, &request.request)?;
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
        let renewed = self.catalog.renew(by(&who), asked)?;
        renew_reply(renewed, issued).ok_or_else(|| self.has_forked(storage, &shown.serial))
    }

    /// Revokes a storage server: its requests are refused, and nodes are not redirected there any more.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`] if it does not exist.
    pub(crate) fn revoke(&self, who: &str, storage: &Name) -> Result<()> {
        self.catalog.revoke_storage_server(by(who), storage)?;
        let listed = self.revoked.catch_up();
        self.admission.revoke(&format!("{PREFIX}{storage}"));
        self.table.remove(storage);
        listed
    }

    /// All storage servers.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`].
    pub(crate) fn all(&self) -> Result<api::storage_servers::StorageServers> {
        let storage_servers =
            self.catalog.storage_servers()?.into_iter().map(|storage| StorageServer {
                connected: self.table.is_connected(&storage.name),
                pool_faults: self.table.pool_faults(&storage.name),
                clock_ahead_secs: self.table.clock_ahead_secs(&storage.name),
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
        Ok(api::storage_servers::StorageServers { storage_servers: storage_servers.collect() })
    }
}

/// The commands with which a storage server enrolls again.
/// After a lost catalog, for example.
fn unknown() -> Error {
    refused(
        "the server does not know the certificate of this storage server".to_owned(),
        "Enroll it again. On the server: icecore server token NAME --storage; then here, with the line that it prints and --replace: icecore storage enroll",
    )
}

fn enroll_again(storage: &Name) -> String {
    format!(
        "On the server: icecore server token {storage} --storage; then here, with the line that it prints and --replace: icecore storage enroll"
    )
}

/// The token is still good: nothing was enrolled.
fn other_pool(name: &Name, owner: &str) -> Error {
    let message =
        format!("the pool belongs to the storage server '{owner}', and the token is for '{name}'");
    // Whoever writes to the pool wrote the name.
    let hint = match owner.parse::<Name>() {
        Ok(owner) => format!("On the server: icecore server token {owner} --storage"),
        Err(_) => "Give another directory: --pool DIR".to_owned(),
    };
    Error::Unfit { message, hint }
}

/// Identifies a request: the same request, sent again, gets the same reply.
fn digest(request: &EnrollStorageServerRequest) -> [u8; 32] {
    pki::fingerprint(format!("{}\0{}", request.request, request.names.join("\0")).as_bytes())
}
