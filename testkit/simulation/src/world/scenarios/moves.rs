//! Moves of a repository to another disk.

use super::*;
use repository::moving::Move;
use repository::watch::Unwatched;

/// A repository is moved to another disk. Something goes wrong there at any step, others write meanwhile, and the move
/// is made once more. Then the power of that disk goes.
pub fn a_repository_that_moves(bed: &mut TestBed) {
    bed.set_container_bytes(2_000);
    let Some(running) = bed.start() else { return };
    for number in 0..3 {
        bed.must_succeed("a backup", bed.backup(&running, 500 * number + bed.step));
    }
    let target = Disk::new(Random::new(bed.step), false);
    let faults = [Fault::PowerCut, Fault::Kill, Fault::IoError, Fault::ShortWrite, Fault::DiskFull];
    target.arm(Faults::after(bed.step * 2, faults[bed.step as usize % faults.len()]));
    let _ = move_to(&running, &target);
    target.disarm();
    target.set_free_bytes(AMPLE_BYTES);
    bed.must_succeed("to forget", bed.forget(&running, &bed.live_snapshots()[..1]));
    bed.must_succeed("to reclaim", bed.reclaim(&running));
    bed.must_succeed("a backup", bed.backup(&running, 2000 + bed.step));
    bed.must_succeed("the move", move_to(&running, &target));
    bed.end(running);
    target.lose_power();
    bed.shared = bed.shared.on(target);
    let Some(next) = bed.start() else { return };
    bed.must_succeed("the next backup", bed.backup(&next, 3000 + bed.step));
}

fn move_to(running: &WriterProcess, target: &Arc<Disk>) -> Result<()> {
    let storage = target.process();
    let copy = Move::new(&running.repository, &storage, &Unwatched);
    copy.beside()?;
    copy.rest(&running.lease).map(|_| ())
}
