//! What the folder is when something fails on the way, and what is not believed of an answer.

use crate::storage_server::StorageIdentity;
use crate::{Error, Identity, Url, enroll, identity};
use api::Token;
use api::enroll::{EnrollReply, KeyMode, Role};
use pki::{CertificateAuthority, NodeKey};
use std::path::Path;

const NOW: i64 = 1_800_000_000;

struct Answer {
    told: EnrollReply,
    key_pem: String,
    token: Token,
}

/// What a server would tell, and a token of it.
fn answer(node: &str) -> Answer {
    let new = CertificateAuthority::generate(NOW).unwrap();
    let ca = CertificateAuthority::load(&new.certificate_pem, &new.key_pem).unwrap();
    let key = NodeKey::generate().unwrap();
    let issued = ca.issue_node(&key.request_pem, node, NOW).unwrap();
    let told = EnrollReply {
        node: node.parse().unwrap(),
        domain: node.parse().unwrap(),
        keys: KeyMode::Managed,
        role: Role::WriteOnly,
        settings: Default::default(),
        repository: Some("00".repeat(16)),
        key: Some("11".repeat(8)),
        certificate: issued.pem,
        ca_certificate: new.certificate_pem,
        expires: issued.not_after_secs,
    };
    let prefix = ca.fingerprint()[..16].try_into().unwrap();
    Answer { told, key_pem: key.key_pem, token: Token { secret: [1; 16], ca_fingerprint: prefix } }
}

fn server() -> Url {
    "https://backup:9000".parse().unwrap()
}

fn keep(folder: &Path, answer: &Answer) -> crate::Result<()> {
    identity::keep(folder, &server(), &answer.told, &answer.key_pem, &"07".repeat(32))
}

#[test]
fn what_is_kept_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    keep(folder.path(), &answer("web")).unwrap();
    let identity = Identity::load(folder.path()).unwrap();
    assert_eq!((identity.server.host.as_str(), identity.server.port), ("backup", 9000));
    assert_eq!((identity.agent.node.as_str(), identity.agent.role), ("web", Role::WriteOnly));
    assert_eq!(*identity.slot_secret.clone().unwrap(), [7; 32]);
    assert!(identity.tls(pki::ALPN_DATA).is_ok());
    let left = |days: i64| identity.is_renewal_due(NOW + (30 - days) * 86_400);
    assert!(!left(11) && left(9));
    identity::note_repository(folder.path(), "ab").unwrap();
    let agent = identity::agent(folder.path()).unwrap().unwrap();
    assert_eq!(agent.repository.as_deref(), Some("ab"));
}

/// Each file in turn cannot be written: a folder stands in its way.
#[test]
fn an_identity_that_is_half_written_is_none() {
    for name in ["ca.pem", "node.pem", "managed.key", "agent.toml"] {
        let folder = tempfile::tempdir().unwrap();
        keep(folder.path(), &answer("old")).unwrap();
        let hurdle = folder.path().join(format!("{name}.part"));
        std::fs::create_dir(&hurdle).unwrap();
        assert!(keep(folder.path(), &answer("new")).is_err(), "{name}");
        let loaded = Identity::load(folder.path());
        assert!(matches!(loaded, Err(Error::NotEnrolled { .. })), "{name}");
        std::fs::remove_dir(&hurdle).unwrap();
        keep(folder.path(), &answer("new")).unwrap();
        assert_eq!(Identity::load(folder.path()).unwrap().agent.node.as_str(), "new");
    }
}

#[test]
fn files_that_do_not_hold_what_they_should_are_named() {
    for name in ["node.pem", "managed.key", "agent.toml"] {
        let folder = tempfile::tempdir().unwrap();
        keep(folder.path(), &answer("web")).unwrap();
        std::fs::write(folder.path().join(name), "nonsense").unwrap();
        match Identity::load(folder.path()) {
            Err(Error::Damaged { path, .. }) => assert!(path.ends_with(name)),
            other => panic!("{name}: {:?}", other.err()),
        }
    }
}

/// Who follows the hint of a node makes a node of it, and its repositories have no server.
#[test]
fn a_storage_server_with_damaged_files_is_enrolled_as_one_again() {
    for name in ["storage.pem", "storage.toml"] {
        let folder = tempfile::tempdir().unwrap();
        let settings = "server = \"https://backup:9000\"\nstorage = \"box\"\nlisten = \"[::]:1\"\nnames = []\n";
        for (file, text) in [("storage.toml", settings), ("ca.pem", ""), ("storage.pem", "")] {
            let text = if file == name { "nonsense" } else { text };
            crate::files::write(&folder.path().join(file), text).unwrap();
        }
        let error = StorageIdentity::load(folder.path()).err().unwrap();
        assert!(error.to_string().contains(name), "{error}");
        let hint = error.hint().unwrap();
        assert!(hint.ends_with("icecore storage enroll --replace URL TOKEN"), "{hint}");
    }
}

