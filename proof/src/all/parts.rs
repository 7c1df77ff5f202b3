//! What a long run is made of.

/// What is run.
pub(super) enum What {
    /// A rig of this program, and its options.
    Rig(&'static [&'static str]),
    /// Another program below the top folder; it takes seconds as its last word.
    Program(&'static [&'static str]),
    /// Another program that takes as long as it takes.
    Whole(&'static [&'static str]),
    /// The same, and it remembers by itself what it has seen of which sources: no record of a run speaks for it.
    Remembers(&'static [&'static str]),
    /// The rig of fidelity with as much as file systems hold, and these options.
    Large(&'static [&'static str]),
}

/// One line of the table.
pub(super) struct Part {
    pub(super) name: &'static str,
    /// Of the whole time, in hundredths; 0: it takes as long as it takes.
    pub(super) share: u64,
    pub(super) what: What,
    /// It compares times, so that nothing else may run beside it.
    pub(super) is_alone: bool,
    /// The packages whose sources decide its outcome, besides this one's; none: everything does.
    pub(super) of: &'static [&'static str],
}

/// The whole program, and with it all of its packages.
const PROGRAM: &[&str] = &["icecore"];

/// A rig of this program that ends with its time.
const fn rig(name: &'static str, share: u64, words: &'static [&'static str]) -> Part {
    Part { name, share, what: What::Rig(words), is_alone: false, of: PROGRAM }
}

const fn whole(
    name: &'static str,
    words: &'static [&'static str],
    of: &'static [&'static str],
) -> Part {
    Part { name, share: 0, what: What::Whole(words), is_alone: false, of }
}

const fn alone(name: &'static str, words: &'static [&'static str]) -> Part {
    Part { is_alone: true, ..whole(name, words, PROGRAM) }
}

/// Rigs that end when their time is over, and not before.
const WITHOUT_END: &str = "1000000000";

/// What runs alone first, so that no other part is waited for; then the longest, beside which others end.
pub(super) const PARTS: [Part; 27] = [
    alone("a thousand nodes", &["make", "--quiet", "fleet"]),
    whole(
        "models of retention and schedules",
        &["make", "--quiet", "models"],
        &["retention", "schedule", "site"],
    ),
    whole("sabotage", &["make", "--quiet", "sabotage"], &["simulation"]),
    Part { of: &["simulation"], ..rig("simulated disk", 11, &["sim", "--seeds", WITHOUT_END]) },
    whole("client on the simulated disk", &["make", "--quiet", "client-on-disk"], &["pipeline"]),
    whole("damage matrix", &["make", "--quiet", "damage"], &["pipeline"]),
    rig("system calls", 9, &["inject"]),
    rig("kill -9", 6, &["crash", "--io", "changing", "--runs", WITHOUT_END]),
    rig(
        "kill -9, without deduplication",
        3,
        &["crash", "--kind", "without-dedup", "--io", "changing", "--runs", WITHOUT_END],
    ),
    rig("kill -9, a bucket", 4, &["crash", "--kind", "bucket", "--runs", WITHOUT_END]),
    shut_down("shut down, ext4", &["crash", "--runs", WITHOUT_END, "--shut-down", "ext4"]),
    shut_down("shut down, xfs", &["crash", "--runs", WITHOUT_END, "--shut-down", "xfs"]),
    rig("power cut, ext4", 4, &["device", "--io", "direct"]),
    rig(
        "power cut, without deduplication",
        2,
        &["device", "--kind", "without-dedup", "--io", "buffered"],
    ),
    rig("power cut of a restore", 2, &["device", "--target"]),
    rig("power cut, xfs", 4, &["device", "--file-system", "xfs"]),
    rig("power cut, btrfs", 5, &["device", "--file-system", "btrfs"]),
    rig("a site", 5, &["site", "--nodes", "40"]),
    rig("full disks", 5, &["full"]),
    rig("frozen processes", 5, &["freeze"]),
    rig("network file system", 4, &["network"]),
    rig("disconnected nodes", 5, &["disconnects", "--runs", WITHOUT_END]),
    rig("upkeep beside backups", 4, &["upkeep"]),
    rig("limits", 4, &["limits"]),
    rig("fidelity", 4, &["fidelity"]),
    Part { what: What::Program(&[".ci/fuzz"]), of: &["fuzzed"], ..rig("fuzz", 6, &[]) },
    Part {
        what: What::Remembers(&["make", "--quiet", "sabotage-sources"]),
        ..whole("sabotage of the sources", &[], &[])
    },
];

/// What runs only with `--nightly`.
pub(super) const NIGHTLY: [Part; 11] = [
    whole("second reader", &["make", "--quiet", "second-reader"], &[]),
    whole("advisories", &["make", "--quiet", "advisories"], &[]),
    whole("a million executions of each target", &["make", "--quiet", "fuzz-million"], &[]),
    whole("packages", &["make", "--quiet", "package-test"], &[]),
    whole("every system call of backup and restore", &["make", "--quiet", "inject-whole"], &[]),
    alone("a million jobs in the catalog", &["make", "--quiet", "catalog-speed"]),
    whole("seeds of a bucket", &["make", "--quiet", "bucket-seeds"], &[]),
    whole("pools that are taken over", &["make", "--quiet", "takeover"], &[]),
    whole("shared file systems", &["make", "--quiet", "shared"], &[]),
    whole("buckets on MinIO, Ceph and Garage", &["make", "--quiet", "storages"], &[]),
    large("many names and links, ext4", &["--only", "ext4 > ext4 as root"]),
];

/// A million names in a directory, 3,000 levels, 65,000 links of one file.
const fn large(name: &'static str, words: &'static [&'static str]) -> Part {
    Part { what: What::Large(words), ..rig(name, 0, &[]) }
}

const fn shut_down(name: &'static str, words: &'static [&'static str]) -> Part {
    rig(name, 4, words)
}
