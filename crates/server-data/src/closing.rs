//! Sends the last packet of a connection so that it arrives: a system that receives data for a closed
//! connection discards what was sent on it. So what still arrives is read and discarded until the other
//! end closes, within limits of time and size. Then the connection is closed in any case.

use super::Shared;
use protocol::Packet;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use transport::frames::FrameReader;
use transport::rate::Rate;

/// Time for the other end to take the last packet.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);
/// Time for it to close then.
const GONE_WITHIN: Duration = Duration::from_secs(2);
/// How much is read from a connection that was not admitted: its first packets are far smaller.
const REFUSED_BYTES_MAX: usize = 64 << 10;
/// How much is read from an admitted connection: what an honest client may have in flight.
const ADMITTED_BYTES_MAX: usize = super::request_handler::WINDOW_BYTES;
/// Connections that were not admitted and are read at the same time. More are an attack.
pub(super) const REFUSED_MAX: usize = 256;

/// Sends the last packet to a connection that is not admitted.
pub(super) async fn refuse<R, W>(
    shared: &Shared,
    reader: &mut FrameReader<R>,
    write: &mut W,
    packet: &Packet,
) where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    if say(write, packet).await
        && let Ok(_place) = shared.refused.try_acquire()
    {
        listen(reader, REFUSED_BYTES_MAX, &Rate::default()).await;
    }
}

/// Sends the last packet to an admitted connection.
pub(super) async fn dismiss<R, W>(
    reader: &mut FrameReader<R>,
    write: &mut W,
    packet: &Packet,
    rate: &Rate,
) where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    if say(write, packet).await {
        listen(reader, ADMITTED_BYTES_MAX, rate).await;
    }
}

/// Whether the packet was sent.
async fn say(write: &mut (impl AsyncWrite + Unpin), packet: &Packet) -> bool {
    let said = async {
        write.write_all(&packet.frame(0)).await?;
        write.shutdown().await
    };
    matches!(tokio::time::timeout(TAKEN_WITHIN, said).await, Ok(Ok(())))
}

async fn listen(reader: &mut FrameReader<impl AsyncRead + Unpin>, bytes_max: usize, rate: &Rate) {
    // However it ends, it is over.
    let _ = tokio::time::timeout(GONE_WITHIN, reader.discard(bytes_max, rate)).await;
}
