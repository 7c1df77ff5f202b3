//! The largest values that either end accepts. `docs/PROTOCOL.md` has the same table.

use format::limits::RECORD_BYTES_MAX;

/// Longest body of a packet without a record, unless the packet table says otherwise.
pub const SMALL_BYTES_MAX: usize = 64 << 10;
/// Longest body of a packet that carries a record.
pub const RECORD_PACKET_BYTES_MAX: usize = RECORD_BYTES_MAX + 64;
/// Maximum number of ids in one request.
pub const IDS_MAX: usize = 16 << 10;
/// Maximum number of session keys of one container.
pub const KEYS_MAX: usize = 1024;
/// Maximum number of snapshots in one list.
pub const SNAPSHOTS_MAX: usize = 2048;
/// Maximum number of key slots in one list; there may be further lists.
pub const SLOTS_MAX: usize = 64;
/// Longest body that names snapshots to forget: a tombstone of 4,096 ids, with some reserve.
pub const FORGET_BYTES_MAX: usize = 128 << 10;
/// Longest key list.
pub const KEY_LIST_BYTES_MAX: usize = 12 << 20;
/// Longest text, and longest key slot.
pub const TEXT_BYTES_MAX: usize = 8 << 10;
/// Longest string of bytes: a path in a progress message, settings, a session record.
pub const PATH_BYTES_MAX: usize = 4 << 10;
/// Longest snapshot file.
pub const SNAPSHOT_BYTES_MAX: usize = 2 << 20;
/// Longest node command, and longest report of a job.
pub const JSON_BYTES_MAX: usize = 1 << 20;
/// Maximum number of streams of one session.
pub const STREAMS_MAX: u8 = 16;
/// Maximum number of requests of one stream without a reply.
pub const REQUESTS_MAX: usize = 256;
/// Maximum of the send window of one stream, in bytes.
pub const WINDOW_BYTES_MAX: usize = 64 << 20;
