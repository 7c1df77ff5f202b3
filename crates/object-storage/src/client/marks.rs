//! Creating objects where one was removed before, in a bucket that keeps versions: there, a mark says that it is gone.
//! versitygw 1.8 takes the mark for the object, as far as conditions go: what is to be created only if it is absent, it
//! refuses for ever, though nothing is there.
//!
//! But it compares. What is to take the place of an object with a tag (`If-Match`) takes that of the mark over the
//! version with this tag, and gets a tag of its own: of several writers who try, one does. So each name is still
//! created once, as where a storage creates what is absent.

use super::writing::is_refused_as_there;
use super::{Client, Kind};
use crate::roots::nonce;
use crate::versions;
use bytes::Bytes;
use object_store::{Error, PutMode, UpdateVersion};
use repository::storage::{StorageError, StorageResult};

/// No content has this tag.
const NO_TAG: &str = "\"00000000000000000000000000000000\"";

fn replacing(tag: &str) -> PutMode {
    PutMode::Update(UpdateVersion { e_tag: Some(tag.to_owned()), version: None })
}

/// How an object is created: as one that is absent, or in the place of the mark that one was removed there.
pub(super) struct Ways {
    pub(super) mode: PutMode,
    /// Tries after which there was nothing.
    tries: usize,
    /// Tags of removed objects that were the wrong ones.
    wrong_tags: usize,
    /// Why nobody can see whether one was removed there.
    pub(super) unseen: Option<StorageError>,
}

impl Default for Ways {
    fn default() -> Self {
        Self { mode: PutMode::Create, tries: 0, wrong_tags: 0, unseen: None }
    }
}

impl Ways {
    fn is_over_mark(&self) -> bool {
        matches!(self.mode, PutMode::Update(_))
    }

    /// Whether `error` says that something is there, or something else than what was to be replaced.
    pub(super) fn is_refusal(&self, error: &Error) -> bool {
        let is_gone = self.is_over_mark() && matches!(error, Error::NotFound { .. });
        is_gone || is_refused_as_there(error)
    }

    /// A try has failed, and there is nothing. After two of them, that one was removed there before may be why: also
    /// where no refusal was heard, as a storage may close the connection without reading a large object to its end.
    pub(super) fn note_absent(&mut self, client: &Client, name: &str, error: &Error) {
        let is_refusal = self.is_refusal(error);
        let is_wrong_tag = is_refusal && self.is_over_mark();
        self.tries += 1;
        self.wrong_tags += usize::from(is_wrong_tag);
        self.mode = PutMode::Create;
        if self.tries < 2 || is_wrong_tag {
            return;
        }
        match client.mode_over_mark(name, self.wrong_tags) {
            Ok(mode) => self.mode = mode,
            Err(why) if is_refusal => self.unseen = Some(why),
            Err(_) => {}
        }
    }
}

impl Client {
    /// How to create the object `name`, which is not there and which the storage does not create: as one that is absent,
    /// unless the last that is known of it is that it was removed. Of several versions, the tags of the newest `wrong`
    /// ones were tried.
    pub(super) fn mode_over_mark(&self, name: &str, wrong: usize) -> StorageResult<PutMode> {
        let tags = versions::tags_below_mark(self, name)?;
        match tags.get(wrong % tags.len().max(1)) {
            Some(tag) if self.compares()? => Ok(replacing(tag)),
            _ => Ok(PutMode::Create),
        }
    }

    /// Whether the storage replaces no object that has another tag than it is told. Where it takes no notice, two
    /// writers would create the same object.
    fn compares(&self) -> StorageResult<bool> {
        if let Some(compares) = self.compares.get() {
            return Ok(*compares);
        }
        let name = probe_name();
        self.put(&name, Bytes::from_static(b"compared"))?;
        let replaced = self.try_put(
            &name,
            Bytes::from_static(b"replaced"),
            replacing(NO_TAG),
            &Kind::default(),
        );
        self.delete(std::slice::from_ref(&name))?;
        let compares = match replaced {
            Ok(_) | Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => false,
            Err(Error::Precondition { .. }) => true,
            Err(error) => return Err(crate::errors::failed("write", &name, &error)),
        };
        Ok(*self.compares.get_or_init(|| compares))
    }

    /// Whether the storage refuses to create an object where one was removed.
    pub(crate) fn takes_marks_for_objects(&self) -> StorageResult<bool> {
        let name = probe_name();
        self.put(&name, Bytes::from_static(b"removed"))?;
        self.delete(std::slice::from_ref(&name))?;
        let created =
            self.try_put(&name, Bytes::from_static(b"created"), PutMode::Create, &Kind::default());
        let is_there = self.length(&name);
        self.delete(std::slice::from_ref(&name))?;
        let is_absent = is_there.is_err_and(|error: StorageError| error.is_not_found());
        Ok(matches!(created, Err(Error::AlreadyExists { .. })) && is_absent)
    }
}

/// A name that nobody else uses.
fn probe_name() -> String {
    let hex: String = nonce().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("probe-{hex}")
}
