//! GlusterFS with one brick. Its processes are the daemon, which manages, and that of the brick, which has the data.

use super::cluster::{ADDRESS, Cluster, disk, folder, kill, mount_point, serve};
use crate::failed;
use crate::mounted::{Mounted, run};
use crate::until::until;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Child;

pub(super) const NAME: &str = "glusterfs";
pub(super) const PROGRAMS: &[&str] = &["glusterd", "gluster", "mount.glusterfs"];
const VOLUME: &str = "icecore";
/// Where Debian's packages keep their state, and where logs go.
const STATE: &str = "/var/lib/glusterd";
const LOGS: &str = "/var/log/glusterfs";

pub(super) struct GlusterFs {
    work: PathBuf,
    daemon: Child,
    _mounts: [Mounted; 2],
}

impl GlusterFs {
    pub(super) fn start(work: &Path) -> Result<Self, String> {
        let (disk, at) = disk(work)?;
        // The state of a daemon of this machine is not touched: these namespaces see others.
        let runs = Mounted::tmpfs(Path::new("/run"), "mode=755")?;
        for (name, place) in [("state", STATE), ("logs", LOGS)] {
            let here = folder(&at, name)?;
            std::fs::create_dir_all(place).map_err(failed("make a folder"))?;
            run("mount", ["--bind".as_ref(), here.as_os_str(), place.as_ref()])?;
        }
        folder(Path::new("/run"), "gluster")?;
        let log = work.join("daemon.log");
        let daemon = serve("glusterd", &["-N"], &log)?;
        until("glusterd answers", || gluster(&["pool", "list"]).is_ok())?;
        let brick = format!("{ADDRESS}:{}", folder(&at, "brick")?.display());
        gluster(&["volume", "create", VOLUME, &brick, "force"])?;
        gluster(&["volume", "start", VOLUME])?;
        Ok(Self { work: work.to_owned(), daemon, _mounts: [disk, runs] })
    }

    /// The process of the brick.
    fn brick(&self) -> Result<i32, String> {
        let folder = format!("/run/gluster/vols/{VOLUME}");
        let names = std::fs::read_dir(folder).map_err(failed("find the brick"))?;
        let file = names
            .flatten()
            .map(|name| name.path())
            .find(|path| path.extension().is_some_and(|it| it == "pid"));
        let text = file.and_then(|path| std::fs::read_to_string(path).ok());
        text.and_then(|text| text.trim().parse().ok()).ok_or("the brick has no process".to_owned())
    }
}

impl Cluster for GlusterFs {
    fn servers(&self) -> usize {
        1
    }

    fn signal(&mut self, _: usize, signal: Signal) -> Result<(), String> {
        kill(self.brick()?, signal)
    }

    fn restart(&mut self, _: usize) -> Result<(), String> {
        gluster(&["volume", "start", VOLUME, "force"])
    }

    fn mount(&mut self, machine: usize) -> Result<(), String> {
        let at = mount_point(&self.work, machine);
        let volume = format!("{ADDRESS}:/{VOLUME}");
        run("mount", ["-t".as_ref(), "glusterfs".as_ref(), volume.as_ref(), at.as_os_str()])
            .map(|_| ())
    }

    fn work(&self) -> &Path {
        &self.work
    }

    fn client(&self) -> &'static str {
        "glusterfs"
    }
}

impl Drop for GlusterFs {
    fn drop(&mut self) {
        for machine in [0, 1] {
            let _ = self.lose_mount(machine); // it may be gone already
        }
        let _ = self.brick().and_then(|id| kill(id, Signal::KILL));
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        let _ = run("umount", ["--lazy", STATE, LOGS]);
    }
}

fn gluster(words: &[&str]) -> Result<(), String> {
    run("gluster", ["--mode=script"].iter().chain(words)).map(|_| ())
}
