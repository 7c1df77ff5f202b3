//! A measurement of the way to a server that lies ends, with what was measured or an error.

use crate::lab::{dial, ends, is_refused};
use hostile_server::{Asked, Fake, Reply};
use protocol::Packet;
use protocol::fault::{Code, fault};
use remote::net_test::{Measurement, NetworkTest};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What an honest server says to who measures; `taken` counts its noise.
fn honest(asked: Asked<'_>, taken: &AtomicU64) -> Reply {
    match asked.packet {
        Packet::GetNoise { bytes: 0 } => Reply::Say(vec![Packet::Done {}]),
        Packet::GetNoise { bytes } => {
            let noise = Packet::Noise { noise: vec![7; (*bytes).min(256 << 10) as usize] };
            Reply::Say(vec![noise, Packet::Done {}])
        }
        Packet::SendNoise { .. } => {
            let applied = taken.fetch_add(1, Ordering::SeqCst) + 1;
            Reply::Say(vec![Packet::Stored { applied, stored_bytes: 0 }])
        }
        _ => asked.honestly(),
    }
}

fn measured(fake: &Fake) -> Result<Measurement, String> {
    let target = dial(fake);
    ends(move || {
        let test = NetworkTest::connect(&target).map_err(|error| error.to_string())?;
        test.open("").map_err(|error| error.to_string())?;
        test.measure(Duration::from_millis(50)).map_err(|error| error.to_string())
    })
}

#[test]
fn an_honest_server_is_measured() {
    let taken = AtomicU64::new(0);
    let fake = Fake::start(None, move |asked| honest(asked, &taken));
    let measured = measured(&fake).unwrap();
    assert!(measured.up_bytes_per_sec > 0.0 && measured.down_bytes_per_sec > 0.0);
    assert!(measured.round_trip_ms > 0.0 && measured.sending.sent_bytes > 0);
}

#[test]
fn answers_to_a_measurement_that_are_none_end_it() {
    type Lie = fn(&Packet) -> Option<Reply>;
    let lies: [(&str, Lie); 6] = [
        ("no greeting", |packet| {
            matches!(packet, Packet::Hello { .. }).then(|| Reply::Say(vec![Packet::Done {}]))
        }),
        ("not let in", |packet| {
            let no = || Reply::Say(vec![fault(Code::Revoked, "revoked", "", &[])]);
            matches!(packet, Packet::Hello { .. }).then(no)
        }),
        ("no domain", |packet| {
            matches!(packet, Packet::Open { .. }).then(|| Reply::Say(vec![Packet::Done {}]))
        }),
        ("more acknowledged than sent", |packet| {
            let far = || Reply::Say(vec![Packet::Stored { applied: 9_999, stored_bytes: 0 }]);
            matches!(packet, Packet::SendNoise { .. }).then(far)
        }),
        ("cut while it sends", |packet| {
            matches!(packet, Packet::SendNoise { .. }).then_some(Reply::Disconnect)
        }),
        ("cut while it receives", |packet| {
            matches!(packet, Packet::GetNoise { bytes: 1.. }).then_some(Reply::Disconnect)
        }),
    ];
    for (what, lie) in lies {
        let taken = AtomicU64::new(0);
        let fake = Fake::start(None, move |asked| match lie(asked.packet) {
            Some(reply) => reply,
            None => honest(asked, &taken),
        });
        is_refused(measured(&fake), what);
        assert_eq!(fake.connections.load(Ordering::SeqCst), 1, "{what}: it came back");
    }
}

#[test]
fn a_server_that_greets_nobody_is_not_measured() {
    let fake = Fake::start(None, |_| Reply::Silence);
    let error = measured(&fake).unwrap_err();
    assert!(error.contains("no answer"), "{error}");
}
