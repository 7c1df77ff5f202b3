//! Where the domain of a connection lies: on the control server, or on the storage server that it redirects to. All
//! streams share it.

use crate::Endpoint;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// After this long without a connection the domain may have moved: the control server knows.
const RECHECK_AFTER: Duration = Duration::from_secs(10);

/// The route to a domain.
pub(crate) struct Route {
    /// The control server.
    pub(crate) control_server: Endpoint,
    redirection: Mutex<Redirection>,
}

#[derive(Default)]
struct Redirection {
    /// Host and port of the storage server.
    storage_server: Option<(String, u16)>,
    lost_since: Option<Instant>,
}

impl Route {
    pub(crate) fn new(control_server: &Endpoint) -> Self {
        Self { control_server: control_server.clone(), redirection: Mutex::default() }
    }

    /// Where to connect now.
    pub(crate) fn endpoint(&self) -> Endpoint {
        match self.redirection.lock().storage_server.clone() {
            Some((host, port)) => Endpoint { host, port, ..self.control_server.clone() },
            None => self.control_server.clone(),
        }
    }

    /// Host and port to connect to now.
    pub(crate) fn address(&self) -> (String, u16) {
        let endpoint = self.endpoint();
        (endpoint.host, endpoint.port)
    }

    /// Whether that is not the control server.
    pub(crate) fn is_redirected(&self) -> bool {
        self.redirection.lock().storage_server.is_some()
    }

    /// The control server says where the domain lies: `None` for with itself.
    pub(crate) fn redirect_to(&self, storage_server: Option<(String, u16)>) {
        *self.redirection.lock() = Redirection { storage_server, lost_since: None };
    }

    /// Somebody answered there.
    pub(crate) fn answered(&self) {
        self.redirection.lock().lost_since = None;
    }

    /// Nobody answered there.
    pub(crate) fn unreachable(&self) {
        self.redirection.lock().lost_since.get_or_insert_with(Instant::now);
    }

    /// Whether it is time to ask the control server again; not more often than that.
    pub(crate) fn is_recheck_due(&self) -> bool {
        let mut redirection = self.redirection.lock();
        let is_late = redirection.lost_since.is_some_and(|since| since.elapsed() > RECHECK_AFTER);
        if is_late && redirection.storage_server.is_some() {
            redirection.lost_since = Some(Instant::now());
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn route() -> Route {
        let roots = rustls::RootCertStore::empty();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Route::new(&Endpoint {
            host: "backup".into(),
            port: 1,
            tls: Arc::new(tls),
            domain: String::new(),
            what: String::new(),
            buffer_bytes: 0,
            streams: 0,
            limits: [0, 0],
            first_patience: Duration::ZERO,
            patience: Duration::ZERO,
            wait_control: Default::default(),
        })
    }

    #[test]
    fn the_route_leads_to_the_storage_server_and_back() {
        let route = route();
        assert!(!route.is_redirected() && route.endpoint().port == 1);
        route.redirect_to(Some(("disk".into(), 2)));
        assert_eq!((route.endpoint().host.as_str(), route.endpoint().port), ("disk", 2));
        route.redirect_to(None);
        assert_eq!(route.endpoint().host, "backup");
    }

    #[test]
    fn a_storage_server_is_doubted_when_it_was_silent_for_long_and_not_at_every_try() {
        let route = route();
        route.redirect_to(Some(("disk".into(), 2)));
        route.unreachable();
        assert!(!route.is_recheck_due(), "it may be starting");
        let long_ago = Instant::now().checked_sub(RECHECK_AFTER * 2);
        route.redirection.lock().lost_since = long_ago;
        route.unreachable();
        assert!(route.is_recheck_due() && !route.is_recheck_due());
        route.redirection.lock().lost_since = long_ago;
        route.answered();
        assert!(!route.is_recheck_due());
    }
}
