//! Writing objects, and removing them. What a failed request did is found out by reading, not guessed.

use super::Client;
use super::marks::Ways;
use super::reading::{collect, tag};
use crate::archived::{self, CONTENT};
use crate::errors::{failed, is_final, panicked};
use crate::upload_memory;
use bytes::Bytes;
use data_encoding::HEXLOWER;
use futures_util::{StreamExt, TryStreamExt};
use object_store::{
    Attribute, Attributes, GetOptions, ObjectStore, PutMode, PutMultipartOptions, PutOptions,
};
use repository::storage::{StorageError, StorageResult};
use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often an object is created that the storage says exists and does not have: a conflict that has not ended.
const CREATE_TRIES: u32 = 8;
/// How often objects are removed that the connection was lost for.
const DELETE_TRIES: u32 = 5;
/// Before the second of such tries; each further one waits twice as long.
const CREATE_WAIT: Duration = Duration::from_millis(50);
/// The most of an object of which an earlier version is put back: 1 GiB, as much as one request could write of it.
const RESTORED_MAX: u64 = 1 << 30;
/// Larger files go up in parts of this size: 64 MiB.
const PART_BYTES: u64 = 64 << 20;
/// A file that goes up as one object: 160 MiB, more than a container with its parity.
const WHOLE_BYTES_MAX: u64 = 160 << 20;

/// What is said of an object beside its bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kind {
    /// Its storage class, if not the usual one.
    pub(crate) class: Option<String>,
    /// Whether it is a container that holds nothing but content of files.
    pub(crate) is_content: bool,
}

impl Kind {
    /// For an object of `bytes`: a mark has their checksum, so that it can be compared without reading it.
    fn attributes(&self, bytes: &[u8]) -> Attributes {
        let sum = self.is_content.then(|| sum(bytes));
        let mark = sum.map(|sum| (Attribute::Metadata(CONTENT.into()), sum));
        let class = self.class.clone().map(|class| (Attribute::StorageClass, class));
        class.into_iter().chain(mark).collect()
    }
}

fn sum(bytes: &[u8]) -> String {
    HEXLOWER.encode(&format::wire::checksum(&[bytes]))
}

/// An object that this process has written.
pub(crate) struct Written {
    /// By which the storage tells contents apart, if it has said so.
    pub(crate) tag: Option<String>,
}

impl Client {
    /// Durably writes the object `name`, whether or not it is there.
    pub(crate) fn put(&self, name: &str, bytes: Bytes) -> StorageResult<()> {
        self.put_as(name, bytes, &Kind::default())
    }

    /// The same of an object of such a `kind`.
    pub(crate) fn put_as(&self, name: &str, bytes: Bytes, kind: &Kind) -> StorageResult<()> {
        let put = self.try_put(name, bytes, PutMode::Overwrite, kind).map(drop);
        put.map_err(|error| self.note(failed("write", name, &error), &error))
    }

    pub(super) fn try_put(
        &self,
        name: &str,
        bytes: Bytes,
        mode: PutMode,
        kind: &Kind,
    ) -> object_store::Result<Written> {
        let attributes = kind.attributes(&bytes);
        let is_large = bytes.len() > 1 << 20;
        let store = if is_large { self.bulk.clone() } else { self.store.clone() };
        let path = self.path(name);
        let put = self.wait(async move {
            let options = PutOptions { mode, attributes, ..Default::default() };
            let put = store.put_opts(&path, bytes.into(), options).await?;
            Ok(Written { tag: put.e_tag.as_deref().map(tag) })
        });
        put.flatten()
    }

    /// Durably writes the object `name` unless it is there; `None` when another one is. That the storage says so proves
    /// nothing: our own request may have been done and its answer lost, or another one be under way. So it is read.
    pub(crate) fn create(&self, name: &str, bytes: &Bytes) -> StorageResult<Option<Written>> {
        self.create_as(name, bytes, &Kind::default())
    }

