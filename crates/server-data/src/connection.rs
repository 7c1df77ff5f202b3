//! A connection of a node: one task that reads a packet, has it handled, and writes the reply.

use super::body_memory::BodyPermit;
use super::connection_handle::{ConnectionHandle, NewConnection};
use super::request_handler::RequestHandler;
use super::{Shared, closing, faults};
use protocol::Packet;
use protocol::frame::Header;
use protocol::packet::End;
use protocol::state::State;
use server_contract::access_control::Peer;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use transport::frames::{self, FrameReader};
use transport::{Error, Result};

/// Time for the first packet.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// Bodies up to this size are not counted.
const SMALL_BYTES: usize = 64 << 10;
/// Noise is sent in packets of this size.
const NOISE_BYTES: usize = 256 << 10;
/// Maximum of random bytes for one request.
const NOISE_BYTES_MAX: u64 = 4 << 30;

/// Serves the node at the other end of `stream` until one end closes. Its certificate is valid until
/// `certificate_ends`, in seconds since 1970.
pub async fn run<S>(shared: Arc<Shared>, stream: S, peer: Peer, certificate_ends: i64)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (read, mut write) = tokio::io::split(stream);
    let mut reader = FrameReader::new(read, End::Client);
    let access_control = shared.access_control.clone();
    let address = peer.address;
    let admitted = tokio::task::spawn_blocking(move || access_control.admit(&peer)).await;
    let node = match admitted {
        Ok(Ok(node)) => node,
        Ok(Err(refusal)) => {
            let packet = faults::of_refusal(&refusal);
            return closing::refuse(&shared, &mut reader, &mut write, &packet).await;
        }
        Err(_) => return,
    };
    let new = NewConnection { node, address, certificate_ends };
    let (handle, inbox) = match shared.hub.enter(new, &*shared.access_control) {
        Ok(entered) => entered,
        Err(fault) => return closing::refuse(&shared, &mut reader, &mut write, &fault).await,
    };
    let moved = handle.moved.clone();
    let handler = RequestHandler::new(shared.clone(), handle.clone());
    let mut connection = Connection {
        shared: shared.clone(),
        handle,
        handler: Some(handler),
        reader: reader.counting(moved),
        write,
        is_writing: false,
        inbox,
    };
    let ended = connection.handle.clone();
    let served = tokio::select! {
        served = connection.serve() => served,
        () = ended.end.notified() => Ok(()),
    };
    if let Err(Error::Protocol(error)) = &served {
        tracing::info!(node = connection.handle.node.name, %error, "left");
        connection.dismiss(&faults::of_protocol(error)).await;
    }
    // Within a frame nothing can be said.
    if let (Some(packet), false) = (ended.last_packet(), connection.is_writing) {
        connection.dismiss(&packet).await;
    }
    shared.hub.leave(&connection.handle, &*shared.access_control);
    if let Some(mut handler) = connection.handler.take() {
        let _ = tokio::task::spawn_blocking(move || handler.end()).await;
    }
}

