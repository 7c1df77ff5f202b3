//! Certificate, names and address of the server itself.

use crate::certificate_issuer::CertificateIssuer;
use crate::{Error, Result, now_secs};
use parking_lot::{Mutex, RwLock};
use pki::{Issued, ServerCertificate, ServerNames};
use server_contract::folder::Folder;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zeroize::Zeroizing;

/// All names that the server was ever started with, one per line; to remove one, edit the file.
const NAMES: &str = "names";
/// Maximum number of names.
const NAMES_MAX: usize = 64;
/// The certificate is renewed when a third of its life is left: 30 days.
const RENEW_BEFORE_SECS: i64 = pki::certificate_authority::SERVER_SECS / 3;

/// Who the server is for its callers.
pub(crate) struct ServerIdentity {
    folder: Arc<Folder>,
    issuer: Arc<CertificateIssuer>,
    key: Zeroizing<String>,
    certificate: Arc<ServerCertificate>,
    expires: Mutex<i64>,
    tls: Arc<rustls::ServerConfig>,
    names: RwLock<ServerNames>,
    /// The first configured name.
    told_name: Option<String>,
    address: RwLock<String>,
    /// Whether it listens on loopback only.
    is_local: AtomicBool,
}

/// Whether a certificate of which so much is left has to be renewed.
fn is_due(left_secs: i64) -> bool {
    let is_of_the_future = left_secs > pki::certificate_authority::SERVER_SECS;
    left_secs < RENEW_BEFORE_SECS || is_of_the_future
}

impl ServerIdentity {
    /// The identity of the server whose files lie in `folder`. `names` are those of [`kept_names`]; nodes are told
    /// the first.
    ///
    /// # Errors
    /// [`Error::System`], [`Error::Pki`].
    pub(crate) fn open(
        folder: Arc<Folder>,
        issuer: Arc<CertificateIssuer>,
        names: &[String],
    ) -> Result<Self> {
        let key = folder.secret("server.key", new_key)?;
        let (told_name, names) = (names.first().cloned(), own_names(names));
        let issued = issuer.ca().issue_server(&key, &names, now_secs())?;
        let certificate = ServerCertificate::new(&issued, &key, issuer.ca().certificate())?;
        let tls = pki::server::server_config(certificate.clone(), issuer.ca().certificate())?;
        Ok(Self {
            expires: Mutex::new(issued.not_after_secs),
            tls: Arc::new(tls),
            names: RwLock::new(names),
            address: RwLock::default(),
            is_local: AtomicBool::default(),
            folder,
            issuer,
            key,
            certificate,
            told_name,
        })
    }

    /// It listens at `listen`: its certificate names this address too, and the file `address` says where it is
    /// reached.
    ///
    /// # Errors
    /// [`Error::System`], [`Error::Pki`].
    pub(crate) fn listens_at(&self, listen: SocketAddr) -> Result<()> {
        self.is_local.store(listen.ip().is_loopback(), Ordering::Relaxed);
        let bound = Some(listen.ip()).filter(|ip| !ip.is_unspecified());
        if let Some(ip) = bound {
            let mut names = self.names.write();
            if !names.addresses.contains(&ip) {
                names.addresses.push(ip);
            }
        }
        self.renew()?;
        let public = self.public_host(bound);
        let local = bound.map_or_else(|| "localhost".to_owned(), of_ip);
        let url = |host: &str| format!("https://{host}:{}", listen.port());
        *self.address.write() = url(&public);
        Ok(self.folder.publish("address", &format!("{}\n{}\n", url(&public), url(&local)))?)
    }

    /// The name that nodes are told: the configured one, else the listening address, else the host name.
    fn public_host(&self, bound: Option<IpAddr>) -> String {
        let given = self.told_name.clone().map(|name| name.parse().map_or(name, of_ip));
        given.or(bound.map(of_ip)).unwrap_or_else(host_name)
    }

    /// Issues a new certificate, used from the next connection on.
    ///
    /// # Errors
    /// [`Error::Pki`].
    fn renew(&self) -> Result<()> {
        let names: ServerNames = self.names.read().clone();
        let issued: Issued = self.issuer.ca().issue_server(&self.key, &names, now_secs())?;
        self.certificate.replace(&issued, &self.key, self.issuer.ca().certificate())?;
        *self.expires.lock() = issued.not_after_secs;
        Ok(())
    }

    /// Renews the certificate when it is time; also one that was made while the clock of the machine was ahead: no
    /// node would believe it before it begins.
    ///
    /// # Errors
    /// [`Error::Pki`].
    pub(crate) fn renew_if_due(&self, now_secs: i64) -> Result<()> {
        if is_due(self.expires() - now_secs) { self.renew() } else { Ok(()) }
    }

