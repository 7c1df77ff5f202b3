//! Requests for certificates, and certificates: what a machine with a token sends.

use pki::{CertificateAuthority, NodeKey};
use std::sync::OnceLock;

fn ca() -> &'static (CertificateAuthority, String) {
    static MADE: OnceLock<(CertificateAuthority, String)> = OnceLock::new();
    MADE.get_or_init(|| {
        let new = CertificateAuthority::generate(1_800_000_000).expect("a certificate authority");
        let ca = CertificateAuthority::load(&new.certificate_pem, &new.key_pem).expect("the same");
        (ca, NodeKey::generate().expect("a key").request_pem)
    })
}

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    let (ca, good) = ca();
    let _ = pki::inspect(bytes);
    // The input as it is, and as changes to a good request.
    let mut changed = good.clone().into_bytes();
    changed.iter_mut().zip(bytes).for_each(|(byte, change)| *byte ^= change);
    for request in [bytes, &changed] {
        let text = String::from_utf8_lossy(request);
        if let Ok(issued) = ca.issue_node(&text, "web", 1_800_000_000) {
            let facts = pki::inspect(&issued.der).expect("what we issue can be read");
            assert_eq!((facts.common_name.as_str(), facts.serial), ("web", issued.serial));
        }
    }
}
