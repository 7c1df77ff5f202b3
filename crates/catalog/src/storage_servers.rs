//! Storage servers: their enrollment tokens, certificates and last heartbeats.

use crate::audit::note;
use crate::certificates::{self, Certificate, Holder};
use crate::error::{TokenRefusal, found};
use crate::sql::{Json, Row, Sql, Word, values};
use crate::tokens::TokenHash;
use crate::{By, Catalog, Error, Result};
use api::Name;
use api::storage_servers::EnrollStorageServerReply;

/// A storage server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageServer {
    /// Its name.
    pub name: Name,
    /// Names in its certificate; nodes use the first.
    pub names: Vec<String>,
    /// Its port; `None` until its first start.
    pub port: Option<u16>,
    /// When it enrolled.
    pub made: i64,
    /// Time of its last heartbeat.
    pub last_seen: Option<i64>,
    /// Version of its program.
    pub version: Option<String>,
    /// Free bytes and size of its disk.
    pub bytes: [Option<u64>; 2],
    /// Whether it is revoked.
    pub revoked: bool,
    /// Number of domains that it stores.
    pub domains: u64,
    /// Why the control server stopped it by itself.
    pub alarm: Option<String>,
}

/// What a token of a storage server allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageServerTokenUse {
    /// Enrollment under this name.
    Good(Name),
    /// The same request was answered before: the same reply again.
    Answered(Box<EnrollStorageServerReply>),
}

/// A new storage server.
#[derive(Clone, Copy, Debug)]
pub struct StorageServerEnrollment<'a> {
    /// The token's hash.
    pub token: &'a TokenHash,
    /// SHA-256 of what the machine sent.
    pub request: &'a [u8; 32],
    /// The reply to it.
    pub answer: &'a EnrollStorageServerReply,
    /// Its certificate.
    pub certificate: &'a Certificate,
    /// The names in it.
    pub names: &'a [String],
    /// Version of its program.
    pub version: &'a str,
}

const SELECT: &str = "SELECT name, names, port, made, last_seen, version, free_bytes, total_bytes,
    revoked, (SELECT count(*) FROM domains WHERE storage = storage_servers.name), alarm FROM storage_servers";

fn storage(row: &Row) -> Result<StorageServer> {
    Ok(StorageServer {
        name: row.get::<Word<_>>(0)?.0,
        names: row.get::<Json<_>>(1)?.0,
        port: row.get(2)?,
        made: row.get(3)?,
        last_seen: row.get(4)?,
        version: row.get(5)?,
        bytes: [row.get(6)?, row.get(7)?],
        revoked: row.get(8)?,
        domains: row.get(9)?,
        alarm: row.get(10)?,
    })
}

