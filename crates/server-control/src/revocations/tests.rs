use super::Revocations;
use crate::Control;
use crate::catalog_mark::tests::{copied, replace};
use api::Token;
use api::enroll::{EnrollRequest, KeyMode, NewToken};
use api::storage_servers::{EnrollStorageServerRequest, NewStorageServerToken};
use catalog::certificates::Holder;
use pki::NodeKey;
use server_contract::access_control::{AccessControl, Node, Peer, Refusal};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use tempfile::TempDir;

const FROM: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn open(place: &TempDir) -> Arc<Control> {
    Control::open(place.path(), &[]).unwrap()
}

/// The certificate with which a machine that enrolls now shows itself.
fn enroll(control: &Control, node: &str) -> Peer {
    enroll_with(control, node, KeyMode::Client)
}

fn enroll_with(control: &Control, node: &str, keys: KeyMode) -> Peer {
    let new = NewToken { keys, ..NewToken::of(node.parse().unwrap()) };
    let token = control.make_token("admin", &new).unwrap().token;
    let request = EnrollRequest {
        secret: Token::parse(&token).unwrap().secret_text(),
        request: NodeKey::generate().unwrap().request_pem,
        slot_secret: "07".repeat(32),
        version: "1.0".into(),
        privacy: Default::default(),
    };
    let reply = control.enroll(FROM, &request).unwrap();
    let certificate = pki::client::certificate_of(&reply.certificate).unwrap().to_vec();
    Peer { certificate, address: FROM }
}

fn admitted(control: &Control, peer: &Peer) -> Result<Node, Refusal> {
    control.admit(peer)
}

/// Whoever acknowledges a revocation has written it.
fn is_in_file(place: &TempDir, peer: &Peer) {
    let text = fs::read_to_string(place.path().join(super::FILE)).unwrap();
    assert!(text.contains(&pki::inspect(&peer.certificate).unwrap().serial), "{text}");
}

fn is_refused(control: &Control, peer: &Peer, why: &str) {
    let refusal = control.admit(peer).unwrap_err();
    assert!(refusal.message.contains(why), "{}", refusal.message);
}

#[test]
fn what_was_revoked_removed_or_replaced_stays_so_in_an_older_catalog() {
    let place = tempfile::tempdir().unwrap();
    let control = open(&place);
    let [stolen, removed, replaced, good] =
        ["stolen", "removed", "replaced", "good"].map(|node| enroll(&control, node));
    drop(control);
    let copy = copied(&place);

    let control = open(&place);
    control.nodes.revoke("admin", &"stolen".parse().unwrap()).unwrap();
    is_in_file(&place, &stolen);
    control.nodes.remove("admin", &"removed".parse().unwrap()).unwrap();
    is_in_file(&place, &removed);
    let new = enroll(&control, "replaced");
    is_in_file(&place, &replaced);
    for (peer, why) in
        [(&stolen, "is revoked"), (&removed, "not issued"), (&replaced, "was enrolled again")]
    {
        // Which of the two says so is the same to its node.
        let refusal = control.admit(peer).unwrap_err().message;
        assert!(refusal.contains(why) || refusal.contains("is revoked"), "{refusal}");
    }
    assert!(admitted(&control, &new).is_ok() && admitted(&control, &good).is_ok());
    drop(control);

    replace(&place, Some(&copy));
    let control = open(&place);
    for peer in [&stolen, &removed, &replaced] {
        is_refused(&control, peer, "is revoked");
    }
    assert!(admitted(&control, &good).is_ok());
    let nodes = control.nodes.all().unwrap().nodes;
    let revoked: Vec<_> =
        nodes.iter().filter(|node| node.revoked).map(|it| it.name.as_str()).collect();
    assert_eq!(revoked, ["removed", "replaced", "stolen"], "the catalog knows it again");
    control.mark.confirm(crate::by("admin"), crate::now_secs()).unwrap();
    is_refused(&control, &stolen, "is revoked");
    // Under the same name another machine may come.
    let again = enroll(&control, "stolen");
    assert!(admitted(&control, &again).is_ok());
    is_refused(&control, &stolen, "was enrolled again");
    drop(control);
    assert!(admitted(&open(&place), &again).is_ok());
}

/// Its key is gone from the repository since, and the catalog does not know it.
#[test]
fn the_key_of_a_revoked_node_is_not_looked_for_for_ever() {
    let place = tempfile::tempdir().unwrap();
    let control = open(&place);
    let stolen = enroll_with(&control, "stolen", KeyMode::Managed);
    drop(control);
    let copy = copied(&place);
    let control = open(&place);
    control.nodes.revoke("admin", &"stolen".parse().unwrap()).unwrap();
    assert!(control.catalog.old_keys().unwrap().is_empty());
    drop(control);
    replace(&place, Some(&copy));
    let control = open(&place);
    assert_eq!(control.catalog.old_keys().unwrap().len(), 1);
    control.housekeeping();
    assert!(control.catalog.old_keys().unwrap().is_empty());
    is_refused(&control, &stolen, "is revoked");
}

