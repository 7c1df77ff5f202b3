//! Measuring the way to a server: round trip, and rate in both directions.

use crate::remote::Bare;
use crate::stream::Pending;
use protocol::Packet;
use repository::Result;
use serde::Serialize;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Noise is sent in packets of this size.
const PACKET_BYTES: usize = 256 << 10;
/// Noise is asked for in pieces that take about this long.
const ASKED_AHEAD: Duration = Duration::from_millis(500);
const ASKED_BYTES_MIN: u64 = 512 << 10;
const ASKED_BYTES_MAX: u64 = 256 << 20;
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
}

impl Bare {
    /// Measures for about `time` in each direction.
    pub fn net_test(&self, time: Duration) -> Result<Measured> {
        let round_trip_ms = self.round_trip()?;
        let up_bytes_per_sec = self.up(time)?;
        let down_bytes_per_sec = self.down(time)?;
        Ok(Measured { round_trip_ms, up_bytes_per_sec, down_bytes_per_sec })
    }

    fn round_trip(&self) -> Result<f64> {
        let mut times = Vec::new();
        for _ in 0..PINGS {
            let before = Instant::now();
            self.stream().call(&Packet::AskNoise { bytes: 0 })?;
            times.push(before.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        Ok(times[PINGS / 2])
    }

    fn up(&self, time: Duration) -> Result<f64> {
        let mut noise = vec![0; PACKET_BYTES];
        let _ = getrandom::fill(&mut noise);
        let frame = Packet::SendNoise { noise }.frame(0);
        let (start, mut bytes) = (Instant::now(), 0);
        while start.elapsed() < time {
            self.stream().send_record(frame.clone(), 0)?;
            bytes += frame.len();
        }
        self.stream().drain(0)?;
        Ok(bytes as f64 / start.elapsed().as_secs_f64())
    }

    fn down(&self, time: Duration) -> Result<f64> {
        let (start, mut bytes) = (Instant::now(), 0u64);
        let ask = |bytes| -> Result<(u64, Pending)> {
            Ok((bytes, self.stream().request(&Packet::AskNoise { bytes })?))
        };
        // Two requests on their way: the way is never empty between them.
        let mut on_their_way = VecDeque::from([ask(ASKED_BYTES_MIN)?, ask(ASKED_BYTES_MIN)?]);
        while let Some((asked, pending)) = on_their_way.pop_front() {
            pending.wait()?;
            bytes += asked;
            let rate = bytes as f64 / start.elapsed().as_secs_f64();
            let next = (rate * ASKED_AHEAD.as_secs_f64()) as u64;
            if start.elapsed() + ASKED_AHEAD < time {
                on_their_way.push_back(ask(next.clamp(ASKED_BYTES_MIN, ASKED_BYTES_MAX))?);
            }
        }
        Ok(bytes as f64 / start.elapsed().as_secs_f64())
    }
}
