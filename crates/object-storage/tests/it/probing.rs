//! Storages that do not keep what everything relies on are refused.

use crate::contract::{access, in_memory, location};
use crate::faulty::{Fault, Faulty, Plan};
use futures_util::{StreamExt, TryStreamExt};
use object_storage::{BucketPool, Client, ObjectStorage, connect, connect_through};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use repository::storage::Storage;
use std::fmt;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use testkit::s3::Gateway;

type Later<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;
type Many<T> = Pin<Box<dyn futures_util::Stream<Item = Result<T>> + Send>>;

/// Ignores that an object is to be created only if it is absent, as some do.
#[derive(Debug, Default)]
struct Ignorant(InMemory, Takes);

/// Whether it takes anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Takes {
    #[default]
    All,
    /// But gives nothing back.
    NoDeletion,
    Nothing,
    /// But the answer to each creation gets lost, and what is sent once more is refused.
    Unheard,
}

impl fmt::Display for Ignorant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ignorant")
    }
}

impl ObjectStore for Ignorant {
    fn put_opts<'a, 'b, 'c>(
        &'a self,
        path: &'b Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Later<'c, PutResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        if self.1 == Takes::Nothing {
            let path = path.to_string();
            let source = "the bucket is read-only".into();
            let refused = object_store::Error::PermissionDenied { path, source };
            return Box::pin(std::future::ready(Err(refused)));
        }
        if self.1 == Takes::Unheard && options.mode == PutMode::Create {
            return Box::pin(async move {
                let put = self.0.put_opts(path, payload, options).await?;
                let refused = object_store::Error::AlreadyExists {
                    path: path.to_string(),
                    source: "it is there".into(),
                };
                drop(put);
                Err(refused)
            });
        }
        self.0.put_opts(path, payload, PutOptions { mode: PutMode::Overwrite, ..options })
    }

    fn put_multipart_opts<'a, 'b, 'c>(
        &'a self,
        path: &'b Path,
        options: PutMultipartOptions,
    ) -> Later<'c, Box<dyn MultipartUpload>>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        self.0.put_multipart_opts(path, options)
    }

    fn get_opts<'a, 'b, 'c>(&'a self, path: &'b Path, options: GetOptions) -> Later<'c, GetResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        self.0.get_opts(path, options)
    }

    fn delete_stream(&self, paths: Many<Path>) -> Many<Path> {
        if self.1 == Takes::NoDeletion {
            let refused = |path: Path| {
                let (path, source) = (path.to_string(), "nobody deletes here".into());
                Err(object_store::Error::PermissionDenied { path, source })
            };
            return paths.map(move |path| path.and_then(refused)).boxed();
        }
        self.0.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> Many<ObjectMeta> {
        self.0.list(prefix)
    }

    /// Begins behind `offset`, and ends at the first name that is not below `prefix`, as Garage does.
    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> Many<ObjectMeta> {
        let prefix = prefix.cloned().unwrap_or_default();
        let is_below = move |found: &ObjectMeta| {
            std::future::ready(Ok(found.location.prefix_matches(&prefix)))
        };
        self.0.list_with_offset(None, offset).try_take_while(is_below).boxed()
    }

    fn list_with_delimiter<'a, 'b, 'c>(&'a self, prefix: Option<&'b Path>) -> Later<'c, ListResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        self.0.list_with_delimiter(prefix)
    }

    fn copy_opts<'a, 'b, 'd, 'c>(
        &'a self,
        from: &'b Path,
        to: &'d Path,
        options: CopyOptions,
    ) -> Later<'c, ()>
    where
        'a: 'c,
        'b: 'c,
        'd: 'c,
        Self: 'c,
    {
        self.0.copy_opts(from, to, options)
    }
}

#[test]
fn a_storage_that_lets_every_writer_win_is_refused() {
    let store = Arc::new(Ignorant::default());
    let client = Client::new(store.clone(), store, "", "s3://ignorant").unwrap();
    let storage = ObjectStorage::open(client).unwrap();
    let refused = storage.probe().unwrap_err();
    assert_eq!(refused.source.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("32 of 32 writers"), "{refused}");
    // And when it became so later: by whoever takes the lease. None stays for which the next one would wait.
    for _ in 0..2 {
        let refused = storage.try_lock("lock").err().unwrap();
        assert_eq!(refused.source.kind(), ErrorKind::Unsupported, "{refused}");
        assert!(refused.to_string().contains("(If-None-Match)"), "{refused}");
        assert_eq!(storage.list("lease").unwrap_or_default(), [""; 0]);
    }
}

