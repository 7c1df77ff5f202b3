//! What the control server makes of the clocks of storage servers.

use super::{news, start};
use crate::rig::Rig;
use access::storage_server::StorageIdentity;
use api::status::Status;
use api::storage_servers::{Heartbeat, HeartbeatReply, StorageServers};
use jiff::Timestamp;

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_five_minutes_off_is_told_and_no_other() {
    let rig = Rig::start().await;
    start(&rig).await;
    let disk = StorageIdentity::load(&rig.folder("disk")).unwrap().client().unwrap();
    let now_secs = || Timestamp::now().as_second();
    for (ahead_secs, is_told) in
        [(0, false), (280, false), (-280, false), (3600, true), (-320, true)]
    {
        let news = Heartbeat { clock_secs: Some(now_secs() + ahead_secs), ..news(Vec::new()) };
        let told: HeartbeatReply = disk.post("/storage-server/heartbeat", &news).await.unwrap();
        assert!(told.takes_clock);
        let listed: StorageServers = rig.admin().get("/storage-servers").await.unwrap();
        let shown = listed.storage_servers[0].clock_ahead_secs;
        assert_eq!(shown.is_some(), is_told, "{ahead_secs}: {shown:?}");
        assert!(
            shown.is_none_or(|shown| (shown - ahead_secs).abs() < 10),
            "{ahead_secs}: {shown:?}"
        );
        let status: Status = rig.admin().get("/status").await.unwrap();
        assert_eq!(status.alarms, u64::from(is_told), "{ahead_secs}");
    }
    let silent: HeartbeatReply =
        disk.post("/storage-server/heartbeat", &news(Vec::new())).await.unwrap();
    assert!(silent.takes_clock, "an older one says nothing of its clock");
    let listed: StorageServers = rig.admin().get("/storage-servers").await.unwrap();
    assert_eq!(listed.storage_servers[0].clock_ahead_secs, None);
}
