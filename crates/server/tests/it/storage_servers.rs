//! A storage server in this process, and who means harm: nodes that want to govern, a storage server that wants to know
//! or do more than it may.

mod certificate;
mod clocks;
mod expiring;
mod lying;
mod measuring;

use crate::rig::{Rig, new_token};
use access::{Client, Error, Identity, storage_server};
use api::domains::Grant;
use api::enroll::{IssuedKey, NewKey, NewToken, Role};
use api::jobs::{Job, JobState, Progress};
use api::nodes::Nodes;
use api::status::{Audit, Done};
use api::storage_servers::{
    AccessReply, AccessRequest, AdmitReply, CopyRead, GrantedReader, Heartbeat, HeartbeatReply,
    IssuedStorageServerToken, NewStorageServerToken, NodeConnection, StorageJob, StorageJobEnd,
};
use protocol::Packet;
use protocol::fault::Code;
use protocol::packet::{End, PathBytes, Purpose, Slot};
use server::listen::{self, Listening};
use server::storage_server::{ControlServer, ControlServerError, StorageServer, no_http};
use server_contract::access_control::{AccessControl, Node};
use server_contract::folder::Folder;
use server_data::Shared;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use transport::frames::FrameReader;
use transport::rate::Rate;

/// Asks the control server as a storage server does.
struct Asking(Arc<access::LiveIdentity>);

impl ControlServer for Asking {
    fn post(
        &self,
        path: &str,
        body: serde_json::Value,
    ) -> Result<serde_json::Value, ControlServerError> {
        let asked = access::blocking::wait(self.0.client().post(path, &body));
        asked.map_err(|error| match error {
            Error::Server(told) if told.code == api::Code::NotAllowed.number() => {
                ControlServerError::Refused { message: told.message, hint: String::new() }
            }
            other => ControlServerError::Unreachable(other.to_string()),
        })
    }
}

/// A storage server that is enrolled under `name`; its folder.
async fn enroll(rig: &Rig, name: &str) -> PathBuf {
    let new = NewStorageServerToken { storage: name.parse().unwrap(), valid_secs: None };
    let made: IssuedStorageServerToken =
        rig.admin().post("/storage-server-tokens", &new).await.unwrap();
    let (folder, names) = (rig.folder(name), ["127.0.0.1".to_owned()]);
    let listen = "127.0.0.1:0".parse().unwrap();
    let machine = storage_server::Machine { listen, names: &names, pool_of: None };
    storage_server::enroll(&rig.url, &made.token, &folder, machine, false).await.unwrap();
    folder
}

/// It is not revoked: whoever enrolled it again would take the name away from the machine that has it now.
#[tokio::test(flavor = "multi_thread")]
async fn a_storage_server_whose_pool_another_machine_took_over_is_told_so() {
    let rig = Rig::start().await;
    let folder = enroll(&rig, "disk").await;
    let client = || storage_server::StorageIdentity::load(&folder).unwrap().client().unwrap();
    let old = client();
    std::fs::rename(&folder, rig.folder("old")).unwrap();
    enroll(&rig, "disk").await;
    let no =
        said_no(old.post::<HeartbeatReply>("/storage-server/heartbeat", &news(Vec::new())).await);
    assert!(no.message.contains("has been enrolled again"), "{no:?}");
    assert!(!no.hint.unwrap().contains("token"), "nothing that takes the name away");
    let told =
        client().post::<HeartbeatReply>("/storage-server/heartbeat", &news(Vec::new())).await;
    told.unwrap();
}

/// The storage server `disk`, running; its port.
async fn start(rig: &Rig) -> u16 {
    start_kept(rig).await.0
}

/// The same, and it tells its news every second.
async fn start_telling(rig: &Rig) -> u16 {
    let (port, _, storage_server) = start_kept(rig).await;
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let teller = storage_server.clone();
            let _ = tokio::task::spawn_blocking(move || teller.heartbeat()).await;
        }
    });
    port
}

/// The same, its identity, which nobody looks after yet, and what has its news.
async fn start_kept(rig: &Rig) -> (u16, Arc<access::LiveIdentity>, Arc<StorageServer>) {
    start_asking(rig, |asking| Arc::new(asking)).await
}

