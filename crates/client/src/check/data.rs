//! Data: every record of a container is read, its checksum and its seal are checked, and every
//! object in it is compared with its name.

use super::{Options, Report, cancelled};
use crate::backup::Progress;
use crate::blocks::Scratch;
use crate::{Archive, Error, Result};
use format::container::Row;
use format::record::{self, RecordKind};
use ids::{ContainerNo, ObjectId, Place};
use parking_lot::Mutex;
use repository::check::{Damage as ContainerDamage, Opened, containers_in_index, open, parity};
use repository::container::read::ContainerReader;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Damage in containers, with the objects that it concerns as far as they are known.
#[derive(Default)]
pub(super) struct Bad {
    pub(super) damages: Vec<ContainerDamage>,
    pub(super) objects: Vec<ObjectId>,
    /// Containers of which nothing can be read.
    pub(super) lost: Vec<ContainerNo>,
}

#[derive(Default)]
struct Total {
    bad: Bad,
    containers_read: u64,
    bytes_read: u64,
}

pub(super) fn check(
    archive: &Archive,
    options: &Options,
    progress: &Progress,
    report: &mut Report,
) -> Result<Bad> {
    let numbers = containers_in_index(&archive.repository)?;
    report.containers = numbers.len() as u64;
    let chosen = choose(&numbers, options.read_data_percent);
    let (next, total) = (AtomicUsize::new(0), Mutex::new(Total::default()));
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(2, usize::from),
        threads => threads,
    };
    std::thread::scope(|scope| {
        let work = || work(archive, &numbers, &chosen, progress, &next, &total);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err(Error::ThreadGone)))
    })?;
    let total = total.into_inner();
    (report.containers_read, report.bytes_read) = (total.containers_read, total.bytes_read);
    Ok(total.bad)
}

/// Which containers are read wholly: all, or an even sample that moves with the day, so that
/// checks of a tenth each come round.
fn choose(numbers: &[ContainerNo], percent: Option<f64>) -> Vec<bool> {
    let Some(percent) = percent else { return vec![false; numbers.len()] };
    let share = (percent / 100.0).clamp(0.0, 1.0);
    let day = (crate::archive::now_secs() / 86_400) as f64;
    let offset = (day * share).fract();
    let at = |index: usize| {
        ((index as f64 + 1.0) * share + offset).floor() - (index as f64 * share + offset).floor()
    };
    (0..numbers.len()).map(|index| share >= 1.0 || at(index) > 0.0).collect()
}

fn work(
    archive: &Archive,
    numbers: &[ContainerNo],
    chosen: &[bool],
    progress: &Progress,
    next: &AtomicUsize,
    total: &Mutex<Total>,
) -> Result<()> {
    let mut scratch = Scratch::new()?;
    let mut buffer = Vec::new();
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(number) = numbers.get(at) else { return Ok(()) };
        cancelled(progress)?;
        let mut bad = Bad::default();
        let mut bytes = 0;
        match open(&archive.repository, *number, &mut bad.damages) {
            Some(Opened { reader, rows }) if chosen[at] => {
                bytes = rows.iter().map(|row| u64::from(row.length)).sum();
                for row in &rows {
                    check_row(archive, &reader, row, &mut scratch, &mut buffer, &mut bad);
                    progress.bytes_read.fetch_add(row.length.into(), Ordering::Relaxed);
                }
                // What is known to be damaged is said once.
                if bad.damages.is_empty() {
                    bad.damages.extend(parity(&archive.repository, &reader));
                }
            }
            Some(_) => {}
            None => bad.lost.push(*number),
        }
        let mut total = total.lock();
        total.containers_read += u64::from(bytes > 0);
        total.bytes_read += bytes;
        total.bad.damages.append(&mut bad.damages);
        total.bad.objects.append(&mut bad.objects);
        total.bad.lost.append(&mut bad.lost);
    }
}

fn check_row(
    archive: &Archive,
    reader: &ContainerReader,
    row: &Row,
    scratch: &mut Scratch,
    buffer: &mut Vec<u8>,
    bad: &mut Bad,
) {
    let place = Place { container: reader.number(), offset: row.offset, length: row.length };
    if let Err(reason) = record_is_good(archive, reader, place, scratch, buffer) {
        let range = Some((row.offset.into(), row.length.into()));
        let is_healable = reader.heal(place, buffer);
        bad.damages.push(ContainerDamage {
            container: place.container,
            range,
            reason,
            is_healable,
        });
        if is_healable {
            return;
        }
        let head = reader.associated(row);
        if let Ok(Ok(ids)) =
            head.map(|head| record::head_only(&head).and_then(|record| record::object_ids(&record)))
        {
            bad.objects.extend(ids);
        }
    }
}

fn record_is_good(
    archive: &Archive,
    reader: &ContainerReader,
    place: Place,
    scratch: &mut Scratch,
    buffer: &mut Vec<u8>,
) -> std::result::Result<(), String> {
    reader.read(place, buffer).map_err(|error| error.to_string())?;
    let record = record::verify(buffer).map_err(|error| error.to_string())?;
    if !matches!(record.header.kind, RecordKind::Data | RecordKind::Pages) {
        return Ok(());
    }
    let Ok(blocks) = archive.blocks() else { return Ok(()) };
    let opened =
        blocks.open_bytes(place.container, buffer, scratch).map_err(|error| error.to_string())?;
    let ids = &archive.keys.writer.ids;
    for (at, id) in opened.ids.iter().enumerate() {
        let payload = opened.payload(at);
        let name = match opened.page_head(at) {
            Some((kind, refs)) => ids.page_id(kind as u8, refs, payload),
            None => ids.chunk_id(payload),
        };
        if name != *id {
            return Err(format!("object {id} has other content than its name says"));
        }
    }
    Ok(())
}
