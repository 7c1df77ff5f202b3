//! Snapshots that are forged, lists that do not end, another repository.

use crate::lab::{Lab, dial, ends, is_refused, open};
use hostile_server::Reply;
use ids::SnapshotId;
use protocol::Packet;
use protocol::packet::{PathBytes, SnapshotName};
use remote::Purpose;

#[test]
fn manifests_that_are_forged_or_of_others_are_refused() {
    let (lab, other) = (Lab::new(), Lab::new());
    let foreign = other.archive.store.snapshot(other.good).unwrap().to_bytes();
    let own = lab.archive.store.snapshot(lab.good).unwrap().to_bytes();
    lab.folder.write("small", b"changed");
    let later = lab.folder.backup(&lab.archive).snapshot;
    let mut files =
        vec![foreign, own.clone(), vec![], vec![0; 1000], own[..own.len() / 2].to_vec()];
    let honest = lab.archive.store.snapshot(later).unwrap().to_bytes();
    files.extend((0..honest.len()).step_by(honest.len() / 40).map(|at| {
        let mut flipped = honest.clone();
        flipped[at] ^= 0x20;
        flipped
    }));
    for (number, file) in files.into_iter().enumerate() {
        let fake = lab.lies(move |asked| match asked.honest {
            Some(Packet::Snapshot { name, .. }) => {
                Reply::Say(vec![Packet::Snapshot { name, file: file.clone() }])
            }
            _ => asked.honestly(),
        });
        is_refused(lab.restores(&fake, later), &format!("file {number}"));
    }
}

#[test]
fn lists_that_do_not_rise_or_do_not_end_are_refused() {
    let lab = Lab::new();
    let name = |sequence| SnapshotName { sequence, id: SnapshotId([1; 16]) };
    type List = dyn Fn(u64) -> (Vec<SnapshotName>, bool) + Send + Sync;
    let lists: Vec<Box<List>> = vec![
        Box::new(move |_| (vec![name(2), name(1)], false)),
        Box::new(move |_| (vec![name(2), name(2)], false)),
        Box::new(move |_| (vec![name(0)], false)),
        Box::new(move |_| (vec![], true)),
        Box::new(move |after| (vec![name(after)], true)),
        Box::new(move |after| ((1..=1500).map(|at| name(after + at)).collect(), true)),
    ];
    for (number, list) in lists.into_iter().enumerate() {
        let fake = lab.lies(move |asked| match asked.packet {
            Packet::ListSnapshots { after } => {
                let (names, more) = list(*after);
                Reply::Say(vec![Packet::SnapshotList { names, more }])
            }
            _ => asked.honestly(),
        });
        let dialed = dial(&fake);
        let listed = ends(move || {
            let archive = open(&dialed, Purpose::Read)?;
            archive.store.snapshots().map_err(|error| error.to_string())
        });
        is_refused(listed, &format!("list {number}"));
    }
}

/// They counted nothing towards the limit of bytes.
#[test]
fn expiries_that_say_nothing_and_do_not_end_are_refused() {
    let lab = Lab::new();
    let fake = lab.lies(move |asked| match asked.packet {
        Packet::GetExpiry { .. } => Reply::Say(vec![Packet::ExpiryRecord { expiry: Vec::new() }]),
        _ => asked.honestly(),
    });
    let dialed = dial(&fake);
    let asked = ends(move || {
        let archive = open(&dialed, Purpose::Read)?;
        archive.store.expiries().map_err(|error| error.to_string())
    });
    is_refused(asked, "expiries");
}

#[test]
fn another_repository_behind_the_same_address_is_noticed() {
    let (lab, other) = (Lab::new(), Lab::new());
    let config = other.archive.store.config().encode();
    let fake = lab.lies(move |asked| match asked.honest {
        Some(Packet::Opened { domain, damage_epoch, .. }) if asked.connection > 1 => {
            let config = PathBytes(config.clone());
            let (may_write, may_read, may_init) = (true, true, false);
            Reply::Say(vec![Packet::Opened {
                domain,
                config,
                damage_epoch,
                may_write,
                may_read,
                may_init,
                receipt_keys: Vec::new(),
            }])
        }
        Some(Packet::Snapshot { .. }) if asked.connection == 1 => Reply::Disconnect,
        _ => asked.honestly(),
    });
    let error = lab.restores(&fake, lab.good).unwrap_err();
    assert!(error.contains("another repository"), "{error}");
}
