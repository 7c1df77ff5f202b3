//! A server that speaks the protocol with a good certificate, has a real repository behind it, and
//! lies where it is told to.

use format::record::{self, SealedRecord};
use parking_lot::Mutex;
use pki::certificate_authority::{CertificateAuthority, ServerNames, new_server_key};
use protocol::fault::{Code, fault};
use protocol::packet::{PathBytes, Slot, SnapshotName};
use protocol::{Packet, VERSION_NEWEST, flags};
use repository::Repository;
use repository::lease::Lease;
use repository::session::Session;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use store::{SnapshotRef, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

/// What it says instead of the truth.
pub(crate) enum Reply {
    /// These packets, as answers to what was asked.
    Say(Vec<Packet>),
    /// Bytes, whatever they are.
    Bytes(Vec<u8>),
    /// Nothing, and the connection is gone.
    Disconnect,
    /// Nothing.
    Silence,
}

/// What was asked, on which connection, and what an honest server would say.
pub(crate) struct Asked<'a> {
    pub(crate) connection: u64,
    pub(crate) packet: &'a Packet,
    pub(crate) honest: Option<Packet>,
}

impl Asked<'_> {
    /// The truth.
    pub(crate) fn honestly(self) -> Reply {
        self.honest.map_or(Reply::Silence, |packet| Reply::Say(vec![packet]))
    }
}

type Lie = dyn Fn(Asked<'_>) -> Reply + Send + Sync;

pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    pub(crate) ca_pem: String,
    ca: Arc<CertificateAuthority>,
    pub(crate) connections: Arc<AtomicU64>,
    _runtime: Runtime,
}

fn now_secs() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

impl Fake {
    pub(crate) fn start(
        repository: Option<Arc<Repository>>,
        lie: impl Fn(Asked<'_>) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let made = CertificateAuthority::generate(now_secs()).unwrap();
        let ca = CertificateAuthority::load(&made.certificate_pem, &made.key_pem).unwrap();
        Self::of(Arc::new(ca), made.certificate_pem, repository, Arc::new(lie))
    }

    /// Another server of the same ca.
    pub(crate) fn beside(
        &self,
        repository: Option<Arc<Repository>>,
        lie: impl Fn(Asked<'_>) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let ca_pem = self.ca_pem.clone();
        Self::of(self.ca.clone(), ca_pem, repository, Arc::new(lie))
    }

    fn of(
        ca: Arc<CertificateAuthority>,
        ca_pem: String,
        repository: Option<Arc<Repository>>,
        lie: Arc<Lie>,
    ) -> Self {
        let key = new_server_key().unwrap();
        let names = ServerNames::of(["127.0.0.1"]);
        let issued = ca.issue_server(&key, &names, now_secs()).unwrap();
        let shown = pki::ServerCertificate::new(&issued, &key, ca.certificate()).unwrap();
        let tls = pki::server::server_config(shown, ca.certificate()).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicU64::new(0));
        let counter = connections.clone();
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let connection = counter.fetch_add(1, Ordering::SeqCst) + 1;
                let backend = Backend::new(repository.clone());
                tokio::spawn(serve(acceptor.clone(), stream, connection, backend, lie.clone()));
            }
        });
        Self { address, ca_pem, ca, connections, _runtime: runtime }
    }

    /// A folder that makes a machine a node of this server.
    pub(crate) fn enroll(&self, folder: &std::path::Path) {
        let node = pki::NodeKey::generate().unwrap();
        let issued = self.ca.issue_node(&node.request_pem, "web", now_secs()).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        std::fs::create_dir_all(folder).unwrap();
        write("ca.pem", &self.ca_pem);
        write("node.pem", &format!("{}{}", issued.pem, &*node.key_pem));
        let server = format!("https://{}", self.address);
        let lines = ["node = \"web\"", "domain = \"web\"", "keys = \"client\"", "role = \"full\""];
        write("agent.toml", &format!("server = \"{server}\"\n{}\n", lines.join("\n")));
    }
}

async fn serve(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    connection: u64,
    mut backend: Backend,
    lie: Arc<Lie>,
) -> Option<()> {
    let mut stream = acceptor.accept(stream).await.ok()?;
    loop {
        let mut header = [0; 12];
        stream.read_exact(&mut header).await.ok()?;
        let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        let mut body = vec![0; number(8) as usize];
        stream.read_exact(&mut body).await.ok()?;
        let packet = Packet::decode(header[0], body).unwrap();
        let honest = backend.answer(&packet);
        match lie(Asked { connection, packet: &packet, honest }) {
            Reply::Say(packets) => {
                for packet in packets {
                    stream.write_all(&packet.frame(number(4))).await.ok()?;
                }
            }
            Reply::Bytes(bytes) => stream.write_all(&bytes).await.ok()?,
            Reply::Disconnect => return None,
            Reply::Silence => {}
        }
        stream.flush().await.ok()?;
    }
}

/// The honest part, for one connection.
struct Backend {
    repository: Option<Arc<Repository>>,
    session: Mutex<Option<(Arc<Lease>, Session)>>,
    applied: u64,
}

impl Backend {
    fn new(repository: Option<Arc<Repository>>) -> Self {
        Self { repository, session: Mutex::default(), applied: 0 }
    }

