//! All packets, in one table: number, name, sender, longest body, the states in which it may come,
//! the state that it leads to, and its fields in order.

use crate::field::Field;
pub use crate::field::{PathBytes, Purpose, Slot, SnapshotName};
use crate::limits::{
    FORGET_BYTES_MAX, JSON_BYTES_MAX, KEY_LIST_BYTES_MAX, RECORD_PACKET_BYTES_MAX, SMALL_BYTES_MAX,
    SNAPSHOT_BYTES_MAX,
};
use crate::state::State;
use crate::{Error, Result, limits};
use format::wire::Reader;
use ids::{ContainerNo, KeyId, ObjectId, RecordLocation};

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Who connected: an agent, or a command.
    Client,
    /// Who was connected to.
    Server,
}

/// What is known of a kind of packet before it is read.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its number.
    pub kind: u8,
    /// Its name.
    pub name: &'static str,
    /// Who sends it.
    pub from: End,
    /// Longest body in bytes.
    pub limit: usize,
    /// States in which the server accepts it; none for packets of the server.
    pub states: &'static [State],
    /// The state of the connection once the server has sent it, where it changes the state.
    pub next: Option<State>,
    /// Names and types of its fields.
    pub fields: &'static [(&'static str, &'static str)],
}

macro_rules! packets {
    ($( $(#[$doc:meta])* $kind:literal $name:ident $from:ident $limit:expr,
        [$($state:ident)*] $(-> $next:ident)? {
        $( $(#[$field_doc:meta])* $field:ident : $type:ty ),* $(,)?
    } $(tail $tail:ident)? )*) => {
        /// A packet.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Packet {
            $( $(#[$doc])* $name {
                $( $(#[$field_doc])* $field: $type, )*
                $( /// Bytes that fill the rest of the body.
                $tail: Vec<u8>, )?
            }, )*
        }

        /// All kinds of packets, by number.
        pub const RULES: &[Rule] = &[ $( Rule {
            kind: $kind,
            name: stringify!($name),
            from: End::$from,
            limit: $limit,
            states: &[ $( State::$state, )* ],
            next: next_of!($($next)?),
            fields: &[ $( (stringify!($field), stringify!($type)), )* $( (stringify!($tail), "rest"), )? ],
        }, )* ];

        /// Numbers of packets, by name.
        #[allow(missing_docs, non_upper_case_globals)]
        pub mod kind {
            $( pub const $name: u8 = $kind; )*
        }

        impl Packet {
            /// Its number.
            pub fn kind(&self) -> u8 {
                match self { $( Packet::$name { .. } => $kind, )* }
            }

            /// Appends the body to `out`. Bytes that fill the rest come first: then who receives
            /// them need not move them.
            pub fn encode_body(&self, out: &mut Vec<u8>) {
                match self { $( Packet::$name { $($field,)* $($tail,)? } => {
                    $( out.extend_from_slice($tail); )?
                    #[allow(unused_variables, unused_mut)]
                    let start = out.len();
                    $( $field.put(out); )*
                    $( tail_length(out, start, stringify!($tail)); )?
                } )* }
            }

            /// The packet of `kind` whose body is `body`.
            pub fn decode(kind: u8, body: Vec<u8>) -> Result<Self> {
                match kind { $( $kind => {
                    #[allow(unused_mut)]
                    let mut body = body;
                    let malformed = |reason| Error::Malformed { packet: stringify!($name), reason };
                    let fields = fields_of(&mut body, tail_of!($($tail)?)).map_err(malformed)?;
                    #[allow(unused_mut)]
                    let mut reader = Reader::new(&fields, stringify!($name));
                    #[allow(clippy::redundant_closure_call)]
                    let packet = (|| -> format::Result<Self> {
                        $( let $field = <$type as Field>::take(&mut reader)?; )*
                        reader.end()?;
                        Ok(Packet::$name { $($field,)* $( $tail: std::mem::take(&mut body), )? })
                    })();
                    packet.map_err(malformed)
                } )* _ => Err(Error::Unknown(kind)) }
            }
        }
    };
}

macro_rules! next_of {
    () => {
        None
    };
    ($next:ident) => {
        Some(State::$next)
    };
}

macro_rules! tail_of {
    () => {
        false
    };
    ($tail:ident) => {
        true
    };
}

/// Notes how many bytes the fields behind the rest take: two bytes at the very end.
fn tail_length(out: &mut Vec<u8>, start: usize, _tail: &str) {
    let length = (out.len() - start) as u16;
    out.extend_from_slice(&length.to_le_bytes());
}

/// Takes the fields out of `body`; what is left of it is the rest.
fn fields_of(body: &mut Vec<u8>, has_rest: bool) -> format::Result<Vec<u8>> {
    if !has_rest {
        return Ok(std::mem::take(body));
    }
    let truncated = format::Error::Truncated { what: "packet" };
    let (before, length) = body.split_last_chunk::<2>().ok_or(truncated.clone())?;
    let start = before.len().checked_sub(u16::from_le_bytes(*length).into()).ok_or(truncated)?;
    let fields = before[start..].to_vec();
    body.truncate(start);
    Ok(fields)
}

/// What is known of packets of this kind.
pub fn rule(kind: u8) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.kind == kind)
}

/// Name of packets of this kind.
pub fn name(kind: u8) -> &'static str {
    rule(kind).map_or("an unknown packet", |rule| rule.name)
}

const IDS_BYTES_MAX: usize = limits::IDS_MAX * ObjectId::LEN + 16;
const SLOTS_BYTES_MAX: usize = 1 << 20;

packets! {
    /// The first packet of every connection.
    1 Hello Client SMALL_BYTES_MAX, [New] {
        /// Oldest version that the client speaks.
        oldest: u16,
        /// Newest version that the client speaks.
        newest: u16,
        /// Program and version.
        program: String,
    }
    /// Chooses a domain.
    2 Open Client SMALL_BYTES_MAX, [Greeted] {
        /// Its name; empty for the node's own.
        domain: String,
        /// What the connection is for.
        purpose: Purpose,
    }
    /// Makes the repository of the domain.
    3 Init Client KEY_LIST_BYTES_MAX + SMALL_BYTES_MAX, [Open] {
        /// Its settings, as the file `config` has them.
        config: PathBytes,
        /// Its first key slots.
        slots: Vec<Slot>,
    } tail key_list
    /// Asks for names of snapshots, in the order made.
    4 ListSnapshots Client SMALL_BYTES_MAX, [Open InSession] {
        /// Only those with a higher number.
        after: u64,
    }
    /// Asks for a snapshot.
    5 GetSnapshot Client SMALL_BYTES_MAX, [Open InSession] {
        /// Which one.
        name: SnapshotName,
    }
    /// Asks for the newest snapshot of a source.
    6 GetNewest Client SMALL_BYTES_MAX, [Open InSession] {
        /// The source.
        source: ObjectId,
    }
    /// Asks for key slots, by their ids.
    7 ListSlots Client SMALL_BYTES_MAX, [Open InSession] {
        /// Only those behind this one.
        after: Option<KeyId>,
    }
    /// Asks where objects lie.
    8 Locate Client IDS_BYTES_MAX, [Open InSession] {
        /// The objects.
        ids: Vec<ObjectId>,
    }
    /// Asks for a record.
    9 Read Client SMALL_BYTES_MAX, [Open InSession] {
        /// Where it lies.
        place: RecordLocation,
    }
    /// Asks for the record that holds an object.
    10 Fetch Client SMALL_BYTES_MAX, [Open InSession] {
        /// The object.
        id: ObjectId,
    }
    /// Asks for the sealed session keys in a container.
    11 GetKeys Client SMALL_BYTES_MAX, [Open InSession] {
        /// The container.
        container: ContainerNo,
        /// As parity has them.
        healed: bool,
    }
    /// Asks for a record that has rotted, from parity.
    12 Heal Client SMALL_BYTES_MAX, [Open InSession] {
        /// Where it lies.
        place: RecordLocation,
    }
    /// Begins a session.
    13 Begin Client SMALL_BYTES_MAX, [Open] {
        /// The snapshot that it builds on.
        base: Option<SnapshotName>,
        /// What is backed up, for people; empty when that is sealed.
        what: String,
        /// The session record, as a container has it.
        record: PathBytes,
    }
    /// Joins a session with a further stream, or comes back to it after a cut.
    14 Attach Client SMALL_BYTES_MAX, [Greeted] {
        /// The session.
        session: [u8; 16],
        /// Its secret.
        secret: [u8; 16],
        /// Which of its streams, from 0.
        stream: u8,
    }
    /// Asks which objects have to be stored, and promises to store those.
    15 Claim Client IDS_BYTES_MAX, [InSession] {
        /// The objects.
        ids: Vec<ObjectId>,
    }
    /// Asks which objects are stored and will go on to be.
    16 Holds Client IDS_BYTES_MAX, [InSession] {
        /// The objects.
        ids: Vec<ObjectId>,
    }
    /// Stores a record. Acknowledged by `Stored`, some time.
    17 Append Client RECORD_PACKET_BYTES_MAX, [InSession] {} tail record
    /// Asks for the number of the session's snapshot.
    18 GetNumber Client SMALL_BYTES_MAX, [InSession] {}
    /// Publishes the session as a snapshot.
    19 Commit Client SNAPSHOT_BYTES_MAX, [InSession] {} tail manifest
    /// Tells where a job is. Not answered.
    20 Progress Client SMALL_BYTES_MAX, [Open InSession] {
        /// Objects dealt with.
        objects: u64,
        /// Bytes of these.
        bytes: u64,
        /// Bytes read from the source.
        bytes_read: u64,
        /// What the job is at.
        stage: String,
        /// The path that is dealt with; empty when it is sealed.
        path: PathBytes,
    }
    /// Ends a job, with its report: a restore, or a session with its snapshot or without one.
    21 Finish Client JSON_BYTES_MAX, [Open InSession] {
        /// Whether it went well.
        is_complete: bool,
    } tail report
    /// Asks for so many bytes of noise, to measure the way; answered by `Noise` packets.
    22 GetNoise Client SMALL_BYTES_MAX, [Greeted Open InSession] {
        /// How many.
        bytes: u64,
    }
    /// Noise, to measure the way. Acknowledged by `Stored`.
    23 SendNoise Client RECORD_PACKET_BYTES_MAX, [Greeted Open InSession] {} tail noise
    /// Is the other end there?
    24 Ping Client SMALL_BYTES_MAX, [Greeted Open InSession] {}
    /// Ends the connection in order.
    25 Bye Client SMALL_BYTES_MAX, [Greeted Open InSession] {}
    /// Tells how a command ended.
    26 CommandDone Client JSON_BYTES_MAX, [Open] {
        /// The command.
        command: u64,
        /// Whether it went well.
        is_complete: bool,
    } tail report

    /// Adds a key slot: from the governing server to a storage server.
    27 PutSlot Client SMALL_BYTES_MAX, [Open] {
        /// The slot.
        slot: Slot,
    }
    /// Removes a key slot, if it is there: from the governing server to a storage server.
    28 RemoveSlot Client SMALL_BYTES_MAX, [Open] {
        /// The key.
        id: KeyId,
    }
    /// Replaces the key list by the next one: from the governing server to a storage server.
    29 PutKeyList Client KEY_LIST_BYTES_MAX + 64, [Open] {} tail key_list
    /// Forgets the snapshots that a tombstone names, which a full key of the domain has signed.
    30 Forget Client FORGET_BYTES_MAX, [Open] {
        /// The session record of the key that sealed the tombstone, as a container has it.
        session: PathBytes,
    } tail tombstone

    /// Answers `Hello`.
    129 Welcome Server SMALL_BYTES_MAX, [] -> Greeted {
        /// The version that both speak.
        version: u16,
        /// Program and version.
        program: String,
        /// The server's clock, seconds since 1970.
        time_secs: i64,
        /// The node, as the server knows it.
        node: String,
        /// Most bytes of records sent and not acknowledged, for each stream.
        window_bytes: u32,
        /// Most streams of a session.
        streams: u8,
    }
    /// Answers `Open` and `Init`.
    130 Opened Server SMALL_BYTES_MAX, [] -> Open {
        /// The domain's name.
        domain: String,
        /// The settings of its repository; empty when it is not made yet.
        config: PathBytes,
        /// Rises when something may have been lost.
        damage_epoch: u64,
        /// Whether the node may back up.
        may_write: bool,
        /// Whether the node may read.
        may_read: bool,
        /// Whether the node may make the repository.
        may_init: bool,
        /// Keys with which this server, and others before it, signed receipts of snapshots.
        receipt_keys: Vec<PathBytes>,
    }
    /// It is done.
    131 Done Server SMALL_BYTES_MAX, [] {}
    /// Answers `ListSnapshots`.
    132 SnapshotList Server SMALL_BYTES_MAX, [] {
        /// Some of them.
        names: Vec<SnapshotName>,
        /// Whether there are more.
        more: bool,
    }
    /// Answers `GetSnapshot` and `GetNewest`.
    133 Snapshot Server SNAPSHOT_BYTES_MAX + 64, [] {
        /// Its name.
        name: SnapshotName,
    } tail file
    /// There is nothing.
    134 NotFound Server SMALL_BYTES_MAX, [] {}
    /// Answers `ListSlots`.
    135 SlotList Server KEY_LIST_BYTES_MAX + SMALL_BYTES_MAX, [] {
        /// Some of the slots.
        slots: Vec<Slot>,
        /// Whether there are more.
        more: bool,
    } tail key_list
    /// Answers `Locate`.
    136 Locations Server IDS_BYTES_MAX, [] {
        /// In the order of the question.
        locations: Vec<Option<RecordLocation>>,
    }
    /// A record. Answers `Read`, `Fetch` and `Heal`.
    137 Record Server RECORD_PACKET_BYTES_MAX, [] {
        /// Where it lies.
        place: RecordLocation,
    } tail record
    /// Answers `GetKeys`.
    138 Keys Server SLOTS_BYTES_MAX, [] {
        /// What lies in the clear of each session record.
        keys: Vec<PathBytes>,
    }
    /// Answers `Begin`.
    139 Begun Server SMALL_BYTES_MAX, [] -> InSession {
        /// The session.
        session: [u8; 16],
        /// Its secret: who has both may join it.
        secret: [u8; 16],
        /// Whether nothing at all is stored in the domain yet: nothing need be asked for.
        is_empty: bool,
    }
    /// Answers `Attach`.
    140 Attached Server SMALL_BYTES_MAX, [] -> InSession {
        /// Records of this stream that were taken.
        applied: u64,
    }
    /// Answers `Claim` and `Holds`: a bit for each id, the first one lowest.
    141 Flags Server SMALL_BYTES_MAX, [] {
        /// How many.
        count: u32,
    } tail bits
    /// Acknowledges all records (or noise) of the stream so far.
    142 Stored Server SMALL_BYTES_MAX, [] {
        /// Records of this stream that were taken.
        applied: u64,
        /// Bytes that the session stored, on all streams.
        stored_bytes: u64,
    }
    /// Answers `GetNumber`.
    143 Number Server SMALL_BYTES_MAX, [] {
        /// The number.
        number: u64,
    }
    /// Answers `Commit`: the snapshot is durable and seen.
    144 Committed Server SMALL_BYTES_MAX, [] -> Open {
        /// The snapshot.
        name: SnapshotName,
        /// Bytes that the session stored.
        stored_bytes: u64,
    }
    /// Noise. Answers `AskNoise`, several times.
    145 Noise Server RECORD_PACKET_BYTES_MAX, [] {} tail noise
    /// Answers `Ping`.
    146 Pong Server SMALL_BYTES_MAX, [] {}
    /// How fast the client may send and will be sent to. Unasked, at any time.
    147 Limits Server SMALL_BYTES_MAX, [] {
        /// Bytes per second from client to server; 0 for any.
        up: u64,
        /// Bytes per second from server to client; 0 for any.
        down: u64,
        /// Why, for people.
        reason: String,
    }
    /// Asks an agent to do something: JSON. Unasked.
    148 Command Server JSON_BYTES_MAX, [] {
        /// Its number.
        command: u64,
    } tail json
    /// Asks the client to stop its job. Unasked.
    149 Cancel Server SMALL_BYTES_MAX, [] {
        /// Why, for people.
        reason: String,
    }
    /// Answers `Open`: the domain lies on another server of the same certificate authority.
    150 Redirect Server SMALL_BYTES_MAX, [] {
        /// Its name or address, as its certificate has it.
        host: String,
        /// Its port.
        port: u16,
    }
    /// Answers `Forget`: the snapshots are gone, durably.
    151 Forgotten Server SMALL_BYTES_MAX, [] {
        /// How many were listed until now.
        count: u32,
    }
    /// It was not done. Answers anything, or ends the connection.
    255 Fault Server SMALL_BYTES_MAX, [] {
        /// What kind of error: see [`crate::fault::Code`].
        code: u16,
        /// What happened, to what.
        message: String,
        /// What to do.
        hint: String,
        /// The id or number of what it is about.
        about: PathBytes,
    }
}

impl Packet {
    /// The whole frame.
    pub fn frame(&self, request: u32) -> Vec<u8> {
        let mut out = vec![0; crate::frame::HEADER_BYTES];
        self.encode_body(&mut out);
        let body_bytes = out.len() - crate::frame::HEADER_BYTES;
        let header = crate::frame::Header { kind: self.kind(), request, body_bytes };
        out[..crate::frame::HEADER_BYTES].copy_from_slice(&header.encode());
        out
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        name(self.kind())
    }
}

impl Packet {
    /// The packet of `kind`, when it is one without bytes that fill the rest: its body is small and
    /// copied.
    pub fn decode_small(kind: u8, body: &[u8]) -> Result<Self> {
        const SMALL: usize = 64;
        if body.len() > SMALL {
            return Err(Error::Unknown(kind));
        }
        Self::decode(kind, body.to_vec())
    }
}