struct Connection<S> {
    shared: Arc<Shared>,
    handle: Arc<ConnectionHandle>,
    /// `None` while a blocking thread has it.
    handler: Option<RequestHandler>,
    reader: FrameReader<ReadHalf<S>>,
    write: WriteHalf<S>,
    /// Whether a frame is being written.
    is_writing: bool,
    inbox: mpsc::Receiver<Packet>,
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Connection<S> {
    async fn serve(&mut self) -> Result<()> {
        let first = tokio::time::timeout(HELLO_WITHIN, self.reader.header()).await;
        let first = first.map_err(|_| Error::TooSlow { bytes: 1, secs: HELLO_WITHIN.as_secs() })?;
        self.packet(first?).await?;
        loop {
            if self.state() == State::Over {
                return Ok(self.write.shutdown().await?);
            }
            let before = Instant::now();
            tokio::select! {
                message = self.inbox.recv() => match message {
                    Some(packet @ Packet::Fault { .. }) => return self.leave_with(&packet).await,
                    Some(packet) => self.send(&packet, 0).await?,
                    None => return Ok(()),
                },
                header = self.reader.header() => {
                    self.handle.waits.full.add(before.elapsed());
                    self.packet(header?).await?;
                }
            }
        }
    }

    /// Sends the last packet, whatever the state.
    async fn dismiss(&mut self, packet: &Packet) {
        let rate = &self.handle.rates.up;
        closing::dismiss(&mut self.reader, &mut self.write, packet, rate).await;
    }

    /// Sends the last packet, and discards what still arrives until the other end closes or the server
    /// stops.
    async fn leave_with(&mut self, packet: &Packet) -> Result<()> {
        self.send(packet, 0).await?;
        self.write.shutdown().await?;
        loop {
            let header = self.reader.header().await?;
            self.reader.body(header, &self.handle.rates.up).await?;
        }
    }

    fn state(&self) -> State {
        self.handler.as_ref().map_or(State::Over, |handler| handler.state)
    }

    async fn packet(&mut self, header: Header) -> Result<()> {
        self.state().admits(header.kind)?;
        let permit = self.room_for(header.body_bytes).await?;
        let body = self.reader.body(header, &self.handle.rates.up).await?;
        if let Ok(Packet::GetNoise { bytes }) = Packet::decode_small(header.kind, &body) {
            return self.noise(header.request, bytes).await;
        }
        let Some(mut handler) = self.handler.take() else { return Err(Error::Closed) };
        let before = Instant::now();
        let answered = tokio::task::spawn_blocking(move || {
            let answer = handler.answer(header.request, header.kind, body);
            let unsolicited = handler.unsolicited(answer.as_ref());
            (handler, answer, unsolicited)
        });
        self.handle.is_working.store(true, Ordering::Relaxed);
        let answered = answered.await;
        self.handle.is_working.store(false, Ordering::Relaxed);
        let (handler, answer, unsolicited) = answered.map_err(|_| Error::Closed)?;
        self.handler = Some(handler);
        self.handle.waits.empty.add(before.elapsed());
        drop(permit);
        for packet in answer.into_iter() {
            self.send(&packet, header.request).await?;
        }
        for packet in unsolicited {
            self.send(&packet, 0).await?;
        }
        Ok(())
    }

    /// Waits for memory for a large body: all connections share it.
    async fn room_for(&self, bytes: usize) -> Result<Option<BodyPermit>> {
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        let room = self.shared.bodies.room(&self.handle.rates.bodies, bytes).await;
        room.map(Some).ok_or(Error::Closed)
    }

    async fn send(&mut self, packet: &Packet, request: u32) -> Result<()> {
        let frame = packet.frame(request);
        let handle = &self.handle;
        self.is_writing = true;
        frames::write(&mut self.write, &frame, &handle.rates.down, &handle.moved).await?;
        self.write.flush().await?;
        self.is_writing = false;
        Ok(())
    }

    async fn noise(&mut self, request: u32, bytes: u64) -> Result<()> {
        let mut noise = vec![0; NOISE_BYTES];
        let _ = getrandom::fill(&mut noise);
        for length in pieces(bytes) {
            let packet = Packet::Noise { noise: noise[..length].to_vec() };
            self.send(&packet, request).await?;
        }
        self.send(&Packet::Done {}, request).await
    }
}

/// Lengths of the packets that answer a request for so many random bytes. Between two of them the
/// connection handles other events.
fn pieces(bytes: u64) -> impl Iterator<Item = usize> {
    let bytes = bytes.min(NOISE_BYTES_MAX);
    let whole = (bytes / NOISE_BYTES as u64) as usize;
    let rest = (bytes % NOISE_BYTES as u64) as usize;
    std::iter::repeat_n(NOISE_BYTES, whole).chain((rest > 0).then_some(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_for_more_noise_than_four_gib_gets_four_gib() {
        let sum = |bytes| pieces(bytes).map(|length| length as u64).sum::<u64>();
        for bytes in [0, 1, NOISE_BYTES as u64, NOISE_BYTES as u64 + 1, NOISE_BYTES_MAX] {
            assert_eq!(sum(bytes), bytes);
        }
        for bytes in [NOISE_BYTES_MAX + 1, u64::MAX] {
            assert_eq!(sum(bytes), 4 << 30);
        }
        assert!(pieces(u64::MAX).all(|length| (1..=NOISE_BYTES).contains(&length)));
    }
}
