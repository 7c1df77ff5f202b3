//! Starting a server: everything that is missing is created, so that the first start needs no other step.

use super::folder::Folder;
use super::sealing::{self, MasterKey};
use super::setup::{host_name, new_certificate, own_names};
use super::{Control, Direct, Error, Result, SERVER, random};
use catalog::{By, Catalog};
use parking_lot::{Mutex, RwLock};
use pki::{ServerCertificate, ServerNames};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zeroize::Zeroizing;

/// All names that the server was ever started with, one per line; to remove one, edit the file.
const NAMES: &str = "names";
/// Maximum number of names.
const NAMES_MAX: usize = 64;

impl Control {
    /// Opens the server whose files lie in `folder`, and creates it if there is none. `names` are further names and
    /// addresses under which it is reached; nodes are told the first.
    ///
    /// # Errors
    /// [`Error::InUse`] when it is already running; [`Error::File`], [`Error::Catalog`], [`Error::Pki`].
    pub fn open(folder: &Path, names: &[String]) -> Result<Arc<Self>> {
        let now_secs = jiff::Timestamp::now().as_second();
        let folder = Folder::open(folder)?;
        let names = &kept_names(&folder, names)?;
        let (ca, ca_pem) = open_ca(&folder, now_secs)?;
        let server_key = folder.secret("server.key", pki_key)?;
        let catalog = Catalog::open(&folder.catalog()?)?;
        let master = open_master(&folder, &catalog)?;
        let admin_token = folder.secret("admin-token", new_admin_token)?;
        let issued = new_certificate(&ca, &server_key, &own_names(names), now_secs)?;
        let certificate = ServerCertificate::new(&issued, &server_key, ca.certificate())?;
        let tls = pki::server::server_config(certificate.clone(), ca.certificate())?;
        let control = Self {
            certificate_expires: Mutex::new(issued.not_after_secs),
            tls: Arc::new(tls),
            address: RwLock::default(),
            is_local: Default::default(),
            repositories: RwLock::new(Arc::new(Direct)),
            revocations: Default::default(),
            activity: Default::default(),
            jobs: Default::default(),
            limits: RwLock::default(),
            attempts: Default::default(),
            command_signal: Default::default(),
            storage_servers: Default::default(),
            deleting: Default::default(),
            soon: Default::default(),
            key_locks: Default::default(),
            refusals: Default::default(),
            started: now_secs,
            told_name: names.first().cloned(),
            names: RwLock::new(own_names(names)),
            folder,
            catalog,
            ca,
            ca_pem,
            server_key,
            certificate,
            master,
            admin_token,
        };
        control.begin()?;
        Ok(Arc::new(control))
    }

    /// The first steps of a start.
    fn begin(&self) -> Result<()> {
        let lost = self.catalog.lose_running_jobs(self.now_secs())?;
        let by = By { who: SERVER, now_secs: self.now_secs() };
        let detail = format!("version {}", env!("CARGO_PKG_VERSION"));
        self.catalog.audit_note(by, "server.start", "", &detail)?;
        tracing::info!(lost_jobs = lost, "catalog opened");
        self.load_limits()
    }

    /// The server listens at `listen`: its certificate names this address too, and `address` says where it is reached.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Pki`].
    pub fn listens_at(&self, listen: SocketAddr) -> Result<()> {
        self.is_local.store(listen.ip().is_loopback(), Ordering::Relaxed);
        let bound = Some(listen.ip()).filter(|ip| !ip.is_unspecified());
        if let Some(ip) = bound {
            let mut names = self.names.write();
            if !names.addresses.contains(&ip) {
                names.addresses.push(ip);
            }
        }
        self.renew_certificate()?;
        let public = self.public_host(bound);
        let local = bound.map_or_else(|| "localhost".to_owned(), of_ip);
        let url = |host: &str| format!("https://{host}:{}", listen.port());
        *self.address.write() = url(&public);
        self.folder.publish("address", &format!("{}\n{}\n", url(&public), url(&local)))
    }

