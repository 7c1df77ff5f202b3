//! An object storage for tests, on loopback with a folder of its own: versitygw, or what `ICECORE_TEST_S3` names.
//!
//! A shell keeps it, as it keeps PostgreSQL: nothing is left, however a test ends.

mod servers;

pub use servers::Server;

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Key and secret of who may do everything.
pub const KEYS: [&str; 2] = ["icecore-tests", "only-a-test-secret"];
/// Ceph needs 10 seconds, and twice as long beside a build.
const START_TIMEOUT: Duration = Duration::from_secs(180);

/// A running object storage. It ends when this is dropped, or with the process.
pub struct Gateway {
    server: Server,
    folder: PathBuf,
    port: u16,
    keeper: Child,
}

impl Gateway {
    /// The one that all tests of a process use; each has a bucket of its own.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Gateway> = OnceLock::new();
        SHARED.get_or_init(|| Self::started(Server::chosen()))
    }

    /// The one of those tests that look at objects as files, or at what versitygw says of its requests.
    pub fn of_files() -> &'static Self {
        static SHARED: OnceLock<Gateway> = OnceLock::new();
        if Server::chosen() == Server::Versitygw {
            return Self::shared();
        }
        SHARED.get_or_init(|| Self::started(Server::Versitygw))
    }

    /// One whose conditional writes do not hold, if it is installed.
    pub fn of_before() -> Option<Self> {
        Self::start(Server::VersitygwOfBefore)
    }

    fn started(server: Server) -> Self {
        Self::start(server).unwrap_or_else(|| panic!("{}", server.install()))
    }

    /// Starts it, if it is installed.
    fn start(server: Server) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("icecore-s3-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let ports = free_ports();
        let mut keeper = server.keeper(&folder, ports)?;
        for part in ["data", "iam", "versions"] {
            std::fs::create_dir_all(folder.join(part)).unwrap();
        }
        let keeper = keeper.stdin(Stdio::piped()).spawn().unwrap();
        let gateway = Self { server, folder, port: ports[0], keeper };
        gateway.await_start();
        Some(gateway)
    }

    /// A new bucket.
    pub fn bucket(&self) -> String {
        let bucket = Self::new_name();
        if self.server.has_files() {
            std::fs::create_dir(self.objects(&bucket)).unwrap();
        } else {
            self.make(&bucket, &[]);
        }
        bucket
    }

    /// A new bucket that keeps versions of its objects, and can lock them.
    pub fn locking_bucket(&self) -> String {
        let bucket = Self::new_name();
        self.make(&bucket, &["-H", "x-amz-bucket-object-lock-enabled: true"]);
        bucket
    }

    /// A new bucket that keeps versions of its objects, and cannot lock them.
    pub fn versioned_bucket(&self) -> String {
        let bucket = self.bucket();
        let said = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
        let set = self.ask("PUT", &format!("{bucket}?versioning="), &["--data-raw", said]);
        assert_eq!(set.0, 200, "{}", set.1);
        bucket
    }

    fn make(&self, bucket: &str, more: &[&str]) {
        let made = self.ask("PUT", bucket, more);
        assert_eq!(made.0, 200, "{}", made.1);
    }

    fn new_name() -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        format!("bucket-{}", COUNT.fetch_add(1, Ordering::Relaxed))
    }

    /// Status and text of the answer to a request of who has our keys; `what` is a bucket, or an object in one, with
    /// a query. `more` are options of curl.
    pub fn ask(&self, method: &str, what: &str, more: &[&str]) -> (u16, String) {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-X", method, "--aws-sigv4", "aws:amz:us-east-1:s3", "-u"]);
        curl.arg(KEYS.join(":")).args(["-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]);
        curl.args(["-w", "\n%{http_code}"]).args(more);
        let output = curl.arg(format!("{}/{what}", self.endpoint())).output();
        let output = output.expect("curl is needed: make setup");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, status) = text.rsplit_once('\n').unwrap_or(("", &text));
        let told = String::from_utf8_lossy(&output.stderr);
        (status.parse().unwrap_or_else(|_| panic!("{told}{text}")), body.to_owned())
    }

    /// Where the objects of `bucket` lie, as files.
    pub fn objects(&self, bucket: &str) -> PathBuf {
        assert!(self.server.has_files(), "{:?} has no files", self.server);
        self.folder.join("data").join(bucket)
    }

    /// The keys in `bucket` that begin with `prefix`.
    pub fn keys(&self, bucket: &str, prefix: &str) -> Vec<String> {
        let (mut keys, prefix) = (Vec::new(), prefix.replace('/', "%2F"));
        loop {
            let behind = keys.last().map(|key: &String| key.replace('/', "%2F"));
            let behind = behind.unwrap_or_default();
            let query = format!("list-type=2&prefix={prefix}&start-after={behind}");
            let (status, text) = self.ask("GET", &format!("{bucket}?{query}"), &[]);
            assert_eq!(status, 200, "{text}");
            let parts = text.split("<Key>").skip(1).filter_map(|part| part.split_once('<'));
            keys.extend(parts.map(|(key, _)| key.to_owned()));
            if !text.contains("<IsTruncated>true") {
                return keys;
            }
        }
    }

    /// The requests until now that concern `bucket`, a line each.
    pub fn requests(&self, bucket: &str) -> Vec<String> {
        let log = std::fs::read_to_string(self.folder.join("requests")).unwrap_or_default();
        let of_it = |line: &&str| line.split([' ', '/', '?']).any(|word| word == bucket);
        log.lines().filter(of_it).map(str::to_owned).collect()
    }

    /// Keys and ids of the versions in `bucket` that are no marks of a removal: of a page, and there is no other one.
    pub fn versions(&self, bucket: &str) -> Vec<(String, String)> {
        let (status, text) = self.ask("GET", &format!("{bucket}?versions="), &[]);
        assert!(status == 200 && text.contains("<IsTruncated>false"), "{text}");
        let part = |version: &str, name: &str| {
            let (_, rest) = version.split_once(&format!("<{name}>")).unwrap();
            rest.split_once('<').unwrap().0.to_owned()
        };
        let (_, versions) = text.split_once("<Version>").unwrap_or_default();
        let versions = versions.split("<Version>").filter(|version| !version.is_empty());
        versions.map(|version| (part(version, "Key"), part(version, "VersionId"))).collect()
    }

    /// Its address.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The variables with which programs reach it.
    pub fn variables(&self) -> [(&'static str, String); 3] {
        [
            ("AWS_ACCESS_KEY_ID", KEYS[0].into()),
            ("AWS_SECRET_ACCESS_KEY", KEYS[1].into()),
            ("AWS_ENDPOINT_URL", self.endpoint()),
        ]
    }

    fn await_start(&self) {
        let begun = Instant::now();
        while begun.elapsed() < START_TIMEOUT && !self.folder.join("failed").exists() {
            if self.is_there() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        panic!("the object storage did not start: {log}");
    }

    /// Whether it can be used: Garage listens before it knows any key.
    fn is_there(&self) -> bool {
        let is_ready = !self.server.says_when_ready() || self.folder.join("ready").exists();
        is_ready && TcpStream::connect(("127.0.0.1", self.port)).is_ok()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// Two ports at which nobody listens.
fn free_ports() -> [u16; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}
