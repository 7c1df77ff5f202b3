//! What both shared file systems have in common: servers that can be stopped, and two mounts.

use crate::failed;
use crate::mounted::{Mounted, run};
use crate::until::until;
use rustix::process::{Pid, Signal};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Neither of them serves on a loopback address, so the loopback device of these namespaces has another one.
pub(super) const ADDRESS: &str = "10.11.0.1";
/// What the servers keep.
const DISK_BYTES: u64 = 8 << 30;

/// A shared file system whose servers run here.
pub(super) trait Cluster {
    /// How many servers can be stopped.
    fn servers(&self) -> usize;
    fn signal(&mut self, server: usize, signal: Signal) -> Result<(), String>;
    /// Starts a server that was killed.
    fn restart(&mut self, server: usize) -> Result<(), String>;
    /// Mounts it for this machine.
    fn mount(&mut self, machine: usize) -> Result<(), String>;
    fn work(&self) -> &Path;

    /// Kills what answers for this machine's mount, and removes the mount.
    fn lose_mount(&mut self, machine: usize) -> Result<(), String> {
        let at = mount_point(self.work(), machine);
        let needle = at.to_string_lossy().into_owned();
        for id in processes_with(self.client(), &needle)? {
            kill(id, Signal::KILL)?;
        }
        run("umount", ["-l".as_ref(), at.as_os_str()]).map(|_| ())
    }

    /// The program that answers for a mount.
    fn client(&self) -> &'static str;

    /// Waits until both machines can use it.
    fn answers(&self) -> Result<(), String> {
        [0, 1].into_iter().try_for_each(|machine| {
            let probe = mount_point(self.work(), machine).join(format!("probe {machine}"));
            until("the file system answers", || std::fs::write(&probe, "probe").is_ok())
        })
    }
}

/// Without a blank: the mount script of GlusterFS takes none.
pub(super) fn mount_point(work: &Path, machine: usize) -> PathBuf {
    work.join(format!("machine-{machine}"))
}

/// The network and a disk of these namespaces.
pub(super) fn prepare(work: &Path) -> Result<(), String> {
    run("ip", ["link", "set", "lo", "up"])?;
    run("ip", ["address", "add", &format!("{ADDRESS}/32"), "dev", "lo"])?;
    for machine in [0, 1] {
        std::fs::create_dir_all(mount_point(work, machine)).map_err(failed("make a folder"))?;
    }
    Ok(())
}

/// The disk of the servers.
pub(super) fn disk(work: &Path) -> Result<(Mounted, PathBuf), String> {
    let at = work.join("disk");
    Ok((Mounted::image("ext4", &at, DISK_BYTES, &[])?, at))
}

/// Makes the empty folder `name` below `folder`.
pub(super) fn folder(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let made = folder.join(name);
    std::fs::create_dir_all(&made).map_err(failed("make a folder"))?;
    Ok(made)
}

/// Starts a server in the foreground. What it says goes to the file `log`.
pub(super) fn serve(program: &str, arguments: &[&str], log: &Path) -> Result<Child, String> {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
    let file = file.map_err(failed("make a log"))?;
    let other = file.try_clone().map_err(failed("make a log"))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(file).stderr(other);
    command.spawn().map_err(|error| format!("cannot start {program}: {error}"))
}

pub(super) fn kill(id: i32, signal: Signal) -> Result<(), String> {
    let pid = Pid::from_raw(id).ok_or("no process")?;
    rustix::process::kill_process(pid, signal)
        .map_err(|error| format!("cannot signal {id}: {error}"))
}

/// Ids of the processes of `program` whose command line has `needle`.
fn processes_with(program: &str, needle: &str) -> Result<Vec<i32>, String> {
    let names = std::fs::read_dir("/proc").map_err(failed("list processes"))?;
    let ids = names.filter_map(|name| name.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let is_one = |id: &i32| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let first = line.split('\0').next().unwrap_or_default();
        Path::new(first).file_name().is_some_and(|name| name == program) && line.contains(needle)
    };
    Ok(ids.filter(is_one).collect())
}
