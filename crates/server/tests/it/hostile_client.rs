//! Somebody has stolen the certificate and the keys of a node that may only write, and speaks to a
//! real server packet by packet. What was stored before stays unread and unchanged, other domains
//! are not even seen, and honest machines are served meanwhile.

use crate::hostile::raw::{
    Forged, NOBODYS, Raw, append, begin, hello, open, record, sealer, stolen_keys,
};
use crate::hostile::server::{Machine, Whole};
use api::enroll::Role;
use api::status::Done;
use format::limits::RECORD_BYTES_MAX;
use ids::{ContainerNo, KeyId, ObjectId, RecordLocation, SnapshotId};
use protocol::Packet;
use protocol::fault::Code;
use protocol::frame::Header;
use protocol::limits::{IDS_MAX, STREAMS_MAX};
use protocol::packet::{PathBytes, RULES, SnapshotName};
use repository::snapshots::SnapshotRef;
use std::time::Duration;

const SECRET: &[u8] = b"what nobody else may read";

/// A server with a domain `vault`: a machine that was robbed, one that may read, and what they stored.
struct Scene {
    server: Whole,
    robbed: Machine,
    owner: Machine,
    first: SnapshotRef,
}

impl Scene {
    async fn set() -> Self {
        let server = Whole::start().await;
        let owner = server.node("owner", "vault", Role::Full).await;
        let robbed = server.node("robbed", "vault", Role::WriteOnly).await;
        robbed.write("secret", SECRET);
        let first = robbed.backup().await;
        Self { server, robbed, owner, first }
    }

    /// What was there is there, and machines are served.
    async fn stands(&self) {
        assert_eq!(self.owner.restored(self.first, "secret").await, SECRET);
        self.owner.write("own", b"of the owner");
        let name = self.owner.backup().await;
        assert_eq!(self.owner.restored(name, "own").await, b"of the owner");
    }

    fn repository_id(&self) -> [u8; 16] {
        let text = self.robbed.identity.agent.repository.clone().unwrap();
        data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap().try_into().unwrap()
    }

    fn first(&self) -> SnapshotName {
        SnapshotName { sequence: self.first.sequence, id: self.first.id }
    }
}

