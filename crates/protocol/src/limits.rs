//! The largest values that either end believes. `docs/PROTOCOL.md` has the same table.

use format::limits::RECORD_BYTES_MAX;

/// Longest body of a packet without a record in it, unless it says otherwise.
pub const SMALL_BYTES_MAX: usize = 64 << 10;
/// Longest body of a packet that carries a record.
pub const RECORD_PACKET_BYTES_MAX: usize = RECORD_BYTES_MAX + 64;
/// Most ids in one question.
pub const IDS_MAX: usize = 16 << 10;
/// Most session keys of one container that are sent.
pub const KEYS_MAX: usize = 1024;
/// Most snapshots in one list.
pub const SNAPSHOTS_MAX: usize = 2048;
/// Most key slots in one list; there may be more lists.
pub const SLOTS_MAX: usize = 64;
/// Longest body that says which snapshots are to be forgotten: a tombstone of 4,096 ids, and room.
pub const FORGET_BYTES_MAX: usize = 128 << 10;
/// Longest key list.
pub const KEY_LIST_BYTES_MAX: usize = 12 << 20;
/// Longest text, and longest key slot.
pub const TEXT_BYTES_MAX: usize = 8 << 10;
/// Longest string of bytes: a path in a progress message, settings, a session record.
pub const PATH_BYTES_MAX: usize = 4 << 10;
/// Longest snapshot file.
pub const SNAPSHOT_BYTES_MAX: usize = 2 << 20;
/// Longest command to an agent, and longest report of a job.
pub const JSON_BYTES_MAX: usize = 1 << 20;
/// Streams of one session.
pub const STREAMS_MAX: u8 = 16;
/// Requests of one stream that wait for their answers.
pub const REQUESTS_MAX: usize = 256;
/// Bytes of records of one stream that were sent and not acknowledged.
pub const WINDOW_BYTES_MAX: usize = 64 << 20;
