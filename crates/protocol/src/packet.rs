//! All packets, in one table: number, name, sender, longest body, the states in which it may come,
//! the state that it leads to, and its fields in order.

use crate::field::Field;
pub use crate::field::{PathBytes, Purpose, Slot, SnapshotLock, SnapshotName};
use crate::limits::{
    FORGET_BYTES_MAX, JSON_BYTES_MAX, KEY_LIST_BYTES_MAX, RECORD_PACKET_BYTES_MAX, SMALL_BYTES_MAX,
    SNAPSHOT_BYTES_MAX,
};
use crate::state::State;
use crate::{Error, Result, limits};
use format::wire::Reader;
use ids::{ContainerNo, KeyId, ObjectId, RecordLocation};

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end that connected: an agent, or a command.
    Client,
    /// The end that accepted the connection.
    Server,
}

/// What is known of a packet before its body is read.
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

        /// All packets, by number.
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
            /// Its number in the packet table.
            pub fn kind(&self) -> u8 {
                match self { $( Packet::$name { .. } => $kind, )* }
            }

            /// Appends the body to `out`. Bytes that fill the rest come first, so that the receiver
            /// need not move them.
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

/// Appends the length of the fields behind the rest: two bytes at the very end.
fn tail_length(out: &mut Vec<u8>, start: usize, _tail: &str) {
    let length = (out.len() - start) as u16;
    out.extend_from_slice(&length.to_le_bytes());
}

/// Takes the fields out of `body` and leaves the rest in it.
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

/// The row of this packet in the table.
pub fn rule(kind: u8) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.kind == kind)
}

/// Name of the packet with this number.
pub fn name(kind: u8) -> &'static str {
    rule(kind).map_or("an unknown packet", |rule| rule.name)
}

const IDS_BYTES_MAX: usize = limits::IDS_MAX * ObjectId::LEN + 16;
const SLOTS_BYTES_MAX: usize = 1 << 20;

