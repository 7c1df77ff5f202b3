//! Retention of a domain on a storage server: what its snapshots and their receipts say is read and verified here, and
//! what expires is signed here. The storage server looks at the locks, and decides nothing else.

use super::exchange::Exchange;
use super::{ASKED_AHEAD, RemoteDomain};
use crate::{Error, Result};
use clock::Reading;
use ids::SnapshotId;
use protocol::Packet;
use protocol::fault::Code;
use protocol::limits::SNAPSHOTS_MAX;
use protocol::packet::SnapshotName;
use repository::received::{ReceivedSnapshot, RepositoryElsewhere};
use repository::snapshots::{SnapshotRef, decode};
use rustc_hash::FxHashMap;
use server_contract::Expired;

/// First version with the packet `Expire`.
const VERSION_EXPIRE: u16 = 4;

/// Locks are told at once, so the second expiry names none; a storage server that tells others each time is not
/// believed.
const SIGNED_MAX: usize = 4;

/// Until when snapshots are locked.
type Locked = FxHashMap<SnapshotId, i64>;

impl RemoteDomain {
    /// What is known without keys of snapshots, each by itself.
    pub(crate) fn received(
        &self,
        names: &[SnapshotRef],
    ) -> Result<Vec<repository::Result<ReceivedSnapshot>>> {
        self.wait(async {
            let mut exchange = self.connect().await?;
            let Some(there) = exchange.repository()? else { return Err(self.has_none()) };
            let mut found = Vec::new();
            for some in names.chunks(ASKED_AHEAD) {
                let ask = |name: &SnapshotRef| {
                    let name = SnapshotName { sequence: name.sequence, id: name.id };
                    Packet::GetSnapshot { name }
                };
                self.send(&mut exchange, &some.iter().map(ask).collect::<Vec<_>>()).await?;
                for name in some {
                    found.push(self.received_one(&mut exchange, &there, *name).await?);
                }
            }
            Ok(found)
        })
    }

    /// The next reply: the snapshot `name`. That it is gone or damaged is a fact; another failure says nothing.
    async fn received_one(
        &self,
        exchange: &mut Exchange,
        there: &RepositoryElsewhere,
        name: SnapshotRef,
    ) -> Result<repository::Result<ReceivedSnapshot>> {
        match self.receive(exchange).await? {
            Packet::Snapshot { file, .. } => {
                Ok(decode(name, &file).map(|stored| there.received(&stored)))
            }
            Packet::Fault { code, message, .. } => match Code::from_number(code) {
                Code::SnapshotMissing => Ok(Err(repository::Error::SnapshotMissing(name.id))),
                Code::Damaged => {
                    let reason = format::Error::Invalid { what: "snapshot" };
                    Ok(Err(repository::Error::damaged(&name.path(), reason)))
                }
                _ => Err(self.failed(message)),
            },
            other => Err(self.unexpected(&other)),
        }
    }

    /// Lets snapshots expire. What is locked there stays, whatever is known here.
    pub(crate) fn expire(&self, ids: &[SnapshotId], now: Reading) -> Result<Expired> {
        if let Some(doubt) = now.doubt {
            let why = format!("nothing expires while {doubt}");
            let refused = ids.iter().map(|id| (*id, why.clone())).collect();
            return Ok(Expired { removed: Vec::new(), refused });
        }
        self.wait(async {
            let mut exchange = self.connect().await?;
            self.must_know(&exchange, VERSION_EXPIRE)?;
            let Some(there) = exchange.repository()? else { return Err(self.has_none()) };
            let mut locked = Locked::default();
            for some in ids.chunks(SNAPSHOTS_MAX) {
                locked.extend(self.expire_some(&mut exchange, &there, some, now.secs).await?);
            }
            Ok(Expired::of(ids, &locked))
        })
    }

    /// Nothing goes of an expiry that names a locked snapshot: another one is signed without it.
    async fn expire_some(
        &self,
        exchange: &mut Exchange,
        there: &RepositoryElsewhere,
        ids: &[SnapshotId],
        now_secs: i64,
    ) -> Result<Locked> {
        let mut locked = Locked::default();
        for _ in 0..SIGNED_MAX {
            let free: Vec<_> = ids.iter().filter(|id| !locked.contains_key(*id)).copied().collect();
            if free.is_empty() {
                return Ok(locked);
            }
            let expiry = self.signer.sign_expiry(there.repository, &free, now_secs)?;
            self.send(exchange, &[Packet::Expire { expiry }]).await?;
            let told = match self.done(self.receive(exchange).await?)? {
                Packet::Expired { locked } => locked,
                other => return Err(self.unexpected(&other)),
            };
            let told: Vec<_> = told.iter().filter(|lock| free.contains(&lock.id)).collect();
            if told.is_empty() {
                return Ok(locked);
            }
            locked.extend(told.iter().map(|lock| (lock.id, lock.until_secs)));
        }
        Err(self.failed("it tells other locks each time"))
    }

    pub(super) fn has_none(&self) -> Error {
        self.failed("the domain has no repository there any more")
    }
}