#[test]
fn a_storage_server_that_was_revoked_stays_so_in_an_older_catalog() {
    let place = tempfile::tempdir().unwrap();
    let control = open(&place);
    let (storage, valid_secs) = ("disk".parse().unwrap(), None);
    let new = NewStorageServerToken { storage, valid_secs };
    let token = control.storage_servers.make_token("admin", &new).unwrap().token;
    let request = EnrollStorageServerRequest {
        secret: Token::parse(&token).unwrap().secret_text(),
        request: NodeKey::generate().unwrap().request_pem,
        names: vec!["disk.example.com".to_owned()],
        version: "1.0".to_owned(),
        pool_of: None,
    };
    let reply = control.storage_servers.enroll(FROM, &request).unwrap();
    let certificate = pki::client::certificate_of(&reply.certificate).unwrap().to_vec();
    let peer = Peer { certificate, address: FROM };
    assert!(control.storage_servers.admit(&peer).is_ok());
    drop(control);
    let copy = copied(&place);
    let control = open(&place);
    control.storage_servers.revoke("admin", &new.storage).unwrap();
    drop(control);
    replace(&place, Some(&copy));
    let control = open(&place);
    let refused = control.storage_servers.admit(&peer).unwrap_err().to_string();
    assert!(refused.contains("is revoked"), "{refused}");
    assert!(control.storage_servers.all().unwrap().storage_servers[0].revoked);
    let all = control.catalog.certificates().unwrap();
    assert!(all.iter().all(|one| one.revoked && one.of == Holder::StorageServer), "{all:?}");
}

/// What the catalog says for itself is not enough: it may be changed past the program.
#[test]
fn a_listed_certificate_is_refused_whatever_the_catalog_says() {
    let place = tempfile::tempdir().unwrap();
    let control = open(&place);
    let [one, other] = ["one", "other"].map(|node| enroll(&control, node));
    let all = control.catalog.certificates().unwrap();
    let listed: Vec<_> = all.into_iter().filter(|it| it.holder.as_str() == "one").collect();
    assert_eq!((listed.len(), listed[0].of, listed[0].revoked), (1, Holder::Node, false));
    control.mark.revocations().add(&listed).unwrap();
    is_refused(&control, &one, "is revoked");
    assert!(admitted(&control, &other).is_ok());
}

#[test]
fn without_its_list_a_server_admits_nobody_until_somebody_confirms() {
    for is_lost in [true, false] {
        let place = tempfile::tempdir().unwrap();
        let control = open(&place);
        let [stolen, other, good] = ["stolen", "other", "good"].map(|node| enroll(&control, node));
        for node in ["stolen", "other"] {
            control.nodes.revoke("admin", &node.parse().unwrap()).unwrap();
        }
        drop(control);
        let path = place.path().join(super::FILE);
        let whole = fs::read_to_string(&path).unwrap();
        match is_lost {
            true => fs::remove_file(&path).unwrap(),
            false => fs::write(&path, &whole[..whole.len() - 80]).unwrap(),
        }
        let control = open(&place);
        for peer in [&stolen, &other, &good] {
            is_refused(&control, peer, "the server admits nobody");
        }
        let faults = control.mark.faults();
        let what = if is_lost { "revoked is missing" } else { "revoked is damaged" };
        assert!(faults.len() == 1 && faults[0].contains(what), "{faults:?}");
        assert!(faults[0].contains("icecore server catalog confirm"), "{faults:?}");
        assert_eq!(path.exists(), !is_lost, "nothing is written in its place");
        control.mark.confirm(crate::by("admin"), crate::now_secs()).unwrap();
        assert_eq!(place.path().join(super::DAMAGED).exists(), !is_lost);
        assert!(admitted(&control, &good).is_ok());
        [&stolen, &other].iter().for_each(|peer| is_refused(&control, peer, "is revoked"));
        drop(control);
        let control = open(&place);
        assert_eq!(control.mark.faults(), [""; 0]);
        [&stolen, &other].iter().for_each(|peer| is_refused(&control, peer, "is revoked"));
    }
}

/// A catalog that has lost the revocations as well leaves those that a damaged file still names.
#[test]
fn what_a_damaged_list_still_names_stays_revoked() {
    let (first, second) = ("aa node web 5 9999999999", "bb storage-server disk 6 9999999999");
    let found = super::parse(&format!("{first}\n{second}\ncc node"));
    assert_eq!(found.keys().collect::<Vec<_>>(), ["aa", "bb"]);
    assert_eq!(super::text(&found), format!("{first}\n{second}\n"));
    assert!(super::parse("aa node web 5\nbb user web 5 6\ncc node web x 6\n").is_empty());
}

#[test]
fn a_server_without_a_list_makes_one_of_its_catalog() {
    let place = tempfile::tempdir().unwrap();
    let control = open(&place);
    let stolen = enroll(&control, "stolen");
    control.nodes.revoke("admin", &"stolen".parse().unwrap()).unwrap();
    let (folder, catalog) = (control.mark.revocations().folder.clone(), control.catalog.clone());
    fs::remove_file(folder.file(super::FILE)).unwrap();
    let made = Revocations::open(folder.clone(), catalog, false).unwrap();
    let serial = pki::inspect(&stolen.certificate).unwrap().serial;
    assert_eq!(made.holder_of(&serial).unwrap().unwrap().as_str(), "stolen");
    let text = fs::read_to_string(folder.file(super::FILE)).unwrap();
    assert!(text.contains(&serial), "{text}");
}
