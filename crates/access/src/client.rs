//! A client of the HTTP API: one connection for each call, and limits on time and size.

use crate::{Error, Identity, Result, Url, reloading_certificate};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use rustls::{AlertDescription, CertificateError, ClientConfig};
use rustls_pki_types::ServerName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use zeroize::Zeroizing;

const CONNECT_TIME: Duration = Duration::from_secs(10);
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
const CALL_TIME: Duration = Duration::from_secs(90);
/// A stream that says nothing for so long is dead: the server says that it lives more often.
const QUIET_TIME: Duration = Duration::from_secs(45);
/// The largest reply is a list of very many snapshots.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A client of the API of one server.
pub struct Client {
    server: Url,
    tls: Arc<ClientConfig>,
    token: Option<Zeroizing<String>>,
    call_time: Duration,
}

impl Client {
    /// A client that authenticates with its certificate, or not at all.
    pub fn new(server: Url, tls: Arc<ClientConfig>) -> Self {
        Self { server, tls, token: None, call_time: CALL_TIME }
    }

    /// A client for the node `identity`.
    ///
    /// # Errors
    /// [`Error::Pki`].
    pub fn of(identity: &Identity) -> Result<Self> {
        Ok(Self::new(identity.server.clone(), identity.tls(pki::ALPN_HTTP)?))
    }

    /// A client for the node of `folder`, which shows the certificate that is there when it connects: another process may
    /// have renewed that of `identity` since, and an old one is the sign of a copied machine.
    ///
    /// # Errors
    /// [`Error::Pki`].
    pub fn of_folder(folder: &Path, identity: &Identity) -> Result<Self> {
        let tls = reloading_certificate::tls(folder, identity, pki::ALPN_HTTP)?;
        Ok(Self::new(identity.server.clone(), tls))
    }

    /// Adds the administrator's token.
    #[must_use]
    pub fn with_token(self, token: Zeroizing<String>) -> Self {
        Self { token: Some(token), ..self }
    }

    /// Waits no longer than this for a whole call: for what can be done later or without the server.
    #[must_use]
    pub fn with_call_time(self, call_time: Duration) -> Self {
        Self { call_time, ..self }
    }

