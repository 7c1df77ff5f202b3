//! `icecore net test` between all that call each other: nodes, the server, storage servers.

use crate::machine::Ran;
use crate::storage_servers::Site;
use serde_json::Value;

impl Site {
    /// The routes that were measured.
    fn routes(ran: Ran) -> Vec<Value> {
        let lines = ran.ends(0).lines();
        let (routes, last): (Vec<_>, Vec<_>) =
            lines.into_iter().partition(|line| line["message_type"] == "route");
        assert_eq!(last.last().unwrap()["server"], routes.last().unwrap()["server"]);
        routes
    }

    fn measure(&self, role: &str, folder: &str, more: &[&str]) -> Ran {
        let data = self.folder(folder);
        let words = ["net", "test", "--seconds", "1", "--from", role, "--data", &data];
        self.machine.run(words.iter().chain(more))
    }

    fn at(port: u16) -> String {
        format!("127.0.0.1:{port}")
    }
}

/// Both directions, the round trip and the verdict are there.
fn is_measured(route: &Value) {
    for name in ["round_trip_ms", "up_bytes_per_sec", "down_bytes_per_sec"] {
        assert!(route[name].as_f64() > Some(0.0), "{name}: {route}");
    }
    assert!(route["verdict"].as_str().is_some_and(|text| !text.is_empty()), "{route}");
    let network = &route["network"];
    assert!(network["sent_bytes"].as_u64() > Some(1 << 20), "{route}");
    assert!(network["received_bytes"].as_u64() > Some(1 << 19), "{route}");
    assert!(network["send_buffer_bytes"].as_u64() > Some(0), "{route}");
    assert!(network["retransmitted"].is_u64(), "{route}");
}

const JSON: [&str; 5] = ["net", "test", "--seconds", "1", "--json"];

#[test]
fn a_node_measures_the_way_to_its_server_and_the_one_that_its_data_takes() {
    let site = Site::new();
    site.enroll("web", &[]);
    let routes = Site::routes(site.node("web", &JSON));
    routes.iter().for_each(is_measured);
    let servers: Vec<_> = routes.iter().map(|route| route["server"].as_str().unwrap()).collect();
    assert_eq!(servers, [Site::at(site.port), Site::at(site.storage_port)]);
    let names: Vec<_> = routes.iter().map(|route| [&route["from"], &route["to"]]).collect();
    assert_eq!(names[0], ["node web", "the server"]);
    assert_eq!(names[1], ["node web", "the storage server of the domain"]);
    // One whose domain lies with the server has one route, before its first backup, too.
    let [url, token] = site.token(&["own", "--keys", "client"]);
    site.node("own", &["agent", "enroll", &url, &token]).ends(0);
    let text = site.node("own", &["net", "test", "--seconds", "1"]).ends(0).text();
    let first = format!("node own to the server, {}\n", Site::at(site.port));
    assert!(text.starts_with(&first), "{text}");
    let heads =
        ["round trip", "upload", "download", "retransmitted", "socket buffers", "Bottleneck"];
    for head in heads {
        assert_eq!(text.matches(&format!("\n  {head}")).count(), 1, "{head}: {text}");
    }
}

#[test]
fn a_limit_of_the_node_is_told_and_kept() {
    let site = Site::new();
    site.enroll("web", &[]);
    site.govern(&["limit", "add", "--node", "web", "--up", "2M"]).ends(0);
    let ran = site.node("web", &JSON);
    let notes: Vec<_> = ran.lines().into_iter().filter(|it| it["message_type"] == "note").collect();
    assert!(
        notes[0]["message"].as_str().unwrap().contains("limits set by the server"),
        "{notes:?}"
    );
    let routes = Site::routes(ran);
    let up = routes.last().unwrap()["up_bytes_per_sec"].as_f64().unwrap();
    assert!(up < 4e6, "{up}");
}

#[test]
fn servers_measure_the_way_to_each_other() {
    let site = Site::new();
    let routes = Site::routes(site.measure("storage", "disk", &["--json"]));
    is_measured(&routes[0]);
    let named = [&routes[0]["from"], &routes[0]["to"], &routes[0]["server"]];
    assert_eq!(named, ["storage server disk", "the server", Site::at(site.port).as_str()]);
    for to in [&["--json", "--to", "disk"][..], &["--json"]] {
        let routes = Site::routes(site.measure("server", "data", to));
        is_measured(&routes[0]);
        let named = [&routes[0]["from"], &routes[0]["to"], &routes[0]["server"]];
        let there = Site::at(site.storage_port);
        assert_eq!(named, ["the server", "storage server disk", there.as_str()]);
        assert_eq!(routes.len(), 1);
    }
    assert_eq!(site.govern(&["nodes", "--json"]).ends(0).lines().len(), 1, "nobody became a node");
    assert_eq!(site.govern(&["jobs", "--json"]).ends(0).lines().len(), 1, "it is no job");
}

#[test]
fn who_cannot_measure_is_told_why() {
    let site = Site::new();
    site.node("nobody", &["net", "test"]).ends(1);
    site.measure("server", "data", &["--to", "nowhere"]).ends(1);
    site.measure("server", "disk", &[]).ends(1);
    site.measure("storage", "data", &[]).ends(1);
    site.measure("node", "data", &[]).ends(2);
    site.measure("storage", "disk", &["--to", "disk"]).ends(2);
    site.govern(&["revoke", "disk", "--storage"]).ends(0);
    let refused = site.measure("storage", "disk", &[]).ends(13);
    assert!(refused.stderr.contains("'disk' is revoked"), "{}", refused.stderr);
    let refused = site.measure("server", "data", &["--to", "disk"]).ends(1);
    assert!(refused.stderr.contains("'disk' is revoked"), "{}", refused.stderr);
}
