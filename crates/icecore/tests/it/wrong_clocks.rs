//! Machines of a site whose clocks differ.

use crate::storage_servers::Site;
use testkit::faketime;

/// Its snapshots get wrong times, and one that is ahead makes those behind it suspect.
#[test]
fn a_storage_server_with_another_time_is_an_alarm_until_it_is_right() {
    let Some(library) = faketime() else {
        return testkit::skip("a clock that is hours ahead: no libfaketime");
    };
    let mut site = Site::new();
    let ahead = [
        ("LD_PRELOAD", library),
        ("FAKETIME", "+3h"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("NO_FAKE_STAT", "1"),
    ];
    site.variables = ahead.map(|(name, value)| (name, value.to_owned())).into();
    site.restart_storage(|| ());
    site.variables.clear();
    site.wait_for("an alarm", |site| {
        told(site).contains("ALARM: disk: its clock is 3 h 0 min ahead")
    });
    let status = site.govern(&["status", "--json"]).ends(0).last();
    assert_eq!(status["alarms"], 1, "{status}");
    site.restart_storage(|| ());
    site.wait_for("its end", |site| !told(site).contains("ALARM"));
}

fn told(site: &Site) -> String {
    let ran = site.govern(&["storage-servers"]).ends(0);
    format!("{}{}", ran.stderr, ran.text())
}
