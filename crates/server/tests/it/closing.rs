//! Who is refused hears why, though it has sent more than the server read.

use crate::hostile::raw::{Raw, hello, open};
use crate::hostile::server::{Machine, Whole};
use api::enroll::Role;
use api::status::Done;
use protocol::Packet;
use protocol::fault::Code;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;

/// How often each is tried.
const TIMES: usize = 25;
/// Frames behind the first ones.
const MORE: usize = 8;

/// Sends `first` in one go and then more, one by one: whose connection is reset cannot send.
async fn sends_on(machine: &Machine, first: &[Packet]) -> Raw {
    let mut raw = Raw::connect(machine).await;
    let bytes: Vec<u8> = first.iter().flat_map(|packet| packet.frame(0)).collect();
    raw.stream.write_all(&bytes).await.unwrap();
    for number in 0..MORE {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let sent = async {
            raw.stream.write_all(&Packet::Ping {}.frame(number as u32)).await?;
            raw.stream.flush().await
        };
        sent.await.unwrap_or_else(|error| panic!("frame {number} finds no end: {error}"));
    }
    raw
}

/// The first thing that it hears.
async fn hears(raw: &mut Raw) -> Code {
    match raw.next().await {
        Some(Packet::Fault { code, .. }) => Code::from_number(code),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_let_in_hears_it() {
    let server = Whole::start().await;
    let web = server.node("web", "web", Role::Full).await;
    let _: Done = server.admin().post("/nodes/web/revoke", &()).await.unwrap();
    for _ in 0..TIMES {
        let mut raw = sends_on(&web, &[hello(), open("")]).await;
        assert_eq!(hears(&mut raw).await, Code::NotAllowed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whose_version_nobody_speaks_hears_it() {
    let server = Whole::start().await;
    let web = server.node("web", "web", Role::Full).await;
    let odd = Packet::Hello { oldest: 999, newest: 1_000, program: "of the future".into() };
    for _ in 0..TIMES {
        let mut raw = sends_on(&web, &[odd.clone(), open("")]).await;
        assert_eq!(hears(&mut raw).await, Code::Version);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_goes_on_sending_for_ever_is_left_all_the_same() {
    let server = Whole::start().await;
    let web = server.node("web", "web", Role::Full).await;
    let _: Done = server.admin().post("/nodes/web/revoke", &()).await.unwrap();
    let mut flood = Raw::connect(&web).await;
    let (start, piece) = (Instant::now(), vec![0; 16 << 10]);
    let mut sent = 0;
    while flood.stream.write_all(&piece).await.is_ok() {
        sent += piece.len();
        assert!(sent < 64 << 20, "it is listened to without end");
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    // Who says nothing and stays is not waited for, either.
    let (mut silent, start) = (Raw::connect(&web).await, Instant::now());
    assert_eq!(hears(&mut silent).await, Code::NotAllowed);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut is_cut = false;
    while !is_cut && start.elapsed() < Duration::from_secs(60) {
        is_cut = silent.stream.write_all(&[0]).await.is_err();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(is_cut, "the server keeps it");
}
