//! Enrollment and renewal of nodes.

use crate::admission::Admission;
use crate::attempt_limiter::AttemptLimiter;
use crate::certificate_issuer::CertificateIssuer;
use crate::domain_keys::{DomainKeys, Home};
use crate::domain_locks::DomainLocks;
use crate::error::parse_name;
use crate::issued_keys::IssuedKeys;
use crate::open::Parts;
use crate::refusal_log::RefusalLog;
use crate::{Error, Result, SERVER, by, now_secs};
use api::domains::Privacy;
use api::enroll::{EnrollReply, EnrollRequest, KeyMode, RenewReply, RenewRequest};
use catalog::Catalog;
use catalog::certificates::{Certificate, Holder, Renewal};
use catalog::tokens::{Enrollment as NewNode, TokenHash, TokenTerms, TokenUse};
use data_encoding::HEXLOWER;
use pki::Issued;
use server_contract::access_control::Node;
use std::net::IpAddr;
use std::sync::Arc;
use zeroize::Zeroizing;

const VERSION_BYTES_MAX: usize = 64;

/// Makes nodes of machines that have a token, and renews their certificates.
pub(crate) struct Enrollment {
    catalog: Arc<Catalog>,
    issuer: Arc<CertificateIssuer>,
    keys: Arc<DomainKeys>,
    issued: Arc<IssuedKeys>,
    locks: Arc<DomainLocks>,
    admission: Arc<Admission>,
    attempts: Arc<AttemptLimiter>,
    refusals: Arc<RefusalLog>,
}

impl Enrollment {
    /// Into the domains of this server.
    pub(crate) fn new(parts: &Parts) -> Self {
        Self {
            catalog: parts.catalog.clone(),
            issuer: parts.issuer.clone(),
            keys: parts.keys.clone(),
            issued: parts.issued.clone(),
            locks: parts.locks.clone(),
            admission: parts.admission.clone(),
            attempts: parts.attempts.clone(),
            refusals: parts.refusals.clone(),
        }
    }

    /// Refuses a machine that requires more privacy than the domain has; its token stays valid.
    fn is_private_enough(&self, terms: &TokenTerms, least: Privacy) -> Result<()> {
        let known = self.catalog.domain(&terms.domain)?.map(|domain| domain.settings);
        let privacy = known.unwrap_or_else(|| terms.settings.or_default()).privacy;
        if privacy >= least {
            return Ok(());
        }
        let (node, domain) = (&terms.node, &terms.domain);
        let other = match known {
            Some(_) => " --domain NAME, with the name of a new domain",
            None => "",
        };
        let message = format!(
            "the domain '{domain}' has {privacy} privacy, and this machine asks for {least}"
        );
        let hint = format!("On the server: icecore server token {node} --privacy {least}{other}");
        Err(Error::Unfit { message, hint })
    }

    /// Enrolls a machine with a valid token as a node.
    ///
    /// # Errors
    /// [`Error::TooMany`] after too many wrong tokens; [`Error::Catalog`] with a refused token; [`Error::Usage`].
    pub(crate) fn enroll(&self, from: IpAddr, request: &EnrollRequest) -> Result<EnrollReply> {
        self.attempts.check(from)?;
        // Whether the token is right comes first: who has none learns nothing and costs nothing.
        let hash = token_hash(&request.secret).inspect_err(|_| self.attempts.failed(from))?;
        let sent = digest(request);
        let look = || self.catalog.token(&hash, &sent, now_secs());
        let refused = |error: &catalog::Error| {
            self.attempts.failed(from);
            self.refusals.refused("an enrollment token", error, Some(from));
        };
        match look().inspect_err(refused)? {
            TokenUse::Answered(answer) => {
                // The answer of the catalog to the first request may have been lost.
                self.admission.list_revoked();
                Ok(*answer)
            }
            // Once more when it is its turn: the same request may have come twice.
            TokenUse::Good(terms) => {
                let enrolled = self.locks.with(&terms.domain, || match look()? {
                    TokenUse::Answered(answer) => Ok(*answer),
                    TokenUse::Good(terms) => self.enroll_as(&terms, &hash, &sent, request),
                })?;
                // Of the machine that had this name.
                self.issued.remove_old(|node| *node == enrolled.node);
                Ok(enrolled)
            }
        }
    }

    /// Whether the request has a token that may be valid.
    pub(crate) fn knows_token(&self, request: &EnrollRequest) -> bool {
        let use_ = token_hash(&request.secret)
            .and_then(|hash| Ok(self.catalog.token(&hash, &digest(request), now_secs())?));
        use_.is_ok()
    }

