//! The last packet of a connection, so that it is heard: a system that gets data for a connection that
//! is closed throws away what was sent on it. So what still comes is read, and thrown away, until the
//! other end has heard and goes. Not for long, and not much: who does not go is closed all the same.

use super::Shared;
use protocol::Packet;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use transport::frames::FrameReader;
use transport::rate::Rate;

/// Time for the other end to take the last packet.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);
/// Time for it to go then.
const GONE_WITHIN: Duration = Duration::from_secs(2);
/// What is read of who was not let in: its first packets are far smaller.
const REFUSED_BYTES_MAX: usize = 64 << 10;
/// What is read of who was let in: so much an honest one may have on its way.
const ADMITTED_BYTES_MAX: usize = super::request_handler::WINDOW_BYTES;
/// Connections not let in that are listened to at the same time. More than that are no accident.
pub(super) const REFUSED_MAX: usize = 256;

/// To who is not let in.
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

/// To who was let in, and has to go.
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

/// Whether it was said. Who does not listen has lost nothing.
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
