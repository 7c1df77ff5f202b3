//! Moves of a domain from which a command on this machine copies.

use super::*;
use repository::readers::{DIRECTORY, ReaderPin};

/// Ends a move once it waits for a reader.
#[derive(Default)]
struct EndsWhenItWaits(Mutex<bool>);

impl Watch for EndsWhenItWaits {
    fn moved(&self, _: u64) {}

    fn goes_on(&self) -> bool {
        !*self.0.lock()
    }

    fn stage(&self, stage: &str) {
        *self.0.lock() |= stage == "wait for a copy that reads the files of the domain";
    }
}

#[test]
fn a_move_waits_for_a_copy_that_reads_the_files_unless_it_is_to_interrupt() {
    let rig = Rig::new();
    let pin = ReaderPin::new(&reopened(&rig.from), vec![page(1)]);
    assert!(pin.is_seen_elsewhere());
    let (mover, watch) = (Mover(rig.shared.clone()), EndsWhenItWaits::default());
    let moved = mover.move_domain(&rig.request(false), &rig, &watch).unwrap();
    assert!(*watch.0.lock() && !moved.is_done, "{moved:?}");
    rig.is_where_it_was();
    let request = MoveRequest { interrupt: true, ..rig.request(false) };
    let moved = mover.move_domain(&request, &rig, &EndsWhenItWaits::default()).unwrap();
    assert!(moved.is_done, "{moved:?}");
    rig.is_moved(3);
}

#[test]
fn a_reader_that_died_keeps_nobody_from_moving() {
    let rig = Rig::new();
    let pin = ReaderPin::new(&reopened(&rig.from), vec![page(1)]);
    let left = rig.from.join(DIRECTORY);
    let kept = left.with_file_name("kept");
    copy_tree(&left, &kept);
    drop(pin);
    fs::remove_dir_all(&left).unwrap();
    fs::rename(&kept, &left).unwrap();
    assert_eq!(fs::read_dir(&left).unwrap().count(), 2, "its pin and its lock");
    let mover = Mover(rig.shared.clone());
    let moved = mover.move_domain(&rig.request(false), &rig, &EndsWhenItWaits::default());
    assert!(moved.unwrap().is_done);
    rig.is_moved(3);
}
