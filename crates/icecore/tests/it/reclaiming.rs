//! What `reclaim` advises where it cannot go on, followed to the letter.

use crate::full_disk::Small;
use crate::machine::{Machine, Ran, random};
use std::fs::File;
use std::path::Path;

/// How much of it is written anew with each backup, and how much stays: no container is without what lives.
const PART_BYTES: usize = 8 << 20;

/// A repository of three containers, each of which has more live data than the reserve holds, on a disk that the file
/// `filler` fills.
fn full(machine: &Machine) -> Option<(Small, File)> {
    let disk = Small::mount(machine.path("repository"), "96m")?;
    machine.run(["init"]).ends(0);
    let bytes = random(6 * PART_BYTES);
    for (number, parts) in bytes.chunks(2 * PART_BYTES).enumerate() {
        machine.write(&format!("stays{number}"), &parts[..PART_BYTES]);
        machine.write("changes", &parts[PART_BYTES..]);
        machine.backup();
    }
    machine.run(["forget", "--keep-last", "1"]).ends(0);
    let filler = File::create(machine.path("repository/filler")).unwrap();
    while std::io::Write::write_all(&mut &filler, &[1; 4096]).is_ok() {}
    Some((disk, filler))
}

/// The room that the advice names, in bytes.
fn room(ran: &Ran) -> u64 {
    let (before, _) = ran.stderr.split_once(" MiB free").expect(&ran.stderr);
    let number = before.rsplit_once(' ').expect(&ran.stderr).1;
    number.parse::<u64>().expect(&ran.stderr) << 20
}

fn free(at: &Path) -> u64 {
    let disk = rustix::fs::statvfs(at).unwrap();
    disk.f_bavail * disk.f_frsize
}

/// It said to forget old snapshots and to reclaim, for ever.
#[test]
fn the_room_that_a_reclaim_on_a_full_disk_asks_for_is_enough() {
    let machine = Machine::bare();
    let Some((_disk, filler)) = full(&machine) else { return };
    let repository = machine.path("repository");
    let snapshots = machine.snapshots();
    let ran = machine.run(["reclaim"]).ends(15);
    assert!(!ran.stderr.contains("icecore forget"), "it helps nobody: {}", ran.stderr);
    let place = repository.display();
    assert!(ran.stderr.contains(&format!("df -h {place}")), "{}", ran.stderr);
    assert!(ran.stderr.contains("run again: icecore reclaim"), "{}", ran.stderr);
    let room = room(&ran);
    assert!((PART_BYTES as u64..=3 * PART_BYTES as u64).contains(&room), "{}", ran.stderr);
    let lacking = room.saturating_sub(free(&repository));
    filler.set_len(filler.metadata().unwrap().len() - lacking).unwrap();
    assert!(free(&repository) < room + (1 << 20), "no more than it asked for");
    let ran = machine.run(["reclaim"]).ends(0);
    assert!(!ran.stderr.contains("no room"), "{}", ran.stderr);
    assert_eq!(machine.snapshots(), snapshots);
    machine.run(["check", "--read-data"]).ends(0);
    let nothing = machine.run(["reclaim"]).ends(0).text();
    assert!(nothing.contains("Nothing to reclaim"), "all of it is done: {nothing}");
}
