//! Uploads in parts that were begun and never ended: nobody sees them, and the storage charges for their parts.

use crate::client::Client;
use crate::names::is_ours;
use crate::signed::Request;
use jiff::Timestamp;
use object_store::path::Path;
use object_store::signer::Method;
use repository::storage::StorageResult;
use serde::Deserialize;
use std::time::Duration;

/// An upload that began so long ago is of nobody who still writes: a lease that is silent for a minute is taken over.
pub(crate) const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 3600);
/// Pages of a listing, of 1,000 uploads: what is left over goes next time.
const PAGES_MAX: usize = 10;

#[derive(Deserialize)]
struct Page {
    #[serde(rename = "IsTruncated", default)]
    is_truncated: bool,
    #[serde(rename = "NextKeyMarker", default)]
    next_key: String,
    #[serde(rename = "NextUploadIdMarker", default)]
    next_upload: String,
    #[serde(rename = "Upload", default)]
    uploads: Vec<Upload>,
}

#[derive(Deserialize)]
struct Upload {
    #[serde(rename = "Key")]
    key: String,
    #[serde(rename = "UploadId")]
    id: String,
    #[serde(rename = "Initiated", default)]
    begun: String,
}

impl Upload {
    /// One without a time is left alone.
    fn is_older(&self, than: Timestamp) -> bool {
        self.begun.parse().is_ok_and(|begun: Timestamp| begun < than)
    }
}

/// Ends uploads of the repository that began longer ago than `age`: how many. Others can lie below its prefix, too.
pub(crate) fn abort(client: &Client, age: Duration) -> StorageResult<u64> {
    let before = Timestamp::now().saturating_sub(age).unwrap_or(Timestamp::MIN);
    let (mut aborted, mut behind) = (0, (String::new(), String::new()));
    for _ in 0..PAGES_MAX {
        let (key, upload): &(String, String) = &behind;
        let markers = [("key-marker", &**key), ("upload-id-marker", &**upload)];
        let page: Page = client.page("uploads", markers)?;
        let is_ours = |upload: &&Upload| is_ours(&client.relative(&Path::from(&*upload.key)));
        let old = page.uploads.iter().filter(|upload| upload.is_older(before)).filter(is_ours);
        let old: Vec<_> = old.collect();
        let requests = old.iter().map(|upload| request(upload)).collect();
        for answer in client.send(("end an upload to", client.location()), requests) {
            match answer {
                Ok(_) => aborted += 1,
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        if !page.is_truncated {
            break;
        }
        behind = (page.next_key, page.next_upload);
    }
    Ok(aborted)
}

fn request(upload: &Upload) -> Request {
    let path = Path::from(&*upload.key);
    Request { method: Method::DELETE, ..Request::get(path, &[("uploadId", &*upload.id)]) }
}
