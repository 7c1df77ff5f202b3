//! What sessions of a server cost at the bucket in which their domain lies.

use crate::storage_servers::Site;
use testkit::s3::Gateway;

/// Of a backup without changes, which may merge runs of the index, and of the restore of one small file.
const REQUESTS_MAX: [usize; 2] = [20, 9];
const SOURCES: [&str; 3] = ["one", "two", "three"];

#[test]
fn sessions_cost_few_requests_however_many_sources_a_node_has() {
    let (gateway, mut site) =
        (Gateway::of_files(), Site::alone(Gateway::of_files().variables().into()));
    let bucket = gateway.bucket();
    site.start_server();
    site.govern(&["pool", "add", "cloud", &format!("s3://{bucket}/pool")]).ends(0);
    site.enroll_in("web", &["--pool", "cloud"]);
    let source = |name: &str| site.machine.source().join(name);
    for name in SOURCES {
        std::fs::create_dir(source(name)).unwrap();
        std::fs::write(source(name).join("file"), name).unwrap();
        site.node("web", &["backup", source(name).to_str().unwrap()]).ends(0);
    }
    let one = source("one");
    let file = format!("latest:{}", one.join("file").display());
    let target = site.folder("target");
    let runs = [
        &["backup", one.to_str().unwrap()][..],
        &["restore", &file, "--path", one.to_str().unwrap(), "--target", &target],
    ];
    for (words, most) in runs.into_iter().zip(REQUESTS_MAX) {
        let asked = |_| {
            let before = gateway.requests(&bucket).len();
            site.node("web", words).ends(0);
            gateway.requests(&bucket).split_off(before)
        };
        // The server looks after its pool and its leases meanwhile, which is not of the session.
        let least = (0..3).map(asked).min_by_key(Vec::len).unwrap();
        assert!(least.len() <= most, "{words:?}: {} {least:#?}", least.len());
    }
}