    /// Reads `path`.
    ///
    /// # Errors
    /// [`Error::Server`] when the server refuses; others when it is unreachable.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.call(Method::GET, path, Bytes::new()).await
    }

    /// Deletes `path`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.call(Method::DELETE, path, Bytes::new()).await
    }

    /// Puts `body` at `path`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        let body = serde_json::to_vec(body).map_err(|error| self.no_answer(error))?;
        self.call(Method::PUT, path, body.into()).await
    }

    /// Sends `body` to `path`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        let body = serde_json::to_vec(body).map_err(|error| self.no_answer(error))?;
        self.call(Method::POST, path, body.into()).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T> {
        let what = "the whole call";
        let (status, body) = timeout(self.call_time, self.exchange(method, path, body))
            .await
            .map_err(|_| self.late(what))??;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|error| self.no_answer(error));
        }
        match serde_json::from_slice(&body) {
            Ok(failure) => Err(Error::Server(failure)),
            Err(_) => Err(self.no_answer(format!("status {status}"))),
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes)> {
        let request = self.request(method, path, body)?;
        let stream = self.connect().await?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.broken(&error))?;
        let talk = async {
            let response = sender.send_request(request).await;
            self.read(response.map_err(|error| self.broken(&error))?).await
        };
        // The connection does the work that `talk` waits for, and ends with it.
        tokio::pin!(connection, talk);
        tokio::select! {
            done = &mut talk => done,
            ended = &mut connection => match ended {
                Err(error) => Err(self.broken(&error)),
                // A server that closes after its answer: what came is here.
                Ok(()) => talk.await,
            },
        }
    }

    /// Follows the stream at `path` until it ends, or `with` wants no more of its parts.
    ///
    /// # Errors
    /// As [`Client::get`]; also when the stream is silent for longer than a living one is.
    pub async fn follow(&self, path: &str, with: impl FnMut(Bytes) -> bool) -> Result<()> {
        let request = self.request(Method::GET, path, Bytes::new())?;
        let stream = self.connect().await?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.broken(&error))?;
        let talk = async {
            let response = timeout(self.call_time, sender.send_request(request)).await;
            let response = response.map_err(|_| self.late("the answer"))?;
            self.parts(response.map_err(|error| self.broken(&error))?, with).await
        };
        tokio::pin!(connection, talk);
        tokio::select! {
            done = &mut talk => done,
            ended = &mut connection => match ended {
                Err(error) => Err(self.broken(&error)),
                Ok(()) => talk.await,
            },
        }
    }

    async fn parts(
        &self,
        response: Response<hyper::body::Incoming>,
        mut with: impl FnMut(Bytes) -> bool,
    ) -> Result<()> {
        if !response.status().is_success() {
            let (status, body) = self.read(response).await?;
            let refused = serde_json::from_slice(&body).map(Error::Server);
            return Err(refused.unwrap_or_else(|_| self.no_answer(format!("status {status}"))));
        }
        let mut body = response.into_body();
        loop {
            let part =
                timeout(QUIET_TIME, body.frame()).await.map_err(|_| self.late("an event"))?;
            let Some(part) = part else { return Ok(()) };
            let part = part.map_err(|error| self.broken(&error))?;
            if part.into_data().is_ok_and(|data| !with(data)) {
                return Ok(());
            }
        }
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", api::BASE))
            .header(header::HOST, self.server.place())
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", **token));
        }
        request.body(Full::new(body)).map_err(|error| self.no_answer(error))
    }

    async fn connect(&self) -> Result<TlsStream<TcpStream>> {
        let (host, port) = (&self.server.host, self.server.port);
        let stream = transport::dial::reach(host, port, CONNECT_TIME, TcpStream::connect)
            .await
            .map_err(|source| Error::Unreachable { server: self.server.place(), source })?;
        let name = ServerName::try_from(self.server.host.clone())
            .map_err(|_| Error::Url(self.server.to_string()))?;
        let handshake = TlsConnector::from(self.tls.clone()).connect(name, stream);
        timeout(HANDSHAKE_TIME, handshake)
            .await
            .map_err(|_| self.late("TLS"))?
            .map_err(|error| of_tls(&self.server.place(), &error))
    }

    async fn read(&self, response: Response<hyper::body::Incoming>) -> Result<(StatusCode, Bytes)> {
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        Ok((status, body.map_err(|error| self.no_answer(error))?.to_bytes()))
    }

    fn late(&self, what: &'static str) -> Error {
        Error::TimedOut { server: self.server.place(), what }
    }

    fn no_answer(&self, why: impl ToString) -> Error {
        Error::Answer { server: self.server.place(), why: why.to_string() }
    }

    /// TLS 1.3 reports a refused certificate only with the first reply.
    fn broken(&self, error: &hyper::Error) -> Error {
        let server = self.server.place();
        let mut source = std::error::Error::source(error);
        while let Some(inner) = source {
            if let Some(error) = inner.downcast_ref::<io::Error>() {
                return of_tls(&server, error);
            }
            source = inner.source();
        }
        Error::Connection { server, why: error.to_string() }
    }
}

/// What an error of a TLS connection means.
fn of_tls(server: &str, error: &io::Error) -> Error {
    use rustls::Error::{AlertReceived, InvalidCertificate};
    let server = server.to_owned();
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    if let Some(said) = inner.and_then(pki::client::wrong_clock) {
        return Error::Clock { server, said };
    }
    match inner {
        Some(InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => Error::Stranger { server },
        Some(InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => Error::OtherName { server },
        Some(AlertReceived(AlertDescription::CertificateExpired)) => Error::Expired { server },
        _ => Error::Connection { server, why: error.to_string() },
    }
}
