//! Tokens: each lets one machine enroll, once. Only the hash of a token's secret is kept.

use crate::audit::note;
use crate::certificates::{self, Certificate, Holder};
use crate::error::TokenRefusal;
use crate::nodes::{self, Leaving};
use crate::sql::{Json, Sql, Word, values};
use crate::{By, Catalog, Error, Result};
use api::Name;
use api::domains::WantedSettings;
use api::enroll::{EnrollReply, KeyMode, Role};

/// How long used and expired tokens are kept: 30 days. Later they are unknown.
const REMEMBER_SECS: i64 = 30 * 86_400;

/// SHA-256 of a token's secret.
pub type TokenHash = [u8; 32];

/// What a token allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenTerms {
    /// The node that enrolls with it.
    pub node: Name,
    /// Its domain.
    pub domain: Name,
    /// What it may do.
    pub role: Role,
    /// Who knows the keys, if the domain is created.
    pub keys: KeyMode,
    /// When the token expires.
    pub expires: i64,
    /// The storage server of the domain, if it is created.
    pub storage: Option<Name>,
    /// The pool of the domain, if it is created on the control server; `None` to choose one then.
    pub pool: Option<Name>,
    /// Required settings of the domain's repository.
    pub settings: WantedSettings,
}

/// What a token allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenUse {
    /// Enrollment.
    Good(TokenTerms),
    /// The same request was answered before, and the reply may have been lost: the same reply again.
    Answered(Box<EnrollReply>),
}

/// A new node.
#[derive(Clone, Copy, Debug)]
pub struct Enrollment<'a> {
    /// The token's hash.
    pub token: &'a TokenHash,
    /// SHA-256 of what the machine sent.
    pub request: &'a [u8; 32],
    /// The reply to it.
    pub answer: &'a EnrollReply,
    /// Its certificate.
    pub certificate: &'a Certificate,
    /// Version of its program.
    pub version: &'a str,
}

impl Catalog {
    /// Adds a token.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn add_token(&self, by: By<'_>, hash: &TokenHash, terms: &TokenTerms) -> Result<()> {
        self.change(|change| {
            let old = "DELETE FROM tokens WHERE expires < $1";
            change.execute(old, values![by.now_secs.saturating_sub(REMEMBER_SECS)])?;
            change.execute(
                "INSERT INTO tokens (hash, node, domain, role, keys, made, expires, storage, privacy, parity, pool,
                     dedup)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
                values![
                    hash,
                    Word(&terms.node),
                    Word(&terms.domain),
                    Word(terms.role),
                    Word(terms.keys),
                    by.now_secs,
                    terms.expires,
                    terms.storage.as_ref().map(Word),
                    terms.settings.privacy.map(Word),
                    terms.settings.parity_percent,
                    terms.pool.as_ref().map(Word),
                    terms.settings.dedup.map(Word),
                ],
            )?;
            let detail = format!("domain {}, {:?}", terms.domain, terms.role);
            note(change, by, "token.make", terms.node.as_str(), &detail)
        })
    }

    /// What the token allows at `now_secs`, for the machine that sends `request`.
    ///
    /// # Errors
    /// [`Error::Token`], [`Error::Database`].
    pub fn token(&self, hash: &TokenHash, request: &[u8; 32], now_secs: i64) -> Result<TokenUse> {
        self.look(|look| token(look, hash, request, now_secs))
    }

    /// Uses the token and adds the node with its certificate, or changes nothing. It replaces a node of the same
    /// name, whose certificates become invalid.
    ///
    /// # Errors
    /// [`Error::Token`] when it was used meanwhile; [`Error::Database`].
    pub fn enroll(&self, by: By<'_>, new: Enrollment<'_>) -> Result<()> {
        self.change(|change| {
            let used = change.execute(
                "UPDATE tokens SET used_at = $2, request = $3, answer = $4
                 WHERE hash = $1 AND used_at IS NULL AND expires > $2",
                values![new.token, by.now_secs, new.request, Json(new.answer)],
            )?;
            if used == 0 {
                return Err(Error::Token(TokenRefusal::Used));
            }
            put_node(change, by, new)?;
            certificates::add(change, Holder::Node, &new.answer.node, new.certificate)?;
            let detail = format!("domain {}, {:?}", new.answer.domain, new.answer.role);
            note(change, by, "node.enroll", new.answer.node.as_str(), &detail)
        })
    }
    /// Removes the tokens of nodes and storage servers with which nobody has enrolled: in a catalog that is older than
    /// it says, somebody may have. Returns how many there were.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn void_tokens(&self, by: By<'_>) -> Result<u64> {
        self.change(|change| {
            let nodes = change.execute("DELETE FROM tokens WHERE used_at IS NULL", &[])?;
            let storage = "DELETE FROM storage_tokens WHERE used_at IS NULL";
            let total = nodes + change.execute(storage, &[])?;
            if total > 0 {
                note(change, by, "token.void", "", &total.to_string())?;
            }
            Ok(total)
        })
    }
}

