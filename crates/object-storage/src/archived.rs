//! Containers in cold storage classes: in which class each lies, whether it can be read, and how it is brought back.
//!
//! A class is asked for object by object (`HEAD`, which storages charge like a read): no list is kept of it, for rules of
//! the bucket move objects without us.

use crate::classes::{self, STANDARD, Tier};
use crate::client::Client;
use crate::patience::Patience;
use crate::signed::Request;
use crate::storage::ObjectStorage;
use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE64;
use object_store::signer::{HeaderMap, HeaderName, HeaderValue, Method};
use repository::storage::{Cold, StorageError, StorageResult};
use std::io::ErrorKind;

/// The mark of a container that holds nothing but content of files, with the checksum of its bytes.
pub(crate) const CONTENT: &str = "icecore-content";
/// The same as a storage answers it.
const CONTENT_HEADER: &str = "x-amz-meta-icecore-content";
const CHECKSUM: HeaderName = HeaderName::from_static("x-amz-checksum-sha256");
/// The class of objects that the storage itself moves into archives.
const TIERING: &str = "INTELLIGENT_TIERING";

/// Whether an object can be read now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readable {
    /// At any time.
    Always,
    /// It was brought back, until the time that the storage says.
    Until(String),
    /// Somebody has asked for it.
    Soon,
    /// Not before somebody asks for it.
    No,
}

/// What a storage says of an object without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectState {
    /// Its storage class; of what the storage has moved into an archive by itself, the name of that.
    pub class: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether it can be read now.
    pub readable: Readable,
    /// The checksum of its content, if it is marked as a container that holds nothing but content of files.
    pub content: Option<String>,
    /// The storage moves it between its tiers by itself: what was brought back stays.
    is_tiering: bool,
}

impl ObjectState {
    fn of(headers: &HeaderMap) -> Self {
        let header = |name: &str| headers.get(name)?.to_str().ok();
        let class = header("x-amz-storage-class").unwrap_or(STANDARD);
        let moved = header("x-amz-archive-status").filter(|_| class == TIERING);
        let is_archived = moved.is_some() || classes::is_archive(class);
        let readable = match header("x-amz-restore") {
            _ if !is_archived => Readable::Always,
            Some(restore) if restore.contains("ongoing-request=\"true\"") => Readable::Soon,
            Some(restore) => expiry(restore).map_or(Readable::No, Readable::Until),
            None => Readable::No,
        };
        Self {
            class: moved.unwrap_or(class).to_owned(),
            bytes: header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0),
            readable,
            content: header(CONTENT_HEADER).map(str::to_owned),
            is_tiering: moved.is_some(),
        }
    }

    /// One of `class`, for tests of who shows it.
    pub fn for_tests(class: &str, bytes: u64, readable: Readable) -> Self {
        Self { class: class.to_owned(), bytes, readable, content: None, is_tiering: false }
    }

    /// Whether it can be read now.
    pub fn is_readable(&self) -> bool {
        matches!(self.readable, Readable::Always | Readable::Until(_))
    }

    /// Whether reading it costs more than usual, or has to wait.
    pub fn is_cold(&self) -> bool {
        self.is_tiering || classes::is_cold(&self.class)
    }
}

/// Until when an object was brought back, in the words of the storage.
fn expiry(restore: &str) -> Option<String> {
    let (_, rest) = restore.split_once("expiry-date=\"")?;
    rest.split_once('"').map(|(until, _)| until.to_owned())
}

impl ObjectStorage {
    /// What the storage says of the containers `names`, in their order. A request for each.
    pub fn states(&self, names: &[String]) -> Vec<StorageResult<ObjectState>> {
        states(self.client(), names)
    }

    /// From now on, readers wait for what somebody has asked for.
    pub fn wait_with(&self, patience: Patience) {
        self.client().wait_with(patience);
    }

    /// Asks for each of `objects`, with its state, to be readable for so many days. What somebody has asked for before
    /// comes once. In their order; each may fail by itself.
    pub fn bring_back(
        &self,
        objects: &[(String, ObjectState)],
        (tier, days): (Tier, u32),
    ) -> Vec<StorageResult<()>> {
        let client = self.client();
        let ask = |(name, state): &(String, ObjectState)| restore(client, name, state, tier, days);
        let asked = client.send(("bring back", "containers"), objects.iter().map(ask).collect());
        let named = asked.into_iter().zip(objects);
        named
            .map(|(asked, (name, _))| match asked {
                // Somebody has asked for it before.
                Err(error) if error.already_exists() => Ok(()),
                Err(error) => Err(StorageError::new("bring back", name, error.source)),
                Ok(_) => Ok(()),
            })
            .collect()
    }

