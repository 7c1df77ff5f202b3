//! Keeps a stream connected: dials, greets, opens or attaches, moves frames both ways, and comes
//! back after a cut until patience is at its end.

use crate::dial::{Dialled, dial, ended, is_ended};
use crate::figures::Figures;
use crate::inbox::Inbox;
use crate::remote::{Opened, Purpose, Role};
use crate::stream::Stream;
use crate::way::Way;
use crate::{Failure, Target};
use parking_lot::Mutex;
use protocol::packet::End;
use protocol::{Packet, VERSION_NEWEST, VERSION_OLDEST};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::client::TlsStream;
use transport::Error;
use transport::frames::{self, FrameReader};
use transport::rate::Rate;
use transport::tcp_info::TcpInfo;

/// First pause before another try; each later one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// A quiet connection says that it is there.
const PING_EVERY: Duration = Duration::from_secs(30);
/// Time for the answer to a first question. A busy server may have to open a repository.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// A server that says nothing for so long, pings notwithstanding, is gone: a commit takes less.
const SILENT_MAX: Duration = Duration::from_secs(10 * 60);
/// How often the kernel is asked.
const SAMPLE_EVERY: Duration = Duration::from_millis(500);

type Tls = TlsStream<TcpStream>;

/// What keeps a stream connected.
pub(crate) struct Drive {
    /// Which stream it is, from 0.
    pub(crate) number: u8,
    pub(crate) way: Arc<Way>,
    pub(crate) stream: Arc<Stream>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) figures: Arc<Figures>,
    pub(crate) role: Arc<Mutex<Role>>,
    /// What the first stream opens again when its session is lost; others end then.
    pub(crate) purpose: Option<Purpose>,
    /// The settings of the repository, once they were told: they never change.
    pub(crate) config: Vec<u8>,
    /// When a packet last came in.
    pub(crate) heard: Mutex<Instant>,
    /// Told once whether the first connection worked.
    pub(crate) first: Option<oneshot::Sender<Result<Opened, Failure>>>,
    /// It was told that the server is away.
    pub(crate) is_away: bool,
}

/// What a connection came to.
enum Met {
    /// The stream can go on; so many of its records were taken.
    Here(Box<Dialled>, Option<u64>),
    /// Host and port at which the domain lies.
    Elsewhere((String, u16)),
}

