//! A disk that fails while its repository is read.

use crate::machine::{Machine, random};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The file system of a repository, in an image.
pub(crate) struct Disk(PathBuf);

impl Disk {
    /// `None` where nobody may mount.
    fn mount(machine: &Machine) -> Option<Self> {
        Self::mount_as(machine, ["mkfs.ext4", "-q", "-F"], "loop")
    }

    /// The same with a file system that the words make.
    pub(crate) fn mount_as(machine: &Machine, make: [&str; 3], options: &str) -> Option<Self> {
        let (image, place) = (machine.path("image"), machine.path("repository"));
        std::fs::create_dir_all(&place).unwrap();
        std::fs::File::create(&image).unwrap().set_len(400 << 20).unwrap();
        let made = run(make[0], &[make[1], make[2], image.to_str().unwrap()]);
        let disk = Self(place);
        if made && disk.attach(machine, options) {
            return Some(disk);
        }
        std::mem::forget(disk); // nothing is mounted there
        testkit::skip("no loop device can be mounted: not root");
        None
    }

    fn attach(&self, machine: &Machine, options: &str) -> bool {
        run("mount", &["-o", options, machine.path("image").to_str().unwrap(), self.text()])
    }

    /// Takes bytes of the file away from below a file system that has checksums: it gives none of them any more.
    pub(crate) fn rots(&self, machine: &Machine, name: &str, options: &str) {
        let file = self.0.join(name);
        let content = std::fs::read(&file).unwrap();
        assert!(run("umount", &[self.text()]));
        std::fs::write(machine.path("wanted"), &content[..content.len().min(4096)]).unwrap();
        let change = "import mmap, sys\n\
            wanted = open(sys.argv[2], 'rb').read()\n\
            file = open(sys.argv[1], 'r+b')\n\
            image = mmap.mmap(file.fileno(), 0)\n\
            at = image.find(wanted)\n\
            assert at >= 0\n\
            while at >= 0:\n\
            \timage[at] ^= 1\n\
            \tat = image.find(wanted, at + 1)";
        let [image, wanted] = ["image", "wanted"].map(|name| machine.path(name));
        let places = [image.to_str().unwrap(), wanted.to_str().unwrap()];
        assert!(run("python3", &[&["-c", change], &places[..]].concat()));
        assert!(self.attach(machine, options));
        let refused = std::fs::read(&file).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(5), "{name}");
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
