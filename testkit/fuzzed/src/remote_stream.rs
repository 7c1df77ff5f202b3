//! A server that says anything at any time to a client's stream: answers to nothing, answers before the question was
//! sent, acknowledgments that fall, cuts in between. The stream never panics or waits for ever, and holds no more than
//! this end has asked and sent.

use protocol::Packet;
use protocol::packet::{End, kind, rule};
use remote::fuzzing::StreamHarness;

/// Sizes of records: many small ones fill the queue, a few large ones the window.
const RECORD_BYTES: [usize; 4] = [12, 100, 4 << 10, 4 << 20];
/// Most of a kind in one step.
const MANY: u8 = 32;

/// The next packet of the input, as it would come off the wire: kind, length, body.
fn packet(input: &mut &[u8]) -> Option<Packet> {
    let [kind, length, rest @ ..] = *input else { return None };
    let (body, rest) = rest.split_at(usize::from(*length).min(rest.len()));
    *input = rest;
    Packet::decode(*kind, body.to_vec()).ok()
}

/// One step, of a kind and with a number; some read more of the input.
fn step(harness: &mut StreamHarness, kind: u8, number: u8, input: &mut &[u8]) {
    let (at, request) = (usize::from(number), u32::from(number));
    match kind % 16 {
        0 if number % 2 == 1 => harness.ask_in_session(&Packet::Checkpoint {}),
        0 => harness.ask(&Packet::Locate { ids: Vec::new() }),
        1 => (0..=number % MANY).for_each(|_| harness.ask(&Packet::Ping {})),
        2 => harness.send_record(record(RECORD_BYTES[at % 4])),
        3 => (0..=number % MANY).for_each(|_| harness.send_record(record(RECORD_BYTES[at % 4]))),
        4 => _ = harness.write(),
        5 => while harness.write() {},
        6 => harness.forget(at),
        7 => harness.take(at),
        8 => _ = harness.hear(request, Packet::Done {}),
        9 => _ = harness.hear(0, Packet::Stored { applied: number.into(), stored_bytes: 1 }),
        10 => {
            _ = harness.hear(0, Packet::Command { command: number.into(), json: vec![number; at] })
        }
        11 => _ = harness.reconnect(None),
        12 => _ = harness.reconnect(Some(number.into())),
        13 => harness.lose_session(),
        14 => harness.begin_session(),
        _ => {
            let heard = packet(input).filter(|packet| is_of_server(packet.kind()));
            _ = heard.map(|packet| harness.hear(request, packet));
        }
    }
}

fn is_of_server(kind: u8) -> bool {
    rule(kind).is_some_and(|rule| rule.from == End::Server)
}

fn record(bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; bytes];
    frame[0] = kind::Append;
    frame
}

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    let (mut harness, mut input) = (StreamHarness::default(), bytes);
    while let [kind, number, rest @ ..] = input {
        input = rest;
        step(&mut harness, *kind, *number, &mut input);
        harness.check();
    }
    harness.end();
}
