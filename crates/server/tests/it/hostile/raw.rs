//! Who speaks to the server packet by packet, and need not mean well. It has the certificate and
//! the keys of a node.

use crate::hostile::server::Machine;
use crypto::{Cipher, KeyRing, SignedKeyList, SlotSecret};
use format::manifest::{Head, MANIFEST_CONTEXT};
use format::record::{RecordKind, SealedRecord};
use ids::{ObjectId, SnapshotId};
use protocol::fault::Code;
use protocol::packet::{PathBytes, Purpose};
use protocol::{Packet, VERSION_NEWEST, VERSION_OLDEST};
use seal::{Block, BlockCompressor, Level, Sealer};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Longer than any answer takes.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

pub(crate) struct Raw {
    pub(crate) stream: TlsStream<TcpStream>,
    next: u32,
}

impl Raw {
    /// Connected, and nothing said.
    pub(crate) async fn connect(machine: &Machine) -> Self {
        let server = &machine.identity.server;
        let tcp = TcpStream::connect((server.host.as_str(), server.port)).await.unwrap();
        let tls = machine.identity.tls(protocol::ALPN).unwrap();
        let name = server.host.clone().try_into().unwrap();
        let stream = TlsConnector::from(tls).connect(name, tcp).await.unwrap();
        Self { stream, next: 1 }
    }

    /// Connected and greeted.
    pub(crate) async fn greeted(machine: &Machine) -> Self {
        let mut raw = Self::connect(machine).await;
        let answer = raw.ask(&hello()).await;
        assert!(matches!(answer, Packet::Welcome { .. }), "{answer:?}");
        raw
    }

    /// With the node's own domain open.
    pub(crate) async fn opened(machine: &Machine) -> Self {
        let mut raw = Self::greeted(machine).await;
        let answer = raw.ask(&open("")).await;
        assert!(matches!(answer, Packet::Opened { .. }), "{answer:?}");
        raw
    }

    pub(crate) async fn send(&mut self, packet: &Packet) -> u32 {
        let request = self.next;
        self.next += 1;
        self.send_bytes(&packet.frame(request)).await;
        request
    }