fn token(look: &Sql<'_>, hash: &TokenHash, request: &[u8; 32], now_secs: i64) -> Result<TokenUse> {
    let select =
        "SELECT node, domain, role, keys, expires, request, answer, storage, privacy, parity, pool, dedup
         FROM tokens WHERE hash = $1";
    let row = look.row(select, values![hash], |row| {
        let terms = TokenTerms {
            node: row.get::<Word<_>>(0)?.0,
            domain: row.get::<Word<_>>(1)?.0,
            role: row.get::<Word<_>>(2)?.0,
            keys: row.get::<Word<_>>(3)?.0,
            expires: row.get(4)?,
            storage: row.get::<Option<Word<_>>>(7)?.map(|word| word.0),
            pool: row.get::<Option<Word<_>>>(10)?.map(|word| word.0),
            settings: WantedSettings {
                privacy: row.get::<Option<Word<_>>>(8)?.map(|word| word.0),
                parity_percent: row.get(9)?,
                dedup: row.get::<Option<Word<_>>>(11)?.map(|word| word.0),
            },
        };
        let answer: Option<Json<EnrollReply>> = row.get(6)?;
        Ok((terms, row.get::<Option<[u8; 32]>>(5)?, answer))
    })?;
    match row {
        None => Err(Error::Token(TokenRefusal::Unknown)),
        Some((terms, _, _)) if terms.expires <= now_secs => {
            Err(Error::Token(TokenRefusal::Expired))
        }
        Some((_, Some(sent), Some(Json(answer)))) if sent == *request => {
            Ok(TokenUse::Answered(Box::new(answer)))
        }
        Some((_, Some(_), _)) => Err(Error::Token(TokenRefusal::Used)),
        Some((terms, None, _)) => Ok(TokenUse::Good(terms)),
    }
}

fn put_node(change: &Sql<'_>, by: By<'_>, new: Enrollment<'_>) -> Result<()> {
    let EnrollReply { node, domain, role, key, .. } = new.answer;
    nodes::keep_old_key(change, node, Leaving::Replaced(key.as_deref()))?;
    change.execute("UPDATE certificates SET revoked = 1 WHERE node = $1", values![Word(node)])?;
    change.execute(
        "INSERT INTO nodes (name, domain, role, key, made, version)
         VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (name) DO UPDATE SET domain = excluded.domain, role = excluded.role,
         key = excluded.key, made = excluded.made, version = excluded.version, revoked = 0,
         alarm = NULL, forget = 'none'",
        values![Word(node), Word(domain), Word(role), key, by.now_secs, new.version],
    )?;
    // What was granted to the machine that had this name was not granted to this one.
    change.execute("DELETE FROM grants WHERE node = $1", values![Word(node)])?;
    Ok(())
}
