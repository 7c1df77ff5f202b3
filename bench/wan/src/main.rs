//! A slow, long or lossy network on one machine: two network namespaces, and between them this
//! program, which carries every IP packet and makes it wait, queue or vanish as a link would.
//!
//! ```text
//! wan --rate 155Mbit --rtt 28ms                    until stdin ends or SIGTERM
//! wan --rate 155Mbit --rtt 28ms -- COMMAND ...     as long as the command runs
//! ```
//! It prints one line of JSON with the names and addresses of both ends when they are ready, and
//! one with what was carried at the end; a line on stdin asks for the latter at any time.

mod carry;
mod line;
mod link;
mod namespaces;
mod session;
mod tun;
mod units;

use carry::{Carrier, Counters};
use clap::Parser;
use link::Shape;
use namespaces::End;
use serde_json::{Value, json};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Carries IP packets between two network namespaces as a slow, long or lossy link would.
#[derive(Parser)]
struct Options {
    /// Bits per second of each direction, like 155Mbit; without it as fast as it can.
    #[arg(long, value_parser = units::rate)]
    rate: Option<u64>,
    /// Time there and back, half of it each way.
    #[arg(long, value_parser = units::span, default_value = "0ms")]
    rtt: Duration,
    /// Share of the packets of each direction that get lost, like 1%.
    #[arg(long, value_parser = units::share, default_value = "0")]
    loss: f64,
    /// What may wait for the wire, like 256KiB or 100ms; default: what is under way in one
    /// round trip, and 64 KiB at least.
    #[arg(long, value_parser = units::queue)]
    queue: Option<units::Queue>,
    /// Each packet takes up to this much longer.
    #[arg(long, value_parser = units::span, default_value = "0ms")]
    jitter: Duration,
    /// Longest packet.
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(576..=65535))]
    mtu: u32,
    /// Of the random numbers: the same seed loses the same packets.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs with WAN_NEAR, WAN_FAR (namespaces), WAN_NEAR_IP and WAN_FAR_IP set.
    #[arg(last = true)]
    command: Vec<String>,
}

impl Options {
    fn shape(&self) -> Shape {
        /// Some forty packets: less drops bursts that every link takes.
        const QUEUE_MIN: u64 = 64 * 1024;
        let sent_in = |span: Duration| self.rate.unwrap_or(0) as f64 * span.as_secs_f64() / 8.0;
        let queue_bytes = match self.queue {
            Some(units::Queue::Bytes(bytes)) => bytes,
            Some(units::Queue::Time(span)) => sent_in(span) as u64,
            None => (sent_in(self.rtt) as u64).max(QUEUE_MIN),
        };
        Shape {
            rate_bits: self.rate,
            delay: self.rtt / 2,
            queue_bytes,
            loss: self.loss,
            jitter: self.jitter,
        }
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("wan: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> std::io::Result<ExitCode> {
    // Before there are threads: they inherit which signals wait to be read.
    let signals = session::hold_signals()?;
    let ends = namespaces::make(options.mtu)?;
    let counters = [Counters::default(), Counters::default()];
    let stop = AtomicBool::new(false);
    let report = || say(&carried(&counters, &ends));
    std::thread::scope(|scope| {
        let started = (0..2).try_for_each(|way| {
            let between = (ends[way].packets.as_fd(), ends[1 - way].packets.as_fd());
            let seed = options.seed.wrapping_mul(2).wrapping_add(way as u64);
            let carrier = Carrier::new(between, (options.shape(), seed), &counters[way]);
            let thread = std::thread::Builder::new().name(format!("from-{}", ends[way].role));
            thread.spawn_scoped(scope, || carrier.run(&stop)).map(drop)
        });
        let code = started.and_then(|()| {
            say(&ready(options, &ends));
            session::last(&signals, &options.command, &ends, &report)
        });
        // Whatever happened: the scope ends when both carriers have.
        stop.store(true, Ordering::Relaxed);
        report();
        code
    })
}

fn ready(options: &Options, ends: &[End; 2]) -> Value {
    let shape = options.shape();
    let end =
        |end: &End| json!({"namespace": end.name, "address": end.address, "device": end.device});
    json!({
        "event": "ready", "near": end(&ends[0]), "far": end(&ends[1]),
        "rate_bits": shape.rate_bits, "one_way_us": shape.delay.as_micros() as u64,
        "queue_bytes": shape.queue_bytes, "loss": shape.loss,
        "jitter_us": shape.jitter.as_micros() as u64, "mtu": options.mtu, "seed": options.seed,
    })
}

fn carried(counters: &[Counters; 2], ends: &[End; 2]) -> Value {
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let way = |number: usize| {
        let counters = &counters[number];
        json!({
            "packets": of(&counters.packets), "bytes": of(&counters.bytes),
            "dropped": of(&counters.dropped), "lost": of(&counters.lost),
            "refused": of(&counters.refused), "missed": ends[number].dropped_by_device(),
        })
    };
    json!({"event": "carried", "near_to_far": way(0), "far_to_near": way(1)})
}

/// Who drives this waits for whole lines.
fn say(line: &Value) {
    let mut out = std::io::stdout().lock();
    // Nobody listens any more: nothing to say, and the namespaces still have to go.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
