//! Connections to a storage that speaks S3.

use crate::away::Away;
use crate::client::Client;
use crate::credential_process::Renewed;
use crate::credentials::{Credentials, variable};
use crate::location::Location;
use crate::requests::{Counted, Requests};
use crate::signed::Signed;
use crate::storage::ObjectStorage;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{HttpConnector, ReqwestConnector};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use repository::storage::{StorageError, StorageResult};
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A small object has this long, with its answer.
const SMALL_TIMEOUT: Duration = Duration::from_secs(30);
/// A whole container has this long: at 64 KiB/s, 64 MiB take 17 minutes.
const BULK_TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// A request that failed is repeated for so long after it began: it is signed once, and a signature of S3 counts for 15
/// minutes at most, with the clocks of both sides in between.
const RETRY_FOR: Duration = Duration::from_secs(4 * 60);
/// So long may nothing arrive.
const SILENCE: Duration = Duration::from_secs(60);

/// How a storage is reached.
#[derive(Clone, Debug)]
pub struct Access {
    /// Who we are, and where it is.
    pub credentials: Credentials,
    /// Requests that fail are repeated this often.
    pub retries: usize,
    /// How long it may be away once it has answered.
    pub away: Away,
}

impl Access {
    /// With as much patience as a backup needs.
    pub fn new(credentials: Credentials) -> Self {
        Self { credentials, retries: 6, away: Away::OF_A_COMMAND }
    }
}

/// Connects to the storage of `location`. No request is sent.
///
/// # Errors
/// When the settings make no sense.
pub fn connect(location: &Location, access: &Access) -> StorageResult<Client> {
    connect_through(location, access, &ReqwestConnector::default)
}

/// The storage of `location`, by the credentials of the environment; it may be `away` for so long.
///
/// # Errors
/// When there are none; those of the storage.
pub fn from_environment(location: &Location, away: Away) -> StorageResult<ObjectStorage> {
    let found = Credentials::find(variable);
    let credentials = found.map_err(|reason| no_credentials(location, reason))?;
    let away = away.or_as_the_environment_says();
    let access = Access { away, ..Access::new(credentials) };
    let mut storage = ObjectStorage::open(connect(location, &access)?)?;
    storage.wait_as_the_environment_says();
    Ok(storage)
}

/// Nothing says who we are.
pub(crate) fn no_credentials(location: &Location, reason: String) -> StorageError {
    StorageError::new("use", &location.to_string(), Error::new(ErrorKind::PermissionDenied, reason))
}

/// As [`connect`], with requests that go through what `connector` makes: for tests.
///
/// # Errors
/// As [`connect`].
pub fn connect_through<C: HttpConnector>(
    location: &Location,
    access: &Access,
    connector: &dyn Fn() -> C,
) -> StorageResult<Client> {
    crate::valid::check(&access.credentials).map_err(|why| {
        let why = Error::new(ErrorKind::InvalidInput, why);
        StorageError::new("use", &location.to_string(), why)
    })?;
    let requests = Arc::new(Requests::default());
    let renewed = access.credentials.renewed().map(Arc::new);
    let build = |timeout| {
        let (requests, away) = (requests.clone(), access.away);
        let connector = Counted { inner: connector(), requests, away };
        build(location, access, connector, timeout, renewed.clone())
            .map_err(|error| unusable(location, &error))
    };
    let (small, bulk) = (Arc::new(build(SMALL_TIMEOUT)?), Arc::new(build(BULK_TIMEOUT)?));
    let counted = Counted { inner: connector(), requests: requests.clone(), away: access.away };
    let http = counted.connect(&options(&access.credentials, SMALL_TIMEOUT));
    let http = http.map_err(|error| unusable(location, &error))?;
    let signed = Signed { signer: small.clone(), http };
    let mut client = Client::new(small, bulk, &location.prefix, &location.to_string())?;
    client.count_in(requests);
    client.sign_with(signed);
    Ok(client)
}

fn unusable(location: &Location, error: &object_store::Error) -> StorageError {
    let error = Error::new(ErrorKind::InvalidInput, error.to_string());
    StorageError::new("use", &location.to_string(), error)
}

fn options(credentials: &Credentials, timeout: Duration) -> ClientOptions {
    let endpoint = credentials.endpoint.as_ref();
    ClientOptions::new()
        .with_timeout(timeout)
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_read_timeout(SILENCE)
        .with_allow_http(endpoint.is_some_and(|endpoint| endpoint.starts_with("http:")))
}

fn build<C: HttpConnector>(
    location: &Location,
    access: &Access,
    connector: C,
    timeout: Duration,
    renewed: Option<Arc<Renewed>>,
) -> object_store::Result<AmazonS3> {
    let Credentials { access_key, secret_key, session_token, region, endpoint, process: _ } =
        &access.credentials;
    let options = options(&access.credentials, timeout);
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(200),
        max_backoff: Duration::from_secs(10),
        base: 2.,
    };
    let retry_timeout = RETRY_FOR.min(2 * timeout);
    let retry = RetryConfig { backoff, max_retries: access.retries, retry_timeout };
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&location.bucket)
        .with_access_key_id(access_key)
        .with_secret_access_key(secret_key)
        .with_region(region)
        .with_client_options(options)
        .with_retry(retry);
    if let Some(token) = session_token {
        builder = builder.with_token(token);
    }
    if let Some(renewed) = renewed {
        builder = builder.with_credentials(renewed);
    }
    if let Some(endpoint) = endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    builder.with_http_connector(connector).build()
}
