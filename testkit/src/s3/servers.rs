//! The object storages that tests know: what they are called, which versions they are tested with, how they start.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The name of the one that is started.
const CHOICE: &str = "ICECORE_TEST_S3";
/// Ends its server, and removes its folder, when nothing can be read any more.
const KEEPER: &str = r#"trap : INT TERM; "$@" >"$FOLDER/log" 2>&1 & server=$!; read -r _; kill -INT $server; wait $server; rm -rf "$FOLDER""#;
/// The same of servers that are several processes, or need commands before they can be used.
const CEPH: &str = include_str!("ceph.sh");
const GARAGE: &str = include_str!("garage.sh");

/// An object storage for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// What `make test` uses.
    Versitygw,
    /// One that looks whether an object is there and then writes it, with time in between: to be refused.
    VersitygwOfBefore,
    /// The last one that is free.
    Minio,
    /// RADOS gateway, OSD and monitor.
    Ceph,
    /// Takes no notice of conditions of writes: to be refused.
    Garage,
}

impl Server {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Versitygw, Self::VersitygwOfBefore, Self::Minio, Self::Ceph, Self::Garage];

    /// The one that the environment names.
    pub fn chosen() -> Self {
        let name = std::env::var(CHOICE).unwrap_or_else(|_| Self::Versitygw.name().into());
        let found = Self::ALL.into_iter().find(|server| server.name() == name);
        found.unwrap_or_else(|| panic!("{CHOICE}={name}: no such server"))
    }

    /// As the environment names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Versitygw => "versitygw",
            Self::VersitygwOfBefore => "versitygw-1.7.0",
            Self::Minio => "minio",
            Self::Ceph => "ceph",
            Self::Garage => "garage",
        }
    }

    /// Name and version of what is tested, as guides say them.
    pub fn title(self) -> &'static str {
        match self {
            Self::Versitygw => "versitygw 1.8.0",
            Self::VersitygwOfBefore => "versitygw 1.7.0",
            Self::Minio => "MinIO 2026-02-12",
            Self::Ceph => "Ceph 16.2",
            Self::Garage => "Garage 2.5.0",
        }
    }

    /// How to get it.
    pub(super) fn install(self) -> String {
        let target = match self {
            Self::Versitygw | Self::VersitygwOfBefore => "setup",
            Self::Minio | Self::Ceph | Self::Garage => "storages",
        };
        format!("{} is needed: make {target}", self.title())
    }

    /// Whether its objects lie as files in the folder `data`.
    pub(super) fn has_files(self) -> bool {
        matches!(self, Self::Versitygw | Self::VersitygwOfBefore)
    }

    /// Whether the script that starts it tells when all is done.
    pub(super) fn says_when_ready(self) -> bool {
        matches!(self, Self::Ceph | Self::Garage)
    }

    /// What keeps it in `folder`, if it is installed.
    pub(super) fn keeper(self, folder: &Path, [port, inner_port]: [u16; 2]) -> Option<Command> {
        let program = program(self.program())?;
        let address = format!("127.0.0.1:{port}");
        let [key, secret] = super::KEYS;
        let mut keeper = Command::new("sh");
        keeper.env("FOLDER", folder);
        match self {
            Self::Versitygw | Self::VersitygwOfBefore => {
                keeper.args(["-c", KEEPER, "keeper"]).arg(program);
                keeper.args(["--port", &address, "--iam-dir"]).arg(folder.join("iam"));
                keeper.arg("--access-log").arg(folder.join("requests"));
                keeper.args(["posix", "--versioning-dir"]).arg(folder.join("versions"));
                keeper.arg(folder.join("data"));
                keeper.env("ROOT_ACCESS_KEY", key).env("ROOT_SECRET_KEY", secret);
            }
            Self::Minio => {
                keeper.args(["-c", KEEPER, "keeper"]).arg(program);
                keeper.args(["server", "--quiet", "--address", &address]).arg(folder.join("data"));
                keeper.env("MINIO_ROOT_USER", key).env("MINIO_ROOT_PASSWORD", secret);
            }
            Self::Ceph | Self::Garage => {
                let script = if self == Self::Ceph { CEPH } else { GARAGE };
                keeper.args(["-c", script, "keeper"]).arg(program);
                keeper.env("PORT", port.to_string()).env("INNER_PORT", inner_port.to_string());
                keeper.env("KEY", key).env("SECRET", secret);
            }
        }
        Some(keeper)
    }

    fn program(self) -> &'static str {
        if self == Self::Ceph { "radosgw" } else { self.name() }
    }
}

/// The program `name`, in `PATH` or where Go and Cargo install it.
fn program(name: &str) -> Option<PathBuf> {
    let mut folders: Vec<_> =
        std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect();
    folders.extend(std::env::var_os("GOPATH").map(|path| PathBuf::from(path).join("bin")));
    let home = std::env::var_os("HOME").map(PathBuf::from);
    folders.extend(home.iter().flat_map(|home| [home.join("go/bin"), home.join(".cargo/bin")]));
    let mut programs = folders.into_iter().map(|folder| folder.join(name));
    programs.find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str) -> String {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = std::fs::read_to_string(top.join(path)).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn guides_name_the_versions_that_are_tested() {
        for server in Server::ALL {
            let guide = text("docs/GUIDE-ONE-MACHINE.md");
            assert!(guide.contains(server.title()), "{server:?}");
        }
        for server in [Server::Versitygw, Server::Minio, Server::Ceph, Server::Garage] {
            assert!(text("docs/GUIDE-SERVER.md").contains(server.title()), "{server:?}");
        }
    }

    #[test]
    fn the_versions_that_are_named_are_installed() {
        let installed = text(".ci/setup") + &text(".ci/storages");
        for server in Server::ALL {
            let version = server.title().split_once(' ').unwrap().1;
            assert!(installed.contains(&version.replace('-', "")), "{server:?} {version}");
        }
    }
}