    /// Whatever becomes of it.
    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
        let _ = self.stream.flush().await;
    }

    /// The next packet that does not tell limits; `None` at the end of the connection.
    pub(crate) async fn next(&mut self) -> Option<Packet> {
        loop {
            match self.next_of_all().await {
                Some(Packet::Limits { .. }) => {}
                other => return other,
            }
        }
    }

    /// The next packet; `None` at the end of the connection.
    pub(crate) async fn next_of_all(&mut self) -> Option<Packet> {
        let read = async {
            let mut header = [0; 12];
            self.stream.read_exact(&mut header).await.ok()?;
            let length = u32::from_le_bytes(header[8..].try_into().unwrap());
            let mut body = vec![0; length as usize];
            self.stream.read_exact(&mut body).await.ok()?;
            Some(Packet::decode(header[0], body).unwrap())
        };
        tokio::time::timeout(ANSWER_WITHIN, read).await.expect("the server hangs")
    }

    pub(crate) async fn ask(&mut self, packet: &Packet) -> Packet {
        self.send(packet).await;
        self.next().await.unwrap_or_else(|| panic!("{} ended the connection", packet.name()))
    }

    /// Asks, and is told no.
    pub(crate) async fn is_refused(&mut self, packet: &Packet, code: Code) -> String {
        match self.ask(packet).await {
            Packet::Fault { code: said, message, .. } => {
                assert_eq!(Code::from_number(said), code, "{}: {message}", packet.name());
                message
            }
            other => panic!("{} was answered with {}", packet.name(), other.name()),
        }
    }

    /// The server ends the connection; what it said last, if it said anything.
    pub(crate) async fn is_left(&mut self) -> Option<Code> {
        let mut last = None;
        while let Some(packet) = self.next().await {
            if let Packet::Fault { code, .. } = packet {
                last = Some(Code::from_number(code));
            }
        }
        last
    }

    /// Begins a session with this sealer.
    pub(crate) async fn begin(&mut self, sealer: &Sealer) -> ([u8; 16], [u8; 16]) {
        match self.ask(&begin(sealer)).await {
            Packet::Begun { session, secret, .. } => (session, secret),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn number(&mut self) -> u64 {
        match self.ask(&Packet::GetNumber {}).await {
            Packet::Number { number } => number,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn hello() -> Packet {
    Packet::Hello { oldest: VERSION_OLDEST, newest: VERSION_NEWEST, program: "no friend".into() }
}

pub(crate) fn open(domain: &str) -> Packet {
    Packet::Open { domain: domain.to_owned(), purpose: Purpose::Backup }
}

pub(crate) fn begin(sealer: &Sealer) -> Packet {
    let record = PathBytes(sealer.session_record().to_bytes());
    Packet::Begin { base: None, what: String::new(), record }
}

/// The keys of a machine, stolen: what its slot opens.
pub(crate) async fn stolen_keys(machine: &Machine, raw: &mut Raw) -> (ids::KeyId, KeyRing) {
    let Packet::SlotList { slots, .. } = raw.ask(&Packet::ListSlots { after: None }).await else {
        panic!()
    };
    let secret = machine.identity.slot_secret.clone().unwrap();
    let mut rings = slots.iter().filter_map(|slot| {
        Some((slot.id, crypto::open_slot(&slot.bytes, SlotSecret::Recovery(*secret)).ok()?.1))
    });
    rings.next().unwrap()
}

pub(crate) fn sealer(ring: &KeyRing) -> Sealer {
    let mut random = [0; 80];
    getrandom::fill(&mut random).unwrap();
    Sealer::new(&ring.writer, random, Cipher::fastest())
}

/// The same, sealed to whom the key list names now.
pub(crate) async fn sealer_of_now(raw: &mut Raw, ring: &KeyRing) -> Sealer {
    let asked = raw.ask(&Packet::ListSlots { after: None }).await;
    let Packet::SlotList { slots, key_list, .. } = asked else { panic!() };
    let root = crypto::slot_info(&slots[0].bytes).unwrap().root;
    let list = SignedKeyList::verify(&key_list, &root, ring.writer.repository).unwrap();
    let mut random = [0; 80];
    getrandom::fill(&mut random).unwrap();
    Sealer::with_recipient(&list.recipient(), &ring.writer, random, Cipher::fastest())
}

/// A record with one chunk under this name.
pub(crate) fn record(sealer: &Sealer, id: ObjectId, bytes: &[u8]) -> SealedRecord {
    let mut block = Block::new(RecordKind::Data);
    block.push_chunk(id, bytes);
    let mut record = Sealer::empty_record();
    sealer
        .seal_block(&mut block, &mut BlockCompressor::new(Level::Fixed(1)).unwrap(), &mut record)
        .unwrap();
    record
}

pub(crate) fn append(record: &SealedRecord) -> Packet {
    Packet::Append { record: record.to_bytes() }
}

/// What a forger may choose in a manifest.
pub(crate) struct Forged<'a> {
    pub(crate) root: ObjectId,
    pub(crate) sealer: &'a Sealer,
    pub(crate) ring: &'a KeyRing,
    pub(crate) repository: [u8; 16],
    pub(crate) writer: ids::KeyId,
    pub(crate) sequence: u64,
    pub(crate) source: ObjectId,
}

/// A source that nobody has.
pub(crate) const NOBODYS: ObjectId = ObjectId([9; 24]);

impl Forged<'_> {
    pub(crate) fn commit(&self) -> Packet {
        let head = Head {
            sequence: self.sequence,
            source: self.source,
            source_sequence: 1,
            previous: SnapshotId([0; 16]),
            time_secs: 1,
            time_nanos: 0,
            root: self.root,
            level: 0,
            body: ObjectId([7; 24]),
            writer: self.writer,
            flags: 0,
            original: None,
        };
        let unsigned = head.encode();
        let message = [MANIFEST_CONTEXT, &self.repository, &unsigned].concat();
        let clear = [&unsigned[..], &self.ring.writer.sign(&message).unwrap()].concat();
        let mut packer = BlockCompressor::new(Level::Fixed(1)).unwrap();
        let kind = RecordKind::Manifest;
        let manifest = self.sealer.seal_single(kind, &clear, b"{}", &mut packer).unwrap();
        Packet::Commit { manifest: manifest.to_bytes() }
    }
}
