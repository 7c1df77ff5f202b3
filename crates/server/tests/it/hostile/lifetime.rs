//! Certificates that end soon.

use crate::hostile::server::{Machine, Whole};
use access::Identity;
use std::sync::Arc;

/// `machine` with a certificate that ends in so many seconds.
pub(crate) fn ending_in(server: &Whole, machine: &Machine, secs: i64) -> Machine {
    let data = server.folder("data");
    let file = |name: &str| std::fs::read_to_string(data.join(name)).unwrap();
    let ca = pki::CertificateAuthority::load(&file("ca/ca.pem"), &file("ca/ca.key")).unwrap();
    let key = pki::NodeKey::generate().unwrap();
    let name = machine.identity.agent.node.clone();
    let long_ago =
        jiff::Timestamp::now().as_second() + secs - pki::certificate_authority::NODE_SECS;
    let issued = ca.issue_node(&key.request_pem, name.as_str(), long_ago).unwrap();
    let known = catalog::certificates::Certificate {
        serial: issued.serial.clone(),
        not_before: issued.not_before_secs,
        not_after: issued.not_after_secs,
    };
    let by = catalog::By { who: "test", now_secs: long_ago };
    let beside =
        catalog::Catalog::open(&catalog::Location::file(data.join("catalog.sqlite"))).unwrap();
    let asked = catalog::certificates::Renewal {
        of: catalog::certificates::Holder::Node,
        holder: &name,
        predecessor: &machine.identity.certificate.serial,
        key: &[0; 32],
        next: &known,
        pem: &issued.pem,
        version: "1",
    };
    beside.renew(by, asked).unwrap();
    let folder = server.folder(name.as_str());
    std::fs::write(folder.join("node.pem"), format!("{}{}", issued.pem, key.key_pem)).unwrap();
    Machine { identity: Arc::new(Identity::load(&folder).unwrap()), ..machine.clone() }
}