/// The same; what it hears of the control server comes by way of `with`.
async fn start_asking(
    rig: &Rig,
    with: impl FnOnce(Asking) -> Arc<dyn ControlServer>,
) -> (u16, Arc<access::LiveIdentity>, Arc<StorageServer>) {
    let folder = enroll(rig, "disk").await;
    let kept = access::LiveIdentity::load(&folder).unwrap();
    let asking = with(Asking(kept.clone()));
    let storage_server = StorageServer::new(
        Folder::open_storage(&folder, &"disk".parse().unwrap()).unwrap(),
        asking,
    )
    .unwrap();
    let tls = kept.tls().unwrap();
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    storage_server.listens_at(port);
    let teller = storage_server.clone();
    tokio::task::spawn_blocking(move || teller.heartbeat()).await.unwrap().unwrap();
    let shared = storage_server.data_plane().unwrap();
    tokio::spawn(listen::run(Listening { listener, tls, shared, http: no_http() }));
    (port, kept, storage_server)
}

fn on_disk(node: &str) -> NewToken {
    NewToken { storage: Some("disk".parse().unwrap()), ..new_token(node) }
}

async fn node(rig: &Rig, new: NewToken) -> Identity {
    let agent = rig.folder(new.node.as_str());
    let made = rig.token(new).await;
    access::enroll::enroll(&rig.url, &made.token, &agent, false).await.unwrap();
    Identity::load(&agent).unwrap()
}

/// Seen: after a lost catalog was confirmed, a token without `--on` made a new, empty domain on the control server.
#[tokio::test(flavor = "multi_thread")]
async fn a_domain_that_a_storage_server_has_is_found_there_and_made_nowhere_else() {
    let rig = Rig::start().await;
    let late = NewToken { domain: Some("web".parse().unwrap()), ..new_token("late") };
    let before = rig.token(late).await;
    let _port = start(&rig).await;
    node(&rig, on_disk("web")).await;
    let rig = rig
        .restart_after(|data| {
            let location = catalog::Location::file(data.join("catalog.sqlite"));
            let catalog = catalog::Catalog::open(&location).unwrap();
            let (by, web) = (catalog::By { who: "test", now_secs: 1 }, "web".parse().unwrap());
            catalog.remove_node(by, &web).unwrap();
            catalog.remove_domain(by, &web).unwrap();
        })
        .await;
    let agent = rig.folder("agent");
    let early = access::enroll::enroll(&rig.url, &before.token, &agent, false).await;
    let no = said_no(early);
    assert!(no.message.contains("'web' lies on the storage server 'disk'"), "{no:?}");
    assert!(no.hint.unwrap().contains("--domain web --on disk"), "the next command");
    let made = rig.token(new_token("web")).await;
    assert_eq!(made.storage, Some("disk".parse().unwrap()));
    let again = rig.folder("again");
    access::enroll::enroll(&rig.url, &made.token, &again, false).await.unwrap();
    assert_eq!(rig.token(new_token("other")).await.storage, None, "it has no such domain");
}

async fn connect(port: u16, tls: Arc<rustls::ClientConfig>) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    let name = "127.0.0.1".try_into().unwrap();
    TlsConnector::from(tls).connect(name, stream).await.unwrap()
}

/// Says `packet`; the answer, or `None` at the end of the connection.
async fn ask(stream: &mut TlsStream<TcpStream>, packet: &Packet) -> Option<Packet> {
    stream.write_all(&packet.frame(0)).await.ok()?;
    let mut reader = FrameReader::new(stream, End::Server);
    loop {
        let header = reader.header().await.ok()?;
        let body = reader.body(header, &Rate::default()).await.unwrap();
        match Packet::decode(header.kind, body).unwrap() {
            Packet::Limits { .. } => {}
            answer => return Some(answer),
        }
    }
}

/// Says `packets` one after the other; the answers, up to the end of the connection.
async fn say(port: u16, tls: Arc<rustls::ClientConfig>, packets: &[Packet]) -> Vec<Packet> {
    let mut stream = connect(port, tls).await;
    let mut answers = Vec::new();
    for packet in packets {
        let Some(answer) = ask(&mut stream, packet).await else { break };
        answers.push(answer);
    }
    answers
}

/// A reclaim, as the control server asks for it.
const RECLAIM: &[u8] = br#"{"task":"reclaim","max_waste_percent":5.0,"bytes_per_sec":null}"#;

