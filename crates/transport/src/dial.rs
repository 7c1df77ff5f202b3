//! Reaching a name that has several addresses: one of them may be dead without a word (a broken IPv6, an uplink that is
//! down), so the next one is tried beside it (RFC 8305).

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

/// How long an address is tried alone. One that refuses is not waited for.
const HEAD_START: Duration = Duration::from_millis(300);

/// Looks `host` up, and connects to whichever of its addresses answers first, within `limit` for all of it.
///
/// # Errors
/// `TimedOut` after `limit`; else that of the address that failed last. If there are several, the text names them.
pub async fn reach<T, Connecting>(
    host: &str,
    port: u16,
    limit: Duration,
    connect: impl Fn(SocketAddr) -> Connecting,
) -> io::Result<T>
where
    Connecting: Future<Output = io::Result<T>>,
{
    let late = |text| io::Error::new(ErrorKind::TimedOut, text);
    let started = tokio::time::Instant::now();
    let found = tokio::time::timeout(limit, tokio::net::lookup_host((host, port))).await;
    let found = found.map_err(|_| late(format!("the name was not resolved in {limit:?}")))?;
    let addresses = in_turns(found?.collect());
    let left = limit.saturating_sub(started.elapsed());
    match tokio::time::timeout(left, first(&addresses, connect)).await {
        Ok(done) => done,
        Err(_) => Err(late(format!("no answer in {limit:?}{}", names(&addresses)))),
    }
}

/// Connects to one address after the other, and to the next one while the one before does not answer.
async fn first<T, Connecting>(
    addresses: &[SocketAddr],
    connect: impl Fn(SocketAddr) -> Connecting,
) -> io::Result<T>
where
    Connecting: Future<Output = io::Result<T>>,
{
    let (mut waiting, mut running) = (addresses.iter(), FuturesUnordered::new());
    let mut last = io::Error::new(ErrorKind::NotFound, "the name does not resolve to an address");
    loop {
        let is_last = match waiting.next() {
            Some(address) => {
                running.push(connect(*address));
                false
            }
            None => true,
        };
        let wait = if is_last { Duration::MAX } else { HEAD_START };
        match tokio::time::timeout(wait, running.next()).await {
            Ok(Some(Ok(connected))) => return Ok(connected),
            Ok(Some(Err(error))) => {
                last = io::Error::new(error.kind(), format!("{error}{}", names(addresses)));
            }
            Ok(None) => return Err(last),
            Err(_) => {}
        }
    }
}

/// Addresses of both families in turns, in the order that the system prefers.
fn in_turns(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let is_first = |address: &SocketAddr| Some(address.is_ipv6()) == is_ipv6(addresses.first());
    let (some, others): (Vec<_>, Vec<_>) = addresses.iter().partition(|address| is_first(address));
    let mut others = others.into_iter();
    let mut turns: Vec<_> =
        some.into_iter().flat_map(|one| [Some(one), others.next()]).flatten().collect();
    turns.extend(others);
    turns
}

fn is_ipv6(address: Option<&SocketAddr>) -> Option<bool> {
    address.map(SocketAddr::is_ipv6)
}

/// The addresses, if there are several: who looks for the cause must know which were tried.
fn names(addresses: &[SocketAddr]) -> String {
    if addresses.len() < 2 {
        return String::new();
    }
    let names: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
    format!(" (tried {})", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    const DEAD: &str = "[fd00::1]:1";
    const REFUSES: &str = "10.0.0.2:1";
    const ANSWERS: &str = "10.0.0.3:1";

    /// What comes of these addresses, in which order they were tried, and how long it took.
    fn tried(addresses: &[&str]) -> (io::Result<SocketAddr>, Vec<SocketAddr>, Duration) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true);
        let addresses: Vec<_> = addresses.iter().copied().map(address).collect();
        let order = Mutex::new(Vec::new());
        let connect = |to: SocketAddr| {
            order.lock().unwrap().push(to);
            async move {
                match to {
                    to if to == address(DEAD) => std::future::pending().await,
                    to if to == address(REFUSES) => Err(ErrorKind::ConnectionRefused.into()),
                    to => Ok(to),
                }
            }
        };
        let (done, took) = runtime.build().unwrap().block_on(async {
            let begun = tokio::time::Instant::now();
            let limited = tokio::time::timeout(Duration::from_secs(15), first(&addresses, connect));
            let done = limited.await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()));
            (done, begun.elapsed())
        });
        (done, order.into_inner().unwrap(), took)
    }

    #[test]
    fn a_dead_address_keeps_nobody_from_a_living_one() {
        let (done, order, took) = tried(&[DEAD, ANSWERS]);
        assert_eq!(done.unwrap(), address(ANSWERS));
        assert_eq!(order, [DEAD, ANSWERS].map(address));
        assert!(took >= HEAD_START && took < 2 * HEAD_START, "{took:?}");
    }

    #[test]
    fn one_that_answers_is_the_only_one_and_one_that_refuses_is_not_waited_for() {
        let (done, order, took) = tried(&[ANSWERS, DEAD]);
        assert_eq!((done.unwrap(), order), (address(ANSWERS), vec![address(ANSWERS)]));
        assert_eq!(took, Duration::ZERO);
        let (done, _, took) = tried(&[REFUSES, ANSWERS]);
        assert_eq!((done.unwrap(), took), (address(ANSWERS), Duration::ZERO));
    }

    #[test]
    fn when_none_answers_the_error_names_all() {
        let error = tried(&[REFUSES, REFUSES]).0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert!(error.to_string().contains(&format!("tried {REFUSES}, {REFUSES}")), "{error}");
        let error = tried(&[REFUSES]).0.unwrap_err();
        assert!(!error.to_string().contains("tried"), "{error}");
        assert_eq!(tried(&[]).0.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(tried(&[REFUSES, DEAD]).0.unwrap_err().kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn families_take_turns() {
        let order = |texts: &[&str]| in_turns(texts.iter().copied().map(address).collect());
        let six = ["[fd00::1]:1", "[fd00::2]:1", "[fd00::3]:1"];
        let four = ["10.0.0.1:1", "10.0.0.2:1"];
        assert_eq!(
            order(&[&six[..], &four].concat()),
            [six[0], four[0], six[1], four[1], six[2]].map(address)
        );
        assert_eq!(
            order(&[&four[..], &six].concat()),
            [four[0], six[0], four[1], six[1], six[2]].map(address)
        );
        assert_eq!(order(&[]), []);
    }

    #[test]
    fn a_real_listener_is_reached_by_its_name() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let limit = Duration::from_secs(10);
        let reached =
            runtime.block_on(reach("localhost", port, limit, tokio::net::TcpStream::connect));
        assert_eq!(reached.unwrap().peer_addr().unwrap().port(), port);
    }
}
