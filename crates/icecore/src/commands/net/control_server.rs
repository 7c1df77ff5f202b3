//! TLS as the control server has it towards storage servers, for who may read its files.

use crate::failure::Result;
use access::Error;
use server_contract::access_control::CONTROL_SERVER;
use server_contract::folder::Folder;
use std::path::Path;
use std::sync::Arc;

/// With a certificate that is made for this once and kept nowhere, as the server does it for each call.
pub(super) fn tls(folder: &Path) -> Result<Arc<rustls::ClientConfig>> {
    let folder = Folder::look(folder)?;
    let missing = |name: &str| {
        let source = std::io::ErrorKind::NotFound.into();
        server_contract::Error::File { path: folder.file(name), source }
    };
    let pem = folder.text("ca/ca.pem")?.ok_or_else(|| missing("ca/ca.pem"))?;
    let key = folder.secret("ca/ca.key", || Err(missing("ca/ca.key")))?;
    Ok(Arc::new(issued(&pem, &key).map_err(Error::from)?))
}

fn issued(ca_pem: &str, key_pem: &str) -> pki::Result<rustls::ClientConfig> {
    let ca = pki::CertificateAuthority::load(ca_pem, key_pem)?;
    let own = pki::NodeKey::generate()?;
    let now_secs = jiff::Timestamp::now().as_second();
    let issued = ca.issue_node(&own.request_pem, CONTROL_SERVER, now_secs)?;
    let identity = Some((issued.pem.as_str(), own.key_pem.as_str()));
    pki::client::client_config(ca_pem, identity, protocol::ALPN)
}
