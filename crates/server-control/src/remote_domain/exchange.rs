//! A connection to a storage server.

use super::{ANSWER_ALL_WITHIN, ANSWER_WITHIN, CONNECT_WITHIN, RemoteDomain};
use crate::{Error, Result};
use ids::RepositoryId;
use protocol::packet::{End, PathBytes, Purpose};
use protocol::{Packet, VERSION_NEWEST};
use repository::config::Config;
use repository::received::RepositoryElsewhere;
use std::future::Future;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use transport::frames::FrameReader;
use transport::rate::Rate;

/// First version with packets for the key list.
const VERSION_SLOTS: u16 = 3;

/// A connection on which the domain is open.
pub(super) struct Exchange {
    reader: FrameReader<ReadHalf<TlsStream<TcpStream>>>,
    write: WriteHalf<TlsStream<TcpStream>>,
    /// The version that both ends use.
    pub(super) version: u16,
    /// Settings of the repository; empty while there is none.
    pub(super) config: Vec<u8>,
    receipt_keys: Vec<PathBytes>,
}

impl Exchange {
    /// The settings of the repository; `None` if there is none.
    pub(super) fn config(&self) -> Result<Option<Config>> {
        if self.config.is_empty() {
            return Ok(None);
        }
        let damaged = |reason| repository::Error::damaged("the settings of a domain", reason);
        Ok(Some(Config::decode(&self.config).map_err(damaged)?))
    }

    /// Its repository, for what is read of it; `None` if there is none.
    pub(super) fn repository(&self) -> Result<Option<RepositoryElsewhere>> {
        let Some(config) = self.config()? else { return Ok(None) };
        let repository: RepositoryId = config.repository;
        let keys = self.receipt_keys.iter();
        let keys = keys.filter_map(|key| key.0.as_slice().try_into().ok()).collect();
        Ok(Some(RepositoryElsewhere { repository, keys, verifier: crypto::is_signed }))
    }
}

impl RemoteDomain {
    /// One request and its reply.
    pub(super) fn ask(&self, packet: Packet) -> Result<Packet> {
        self.wait(async {
            let mut exchange = self.connect().await?;
            self.send(&mut exchange, &[packet]).await?;
            self.done(self.receive(&mut exchange).await?)
        })
    }

