//! What programs see of the link: real namespaces, real sockets. As root; elsewhere it is skipped, and said so.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const NEAR: &str = "192.0.2.1";
const FAR: &str = "192.0.2.2";
/// Bytes of a full packet that are the program's: 1500 less IP and TCP headers with timestamps.
const PAYLOAD_SHARE: f64 = 1448.0 / 1500.0;

/// The program, ready. It ends with its standard input.
struct Wan {
    child: Child,
    lines: BufReader<ChildStdout>,
    ready: Value,
}

impl Wan {
    fn start(words: &[&str]) -> Option<Self> {
        let has_ip = Command::new("ip").arg("-V").output().is_ok();
        if !has_ip || !may_make_namespaces() || !Path::new("/dev/net/tun").exists() {
            testkit::skip("needs root, network namespaces, /dev/net/tun, and iproute2");
            return None;
        }
        let mut child = Command::new(env!("CARGO_BIN_EXE_wan"))
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let ready = line(&mut lines);
        assert_eq!(ready["event"], "ready");
        Some(Self { child, lines, ready })
    }

    /// Runs `work` on a thread inside one of the namespaces.
    fn inside<T: Send + 'static>(
        &self,
        end: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let namespace = File::open(self.path(end)).unwrap();
        std::thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        })
    }

    fn path(&self, end: &str) -> String {
        format!("/run/netns/{}", self.ready[end]["namespace"].as_str().unwrap())
    }

    /// Ends it as its driver's end would, and gives what it counted.
    fn end(mut self) -> Value {
        drop(self.child.stdin.take());
        let carried = line(&mut self.lines);
        assert!(self.child.wait().unwrap().success());
        assert!(!Path::new(&self.path("near")).exists() && !Path::new(&self.path("far")).exists());
        carried
    }
}

fn may_make_namespaces() -> bool {
    // `ip` goes into one with mounts of its own.
    let words = ["--net", "--mount", "--propagation", "slave", "true"];
    let status = Command::new("unshare").args(words).status();
    rustix::process::geteuid().is_root() && status.is_ok_and(|status| status.success())
}

fn line(lines: &mut BufReader<ChildStdout>) -> Value {
    let mut text = String::new();
    lines.read_line(&mut text).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}

/// Median round trip of small packets.
fn round_trip(wan: &Wan) -> Duration {
    const PINGS: usize = 21;
    let (say, heard) = mpsc::channel();
    let echo = wan.inside("far", move || {
        let socket = UdpSocket::bind((FAR, 7)).unwrap();
        say.send(()).unwrap();
        let mut packet = [0; 64];
        for _ in 0..PINGS {
            let (len, from) = socket.recv_from(&mut packet).unwrap();
            socket.send_to(&packet[..len], from).unwrap();
        }
    });
    heard.recv().unwrap();
    let pings = wan.inside("near", || {
        let socket = UdpSocket::bind((NEAR, 0)).unwrap();
        socket.connect((FAR, 7)).unwrap();
        let ping = |_| {
            let started = Instant::now();
            socket.send(b"ping").unwrap();
            socket.recv(&mut [0; 64]).unwrap();
            started.elapsed()
        };
        (0..PINGS).map(ping).collect::<Vec<_>>()
    });
    let mut times = pings.join().unwrap();
    echo.join().unwrap();
    times.sort();
    times[PINGS / 2]
}

/// Bits per second that a program gets through one TCP connection.
fn tcp_rate(wan: &Wan) -> f64 {
    const WARM_UP: Duration = Duration::from_secs(2);
    const MEASURED: Duration = Duration::from_secs(4);
    let (say, heard) = mpsc::channel();
    let receiver = wan.inside("far", move || {
        let listener = TcpListener::bind((FAR, 80)).unwrap();
        say.send(()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; 1 << 18];
        read_for(&mut stream, &mut buffer, WARM_UP);
        let (bytes, time) = read_for(&mut stream, &mut buffer, MEASURED);
        bytes as f64 * 8.0 / time.as_secs_f64()
    });
    heard.recv().unwrap();
    let sender = wan.inside("near", || {
        let mut stream = TcpStream::connect((FAR, 80)).unwrap();
        let data = vec![7; 1 << 18];
        // Until the receiver has seen enough and closes.
        while stream.write_all(&data).is_ok() {}
    });
    let rate = receiver.join().unwrap();
    sender.join().unwrap();
    rate
}

fn read_for(stream: &mut TcpStream, buffer: &mut [u8], time: Duration) -> (usize, Duration) {
    let started = Instant::now();
    let mut bytes = 0;
    while started.elapsed() < time {
        bytes += stream.read(buffer).unwrap();
    }
    (bytes, started.elapsed())
}

/// Measures up to three times: others may be at work on the machine, the wire is not faster for it.
fn soon(wanted: std::ops::Range<f64>, unit: &str, measure: impl Fn() -> f64) {
    let mut found = Vec::new();
    while found.len() < 3 {
        let value = measure();
        if wanted.contains(&value) {
            return;
        }
        found.push(value);
    }
    panic!("{found:?} {unit} instead of {wanted:?}");
}

#[test]
fn programs_see_the_round_trip_and_the_rate_that_were_asked_for() {
    let Some(wan) = Wan::start(&["--rate", "100Mbit", "--rtt", "20ms"]) else { return };
    soon(20.0..21.0, "ms of round trip", || round_trip(&wan).as_secs_f64() * 1000.0);
    soon(97.0..103.0, "Mbit/s", || tcp_rate(&wan) / PAYLOAD_SHARE / 1e6);
    let carried = wan.end();
    assert_eq!(carried["near_to_far"]["missed"], 0, "the device dropped packets: {carried}");
}

#[test]
fn a_lossy_link_loses_what_was_asked_for_and_says_so() {
    let Some(wan) = Wan::start(&["--rtt", "2ms", "--loss", "10%", "--seed", "3"]) else { return };
    let sender = wan.inside("near", || {
        let socket = UdpSocket::bind((NEAR, 0)).unwrap();
        for _ in 0..2000 {
            socket.send_to(&[0; 100], (FAR, 9)).unwrap();
        }
    });
    sender.join().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let carried = wan.end();
    let lost = carried["near_to_far"]["lost"].as_u64().unwrap();
    assert!((150..250).contains(&lost), "{carried}");
    assert_eq!(carried["near_to_far"]["packets"].as_u64().unwrap() + lost, 2000);
}

#[test]
fn a_command_finds_both_ends_and_its_exit_code_comes_back() {
    let Some(wan) = Wan::start(&["--rtt", "2ms"]) else { return };
    wan.end();
    let script = "ip netns exec $WAN_NEAR true && [ $WAN_FAR_IP = 192.0.2.2 ] && exit 7";
    let status = Command::new(env!("CARGO_BIN_EXE_wan"))
        .args(["--rate", "1Mbit", "--", "sh", "-c", script])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(7));
}