    /// For each of the containers `names`, whether it is cold.
    pub(crate) fn cold_ones(&self, names: &[String]) -> StorageResult<Vec<Option<Cold>>> {
        if names.is_empty() || !self.client().can_sign() {
            return Ok(vec![None; names.len()]);
        }
        let states = self.states(names).into_iter();
        states
            .map(|state| match state {
                Ok(state) if state.is_cold() => {
                    Ok(Some(Cold { is_content: state.content.is_some(), class: state.class }))
                }
                Ok(_) => Ok(None),
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(error),
            })
            .collect()
    }
}

/// What the storage says of the objects `names`, in their order.
pub(crate) fn states(client: &Client, names: &[String]) -> Vec<StorageResult<ObjectState>> {
    let head =
        |name: &String| Request { method: Method::HEAD, ..Request::get(client.path(name), &[]) };
    let asked =
        client.send(("ask for the class of", "containers"), names.iter().map(head).collect());
    let named = asked.into_iter().zip(names);
    named
        .map(|(asked, name)| match asked {
            Ok((headers, _)) => Ok(ObjectState::of(&headers)),
            Err(error) => Err(StorageError::new("ask for the class of", name, error.source)),
        })
        .collect()
}

/// What the storage says of the object `name`.
pub(crate) fn state(client: &Client, name: &str) -> StorageResult<ObjectState> {
    let one = states(client, &[name.to_owned()]).pop();
    one.unwrap_or_else(|| Err(StorageError::new("ask for the class of", name, ErrorKind::Other)))
}

fn restore(client: &Client, name: &str, state: &ObjectState, tier: Tier, days: u32) -> Request {
    // What the storage moves by itself comes back for good.
    let days = if state.is_tiering { String::new() } else { format!("<Days>{days}</Days>") };
    let tier = tier.name();
    let body = format!(
        "<RestoreRequest xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{days}<GlacierJobParameters><Tier>{tier}</Tier></GlacierJobParameters></RestoreRequest>"
    );
    let sum = BASE64.encode(digest(&SHA256, body.as_bytes()).as_ref());
    let request = Request::put(client.path(name), &[("restore", "")], body);
    let request = Request { method: Method::POST, ..request };
    match HeaderValue::from_str(&sum) {
        Ok(sum) => request.with(CHECKSUM, sum),
        Err(_) => request,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(headers: &[(&'static str, &'static str)]) -> ObjectState {
        let pairs = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        ObjectState::of(&pairs.collect())
    }

    #[test]
    fn what_a_storage_says_of_an_object_is_understood() {
        let plain = state(&[("content-length", "7")]);
        assert_eq!((&*plain.class, plain.bytes, plain.is_cold()), (STANDARD, 7, false));
        let class = ("x-amz-storage-class", "DEEP_ARCHIVE");
        assert_eq!(state(&[class]).readable, Readable::No);
        let ongoing = ("x-amz-restore", "ongoing-request=\"true\"");
        assert_eq!(state(&[class, ongoing]).readable, Readable::Soon);
        let back = "ongoing-request=\"false\", expiry-date=\"Fri, 21 Dec 2026 00:00:00 GMT\"";
        let back = state(&[class, ("x-amz-restore", back)]);
        assert_eq!(back.readable, Readable::Until("Fri, 21 Dec 2026 00:00:00 GMT".into()));
        assert!(back.is_readable() && back.is_cold());
        // Nobody can say that it is there.
        assert_eq!(state(&[class, ("x-amz-restore", "maybe")]).readable, Readable::No);
        let readable = state(&[("x-amz-storage-class", "GLACIER_IR")]);
        assert!(readable.is_readable() && readable.is_cold());
    }

    #[test]
    fn what_the_storage_moved_by_itself_is_archived_too() {
        let class = ("x-amz-storage-class", TIERING);
        assert!(!state(&[class]).is_cold());
        let moved = state(&[class, ("x-amz-archive-status", "DEEP_ARCHIVE_ACCESS")]);
        assert_eq!((&*moved.class, &moved.readable), ("DEEP_ARCHIVE_ACCESS", &Readable::No));
        assert!(moved.is_cold() && moved.is_tiering);
    }
}