impl Drive {
    pub(crate) async fn run(mut self) {
        let mut lost_since: Option<Instant> = None;
        let mut pause = PAUSE_FIRST;
        loop {
            let answers = self.stream.answers();
            let watch = self.way.governing.watch.clone();
            let connected = tokio::select! {
                connected = self.connect() => connected,
                () = watch.cancelled() => Err(Failure::stopped()),
            };
            let failure = match connected {
                Ok((dialled, applied)) => {
                    if std::mem::take(&mut self.is_away) {
                        watch.tell("the server is there again");
                    }
                    self.serve(dialled, applied).await
                }
                Err(failure) => failure,
            };
            // A server that greets and then fails each time brings nobody further.
            if self.stream.answers() > answers {
                (lost_since, pause) = (None, PAUSE_FIRST);
            }
            let since = *lost_since.get_or_insert_with(Instant::now);
            let is_first = self.first.is_some();
            let target = &self.way.governing;
            let patience = if is_first { target.first_patience } else { target.patience };
            if self.starts_over(&failure) {
                continue;
            }
            let gives_up = !failure.is_of_the_moment() || since.elapsed() > patience;
            if let Some(first) = self.first.take_if(|_| gives_up) {
                let _ = first.send(Err(failure.clone()));
            }
            if gives_up || self.stream.is_over() {
                return self.stream.end(failure);
            }
            self.figures.cuts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.tell_that_it_is_away(&failure, patience);
            tokio::select! {
                () = tokio::time::sleep(jittered(pause)) => {}
                () = watch.cancelled() => return self.give_up(Failure::stopped()),
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Ends the stream, and tells who waits for its first connection.
    fn give_up(&mut self, failure: Failure) {
        if let Some(first) = self.first.take() {
            let _ = first.send(Err(failure.clone()));
        }
        self.stream.end(failure);
    }

    /// Once each time that the server is lost; further streams of a job say nothing.
    fn tell_that_it_is_away(&mut self, failure: &Failure, patience: Duration) {
        if self.number > 0 || self.is_away {
            return;
        }
        self.is_away = true;
        let why = failure.clone().into_error();
        let minutes = patience.as_secs().div_ceil(60);
        let text = format!("server unreachable ({why}); retrying for up to {minutes} min");
        self.way.governing.watch.tell(&text);
    }

    /// When the server has lost the session, the stream goes on without it: whoever wrote is told, and
    /// may begin another one.
    fn starts_over(&self, failure: &Failure) -> bool {
        let (Some(purpose), true) = (self.purpose, failure.is_of_a_lost_session()) else {
            return false;
        };
        let mut role = self.role.lock();
        if !matches!(*role, Role::Attach { .. }) {
            return false;
        }
        *role = Role::Open(purpose);
        self.stream.lose_session(failure);
        true
    }

    /// A connection on which the stream can go on; and how many of its records were taken.
    async fn connect(&mut self) -> Result<(Dialled, Option<u64>), Failure> {
        if self.way.is_in_doubt() {
            self.ask_the_way().await?;
        }
        loop {
            let target = self.way.target();
            let met = self.connect_to(&target).await;
            match (met, self.way.is_elsewhere()) {
                (Ok(Met::Elsewhere(place)), false) => self.way.lead(Some(place)),
                (Ok(Met::Elsewhere(_)), true) => {
                    let text = format!("the storage server {} names another", target.describe());
                    return Err(Failure::Nonsense(text));
                }
                (Ok(Met::Here(dialled, applied)), _) => {
                    self.way.answered();
                    return Ok((*dialled, applied));
                }
                (Err(failure), is_elsewhere) => {
                    if is_elsewhere && matches!(failure, Failure::Lost { .. }) {
                        self.way.missed();
                    }
                    return Err(failure);
                }
            }
        }
    }

    /// Asks the governing server where the domain lies now. When it cannot be reached either, nothing changes.
    async fn ask_the_way(&self) -> Result<(), Failure> {
        let asked = async {
            let target = &self.way.governing;
            let mut dialled = dial(target).await?;
            let open = Role::Open(Purpose::Look).request(&target.domain);
            match self.greet(&mut dialled.stream, &open).await?.1 {
                Packet::Elsewhere { host, port } => self.way.lead(Some((host, port))),
                Packet::Opened { .. } => self.way.lead(None),
                other => return Err(Failure::of(other)),
            }
            Ok(())
        };
        match asked.await {
            Err(failure) if !failure.is_of_the_moment() => Err(failure),
            _ => Ok(()),
        }
    }

    /// Greets and says `request` in one go, which saves a round trip. The node's name, the server's
    /// clock, the most streams; and the answer to the request.
    async fn greet(
        &self,
        stream: &mut Tls,
        request: &Packet,
    ) -> Result<((String, i64, u8), Packet), Failure> {
        let program = concat!("icecore ", env!("CARGO_PKG_VERSION")).to_owned();
        let hello = Packet::Hello { oldest: VERSION_OLDEST, newest: VERSION_NEWEST, program };
        self.say(stream, &[hello.frame(0), request.frame(0)].concat()).await?;
        let Packet::Welcome { version, node, time_secs, streams, .. } = self.hear(stream).await?
        else {
            return Err(Failure::Nonsense("the server does not greet".into()));
        };
        if !(VERSION_OLDEST..=VERSION_NEWEST).contains(&version) {
            return Err(Failure::Nonsense(format!("the server speaks version {version}")));
        }
        Ok(((node, time_secs, streams), self.hear(stream).await?))
    }

    async fn connect_to(&mut self, target: &Target) -> Result<Met, Failure> {
        let mut dialled = dial(target).await?;
        let stream = &mut dialled.stream;
        let request = self.role.lock().request(&target.domain);
        let ((node, time_secs, streams), answer) = self.greet(stream, &request).await?;
        match answer {
            Packet::Attached { applied } => Ok(Met::Here(dialled.into(), Some(applied))),
            Packet::Elsewhere { host, port } => Ok(Met::Elsewhere((host, port))),
            Packet::Opened {
                domain,
                config,
                damage_epoch,
                may_write,
                may_read,
                may_init,
                receipt_keys,
            } => {
                let keys = receipt_keys.iter().filter_map(|key| key.0.as_slice().try_into().ok());
                self.is_the_same(&config.0)?;
                let opened = Opened {
                    node,
                    domain,
                    config: config.0,
                    damage_epoch,
                    may_write,
                    may_read,
                    may_init,
                    receipt_keys: keys.collect(),
                    streams,
                    time_secs,
                    buffers: dialled.buffers,
                };
                if let Some(first) = self.first.take() {
                    let _ = first.send(Ok(opened));
                }
                Ok(Met::Here(dialled.into(), None))
            }
            other => Err(Failure::of(other)),
        }
    }

    /// Whoever comes back finds the repository that was there before, or goes no further.
    fn is_the_same(&mut self, config: &[u8]) -> Result<(), Failure> {
        if self.config.is_empty() {
            self.config = config.to_vec();
        }
        if self.config == config {
            return Ok(());
        }
        let text = format!("{} shows another repository than before", self.way.target().describe());
        Err(Failure::Nonsense(text))
    }

    async fn say(&self, stream: &mut Tls, frames: &[u8]) -> Result<(), Failure> {
        let said = async {
            stream.write_all(frames).await?;
            stream.flush().await
        };
        within(said).await.map_err(|error| self.failure(error))
    }

    /// The next answer, before anything else is on the way. What comes unasked meanwhile is noted.
    async fn hear(&self, stream: &mut Tls) -> Result<Packet, Failure> {
        let heard = async {
            let mut reader = FrameReader::new(&mut *stream, End::Server);
            loop {
                let header = reader.header().await?;
                let body = reader.body(header, &Rate::default()).await?;
                match Packet::decode(header.kind, body)? {
                    unasked @ (Packet::Limits { .. } | Packet::Command { .. }) => {
                        let _ = self.inbox.take(unasked);
                    }
                    answer => return Ok::<_, Error>(answer),
                }
            }
        };
        match within(heard).await.map_err(|error| self.failure(error))? {
            fault @ Packet::Fault { .. } => Err(Failure::of(fault)),
            answer => Ok(answer),
        }
    }

    /// Moves frames until the connection fails.
    pub(crate) async fn serve(&self, dialled: Dialled, applied: Option<u64>) -> Failure {
        if let Err(failure) = self.stream.reconnected(applied) {
            return failure;
        }
        self.figures.connected(self.number, dialled.buffers);
        let socket = dup(&dialled.stream);
        *self.heard.lock() = Instant::now();
        let (read, write) = tokio::io::split(dialled.stream);
        tokio::select! {
            failure = self.read_all(read) => failure,
            failure = self.write_all(write) => failure,
            () = self.sample(socket) => Failure::Nonsense("sampling ended".into()),
        }
    }

    async fn read_all(&self, read: ReadHalf<Tls>) -> Failure {
        let mut reader = FrameReader::new(read, End::Server);
        loop {
            let packet = async {
                let header = reader.header().await?;
                let body = reader.body(header, &self.inbox.down).await?;
                Ok::<_, Error>((header.request, Packet::decode(header.kind, body)?))
            };
            match packet.await {
                Ok((request, packet)) => {
                    self.figures.received(reader.bytes);
                    reader.bytes = 0;
                    *self.heard.lock() = Instant::now();
                    self.note_session(&packet);
                    if let Err(failure) = self.stream.receive(request, packet) {
                        return failure;
                    }
                }
                Err(error) => return self.failure(error),
            }
        }
    }

    /// From here on a cut leads back to the session, whoever waits for its beginning.
    fn note_session(&self, packet: &Packet) {
        if let Packet::Begun { session, secret, .. } = packet {
            let (session, secret, stream) = (*session, *secret, self.number);
            *self.role.lock() = Role::Attach { session, secret, stream };
        }
    }

    async fn write_all(&self, mut write: WriteHalf<Tls>) -> Failure {
        loop {
            match self.write_some(&mut write).await {
                Ok(()) => {}
                Err(error) => return self.failure(error),
            }
            self.stream.written();
            let before = Instant::now();
            let waited = tokio::time::timeout(PING_EVERY, self.stream.kick.notified()).await;
            self.figures.full_waits.add(before.elapsed());
            if waited.is_err() {
                self.stream.tell(&Packet::Ping {});
            }
            // Nor is it enough that it says that it is there.
            if self.heard.lock().elapsed().max(self.stream.owed_for()) > SILENT_MAX {
                return self.failure(Error::TooSlow { bytes: 1, secs: SILENT_MAX.as_secs() });
            }
            if self.stream.is_over() {
                let _ = write.shutdown().await;
                return Failure::Nonsense("the stream is over".into());
            }
        }
    }

    async fn write_some(&self, write: &mut WriteHalf<Tls>) -> transport::Result<()> {
        let mut wrote = false;
        while let Some(frame) = self.stream.next_frame() {
            frames::write(write, &frame, &self.inbox.up, &self.figures.moved).await?;
            self.figures.sent(frame.len() as u64);
            wrote = true;
        }
        if wrote {
            write.flush().await?;
        }
        Ok(())
    }

    async fn sample(&self, socket: Option<std::os::fd::OwnedFd>) {
        let mut ticks = tokio::time::interval(SAMPLE_EVERY);
        loop {
            ticks.tick().await;
            if let Some(info) = socket.as_ref().and_then(|socket| TcpInfo::of(socket).ok()) {
                self.figures.sample(self.number, info);
            }
        }
    }

    fn failure(&self, error: Error) -> Failure {
        let kind = match &error {
            Error::Protocol(error) => return Failure::Nonsense(error.to_string()),
            Error::Io(error) if is_ended(error) => return ended(),
            Error::Io(error) if repository::storage::is_connection_error(error.kind()) => {
                error.kind()
            }
            Error::TooSlow { .. } => ErrorKind::TimedOut,
            Error::Io(_) | Error::Closed => ErrorKind::ConnectionReset,
        };
        Failure::Lost { server: self.way.target().describe(), reason: error.to_string(), kind }
    }
}

/// What a first answer may take.
async fn within<T, E: Into<Error>>(work: impl Future<Output = Result<T, E>>) -> Result<T, Error> {
    let secs = ANSWER_WITHIN.as_secs();
    let late = |_| Err(Error::TooSlow { bytes: 1, secs });
    let done = tokio::time::timeout(ANSWER_WITHIN, async { work.await.map_err(Into::into) });
    done.await.unwrap_or_else(late)
}

/// The socket once more, to ask the kernel about it while others use it.
fn dup(stream: &Tls) -> Option<std::os::fd::OwnedFd> {
    use std::os::fd::AsFd;
    stream.get_ref().0.as_fd().try_clone_to_owned().ok()
}

/// Between half and all of `pause`: many who were cut at once do not come back at once.
fn jittered(pause: Duration) -> Duration {
    let mut byte = [0u8; 1];
    let _ = getrandom::fill(&mut byte);
    pause.mul_f64(0.5 + f64::from(byte[0]) / 512.0)
}
