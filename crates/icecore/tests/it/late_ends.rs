//! Jobs that end while the catalog takes nothing: the disk of its directory really is full.

use crate::administration::govern;
use crate::full_disk::with_small_data;
use crate::machine::{Machine, random};
use std::fs::File;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn a_job_that_ends_while_the_catalogs_disk_is_full_ends_once_there_is_room() {
    let machine = Machine::bare();
    let Some((_disk, _server)) = with_small_data(&machine) else { return };
    let mut command = machine.command(["backup", "--stdin", "name", "--agent-dir"]);
    command.arg(machine.path("agent")).env_remove("ICECORE_REPO").env_remove("ICECORE_PASSWORD");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut backup = command.spawn().unwrap();
    let running = || {
        let jobs = govern(&machine, &["jobs", "--json"]).ends(0).lines();
        jobs.iter().filter(|job| job["state"] == "running").count()
    };
    backup.stdin.as_mut().unwrap().write_all(&random(4 << 20)).unwrap();
    wait_until("the job", || running() == 1);
    let filler = machine.path("data/filler");
    let mut file = File::create(&filler).unwrap();
    while file.write(&[1; 4096]).is_ok_and(|written| written == 4096) {}
    drop(backup.stdin.take());
    let _ = backup.wait().unwrap();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(running(), 1, "the catalog could not be told");
    drop(file);
    std::fs::remove_file(&filler).unwrap();
    wait_until("its end", || running() == 0);
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} does not come");
        std::thread::sleep(Duration::from_millis(200));
    }
}
