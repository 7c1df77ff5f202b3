//! Enrollment and renewal of nodes.

use super::access_control::parse;
use super::domains::other_settings;
use super::{Control, Error, Result, SERVER, random};
use crate::access_control::Node;
use api::domains::{PARITY_PERCENT_MAX, Privacy, WantedSettings};
use api::enroll::{
    EnrollReply, EnrollRequest, IssuedToken, KeyMode, NewToken, RenewReply, RenewRequest,
};
use api::{Name, Token};
use catalog::certificates::{Certificate, Holder, Renewal};
use catalog::tokens::{Enrollment, TokenHash, TokenTerms, TokenUse};
use data_encoding::HEXLOWER;
use pki::Issued;
use std::net::IpAddr;
use zeroize::Zeroizing;

/// Default validity of a token: one hour.
pub(crate) const VALID_SECS_DEFAULT: u64 = 3600;
/// Longest validity of a token: 30 days.
pub(crate) const VALID_SECS_MAX: u64 = 30 * 86_400;
const VERSION_BYTES_MAX: usize = 64;

impl Control {
    /// Creates a token; its secret is in the reply and nowhere else.
    ///
    /// # Errors
    /// [`Error::Usage`] when the domain has other keys; [`Error::Catalog`].
    pub fn make_token(&self, who: &str, new: &NewToken) -> Result<IssuedToken> {
        let by = self.by(who);
        let domain = new.domain.clone().unwrap_or_else(|| new.node.clone());
        let keys = self.keys_of(&domain, new.keys)?;
        let storage = self.storage_of(&domain, new.storage.as_ref())?;
        let settings = self.settings_of(&domain, new)?;
        let valid_secs = new.valid_secs.unwrap_or(VALID_SECS_DEFAULT).clamp(1, VALID_SECS_MAX);
        let expires = by.now_secs.saturating_add_unsigned(valid_secs);
        let token =
            Token { secret: *random::<16>()?, ca_fingerprint: self.ca_fingerprint_prefix() };
        let (node, role) = (new.node.clone(), new.role);
        let terms = TokenTerms { node, domain, role, keys, expires, storage, settings };
        self.catalog.add_token(by, &pki::fingerprint(&token.secret), &terms)?;
        let replaces = self.catalog.node(&new.node)?.is_some();
        let (text, server) = (token.to_text(), self.address());
        let TokenTerms { node, domain, .. } = terms;
        Ok(IssuedToken { token: text, node, domain, server, expires, replaces })
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
        let (privacy, parity_percent) = (new.privacy, new.parity_percent);
        if parity_percent.is_some_and(|percent| percent > PARITY_PERCENT_MAX) {
            return Err(Error::Usage(format!("parity is 0 to {PARITY_PERCENT_MAX} per cent")));
        }
        let wanted = WantedSettings { privacy, parity_percent };
        match self.catalog.domain(domain)? {
            Some(domain) if !wanted.fit(domain.settings) => Err(other_settings(&domain)),
            _ => Ok(wanted),
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

    /// An existing domain stays where it lies.
    fn storage_of(&self, domain: &Name, asked: Option<&Name>) -> Result<Option<Name>> {
        let known = self.catalog.domain(domain)?.map(|domain| domain.storage);
        match (known, asked) {
            (Some(known), Some(asked)) if known.as_ref() != Some(asked) => {
                let place = known.map_or("this server".to_owned(), |known| known.to_string());
                Err(Error::Usage(format!("the domain '{domain}' lies on {place} already")))
            }
            (Some(known), _) => Ok(known),
            (None, Some(asked)) => {
                self.address_of_storage_server(asked).map(|_| Some(asked.clone()))
            }
            (None, None) => Ok(None),
        }
    }

    pub(crate) fn ca_fingerprint_prefix(&self) -> [u8; 16] {
        let mut prefix = [0; 16];
        prefix.copy_from_slice(&self.ca.fingerprint()[..16]);
        prefix
    }

    /// Enrolls a machine with a valid token as a node.
    ///
    /// # Errors
    /// [`Error::TooMany`] after too many wrong tokens; [`Error::Catalog`] with a refused token; [`Error::Usage`].
    pub fn enroll(&self, from: IpAddr, request: &EnrollRequest) -> Result<EnrollReply> {
        self.attempts.check(from)?;
        // Whether the token is right comes first: who has none learns nothing and costs nothing.
        let hash = token_hash(&request.secret).inspect_err(|_| self.attempts.failed(from))?;
        let sent = digest(request);
        let look = || self.catalog.token(&hash, &sent, self.now_secs());
        let refused = |error: &catalog::Error| {
            self.attempts.failed(from);
            self.refusals.refused("an enrollment token", error, Some(from));
        };
        match look().inspect_err(refused)? {
            TokenUse::Answered(answer) => Ok(*answer),
            // Once more when it is its turn: the same request may have come twice.
            TokenUse::Good(terms) => {
                let enrolled = self.key_locks.with(&terms.domain, || match look()? {
                    TokenUse::Answered(answer) => Ok(*answer),
                    TokenUse::Good(terms) => self.enroll_as(&terms, &hash, &sent, request),
                })?;
                // Of the machine that had this name.
                self.remove_old_keys(|node| *node == enrolled.node);
                Ok(enrolled)
            }
        }
    }

    /// Whether the request has a token that may be valid.
    pub(crate) fn knows_token(&self, request: &EnrollRequest) -> bool {
        let use_ = token_hash(&request.secret)
            .and_then(|hash| Ok(self.catalog.token(&hash, &digest(request), self.now_secs())?));
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
        let issued = self.ca.issue_node(&request.request, terms.node.as_str(), self.now_secs())?;
        let by = self.by(SERVER);
        let storage = terms.storage.as_ref();
        let (domain, repository) =
            self.ensure_domain(by, &terms.domain, terms.keys, storage, terms.settings)?;
        let key = match terms.keys {
            KeyMode::Client => None,
            KeyMode::Managed => {
                Some(self.add_slot(&domain, terms.role, &secret, terms.node.as_str())?)
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
            ca_certificate: self.ca_pem.clone(),
            expires: issued.not_after_secs,
        };
        let (certificate, answer_ref) = (certificate(&issued), &answer);
        let new = Enrollment {
            token,
            request: sent,
            answer: answer_ref,
            certificate: &certificate,
            version,
        };
        self.catalog.enroll(by, new)?;
        // A node of this name that had a session is another machine now.
        self.revocations.revoke_node(terms.node.as_str());
        tracing::info!(node = %terms.node, domain = %terms.domain, "enrolled");
        Ok(answer)
    }

    /// Issues the next certificate of an admitted node. Renewals are a chain: see [`catalog::certificates::Renewed`].
    ///
    /// # Errors
    /// [`Error::Pki`] for a bad request; [`Error::Catalog`] when the node was revoked meanwhile; [`Error::Refused`]
    /// when two machines renew from one certificate.
    pub fn renew(&self, node: &Node, request: &RenewRequest) -> Result<RenewReply> {
        let name = parse(&node.name)?;
        let version = checked_version(&request.version)?;
        let issued = self.ca.issue_node(&request.request, name.as_str(), self.now_secs())?;
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
        let renewed = self.catalog.renew(self.by(&who), asked)?;
        renew_reply(renewed, issued).ok_or_else(|| self.has_forked(&name, &node.serial))
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
mod tests;
