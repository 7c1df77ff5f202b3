//! Handshakes in memory, and what certificates say.

use super::*;
use rustls_pki_types::{CertificateDer, ServerName};
use std::io;

const NOW: i64 = 1_800_000_000;

struct Server {
    ca: CertificateAuthority,
    pem: String,
    config: Arc<rustls::ServerConfig>,
    certificate: Arc<ServerCertificate>,
    key: String,
}

/// By the clock of this machine: TLS looks at it.
fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs() as i64
}

fn ca() -> (CertificateAuthority, String) {
    let new = CertificateAuthority::generate(now()).unwrap();
    (CertificateAuthority::load(&new.certificate_pem, &new.key_pem).unwrap(), new.certificate_pem)
}

fn server() -> Server {
    let (ca, pem) = ca();
    let key = certificate_authority::new_server_key().unwrap();
    let names = ServerNames::of(["backup", "127.0.0.1"]);
    let issued = ca.issue_server(&key, &names, now()).unwrap();
    let certificate = ServerCertificate::new(&issued, &key, ca.certificate()).unwrap();
    let config = server::server_config(certificate.clone(), ca.certificate()).unwrap();
    Server { ca, pem, config: Arc::new(config), certificate, key }
}

/// A handshake; gives the protocol agreed on and the client's certificate.
fn shake(
    server: &Arc<rustls::ServerConfig>,
    client: rustls::ClientConfig,
    name: &str,
) -> std::result::Result<(Vec<u8>, Option<CertificateDer<'static>>), rustls::Error> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(client), name)?;
    let mut server = rustls::ServerConnection::new(server.clone())?;
    while client.is_handshaking() || server.is_handshaking() {
        pass(|out| client.write_tls(out), |input| server.read_tls(input));
        server.process_new_packets()?;
        pass(|out| server.write_tls(out), |input| client.read_tls(input));
        client.process_new_packets()?;
    }
    let alpn = server.alpn_protocol().unwrap_or_default().to_vec();
    let shown = server.peer_certificates().and_then(|chain| chain.first());
    Ok((alpn, shown.cloned().map(CertificateDer::into_owned)))
}

fn pass(
    mut from: impl FnMut(&mut dyn io::Write) -> io::Result<usize>,
    mut to: impl FnMut(&mut dyn io::Read) -> io::Result<usize>,
) {
    let mut bytes = Vec::new();
    while from(&mut bytes).unwrap() > 0 {}
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        to(&mut rest).unwrap();
    }
}

fn prefix(ca: &CertificateAuthority) -> [u8; 16] {
    ca.fingerprint()[..16].try_into().unwrap()
}

#[test]
fn a_node_and_its_server_know_each_other() {
    let server = server();
    let key = NodeKey::generate().unwrap();
    let issued = server.ca.issue_node(&key.request_pem, "web", now()).unwrap();
    for alpn in [ALPN_DATA, ALPN_HTTP] {
        let identity = Some((issued.pem.as_str(), key.key_pem.as_str()));
        let config = client::client_config(&server.pem, identity, alpn).unwrap();
        let (agreed, shown) = shake(&server.config, config, "backup").unwrap();
        assert_eq!((agreed.as_slice(), shown.as_ref()), (alpn, Some(&issued.der)));
    }
}

#[test]
fn who_shows_no_certificate_is_let_through_to_who_admits() {
    let server = server();
    let config = client::client_config(&server.pem, None, ALPN_HTTP).unwrap();
    assert_eq!(shake(&server.config, config, "127.0.0.1").unwrap().1, None);
}

#[test]
fn a_stranger_is_no_server_and_no_node() {
    let (own, other) = (server(), server());
    let config = client::client_config(&own.pem, None, ALPN_HTTP).unwrap();
    assert!(shake(&other.config, config, "backup").is_err());
    let config = client::pinned_config(&prefix(&own.ca), ALPN_HTTP).unwrap();
    assert!(shake(&other.config, config, "backup").is_err());
    let key = NodeKey::generate().unwrap();
    let issued = other.ca.issue_node(&key.request_pem, "web", now()).unwrap();
    let identity = Some((issued.pem.as_str(), key.key_pem.as_str()));
    let config = client::client_config(&own.pem, identity, ALPN_HTTP).unwrap();
    assert!(shake(&own.config, config, "backup").is_err());
}

#[test]
fn a_fingerprint_is_enough_and_the_name_must_fit_too() {
    let server = server();
    let config = || client::pinned_config(&prefix(&server.ca), ALPN_HTTP).unwrap();
    assert!(shake(&server.config, config(), "backup").is_ok());
    assert!(shake(&server.config, config(), "other").is_err());
}

#[test]
fn a_node_cannot_play_the_server() {
    let server = server();
    let key = NodeKey::generate().unwrap();
    let issued = server.ca.issue_node(&key.request_pem, "backup", now()).unwrap();
    let shown = ServerCertificate::new(&issued, &key.key_pem, server.ca.certificate());
    let config = server::server_config(shown.unwrap(), server.ca.certificate()).unwrap();
    let pinned = client::pinned_config(&prefix(&server.ca), ALPN_HTTP).unwrap();
    assert!(shake(&Arc::new(config), pinned, "backup").is_err());
}

