//! The link between a node and its server, as bad as it may be: slow, stalled, closed, reset.

use crate::failed;
use socket2::SockRef;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

const PIECE_BYTES: usize = 16 << 10;
/// How soon a cut is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(20);

const WHOLE: u8 = 0;
const CLOSED: u8 = 1;
const RESET: u8 = 2;

/// A proxy on loopback.
pub(crate) struct Proxy {
    at: SocketAddr,
    link: Arc<Link>,
}

#[derive(Default)]
struct Link {
    pairs: Mutex<Vec<Weak<Pair>>>,
    stalled_until: Mutex<Option<Instant>>,
    refused_until: Mutex<Option<Instant>>,
    /// Bytes per second in each direction of a connection; 0 for any.
    rate: AtomicU64,
    /// Bytes to the server after which all is reset; 0 for never.
    reset_after: AtomicU64,
    resets: AtomicU64,
    accepted: AtomicU64,
    bytes_up: AtomicU64,
    is_over: AtomicBool,
}

/// The two halves of a connection.
struct Pair {
    node: TcpStream,
    server: TcpStream,
    state: AtomicU8,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    /// A connection from `at`, of which the port may be 0 for any, to `to`.
    pub(crate) fn start(at: SocketAddr, to: SocketAddr) -> Result<Self, String> {
        let listener = TcpListener::bind(at).map_err(failed("listen"))?;
        let at = listener.local_addr().map_err(failed("listen"))?;
        let link = Arc::<Link>::default();
        let accepting = link.clone();
        std::thread::spawn(move || accepting.accept(&listener, to));
        Ok(Self { at, link })
    }

    pub(crate) fn port(&self) -> u16 {
        self.at.port()
    }

    /// Ends all connections, in order or as by a router that lost its memory; how many that were.
    pub(crate) fn cut(&self, as_reset: bool) -> usize {
        self.link.cut(if as_reset { RESET } else { CLOSED })
    }

    /// Nothing moves for a while; how many connections stand.
    pub(crate) fn stall(&self, time: Duration) -> usize {
        *lock(&self.link.stalled_until) = Some(Instant::now() + time);
        self.link.open().len()
    }

    /// All is cut, and for a while nobody gets through; how many connections were cut.
    pub(crate) fn refuse(&self, time: Duration) -> usize {
        *lock(&self.link.refused_until) = Some(Instant::now() + time);
        self.cut(true)
    }

    /// All is reset once so many more bytes went to the server.
    pub(crate) fn reset_after(&self, bytes: u64) {
        self.link.reset_after.store(bytes, Relaxed);
    }

    /// Times that this happened.
    pub(crate) fn resets(&self) -> u64 {
        self.link.resets.load(Relaxed)
    }

    /// Limits the rate of what begins now or goes on.
    pub(crate) fn set_rate(&self, bytes_per_sec: u64) {
        self.link.rate.store(bytes_per_sec, Relaxed);
    }

    /// Nothing is wrong with the link any more.
    pub(crate) fn calm(&self) {
        *lock(&self.link.stalled_until) = None;
        *lock(&self.link.refused_until) = None;
        self.set_rate(0);
        self.reset_after(0);
    }

    /// Connections so far.
    pub(crate) fn accepted(&self) -> u64 {
        self.link.accepted.load(Relaxed)
    }

    /// Bytes that went to the server, TLS and all.
    pub(crate) fn bytes_up(&self) -> u64 {
        self.link.bytes_up.load(Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.link.is_over.store(true, Relaxed);
        self.cut(true);
        // Wakes who accepts.
        let _ = TcpStream::connect(self.at);
    }
}

impl Link {
    fn accept(self: Arc<Self>, listener: &TcpListener, to: SocketAddr) {
        for stream in listener.incoming() {
            if self.is_over.load(Relaxed) {
                return;
            }
            if let Ok(node) = stream {
                self.accepted.fetch_add(1, Relaxed);
                // A server that is away is a connection that is closed at once.
                let _ = self.join(node, to);
            }
        }
    }

    fn join(self: &Arc<Self>, node: TcpStream, to: SocketAddr) -> io::Result<()> {
        if lock(&self.refused_until).is_some_and(|until| Instant::now() < until) {
            return SockRef::from(&node).set_linger(Some(Duration::ZERO));
        }
        let server = TcpStream::connect(to)?;
        for stream in [&node, &server] {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(LOOK_EVERY))?;
            stream.set_write_timeout(Some(LOOK_EVERY))?;
        }
        let pair = Arc::new(Pair { node, server, state: AtomicU8::new(WHOLE) });
        lock(&self.pairs).push(Arc::downgrade(&pair));
        for up in [true, false] {
            let (link, pair) = (self.clone(), pair.clone());
            std::thread::spawn(move || link.pump(&pair, up));
        }
        Ok(())
    }

    fn open(&self) -> Vec<Arc<Pair>> {
        let mut pairs = lock(&self.pairs);
        pairs.retain(|pair| pair.strong_count() > 0);
        let open = pairs.iter().filter_map(Weak::upgrade);
        open.filter(|pair| pair.state.load(Relaxed) == WHOLE).collect()
    }

    fn cut(&self, how: u8) -> usize {
        let open = self.open();
        open.iter().for_each(|pair| pair.end(how));
        open.len()
    }

    /// Moves bytes in one direction until either end has enough.
    fn pump(&self, pair: &Pair, up: bool) {
        let (mut from, mut to) =
            if up { (&pair.node, &pair.server) } else { (&pair.server, &pair.node) };
        let mut piece = [0; PIECE_BYTES];
        while pair.is_whole() {
            match from.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => {
                    self.wait_out_stalls(pair);
                    if self.deliver(pair, &mut to, &piece[..read]).is_err() {
                        break;
                    }
                    if up {
                        self.went_up(read as u64);
                    }
                }
                Err(error) if is_late(&error) => {}
                Err(_) => return pair.end(RESET),
            }
        }
        pair.end(CLOSED);
    }

    fn deliver(&self, pair: &Pair, to: &mut &TcpStream, mut piece: &[u8]) -> io::Result<()> {
        let rate = self.rate.load(Relaxed);
        if rate > 0 {
            std::thread::sleep(Duration::from_secs_f64(piece.len() as f64 / rate as f64));
        }
        while !piece.is_empty() && pair.is_whole() {
            match to.write(piece) {
                Ok(written) => piece = &piece[written..],
                Err(error) if is_late(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn wait_out_stalls(&self, pair: &Pair) {
        while pair.is_whole() && lock(&self.stalled_until).is_some_and(|it| Instant::now() < it) {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn went_up(&self, bytes: u64) {
        self.bytes_up.fetch_add(bytes, Relaxed);
        let before = self.reset_after.load(Relaxed);
        if before > 0 {
            self.reset_after.store(before.saturating_sub(bytes), Relaxed);
            if before <= bytes {
                self.resets.fetch_add(1, Relaxed);
                self.cut(RESET);
            }
        }
    }
}

impl Pair {
    fn is_whole(&self) -> bool {
        self.state.load(Relaxed) == WHOLE
    }

    /// The first end counts. A reset closes sockets that linger for no time.
    fn end(&self, how: u8) {
        if self.state.compare_exchange(WHOLE, how, Relaxed, Relaxed).is_err() {
            return;
        }
        for stream in [&self.node, &self.server] {
            let _ = match how {
                RESET => SockRef::from(stream).set_linger(Some(Duration::ZERO)),
                _ => stream.shutdown(std::net::Shutdown::Both),
            };
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
