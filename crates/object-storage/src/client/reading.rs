//! Reading objects, and listing them.

use super::{AT_ONCE, Client};
use crate::errors::{TOO_LARGE, failed, panicked};
use crate::names::Listed;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt};
use repository::storage::StorageResult;
use std::ops::Range;
use std::sync::Arc;

/// The most of an object that is read as a whole: 32 MiB. Much more than any that is written here.
const READ_WHOLE_MAX: u64 = 32 << 20;

/// A part of an object, and the length of all of it.
pub(crate) struct Part {
    pub(crate) bytes: Bytes,
    pub(crate) object_bytes: u64,
}

impl Client {
    /// The whole object `name`.
    pub(crate) fn get(&self, name: &str) -> StorageResult<Bytes> {
        self.read(name, None, READ_WHOLE_MAX, self.store.clone()).map(|part| part.bytes)
    }

    /// The whole objects `names`, several at the same time; in their order.
    pub(crate) fn get_all(&self, names: &[String]) -> Vec<StorageResult<Bytes>> {
        let get = |name: &String| {
            let (path, store) = (self.path(name), self.store.clone());
            async move { collect(store.get(&path).await?, READ_WHOLE_MAX).await }
        };
        let gets: Vec<_> = names.iter().map(get).collect();
        let work = futures_util::stream::iter(gets).buffered(AT_ONCE).collect::<Vec<_>>();
        let read = self.wait(work);
        let read = read.unwrap_or_else(|_| names.iter().map(|_| Err(panicked())).collect());
        let read = read.into_iter().zip(names);
        read.map(|(bytes, name)| bytes.map_err(|error| failed("read", name, &error)))
            .inspect(|bytes| {
                self.requests.note_received(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64));
            })
            .collect()
    }

    /// The bytes `range` of the object `name`: fewer where it ends.
    pub(crate) fn get_range(&self, name: &str, range: Range<u64>) -> StorageResult<Part> {
        let max = range.end.saturating_sub(range.start);
        self.read(name, Some(GetRange::Bounded(range)), max, self.bulk.clone())
    }

    /// The last `length` bytes of the object `name`.
    pub(crate) fn get_end(&self, name: &str, length: u64) -> StorageResult<Part> {
        self.read(name, Some(GetRange::Suffix(length)), length, self.bulk.clone())
    }

    pub(super) fn read(
        &self,
        name: &str,
        range: Option<GetRange>,
        max: u64,
        store: Arc<dyn ObjectStore>,
    ) -> StorageResult<Part> {
        loop {
            let read = self.read_now(name, range.clone(), max, store.clone());
            match (read, self.patience.get()) {
                (Err(why), Some(patience)) if why.is_archived() => {
                    patience.wait(self, name, why)?
                }
                (read, _) => return read,
            }
        }
    }

    fn read_now(
        &self,
        name: &str,
        range: Option<GetRange>,
        max: u64,
        store: Arc<dyn ObjectStore>,
    ) -> StorageResult<Part> {
        let path = self.path(name);
        let read = async move {
            let result = store.get_opts(&path, GetOptions { range, ..Default::default() }).await?;
            let object_bytes = result.meta.size;
            object_store::Result::Ok(Part { bytes: collect(result, max).await?, object_bytes })
        };
        let wait = || self.wait(read).flatten();
        let read = match self.times.get() {
            Some(times) => times.read.time(0, wait),
            None => wait(),
        };
        let part = read.map_err(|error| failed("read", name, &error))?;
        self.requests.note_received(part.bytes.len() as u64);
        Ok(part)
    }

    /// The length of the object `name`, in bytes.
    pub(crate) fn length(&self, name: &str) -> StorageResult<u64> {
        let (path, store) = (self.path(name), self.store.clone());
        let head = self.wait(async move { store.head(&path).await }).flatten();
        Ok(head.map_err(|error| failed("open", name, &error))?.size)
    }

    /// Whether all objects `names` are there, as far as the storage shows them.
    pub fn has_all(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.length(name).is_ok())
    }

    /// The objects below the directory `directory` (all with ""), with names behind `after`.
    pub(crate) fn list(
        &self,
        directory: &str,
        after: &str,
    ) -> StorageResult<Vec<(String, Listed)>> {
        let all = [&self.prefix, directory].map(|part| part.trim_matches('/'));
        let prefix = all.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        let prefix = (!prefix.is_empty()).then(|| Path::from(prefix));
        let (after, store) = (self.path(after), self.store.clone());
        // All of a directory comes behind its own name. Garage ends at the first name between the two, which is not
        // below the directory: `list.copy` is between `list` and `list/`.
        let is_behind = prefix.as_ref().is_none_or(|prefix| after > *prefix);
        let listed = self.wait(async move {
            let objects = match is_behind {
                true => store.list_with_offset(prefix.as_ref(), &after),
                false => store.list(prefix.as_ref()),
            };
            let listed = |meta: ObjectMeta| {
                (meta.location, Listed { length: meta.size, tag: meta.e_tag.as_deref().map(tag) })
            };
            objects.map_ok(listed).try_collect::<Vec<_>>().await
        });
        let listed =
            listed.flatten().map_err(|error| failed("list", self.shown(directory), &error))?;
        Ok(listed.into_iter().map(|(path, found)| (self.relative(&path), found)).collect())
    }

    /// Names in `directory` and of the directories in it; the objects with their lengths.
    pub(crate) fn list_directory(
        &self,
        directory: &str,
    ) -> StorageResult<Vec<(String, Option<u64>)>> {
        let (path, store) = (self.path(directory), self.store.clone());
        let listed = self.wait(async move { store.list_with_delimiter(Some(&path)).await });
        let listed = listed.flatten().map_err(|error| failed("list", directory, &error))?;
        let name = |path: &Path| path.filename().unwrap_or_default().to_owned();
        let directories = listed.common_prefixes.iter().map(|path| (name(path), None));
        let objects = listed.objects.iter().map(|meta| (name(&meta.location), Some(meta.size)));
        let mut names: Vec<_> = directories.chain(objects).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn shown<'a>(&'a self, directory: &'a str) -> &'a str {
        if directory.is_empty() { &self.location } else { directory }
    }
}

/// What is promised, of at most `max` bytes; neither more nor less is taken. Who writes to the bucket must not decide
/// how much memory this takes.
pub(super) async fn collect(result: GetResult, max: u64) -> object_store::Result<Bytes> {
    let promised = result.range.end - result.range.start;
    if promised > max {
        return Err(wrong(format!("{promised} bytes {TOO_LARGE}")));
    }
    let mut bytes = BytesMut::with_capacity(promised as usize);
    let mut parts = result.into_stream();
    while let Some(part) = parts.try_next().await? {
        bytes.extend_from_slice(&part);
        if bytes.len() as u64 > promised {
            return Err(wrong(format!(
                "the storage sent more than the {promised} bytes it promised"
            )));
        }
    }
    if (bytes.len() as u64) < promised {
        return Err(wrong(format!("the storage sent {} bytes of {promised}", bytes.len())));
    }
    Ok(bytes.freeze())
}

fn wrong(reason: String) -> object_store::Error {
    object_store::Error::Generic { store: "answer", source: reason.into() }
}

/// Some storages put the tag into quotes in one answer and not in another.
pub(super) fn tag(e_tag: &str) -> String {
    e_tag.trim_matches('"').to_owned()
}
