//! An object storage for tests: a versitygw over a folder of its own, on loopback; a MinIO with `ICECORE_TEST_S3=minio`.
//!
//! A shell keeps it, as it keeps PostgreSQL: nothing is left, however a test ends.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const INSTALL: &str = "versitygw 1.8.0 is needed: make setup (go install github.com/versity/versitygw/cmd/versitygw@v1.8.0)";
/// The name of the program that is started.
const CHOICE: &str = "ICECORE_TEST_S3";
const KEEPER: &str = r#"trap : INT TERM; "$@" >"$FOLDER/log" 2>&1 & server=$!; read -r _; kill -INT $server; wait $server; rm -rf "$FOLDER""#;
/// Key and secret of who may do everything.
pub const KEYS: [&str; 2] = ["icecore-tests", "only-a-test-secret"];

/// A running object storage. It ends when this is dropped, or with the process.
pub struct Gateway {
    folder: PathBuf,
    port: u16,
    keeper: Child,
}

impl Gateway {
    /// The one that all tests of a process use; each has a bucket of its own.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Gateway> = OnceLock::new();
        SHARED.get_or_init(|| {
            let name = std::env::var(CHOICE).unwrap_or_else(|_| "versitygw".into());
            Self::start(&program(&name).unwrap_or_else(|| panic!("{INSTALL}, not {name}")))
        })
    }

    /// One whose conditional writes do not hold (versitygw 1.7.0), if it is installed.
    pub fn of_before() -> Option<Self> {
        program("versitygw-1.7.0").map(|program| Self::start(&program))
    }

    /// Starts the program at `program`.
    fn start(program: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("icecore-s3-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        for part in ["data", "iam", "versions"] {
            std::fs::create_dir_all(folder.join(part)).unwrap();
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(program);
        let address = format!("127.0.0.1:{port}");
        if program.ends_with("minio") {
            keeper.args(["server", "--quiet", "--address", &address]).arg(folder.join("data"));
            keeper.env("MINIO_ROOT_USER", KEYS[0]).env("MINIO_ROOT_PASSWORD", KEYS[1]);
        } else {
            keeper.args(["--port", &address, "--iam-dir"]).arg(folder.join("iam"));
            keeper.arg("--access-log").arg(folder.join("requests"));
            keeper.args(["posix", "--versioning-dir"]).arg(folder.join("versions"));
            keeper.arg(folder.join("data"));
            keeper.env("ROOT_ACCESS_KEY", KEYS[0]).env("ROOT_SECRET_KEY", KEYS[1]);
        }
        keeper.env("FOLDER", &folder);
        let keeper = keeper.stdin(Stdio::piped()).spawn().unwrap();
        let gateway = Self { folder, port, keeper };
        gateway.await_start();
        gateway
    }

    /// A new bucket.
    pub fn bucket(&self) -> String {
        let bucket = Self::new_name();
        std::fs::create_dir(self.objects(&bucket)).unwrap();
        bucket
    }

    /// A new bucket that keeps versions of its objects, and can lock them.
    pub fn locking_bucket(&self) -> String {
        let bucket = Self::new_name();
        let made = self.ask("PUT", &bucket, &["-H", "x-amz-bucket-object-lock-enabled: true"]);
        assert_eq!(made.0, 200, "{}", made.1);
        bucket
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
        self.folder.join("data").join(bucket)
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
        for _ in 0..600 {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        panic!("the object storage did not start: {log}");
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// The program `name`, in `PATH` or where Go installs it.
fn program(name: &str) -> Option<PathBuf> {
    let mut folders: Vec<_> =
        std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect();
    folders.extend(std::env::var_os("GOPATH").map(|path| PathBuf::from(path).join("bin")));
    folders.extend(std::env::var_os("HOME").map(|path| PathBuf::from(path).join("go/bin")));
    let mut programs = folders.into_iter().map(|folder| folder.join(name));
    programs.find(|path| path.is_file())
}
