//! Requests for certificates, and certificates: what a machine with a token sends.
#![no_main]

use pki::{Authority, NodeKey};
use std::sync::OnceLock;

fn authority() -> &'static (Authority, String) {
    static MADE: OnceLock<(Authority, String)> = OnceLock::new();
    MADE.get_or_init(|| {
        let new = Authority::generate(1_800_000_000).expect("an authority");
        let authority = Authority::load(&new.certificate_pem, &new.key_pem).expect("the same");
        (authority, NodeKey::generate().expect("a key").request_pem)
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (authority, good) = authority();
    let _ = pki::inspect(bytes);
    // The input as it is, and as changes to a good request.
    let mut changed = good.clone().into_bytes();
    changed.iter_mut().zip(bytes).for_each(|(byte, change)| *byte ^= change);
    for request in [bytes, &changed] {
        let text = String::from_utf8_lossy(request);
        if let Ok(issued) = authority.issue_node(&text, "web", 1_800_000_000) {
            let facts = pki::inspect(&issued.der).expect("what we issue can be read");
            assert_eq!((facts.common_name.as_str(), facts.serial), ("web", issued.serial));
        }
    }
});
