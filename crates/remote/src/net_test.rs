//! Measuring the way to a server: round trip, and rate in both directions. Who measures needs no domain, only to be
//! greeted: so it goes from a node, from a storage server and from the governing server alike.

use crate::dial::dial;
use crate::drive::Drive;
use crate::figures::{Figures, WireReport};
use crate::inbox::Inbox;
use crate::remote::Role;
use crate::runtime::Runtime;
use crate::stream::{Pending, Stream};
use crate::way::Way;
use crate::{Failure, Purpose, Target};
use parking_lot::Mutex;
use protocol::{Packet, VERSION_NEWEST, VERSION_OLDEST};
use repository::Result;
use serde::Serialize;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Noise is sent in packets of this size.
const PACKET_BYTES: usize = 256 << 10;
/// Noise is asked for in pieces that take about this long.
const ASKED_AHEAD: Duration = Duration::from_millis(500);
const ASKED_BYTES_MIN: u64 = 512 << 10;
const ASKED_BYTES_MAX: u64 = 256 << 20;
/// Time for the first answer.
const GREETS_WITHIN: Duration = Duration::from_secs(30);
/// Round trips measured.
const PINGS: usize = 10;

/// What was measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Measured {
    /// Median round trip of a small request in milliseconds: with TLS and the server's own time.
    pub round_trip_ms: f64,
    /// Bytes per second to the server.
    pub up_bytes_per_sec: f64,
    /// Bytes per second from the server.
    pub down_bytes_per_sec: f64,
    /// What the network did while noise went to the server: of the other direction this end's kernel knows little.
    #[serde(skip)]
    pub sending: WireReport,
    /// How long that took.
    #[serde(skip)]
    pub sending_secs: f64,
}

/// A connection to measure with. One that is cut is not connected again: what it measured would be worth nothing.
pub struct Gauge {
    stream: Arc<Stream>,
    inbox: Arc<Inbox>,
    figures: Arc<Figures>,
    /// Last: dropped after all that uses it.
    _runtime: Runtime,
}

/// Whether there is a connection.
type Dialling = std::result::Result<(), Failure>;

impl Gauge {
    /// Connects and is greeted. Of `target` the domain and the patience are of no account.
    pub fn connect(target: &Target) -> Result<Self> {
        let runtime = Runtime::start().map_err(Failure::into_error)?;
        let inbox = Arc::new(Inbox::new(target.limits));
        let (stream, figures) = (Stream::new(inbox.clone()), Arc::new(Figures::default()));
        let (dialled, told) = oneshot::channel();
        let drive = drive(target, stream.clone(), inbox.clone(), figures.clone());
        runtime.spawn(run(drive, target.clone(), dialled));
        let gone = || Failure::Nonsense("the thread for the network ended".into());
        let told = told.blocking_recv().unwrap_or_else(|_| Err(gone()));
        told.map_err(Failure::into_error)?;
        let gauge = Self { stream, inbox, figures, _runtime: runtime };
        gauge.greet()?;
        Ok(gauge)
    }

    fn greet(&self) -> Result<()> {
        let program = concat!("icecore ", env!("CARGO_PKG_VERSION")).to_owned();
        let hello = Packet::Hello { oldest: VERSION_OLDEST, newest: VERSION_NEWEST, program };
        match self.stream.call(&hello)? {
            Packet::Welcome { .. } => Ok(()),
            other => Err(Failure::of(other).into_error()),
        }
    }

    /// Opens a domain, as jobs do: then the limits are told. Returns host and port of the storage server when the domain
    /// lies on another one; whether that is believed is for the caller to say.
    pub fn open(&self, domain: &str) -> Result<Option<(String, u16)>> {
        match self.stream.call(&Role::Open(Purpose::Measure).request(domain))? {
            // What the server says right behind its answer is here when the next one is.
            Packet::Opened { .. } => self.ping().map(|()| None),
            Packet::Elsewhere { host, port } => Ok(Some((host, port))),
            other => Err(Failure::of(other).into_error()),
        }
    }

    /// Limits that the server has told since the last call, and why.
    pub fn new_limits(&self) -> Option<([u64; 2], String)> {
        self.inbox.new_limits()
    }