impl Catalog {
    /// All storage servers, by name.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn storage_servers(&self) -> Result<Vec<StorageServer>> {
        self.look_long(|look| look.rows(&format!("{SELECT} ORDER BY name"), &[], storage))
    }

    /// One storage server, if it exists.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn storage_server(&self, name: &Name) -> Result<Option<StorageServer>> {
        self.look(|look| {
            look.row(&format!("{SELECT} WHERE name = $1"), values![Word(name)], storage)
        })
    }

    /// Adds a token for the storage server `name`.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn add_storage_server_token(
        &self,
        by: By<'_>,
        hash: &TokenHash,
        name: &Name,
        expires: i64,
    ) -> Result<()> {
        self.change(|change| {
            change.execute(
                "INSERT INTO storage_tokens (hash, storage, made, expires) VALUES ($1, $2, $3, $4)",
                values![hash, Word(name), by.now_secs, expires],
            )?;
            note(change, by, "storage-token.make", name.as_str(), "")
        })
    }

    /// What the token allows at `now_secs`, for the machine that sends `request`.
    ///
    /// # Errors
    /// [`Error::Token`], [`Error::Database`].
    pub fn storage_server_token(
        &self,
        hash: &TokenHash,
        request: &[u8; 32],
        now_secs: i64,
    ) -> Result<StorageServerTokenUse> {
        self.look(|look| token(look, hash, request, now_secs))
    }

    /// Uses the token and adds the storage server with its certificate, or changes nothing. It replaces one of the
    /// same name, whose certificates become invalid and whose domains it takes over.
    ///
    /// # Errors
    /// [`Error::Token`] when it was used meanwhile; [`Error::Database`].
    pub fn enroll_storage_server(
        &self,
        by: By<'_>,
        new: StorageServerEnrollment<'_>,
    ) -> Result<()> {
        self.change(|change| {
            let used = change.execute(
                "UPDATE storage_tokens SET used_at = $2, request = $3, answer = $4
                 WHERE hash = $1 AND used_at IS NULL AND expires > $2",
                values![new.token, by.now_secs, new.request, Json(new.answer)],
            )?;
            if used == 0 {
                return Err(Error::Token(TokenRefusal::Used));
            }
            put(change, by, new)?;
            certificates::add(change, Holder::StorageServer, &new.answer.storage, new.certificate)?;
            let detail = format!("called {}", new.names.join(" "));
            note(change, by, "storage.enroll", new.answer.storage.as_str(), &detail)
        })
    }

    /// Revokes a storage server with all its certificates; it can enroll again with a new token.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Database`].
    pub fn revoke_storage_server(&self, by: By<'_>, name: &Name) -> Result<()> {
        self.change(|change| {
            let revoke = "UPDATE storage_servers SET revoked = 1 WHERE name = $1";
            found(change.execute(revoke, values![Word(name)])?, "storage", name)?;
            let revoke = "UPDATE storage_certificates SET revoked = 1 WHERE storage = $1";
            change.execute(revoke, values![Word(name)])?;
            note(change, by, "storage.revoke", name.as_str(), "")
        })
    }

    /// Records the last heartbeat of a storage server. Not in the audit log.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn storage_server_seen(&self, seen: &StorageServer) -> Result<()> {
        let number = |bytes: Option<u64>| bytes.and_then(|bytes| i64::try_from(bytes).ok());
        self.change(|change| {
            change.execute(
                "UPDATE storage_servers SET port = $2, last_seen = $3, version = $4, free_bytes = $5,
                 total_bytes = $6 WHERE name = $1",
                values![
                    Word(&seen.name),
                    seen.port,
                    seen.last_seen,
                    seen.version,
                    number(seen.bytes[0]),
                    number(seen.bytes[1]),
                ],
            )?;
            Ok(())
        })
    }

    /// Marks a lost job as running again.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn resume_job(&self, id: u64) -> Result<()> {
        self.change(|change| {
            change.execute(
                "UPDATE jobs SET state = 'running', ended = NULL, error = NULL
                 WHERE id = $1 AND state = 'lost'",
                values![id],
            )?;
            Ok(())
        })
    }
}

fn token(
    look: &Sql<'_>,
    hash: &TokenHash,
    request: &[u8; 32],
    now_secs: i64,
) -> Result<StorageServerTokenUse> {
    let select = "SELECT storage, expires, request, answer FROM storage_tokens WHERE hash = $1";
    let row = look.row(select, values![hash], |row| {
        let (name, answer) = (row.get::<Word<Name>>(0)?.0, row.get::<Option<Json<_>>>(3)?);
        Ok((name, row.get::<i64>(1)?, row.get::<Option<[u8; 32]>>(2)?, answer))
    })?;
    match row {
        None => Err(Error::Token(TokenRefusal::Unknown)),
        Some((_, expires, _, _)) if expires <= now_secs => Err(Error::Token(TokenRefusal::Expired)),
        Some((_, _, Some(sent), Some(Json(answer)))) if sent == *request => {
            Ok(StorageServerTokenUse::Answered(Box::new(answer)))
        }
        Some((_, _, Some(_), _)) => Err(Error::Token(TokenRefusal::Used)),
        Some((name, _, None, _)) => Ok(StorageServerTokenUse::Good(name)),
    }
}