/// A repository that was copied there can be read.
#[test]
fn a_directory_is_listed_although_other_names_begin_as_it_does() {
    let store = Arc::new(Ignorant::default());
    let client = Client::new(store.clone(), store.clone(), "x", "s3://ignorant/x").unwrap();
    let storage = ObjectStorage::open(client).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for name in ["x/lease.copy/1", "x/lease/0000000000000001"] {
        let (path, options) = (Path::from(name), PutOptions::default());
        runtime.block_on(store.0.put_opts(&path, PutPayload::new(), options)).unwrap();
    }
    storage.list("lease").unwrap_or_default();
    assert_eq!(storage.list("lease").unwrap(), ["0000000000000001"]);
}

/// It was called a bucket that does not exist.
#[test]
fn a_storage_that_takes_nothing_says_why() {
    let store = Arc::new(Ignorant(InMemory::new(), Takes::Nothing));
    let client = Client::new(store.clone(), store, "", "s3://read-only").unwrap();
    let refused = ObjectStorage::open(client).unwrap().probe().unwrap_err();
    assert!(refused.to_string().contains("read-only") && !refused.is_not_found(), "{refused}");
}

/// It was said to have no conditional writes, and that another storage is needed.
#[test]
fn a_storage_of_which_no_answer_is_heard_is_not_refused_for_good() {
    let store = Arc::new(Ignorant(InMemory::new(), Takes::Unheard));
    let client = Client::new(store.clone(), store, "", "s3://lossy").unwrap();
    let unknown = ObjectStorage::open(client).unwrap().probe().unwrap_err();
    assert!(unknown.is_unreachable(), "{unknown}");
    assert!(!unknown.to_string().contains("(If-None-Match)"), "{unknown}");
}

/// Whatever answers so stands in between: the bucket was listed a moment ago.
#[test]
fn a_probe_that_is_not_found_is_no_bucket_that_does_not_exist() {
    let gateway = Gateway::shared();
    let plan = Plan::quiet();
    let connector = || Faulty::new(&plan);
    let location = location(gateway, "x");
    let client = connect_through(&location, &access(gateway), &connector).unwrap();
    let storage = ObjectStorage::open(client).unwrap();
    plan.fail_creates(std::iter::repeat_n(Fault::Absent, 32));
    let unknown = storage.probe().unwrap_err();
    assert!(unknown.is_unreachable(), "{unknown}");
    storage.probe().unwrap();
}

#[test]
fn a_storage_that_lets_one_writer_win_is_accepted() {
    in_memory(&Arc::default()).probe().unwrap();
    let gateway = Gateway::shared();
    let client = connect(&location(gateway, "x"), &access(gateway)).unwrap();
    ObjectStorage::open(client).unwrap().probe().unwrap();
}

/// It looks whether an object is there and then writes it, with time in between.
#[test]
fn a_real_storage_that_checks_and_then_writes_is_refused() {
    let Some(gateway) = Gateway::of_before() else {
        return testkit::skip("no versitygw-1.7.0 is installed: make setup");
    };
    let client = connect(&location(&gateway, "x"), &access(&gateway)).unwrap();
    let storage = ObjectStorage::open(client).unwrap();
    // Chance decides on a busy machine: one of several probes is enough.
    let refused = (0..20).find_map(|_| storage.probe().err()).unwrap();
    assert_eq!(refused.source.kind(), ErrorKind::Unsupported, "{refused}");
}

/// A retry would write one more at each attempt, and the pool never begin.
#[test]
fn a_superblock_is_written_also_where_older_ones_cannot_be_deleted() {
    let store = Arc::new(Ignorant(InMemory::new(), Takes::NoDeletion));
    let client = Client::new(store.clone(), store, "pool", "s3://ignorant").unwrap();
    let pool = BucketPool::new(client);
    for number in 1..=9 {
        pool.put_superblock(number, &[number as u8]).unwrap();
        assert_eq!(pool.last_superblock().unwrap().unwrap().0, number);
    }
}