    /// The same of an object of such a `kind`.
    fn create_as(&self, name: &str, bytes: &Bytes, kind: &Kind) -> StorageResult<Option<Written>> {
        let (mut wait, mut ways, mut last) = (CREATE_WAIT, Ways::default(), None);
        for _ in 0..CREATE_TRIES {
            let error = match self.try_put(name, bytes.clone(), ways.mode.clone(), kind) {
                Ok(written) => return Ok(Some(written)),
                Err(error) => error,
            };
            if !ways.is_refusal(&error) && is_final(&error) {
                // What was sent before may still be under way, whatever is said of this one.
                return Err(match last {
                    None => failed("create", name, &error),
                    Some(_) => self.unknown(name, &error),
                });
            }
            match self.is_there(name, bytes) {
                Ok(is_ours) => return Ok(is_ours.then_some(Written { tag: None })),
                // The conflict has ended, or the request was lost. The same bytes once more do no harm.
                Err(absent) if absent.is_not_found() => std::thread::sleep(wait),
                Err(_) => return Err(self.unknown(name, &error)),
            }
            // Once more, since others may have made room; each further try sends all of a container for nothing.
            if last.is_some() && failed("create", name, &error).is_full() {
                return Err(self.unknown(name, &error));
            }
            ways.note_absent(self, name, &error);
            wait *= 2;
            last = Some(error);
        }
        let error = last.map(|error| self.unknown(name, &error));
        let error = error.unwrap_or_else(|| StorageError::new("create", name, ErrorKind::TimedOut));
        Err(match ways.unseen {
            Some(why) => with_unseen(error, &why),
            None => error,
        })
    }

    /// Whether the object `name` is these bytes, however many.
    fn is_there(&self, name: &str, bytes: &Bytes) -> StorageResult<bool> {
        match self.read(name, None, bytes.len() as u64, self.store.clone()) {
            Ok(there) => Ok(there.bytes == *bytes),
            Err(error) if error.source.kind() == ErrorKind::InvalidData => Ok(false),
            // Nobody can read it: its mark says what it is.
            Err(error) if error.is_archived() => self.has_mark_of(name, bytes),
            Err(error) => Err(error),
        }
    }

    /// Whether the object `name` has the length of `bytes`, and the mark of them.
    fn has_mark_of(&self, name: &str, bytes: &Bytes) -> StorageResult<bool> {
        let there = archived::state(self, name)?;
        Ok(there.bytes == bytes.len() as u64 && there.content == Some(sum(bytes)))
    }

    /// Nobody knows whether it was done, or is still to come.
    fn unknown(&self, name: &str, error: &object_store::Error) -> StorageError {
        self.is_uncertain.store(true, Ordering::Relaxed);
        let error = failed("create", name, error);
        let kind = match error.source.kind() {
            ErrorKind::AlreadyExists | ErrorKind::NotFound => ErrorKind::TimedOut,
            kind => kind,
        };
        StorageError::new("create", name, std::io::Error::new(kind, error.source.to_string()))
    }

    /// Whether the object `name`, which is there, is not created once more.
    pub(crate) fn is_refused(&self, name: &str) -> StorageResult<bool> {
        let mut last = None;
        for _ in 0..CREATE_TRIES {
            let put = Bytes::from_static(b"one too many");
            match self.try_put(name, put, PutMode::Create, &Kind::default()) {
                Ok(_) => return Ok(false),
                Err(object_store::Error::AlreadyExists { .. }) => return Ok(true),
                Err(error) if is_final(&error) => return Err(failed("create", name, &error)),
                Err(error) => last = Some(failed("create", name, &error)),
            }
        }
        Err(last.unwrap_or_else(|| StorageError::new("create", name, ErrorKind::TimedOut)))
    }

    /// Tries at the same time to create the object `name` with each of `bodies`: what each was told.
    pub(crate) fn create_at_once(&self, name: &str, bodies: &[Bytes]) -> Vec<StorageResult<()>> {
        let path = self.path(name);
        let puts: Vec<_> = bodies
            .iter()
            .map(|body| {
                let (store, path, body) = (self.store.clone(), path.clone(), body.clone());
                let options = PutOptions { mode: PutMode::Create, ..Default::default() };
                async move { store.put_opts(&path, body.into(), options).await.map(drop) }
            })
            .collect();
        let told = self.wait(futures_util::future::join_all(puts));
        let told = told.unwrap_or_else(|_| bodies.iter().map(|_| Err(panicked())).collect());
        told.into_iter().map(|told| told.map_err(|error| failed("create", name, &error))).collect()
    }

    fn note(&self, error: StorageError, source: &object_store::Error) -> StorageError {
        if !is_final(source) {
            self.is_uncertain.store(true, Ordering::Relaxed);
        }
        error
    }

