//! Breaks what Icecore stands on (processes, disks, file systems), and looks whether anything that
//! was acknowledged is lost. Each rig is a command; each ends with one line that says what it did.

mod all;
mod client;
mod crash;
mod cuts;
mod device;
mod fidelity;
mod fleet;
mod freeze;
mod full;
mod group;
mod icecore;
mod inject;
mod limits;
mod mounted;
mod network;
mod options;
#[cfg(feature = "sabotage")]
mod sabotage;
mod server;
mod sim;
mod snapshot;
mod tree;
mod volume;

use std::process::ExitCode;

const HELP: &str = "\
cargo proof all [OPTIONS]     every rig for its share of the time, and one table
    --seconds S     altogether, beside what takes its own time (default 1200)
    --nightly       more that takes its own time: advisories, a million executions of each fuzz
                    target, as many names and links as a file system holds
    --binary PATH   the icecore that is put to the proof (default target/release/icecore)
cargo proof crash [OPTIONS]   kill -9 at random moments, then compare every acknowledged snapshot
    --runs N        commands to start and kill (default 200)
    --seconds S     stop after this time, however many runs that were
    --seed N        repeat a run of the random numbers (printed at the start)
    --verify-every K   check and restore after this many runs (default 10)
    --binary PATH   the icecore to kill (default target/release/icecore)
    --keep          leave the working directory behind
    --shut-down FS  instead of killing, shut down the file system (ext4, xfs) under the
                    repository, as a power cut does; as root
cargo proof cuts [OPTIONS]    a server and its nodes: kill -9 of the server and of backups, connections cut
                              and stalled; whoever was cut off goes on by itself
    --runs N        kills and cuts (default 1000)
    --seconds S     stop after this time, however many that were
    --seed N        repeat a run of the random numbers (printed at the start)
    --nodes N       machines that back up at the same time (default 3)
    --binary PATH   the icecore to run (default target/release/icecore)
cargo proof device [OPTIONS]  a disk that logs writes and flushes; the power cut at every flush, with
                              none, all, or torn parts of what was written since; as root
    --file-system FS   ext4 (default), xfs or btrfs
    --commands N    commands that are logged (default 16; 6 restores)
    --target        not the repository lies on that disk, but what is restored
    --seconds S     some of the flushes, as many as the time allows
    --seed N        repeat a run
    --binary PATH   the icecore that writes (default target/release/icecore)
cargo proof inject [OPTIONS]  a fault at the N-th system call that touches the repository, N = 1, 2, …
    --seconds S     calls at random for this long, instead of all
    --seed N        repeat such a run
    --only COMMAND  only faults of init, backup, forget, reclaim, rebuild, tag, addkey, check, restore
    --binary PATH   the icecore that meets faults (default target/release/icecore)
cargo proof fidelity [OPTIONS]   every kind of object and attribute, from each file system to each,
                              as root and as a plain user: exact, or reported by path
    --seconds S     stop after this time; the first cells meet every source and target
    --seed N        begin elsewhere
    --binary PATH   the icecore to run (default target/release/icecore)
    --many N        names in one directory (default 2000)
    --depth N       directories in each other (default 1200, longer than a path may be)
    --links N       names of one file more (default none; ext4 holds 65000)
    --only TEXT     only cells whose name has it, like 'ext4 > xfs as root'
cargo proof fleet [OPTIONS]   a server with very many nodes at work, very many agents that wait, and strangers
                              that mean harm: fair, within its memory, and nobody is slowed
    --nodes N       nodes that back up at once (default 1000)
    --idle N        agents that wait (default 10000)
    --binary PATH   the icecore to run (default target/release/icecore)
cargo proof freeze [OPTIONS]  two clients of one repository, of which one sleeps at random moments,
                              with its lock or robbed of it
    --seconds S     stop after this time (default: 60 sleeps)
    --seed N        repeat a run of the random numbers (printed at the start)
    --binary PATH   the icecore to run (default target/release/icecore)
cargo proof full [OPTIONS]    file systems that are full, fill up or turn read-only under each command
    --seconds S     stop after this time (default: four times each command on each file system)
    --seed N        repeat a run of the random numbers (printed at the start)
    --binary PATH   the icecore to run (default target/release/icecore)
cargo proof limits [OPTIONS]  each command with less and less memory and descriptors, on a slow disk,
                              and with a clock that jumps
    --seconds S     begin nothing new after this time
    --seed N        repeat a run of the random numbers (printed at the start)
    --binary PATH   the icecore to run (default target/release/icecore)
    --mib N         size of the source (default 48)
cargo proof network [OPTIONS] two machines on a network file system that loses requests, lists what was
                              and goes away; as root
    --seconds S     stop after this time (default: 80 rounds)
    --seed N        repeat a run of the random numbers (printed at the start)
    --binary PATH   the icecore to run (default target/release/icecore)
cargo proof sim [OPTIONS]     the engine on a simulated disk: power cuts, kills, failing disks
    --seeds N       seeds to run (default 1000)
    --first N       the first of them (default 0)
    --seconds S     stop after this time, however many seeds that were
    --log           run only the first seed, and print all that it asked of the disk
cargo proof sabotage [SEEDS]  takes one protection out after the other: some seed must find each
                              (needs --features sabotage)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    match command {
        "all" => all::main(rest),
        "crash" => crash::main(rest),
        "cuts" => cuts::main(rest),
        "device" => device::main(rest),
        "inject" => inject::main(rest),
        "fidelity" => fidelity::main(rest),
        "fleet" => fleet::main(rest),
        "freeze" => freeze::main(rest),
        "network" => network::main(rest),
        "full" => full::main(rest),
        "limits" => limits::main(rest),
        "sim" => sim::main(rest),
        #[cfg(feature = "sabotage")]
        "sabotage" => sabotage::main(rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        other => {
            eprintln!("unknown command: {other}\n{HELP}");
            ExitCode::from(2)
        }
    }
}

/// Says what could not be done when the system refused.
pub(crate) fn failed(what: &str) -> impl Fn(std::io::Error) -> String + '_ {
    move |error| format!("cannot {what}: {error}")
}
