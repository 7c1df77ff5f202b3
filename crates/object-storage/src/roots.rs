//! Files that change, as rows of numbered objects. The highest counts, and each is created only if it is absent: of two
//! writers that know the same last one, one fails.

use crate::client::Client;
use bytes::Bytes;
use format::wire::checksum;
use repository::storage::StorageResult;

const MAGIC: &[u8; 8] = b"ICEROOT1";
pub(crate) const NONCE_BYTES: usize = 16;
const SUM_BYTES: usize = 16;

/// The object that holds `content`. No two are equal, so that each writer knows its own.
pub(crate) fn encode(content: &[u8]) -> Bytes {
    let body = [&MAGIC[..], &nonce(), content].concat();
    let sum = checksum(&[&body]);
    [&body[..], &sum].concat().into()
}

/// The content of such an object; `None` when it is damaged.
pub(crate) fn decode(bytes: &Bytes) -> Option<Bytes> {
    let (body, sum) = bytes.split_last_chunk::<SUM_BYTES>()?;
    let is_whole = checksum(&[body]) == *sum && body.starts_with(MAGIC);
    let content = MAGIC.len() + NONCE_BYTES..body.len();
    (is_whole && content.start <= content.end).then(|| bytes.slice(content))
}

/// The object `name` of a row. Bytes can be bad on their way: what is damaged is read once more before it counts as that.
pub(crate) fn read(client: &Client, name: &str) -> StorageResult<Bytes> {
    let object = client.get(name)?;
    if decode(&object).is_some() { Ok(object) } else { client.get(name) }
}

/// Bytes that nobody else draws.
pub(crate) fn nonce() -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    // Without random numbers nothing can be sealed either: the process ends before it comes here.
    let _ = getrandom::fill(&mut nonce);
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_read_back_is_never_equal_to_another_and_flips_are_found() {
        let bytes = encode(b"content");
        assert_eq!(decode(&bytes).as_deref(), Some(&b"content"[..]));
        assert_ne!(bytes, encode(b"content"));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&damaged.into()), None, "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes.slice(..length)), None, "length {length}");
        }
    }
}