    /// Durably writes what `read` gives of `length` bytes as the object `name`, unless it is there; `None` when another one
    /// is.
    pub(crate) fn upload(
        &self,
        name: &str,
        kind: &Kind,
        length: u64,
        read: impl Fn(u64, usize) -> StorageResult<Bytes>,
    ) -> StorageResult<Option<Written>> {
        let location = self.location().to_owned();
        let in_memory = if length <= WHOLE_BYTES_MAX { length } else { PART_BYTES };
        let room = self.wait(async move { upload_memory::room(&location, in_memory).await });
        let _room = room.map_err(|error| failed("write", name, &error))?;
        if length <= WHOLE_BYTES_MAX {
            let object = read(0, length as usize)?;
            let create = || self.create_as(name, &object, kind);
            return self.times.get().map_or_else(create, |it| it.write.time(length, create));
        }
        match self.length(name) {
            Ok(_) => return Ok(None),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        let uploaded = self.upload_in_parts(name, kind, length, read);
        if uploaded.is_err() {
            self.is_uncertain.store(true, Ordering::Relaxed);
        }
        uploaded.map(|()| Some(Written { tag: None }))
    }

    /// In parts nothing can be refused: for names that are given once.
    fn upload_in_parts(
        &self,
        name: &str,
        kind: &Kind,
        length: u64,
        read: impl Fn(u64, usize) -> StorageResult<Bytes>,
    ) -> StorageResult<()> {
        let (path, store) = (self.path(name), self.bulk.clone());
        let failed = |error| failed("write", name, &error);
        // Without the mark: it has the checksum of bytes that nobody has together.
        let attributes = Kind { is_content: false, ..kind.clone() }.attributes(&[]);
        let options = PutMultipartOptions { attributes, ..Default::default() };
        let begun = self.wait(async move { store.put_multipart_opts(&path, options).await });
        let mut upload = begun.flatten().map_err(failed)?;
        let mut offset = 0;
        while offset < length {
            let part = read(offset, PART_BYTES.min(length - offset) as usize)?;
            offset += part.len() as u64;
            let sent = upload.put_part(part.into());
            self.wait(sent).flatten().map_err(failed)?;
        }
        let completed = self.wait(async move { upload.complete().await.map(drop) });
        completed.flatten().map_err(failed)
    }

    /// Durably removes objects; those that are not there, too.
    pub(crate) fn delete(&self, names: &[String]) -> StorageResult<()> {
        let (mut wait, mut tries) = (CREATE_WAIT, 1);
        loop {
            let error = match self.try_delete(names) {
                Ok(()) => return Ok(()),
                // One that is not there must not keep the others.
                Err(object_store::Error::NotFound { .. }) if names.len() > 1 => {
                    return names
                        .iter()
                        .try_for_each(|name| self.delete(std::slice::from_ref(name)));
                }
                Err(object_store::Error::NotFound { .. }) => return Ok(()),
                Err(error) => error,
            };
            // To remove once more does no harm.
            if is_final(&error) || tries == DELETE_TRIES {
                let name = names.first().map_or(&*self.location, |name| name);
                return Err(self.note(failed("remove", name, &error), &error));
            }
            std::thread::sleep(wait);
            wait *= 2;
            tries += 1;
        }
    }

    fn try_delete(&self, names: &[String]) -> object_store::Result<()> {
        let paths: Vec<_> = names.iter().map(|name| Ok(self.path(name))).collect();
        let store = self.store.clone();
        let deleted = self.wait(async move {
            let paths = futures_util::stream::iter(paths).boxed();
            store.delete_stream(paths).try_for_each(|_| async { Ok(()) }).await
        });
        deleted.flatten()
    }

    /// Makes the version `version` of the object `name` the current one: what it has is written once more.
    pub(crate) fn restore(&self, name: &str, version: &str) -> StorageResult<()> {
        let (path, store) = (self.path(name), self.bulk.clone());
        let options = GetOptions { version: Some(version.to_owned()), ..Default::default() };
        let read =
            self.wait(
                async move { collect(store.get_opts(&path, options).await?, RESTORED_MAX).await },
            );
        let bytes = read.flatten().map_err(|error| failed("read", name, &error))?;
        self.requests.note_received(bytes.len() as u64);
        self.put(name, bytes)
    }
}

/// Whether the storage says that the object is there, or is not the one that was to be replaced.
pub(super) fn is_refused_as_there(error: &object_store::Error) -> bool {
    use object_store::Error::{AlreadyExists, Precondition};
    matches!(error, AlreadyExists { .. } | Precondition { .. })
}

/// The error of an object that is refused and not there, of which earlier versions could not be looked for.
fn with_unseen(error: StorageError, why: &StorageError) -> StorageError {
    let text = format!(
        "{}; whether one was removed there before (s3:ListBucketVersions) cannot be seen: {}",
        error.source, why.source
    );
    StorageError { source: std::io::Error::new(error.source.kind(), text), ..error }
}