fn everything_that_reads(name: SnapshotName) -> Vec<Packet> {
    let location = RecordLocation { container: ContainerNo(1), offset: 64, length: 1024 };
    let id = ObjectId([1; 24]);
    vec![
        Packet::ListSnapshots { after: 0 },
        Packet::GetSnapshot { name },
        Packet::Locate { ids: vec![id] },
        Packet::Read { location },
        Packet::Fetch { id },
        Packet::GetKeys { container: ContainerNo(1), healed: false },
        Packet::GetKeys { container: ContainerNo(1), healed: true },
        Packet::Heal { location },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_only_write_reads_nothing_within_a_session_or_without() {
    let scene = Scene::set().await;
    let mut raw = Raw::opened(&scene.robbed).await;
    let (_, ring) = stolen_keys(&scene.robbed, &mut raw).await;
    assert!(ring.reader.is_none(), "the key that was stolen reads nothing by itself");
    for packet in everything_that_reads(scene.first()) {
        raw.is_refused(&packet, Code::NotAllowed).await;
    }
    raw.begin(&sealer(&ring)).await;
    for packet in everything_that_reads(scene.first()) {
        raw.is_refused(&packet, Code::NotAllowed).await;
    }
    let Packet::SlotList { slots, .. } = raw.ask(&Packet::ListSlots { after: None }).await else {
        panic!()
    };
    assert_eq!(slots.len(), 1, "of the key slots only its own");
    scene.stands().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_manifest_but_an_own_new_one_is_published() {
    let scene = Scene::set().await;
    let mut raw = Raw::opened(&scene.robbed).await;
    let (own, ring) = stolen_keys(&scene.robbed, &mut raw).await;
    let mut owners = Raw::opened(&scene.owner).await;
    let (other, other_ring) = stolen_keys(&scene.owner, &mut owners).await;
    let before = scene.server.snapshots("vault");
    let sealer = sealer(&ring);
    raw.begin(&sealer).await;
    let repository = scene.repository_id();
    let root = scene.server.newest_head("vault").root;
    let forged = |ring, writer, sequence| {
        Forged { root, sealer: &sealer, ring, repository, writer, sequence, source: NOBODYS }
            .commit()
    };
    raw.is_refused(&forged(&ring, own, 0), Code::NotAllowed).await;
    let number = raw.number().await;
    assert_eq!(raw.number().await, number, "one session has one number");
    for sequence in [0, 1, number - 1, number + 1, u64::MAX] {
        raw.is_refused(&forged(&ring, own, sequence), Code::NotAllowed).await;
    }
    raw.is_refused(&forged(&ring, other, number), Code::NotAllowed).await;
    raw.is_refused(&forged(&ring, KeyId([0; 8]), number), Code::NotAllowed).await;
    raw.is_refused(&forged(&other_ring, own, number), Code::NotAllowed).await;
    // Of another repository.
    let elsewhere = Forged {
        root,
        sealer: &sealer,
        ring: &ring,
        repository: [1; 16],
        writer: own,
        sequence: number,
        source: NOBODYS,
    };
    raw.is_refused(&elsewhere.commit(), Code::NotAllowed).await;
    for (_, file) in &before {
        raw.is_refused(&replayed(file), Code::NotAllowed).await;
    }
    for garbage in [vec![], vec![0; 100], sealer.session_record().to_bytes()] {
        raw.is_refused(&Packet::Commit { manifest: garbage }, Code::Damaged).await;
    }
    assert_eq!(scene.server.snapshots("vault"), before);
    drop(raw);
    scene.stands().await;
}

/// Seen: it was acknowledged, and the file counted as damaged: no reclaim of the domain ended well any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_is_refused_whose_snapshot_file_nobody_would_read() {
    let scene = Scene::set().await;
    let mut raw = Raw::opened(&scene.robbed).await;
    let (writer, ring) = stolen_keys(&scene.robbed, &mut raw).await;
    let before = scene.server.snapshots("vault");
    let (sealer, repository) = (sealer(&ring), scene.repository_id());
    raw.begin(&sealer).await;
    let (sequence, root) = (raw.number().await, scene.server.newest_head("vault").root);
    let forged = Forged {
        root,
        sealer: &sealer,
        ring: &ring,
        repository,
        writer,
        sequence,
        source: NOBODYS,
    };
    let Packet::Commit { manifest } = forged.commit() else { panic!() };
    for sealed in [2_090_000, format::limits::MANIFEST_SEALED_MAX + 1] {
        raw.is_refused(&Packet::Commit { manifest: swollen(&manifest, sealed) }, Code::Damaged)
            .await;
    }
    assert_eq!(scene.server.snapshots("vault"), before);
    // The largest that is taken is read.
    let most = swollen(&manifest, format::limits::MANIFEST_SEALED_MAX);
    let answer = raw.ask(&Packet::Commit { manifest: most }).await;
    assert!(matches!(answer, Packet::Committed { .. }), "{answer:?}");
    assert_eq!(scene.server.newest_head("vault").sequence, sequence);
    scene.stands().await;
}

/// The record of a manifest with a sealed part of so many bytes, which its signature does not cover.
fn swollen(manifest: &[u8], sealed_bytes: usize) -> Vec<u8> {
    /// Where the header has the length of the sealed part.
    const AT: std::ops::Range<usize> = 44..48;
    let record = format::record::verify(manifest).unwrap();
    let mut swollen = format::record::SealedRecord {
        kind: record.header.kind,
        ids: Vec::new(),
        associated: record.associated.to_vec(),
        sealed: vec![0; sealed_bytes],
    };
    swollen.associated[AT].copy_from_slice(&(sealed_bytes as u32).to_le_bytes());
    swollen.to_bytes()
}

/// The manifest that lies behind the session record of a snapshot's file; behind it lies a receipt.
fn replayed(file: &[u8]) -> Packet {
    let length = |bytes| format::record::split(bytes).unwrap().header.record_bytes();
    let manifest = &file[length(file)..];
    Packet::Commit { manifest: manifest[..length(manifest)].to_vec() }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_repository_is_not_made_again_and_settings_stay() {
    let scene = Scene::set().await;
    let mut raw = Raw::opened(&scene.robbed).await;
    let Packet::Opened { config, .. } = raw_config(&scene).await else { panic!() };
    let init = Packet::Init { config, slots: Vec::new(), key_list: Vec::new() };
    raw.is_refused(&init, Code::NotAllowed).await;
    // And nothing is open after that.
    raw.is_refused(&begin_of(&scene).await, Code::NoRepository).await;
    scene.stands().await;
}

async fn raw_config(scene: &Scene) -> Packet {
    Raw::greeted(&scene.robbed).await.ask(&open("")).await
}

async fn begin_of(scene: &Scene) -> Packet {
    let mut raw = Raw::opened(&scene.robbed).await;
    let (_, ring) = stolen_keys(&scene.robbed, &mut raw).await;
    begin(&sealer(&ring))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_there_is_not_replaced() {
    let scene = Scene::set().await;
    let mut raw = Raw::opened(&scene.robbed).await;
    let (own, ring) = stolen_keys(&scene.robbed, &mut raw).await;
    let sealer = sealer(&ring);
    raw.begin(&sealer).await;
    // AdmittedNodes to the thief: it has the keys that name chunks, and guesses the content.
    let id = ring.writer.ids.chunk_id(SECRET);
    let spoiled = record(&sealer, id, b"something else");
    assert!(matches!(raw.ask(&append(&spoiled)).await, Packet::Stored { applied: 1, .. }));
    let sequence = raw.number().await;
    let repository = scene.repository_id();
    let (sealer, ring, writer, source) = (&sealer, &ring, own, NOBODYS);
    let root = scene.server.newest_head("vault").root;
    let forged = Forged { root, sealer, ring, repository, writer, sequence, source };
    let answer = raw.ask(&forged.commit()).await;
    assert!(matches!(answer, Packet::Committed { .. }), "{answer:?}");
    scene.stands().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_other_sessions_or_of_other_kinds_are_refused() {
    let scene = Scene::set().await;
    let mut raw = Raw::opened(&scene.robbed).await;
    let (_, ring) = stolen_keys(&scene.robbed, &mut raw).await;
    let (mine, other) = (sealer(&ring), sealer(&ring));
    raw.begin(&mine).await;
    let id = ObjectId([3; 24]);
    raw.is_refused(&append(&record(&other, id, b"x")), Code::Damaged).await;
    raw.is_refused(&append(&mine.session_record()), Code::Damaged).await;
    let whole = record(&mine, id, b"x").to_bytes();
    let cut = Packet::Append { record: whole[..whole.len() - 1].to_vec() };
    raw.is_refused(&cut, Code::Damaged).await;
    let longer = Packet::Append { record: [&whole[..], &[0]].concat() };
    raw.is_refused(&longer, Code::Damaged).await;
    raw.is_refused(&Packet::Append { record: vec![] }, Code::Damaged).await;
    for at in (0..whole.len()).step_by(7) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        raw.is_refused(&Packet::Append { record: flipped }, Code::Damaged).await;
    }
    // Acknowledgments count records from the first on: after one that was refused, none is taken.
    raw.is_refused(&Packet::Append { record: whole }, Code::Damaged).await;
    drop(raw);
    scene.stands().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_promised_and_not_stored_is_not_committed() {
    let scene = Scene::set().await;
    let before = scene.server.snapshots("vault");
    let mut raw = Raw::opened(&scene.robbed).await;
    let (own, ring) = stolen_keys(&scene.robbed, &mut raw).await;
    let sealer = sealer(&ring);
    raw.begin(&sealer).await;
    let ids = vec![ObjectId([4; 24]), ObjectId([5; 24])];
    let answers = raw.ask(&Packet::Claim { ids }).await;
    assert!(matches!(answers, Packet::Flags { count: 2, ref bits } if bits == &[3]));
    let sequence = raw.number().await;
    let repository = scene.repository_id();
    let (sealer, ring, writer, source) = (&sealer, &ring, own, NOBODYS);
    let root = scene.server.newest_head("vault").root;
    let forged = Forged { root, sealer, ring, repository, writer, sequence, source };
    raw.is_refused(&forged.commit(), Code::Failed).await;
    raw.is_refused(&forged.commit(), Code::NoSession).await;
    assert_eq!(scene.server.snapshots("vault"), before);
    scene.stands().await;
}

/// The first answer may have been lost on the way, and it was a promise.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_asked_again_is_answered_as_it_was() {
    let scene = Scene::set().await;
    let mut raw = Raw::opened(&scene.robbed).await;
    let (_, ring) = stolen_keys(&scene.robbed, &mut raw).await;
    let (session, secret) = raw.begin(&sealer(&ring)).await;
    let claim = Packet::Claim { ids: vec![ObjectId([4; 24]), ObjectId([5; 24])] }.frame(77);
    raw.send_bytes(&claim).await;
    let first = raw.next().await.unwrap();
    assert!(matches!(first, Packet::Flags { count: 2, ref bits } if bits == &[3]));
    drop(raw);
    let mut raw = attached(&scene.robbed, session, secret, 0).await;
    let told = raw.next_of_all().await;
    assert!(matches!(told, Some(Packet::Limits { up: 0, down: 0, .. })), "as after opening");
    raw.send_bytes(&claim).await;
    assert_eq!(raw.next().await.unwrap(), first, "the same question, cut off in between");
    let other = raw.ask(&Packet::Claim { ids: vec![ObjectId([5; 24])] }).await;
    assert!(matches!(other, Packet::Flags { count: 1, ref bits } if bits == &[0]));
    scene.stands().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_domain_is_neither_touched_nor_probed() {
    let scene = Scene::set().await;
    let stranger = scene.server.node("stranger", "elsewhere", Role::Full).await;
    stranger.write("own", b"of the stranger");
    let kept = stranger.backup().await;
    let mut theirs = Raw::opened(&stranger).await;
    let (_, ring) = stolen_keys(&stranger, &mut theirs).await;
    let (session, secret) = theirs.begin(&sealer(&ring)).await;

    let mut raw = Raw::greeted(&scene.robbed).await;
    let there = raw.is_refused(&open("elsewhere"), Code::NotAllowed).await;
    let not_there = raw.is_refused(&open("nowhere"), Code::NotAllowed).await;
    assert_eq!(there.replace("elsewhere", "nowhere"), not_there, "whether it exists is not told");
    for name in ["../elsewhere", "/etc", "vault/../elsewhere", "a\u{2024}b", "."] {
        let answer = raw.ask(&open(name)).await;
        assert!(matches!(answer, Packet::Fault { .. }), "{name}: {answer:?}");
    }
    let attach = |session, secret, stream| Packet::Attach { session, secret, stream };
    let guessed = raw.is_refused(&attach([0; 16], [0; 16], 0), Code::NoSession).await;
    for (session, secret) in [(session, secret), (session, [0; 16])] {
        let said = raw.is_refused(&attach(session, secret, 1), Code::NoSession).await;
        assert_eq!(said, guessed, "whether it exists is not told");
    }
    assert!(matches!(theirs.ask(&Packet::Ping {}).await, Packet::Pong {}));
    assert!(theirs.number().await > 0, "the session of the other goes on");
    assert_eq!(stranger.restored(kept, "own").await, b"of the stranger");
    scene.stands().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_out_of_order_ends_the_connection() {
    let scene = Scene::set().await;
    for rule in RULES {
        // 1: Hello; 2 and 14: what follows; 22 to 25: at any time.
        for (said, allowed) in [(false, vec![1]), (true, vec![2, 14, 22, 23, 24, 25])] {
            if allowed.contains(&rule.kind) {
                continue;
            }
            let mut raw = match said {
                true => Raw::greeted(&scene.robbed).await,
                false => Raw::connect(&scene.robbed).await,
            };
            let header = Header { kind: rule.kind, request: 1, body_bytes: 0 };
            raw.send_bytes(&header.encode()).await;
            assert_eq!(raw.is_left().await, Some(Code::Protocol), "{}", rule.name);
        }
    }
    scene.stands().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_are_none_end_the_connection() {
    let scene = Scene::set().await;
    let header = |kind, body_bytes| Header { kind, request: 1, body_bytes }.encode().to_vec();
    let mut reserved = header(24, 0);
    reserved[2] = 1;
    let mut frames = vec![reserved, vec![0xff; 64], b"GET / HTTP/1.1\r\n\r\n".to_vec()];
    frames.extend([0, 99, 127, 128, 200].map(|kind| header(kind, 0)));
    frames.extend(RULES.iter().map(|rule| header(rule.kind, rule.limit + 1)));
    frames.extend(RULES.iter().map(|rule| header(rule.kind, u32::MAX as usize)));
    for frame in frames {
        let mut raw = Raw::opened(&scene.robbed).await;
        raw.send_bytes(&frame).await;
        assert_eq!(raw.is_left().await, Some(Code::Protocol), "{:?}", &frame[..12]);
    }
    scene.stands().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_make_no_sense_are_refused_and_cost_only_their_sender() {
    let scene = Scene::set().await;
    let mut state = 1u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8
    };
    for rule in RULES.iter().filter(|rule| rule.kind < 128 && rule.kind != 25) {
        for length in [1, 2, 7, 40, 300] {
            let mut raw = Raw::opened(&scene.robbed).await;
            let mut frame =
                Header { kind: rule.kind, request: 9, body_bytes: length }.encode().to_vec();
            frame.extend(std::iter::repeat_with(&mut noise).take(length));
            raw.send_bytes(&frame).await;
            raw.send_bytes(&Packet::Bye {}.frame(10)).await;
            raw.is_left().await;
        }
    }
    scene.stands().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_frames_and_silence_keep_nobody_waiting() {
    let scene = Scene::set().await;
    let mut silent = Vec::new();
    for bytes in [0, 1, 11] {
        let mut raw = Raw::opened(&scene.robbed).await;
        raw.send_bytes(&Header { kind: 24, request: 1, body_bytes: 0 }.encode()[..bytes]).await;
        silent.push(raw);
    }
    // Memory for bodies is shared: who announces many and sends none may not have all of it.
    let (_, ring) = stolen_keys(&scene.robbed, &mut silent[0]).await;
    let mut raw = Raw::opened(&scene.robbed).await;
    let (session, secret) = raw.begin(&sealer(&ring)).await;
    silent.push(raw);
    for stream in 0..STREAMS_MAX {
        let mut raw = attached(&scene.robbed, session, secret, stream).await;
        let body_bytes = RECORD_BYTES_MAX;
        raw.send_bytes(&Header { kind: 17, request: 0, body_bytes }.encode()).await;
        raw.send_bytes(&[0; 100]).await;
        silent.push(raw);
    }
    let mut noise = vec![0; 3 << 20];
    getrandom::fill(&mut noise).unwrap();
    scene.owner.write("large", &noise);
    let served = tokio::time::timeout(Duration::from_secs(60), scene.stands()).await;
    assert!(served.is_ok(), "an honest machine waits for one that sends nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn hellos_that_never_end_keep_nobody_waiting_at_the_same_address() {
    let scene = Scene::set().await;
    let at = &scene.robbed.identity.server;
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut stream = tokio::net::TcpStream::connect((at.host.as_str(), at.port)).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, &[22, 3, 1, 2, 0, 1, 0]).await.unwrap();
        slow.push(stream);
    }
    let served = tokio::time::timeout(Duration::from_secs(60), scene.stands()).await;
    assert!(served.is_ok(), "an honest machine waits for those that do not finish their hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn promises_of_one_session_are_bounded() {
    let scene = Scene::set().await;
    let mut raw = Raw::opened(&scene.robbed).await;
    let (_, ring) = stolen_keys(&scene.robbed, &mut raw).await;
    raw.begin(&sealer(&ring)).await;
    let mut number = 0u64;
    let mut ids = || {
        let next = || {
            number += 1;
            let mut id = ObjectId([0; 24]);
            id.0[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
            id
        };
        std::iter::repeat_with(next).take(IDS_MAX).collect::<Vec<_>>()
    };
    for _ in 0..1024 {
        match raw.ask(&Packet::Claim { ids: ids() }).await {
            Packet::Flags { .. } => {}
            Packet::Fault { code, .. } => {
                assert_eq!(Code::from_number(code), Code::NotAllowed);
                return scene.stands().await;
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("16 million promises, and no end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_taken_over_is_dead_for_who_had_it() {
    let scene = Scene::set().await;
    let mut raw = Raw::opened(&scene.robbed).await;
    let (_, ring) = stolen_keys(&scene.robbed, &mut raw).await;
    let sealer = sealer(&ring);
    let (session, secret) = raw.begin(&sealer).await;
    let mut held = vec![raw];
    for stream in 1..STREAMS_MAX {
        held.push(attached(&scene.robbed, session, secret, stream).await);
    }
    let mut taken = Vec::new();
    for stream in 0..STREAMS_MAX {
        taken.push(attached(&scene.robbed, session, secret, stream).await);
    }
    for raw in &mut held {
        let late = record(&sealer, ObjectId([6; 24]), b"late");
        raw.is_refused(&append(&late), Code::NoSession).await;
        raw.is_refused(&Packet::Claim { ids: vec![ObjectId([6; 24])] }, Code::NoSession).await;
    }
    for (at, raw) in taken.iter_mut().enumerate() {
        let id = ObjectId([100 + at as u8; 24]);
        let answer = raw.ask(&append(&record(&sealer, id, &[at as u8]))).await;
        assert!(matches!(answer, Packet::Stored { applied: 1, .. }), "{answer:?}");
    }
    let mut raw = Raw::greeted(&scene.robbed).await;
    for stream in [STREAMS_MAX, u8::MAX] {
        let attach = Packet::Attach { session, secret, stream };
        raw.is_refused(&attach, Code::NoSession).await;
    }
    scene.stands().await;
}

async fn attached(machine: &Machine, session: [u8; 16], secret: [u8; 16], stream: u8) -> Raw {
    let mut raw = Raw::greeted(machine).await;
    let answer = raw.ask(&Packet::Attach { session, secret, stream }).await;
    assert!(matches!(answer, Packet::Attached { applied: 0 }), "{answer:?}");
    raw
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_revoked_in_the_middle_of_a_session_is_out_at_once() {
    let scene = Scene::set().await;
    let before = scene.server.snapshots("vault");
    let mut raw = Raw::opened(&scene.robbed).await;
    let (own, ring) = stolen_keys(&scene.robbed, &mut raw).await;
    let sealer = sealer(&ring);
    let (session, secret) = raw.begin(&sealer).await;
    let mut second = attached(&scene.robbed, session, secret, 1).await;
    let mut idle = Raw::greeted(&scene.robbed).await;
    let sequence = raw.number().await;
    let _: Done = scene.server.admin().post("/nodes/robbed/revoke", &()).await.unwrap();
    let repository = scene.repository_id();
    let (sealer, ring, writer, source) = (&sealer, &ring, own, NOBODYS);
    let root = scene.server.newest_head("vault").root;
    let forged = Forged { root, sealer, ring, repository, writer, sequence, source };
    raw.is_refused(&forged.commit(), Code::Revoked).await;
    second.send(&append(&record(sealer, ObjectId([1; 24]), b"late"))).await;
    assert_eq!(idle.is_left().await, Some(Code::Revoked));
    // These sent something after the end: they heard the last words as the answer, or the kernel dropped them.
    for connection in [&mut raw, &mut second] {
        assert!(matches!(connection.is_left().await, Some(Code::Revoked) | None));
    }
    let mut again = Raw::connect(&scene.robbed).await;
    again.send(&hello()).await;
    assert_eq!(again.is_left().await, Some(Code::NotAllowed));
    assert_eq!(scene.server.snapshots("vault"), before);
    scene.stands().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_and_names_that_do_not_exist_are_told_so() {
    let scene = Scene::set().await;
    let mut raw = Raw::opened(&scene.owner).await;
    let read = |container, offset, length| Packet::Read {
        location: RecordLocation { container: ContainerNo(container), offset, length },
    };
    for packet in [
        read(0, 0, 0),
        read(1, 0, u32::MAX),
        read(1, u32::MAX, u32::MAX),
        read(1, u32::MAX, 1024),
        read(u64::MAX, 64, 1024),
        read(1, 1 << 30, 1 << 20),
        Packet::Fetch { id: ObjectId([0xee; 24]) },
        Packet::GetSnapshot { name: SnapshotName { sequence: u64::MAX, id: SnapshotId([1; 16]) } },
        Packet::GetKeys { container: ContainerNo(u64::MAX), healed: true },
    ] {
        let answer = raw.ask(&packet).await;
        assert!(matches!(answer, Packet::Fault { .. }), "{packet:?}: {answer:?}");
    }
    let base = Some(SnapshotName { sequence: 7, id: SnapshotId([7; 16]) });
    let (_, ring) = stolen_keys(&scene.owner, &mut raw).await;
    let record = PathBytes(sealer(&ring).session_record().to_bytes());
    let begin = Packet::Begin { base, what: String::new(), record };
    raw.is_refused(&begin, Code::SnapshotMissing).await;
    scene.stands().await;
}