    /// The name that nodes are told: the configured one, else the listening address, else the host name.
    fn public_host(&self, bound: Option<IpAddr>) -> String {
        let given = self.told_name.clone().map(|name| name.parse().map_or(name, of_ip));
        given.or(bound.map(of_ip)).unwrap_or_else(host_name)
    }

    /// Issues a new certificate for the server, used from the next connection on.
    ///
    /// # Errors
    /// [`Error::Pki`].
    pub fn renew_certificate(&self) -> Result<()> {
        let names: ServerNames = self.names.read().clone();
        let issued = new_certificate(&self.ca, &self.server_key, &names, self.now_secs())?;
        let shown = &self.certificate;
        shown.replace(&issued, &self.server_key, self.ca.certificate())?;
        *self.certificate_expires.lock() = issued.not_after_secs;
        Ok(())
    }

    /// URL under which nodes reach the server.
    pub fn address(&self) -> String {
        self.address.read().clone()
    }
}

/// The key of the sealed secrets. A new one only where nothing is sealed yet: else all would look well
/// until the first that is needed.
pub(super) fn open_master(folder: &Folder, catalog: &Catalog) -> Result<MasterKey> {
    let is_sealed = catalog.domains()?.iter().any(|domain| domain.sealed.is_some());
    let text = folder.secret("master.key", || match is_sealed {
        true => Err(Error::NoMasterKey { path: folder.file("master.key") }),
        false => sealing::new_key(),
    })?;
    MasterKey::from_text(&text)
}

fn of_ip(ip: IpAddr) -> String {
    if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() }
}

/// The key is written first: a certificate is useless without it, and a key without a certificate is replaced.
fn open_ca(folder: &Folder, now_secs: i64) -> Result<(pki::CertificateAuthority, String)> {
    if folder.text("ca/ca.pem")?.is_none() {
        let new = pki::CertificateAuthority::generate(now_secs)?;
        let _ = std::fs::remove_file(folder.file("ca/ca.key")); // of a start that was killed
        folder.secret("ca/ca.key", || Ok(Zeroizing::new(new.key_pem)))?;
        folder.publish("ca/ca.pem", &new.certificate_pem)?;
    }
    let missing = |name: &str| {
        let path = folder.file(name);
        Error::file(&path)(std::io::ErrorKind::NotFound.into())
    };
    let pem = folder.text("ca/ca.pem")?.ok_or_else(|| missing("ca/ca.pem"))?;
    let key = folder.secret("ca/ca.key", || Err(missing("ca/ca.key")))?;
    Ok((pki::CertificateAuthority::load(&pem, &key)?, pem))
}

fn pki_key() -> Result<Zeroizing<String>> {
    Ok(Zeroizing::new(pki::certificate_authority::new_server_key()?))
}

fn new_admin_token() -> Result<Zeroizing<String>> {
    Ok(Zeroizing::new(data_encoding::HEXLOWER.encode(&random::<32>()?[..])))
}

/// The names that were given now, then those of starts before: a node that knows the server by one of them goes on.
fn kept_names(folder: &Folder, given: &[String]) -> Result<Vec<String>> {
    let mut names = Vec::<String>::new();
    let kept = folder.text(NAMES)?.unwrap_or_default();
    for name in given.iter().map(String::as_str).chain(kept.lines()) {
        let name = name.trim().to_ascii_lowercase();
        if name.is_empty() || names.contains(&name) {
            continue;
        }
        if !pki::certificate_authority::is_name(&name) {
            return Err(Error::Usage(format!("'{name}' is not a host name or address")));
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
    use super::*;

    fn names(control: &Control) -> Vec<String> {
        control.names.read().hosts.clone()
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
        assert_eq!(again.told_name.as_deref(), Some("backup.example.com"));
        drop(again);
        let both = open(&["new.example.com"]).unwrap();
        assert_eq!(both.told_name.as_deref(), Some("new.example.com"));
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
}