    /// Blocks until `work` ends, which is soon: others wait for it.
    pub(super) fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let late = |_| self.failed(format!("it did not answer all in {ANSWER_ALL_WITHIN:?}"));
        self.wait_long(async { tokio::time::timeout(ANSWER_ALL_WITHIN, work).await.map_err(late)? })
    }

    /// Blocks until `work` ends.
    pub(super) fn wait_long<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| self.failed(error))?.block_on(work)
    }

    /// Connects and opens the domain. One that did not answer a moment ago is not waited for again.
    pub(super) async fn connect(&self) -> Result<Exchange> {
        if let Some(why) = self.away.why(&self.storage) {
            return Err(self.failed(why));
        }
        let stream = tokio::time::timeout(CONNECT_WITHIN, self.reached()).await;
        let late = |_| format!("no answer in {CONNECT_WITHIN:?}");
        let stream = stream.map_err(late).flatten().map_err(|why| {
            self.away.is_away(&self.storage, why.clone());
            self.failed(why)
        })?;
        let opened = tokio::time::timeout(CONNECT_WITHIN, self.opened(stream)).await;
        opened.map_err(|_| self.failed(format!("no answer in {CONNECT_WITHIN:?}")))?
    }

    async fn reached(&self) -> std::result::Result<TlsStream<TcpStream>, String> {
        let connect = TcpStream::connect::<std::net::SocketAddr>;
        let stream = transport::dial::reach(&self.host, self.port, CONNECT_WITHIN, connect).await;
        let stream = stream.map_err(|error| error.to_string())?;
        let name = rustls::pki_types::ServerName::try_from(self.host.clone());
        let name = name.map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await;
        stream.map_err(|error| error.to_string())
    }

    async fn opened(&self, stream: TlsStream<TcpStream>) -> Result<Exchange> {
        let (read, write) = tokio::io::split(stream);
        let reader = FrameReader::new(read, End::Server);
        let (version, config, receipt_keys) = Default::default();
        let mut exchange = Exchange { reader, write, version, config, receipt_keys };
        let program = concat!("icecore ", env!("CARGO_PKG_VERSION")).to_owned();
        let (oldest, newest) = (VERSION_SLOTS, VERSION_NEWEST);
        self.send(&mut exchange, &[Packet::Hello { oldest, newest, program }]).await?;
        match self.done(self.receive(&mut exchange).await?)? {
            Packet::Welcome { version, .. } => exchange.version = version,
            other => return Err(self.unexpected(&other)),
        }
        let domain = self.domain.to_string();
        self.send(&mut exchange, &[Packet::Open { domain, purpose: Purpose::Read }]).await?;
        match self.done(self.receive(&mut exchange).await?)? {
            Packet::Opened { config, receipt_keys, .. } => {
                (exchange.config, exchange.receipt_keys) = (config.0, receipt_keys);
                self.must_be_known(&exchange)?;
                Ok(exchange)
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// What is signed for a repository counts for that one only, wherever it lies.
    fn must_be_known(&self, exchange: &Exchange) -> Result<()> {
        let Some(known) = &self.known else { return Ok(()) };
        match exchange.config()? {
            Some(config) if config.repository.to_string() != *known => {
                let shown = config.repository;
                Err(self.failed(format!("it shows the repository {shown} in the place of {known}")))
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn send(&self, exchange: &mut Exchange, packets: &[Packet]) -> Result<()> {
        let frames: Vec<u8> = packets.iter().flat_map(|packet| packet.frame(0)).collect();
        let sent = async {
            exchange.write.write_all(&frames).await?;
            exchange.write.flush().await
        };
        let sent = tokio::time::timeout(ANSWER_WITHIN, sent).await;
        let sent =
            sent.map_err(|_| self.failed(format!("it took nothing in {ANSWER_WITHIN:?}")))?;
        sent.map_err(|error| self.failed(error))
    }

    /// The next reply.
    pub(super) async fn receive(&self, exchange: &mut Exchange) -> Result<Packet> {
        let answer = async {
            loop {
                let header = exchange.reader.header().await?;
                let body = exchange.reader.body(header, &Rate::default()).await?;
                match Packet::decode(header.kind, body)? {
                    Packet::Limits { .. } => {}
                    packet => return Ok::<_, transport::Error>(packet),
                }
            }
        };
        let answer = tokio::time::timeout(ANSWER_WITHIN, answer).await;
        let answer = answer.map_err(|_| self.failed(format!("no answer in {ANSWER_WITHIN:?}")))?;
        answer.map_err(|error| self.failed(error))
    }

    pub(super) fn done(&self, answer: Packet) -> Result<Packet> {
        match answer {
            Packet::Fault { message, .. } => Err(self.failed(message)),
            answer => Ok(answer),
        }
    }

    /// Fails when the program there is too old for a request of this version.
    pub(super) fn must_know(&self, exchange: &Exchange, version: u16) -> Result<()> {
        if exchange.version >= version {
            return Ok(());
        }
        let own = env!("CARGO_PKG_VERSION");
        Err(self.failed(format!("its program is too old for that: install icecore {own} there")))
    }

    pub(super) fn unexpected(&self, packet: &Packet) -> Error {
        self.failed(format!("unexpected reply: {}", packet.name()))
    }

    pub(super) fn failed(&self, why: impl ToString) -> Error {
        let place = format!("{}:{}", self.host, self.port);
        Error::StorageServer { storage: self.storage.to_string(), place, why: why.to_string() }
    }
}
