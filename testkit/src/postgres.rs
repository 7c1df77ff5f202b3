//! A PostgreSQL for tests: started once for each test process, in a folder of its own, reached by a socket there.
//!
//! A shell keeps it: when the pipe from the test process closes, also because that was killed, the shell ends the
//! server and removes the folder. So nothing is left, however a test ends.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

const INSTALL: &str =
    "PostgreSQL 14 or newer is needed: make setup (Debian: apt-get install postgresql)";
/// Ends the server by its process id when nothing can be read any more.
const KEEPER: &str = r#"trap : INT TERM; "$@" >"$FOLDER/log" 2>&1 & server=$!; read -r _; kill -INT $server; wait $server; rm -rf "$FOLDER""#;
/// No sync: tests lose nothing in a power cut. Those that need one start a server of their own.
const QUICK: [&str; 2] = ["fsync=off", "full_page_writes=off"];
const SETTINGS: [&str; 4] =
    ["listen_addresses=", "max_connections=300", "shared_buffers=32MB", "log_min_messages=fatal"];

/// Part of the name of the socket; nobody listens there.
const PORT: u16 = 5432;

/// A running PostgreSQL. It ends when this is dropped, or with the process.
pub struct Server {
    folder: PathBuf,
    port: u16,
    keeper: Child,
}

impl Server {
    /// The one that all tests of a process use. A new database costs less than a new server.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(|| Self::start("shared", &QUICK))
    }

    /// Starts a server with these settings.
    pub fn start(name: &str, settings: &[&str]) -> Self {
        Self::start_with(name, PORT, |_| settings.iter().map(|&setting| setting.into()).collect())
    }

    /// Starts a server at `port`, with the settings of `prepare`, which may put files into the server's folder.
    pub fn start_with(name: &str, port: u16, prepare: impl FnOnce(&Path) -> Vec<String>) -> Self {
        let folder = std::env::temp_dir().join(format!("icecore-pg-{}-{name}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        give(&folder);
        let mut initdb = as_owner(&program("initdb"));
        initdb.args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"]);
        let made = initdb.arg("--no-sync").arg("-D").arg(folder.join("data")).output().unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let mut settings = prepare(&folder);
        settings.push(format!("port={port}"));
        let server = Self { keeper: keep(&folder, &settings), folder, port };
        server.await_start();
        server
    }

    /// Makes an empty database. Returns how it is reached.
    pub fn database(&self, name: &str) -> String {
        self.client().batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        self.reached(name)
    }

    /// A connection past the catalog.
    pub fn client(&self) -> ::postgres::Client {
        ::postgres::Client::connect(&self.reached("postgres"), ::postgres::NoTls).unwrap()
    }

    /// How a database of this server is reached.
    pub fn reached(&self, database: &str) -> String {
        let Self { folder, port, .. } = self;
        let port = if *port == PORT { String::new() } else { format!(" port={port}") };
        format!("host={}{port} user=postgres dbname={database}", folder.display())
    }

    /// Nobody reaches it any more, and who did is cut off.
    pub fn go_away(&self) {
        let mut client = self.client();
        std::fs::rename(self.socket(), self.folder.join("away")).unwrap();
        let end =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()
            AND backend_type = 'client backend'";
        client.execute(end, &[]).unwrap();
    }

    /// It is reached as before.
    pub fn come_back(&self) {
        std::fs::rename(self.folder.join("away"), self.socket()).unwrap();
    }

    /// Nobody may connect to `database` any more, and who did is cut off: as after a change of its password.
    pub fn refuse(&self, database: &str) {
        self.let_in(database, false);
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
        self.client().execute(end, &[&database]).unwrap();
    }

    /// Who may connect to `database` is as before, if `is_let_in`.
    pub fn let_in(&self, database: &str, is_let_in: bool) {
        let alter = format!("ALTER DATABASE {database} ALLOW_CONNECTIONS {is_let_in}");
        self.client().batch_execute(&alter).unwrap();
    }

    /// Stops all its processes where they are, until the result is dropped: connections stay, and nothing answers.
    pub fn freeze(&self) -> Frozen {
        let running = "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()";
        let rows = self.client().query(running, &[]).unwrap();
        let mut processes: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
        let first = std::fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap();
        processes.push(first.lines().next().unwrap().parse().unwrap());
        let frozen = Frozen(processes);
        frozen.signal("-STOP");
        frozen
    }

    fn socket(&self) -> PathBuf {
        self.folder.join(format!(".s.PGSQL.{}", self.port))
    }

    fn await_start(&self) {
        // Tries are counted, not seconds: a machine that is stopped meanwhile has waited for nothing.
        for _ in 0..600 {
            if ::postgres::Client::connect(&self.reached("postgres"), ::postgres::NoTls).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        panic!("PostgreSQL did not start: {log}");
    }
}

/// The processes of a server that was stopped where it is. They go on when this is dropped.
pub struct Frozen(Vec<i32>);

impl Frozen {
    fn signal(&self, signal: &str) {
        for process in &self.0 {
            let _ = Command::new("kill").args([signal, &process.to_string()]).status();
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.signal("-CONT");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// Makes a file the server's own.
pub fn give(path: &Path) {
    if let Some((user, group)) = other_user() {
        chown(path, Some(user), Some(group)).unwrap();
    }
}

fn keep(folder: &Path, settings: &[String]) -> Child {
    let owner = as_owner(&program("postgres"));
    let mut keeper = Command::new("sh");
    keeper.args(["-c", KEEPER, "keeper"]).arg(owner.get_program()).args(owner.get_args());
    keeper.arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
    for setting in SETTINGS.into_iter().chain(settings.iter().map(String::as_str)) {
        keeper.args(["-c", setting]);
    }
    keeper.env("FOLDER", folder).stdin(Stdio::piped());
    keeper.spawn().unwrap()
}

/// PostgreSQL refuses to run as root: then its own user runs it.
fn as_owner(program: &Path) -> Command {
    if other_user().is_none() {
        return Command::new(program);
    }
    let mut owner = Command::new("setpriv");
    owner.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
    owner.current_dir("/");
    owner
}

/// User and group of PostgreSQL, for root.
fn other_user() -> Option<(u32, u32)> {
    let id = |args: &[&str]| {
        let told = Command::new("id").args(args).output().unwrap();
        String::from_utf8_lossy(&told.stdout).trim().parse::<u32>()
    };
    if id(&["-u"]).unwrap() != 0 {
        return None;
    }
    let of = |what| id(&[what, "postgres"]).unwrap_or_else(|_| panic!("{INSTALL}"));
    Some((of("-u"), of("-g")))
}

/// One of PostgreSQL's programs; Debian has them in folders by version, which are not in `PATH`.
fn program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let mut folders: Vec<_> = versions.map(|entry| entry.path()).collect();
    folders.sort_by_key(|path| std::cmp::Reverse(number(path)));
    folders.iter_mut().for_each(|folder| folder.push("bin"));
    folders.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    let found = folders.into_iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{INSTALL}"))
}