    /// Measures for about `time` in each direction.
    pub fn measure(&self, time: Duration) -> Result<Measured> {
        let round_trip_ms = self.round_trip()?;
        let ahead = ASKED_AHEAD.as_secs_f64() + 2.0 * round_trip_ms / 1e3;
        let before = Instant::now();
        let up_bytes_per_sec = self.up(time, ahead)?;
        let (sending, sending_secs) = (self.report(), before.elapsed().as_secs_f64());
        let down_bytes_per_sec = self.down(time, ahead)?;
        Ok(Measured { round_trip_ms, up_bytes_per_sec, down_bytes_per_sec, sending, sending_secs })
    }

    /// What the connection did so far.
    pub fn report(&self) -> WireReport {
        let waits = &self.stream.empty_waits;
        self.figures.report((waits.count(), waits.secs()), 0).within(self.inbox.limits())
    }

    fn ping(&self) -> Result<()> {
        self.stream.call(&Packet::AskNoise { bytes: 0 }).map(drop)
    }

    fn round_trip(&self) -> Result<f64> {
        let mut times = Vec::new();
        for _ in 0..PINGS {
            let before = Instant::now();
            self.ping()?;
            times.push(before.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        Ok(times[PINGS / 2])
    }

    /// No more is sent ahead than arrives in `ahead` seconds: on a slow way the end would keep one waiting.
    fn up(&self, time: Duration, ahead: f64) -> Result<f64> {
        let mut noise = vec![0; PACKET_BYTES];
        let _ = getrandom::fill(&mut noise);
        let frame = Packet::SendNoise { noise }.frame(0);
        let (start, mut bytes) = (Instant::now(), 0);
        while start.elapsed() < time {
            let arrived = bytes - self.stream.bytes_on_their_way().min(bytes);
            let room = arrived as f64 / start.elapsed().as_secs_f64() * ahead;
            self.stream.drain_to((room as usize).max(ASKED_BYTES_MIN as usize), 0)?;
            self.stream.send_record(frame.clone(), 0)?;
            bytes += frame.len();
        }
        self.stream.drain(0)?;
        Ok(bytes as f64 / start.elapsed().as_secs_f64())
    }

    fn down(&self, time: Duration, ahead: f64) -> Result<f64> {
        let (start, mut bytes) = (Instant::now(), 0u64);
        let ask = |bytes| -> Result<(u64, Pending)> {
            Ok((bytes, self.stream.request(&Packet::AskNoise { bytes })?))
        };
        // Two requests on their way: the way is never empty between them.
        let mut on_their_way = VecDeque::from([ask(ASKED_BYTES_MIN)?, ask(ASKED_BYTES_MIN)?]);
        while let Some((asked, pending)) = on_their_way.pop_front() {
            pending.wait()?;
            bytes += asked;
            let rate = bytes as f64 / start.elapsed().as_secs_f64();
            let next = (rate * ahead) as u64;
            if start.elapsed().as_secs_f64() + ahead < time.as_secs_f64() {
                on_their_way.push_back(ask(next.clamp(ASKED_BYTES_MIN, ASKED_BYTES_MAX))?);
            }
        }
        Ok(bytes as f64 / start.elapsed().as_secs_f64())
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        self.stream.end(over());
    }
}

fn over() -> Failure {
    Failure::Nonsense("the connection was closed".into())
}

fn drive(target: &Target, stream: Arc<Stream>, inbox: Arc<Inbox>, figures: Arc<Figures>) -> Drive {
    Drive {
        number: 0,
        way: Arc::new(Way::new(target)),
        stream,
        inbox,
        figures,
        role: Arc::new(Mutex::new(Role::Open(Purpose::Measure))),
        purpose: None,
        config: Vec::new(),
        heard: Mutex::new(Instant::now()),
        first: None,
        is_away: false,
    }
}

/// One connection, from its beginning to its end.
async fn run(drive: Drive, target: Target, dialled: oneshot::Sender<Dialling>) {
    let failure = match dial(&target).await {
        Ok(connection) => {
            let _ = dialled.send(Ok(()));
            tokio::select! {
                failure = drive.serve(connection, None) => failure,
                failure = greets_nobody(&drive, &target) => failure,
            }
        }
        Err(failure) => {
            let _ = dialled.send(Err(failure.clone()));
            failure
        }
    };
    drive.stream.end(failure);
}

/// Ends when there is no first answer; else never.
async fn greets_nobody(drive: &Drive, target: &Target) -> Failure {
    tokio::time::sleep(GREETS_WITHIN).await;
    if drive.stream.answers() > 0 {
        std::future::pending::<()>().await;
    }
    let reason = format!("no answer in {GREETS_WITHIN:?}");
    Failure::Lost { server: target.describe(), reason, kind: ErrorKind::TimedOut }
}