#[test]
fn a_certificate_that_ended_is_refused_by_both_sides() {
    let server = server();
    let long_ago = now() - 200 * 86_400;
    let key = NodeKey::generate().unwrap();
    let issued = server.ca.issue_node(&key.request_pem, "web", long_ago).unwrap();
    let identity = Some((issued.pem.as_str(), key.key_pem.as_str()));
    let config = client::client_config(&server.pem, identity, ALPN_DATA).unwrap();
    assert!(shake(&server.config, config, "backup").is_err());
    let names = ServerNames::of(["backup"]);
    let old = server.ca.issue_server(&server.key, &names, long_ago).unwrap();
    server.certificate.replace(&old, &server.key, server.ca.certificate()).unwrap();
    let config = client::client_config(&server.pem, None, ALPN_DATA).unwrap();
    assert!(shake(&server.config, config, "backup").is_err());
    let fresh = server.ca.issue_server(&server.key, &names, now()).unwrap();
    server.certificate.replace(&fresh, &server.key, server.ca.certificate()).unwrap();
    let config = client::client_config(&server.pem, None, ALPN_DATA).unwrap();
    assert!(shake(&server.config, config, "backup").is_ok(), "replaced while it runs");
}

#[test]
fn a_certificate_says_whose_it_is_and_until_when() {
    let (ca, _) = ca();
    let key = NodeKey::generate().unwrap();
    let issued = ca.issue_node(&key.request_pem, "web-01.example", NOW).unwrap();
    let facts = inspect(&issued.der).unwrap();
    assert_eq!((facts.serial.as_str(), facts.serial.len()), (issued.serial.as_str(), 32));
    assert_eq!(facts.common_name, "web-01.example");
    assert_eq!(facts.not_after_secs, NOW + certificate_authority::NODE_SECS);
    assert_eq!(facts.not_before_secs, NOW - 3600);
    assert!(inspect(&issued.der[..100]).is_err() && inspect(&[]).is_err());
}

#[test]
fn a_request_gets_only_what_nodes_get() {
    let (ca, _) = ca();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["backup".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, "admin");
    let request = params.serialize_request(&key).unwrap().pem().unwrap();
    let Ok(issued) = ca.issue_node(&request, "web", NOW) else {
        return; // refused is as good
    };
    let (_, parsed) = x509_parser::parse_x509_certificate(&issued.der).unwrap();
    assert!(!parsed.is_ca() && parsed.subject_alternative_name().unwrap().is_none());
    let uses = parsed.extended_key_usage().unwrap().unwrap().value;
    assert!(uses.client_auth && !uses.server_auth && !uses.any);
    assert_eq!(inspect(&issued.der).unwrap().common_name, "web");
}

#[test]
fn what_is_no_request_is_refused() {
    let (ca, pem) = ca();
    let good = NodeKey::generate().unwrap().request_pem;
    let mut forged = good.clone().into_bytes();
    let at = good.len() / 2;
    forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).unwrap();
    let long = good.repeat(100);
    let other_kind = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let other_kind = rcgen::CertificateParams::default().serialize_request(&other_kind).unwrap();
    let other_kind = other_kind.pem().unwrap();
    for request in ["", "x", pem.as_str(), &forged, &long, &other_kind] {
        assert!(ca.issue_node(request, "web", NOW).is_err());
    }
}

#[test]
fn names_are_sorted_into_hosts_and_addresses_once() {
    let names = ServerNames::of(["a", "::1", "a", "192.0.2.1", "::1"]);
    assert_eq!(names.hosts, ["a"]);
    assert_eq!(names.addresses.len(), 2);
}

#[test]
fn a_storage_server_serves_and_asks_with_one_certificate_under_its_names_only() {
    let server = server();
    let key = NodeKey::generate().unwrap();
    let names = ServerNames::of(["disk.example.com"]);
    let issued = server.ca.issue_storage(&key.request_pem, "storage:disk", &names, now()).unwrap();
    let kept = Issued::from_pem(&issued.pem).unwrap();
    assert_eq!((&kept.der, &kept.serial), (&issued.der, &issued.serial));
    let identity = Some((issued.pem.as_str(), key.key_pem.as_str()));
    let config = client::client_config(&server.pem, identity, ALPN_HTTP).unwrap();
    assert_eq!(shake(&server.config, config, "backup").unwrap().1, Some(issued.der.clone()));
    let shown = ServerCertificate::new(&kept, &key.key_pem, server.ca.certificate());
    let own = server::server_config(shown.unwrap(), server.ca.certificate()).unwrap();
    let own = Arc::new(own);
    let pinned = || client::pinned_config(&prefix(&server.ca), ALPN_HTTP).unwrap();
    assert!(shake(&own, pinned(), "disk.example.com").is_ok());
    assert!(shake(&own, pinned(), "backup").is_err(), "it cannot play the server");
}