    fn enroll_as(
        &self,
        terms: &TokenTerms,
        token: &TokenHash,
        sent: &[u8; 32],
        request: &EnrollRequest,
    ) -> Result<EnrollReply> {
        let version = checked_version(&request.version)?;
        let secret = slot_secret(&request.slot_secret)?;
        self.is_private_enough(terms, request.privacy)?;
        let issued =
            self.issuer.ca().issue_node(&request.request, terms.node.as_str(), now_secs())?;
        let by = by(SERVER);
        let home = terms.storage.as_ref().map_or(Home::Here(terms.pool.as_ref()), Home::There);
        let (domain, repository) =
            self.keys.ensure_domain(by, &terms.domain, terms.keys, home, terms.settings)?;
        let key = match terms.keys {
            KeyMode::Client => None,
            KeyMode::Managed => {
                Some(self.keys.add_slot(&domain, terms.role, &secret, terms.node.as_str())?)
            }
        };
        let answer = EnrollReply {
            node: terms.node.clone(),
            domain: terms.domain.clone(),
            keys: terms.keys,
            role: terms.role,
            settings: domain.settings,
            repository: repository.map(|id| id.to_string()),
            key: key.map(|id| id.to_string()),
            certificate: issued.pem.clone(),
            ca_certificate: self.issuer.pem().to_owned(),
            expires: issued.not_after_secs,
        };
        let (certificate, answer_ref) = (certificate(&issued), &answer);
        let new = NewNode {
            token,
            request: sent,
            answer: answer_ref,
            certificate: &certificate,
            version,
        };
        self.catalog.enroll(by, new)?;
        // A node of this name that had a session is another machine now.
        self.admission.revoke(terms.node.as_str());
        self.admission.list_revoked();
        tracing::info!(node = %terms.node, domain = %terms.domain, "enrolled");
        Ok(answer)
    }

    /// Issues the next certificate of an admitted node. Renewals are a chain: see [`catalog::certificates::Renewed`].
    ///
    /// # Errors
    /// [`Error::Pki`] for a bad request; [`Error::Catalog`] when the node was revoked meanwhile; [`Error::Refused`]
    /// when two machines renew from one certificate.
    pub(crate) fn renew(&self, node: &Node, request: &RenewRequest) -> Result<RenewReply> {
        let name = parse_name(&node.name)?;
        let version = checked_version(&request.version)?;
        let issued = self.issuer.ca().issue_node(&request.request, name.as_str(), now_secs())?;
        let (who, key) = (format!("node {name}"), pki::request::key_of(&request.request)?);
        let next = certificate(&issued);
        let asked = Renewal {
            of: Holder::Node,
            holder: &name,
            predecessor: &node.serial,
            key: &key,
            next: &next,
            pem: &issued.pem,
            version,
        };
        let renewed = self.catalog.renew(by(&who), asked)?;
        renew_reply(renewed, issued).ok_or_else(|| self.admission.has_forked(&name, &node.serial))
    }
}

/// The reply to a renewal: the new certificate, or the one that was issued before for the same key.
/// `None` when two machines renew from one certificate.
pub(crate) fn renew_reply(
    renewed: catalog::certificates::Renewed,
    issued: Issued,
) -> Option<RenewReply> {
    use catalog::certificates::Renewed;
    match renewed {
        Renewed::New => {
            Some(RenewReply { certificate: issued.pem, expires: issued.not_after_secs })
        }
        Renewed::Before { pem, not_after } => {
            Some(RenewReply { certificate: pem, expires: not_after })
        }
        Renewed::Forked => None,
    }
}

pub(crate) fn certificate(issued: &Issued) -> Certificate {
    let (not_before, not_after) = (issued.not_before_secs, issued.not_after_secs);
    Certificate { serial: issued.serial.clone(), not_before, not_after }
}

pub(crate) fn token_hash(secret: &str) -> Result<TokenHash> {
    let bad = || Error::Usage("the secret of the token is 32 hex digits".to_owned());
    let bytes = HEXLOWER.decode(secret.as_bytes()).map_err(|_| bad())?;
    if bytes.len() == 16 { Ok(pki::fingerprint(&bytes)) } else { Err(bad()) }
}

/// Identifies a request: the same request, sent again, gets the same reply.
fn digest(request: &EnrollRequest) -> [u8; 32] {
    pki::fingerprint(format!("{}\0{}", request.request, request.slot_secret).as_bytes())
}

/// 32 bytes in hex.
pub(crate) fn slot_secret(text: &str) -> Result<Zeroizing<[u8; 32]>> {
    let bad = || Error::Usage("slot_secret is 64 hex digits".to_owned());
    let bytes = Zeroizing::new(HEXLOWER.decode(text.as_bytes()).map_err(|_| bad())?);
    Ok(Zeroizing::new(bytes.as_slice().try_into().map_err(|_| bad())?))
}

pub(crate) fn checked_version(version: &str) -> Result<&str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-+".contains(&byte);
    if version.len() <= VERSION_BYTES_MAX && version.bytes().all(plain) {
        return Ok(version);
    }
    Err(Error::Usage("the version is not valid".to_owned()))
}

#[cfg(test)]
pub(crate) mod tests;
