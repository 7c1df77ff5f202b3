//! The command line: words of any kind are understood or refused.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// What a fuzzer takes long to find: one byte of the input stands for one of these.
const WORDS: &[&str] = &[
    "init",
    "backup",
    "snapshots",
    "ls",
    "find",
    "diff",
    "cat",
    "dump",
    "map",
    "restore",
    "check",
    "forget",
    "reclaim",
    "stats",
    "key",
    "tag",
    "rebuild",
    "bench",
    "explain",
    "completions",
    "man",
    "exit-codes",
    "help",
    "--repo",
    "-r",
    "--json",
    "-q",
    "--profile",
    "--read-data",
    "--read-data=",
    "--threads",
    "--exclude",
    "--exclude-from",
    "--tag",
    "--keep-last",
    "--keep-within",
    "--keep-daily",
    "--dry-run",
    "--delete",
    "--verify",
    "--overwrite",
    "--include",
    "--stdin",
    "--limit-rate",
    "--help",
    "--version",
    "--",
    "-",
    "latest",
    "latest:/etc",
    "10%",
    "1d",
    "/",
    "add",
    "list",
    "remove",
];

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    let words = bytes.split(|byte| *byte == b'\n').take(24).map(|word| match word {
        [number] => OsString::from(WORDS[usize::from(*number) % WORDS.len()]),
        word => OsString::from_vec(word.to_vec()),
    });
    icecore::parses(std::iter::once(OsString::from("icecore")).chain(words));
}
