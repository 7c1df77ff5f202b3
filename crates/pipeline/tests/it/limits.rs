//! Caps: slower, and nothing else.

use crate::testkit::build::noise;
use crate::testkit::{Heard, TestFolder};
use pipeline::backup::{BackupOptions, BackupOutcome, Progress, run};
use pipeline::throttle::ResourceLimits;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

fn run_with(limits: ResourceLimits) -> (BackupOutcome, Duration) {
    let folder = TestFolder::new();
    (0..8).for_each(|number| folder.write(&format!("file{number}"), &noise(number, MIB / 2)));
    folder.write("large", &noise(99, 2 * MIB));
    let repository = folder.init();
    let options = BackupOptions { limits, ..folder.options() };
    let begun = Instant::now();
    let done = run(&repository, &options, &Progress::default(), &Heard::default()).unwrap();
    let took = begun.elapsed();
    folder.assert_restores(&repository, done.snapshot, &folder.state());
    (done, took)
}

fn assert_waits_for_the_cap(limits: ResourceLimits) {
    let (done, took) = run_with(limits);
    // 6 MiB at 2 MiB a second; who comes first need not wait for the others' bytes, and a machine that does much else
    // takes a part of the time anyway.
    assert!(took > Duration::from_millis(600), "{took:?}");
    assert!(done.report.stages.limit_wait_secs > 0.5, "{:#?}", done.report.stages);
    let bottleneck = done.report.bottleneck().unwrap();
    assert!(bottleneck.contains("because of limits"), "{bottleneck}");
}

#[test]
fn reading_is_capped() {
    let read_bytes_per_sec = 2 * MIB as u64;
    assert_waits_for_the_cap(ResourceLimits { read_bytes_per_sec, ..ResourceLimits::default() });
}

#[test]
fn writing_is_capped() {
    let write_bytes_per_sec = 2 * MIB as u64;
    assert_waits_for_the_cap(ResourceLimits { write_bytes_per_sec, ..ResourceLimits::default() });
}

#[test]
fn without_caps_nobody_waits() {
    let (done, _) = run_with(ResourceLimits::default());
    assert_eq!(done.report.stages.limit_wait_secs, 0.0);
}
