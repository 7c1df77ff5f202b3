//! Reading and writing frames. Reading can be interrupted between any two bytes and continues where it
//! stopped; no memory is allocated for a body before its header was accepted.

use crate::rate::Rate;
use crate::{Error, Result};
use protocol::frame::{HEADER_BYTES, Header};
use protocol::packet::End;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// A slower body means that its sender is gone or hostile.
const BODY_BYTES_PER_WINDOW_MIN: usize = 16 << 10;
const BODY_WINDOW: Duration = Duration::from_secs(30);
/// Time for the other end to take one piece of a frame.
const TAKEN_WITHIN: Duration = Duration::from_secs(120);
/// Largest piece that is read at once, so that bandwidth limits are kept evenly.
const PIECE_BYTES: usize = 256 << 10;
/// Discarded data are read in pieces of this size.
const SCRATCH_BYTES: usize = 4 << 10;

/// Reads frames that `from` sends.
pub struct FrameReader<R> {
    stream: R,
    from: End,
    header: [u8; HEADER_BYTES],
    filled: usize,
    /// Bytes received.
    pub bytes: u64,
    /// The same, shared with others.
    moved: Arc<AtomicU64>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// A reader of what `from` sends on `stream`.
    pub fn new(stream: R, from: End) -> Self {
        Self { stream, from, header: [0; HEADER_BYTES], filled: 0, bytes: 0, moved: Arc::default() }
    }

    /// Also counts received bytes into `moved`.
    pub fn counting(self, moved: Arc<AtomicU64>) -> Self {
        Self { moved, ..self }
    }

    /// The next header. A call that is dropped before it ends continues with the next call.
    pub async fn header(&mut self) -> Result<Header> {
        while self.filled < HEADER_BYTES {
            match self.stream.read(&mut self.header[self.filled..]).await? {
                0 => return Err(Error::Closed),
                read => self.filled += read,
            }
        }
        let header = Header::decode(&self.header, self.from)?;
        self.filled = 0;
        self.bytes += HEADER_BYTES as u64;
        Ok(header)
    }

    /// The body that follows `header`, no faster than `rate`.
    ///
    /// # Errors
    /// [`Error::TooSlow`] for a body that arrives too slowly.
    pub async fn body(&mut self, header: Header, rate: &Rate) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        while body.len() < header.body_bytes {
            let before = body.len();
            let end = (before + BODY_BYTES_PER_WINDOW_MIN).min(header.body_bytes);
            let piece = async {
                while body.len() < end {
                    self.piece(&mut body, header.body_bytes).await?;
                }
                Ok::<(), Error>(())
            };
            match tokio::time::timeout(BODY_WINDOW, piece).await {
                Ok(read) => read?,
                Err(_) => {
                    let (bytes, secs) = (end - before, BODY_WINDOW.as_secs());
                    return Err(Error::TooSlow { bytes, secs });
                }
            }
            rate.take(body.len() - before).await;
        }
        Ok(body)
    }

    /// Reads and discards everything until the other end closes or this many bytes arrived. No frame can
    /// be read after that.
    pub async fn discard(&mut self, bytes_max: usize, rate: &Rate) -> Result<()> {
        let mut scratch = [0; SCRATCH_BYTES];
        let mut left = bytes_max;
        while left > 0 {
            let wanted = left.min(SCRATCH_BYTES);
            let read = self.stream.read(&mut scratch[..wanted]).await?;
            if read == 0 {
                return Err(Error::Closed);
            }
            left -= read;
            rate.take(read).await;
        }
        Ok(())
    }

    async fn piece(&mut self, body: &mut Vec<u8>, whole: usize) -> Result<()> {
        let wanted = (whole - body.len()).min(PIECE_BYTES);
        body.reserve(wanted);
        let read = (&mut self.stream).take(wanted as u64).read_buf(body).await?;
        self.bytes += read as u64;
        self.moved.fetch_add(read as u64, Ordering::Relaxed);
        if read == 0 { Err(Error::Closed) } else { Ok(()) }
    }
}

/// Writes `frame`, no faster than `rate`, and counts its bytes into `moved`.
///
/// # Errors
/// [`Error::TooSlow`] when the other end does not take a piece in time.
pub async fn write<W: AsyncWrite + Unpin>(
    stream: &mut W,
    frame: &[u8],
    rate: &Rate,
    moved: &AtomicU64,
) -> Result<()> {
    let piece_bytes = if rate.is_limited() { rate.piece_bytes() } else { PIECE_BYTES };
    for piece in frame.chunks(piece_bytes) {
        rate.take(piece.len()).await;
        let taken = tokio::time::timeout(TAKEN_WITHIN, stream.write_all(piece)).await;
        let (bytes, secs) = (piece.len(), TAKEN_WITHIN.as_secs());
        taken.map_err(|_| Error::TooSlow { bytes, secs })??;
        moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Packet;

    fn hello() -> Packet {
        Packet::Hello { oldest: 1, newest: 1, program: "test".into() }
    }

    #[tokio::test]
    async fn a_frame_that_comes_byte_by_byte_is_read_though_reading_is_interrupted() {
        let (mut ours, theirs) = tokio::io::duplex(64);
        let mut reader = FrameReader::new(theirs, End::Client);
        let frame = hello().frame(7);
        for byte in &frame[..HEADER_BYTES - 1] {
            ours.write_all(&[*byte]).await.unwrap();
            let waited = tokio::time::timeout(Duration::from_millis(1), reader.header()).await;
            assert!(waited.is_err(), "there is no header yet");
        }
        ours.write_all(&frame[HEADER_BYTES - 1..]).await.unwrap();
        let header = reader.header().await.unwrap();
        let body = reader.body(header, &Rate::default()).await.unwrap();
        assert_eq!((header.request, Packet::decode(header.kind, body).unwrap()), (7, hello()));
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_a_body_too_slowly_is_left() {
        let (mut ours, theirs) = tokio::io::duplex(64);
        let mut reader = FrameReader::new(theirs, End::Client);
        let header = Header { kind: 17, request: 1, body_bytes: 1 << 20 };
        ours.write_all(&header.encode()).await.unwrap();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if ours.write_all(&[0; 10]).await.is_err() {
                    break;
                }
            }
        });
        let header = reader.header().await.unwrap();
        let error = reader.body(header, &Rate::default()).await.unwrap_err();
        assert!(matches!(error, Error::TooSlow { .. }), "{error}");
    }

    #[tokio::test]
    async fn an_end_in_the_middle_is_an_end() {
        let (mut ours, theirs) = tokio::io::duplex(64);
        let mut reader = FrameReader::new(theirs, End::Client);
        ours.write_all(&hello().frame(1)[..HEADER_BYTES + 2]).await.unwrap();
        drop(ours);
        let header = reader.header().await.unwrap();
        let error = reader.body(header, &Rate::default()).await.unwrap_err();
        assert!(matches!(error, Error::Closed));
    }
}