    fn answer(&mut self, packet: &Packet) -> Option<Packet> {
        Some(match packet {
            Packet::Hello { .. } => Packet::Welcome {
                version: VERSION_NEWEST,
                program: "fake".into(),
                time_secs: now_secs(),
                node: "web".into(),
                window_bytes: 1 << 20,
                streams: 4,
            },
            Packet::Open { .. } => self.opened(),
            Packet::Progress { .. } => return None,
            Packet::Finish { .. } | Packet::Bye {} | Packet::CommandDone { .. } => Packet::Done {},
            Packet::Ping {} => Packet::Pong {},
            Packet::Attach { .. } => fault(Code::NoSession, "no such session", "", &[]),
            other => {
                let answer = self.of_repository(other);
                answer.unwrap_or_else(|error| fault(Code::Failed, &error.to_string(), "", &[]))
            }
        })
    }

    fn opened(&self) -> Packet {
        let config = self.repository.as_ref().map_or_else(Vec::new, |it| it.config().encode());
        Packet::Opened {
            domain: "web".into(),
            config: PathBytes(config),
            damage_epoch: self.repository.as_ref().map_or(0, |it| it.damage_epoch()),
            may_write: true,
            may_read: true,
            may_init: false,
            receipt_keys: Vec::new(),
        }
    }

    fn of_repository(&mut self, packet: &Packet) -> store::Result<Packet> {
        let repository = self.repository.clone();
        let repository = repository.ok_or(store::Error::LocalOnly)?;
        let store: &dyn Store = &*repository;
        Ok(match packet {
            Packet::ListSnapshots { after } => {
                let all = store.snapshots()?.into_iter().filter(|name| name.sequence > *after);
                Packet::SnapshotList { names: all.map(name_of).collect(), more: false }
            }
            Packet::GetSnapshot { name } => {
                let stored =
                    store.snapshot(SnapshotRef { sequence: name.sequence, id: name.id })?;
                Packet::Snapshot { name: *name, file: stored.to_bytes() }
            }
            Packet::GetNewest { source } => match store.latest_snapshot(source)? {
                Some(stored) => {
                    Packet::Snapshot { name: name_of(stored.name), file: stored.to_bytes() }
                }
                None => Packet::NotFound {},
            },
            Packet::ListSlots { .. } => {
                let slots = store.key_slots()?.into_iter();
                let slots = slots.map(|(id, bytes)| Slot { id, bytes }).collect();
                let key_list = store.key_list(true)?.unwrap_or_default();
                Packet::SlotList { slots, more: false, key_list }
            }
            Packet::Locate { ids } => Packet::Locations { locations: store.locate(ids)? },
            Packet::Read { location } => {
                let mut record = Vec::new();
                store.read(*location, &mut record)?;
                Packet::Record { location: *location, record }
            }
            Packet::Fetch { id } => {
                let mut record = Vec::new();
                let location = store.fetch(id, &mut record)?;
                Packet::Record { location, record }
            }
            Packet::Heal { .. } => Packet::NotFound {},
            Packet::GetKeys { container, healed } => {
                let keys = store.session_keys(*container, *healed)?;
                Packet::Keys { keys: keys.into_iter().map(PathBytes).collect() }
            }
            other => self.of_session(&repository, other)?,
        })
    }

    fn of_session(
        &mut self,
        repository: &Arc<Repository>,
        packet: &Packet,
    ) -> store::Result<Packet> {
        if let Packet::Begin { record, .. } = packet {
            let lease = repository.lease("fake")?;
            let session = repository.begin(&lease, None, sealed(&record.0))?;
            *self.session.lock() = Some((lease, session));
            self.applied = 0;
            return Ok(Packet::Begun { session: [1; 16], secret: [2; 16], is_empty: false });
        }
        let mut guard = self.session.lock();
        if let Packet::Commit { manifest } = packet {
            let (_lease, session) = guard.take().ok_or(store::Error::SessionLost)?;
            let done = session.commit(&sealed(manifest))?;
            let stored_bytes = done.stored_bytes;
            return Ok(Packet::Committed { name: name_of(done.snapshot), stored_bytes });
        }
        let (_, session) = guard.as_ref().ok_or(store::Error::SessionLost)?;
        Ok(match packet {
            Packet::Claim { ids } => {
                let new: Result<Vec<_>, _> = ids.iter().map(|id| session.claim(id)).collect();
                flags::pack(&new?)
            }
            Packet::Holds { ids } => {
                let held: Result<Vec<_>, _> = ids.iter().map(|id| session.is_stored(id)).collect();
                flags::pack(&held?)
            }
            Packet::Append { record } => {
                session.append_bytes(record)?;
                self.applied += 1;
                Packet::Stored { applied: self.applied, stored_bytes: session.stored_bytes() }
            }
            Packet::GetNumber {} => Packet::Number { number: session.next_snapshot() },
            other => fault(Code::Protocol, other.name(), "", &[]),
        })
    }
}

fn name_of(name: SnapshotRef) -> SnapshotName {
    SnapshotName { sequence: name.sequence, id: name.id }
}

fn sealed(bytes: &[u8]) -> SealedRecord {
    let record = record::verify(bytes).unwrap();
    let (associated, sealed) = (record.associated.to_vec(), record.sealed.to_vec());
    SealedRecord { kind: record.header.kind, ids: Vec::new(), associated, sealed }
}
