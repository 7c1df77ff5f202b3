//! Where the domain of a connection lies: at the governing server, or where that one sends its nodes. All streams of a
//! connection share it.

use crate::Target;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// A storage server that does not answer for so long may have moved: the governing server knows.
const DOUBT_AFTER: Duration = Duration::from_secs(10);

/// The way to a domain.
pub(crate) struct Way {
    /// The governing server.
    pub(crate) governing: Target,
    led: Mutex<Led>,
}

#[derive(Default)]
struct Led {
    /// Host and port of the storage server.
    elsewhere: Option<(String, u16)>,
    lost_since: Option<Instant>,
}

impl Way {
    pub(crate) fn new(governing: &Target) -> Self {
        Self { governing: governing.clone(), led: Mutex::default() }
    }

    /// Where to connect now.
    pub(crate) fn target(&self) -> Target {
        match self.led.lock().elsewhere.clone() {
            Some((host, port)) => Target { host, port, ..self.governing.clone() },
            None => self.governing.clone(),
        }
    }

    /// Whether that is not the governing server.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.led.lock().elsewhere.is_some()
    }

    /// The governing server says where the domain lies: `None` for with itself.
    pub(crate) fn lead(&self, elsewhere: Option<(String, u16)>) {
        *self.led.lock() = Led { elsewhere, lost_since: None };
    }

    /// Somebody answered there.
    pub(crate) fn answered(&self) {
        self.led.lock().lost_since = None;
    }

    /// Nobody answered there.
    pub(crate) fn missed(&self) {
        self.led.lock().lost_since.get_or_insert_with(Instant::now);
    }

    /// Whether it is time to ask the governing server again; not more often than that.
    pub(crate) fn is_in_doubt(&self) -> bool {
        let mut led = self.led.lock();
        let is_late = led.lost_since.is_some_and(|since| since.elapsed() > DOUBT_AFTER);
        if is_late && led.elsewhere.is_some() {
            led.lost_since = Some(Instant::now());
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn way() -> Way {
        let roots = rustls::RootCertStore::empty();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Way::new(&Target {
            host: "backup".into(),
            port: 1,
            tls: Arc::new(tls),
            domain: String::new(),
            buffer_bytes: 0,
            streams: 0,
            limits: [0, 0],
            first_patience: Duration::ZERO,
            patience: Duration::ZERO,
            watch: Default::default(),
        })
    }

    #[test]
    fn the_way_leads_elsewhere_and_back() {
        let way = way();
        assert!(!way.is_elsewhere() && way.target().port == 1);
        way.lead(Some(("disk".into(), 2)));
        assert_eq!((way.target().host.as_str(), way.target().port), ("disk", 2));
        way.lead(None);
        assert_eq!(way.target().host, "backup");
    }

    #[test]
    fn a_storage_server_is_doubted_when_it_was_silent_for_long_and_not_at_every_try() {
        let way = way();
        way.lead(Some(("disk".into(), 2)));
        way.missed();
        assert!(!way.is_in_doubt(), "it may be starting");
        let long_ago = Instant::now().checked_sub(DOUBT_AFTER * 2);
        way.led.lock().lost_since = long_ago;
        way.missed();
        assert!(way.is_in_doubt() && !way.is_in_doubt());
        way.led.lock().lost_since = long_ago;
        way.answered();
        assert!(!way.is_in_doubt());
    }
}
