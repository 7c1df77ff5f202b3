//! The repository of a domain on a storage server, as the control server uses it: a few requests of the data
//! protocol, each on its own connection with a certificate that is issued for it and saved nowhere.

mod away;
mod exchange;
mod expiring;
mod upkeep;

pub(crate) use away::AwayServers;

use crate::certificate_issuer::CertificateIssuer;
use crate::repositories::Slot;
use crate::{Result, now_secs};
use api::Name;
use exchange::Exchange;
use ids::KeyId;
use protocol::Packet;
use protocol::fault::Code;
use protocol::packet::{PathBytes, Slot as SlotPacket, SnapshotName};
use repository::config::Config;
use repository::keys::Keys;
use repository::snapshots::{SnapshotRef, StoredSnapshot, decode};
use server_contract::Repositories;
use server_contract::access_control::CONTROL_SERVER;
use std::sync::Arc;
use std::time::Duration;

/// More key slots than any domain has.
const SLOTS_MAX: usize = 64 << 10;
/// Time for connecting, TLS, and opening the domain.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Time for each reply.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Time for all replies to what is asked at once.
const ANSWER_ALL_WITHIN: Duration = Duration::from_secs(10 * 60);
/// Requests in flight at once.
const ASKED_AHEAD: usize = 64;
/// Maximum number of snapshots of one domain in a list, and of the bytes of their files.
const SNAPSHOTS_LISTED_MAX: usize = 1 << 18;
const SNAPSHOTS_BYTES_MAX: usize = 256 << 20;

/// A domain on a storage server.
pub(crate) struct RemoteDomain {
    storage: Name,
    host: String,
    port: u16,
    domain: Name,
    /// The repository that was seen there, if one was.
    known: Option<String>,
    tls: Arc<rustls::ClientConfig>,
    /// Storage servers that did not answer lately.
    away: Arc<AwayServers>,
    /// Signs what expires.
    signer: Arc<dyn Repositories>,
}

impl RemoteDomain {
    /// The domain `domain` on the storage server `storage`, which is at `address`.
    pub(crate) fn new(
        issuer: &CertificateIssuer,
        address: (String, u16),
        (storage, domain): (&Name, &Name),
        (away, signer): (Arc<AwayServers>, Arc<dyn Repositories>),
    ) -> Result<Self> {
        let key = pki::NodeKey::generate()?;
        let issued = issuer.ca().issue_node(&key.request_pem, CONTROL_SERVER, now_secs())?;
        let identity = Some((issued.pem.as_str(), key.key_pem.as_str()));
        let tls = pki::client::client_config(issuer.pem(), identity, protocol::ALPN)?;
        let (host, port) = address;
        let (storage, domain, tls) = (storage.clone(), domain.clone(), Arc::new(tls));
        Ok(Self { storage, host, port, domain, known: None, tls, away, signer })
    }

    /// This repository was seen there: without it, it is lost, and another one is not taken for it.
    pub(crate) fn knows(self, known: Option<String>) -> Self {
        Self { known, ..self }
    }

    /// The storage server.
    pub(crate) fn storage(&self) -> &Name {
        &self.storage
    }

    /// The settings of the repository; `None` if there is none.
    pub(crate) fn config(&self) -> Result<Option<Config>> {
        self.wait(async { self.connect().await?.config() })
    }

    /// Creates the repository.
    pub(crate) fn init(&self, config: &Config, keys: &Keys) -> Result<()> {
        let slots = keys.slots.iter();
        let slots = slots.map(|(id, bytes)| SlotPacket { id: *id, bytes: bytes.clone() }).collect();
        let (config, key_list) = (PathBytes(config.encode()), keys.key_list.clone());
        self.ask(Packet::Init { config, slots, key_list }).map(drop)
    }