packets! {
    /// First packet of every connection.
    1 Hello Client SMALL_BYTES_MAX, [New] {
        /// Oldest version that the client supports.
        oldest: u16,
        /// Newest version that the client supports.
        newest: u16,
        /// Program and version.
        program: String,
    }
    /// Opens a domain.
    2 Open Client SMALL_BYTES_MAX, [Greeted] {
        /// Name of the domain; empty for the node's own.
        domain: String,
        /// What the connection is for.
        purpose: Purpose,
    }
    /// Creates the repository of the domain.
    3 Init Client KEY_LIST_BYTES_MAX + SMALL_BYTES_MAX, [Open] {
        /// Settings, as in the file `config`.
        config: PathBytes,
        /// The first key slots.
        slots: Vec<Slot>,
    } tail key_list
    /// Lists names of snapshots, in the order in which they were made. Of a history that was forked, two may have one
    /// number; they come in one reply.
    4 ListSnapshots Client SMALL_BYTES_MAX, [Open InSession] {
        /// Only snapshots with a higher number.
        after: u64,
    }
    /// Requests a snapshot.
    5 GetSnapshot Client SMALL_BYTES_MAX, [Open InSession] {
        /// The snapshot.
        name: SnapshotName,
    }
    /// Requests the newest snapshot of a source.
    6 GetNewest Client SMALL_BYTES_MAX, [Open InSession] {
        /// The source.
        source: ObjectId,
    }
    /// Lists key slots, by their ids.
    7 ListSlots Client SMALL_BYTES_MAX, [Open InSession] {
        /// Only slots after this key.
        after: Option<KeyId>,
    }
    /// Requests the locations of objects.
    8 Locate Client IDS_BYTES_MAX, [Open InSession] {
        /// The objects.
        ids: Vec<ObjectId>,
    }
    /// Requests a record.
    9 Read Client SMALL_BYTES_MAX, [Open InSession] {
        /// Where it lies.
        location: RecordLocation,
    }
    /// Requests the record that holds an object.
    10 Fetch Client SMALL_BYTES_MAX, [Open InSession] {
        /// The object.
        id: ObjectId,
    }
    /// Requests the sealed session keys of a container.
    11 GetKeys Client SMALL_BYTES_MAX, [Open InSession] {
        /// The container.
        container: ContainerNo,
        /// Whether to recover them from parity.
        healed: bool,
    }
    /// Requests a damaged record, recovered from parity.
    12 Heal Client SMALL_BYTES_MAX, [Open InSession] {
        /// Where it lies.
        location: RecordLocation,
    }
    /// Begins a session.
    13 Begin Client SMALL_BYTES_MAX, [Open] {
        /// The snapshot that the session builds on.
        base: Option<SnapshotName>,
        /// What is backed up, for people; empty when that is sealed.
        what: String,
        /// The session record, as a container has it.
        record: PathBytes,
    }
    /// Adds a stream to a session, or resumes one after a disconnect.
    14 Attach Client SMALL_BYTES_MAX, [Greeted] {
        /// Name of the session.
        session: [u8; 16],
        /// Its secret.
        secret: [u8; 16],
        /// Number of the stream, from 0.
        stream: u8,
    }
    /// Asks which objects must be stored, and promises to store those.
    15 Claim Client IDS_BYTES_MAX, [InSession] {
        /// The objects.
        ids: Vec<ObjectId>,
    }
    /// Asks which objects are stored and stay stored.
    16 Holds Client IDS_BYTES_MAX, [InSession] {
        /// The objects.
        ids: Vec<ObjectId>,
    }
    /// Stores a record. Acknowledged by `Stored`.
    17 Append Client RECORD_PACKET_BYTES_MAX, [InSession] {} tail record
    /// Requests the number of the session's snapshot.
    18 GetNumber Client SMALL_BYTES_MAX, [InSession] {}
    /// Publishes the session as a snapshot.
    19 Commit Client SNAPSHOT_BYTES_MAX, [InSession] {} tail manifest
    /// Reports the progress of a job. No reply.
    20 Progress Client SMALL_BYTES_MAX, [Open InSession] {
        /// Objects processed.
        objects: u64,
        /// Their bytes.
        bytes: u64,
        /// Bytes read from the source.
        bytes_read: u64,
        /// Stage of the job.
        stage: String,
        /// The current path; empty when it is sealed.
        path: PathBytes,
    }
    /// Ends a job with its report: a restore, or a session with or without a snapshot.
    21 Finish Client JSON_BYTES_MAX, [Open InSession] {
        /// Whether the job succeeded.
        is_complete: bool,
    } tail report
    /// Requests random bytes, to measure the network. Answered by `Noise` packets and `Done`.
    22 GetNoise Client SMALL_BYTES_MAX, [Greeted Open InSession] {
        /// How many bytes.
        bytes: u64,
    }
    /// Random bytes, to measure the network. Acknowledged by `Stored`.
    23 SendNoise Client RECORD_PACKET_BYTES_MAX, [Greeted Open InSession] {} tail noise
    /// Checks whether the other end is reachable.
    24 Ping Client SMALL_BYTES_MAX, [Greeted Open InSession] {}
    /// Closes the connection cleanly.
    25 Bye Client SMALL_BYTES_MAX, [Greeted Open InSession] {}
    /// Reports how a node command ended.
    26 CommandDone Client JSON_BYTES_MAX, [Open] {
        /// Number of the command.
        command: u64,
        /// Whether the command succeeded.
        is_complete: bool,
    } tail report

    /// Adds a key slot. Only from the control server to a storage server.
    27 PutSlot Client SMALL_BYTES_MAX, [Open] {
        /// The slot.
        slot: Slot,
    }
    /// Removes a key slot, if it exists. Only from the control server to a storage server.
    28 RemoveSlot Client SMALL_BYTES_MAX, [Open] {
        /// Id of the key.
        id: KeyId,
    }
    /// Replaces the key list by the next one. Only from the control server to a storage server.
    29 PutKeyList Client KEY_LIST_BYTES_MAX + 64, [Open] {} tail key_list
    /// Forgets the snapshots that a tombstone names, signed by a full key of the domain.
    30 Forget Client FORGET_BYTES_MAX, [Open] {
        /// Session record of the key that sealed the tombstone, as a container has it.
        session: PathBytes,
    } tail tombstone
    /// Removes the snapshots that an expiry names. Only from the control server, which signed it, to a storage server.
    31 Expire Client FORGET_BYTES_MAX, [Open] {} tail expiry
    /// Starts a job of upkeep unless it runs, and asks how it is. Only from the control server to a storage server.
    32 Upkeep Client SMALL_BYTES_MAX, [Open] {
        /// Number of the job on the control server.
        job: u64,
        /// Whether it is to go on; if not, it ends.
        goes_on: bool,
    } tail request
    /// Requests what a server signed of snapshots that expired, one record after the other.
    33 GetExpiry Client SMALL_BYTES_MAX, [Open] {
        /// Which one, from 0.
        number: u64,
    }
    /// Makes everything durable that the session stored until now. Answered by `Done`.
    34 Checkpoint Client SMALL_BYTES_MAX, [InSession] {}
    /// Requests the sealed session keys of a container that sort after one of them: `GetKeys` had as many as fit.
    35 GetMoreKeys Client SMALL_BYTES_MAX, [Open InSession] {
        /// The container.
        container: ContainerNo,
        /// Whether to recover them from parity.
        healed: bool,
        /// The last one that is known.
        after: PathBytes,
    }

    /// Reply to `Hello`.
    129 Welcome Server SMALL_BYTES_MAX, [] -> Greeted {
        /// The version that both ends use.
        version: u16,
        /// Program and version.
        program: String,
        /// The server's clock, seconds since 1970.
        time_secs: i64,
        /// Name of the node, from its certificate.
        node: String,
        /// Size of the send window of each stream, in bytes.
        window_bytes: u32,
        /// Maximum number of streams of a session.
        streams: u8,
    }
    /// Reply to `Open` and `Init`.
    130 Opened Server SMALL_BYTES_MAX, [] -> Open {
        /// Name of the domain.
        domain: String,
        /// Settings of its repository; empty while there is none.
        config: PathBytes,
        /// Rises when data may have been lost.
        damage_epoch: u64,
        /// Whether the node may back up.
        may_write: bool,
        /// Whether the node may read.
        may_read: bool,
        /// Whether the node may create the repository.
        may_init: bool,
        /// Keys that sign receipts: the server's own first, then those that the repository names.
        receipt_keys: Vec<PathBytes>,
    }
    /// The request was carried out.
    131 Done Server SMALL_BYTES_MAX, [] {}
    /// Reply to `ListSnapshots`.
    132 SnapshotList Server SMALL_BYTES_MAX, [] {
        /// Names of snapshots.
        names: Vec<SnapshotName>,
        /// Whether the list goes on.
        more: bool,
    }
    /// Reply to `GetSnapshot` and `GetNewest`.
    133 Snapshot Server SNAPSHOT_BYTES_MAX + 64, [] {
        /// Its name.
        name: SnapshotName,
    } tail file
    /// What was requested does not exist.
    134 NotFound Server SMALL_BYTES_MAX, [] {}
    /// Reply to `ListSlots`.
    135 SlotList Server KEY_LIST_BYTES_MAX + SMALL_BYTES_MAX, [] {
        /// Key slots.
        slots: Vec<Slot>,
        /// Whether the list goes on.
        more: bool,
    } tail key_list
    /// Reply to `Locate`.
    136 Locations Server IDS_BYTES_MAX, [] {
        /// One for each requested id, in the same order.
        locations: Vec<Option<RecordLocation>>,
    }
    /// A record. Reply to `Read`, `Fetch` and `Heal`.
    137 Record Server RECORD_PACKET_BYTES_MAX, [] {
        /// The location that was read.
        location: RecordLocation,
    } tail record
    /// Reply to `GetKeys` and `GetMoreKeys`.
    138 Keys Server SLOTS_BYTES_MAX, [] {
        /// The clear part of each session record, each once, in the order of their bytes. As many as there may be:
        /// there may be more.
        keys: Vec<PathBytes>,
    }
    /// Reply to `Begin`.
    139 Begun Server SMALL_BYTES_MAX, [] -> InSession {
        /// Name of the session.
        session: [u8; 16],
        /// Its secret: name and secret together attach to it.
        secret: [u8; 16],
        /// Whether the domain stores nothing yet: then nothing need be claimed.
        is_empty: bool,
    }
    /// Reply to `Attach`.
    140 Attached Server SMALL_BYTES_MAX, [] -> InSession {
        /// Records of this stream that the server has taken.
        applied: u64,
    }
    /// Reply to `Claim` and `Holds`: one bit for each id, lowest bit first.
    141 Flags Server SMALL_BYTES_MAX, [] {
        /// Number of flags.
        count: u32,
    } tail bits
    /// Acknowledges all records (or noise) of the stream so far.
    142 Stored Server SMALL_BYTES_MAX, [] {
        /// Records of this stream that the server has taken.
        applied: u64,
        /// Bytes stored by the session, on all streams.
        stored_bytes: u64,
    }
    /// Reply to `GetNumber`.
    143 Number Server SMALL_BYTES_MAX, [] {
        /// The number.
        number: u64,
    }
    /// Reply to `Commit`: the snapshot is durable and visible.
    144 Committed Server SMALL_BYTES_MAX, [] -> Open {
        /// The snapshot.
        name: SnapshotName,
        /// Bytes stored by the session.
        stored_bytes: u64,
    }
    /// Random bytes. Reply to `GetNoise`, several times.
    145 Noise Server RECORD_PACKET_BYTES_MAX, [] {} tail noise
    /// Reply to `Ping`.
    146 Pong Server SMALL_BYTES_MAX, [] {}
    /// Bandwidth limits that apply to the client. Unsolicited, at any time.
    147 Limits Server SMALL_BYTES_MAX, [] {
        /// Bytes per second from client to server; 0 for no limit.
        up: u64,
        /// Bytes per second from server to client; 0 for no limit.
        down: u64,
        /// Reason, for people.
        reason: String,
    }
    /// A node command for an agent, as JSON. Unsolicited.
    148 Command Server JSON_BYTES_MAX, [] {
        /// Number of the command.
        command: u64,
    } tail json
    /// Asks the client to stop its job. Unsolicited.
    149 Cancel Server SMALL_BYTES_MAX, [] {
        /// Reason, for people.
        reason: String,
    }
    /// Reply to `Open`: the domain lies on another server of the same CA.
    150 Redirect Server SMALL_BYTES_MAX, [] {
        /// Host name or address, as in the certificate of that server.
        host: String,
        /// Port.
        port: u16,
    }
    /// Reply to `Forget`: the snapshots are gone, durably.
    151 Forgotten Server SMALL_BYTES_MAX, [] {
        /// How many of them were listed.
        count: u32,
    }
    /// Reply to `Expire`: the snapshots are gone, durably; or some are locked, and all stay.
    152 Expired Server SMALL_BYTES_MAX, [] {
        /// Those that are locked.
        locked: Vec<SnapshotLock>,
    }
    /// Reply to `Upkeep`: how the job is, as JSON.
    153 UpkeepStatus Server JSON_BYTES_MAX, [] {} tail status
    /// Reply to `GetExpiry`; `NotFound` after the last one.
    154 ExpiryRecord Server FORGET_BYTES_MAX, [] {} tail expiry
    /// The request failed. Answers any request, or ends the connection.
    255 Fault Server SMALL_BYTES_MAX, [] {
        /// Kind of error: see [`crate::fault::Code`].
        code: u16,
        /// What happened, to what.
        message: String,
        /// What to do.
        hint: String,
        /// Id or number of what the error is about.
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
    /// The packet of `kind`, if its body is small: it is copied.
    pub fn decode_small(kind: u8, body: &[u8]) -> Result<Self> {
        const SMALL: usize = 64;
        if body.len() > SMALL {
            return Err(Error::Unknown(kind));
        }
        Self::decode(kind, body.to_vec())
    }
}
