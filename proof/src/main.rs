//! Breaks what Icecore depends on (processes, disks, file systems, connections) and checks that nothing that was
//! acknowledged is lost. Each rig is a command, and ends with one line of results.

mod all;
mod alone;
mod client;
mod crash;
mod device;
mod disconnects;
mod fidelity;
mod fleet;
mod freeze;
mod full;
mod group;
mod icecore;
mod inject;
mod limits;
mod machines;
mod made;
mod mounted;
mod network;
mod options;
#[cfg(feature = "sabotage")]
mod sabotage;
mod server;
mod shared;
mod sim;
mod site;
mod snapshot;
mod takeover;
mod tree;
mod until;
mod upkeep;
mod volume;

use std::process::ExitCode;

const HELP: &str = "\
cargo proof all [OPTIONS]     run every rig for a part of the time, and print one table
    --seconds S     total time, without the checks that run as long as they need (default 1200)
    --nightly       also: advisories, a million executions of each fuzz target, and as many names
                    and links as a file system holds. A run that was stopped resumes after the
                    last part that ended, if the sources are the same; record and table are kept in
                    docs/results
    --binary PATH   the icecore to test (default target/release/icecore)
cargo proof crash [OPTIONS]   kill -9 at random moments, then compare every acknowledged snapshot
    --runs N        commands to start and kill (default 200)
    --seconds S     stop after this time, even if fewer runs were made
    --seed N        repeat a run with these random numbers (printed at the start)
    --verify-every K   check and restore after this many runs (default 10)
    --binary PATH   the icecore to kill (default target/release/icecore)
    --keep          keep the working directory
    --shut-down FS  instead of killing, shut down the file system (ext4, xfs) under the
                    repository, as a power cut does; needs root
    --io MODE       write containers direct, buffered or auto; changing: another way each time
    --on DIR        put the repository there, and all else into the directory for temporary files
cargo proof disconnects [OPTIONS]   a server and its nodes: kill -9 of the server and of backups, broken
                              and stalled connections; every disconnected node resumes by itself
    --runs N        kills and disconnects (default 1000)
    --seconds S     stop after this time, even if fewer were made
    --seed N        repeat a run with these random numbers (printed at the start)
    --nodes N       nodes that back up at the same time (default 3)
    --binary PATH   the icecore to test (default target/release/icecore)
cargo proof device [OPTIONS]  a disk that logs writes and flushes, with a power cut at every flush that
                              keeps none, all or some of what was written since; needs root
    --file-system FS   ext4 (default), xfs or btrfs
    --commands N    commands to log (default 16; 6 restores)
    --io MODE       write containers direct, buffered or auto
    --target        put the restored files on that disk, not the repository
    --seconds S     test as many of the flushes as the time allows
    --seed N        repeat a run
    --binary PATH   the icecore that writes (default target/release/icecore)
cargo proof inject [OPTIONS]  a fault at the N-th system call that touches the repository, N = 1, 2, …
    --seconds S     random calls for this long, instead of all calls
    --seed N        repeat such a run
    --only COMMAND  faults of one command: init, backup, forget, reclaim, rebuild, tag, addkey, check,
                    restore
    --binary PATH   the icecore to test (default target/release/icecore)
cargo proof fidelity [OPTIONS]   every kind of object and attribute, from each file system to each other,
                              as root and as an ordinary user: restored exactly, or reported by path
    --seconds S     stop after this time; the first cells cover every source and target
    --seed N        start with another cell
    --binary PATH   the icecore to test (default target/release/icecore)
    --many N        names in one directory (default 2000)
    --depth N       nested directories (default 1200, longer than a path may be)
    --links N       further names of one file (default none; ext4 holds 65000)
    --only TEXT     only cells whose name contains TEXT, such as 'ext4 > xfs as root'
cargo proof fleet [OPTIONS]   one server with many nodes at work, many idle agents and hostile clients:
                              fair, within its memory limit, and no node is slowed down
    --nodes N       nodes that back up at the same time (default 1000)
    --idle N        agents that wait (default 10000)
    --binary PATH   the icecore to test (default target/release/icecore)
