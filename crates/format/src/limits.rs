//! The largest values that a decoder believes. `docs/FORMAT.md` has the same table.

/// Longest path of an entry in bytes: deeper than any real tree, shorter than a bomb.
pub const PATH_BYTES_MAX: usize = 1 << 20;
/// Longest inline content in bytes.
pub const INLINE_BYTES_MAX: usize = 64 << 10;
/// Longest name or value of an extended attribute in bytes (the kernel's own limit).
pub const XATTR_BYTES_MAX: usize = 64 << 10;
/// Most extended attributes of one object: more than a kernel lists, whose lists have 64 KiB.
pub const XATTRS_MAX: usize = 16 << 10;
/// Most bytes of all extended attributes of one object, names and lengths included.
pub const XATTR_SET_BYTES_MAX: usize = 64 << 20;
/// Longest extension of an entry, an attribute set or a page in bytes.
pub const EXTENSION_BYTES_MAX: usize = 4096;
/// Longest owner name in bytes.
pub const OWNER_BYTES_MAX: usize = 256;
/// Most plaintext of one record in bytes.
pub const RECORD_PLAIN_MAX: usize = 8 << 20;
/// Most sealed bytes of one record: incompressible plaintext, its padding (at most 12 %), the tag.
pub const RECORD_SEALED_MAX: usize = RECORD_PLAIN_MAX + RECORD_PLAIN_MAX / 8 + 64;
/// Longest clear part of one record in bytes: 170 Ki ids.
pub const RECORD_CLEAR_MAX: usize = 4 << 20;
/// Longest record in bytes. The index keeps lengths in 24 bits.
pub const RECORD_BYTES_MAX: usize = RECORD_CLEAR_MAX + RECORD_SEALED_MAX + 64;
/// Most objects in one record.
pub const RECORD_OBJECTS_MAX: usize = 1 << 16;
/// Largest chunk in bytes.
pub const CHUNK_BYTES_MAX: usize = 4 << 20;
/// Most references of one page.
pub const PAGE_REFS_MAX: usize = 1 << 17;
/// Most entries or children of one page.
pub const PAGE_ENTRIES_MAX: usize = 1 << 16;
/// Most bytes of all paths of one page together, written out: paths share their beginnings, so
/// few bytes could spell very many.
pub const PAGE_PATH_BYTES_MAX: usize = 16 << 20;
/// Most levels of a snapshot tree: 2 entries a page would hold 2^48 entries.
pub const TREE_LEVELS_MAX: u8 = 48;
/// Largest container in bytes; offsets in it are 32 bits.
pub const CONTAINER_BYTES_MAX: u64 = 1 << 32;
/// Most records in one container.
pub const CONTAINER_RECORDS_MAX: usize = 1 << 20;
/// Longest body of a manifest in bytes, before compression.
pub const MANIFEST_BODY_MAX: usize = 1 << 20;
/// Most sealed bytes of a manifest: its body if that cannot be compressed, the padding (at most 12 %), the tag.
pub const MANIFEST_SEALED_MAX: usize = MANIFEST_BODY_MAX + MANIFEST_BODY_MAX / 8 + 64;
/// Longest clear part of a manifest in bytes: more than head, extension and signature take.
pub const MANIFEST_CLEAR_MAX: usize = 2 * MANIFEST_EXTENSION_MAX;
/// Longest extension of a manifest's head, or of a receipt, in bytes.
pub const MANIFEST_EXTENSION_MAX: usize = 4096;
/// Longest lock of a snapshot in seconds: 100 years, of 366 days each.
pub const LOCK_SECS_MAX: u64 = 100 * 366 * 86_400;
/// Most snapshots that one expiry names.
pub const EXPIRY_NAMES_MAX: usize = 4096;
/// Most parity of a container, in parity shards for each hundred data shards.
pub const PARITY_PERCENT_MAX: u32 = 25;
