//! The kernel's statistics of a TCP connection: tcp(7), `TCP_INFO`.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Length of the fields that are read; older kernels give fewer, which stay 0.
const BYTES: usize = 256;

/// A sample of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpInfo {
    /// Smoothed round trip in microseconds.
    pub rtt_micros: u32,
    /// Smallest round trip seen, in microseconds.
    pub min_rtt_micros: u32,
    /// Congestion window in segments.
    pub window_segments: u32,
    /// Bytes per segment.
    pub segment_bytes: u32,
    /// Retransmitted segments in total.
    pub retransmitted: u32,
    /// Bytes that the other end has acknowledged.
    pub bytes_acked: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Time in which there was something to send, in microseconds.
    pub busy_micros: u64,
    /// Part of it in which the receiver's window held the sender back.
    pub receiver_limited_micros: u64,
    /// Part of it in which the send buffer held the sender back.
    pub send_buffer_limited_micros: u64,
    /// Recent rate of delivery in bytes per second.
    pub delivery_bytes_per_sec: u64,
    /// Largest window that the receiver offered lately, in bytes.
    pub send_window_bytes: u32,
    /// Receive buffer that the kernel tuned for, in bytes.
    pub receive_space_bytes: u32,
}

impl TcpInfo {
    /// Asks the kernel about `socket`.
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        let mut bytes = [0u8; BYTES];
        get(socket, &mut bytes)?;
        Ok(Self::decode(&bytes))
    }

    /// Offsets of `struct tcp_info` in linux/tcp.h; the kernel only ever adds to its end.
    fn decode(bytes: &[u8; BYTES]) -> Self {
        let u32_at = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let u64_at =
            |at: usize| u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| bytes[at + i]));
        Self {
            segment_bytes: u32_at(16),
            rtt_micros: u32_at(68),
            window_segments: u32_at(80),
            receive_space_bytes: u32_at(96),
            retransmitted: u32_at(100),
            bytes_acked: u64_at(120),
            bytes_received: u64_at(128),
            min_rtt_micros: u32_at(148),
            delivery_bytes_per_sec: u64_at(160),
            busy_micros: u64_at(168),
            receiver_limited_micros: u64_at(176),
            send_buffer_limited_micros: u64_at(184),
            send_window_bytes: u32_at(228),
        }
    }
}

#[allow(unsafe_code, reason = "no safe wrapper has the fields that newer kernels added")]
fn get(socket: &impl AsFd, bytes: &mut [u8; BYTES]) -> io::Result<()> {
    let mut length = BYTES as libc::socklen_t;
    // SAFETY: the descriptor is open while borrowed; the kernel writes at most `length` bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_kernel_tells_what_went_over_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut theirs, _) = listener.accept().unwrap();
        ours.write_all(&[7; 100_000]).unwrap();
        let mut buffer = vec![0; 100_000];
        theirs.read_exact(&mut buffer).unwrap();
        // The last acknowledgment may be in flight.
        std::thread::sleep(std::time::Duration::from_millis(100));
        let (sent, received) = (TcpInfo::of(&ours).unwrap(), TcpInfo::of(&theirs).unwrap());
        assert_eq!(received.bytes_received, 100_000);
        assert!((100_000..=100_001).contains(&sent.bytes_acked), "{sent:?}");
        assert!(sent.segment_bytes > 500 && sent.window_segments > 0, "{sent:?}");
        assert!(sent.rtt_micros < 1_000_000 && sent.send_window_bytes > 1000, "{sent:?}");
    }
}
