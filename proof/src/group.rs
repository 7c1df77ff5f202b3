//! Control groups: memory that is limited, processes that are frozen. Both versions of them.

use crate::failed;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/cgroup";

/// What a group is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Control {
    Memory,
    Freezer,
}

/// A group of its own, for as long as it lives.
pub(crate) struct Group {
    folder: PathBuf,
    is_first_version: bool,
}

impl Group {
    /// A group with this controller; the error says why there can be none.
    pub(crate) fn make(control: Control) -> Result<Self, String> {
        let first = match control {
            Control::Memory => "memory",
            Control::Freezer => "freezer",
        };
        let name = format!("icecore-{first}-{}", std::process::id());
        let folder = Path::new(ROOT).join(first);
        let is_first_version = folder.join("cgroup.procs").exists();
        let folder = if is_first_version { folder } else { PathBuf::from(ROOT) }.join(name);
        if !is_first_version && !Path::new(ROOT).join("cgroup.procs").exists() {
            return Err("no control groups here".to_owned());
        }
        std::fs::create_dir(&folder).map_err(failed("make a control group"))?;
        Ok(Self { folder, is_first_version })
    }

    /// The words before a command that is to run in this group.
    pub(crate) fn under(&self) -> Vec<String> {
        let script = r#"echo $$ > "$0/cgroup.procs" && exec "$@""#;
        let folder = self.folder.to_string_lossy().into_owned();
        ["sh", "-c", script].map(str::to_owned).into_iter().chain([folder]).collect()
    }

    /// All in it may use so many bytes.
    pub(crate) fn limit_memory(&self, bytes: u64) -> Result<(), String> {
        let name = if self.is_first_version { "memory.limit_in_bytes" } else { "memory.max" };
        self.write(name, &bytes.to_string())
    }

    /// Nothing in it runs until [`Group::thaw`].
    pub(crate) fn freeze(&self) -> Result<(), String> {
        let (name, word) = self.freezer("FROZEN", "1");
        self.write(name, word)
    }

    pub(crate) fn thaw(&self) -> Result<(), String> {
        let (name, word) = self.freezer("THAWED", "0");
        self.write(name, word)
    }

    fn freezer(&self, first: &'static str, second: &'static str) -> (&'static str, &'static str) {
        if self.is_first_version { ("freezer.state", first) } else { ("cgroup.freeze", second) }
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        std::fs::write(self.folder.join(name), text).map_err(failed("set up a control group"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Whatever was frozen must be able to die.
        let _ = self.thaw();
        for _ in 0..200 {
            if std::fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        eprintln!("{} is kept", self.folder.display());
    }
}