#[test]
fn a_ca_that_the_token_does_not_name_is_refused() {
    let (own, other) = (answer("web"), answer("web"));
    assert!(enroll::check(&server(), &own.token, &own.told).is_ok());
    let refused = enroll::check(&server(), &own.token, &other.told).unwrap_err();
    assert!(matches!(refused, Error::Stranger { .. }));
    let mut broken = own.told;
    broken.certificate = "none".into();
    assert!(enroll::check(&server(), &own.token, &broken).is_err());
}

/// Enrolls in a domain whose keys only nodes know.
fn keep_own(folder: &Path, domain: &str, repository: Option<&str>) {
    let mut answer = answer(domain);
    answer.told.keys = KeyMode::Client;
    answer.told.repository = repository.map(str::to_owned);
    keep(folder, &answer).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.contains(".key")).collect();
    names.sort();
    names
}

#[test]
fn an_older_version_had_both_secrets_in_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, slot) = (folder.path(), folder.path().join("slot.key"));
    keep(path, &answer("web")).unwrap();
    std::fs::rename(path.join("managed.key"), &slot).unwrap();
    assert_eq!(*Identity::load(path).unwrap().slot_secret.unwrap(), [7; 32], "it is read there");
    keep_own(path, "own", None);
    let aside = format!("slot.key.{}", "00".repeat(16));
    assert_eq!(names(path), [aside.as_str()], "the server has seen it");
    // Of a domain whose keys only nodes know, it goes on.
    std::fs::write(&slot, "own").unwrap();
    keep_own(path, "own", None);
    keep(path, &answer("web")).unwrap();
    keep_own(path, "other", None);
    assert_eq!(names(path), ["managed.key", "slot.key", &aside]);
    assert_eq!(std::fs::read_to_string(&slot).unwrap(), "own");
}

#[test]
fn a_secret_of_unknown_origin_seals_nothing_new() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("slot.key"), "put here by hand").unwrap();
    keep_own(path, "own", Some("ab"));
    assert_eq!(names(path), ["slot.key"], "it may be what opens the repository");
    // Twice: what was set aside is not written over.
    for count in 1..=2 {
        std::fs::write(path.join("agent.toml"), "nonsense").unwrap();
        std::fs::write(path.join("slot.key"), "whose").unwrap();
        keep_own(path, "own", None);
        assert_eq!(names(path), ["slot.key.unknown", "slot.key.unknown.2"][..count]);
    }
}

/// The server says which repository a domain has: that is no path.
#[test]
fn what_is_set_aside_stays_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    keep_own(path, "own", Some("../../x"));
    std::fs::write(path.join("recovery.key"), "of own").unwrap();
    keep_own(path, "own", None);
    assert_eq!(names(path), ["recovery.key"], "the same domain");
    keep_own(path, "own", Some("../x"));
    keep_own(path, "own", Some("ab"));
    assert_eq!(names(path), ["recovery.key.own"]);
}

#[test]
fn what_lies_above_a_folder_of_ours_is_as_any_other() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().unwrap();
    let [above, other] = ["above", "other"].map(|name| place.path().join(name));
    crate::files::make_folder(&above.join("agent")).unwrap();
    std::fs::create_dir(&other).unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&above.join("agent")), mode(&above)), (0o700, mode(&other)));
}

/// Any certificate that could be read took the place of the old one, and with it the identity of the machine.
#[test]
fn no_certificate_of_another_key_name_or_authority_is_the_next_one() {
    let (own, stranger) = (authority(), authority());
    let [key, other] = [NodeKey::generate().unwrap(), NodeKey::generate().unwrap()];
    let of = |(ca, _): &(CertificateAuthority, String), key: &NodeKey, name: &str| {
        ca.issue_node(&key.request_pem, name, NOW).unwrap().pem
    };
    let check = |certificate: &str| {
        crate::renew::check(&server(), certificate, (&own.1, &key.key_pem, "web"))
    };
    check(&of(&own, &key, "web")).unwrap();
    for (what, certificate) in [
        ("another key", of(&own, &other, "web")),
        ("'db'", of(&own, &key, "db")),
        ("certificate authority", of(&stranger, &key, "web")),
        ("cannot be read", "nonsense".to_owned()),
    ] {
        let error = check(&certificate).unwrap_err();
        assert!(matches!(error, Error::WrongCertificate { .. }), "{what}");
        let said = error.to_string();
        assert!(said.contains(what) && said.contains("the old one stays"), "{what}: {said}");
        assert!(error.hint().unwrap().contains("icecore agent status"));
    }
}

fn authority() -> (CertificateAuthority, String) {
    let new = CertificateAuthority::generate(NOW).unwrap();
    let ca = CertificateAuthority::load(&new.certificate_pem, &new.key_pem).unwrap();
    (ca, new.certificate_pem)
}
