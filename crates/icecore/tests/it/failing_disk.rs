//! A disk that fails while its repository is read.

use crate::machine::{Machine, random};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The file system of a repository, in an image.
struct Disk(PathBuf);

impl Disk {
    /// `None` where nobody may mount.
    fn mount(machine: &Machine) -> Option<Self> {
        let (image, place) = (machine.path("image"), machine.path("repository"));
        std::fs::create_dir_all(&place).unwrap();
        std::fs::File::create(&image).unwrap().set_len(400 << 20).unwrap();
        let made = run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]);
        let disk = Self(place);
        let options = ["-o", "loop", image.to_str().unwrap(), disk.text()];
        if made && run("mount", &options) {
            return Some(disk);
        }
        std::mem::forget(disk); // nothing is mounted there
        testkit::skip("no loop device can be mounted: not root");
        None
    }

    fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// As a disk does that is gone: every read and every write is an error from now on (`EXT4_IOC_SHUTDOWN`).
    fn fail(&self) {
        let code = "import fcntl, os, struct, sys\n\
            fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))";
        assert!(run("python3", &["-c", code, self.text()]));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run("umount", &["--lazy", self.text()]);
    }
}

fn run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).status().is_ok_and(|status| status.success())
}

/// "Parts of the snapshot are damaged" made people forget what was whole.
#[test]
fn a_disk_that_fails_in_the_middle_of_a_restore_is_no_damage() {
    let machine = Machine::bare();
    let Some(disk) = Disk::mount(&machine) else { return };
    machine.run(["init"]).ends(0);
    machine.write("large", &random(200 << 20));
    machine.run(["backup", machine.source().to_str().unwrap()]).ends(0);
    let path = format!("latest:{}/large", machine.source().display());
    let mut reader = machine.command(["cat", &path]);
    let mut reader = reader.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = reader.stdout.take().unwrap();
    output.read_exact(&mut [0; 1 << 20]).unwrap();
    disk.fail();
    std::io::copy(&mut output, &mut std::io::sink()).unwrap();
    let ended = reader.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(16), "{said}");
    assert!(said.contains("nothing can be read from it any more"), "{said}");
    machine.run(["check", "--read-data"]).ends(16);
}
