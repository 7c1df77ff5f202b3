//! Where new domains lie: as a unit of the site says, unless the token says otherwise.

use crate::server_pools::add;
use crate::storage_servers::Site;

const SITE: &str = r#"
[unit.databases]
on = "disk"

[unit.archive]
pool = "slow"

[unit.plain]
max_jobs = 2
"#;

fn apply(site: &Site, text: &str) -> crate::machine::Ran {
    let file = site.machine.path("site.toml");
    std::fs::write(&file, text).unwrap();
    site.govern(&["apply", file.to_str().unwrap(), "--yes"])
}

/// On which storage server and in which pool a token says that the domain of `node` lies.
fn placed(site: &Site, node: &str, more: &[&str]) -> [Option<String>; 3] {
    let said = site.govern(&[&["token", node, "--json"], more].concat()).ends(0).last();
    ["storage", "pool", "unit"].map(|key| said[key].as_str().map(str::to_owned))
}

fn texts(parts: [&str; 3]) -> [Option<String>; 3] {
    parts.map(|part| (!part.is_empty()).then(|| part.to_owned()))
}

#[test]
fn a_new_domain_lies_where_its_unit_says_and_an_old_one_where_it_lay() {
    let site = Site::new();
    add(&site, "slow");
    apply(&site, SITE).ends(0);
    assert_eq!(placed(&site, "a", &["--unit", "databases"]), texts(["disk", "", "databases"]));
    assert_eq!(placed(&site, "a", &["--unit", "archive"]), texts(["", "slow", "archive"]));
    assert_eq!(placed(&site, "a", &["--unit", "plain"]), texts(["", "", ""]));
    for more in [&[][..], &["--unit", "default"]] {
        assert_eq!(placed(&site, "a", more), texts(["", "", ""]), "nobody has said anything");
    }
    let shown = site.govern(&["token", "a", "--unit", "archive"]).ends(0).text();
    assert!(shown.contains("'a' lies in pool 'slow', as the unit 'archive' says"), "{shown}");
    // The unit `default` is that of all tokens that name none; who names a place needs no unit.
    apply(&site, &format!("{SITE}[unit.default]\non = \"any\"\n")).ends(0);
    assert_eq!(placed(&site, "a", &[]), texts(["disk", "", "default"]));
    assert_eq!(placed(&site, "a", &["--pool", "main"]), texts(["", "main", ""]));
    assert_eq!(placed(&site, "a", &["--on", "disk"]), texts(["disk", "", ""]));
    site.enroll_in("web", &[]);
    site.enroll_in("old", &["--pool", "slow"]);
    for (node, at) in [("web", "disk/pool/domains/web"), ("old", "disk-slow/domains/old")] {
        site.node(node, &["backup", &site.folder("source")]).ends(0);
        assert!(site.machine.path(at).join("config").exists(), "{at}");
    }
    assert_eq!(placed(&site, "web", &["--unit", "archive"]), texts(["disk", "", ""]));
    assert_eq!(placed(&site, "old", &[]), texts(["", "", ""]), "it stays where it is");
}

#[test]
fn a_unit_that_cannot_be_meant_so_is_refused_when_it_is_declared_or_used() {
    let site = Site::new();
    for (text, why) in [
        ("[unit.a]\npool = \"fast\"\n", "add it: icecore server pool add fast"),
        ("[unit.a]\non = \"desk\"\n", "did you mean 'disk'?"),
        ("[unit.a]\npool = \"main\"\non = \"disk\"\n", "remove one of the two"),
    ] {
        let refused = apply(&site, text).ends(2);
        assert!(refused.stderr.contains(why), "{text}: {}", refused.stderr);
    }
    let refused = site.govern(&["token", "a", "--unit", "fast"]).ends(2);
    assert!(refused.stderr.contains("there is no unit 'fast'"), "{}", refused.stderr);
    site.govern(&["token", "a", "--unit", "fast", "--pool", "main"]).ends(2);
    // What others need is not removed, and it is said who needs it.
    let needs = "[unit.a]\n[group.all]\nall = true\n[policy.p]\nunit = \"a\"\ngroups = [\"all\"]\npaths = [\"/etc\"]\n";
    apply(&site, needs).ends(0);
    let refused = site.govern(&["unit", "remove", "a", "--yes"]).ends(2).stderr;
    assert!(refused.contains("the unit 'a' is needed by the policy p"), "{refused}");
    assert!(refused.contains("icecore server policy change p"), "{refused}");
    // Gone since it was declared: nobody chooses another one instead.
    apply(&site, "[unit.default]\non = \"disk\"\n").ends(0);
    site.govern(&["revoke", "disk", "--storage"]).ends(0);
    let refused = site.govern(&["token", "a"]);
    assert!(refused.code != 0 && refused.stderr.contains("disk"), "{}", refused.stderr);
}
