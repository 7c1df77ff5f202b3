//! What each fuzz target does with one input. A target asserts what holds of every input and never panics otherwise.
//!
//! `fuzz/` runs them under a fuzzer, which needs a nightly compiler; the tests of this crate run them with the committed
//! seeds and with changes to these, in every `make test`.

pub mod memory;

use arbitrary::{Arbitrary, Unstructured};
use ids::ObjectId;

/// Modules of the targets, and the table of them.
macro_rules! targets {
    ($($name:ident)*) => {
        $(pub mod $name;)*

        /// Each target: its name, and what runs it on one input.
        pub const TARGETS: &[(&str, fn(&[u8]))] = &[$((stringify!($name), $name::fuzz)),*];
    };
}

targets! {
    cli
    config
    container
    copies
    excludes
    frames
    heads
    index
    inner
    key_list
    leaf
    lease
    list
    manifest
    opener
    packet
    parity
    pool
    record
    recovery
    remote_stream
    request
    restore
    site
    slot
    snapshot
    state
    token
    walk
    words
}

/// An input of a target that does not take bytes, made of them as a fuzzer makes it; `None` if they are too few.
fn arbitrary<'a, T: Arbitrary<'a>>(bytes: &'a [u8]) -> Option<T> {
    T::arbitrary_take_rest(Unstructured::new(bytes)).ok()
}

/// A page as the golden files hold it: its head, its references, its payload.
pub fn page(bytes: &[u8]) -> Option<(Vec<ObjectId>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(29)?;
    let count = u32::from_le_bytes(*head.last_chunk()?) as usize;
    let (refs, payload) = rest.split_at_checked(count.checked_mul(ObjectId::LEN)?)?;
    let refs = refs.chunks_exact(ObjectId::LEN).filter_map(ObjectId::from_slice);
    Some((refs.collect(), payload))
}

/// `body` with its checksum made good behind it: what that guards against is chance, not an
/// attacker.
pub fn summed(body: &[u8]) -> Vec<u8> {
    [body, &format::wire::checksum(&[body])].concat()
}