    /// When the certificate expires, seconds since 1970.
    pub(crate) fn expires(&self) -> i64 {
        *self.expires.lock()
    }

    /// TLS of the server, for both protocols, always with the current certificate.
    pub(crate) fn tls(&self) -> Arc<rustls::ServerConfig> {
        self.tls.clone()
    }

    /// URL under which nodes reach the server.
    pub(crate) fn address(&self) -> String {
        self.address.read().clone()
    }

    /// Its names and addresses.
    pub(crate) fn names(&self) -> ServerNames {
        self.names.read().clone()
    }

    /// Whether it listens on loopback only.
    pub(crate) fn is_local(&self) -> bool {
        self.is_local.load(Ordering::Relaxed)
    }
}

/// `given`, and the names of this machine for itself.
fn own_names(given: &[String]) -> ServerNames {
    let own = host_name();
    let given = given.iter().map(String::as_str);
    ServerNames::of(given.chain([own.as_str(), "localhost", "127.0.0.1", "::1"]))
}

/// The host name.
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase()
}

fn of_ip(ip: IpAddr) -> String {
    if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() }
}

fn new_key() -> Result<Zeroizing<String>> {
    Ok(Zeroizing::new(pki::certificate_authority::new_server_key()?))
}

/// The names that were given now, then those of starts before: a node that knows the server by one of them goes on.
///
/// # Errors
/// [`Error::Usage`] for what is no name, and for too many; [`Error::System`].
pub(crate) fn kept_names(folder: &Folder, given: &[String]) -> Result<Vec<String>> {
    let mut names = Vec::<String>::new();
    let kept = folder.text(NAMES)?.unwrap_or_default();
    for name in given.iter().map(String::as_str).chain(kept.lines()) {
        let name = name.trim().to_ascii_lowercase();
        if name.is_empty() || names.contains(&name) {
            continue;
        }
        if !pki::certificate_authority::is_name(&name) {
            let why = match given.iter().any(|it| it.trim().eq_ignore_ascii_case(&name)) {
                true => String::new(),
                false => format!(": remove the line from {}", folder.file(NAMES).display()),
            };
            return Err(Error::Usage(format!("'{name}' is not a host name or address{why}")));
        }
        names.push(name);
    }
    if names.len() > NAMES_MAX {
        let path = folder.file(NAMES);
        let why = format!("{} names more than {NAMES_MAX}: remove some lines", path.display());
        return Err(Error::Usage(why));
    }
    let text: String = names.iter().flat_map(|name| [name, "\n"]).collect();
    if text != kept {
        folder.publish(NAMES, &text)?;
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::is_due;
    use crate::Control;

    fn names(control: &Control) -> Vec<String> {
        control.identity.names().hosts
    }

    #[test]
    fn a_name_that_was_given_once_is_kept_and_the_first_of_this_start_is_told() {
        let place = tempfile::tempdir().unwrap();
        let open = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(|name| (*name).to_owned()).collect();
            Control::open(place.path(), &given)
        };
        drop(open(&["backup.example.com"]).unwrap());
        let again = open(&[]).unwrap();
        assert!(names(&again).contains(&"backup.example.com".to_owned()));
        assert_eq!(again.identity.told_name.as_deref(), Some("backup.example.com"));
        drop(again);
        let both = open(&["new.example.com"]).unwrap();
        assert_eq!(both.identity.told_name.as_deref(), Some("new.example.com"));
        assert!(names(&both).contains(&"backup.example.com".to_owned()));
    }

    #[test]
    fn what_is_no_name_is_refused_and_not_kept() {
        let place = tempfile::tempdir().unwrap();
        for bad in ["bad name", "", "-x", "a..b", "x_y", "a/b", "h\u{f6}st", "https://a"] {
            let opened = Control::open(place.path(), &[bad.to_owned()]);
            assert!(opened.is_err() || bad.is_empty(), "{bad}");
        }
        assert!(Control::open(place.path(), &["192.0.2.1".to_owned()]).is_ok());
    }

    #[test]
    fn a_certificate_is_renewed_in_time_and_when_it_begins_too_late() {
        let (day, life) = (86_400, pki::certificate_authority::SERVER_SECS);
        for (left, due) in [(life, false), (31 * day, false), (29 * day, true), (-1, true)] {
            assert_eq!(is_due(left), due, "{left}");
        }
        // It was made while the clock of the machine was 20 days ahead: nobody would believe it until then.
        assert!(is_due(life + 20 * day));
    }
}
