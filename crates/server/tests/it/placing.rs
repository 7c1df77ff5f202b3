//! What changes about the place of a domain while a node has it open.

use crate::hostile::raw::{Raw, begin, sealer, stolen_keys};
use crate::hostile::server::Whole;
use api::enroll::Role;
use api::pools::PoolState;
use protocol::fault::Code;

/// A laptop that was closed behind `Open`: what it stored where the domain had lain before was acknowledged, and nobody
/// looked there any more.
#[tokio::test(flavor = "multi_thread")]
async fn whether_a_domain_still_lies_there_is_asked_again_when_a_backup_begins() {
    let server = Whole::start().await;
    let machine = server.node("web", "web", Role::Full).await;
    machine.write("file", b"honest");
    let honest = machine.backup().await;
    let mut raw = Raw::opened(&machine).await;
    let (_, ring) = stolen_keys(&machine, &mut raw).await;
    for (state, is_let_in) in [(PoolState::Offline, false), (PoolState::Online, true)] {
        let body = serde_json::json!({ "state": state });
        let _: serde_json::Value = server.admin().post("/pools/main/state", &body).await.unwrap();
        if is_let_in {
            raw.begin(&sealer(&ring)).await;
        } else {
            let why = raw.is_refused(&begin(&sealer(&ring)), Code::NotAllowed).await;
            assert!(why.contains("offline"), "{why}");
        }
    }
    assert_eq!(machine.restored(honest, "file").await, b"honest");
}