fn greeting(domain: &str) -> [Packet; 2] {
    let hello = Packet::Hello {
        oldest: protocol::VERSION_OLDEST,
        newest: protocol::VERSION_NEWEST,
        program: "test".into(),
    };
    [hello, Packet::Open { domain: domain.into(), purpose: Purpose::Read }]
}

fn refused(packet: &Packet) -> bool {
    matches!(packet, Packet::Fault { code, .. } if *code == Code::NotAllowed as u16)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_cannot_do_what_the_control_server_does() {
    let rig = Rig::start().await;
    let port = start(&rig).await;
    let web = node(&rig, on_disk("web")).await;
    let other = node(&rig, on_disk("other")).await;
    let keys = rig.folder("disk").join("pool/domains/web/keys");
    let before = std::fs::read_dir(&keys).unwrap().count();
    let id = ids::KeyId([7; 8]);
    let own = ids::KeyId::from_hex(web.agent.key.as_deref().unwrap()).unwrap();
    for packet in [
        Packet::PutSlot { slot: Slot { id, bytes: vec![1; 64] } },
        Packet::RemoveSlot { id: own },
        Packet::PutKeyList { key_list: vec![1; 64] },
        Packet::Expire { expiry: vec![1; 200] },
        Packet::Upkeep { job: 1, goes_on: true, request: RECLAIM.to_vec() },
        Packet::Init { config: PathBytes(vec![0; 64]), slots: Vec::new(), key_list: Vec::new() },
    ] {
        let words = [&greeting("")[..], std::slice::from_ref(&packet)].concat();
        let answers = say(port, web.tls(protocol::ALPN).unwrap(), &words).await;
        assert!(matches!(answers[1], Packet::Opened { .. }), "{answers:?}");
        assert!(refused(&answers[2]), "{}: {:?}", packet.name(), answers[2]);
    }
    assert_eq!(std::fs::read_dir(&keys).unwrap().count(), before);
    let answers = say(port, other.tls(protocol::ALPN).unwrap(), &greeting("web")).await;
    assert!(refused(&answers[1]), "the domain of another node: {answers:?}");
    let answers = say(port, other.tls(protocol::ALPN).unwrap(), &greeting("../web")).await;
    assert!(refused(&answers[1]), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_domain_lies_elsewhere_is_sent_away_and_old_ones_are_told() {
    let rig = Rig::start().await;
    let port = start(&rig).await;
    let here = node(&rig, new_token("here")).await;
    let answers = say(port, here.tls(protocol::ALPN).unwrap(), &greeting("")).await;
    assert!(refused(&answers[1]), "a domain that does not lie there: {answers:?}");
    let web = node(&rig, on_disk("web")).await;
    let peer = rig.peer(&rig.folder("web"));
    let known = rig.control.admit(&peer).unwrap();
    let access = rig.control.access(&known, None).unwrap();
    let place = rig.control.storage_server_of(&access.domain).unwrap();
    assert_eq!(place, Some(("127.0.0.1".to_owned(), port)));
    assert_eq!(rig.control.storage_server_of("here").unwrap(), None);
    let control_server = govern_data(&rig).await;
    let tls = || web.tls(protocol::ALPN).unwrap();
    let answers = say(control_server, tls(), &greeting("")).await;
    assert_eq!(answers[1], Packet::Redirect { host: "127.0.0.1".into(), port });
    let [_, open] = greeting("");
    let old = Packet::Hello { oldest: 1, newest: 1, program: "test".into() };
    let answers = say(control_server, tls(), &[old, open]).await;
    assert!(matches!(answers[0], Packet::Fault { code: 2, .. }), "{answers:?}");
    let [hello, _] = greeting("");
    let agent = Packet::Open { domain: String::new(), purpose: Purpose::Agent };
    let answers = say(control_server, tls(), &[hello, agent]).await;
    assert!(
        matches!(answers[1], Packet::Opened { .. }),
        "who waits for commands stays: {answers:?}"
    );
}

/// The control server's end of the data protocol; its port.
async fn govern_data(rig: &Rig) -> u16 {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tls, shared) = (rig.control.tls(), Shared::new(rig.control.clone()));
    tokio::spawn(listen::run(Listening { listener, tls, shared, http: no_http() }));
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn only_nodes_and_the_control_server_are_admitted() {
    let rig = Rig::start().await;
    let port = start(&rig).await;
    let second = storage_server::StorageIdentity::load(&enroll(&rig, "second").await).unwrap();
    let identity = Some((second.pem.as_str(), second.pem.as_str()));
    let tls = pki::client::client_config(&second.ca_pem, identity, protocol::ALPN).unwrap();
    let answers = say(port, Arc::new(tls), &greeting("web")).await;
    assert!(refused(&answers[0]), "another storage server: {answers:?}");
}

fn said_no<T: std::fmt::Debug>(answer: Result<T, Error>) -> api::Failure {
    match answer.unwrap_err() {
        Error::Server(failure) => failure,
        other => panic!("no answer: {other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_server_learns_no_key_and_nothing_of_domains_elsewhere() {
    let rig = Rig::start().await;
    start(&rig).await;
    let (web, here) = (node(&rig, on_disk("web")).await, node(&rig, new_token("here")).await);
    let disk =
        storage_server::StorageIdentity::load(&rig.folder("disk")).unwrap().client().unwrap();
    let ask = |node: &Identity| AccessRequest {
        serial: node.certificate.serial.clone(),
        node: node.agent.node.clone(),
        domain: None,
    };
    let given: AccessReply = disk.post("/storage-server/access", &ask(&web)).await.unwrap();
    assert!(given.may_read && given.may_write && !given.may_init);
    let answer = disk.post::<AccessReply>("/storage-server/access", &ask(&here)).await;
    assert_eq!(said_no(answer).name, "not-allowed");
    let key = NewKey { domain: "web".parse().unwrap(), slot_secret: "07".repeat(32) };
    assert_eq!(said_no(disk.post::<IssuedKey>("/node/keys", &key).await).name, "not-allowed");
    assert_eq!(said_no(disk.get::<Nodes>("/nodes").await).name, "not-allowed");
    let client = Client::of(&web).unwrap();
    assert_eq!(
        said_no(client.post::<AccessReply>("/storage-server/access", &ask(&web)).await).name,
        "not-allowed",
        "a node is no storage server"
    );
    let wrong = AccessRequest { node: "here".parse().unwrap(), ..ask(&web) };
    assert_eq!(
        said_no(disk.post::<AccessReply>("/storage-server/access", &wrong).await).name,
        "not-allowed"
    );
}

fn news(jobs: Vec<StorageJob>) -> Heartbeat {
    let (run, version) = ("r".to_owned(), "1".to_owned());
    let (free_bytes, total_bytes, nodes) = (1, 2, Vec::new());
    let (readers, domains, kept_locks, moves, pool_faults) = Default::default();
    let (has_bucket, clock_secs, copy_reads) = Default::default();
    Heartbeat {
        run,
        port: 1,
        version,
        free_bytes,
        total_bytes,
        nodes,
        jobs,
        readers,
        domains,
        kept_locks,
        moves,
        pool_faults,
        has_bucket,
        clock_secs,
        copy_reads,
    }
}

/// Seen: what nodes read from copies there was in the log of the storage server alone.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_from_copies_on_a_storage_server_is_in_the_audit_log() {
    let rig = Rig::start().await;
    start(&rig).await;
    node(&rig, on_disk("web")).await;
    node(&rig, new_token("here")).await;
    let disk =
        storage_server::StorageIdentity::load(&rig.folder("disk")).unwrap().client().unwrap();
    let read = |domain: &str| CopyRead {
        node: "web".parse().unwrap(),
        domain: domain.parse().unwrap(),
        place: "/mnt/copy".to_owned(),
        records: 3,
    };
    // Of a domain that lies elsewhere it is not believed.
    let news = Heartbeat { copy_reads: vec![read("web"), read("here")], ..news(Vec::new()) };
    let told: HeartbeatReply = disk.post("/storage-server/heartbeat", &news).await.unwrap();
    assert!(told.takes_copy_reads);
    let audit: Audit = rig.admin().get("/audit").await.unwrap();
    let noted = audit.entries.iter().filter(|entry| entry.action == "copy.read");
    let noted: Vec<_> = noted.map(|entry| (&*entry.subject, &*entry.detail)).collect();
    assert_eq!(noted, [("web", "3 from /mnt/copy for web")]);
}

fn job(domain: &str, job: Option<u64>) -> StorageJob {
    let end = StorageJobEnd {
        state: JobState::Failed,
        snapshot: None,
        error: Some("because".into()),
        report: String::new(),
    };
    StorageJob {
        number: 1,
        job,
        node: domain.parse().unwrap(),
        domain: domain.parse().unwrap(),
        kind: "backup".into(),
        what: String::new(),
        progress: Progress::default(),
        end: Some(end),
    }
}

async fn state_of(rig: &Rig, job: u64) -> JobState {
    let job: Job = rig.admin().get(&format!("/jobs/{job}")).await.unwrap();
    job.state
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_server_ends_no_job_of_a_domain_elsewhere() {
    let rig = Rig::start().await;
    start(&rig).await;
    let (_web, _here) = (node(&rig, on_disk("web")).await, node(&rig, new_token("here")).await);
    let known = Node { name: "here".into(), serial: "1".into(), revoked: Arc::default() };
    let number = rig.control.job_begins(&known, "here", "backup", "");
    let disk =
        storage_server::StorageIdentity::load(&rig.folder("disk")).unwrap().client().unwrap();
    let told: HeartbeatReply = disk
        .post("/storage-server/heartbeat", &news(vec![job("here", Some(number))]))
        .await
        .unwrap();
    assert_eq!(told.jobs[0].job, None);
    let told: HeartbeatReply = disk
        .post("/storage-server/heartbeat", &news(vec![job("web", Some(number))]))
        .await
        .unwrap();
    assert_ne!(told.jobs[0].job, Some(number), "it is another job");
    assert_eq!(state_of(&rig, number).await, JobState::Running);
    assert_eq!(state_of(&rig, told.jobs[0].job.unwrap()).await, JobState::Failed);
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_reads_on_a_storage_server_by_a_grant_is_out_when_it_is_taken_back() {
    let rig = Rig::start().await;
    let port = start_telling(&rig).await;
    let (_web, reader) = (node(&rig, on_disk("web")).await, node(&rig, new_token("reader")).await);
    let grant =
        |until| Grant { node: "reader".parse().unwrap(), domain: "web".parse().unwrap(), until };
    let _: Done = rig.admin().post("/grants", &grant(None)).await.unwrap();
    let [hello, open] = greeting("web");
    // What looks has no job that could be cancelled.
    let opened = async || {
        let mut stream = connect(port, reader.tls(pki::ALPN_DATA).unwrap()).await;
        assert!(matches!(ask(&mut stream, &hello).await, Some(Packet::Welcome { .. })));
        assert!(matches!(ask(&mut stream, &open).await, Some(Packet::Opened { .. })));
        stream
    };
    let mut stream = opened().await;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(ask(&mut stream, &Packet::Ping {}).await, Some(Packet::Pong {}));
    let _: Done = rig.admin().delete("/grants/reader/web").await.unwrap();
    assert!(is_refused(&mut stream).await);
    // The next grant counts at once, and ends by its time.
    let until = jiff::Timestamp::now().as_second() + 8;
    let _: Done = rig.admin().post("/grants", &grant(Some(until))).await.unwrap();
    let mut stream = opened().await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(ask(&mut stream, &Packet::Ping {}).await, Some(Packet::Pong {}));
    assert!(is_refused(&mut stream).await);
}

/// Waits for the last packet of the other end, for a minute: whether it says that this is not allowed.
async fn is_refused(stream: &mut TlsStream<TcpStream>) -> bool {
    let mut reader = FrameReader::new(stream, End::Server);
    let last = async {
        let header = reader.header().await.unwrap();
        let body = reader.body(header, &Rate::default()).await.unwrap();
        refused(&Packet::decode(header.kind, body).unwrap())
    };
    tokio::time::timeout(Duration::from_secs(60), last).await.unwrap_or(false)
}

/// It may not ask whether a node may forget elsewhere: what it asks stands in the audit list.
#[tokio::test(flavor = "multi_thread")]
async fn a_storage_server_forgets_nothing_in_domains_elsewhere() {
    let rig = Rig::start().await;
    start(&rig).await;
    let keys = api::enroll::KeyMode::Client;
    let here = node(&rig, NewToken { keys, ..new_token("here") }).await;
    let there = node(&rig, NewToken { keys, ..on_disk("there") }).await;
    let disk =
        storage_server::StorageIdentity::load(&rig.folder("disk")).unwrap().client().unwrap();
    let asked = |node: &Identity, domain: &str| api::storage_servers::ForgetRequest {
        serial: node.certificate.serial.clone(),
        node: node.agent.node.clone(),
        domain: domain.parse().unwrap(),
        count: 1,
        ids: vec!["ab".repeat(16)],
        are_own: true,
    };
    let scope = api::nodes::ForgetScope::Own;
    for node in ["here", "there"] {
        let path = format!("/nodes/{node}/forget");
        let _: Done =
            rig.admin().post(&path, &api::nodes::ForgetPermission { scope }).await.unwrap();
    }
    for (node, domain) in [(&here, "here"), (&there, "here"), (&here, "there"), (&there, "no")] {
        said_no(disk.post::<Done>("/storage-server/forget", &asked(node, domain)).await);
    }
    let other = api::storage_servers::ForgetRequest { are_own: false, ..asked(&there, "there") };
    said_no(disk.post::<Done>("/storage-server/forget", &other).await);
    for id in ["", "ab", "no id at all", "zz zz"] {
        let other =
            api::storage_servers::ForgetRequest { ids: vec![id.into()], ..asked(&there, "there") };
        said_no(disk.post::<Done>("/storage-server/forget", &other).await);
    }
    let strange =
        api::storage_servers::ForgetRequest { serial: "00".into(), ..asked(&there, "there") };
    said_no(disk.post::<Done>("/storage-server/forget", &strange).await);
    let forgotten = async || {
        let audit: api::status::Audit = rig.admin().get("/audit?limit=1000").await.unwrap();
        audit.entries.iter().filter(|entry| entry.action == "snapshot.forget").count()
    };
    assert_eq!(forgotten().await, 0);
    let _: Done = disk.post("/storage-server/forget", &asked(&there, "there")).await.unwrap();
    assert_eq!(forgotten().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_server_learns_of_no_grants_to_domains_elsewhere() {
    let rig = Rig::start().await;
    start(&rig).await;
    let (_web, _reader) = (node(&rig, on_disk("web")).await, node(&rig, new_token("reader")).await);
    let read_by_reader = |domain: &str| GrantedReader {
        node: "reader".parse().unwrap(),
        domain: domain.parse().unwrap(),
    };
    for domain in ["web", "reader"] {
        let (node, domain) = ("reader".parse().unwrap(), domain.parse().unwrap());
        let _ = rig.admin().post::<Done>("/grants", &Grant { node, domain, until: None }).await;
    }
    let readers = vec![read_by_reader("web"), read_by_reader("reader"), read_by_reader("none")];
    let news = Heartbeat { readers, ..news(Vec::new()) };
    let disk =
        storage_server::StorageIdentity::load(&rig.folder("disk")).unwrap().client().unwrap();
    let told: HeartbeatReply = disk.post("/storage-server/heartbeat", &news).await.unwrap();
    assert_eq!(told.withdrawn, [read_by_reader("reader"), read_by_reader("none")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_revoked_is_told_so_and_a_revoked_storage_server_is_told_nothing() {
    let rig = Rig::start().await;
    start(&rig).await;
    let web = node(&rig, NewToken { role: Some(Role::WriteOnly), ..on_disk("web") }).await;
    let disk =
        storage_server::StorageIdentity::load(&rig.folder("disk")).unwrap().client().unwrap();
    let asked = NodeConnection {
        serial: web.certificate.serial.clone(),
        node: web.agent.node.clone(),
        address: Ipv4Addr::LOCALHOST.into(),
    };
    let _: AdmitReply = disk.post("/storage-server/admit", &asked).await.unwrap();
    let with_node = Heartbeat { nodes: vec![asked.clone()], ..news(Vec::new()) };
    let told: HeartbeatReply = disk.post("/storage-server/heartbeat", &with_node).await.unwrap();
    assert!(told.revoked.is_empty());
    let nodes: Nodes = rig.admin().get("/nodes").await.unwrap();
    assert!(nodes.nodes[0].connected, "the list of nodes has who is connected elsewhere");
    let _: Done = rig.admin().post("/nodes/web/revoke", &()).await.unwrap();
    let told: HeartbeatReply = disk.post("/storage-server/heartbeat", &with_node).await.unwrap();
    assert_eq!(told.revoked, std::slice::from_ref(&asked.serial));
    said_no(disk.post::<AdmitReply>("/storage-server/admit", &asked).await);
    let _: Done = rig.admin().post("/storage-servers/disk/revoke", &()).await.unwrap();
    let failure =
        said_no(disk.post::<HeartbeatReply>("/storage-server/heartbeat", &news(Vec::new())).await);
    assert!(failure.message.contains("'disk' is revoked"), "{failure:?}");
}
