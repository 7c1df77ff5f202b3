//! The network part of a report: amounts, waits, and whether the network was the bottleneck.

use crate::units::{bytes, count, rate};
use remote::metrics::NetworkReport;

/// Parts of the busy time from which on something is the cause.
const PART_MIN: f64 = 0.25;
/// Waits for room of less than this part of the job are nothing.
const WAIT_PART_MIN: f64 = 0.15;
/// A buffer is small when it is less than this times what the path holds.
const PATH_PART: f64 = 1.5;
/// Part of retransmitted segments from which on a path is lossy.
const LOSS_MIN: f64 = 0.002;

/// Less data than this says nothing about a bottleneck.
const MOVED_MIN: u64 = 1 << 20;
/// Nor does a shorter time.
const MEASURED_SECS_MIN: f64 = 0.5;
/// Part of a limit from which on the limit is the bottleneck: some time goes by without data.
const LIMIT_PART: f64 = 0.7;
/// Bytes of a segment, roughly.
const SEGMENT_BYTES: f64 = 1400.0;
/// So few retransmitted segments are chance, not loss.
const RETRANSMITTED_MIN: u32 = 10;

/// The lines of the report.
pub(crate) fn lines(wire: &NetworkReport, elapsed_secs: f64) -> Vec<String> {
    let mut lines = vec![
        format!(
            "Network: {} sent, {} received, {} streams, round trip {:.1} ms (minimum {:.1}), {} retransmitted segments, {} disconnects, {} sent twice",
            bytes(wire.sent_bytes),
            bytes(wire.received_bytes),
            count(wire.streams),
            wire.rtt_ms,
            wire.min_rtt_ms,
            count(wire.retransmitted.into()),
            count(wire.disconnects),
            bytes(wire.resent_bytes),
        ),
        format!(
            "         waited for data to send {} times, {:.2} s; for room to send {} times, {:.2} s; socket buffers {}",
            count(wire.full_waits),
            wire.full_wait_secs,
            count(wire.empty_waits),
            wire.empty_wait_secs,
            buffers(wire),
        ),
    ];
    let verdict = verdict(wire, elapsed_secs);
    lines.extend(verdict.map(|verdict| format!("Network bottleneck: {verdict}")));
    lines
}

/// Sizes of the socket's buffers.
pub(crate) fn buffers(wire: &NetworkReport) -> String {
    let granted = format!(
        "{} to send, {} to receive",
        bytes(wire.send_buffer_bytes),
        bytes(wire.receive_buffer_bytes)
    );
    match wire.buffer_asked_bytes {
        0 => format!("chosen by the system (initially {granted})"),
        asked => format!("requested {}, granted {granted}", bytes(asked)),
    }
}

/// The bottleneck in the network and what to do, in one line; nothing when too little was sent to say.
pub(crate) fn verdict(wire: &NetworkReport, elapsed_secs: f64) -> Option<String> {
    let moved = wire.sent_bytes.max(wire.received_bytes);
    let is_measured = moved >= MOVED_MIN && elapsed_secs >= MEASURED_SECS_MIN;
    is_measured.then(|| cause(wire, moved as f64 / elapsed_secs, elapsed_secs))
}

/// The same for a summary, where nothing is said of a network that was fast enough.
pub(crate) fn bottleneck(wire: &NetworkReport, elapsed_secs: f64) -> Option<String> {
    verdict(wire, elapsed_secs).filter(|verdict| verdict != FAST_ENOUGH)
}

/// What is said of a network that held up nothing.
const FAST_ENOUGH: &str = "none: the network was faster than the data that was there to send";

/// A limit that was nearly reached, and its direction.
fn limit_reached(wire: &NetworkReport, per_sec: f64) -> Option<String> {
    let (limit, direction) = if wire.received_bytes < wire.sent_bytes {
        (wire.limit_up_bytes_per_sec, "up")
    } else {
        (wire.limit_down_bytes_per_sec, "down")
    };
    (limit > 0 && per_sec > limit as f64 * LIMIT_PART).then(|| {
        format!(
            "the server's limit of {} {direction}; to see it, on the server: icecore server limit list",
            rate(limit as f64)
        )
    })
}

