//! What a storage server says of nodes and domains that are none of its own.

use super::*;
use access::renew::renew;
use api::status::Status;

fn disk(rig: &Rig) -> Client {
    storage_server::StorageIdentity::load(&rig.folder("disk")).unwrap().client().unwrap()
}

/// How many entries of the audit log there are of this action.
async fn audited(rig: &Rig, action: &str) -> usize {
    let (mut count, mut before) = (0, None::<u64>);
    loop {
        let from = before.map_or(String::new(), |before| format!("&before={before}"));
        let page: Audit = rig.admin().get(&format!("/audit?limit=1000{from}")).await.unwrap();
        let Some(last) = page.entries.last() else { return count };
        before = Some(last.id);
        count += page.entries.iter().filter(|entry| entry.action == action).count();
    }
}

/// It took the job that the server had started on the node of another domain: the real backup got no policy and no
/// lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_storage_server_has_no_jobs_of_nodes_of_other_domains() {
    let rig = Rig::start().await;
    start(&rig).await;
    let (_web, _here) = (node(&rig, on_disk("web")).await, node(&rig, new_token("here")).await);
    let tells = async |node: &str| {
        let job = StorageJob { node: node.parse().unwrap(), ..job("web", None) };
        let told = disk(&rig).post("/storage-server/heartbeat", &news(vec![job])).await;
        let told: HeartbeatReply = told.unwrap();
        told.jobs[0].job
    };
    assert_eq!(tells("here").await, None);
    assert_eq!(tells("nobody").await, None);
    assert!(tells("web").await.is_some());
    // A node that may read there has jobs there.
    let grant =
        Grant { node: "here".parse().unwrap(), domain: "web".parse().unwrap(), until: None };
    let _: Done = rig.admin().post("/grants", &grant).await.unwrap();
    assert!(tells("here").await.is_some());
}

/// Whoever has seen a certificate once can name it.
#[tokio::test(flavor = "multi_thread")]
async fn a_storage_server_that_names_an_old_certificate_stops_no_node() {
    let rig = Rig::start().await;
    start(&rig).await;
    let web = node(&rig, on_disk("web")).await;
    let (folder, copy) = (rig.folder("web"), rig.folder("copy"));
    std::fs::create_dir(&copy).unwrap();
    for file in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    renew(&copy).await.unwrap();
    renew(&folder).await.unwrap();
    rig.control.admit(&rig.peer(&folder)).unwrap();
    let asked = NodeConnection {
        serial: pki::inspect(&rig.peer(&copy).certificate).unwrap().serial,
        node: web.agent.node.clone(),
        address: Ipv4Addr::LOCALHOST.into(),
    };
    let no = said_no(disk(&rig).post::<AdmitReply>("/storage-server/admit", &asked).await);
    assert!(no.message.contains("was replaced by a newer one"), "{no:?}");
    rig.control.admit(&rig.peer(&folder)).unwrap();
    let status: Status = rig.admin().get("/status").await.unwrap();
    assert_eq!(status.alarms, 0);
}

/// Each job is a row of the catalog, and each read from a copy one of the audit log, which is kept.
#[tokio::test(flavor = "multi_thread")]
async fn one_heartbeat_writes_so_much_and_the_next_one_goes_on() {
    let rig = Rig::start().await;
    start(&rig).await;
    node(&rig, on_disk("web")).await;
    let jobs: Vec<_> =
        (1..=300).map(|number| StorageJob { number, end: None, ..job("web", None) }).collect();
    let beat = async || {
        let told = disk(&rig).post("/storage-server/heartbeat", &news(jobs.clone())).await;
        let told: HeartbeatReply = told.unwrap();
        told.jobs.iter().filter_map(|job| job.job).count()
    };
    assert_eq!(beat().await, 256);
    assert_eq!(beat().await, 300);
    // The answer to the end of one that nobody knew was lost: it does not begin anew.
    let ended = StorageJob { number: 301, ..job("web", None) };
    let tell = async || {
        let told = disk(&rig).post("/storage-server/heartbeat", &news(vec![ended.clone()])).await;
        let told: HeartbeatReply = told.unwrap();
        told.jobs[0].job
    };
    let first = tell().await;
    assert!(first.is_some());
    assert_eq!(tell().await, first);
    let read = CopyRead {
        node: "web".parse().unwrap(),
        domain: "web".parse().unwrap(),
        place: "x".repeat(2_000),
        records: 3,
    };
    for _ in 0..11 {
        let news = Heartbeat { copy_reads: vec![read.clone(); 100], ..news(Vec::new()) };
        disk(&rig).post::<HeartbeatReply>("/storage-server/heartbeat", &news).await.unwrap();
    }
    assert_eq!(audited(&rig, "copy.read").await, 1_000);
    let reader = GrantedReader { node: "web".parse().unwrap(), domain: "web".parse().unwrap() };
    let endless = Heartbeat { readers: vec![reader; 65_537], ..news(Vec::new()) };
    let no = disk(&rig).post::<HeartbeatReply>("/storage-server/heartbeat", &endless).await;
    assert!(said_no(no).message.contains("65536"), "its list is too long");
}
