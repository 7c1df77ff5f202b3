//! MooseFS: a master, which has all names in memory and writes a log of its changes, and a chunk server.

use super::cluster::{ADDRESS, Cluster, disk, folder, kill, mount_point, serve};
use crate::failed;
use crate::mounted::{Mounted, run};
use crate::until::until;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Child;

pub(super) const NAME: &str = "moosefs";
pub(super) const PROGRAMS: &[&str] = &["mfsmaster", "mfschunkserver", "mfsmount"];
const USER: &str = "root";

pub(super) struct MooseFs {
    work: PathBuf,
    /// The master, and the chunk server.
    servers: [Child; 2],
    _disk: Mounted,
}

impl MooseFs {
    pub(super) fn start(work: &Path) -> Result<Self, String> {
        let (disk, at) = disk(work)?;
        let [master, server, chunks] = ["master", "server", "chunks"].map(|name| folder(&at, name));
        let (master, server, chunks) = (master?, server?, chunks?);
        let write = |name: &str, text: &str| {
            std::fs::write(work.join(name), text).map_err(failed("write a configuration"))
        };
        let place = |name: &str| work.join(name).to_string_lossy().into_owned();
        write("exports", "10.11.0.0/16 / rw,alldirs,admin,maproot=0:0\n")?;
        write("topology", "")?;
        write("disks", &format!("{}\n", chunks.display()))?;
        let common = |data: &Path| {
            format!(
                "DATA_PATH = {}\nWORKING_USER = {USER}\nWORKING_GROUP = {USER}\n",
                data.display()
            )
        };
        // The lock of a machine that is gone stays as long, and by default a day.
        let of_master = format!(
            "EXPORTS_FILENAME = {}\nTOPOLOGY_FILENAME = {}\nSESSION_SUSTAIN_TIME = 60\n",
            place("exports"),
            place("topology")
        );
        write("master.cfg", &(common(&master) + &of_master))?;
        let of_server =
            format!("HDD_CONF_FILENAME = {}\nMASTER_HOST = {ADDRESS}\n", place("disks"));
        write("server.cfg", &(common(&server) + &of_server))?;
        std::fs::write(master.join("metadata.mfs"), "MFSM NEW")
            .map_err(failed("write a configuration"))?;
        let servers = [begin(work, 0)?, begin(work, 1)?];
        Ok(Self { work: work.to_owned(), servers, _disk: disk })
    }
}

/// Starts the master or the chunk server.
fn begin(work: &Path, server: usize) -> Result<Child, String> {
    let [configuration, log] = [["master.cfg", "master.log"], ["server.cfg", "server.log"]][server];
    let configuration = work.join(configuration).to_string_lossy().into_owned();
    match server {
        // -a: it was killed, so that its names have to be read from its log of changes.
        0 => serve("mfsmaster", &["-f", "-a", "-c", &configuration, "start"], &work.join(log)),
        _ => serve("mfschunkserver", &["-f", "-c", &configuration, "start"], &work.join(log)),
    }
}

impl Cluster for MooseFs {
    fn servers(&self) -> usize {
        self.servers.len()
    }

    fn signal(&mut self, server: usize, signal: Signal) -> Result<(), String> {
        kill(self.servers[server].id() as i32, signal)
    }

    fn restart(&mut self, server: usize) -> Result<(), String> {
        self.servers[server].wait().map_err(failed("wait for a server"))?;
        self.servers[server] = begin(&self.work, server)?;
        Ok(())
    }

    fn mount(&mut self, machine: usize) -> Result<(), String> {
        let at = mount_point(&self.work, machine);
        let mount = || run("mfsmount", [at.as_os_str(), "-H".as_ref(), ADDRESS.as_ref()]);
        until("MooseFS can be mounted", || mount().is_ok())?;
        // Until the chunk server has told the master of its disk.
        let has_space = || rustix::fs::statvfs(&at).is_ok_and(|found| found.f_bavail > 0);
        until("MooseFS has space", has_space)?;
        // Else what is removed keeps its space for a day.
        let words = ["-r".as_ref(), "0".as_ref(), at.as_os_str()];
        run("mfssettrashtime", words).map(|_| ())
    }

    fn work(&self) -> &Path {
        &self.work
    }

    fn client(&self) -> &'static str {
        "mfsmount"
    }
}

impl Drop for MooseFs {
    fn drop(&mut self) {
        for machine in [0, 1] {
            let _ = self.lose_mount(machine); // it may be gone already
        }
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
