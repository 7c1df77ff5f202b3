//! TLS to a database on another machine: version 1.3, and its certificate is always verified.

use crate::{Error, Result};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;
use tokio_postgres_rustls::MakeRustlsConnect;

/// Trusts the authorities in the PEM file `roots`, and no others.
pub(super) fn connector(roots: &Path) -> Result<MakeRustlsConnect> {
    let bad = |why: &dyn std::fmt::Display| {
        Error::Location(format!("sslrootcert {}: {why}", roots.display()))
    };
    let mut store = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(roots).map_err(|error| bad(&error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| bad(&error))?;
        store.add(certificate).map_err(|error| bad(&error))?;
    }
    if store.is_empty() {
        return Err(bad(&"it holds no certificate"));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| bad(&error))?;
    let config = versions.with_root_certificates(store).with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use crate::testing::{BY, Server, give};
    use crate::{Catalog, Location, Result};
    use pki::certificate_authority::{CertificateAuthority, ServerNames, new_server_key};
    use std::net::TcpListener;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;

    /// A certificate for `localhost` with its authority and its key.
    fn put_certificate(folder: &Path) -> Vec<String> {
        let now_secs = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64;
        let authority = CertificateAuthority::generate(now_secs).unwrap();
        let own = CertificateAuthority::load(&authority.certificate_pem, &authority.key_pem);
        let key = new_server_key().unwrap();
        let names = ServerNames::of(["localhost"]);
        let issued = own.unwrap().issue_server(&key, &names, now_secs).unwrap();
        let other = CertificateAuthority::generate(now_secs).unwrap();
        for (name, text) in [
            ("cert.pem", &issued.pem),
            ("key.pem", &key),
            ("ca.pem", &authority.certificate_pem),
            ("other.pem", &other.certificate_pem),
        ] {
            let path = folder.join(name);
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(&path).unwrap();
            std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
            give(&path);
        }
        let of = |setting: &str, name: &str| format!("{setting}={}", folder.join(name).display());
        let listen = "listen_addresses=127.0.0.1".to_owned();
        let files = [of("ssl_cert_file", "cert.pem"), of("ssl_key_file", "key.pem")];
        [listen, "ssl=on".to_owned()].into_iter().chain(files).collect()
    }

    #[test]
    fn a_database_on_the_network_is_trusted_by_its_authority_and_name() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut folder = Path::new("").to_owned();
        let server = Server::start_with("tls", port, |path| {
            folder = path.to_owned();
            put_certificate(path)
        });
        server.database("tls");
        let open = |host: &str, roots: &str| -> Result<Catalog> {
            let roots = folder.join(roots);
            let text = format!(
                "postgres://postgres@{host}:{port}/tls?sslmode=verify-full&sslrootcert={}",
                roots.display()
            );
            Catalog::open(&Location::parse(&text, Path::new("/"))?)
        };
        let catalog = open("localhost", "ca.pem").unwrap();
        catalog.audit_note(BY, "test", "", "").unwrap();
        let encrypted = "SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        let encrypted = catalog.look(|look| {
            look.one(encrypted, &[], |row| Ok((row.get::<bool>(0)?, row.get::<String>(1)?)))
        });
        assert_eq!(encrypted.unwrap(), (true, "TLSv1.3".to_owned()));
        for (host, roots) in [("localhost", "other.pem"), ("127.0.0.1", "ca.pem")] {
            let refused = open(host, roots).err().unwrap().to_string();
            assert!(refused.contains("certificate"), "{host}, {roots}: {refused}");
        }
        assert!(open("localhost", "key.pem").is_err(), "a file without certificates");
    }
}
