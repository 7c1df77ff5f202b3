//! Bodies of packets from either end: what decodes is encoded to the same bytes, and its header is
//! good from its own end alone.

use protocol::frame::{HEADER_BYTES, Header};
use protocol::packet::{End, RULES, rule};
use protocol::{Packet, flags};

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    if let Some(header) = bytes.first_chunk() {
        for from in [End::Client, End::Server] {
            if let Ok(header) = Header::decode(header, from) {
                assert_eq!(Some(&header.encode()), bytes.first_chunk(), "one spelling");
                assert!(rule(header.kind).is_some_and(|rule| rule.from == from));
            }
        }
    }
    let Some((kind, body)) = bytes.split_first() else { return };
    // What is no number of a packet is one all the same: most inputs are to be used.
    let kind = rule(*kind).map_or(RULES[usize::from(*kind) % RULES.len()].kind, |rule| rule.kind);
    let _ = Packet::decode_small(kind, body);
    let Ok(packet) = Packet::decode(kind, body.to_vec()) else { return };
    let frame = packet.frame(7);
    let (header, again) = frame.split_first_chunk::<HEADER_BYTES>().expect("a header");
    assert_eq!(again, body, "decoded and encoded");
    let rule = rule(kind).expect("a rule");
    let ends = [End::Client, End::Server].map(|from| Header::decode(header, from).is_ok());
    let is_short = body.len() <= rule.limit;
    assert_eq!(ends, [rule.from == End::Client && is_short, rule.from == End::Server && is_short]);
    if let Packet::Flags { count, bits } = packet {
        let yes = flags::unpack(count, &bits, count as usize).map(|yes| yes.len());
        assert!(yes.is_err() || yes == Ok(count as usize));
    }
}
