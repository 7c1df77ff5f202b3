//! Heads of manifests, receipts, and expiries: whatever decodes is encoded to the same bytes, save for an
//! extension, which a reader of this version passes over.

use format::expiry::Expiry;
use format::manifest::Head;
use format::receipt::Receipt;

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    if let Ok((head, signature)) = Head::decode(bytes) {
        let encoded = head.encode();
        // The length of the extension comes last.
        let fixed = encoded.len() - 2;
        assert_eq!(encoded[..fixed], bytes[..fixed]);
        assert!(bytes.ends_with(&signature));
    }
    if let Ok((receipt, signature)) = Receipt::decode(bytes) {
        assert_eq!([&receipt.encode()[..], &signature].concat(), bytes);
    }
    if let Ok((expiry, signature)) = Expiry::decode(bytes) {
        assert_eq!([&expiry.encode()[..], &signature].concat(), bytes);
    }
}