    /// The key slots.
    pub(crate) fn key_slots(&self) -> Result<Vec<Slot>> {
        self.wait(async {
            let mut exchange = self.connect().await?;
            let mut all: Vec<Slot> = Vec::new();
            loop {
                let after = all.last().map(|(id, _)| *id);
                let (slots, more, _) = self.slots_after(&mut exchange, after).await?;
                all.extend(slots);
                // A list that does not rise would be asked for ever.
                match all.last().map(|(id, _)| *id) {
                    last if more && last > after && all.len() < SLOTS_MAX => {}
                    _ => return Ok(all),
                }
            }
        })
    }

    /// The key list.
    pub(crate) fn key_list(&self) -> Result<Option<Vec<u8>>> {
        self.wait(async {
            let mut exchange = self.connect().await?;
            let (_, _, key_list) = self.slots_after(&mut exchange, None).await?;
            Ok(Some(key_list).filter(|key_list| !key_list.is_empty()))
        })
    }

    async fn slots_after(
        &self,
        exchange: &mut Exchange,
        after: Option<KeyId>,
    ) -> Result<(Vec<Slot>, bool, Vec<u8>)> {
        self.send(exchange, &[Packet::ListSlots { after }]).await?;
        match self.receive(exchange).await? {
            Packet::Fault { code, .. } if code == Code::Damaged as u16 => {
                let reason = format::Error::Invalid { what: "key list" };
                Err(repository::Error::damaged(repository::keys::KEY_LIST[0], reason).into())
            }
            Packet::Fault { message, .. } => Err(self.failed(message)),
            Packet::SlotList { slots, more, key_list } => {
                Ok((slots.into_iter().map(|slot| (slot.id, slot.bytes)).collect(), more, key_list))
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// Durably replaces the key list by the next one.
    pub(crate) fn put_key_list(&self, list: &[u8]) -> Result<()> {
        self.ask(Packet::PutKeyList { key_list: list.to_vec() }).map(drop)
    }

    /// The names of the snapshots, oldest first.
    pub(crate) fn snapshot_names(&self) -> Result<Vec<SnapshotRef>> {
        self.wait(async {
            let mut exchange = self.connect().await?;
            let names = self.names(&mut exchange).await?.into_iter();
            Ok(names.map(|name| SnapshotRef { sequence: name.sequence, id: name.id }).collect())
        })
    }

    /// Durably adds a key slot.
    pub(crate) fn put_key_slot(&self, id: KeyId, slot: &[u8]) -> Result<()> {
        let bytes = slot.to_vec();
        self.ask(Packet::PutSlot { slot: SlotPacket { id, bytes } }).map(drop)
    }

    /// Durably removes a key slot, if it exists.
    pub(crate) fn remove_key_slot(&self, id: KeyId) -> Result<()> {
        self.ask(Packet::RemoveSlot { id }).map(drop)
    }

    /// The snapshots, oldest first; for one that cannot be read only its name.
    pub(crate) fn snapshots(
        &self,
    ) -> Result<Vec<std::result::Result<StoredSnapshot, SnapshotRef>>> {
        self.wait(async {
            let mut exchange = self.connect().await?;
            let mut found = Vec::new();
            let names = self.names(&mut exchange).await?;
            let mut bytes = 0;
            for some in names.chunks(ASKED_AHEAD) {
                let ask = |name: &SnapshotName| Packet::GetSnapshot { name: *name };
                self.send(&mut exchange, &some.iter().map(ask).collect::<Vec<_>>()).await?;
                for name in some {
                    let name = SnapshotRef { sequence: name.sequence, id: name.id };
                    found.extend(self.head(&mut exchange, name, &mut bytes).await?);
                    if bytes > SNAPSHOTS_BYTES_MAX {
                        return Err(self.failed("its snapshots are too large to be listed"));
                    }
                }
            }
            Ok(found)
        })
    }

    /// The reply to `GetSnapshot`; `None` when it was forgotten meanwhile.
    async fn head(
        &self,
        exchange: &mut Exchange,
        name: SnapshotRef,
        bytes: &mut usize,
    ) -> Result<Option<std::result::Result<StoredSnapshot, SnapshotRef>>> {
        match self.receive(exchange).await? {
            Packet::Snapshot { file, .. } => {
                *bytes += file.len();
                Ok(Some(decode(name, &file).map_err(|_| name)))
            }
            Packet::Fault { code, .. } if code == Code::SnapshotMissing as u16 => Ok(None),
            Packet::Fault { code, .. } if is_of_the_file(code) => Ok(Some(Err(name))),
            other => Err(self.unexpected(&self.done(other)?)),
        }
    }

    /// The names of the snapshots; none before there is a repository.
    async fn names(&self, exchange: &mut Exchange) -> Result<Vec<SnapshotName>> {
        let (mut all, mut after) = (Vec::<SnapshotName>::new(), 0);
        if exchange.config.is_empty() {
            return if self.known.is_some() { Err(self.has_none()) } else { Ok(all) };
        }
        loop {
            self.send(exchange, &[Packet::ListSnapshots { after }]).await?;
            match self.done(self.receive(exchange).await?)? {
                Packet::SnapshotList { names, more } => {
                    // A list that does not rise, or has no end, would be asked for ever.
                    let last = checked(&names, after, all.len()).map_err(|why| self.failed(why))?;
                    all.extend(names);
                    if !more {
                        return Ok(all);
                    }
                    after = last;
                }
                other => return Err(self.unexpected(&other)),
            }
        }
    }
}

/// Whether a fault says that the file of the snapshot cannot be read. Others are about the server, and may pass: what
/// nobody looked at is not damaged.
fn is_of_the_file(code: u16) -> bool {
    [Code::Damaged, Code::Storage].iter().any(|of_the_file| *of_the_file as u16 == code)
}

/// The last number of a part of a list that comes after the number `after`, in order; or why the list is refused.
fn checked(names: &[SnapshotName], after: u64, before: usize) -> std::result::Result<u64, String> {
    if before + names.len() > SNAPSHOTS_LISTED_MAX {
        return Err(format!("it lists more than {SNAPSHOTS_LISTED_MAX} snapshots"));
    }
    match SnapshotName::rise(after, names) {
        true => Ok(names.last().map_or(after, |last| last.sequence)),
        false => Err("its list of snapshots is not in order".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(numbers: &[u64]) -> Vec<SnapshotName> {
        let name = |(at, number): (usize, &u64)| SnapshotName {
            sequence: *number,
            id: ids::SnapshotId([at as u8; 16]),
        };
        numbers.iter().enumerate().map(name).collect()
    }

    /// Seen: the snapshots of a storage server that was shutting down were listed as damaged.
    #[test]
    fn only_what_cannot_be_read_counts_as_damaged() {
        let of_the_file = Code::ALL.into_iter().filter(|code| is_of_the_file(*code as u16));
        assert_eq!(of_the_file.collect::<Vec<_>>(), [Code::Damaged, Code::Storage]);
        assert!(!is_of_the_file(u16::MAX), "of a later version");
    }

    /// Seen: the domain was neither listed nor expired any more, and no key of it could be removed.
    #[test]
    fn two_snapshots_of_a_forked_history_have_one_number() {
        assert_eq!(checked(&names(&[3, 5, 5, 6]), 2, 0), Ok(6));
        assert_eq!(checked(&names(&[3, 3]), 2, 0), Ok(3));
        assert!(checked(&names(&[3, 3]), 3, 0).is_err(), "both come on one page");
    }

    #[test]
    fn a_list_without_an_end_is_not_believed() {
        assert_eq!(checked(&names(&[3, 5]), 2, 0), Ok(5));
        assert!(checked(&names(&[2]), 2, 0).is_err());
        assert!(checked(&names(&[3, 5, 4]), 2, 0).is_err());
        let twice = [names(&[3]), names(&[3])].concat();
        assert!(checked(&twice, 2, 0).is_err());
        assert!(checked(&names(&[9]), 2, SNAPSHOTS_LISTED_MAX).is_err());
    }
}