fn cause(wire: &NetworkReport, per_sec: f64, elapsed_secs: f64) -> String {
    if let Some(limit) = limit_reached(wire, per_sec) {
        return limit;
    }
    let path = wire.min_rtt_ms / 1e3 * per_sec;
    let part = |secs: f64| if wire.busy_secs > 0.0 { secs / wire.busy_secs } else { 0.0 };
    let buffer = wire.send_buffer_bytes.min(wire.receive_buffer_bytes) as f64;
    if wire.buffer_asked_bytes > 0 && wire.min_rtt_ms > 1.0 && path * PATH_PART > buffer / 2.0 {
        return format!(
            "the requested socket buffer of {}: it allows {} at a round trip of {:.0} ms. Leave out --socket-buffer on both sides, and the system chooses a size that fits",
            bytes(wire.buffer_asked_bytes),
            rate(buffer / (wire.min_rtt_ms / 1e3).max(1e-6)),
            wire.min_rtt_ms,
        );
    }
    if wire.empty_wait_secs < elapsed_secs * WAIT_PART_MIN && wire.received_bytes < wire.sent_bytes
    {
        return FAST_ENOUGH.to_owned();
    }
    if part(wire.receiver_limited_secs) > PART_MIN {
        return format!(
            "the receive window of the server ({:.0} % of the time): the server cannot keep up, or its tcp_rmem is small. Check its disk and processor, or raise net.ipv4.tcp_rmem there",
            100.0 * part(wire.receiver_limited_secs)
        );
    }
    if part(wire.send_buffer_limited_secs) > PART_MIN {
        return format!(
            "the send buffer of this machine ({:.0} % of the time): raise net.ipv4.tcp_wmem",
            100.0 * part(wire.send_buffer_limited_secs)
        );
    }
    let segments = wire.sent_bytes as f64 / SEGMENT_BYTES;
    let is_lossy = f64::from(wire.retransmitted) > segments * LOSS_MIN;
    if wire.retransmitted >= RETRANSMITTED_MIN && is_lossy {
        return format!(
            "packet loss: {:.1} % of the segments were retransmitted. More --streams help, or another congestion control (bbr)",
            100.0 * f64::from(wire.retransmitted) / segments.max(1.0)
        );
    }
    format!("the link, at {}: a higher --compression makes better use of it", rate(per_sec))
}

/// Limits that the server set.
pub(crate) fn limits(up: u64, down: u64, reason: &str) -> String {
    let shown = |limit: u64| match limit {
        0 => "no limit".to_owned(),
        limit => rate(limit as f64),
    };
    format!("bandwidth limits set by the server: {} up, {} down ({reason})", shown(up), shown(down))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire() -> NetworkReport {
        NetworkReport {
            sent_bytes: 100_000_000,
            min_rtt_ms: 28.0,
            rtt_ms: 28.0,
            busy_secs: 40.0,
            empty_wait_secs: 30.0,
            send_buffer_bytes: 4 << 20,
            receive_buffer_bytes: 4 << 20,
            ..NetworkReport::default()
        }
    }

    #[test]
    fn of_what_was_not_measured_nothing_is_said() {
        let few = NetworkReport { sent_bytes: 1024, retransmitted: 1, ..wire() };
        assert_eq!(verdict(&few, 40.0), None);
        assert_eq!(verdict(&wire(), 0.1), None);
        assert!(lines(&few, 40.0).iter().all(|line| !line.contains("Network bottleneck")));
        let once = NetworkReport { sent_bytes: 2 << 20, retransmitted: 9, ..wire() };
        assert!(!verdict(&once, 40.0).unwrap().contains("loss"));
    }

    #[test]
    fn a_forced_buffer_that_is_too_small_is_named_with_the_way_out() {
        let (asked, granted) = (64 << 10, 128 << 10);
        let small = NetworkReport {
            buffer_asked_bytes: asked,
            send_buffer_bytes: granted,
            receive_buffer_bytes: granted,
            ..wire()
        };
        let said = verdict(&small, 40.0).unwrap();
        assert!(said.contains("64") && said.contains("--socket-buffer"), "{said}");
    }

    #[test]
    fn each_cause_has_its_line() {
        let table = [
            (NetworkReport { receiver_limited_secs: 20.0, ..wire() }, "receive window"),
            (NetworkReport { send_buffer_limited_secs: 20.0, ..wire() }, "send buffer"),
            (NetworkReport { retransmitted: 1000, ..wire() }, "loss"),
            (NetworkReport { empty_wait_secs: 0.1, ..wire() }, "none: the network was faster"),
            (wire(), "the link"),
            // What a limit of the server does looks like loss and like a slow link.
            (
                NetworkReport { retransmitted: 5000, limit_up_bytes_per_sec: 2_600_000, ..wire() },
                "the server's limit of 2.48 MiB/s up",
            ),
            (NetworkReport { limit_up_bytes_per_sec: 260_000_000, ..wire() }, "the link"),
            (NetworkReport { limit_down_bytes_per_sec: 1, ..wire() }, "the link"),
        ];
        for (report, expected) in table {
            let said = verdict(&report, 40.0).unwrap();
            assert!(said.contains(expected), "{expected}: {said}");
        }
    }
}
