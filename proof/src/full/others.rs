//! What fills up or stops beside the repository's disk: a target, and a disk that turns read-only.

use crate::client::{Client, Ran};
use crate::mounted::Mounted;
use crate::{failed, tree};
use simulation::Random;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const NO_SPACE: i32 = 15;
/// Read-only disks tried per command; the moments are spread over what the command takes.
const MOMENTS: u32 = 3;

/// Runs all of it; what was done, in words.
pub(super) fn all(binary: &Path, work: &Path, random: &mut Random) -> Result<String, String> {
    let work = work.join("others");
    let source = work.join("source");
    std::fs::create_dir_all(&work).map_err(failed("make a folder"))?;
    tree::create(&source, random).map_err(failed("make a tree"))?;
    std::fs::write(source.join("large"), random.bytes(12 << 20)).map_err(failed("write"))?;
    target_fills_up(binary, &work, &source)?;
    let read_only = turns_read_only(binary, &work, &source, random)?;
    Ok(format!("a full target was reported and completed later; {read_only}"))
}

fn same(was: &tree::Copy, target: &Path) -> Result<(), String> {
    let found = tree::copy(target).map_err(failed("read what was restored"))?;
    let differences = tree::differences(was, &found);
    if differences.is_empty() { Ok(()) } else { Err(differences.join("\n")) }
}

/// The restore names the target and ends with its code; what has a name is whole; with more room
/// the same command completes it.
fn target_fills_up(binary: &Path, work: &Path, source: &Path) -> Result<(), String> {
    let client = Client::new(binary, &work.join("repository of a full target"));
    client.ends(&["init"], &[0])?;
    let id = client.back_up(source)?;
    let was = tree::copy(source).map_err(failed("read the source"))?;
    for size in ["size=2m", "size=8m", "size=64m,nr_inodes=12"] {
        let target = Mounted::tmpfs(&work.join("target"), size)?;
        let (what, at) = (format!("{id}:{}", source.display()), target.path().to_string_lossy());
        let restore = ["restore", &*what, "--target", &*at];
        let ran = client.ends(&restore, &[NO_SPACE])?;
        if !ran.stderr.contains(&*at) {
            return Err(format!("the target is not named: {}", ran.told()));
        }
        let found = tree::copy(target.path()).map_err(failed("read the target"))?;
        tree::all_whole(&was, &found)?;
        target.remount("size=64m,nr_inodes=1000")?;
        client.ends(&restore, &[0])?;
        same(&was, target.path())?;
    }
    Ok(())
}

/// ext4 turns read-only by itself when it meets an error; the kernel lets one be made.
struct Failing {
    mounted: Mounted,
    trigger: PathBuf,
}

impl Failing {
    fn make(at: &Path) -> Result<Self, String> {
        let mounted = Mounted::image("ext4", at, 256 << 20, &[])?;
        mounted.remount("errors=remount-ro")?;
        let device = mounted.device()?;
        let trigger = Path::new("/sys/fs/ext4").join(device).join("trigger_fs_error");
        Ok(Self { mounted, trigger })
    }

    fn fail(&self) -> Result<(), String> {
        std::fs::write(&self.trigger, "made by a test").map_err(failed("make an error"))
    }
}

/// Backup and reclaim on a disk that turns read-only in the middle.
fn turns_read_only(
    binary: &Path,
    work: &Path,
    source: &Path,
    random: &mut Random,
) -> Result<String, String> {
    let (mut stopped, mut done) = (0, 0);
    for moment in 0..MOMENTS * 2 {
        let disk = Failing::make(&work.join("failing"))?;
        let client = Client::new(binary, &disk.mounted.path().join("repository"));
        client.ends(&["init"], &[0])?;
        let mut kept = vec![(client.back_up(source)?, copy(source)?)];
        std::fs::write(source.join("large"), random.bytes(12 << 20)).map_err(failed("write"))?;
        let begun = Instant::now();
        kept.push((client.back_up(source)?, copy(source)?));
        let usual = begun.elapsed();
        std::fs::write(source.join("large"), random.bytes(12 << 20)).map_err(failed("write"))?;
        let shown = source.to_string_lossy();
        let words: &[&str] = if moment % 2 == 0 {
            &["backup", &shown, "--json"]
        } else {
            let (oldest, _) = kept.remove(0);
            client.ends(&["forget", &oldest], &[0])?;
            &["reclaim", "--max-waste", "0", "--json"]
        };
        let started = client.start(words)?;
        let spread = u64::from(moment / 2 * 2 + 1) * usual.as_micros() as u64;
        std::thread::sleep(Duration::from_micros(spread / u64::from(MOMENTS * 2)));
        disk.fail()?;
        let ran = started.end()?;
        if ran.code == Some(0) {
            done += 1
        } else {
            stopped += 1
        }
        if let Some(id) = ran.acknowledged().filter(|_| words[0] == "backup") {
            kept.push((id, copy(source)?));
        }
        named(&ran, &client)?;
        comes_back(disk, &client, words, source, &kept)?;
        let _ = std::fs::remove_file(work.join("failing.img"));
    }
    Ok(format!("disks became read-only: {stopped} commands stopped, {done} completed before"))
}

fn copy(source: &Path) -> Result<tree::Copy, String> {
    tree::copy(source).map_err(failed("read the source"))
}

/// A command that was stopped by the disk says so of the repository.
fn named(ran: &Ran, client: &Client) -> Result<(), String> {
    let said = format!("{}{}", ran.stdout, ran.stderr);
    let is_named = said.contains(&*client.repository.to_string_lossy());
    match ran.code {
        Some(0) => Ok(()),
        // Not allowed, or the error of a journal that was stopped.
        Some(1 | 13) if is_named || !ran.message().is_empty() => Ok(()),
        _ => Err(format!("on a disk that became read-only: {}", ran.told())),
    }
}

/// Read-only, everything can be read; checked and mounted again, everything goes on.
fn comes_back(
    disk: Failing,
    client: &Client,
    words: &[&str],
    source: &Path,
    kept: &[(String, tree::Copy)],
) -> Result<(), String> {
    let target = disk.mounted.path().with_extension("restored");
    for (id, was) in kept {
        let what = format!("{id}:{}", source.display());
        client.ends(&["restore", &what, "--target", &target.to_string_lossy()], &[0])?;
        same(was, &target)?;
        std::fs::remove_dir_all(&target).map_err(failed("remove what was restored"))?;
    }
    let again = disk.mounted.repaired()?;
    client.ends(words, &[0])?;
    client.ends(&["check", "--read-data"], &[0])?;
    let listed = client.snapshots()?;
    if let Some((lost, _)) = kept.iter().find(|(id, _)| !listed.contains(id)) {
        return Err(format!("snapshot {lost} is lost"));
    }
    drop(again);
    Ok(())
}