cargo proof freeze [OPTIONS]  two clients of one repository, of which one is frozen at random moments and
                              keeps or loses its lock
    --seconds S     stop after this time (default: 60 freezes)
    --seed N        repeat a run with these random numbers (printed at the start)
    --binary PATH   the icecore to test (default target/release/icecore)
cargo proof full [OPTIONS]    file systems that are full, fill up or become read-only under each command
    --seconds S     stop after this time (default: each command four times on each file system)
    --seed N        repeat a run with these random numbers (printed at the start)
    --binary PATH   the icecore to test (default target/release/icecore)
cargo proof limits [OPTIONS]  each command with less and less memory and file descriptors, on a slow disk,
                              and with a clock that jumps
    --seconds S     start nothing new after this time
    --seed N        repeat a run with these random numbers (printed at the start)
    --binary PATH   the icecore to test (default target/release/icecore)
    --mib N         size of the source in MiB (default 48)
cargo proof network [OPTIONS] two machines on a network file system that loses requests, returns stale
                              listings and becomes unreachable; needs root
    --seconds S     stop after this time (default: 80 rounds)
    --seed N        repeat a run with these random numbers (printed at the start)
    --binary PATH   the icecore to test (default target/release/icecore)
cargo proof shared [OPTIONS]  two machines on a real shared file system whose servers are frozen and killed, and
                              whose mounts go away; needs root and its packages
    --file-system FS   glusterfs (default) or moosefs
    --rig NAME      instead, run another rig with all its files there: crash, freeze, inject
    --run LINE      instead, run a line of the shell in it
    --seconds S     stop after this time (default: 80 rounds)
    --seed N        repeat a run with these random numbers (printed at the start)
    --binary PATH   the icecore to test (default target/release/icecore)
cargo proof sim [OPTIONS]     the engine on a simulated disk: power cuts, kills, disk errors
    --seeds N       number of seeds (default 1000)
    --first N       first seed (default 0)
    --seconds S     stop after this time, even if fewer seeds were run
    --log           run only the first seed, and print every operation of the disk
cargo proof site [OPTIONS]    a server that runs twenty policies on real agents by itself, while jobs are cancelled,
                              agents and the server killed, connections cut and the site changed; needs root
    --seconds S     half of it on each catalog (default 1200)
    --catalog C     only on sqlite or postgresql
    --nodes N       agents (default 200)
    --seed N        repeat the random choices (printed at the start)
    --binary PATH   the icecore to test (default target/release/icecore)
cargo proof takeover [OPTIONS]   three storage servers on a shared file system, a control server with PostgreSQL and
                              twelve nodes, each in a network of its own: one storage server is frozen, killed or
                              cut off while all back up, and another machine takes its pool over; needs root
    --rounds N      pools that are taken over (default 6)
    --seconds S     begin no round after this time
    --seed N        repeat the random choices (printed at the start)
    --binary PATH   the icecore to test (default target/release/icecore)
cargo proof upkeep [OPTIONS]  a server that reclaims and checks a domain while nodes back up to it without a
                              pause: what is left of their rate, and whether the space comes back
    --nodes N       nodes that back up at the same time (default 12; the rate is not judged of fewer)
    --seconds S     time of rest and time of upkeep together (default 240)
    --binary PATH   the icecore to test (default target/release/icecore)
cargo proof sabotage [SEEDS]  switch off each guard in a process of its own: a scenario or a seed must fail
                              each time (needs --features sabotage)
    --only NAME     only this one (after SEEDS)
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
        "disconnects" => disconnects::main(rest),
        "device" => device::main(rest),
        "inject" => inject::main(rest),
        "fidelity" => fidelity::main(rest),
        "fleet" => fleet::main(rest),
        "freeze" => freeze::main(rest),
        "network" => network::main(rest),
        "full" => full::main(rest),
        "limits" => limits::main(rest),
        "shared" => shared::main(rest),
        "sim" => sim::main(rest),
        "site" => site::main(rest),
        "takeover" => takeover::main(rest),
        "upkeep" => upkeep::main(rest),
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