fn put(change: &Sql<'_>, by: By<'_>, new: StorageServerEnrollment<'_>) -> Result<()> {
    let name = &new.answer.storage;
    let revoke = "UPDATE storage_certificates SET revoked = 1 WHERE storage = $1";
    change.execute(revoke, values![Word(name)])?;
    change.execute(
        "INSERT INTO storage_servers (name, names, made, version) VALUES ($1, $2, $3, $4)
         ON CONFLICT (name) DO UPDATE SET names = excluded.names, made = excluded.made,
         version = excluded.version, port = NULL, revoked = 0, alarm = NULL",
        values![Word(name), Json(new.names), by.now_secs, new.version],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BY, On, on_both};

    fn enroll(catalog: &Catalog, token: u8, serial: &str) -> Result<()> {
        let name: Name = "disk".parse().unwrap();
        catalog.add_storage_server_token(BY, &[token; 32], &name, 2_000).unwrap();
        let answer = EnrollStorageServerReply {
            storage: name,
            certificate: "c".into(),
            ca_certificate: "a".into(),
            expires: 9_000,
        };
        let certificate = Certificate { serial: serial.into(), not_before: 0, not_after: 9_000 };
        let new = StorageServerEnrollment {
            token: &[token; 32],
            request: &[9; 32],
            answer: &answer,
            certificate: &certificate,
            names: &["disk.example.com".to_owned()],
            version: "1",
        };
        catalog.enroll_storage_server(BY, new)
    }

    fn a_storage_server_is_enrolled_replaced_and_revoked(on: On) {
        let (_folder, catalog) = on.catalog();
        let name: Name = "disk".parse().unwrap();
        enroll(&catalog, 1, "aa").unwrap();
        let used = catalog.storage_server_token(&[1; 32], &[8; 32], 1_000).unwrap_err();
        assert!(matches!(used, Error::Token(TokenRefusal::Used)));
        let again = catalog.storage_server_token(&[1; 32], &[9; 32], 1_000).unwrap();
        assert!(matches!(again, StorageServerTokenUse::Answered(_)));
        enroll(&catalog, 2, "bb").unwrap();
        let of = Holder::StorageServer;
        let revoked = |serial| catalog.certificate(of, serial).unwrap().unwrap().revoked;
        assert_eq!([revoked("aa"), revoked("bb")], [true, false]);
        assert!(catalog.certificate(Holder::Node, "bb").unwrap().is_none(), "it is no node");
        let seen =
            StorageServer { port: Some(7), ..catalog.storage_server(&name).unwrap().unwrap() };
        catalog.storage_server_seen(&seen).unwrap();
        assert_eq!(catalog.storage_servers().unwrap(), [seen]);
        catalog.revoke_storage_server(BY, &name).unwrap();
        assert!(revoked("bb"));
        let next = Certificate { serial: "cc".into(), not_before: 0, not_after: 9_000 };
        let (holder, predecessor, next) = (&name, "bb", &next);
        let (key, pem, version) = (&[1; 32], "pem", "1");
        let asked = certificates::Renewal { of, holder, predecessor, key, next, pem, version };
        assert!(catalog.renew(BY, asked).is_err());
    }

    fn a_token_of_a_storage_server_makes_no_node_and_the_other_way_round(on: On) {
        let (_folder, catalog) = on.catalog();
        let name: Name = "disk".parse().unwrap();
        catalog.add_storage_server_token(BY, &[1; 32], &name, 2_000).unwrap();
        assert!(catalog.token(&[1; 32], &[9; 32], 1_000).is_err());
        assert!(catalog.storage_server_token(&[2; 32], &[9; 32], 1_000).is_err());
    }

    on_both![
        a_storage_server_is_enrolled_replaced_and_revoked,
        a_token_of_a_storage_server_makes_no_node_and_the_other_way_round,
    ];
}
