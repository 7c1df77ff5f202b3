//! Greetings that are none, and bytes that are no frames.

use crate::lab::{Lab, is_refused};
use hostile_server::Reply;
use protocol::Packet;
use protocol::frame::Header;
use protocol::packet::{PathBytes, RULES, kind};

#[test]
fn what_is_no_frame_ends_the_job() {
    let lab = Lab::new();
    let header = |kind, body_bytes| Header { kind, request: 1, body_bytes }.encode().to_vec();
    let mut all = vec![vec![0xff; 40], vec![0; 12], header(99, 0), header(kind::Hello, 0)];
    all.push([header(kind::Done, 1), vec![0]].concat());
    all.extend(RULES.iter().filter(|it| it.kind > 128).map(|it| header(it.kind, it.limit + 1)));
    all.push([header(kind::Record, 2), vec![0xff, 0xff]].concat());
    all.push([header(kind::NotFound, 3), vec![1, 2, 3]].concat());
    all.push(Packet::Done {}.frame(77_777));
    for bytes in all {
        let said = bytes.clone();
        let fake = lab.lies(move |asked| match asked.packet {
            Packet::GetSnapshot { .. } => Reply::Bytes(bytes.clone()),
            _ => asked.honestly(),
        });
        is_refused(lab.restores(&fake, lab.good), &format!("{:?}", &said[..12]));
    }
}

#[test]
fn a_server_that_greets_nobody_is_given_up() {
    let lab = Lab::new();
    let fake = lab.lies(|_| Reply::Silence);
    is_refused(lab.restores(&fake, lab.good), "silence");
}

#[test]
fn greetings_that_are_none_are_refused() {
    let lab = Lab::new();
    let welcome = |version| Packet::Welcome {
        version,
        program: String::new(),
        time_secs: i64::MIN,
        node: String::new(),
        window_bytes: 0,
        streams: 255,
    };
    for packet in [welcome(0), welcome(2), Packet::Done {}, Packet::Pong {}, Packet::NotFound {}] {
        let fake = lab.lies(move |_| Reply::Say(vec![packet.clone()]));
        is_refused(lab.restores(&fake, lab.good), "a greeting");
    }
    let config = lab.archive.store.config().encode();
    let configs: Vec<Vec<u8>> = (0..config.len())
        .map(|at| {
            let mut flipped = config.clone();
            flipped[at] ^= 1;
            flipped
        })
        .collect();
    for config in configs.into_iter().step_by(5) {
        let fake = lab.lies(move |asked| match asked.honest {
            Some(Packet::Opened { domain, .. }) => Reply::Say(vec![Packet::Opened {
                domain,
                config: PathBytes(config.clone()),
                damage_epoch: u64::MAX,
                may_write: true,
                may_read: true,
                may_init: true,
                receipt_keys: Vec::new(),
            }]),
            _ => asked.honestly(),
        });
        // What only tells a time or how to cut may differ; then all is as it was.
        let _ = lab.restores(&fake, lab.good);
    }
}
