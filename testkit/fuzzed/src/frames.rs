//! A stream of bytes that comes in pieces of any size, read by somebody who is interrupted between
//! any two of them: the frames are those of the whole.

use protocol::frame::{HEADER_BYTES, Header};
use protocol::packet::End;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::runtime::{Builder, Runtime};
use transport::Error;
use transport::frames::FrameReader;
use transport::rate::Rate;

/// Bytes in pieces; between two of them there is nothing for a moment.
struct Pieces<'a> {
    left: &'a [u8],
    sizes: std::iter::Cycle<std::vec::IntoIter<u8>>,
    is_due: bool,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        self.is_due = !self.is_due;
        if self.is_due {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let wanted = usize::from(self.sizes.next().unwrap_or(0)) + 1;
        let length = wanted.min(self.left.len()).min(buffer.remaining());
        let (piece, left) = self.left.split_at(length);
        buffer.put_slice(piece);
        self.left = left;
        Poll::Ready(Ok(()))
    }
}

/// Every frame up to the first that is bad or cut, and whether the end was a bad one.
type Frames = (Vec<(Header, Vec<u8>)>, bool);

fn whole(mut bytes: &[u8], from: End) -> Frames {
    let mut frames = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        let Ok(header) = Header::decode(header, from) else { return (frames, true) };
        let Some((body, rest)) = rest.split_at_checked(header.body_bytes) else { break };
        frames.push((header, body.to_vec()));
        bytes = rest;
    }
    (frames, false)
}

async fn in_pieces(bytes: &[u8], sizes: Vec<u8>, from: End) -> Frames {
    let pieces = Pieces { left: bytes, sizes: sizes.into_iter().cycle(), is_due: false };
    let (mut reader, rate) = (FrameReader::new(pieces, from), Rate::default());
    let mut frames = Vec::new();
    loop {
        // Each look is a future of its own: whoever waits for a header is interrupted all the time.
        let header = poll_fn(|context| {
            let next = std::pin::pin!(reader.header());
            next.poll(context)
        });
        let header = match header.await {
            Ok(header) => header,
            Err(error) => return (frames, matches!(error, Error::Protocol(_))),
        };
        let Ok(body) = reader.body(header, &rate).await else { return (frames, false) };
        frames.push((header, body));
    }
}

fn runtime() -> &'static Runtime {
    static MADE: OnceLock<Runtime> = OnceLock::new();
    MADE.get_or_init(|| Builder::new_current_thread().enable_time().build().expect("a runtime"))
}

// Who sends, how many sizes of pieces, these, and the stream itself.
/// Runs the target on one input.
pub fn fuzz(input: &[u8]) {
    let [end, count, rest @ ..] = input else { return };
    let (sizes, bytes) = rest.split_at(usize::from(*count).min(rest.len()));
    let from = if end & 1 == 0 { End::Client } else { End::Server };
    let sizes = if sizes.is_empty() { vec![0] } else { sizes.to_vec() };
    let read = runtime().block_on(in_pieces(bytes, sizes, from));
    assert_eq!(read, whole(bytes, from));
}
