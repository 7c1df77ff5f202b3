//! The same with pools in buckets of a real storage. It is reached by variables of the environment, so each test runs
//! in a process of its own.

use super::{Ends, Rig, copy_tree};
use crate::moving::Mover;
use object_storage::Location;
use parking_lot::Mutex;
use repository::Repository;
use repository::lease::LOCK;
use repository::storage::Storage;
use repository::watch::{Unwatched, Watch};
use server_contract::folder::Folder;
use server_contract::moving::{DomainMover, MoveRequest, Moved, finished, leftover, unfinished};
use server_contract::pool::moves;
use server_contract::repositories;
use server_contract::upkeep::UpkeepError;
use server_control::Control;
use server_data::Shared;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use stored::{page, store};
use testkit::s3::Gateway;

/// Tells the process of its own the name of its bucket, and where the objects lie as files.
const BUCKET: &str = "ICECORE_TEST_BUCKET";
const OBJECTS: &str = "ICECORE_TEST_OBJECTS";
/// In the directory of a domain in a bucket, and of a copy: the only file that a domain has here.
const NOTE: &str = "bucket";

/// Longer than any head of a request, and shorter than a container.
const LARGE_BYTES: usize = 2_500;

/// Runs the test `name` in a process of its own; true there.
fn is_there(name: &str) -> bool {
    if std::env::var_os(BUCKET).is_some() {
        return true;
    }
    let (gateway, name) = (Gateway::of_files(), format!("moving::tests::buckets::{name}"));
    let bucket = gateway.bucket();
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", &name, "--nocapture", "--test-threads", "1"]);
    let objects = gateway.objects(&bucket);
    let endpoint = through(&gateway.endpoint(), objects.with_extension("away"));
    test.envs(gateway.variables()).env("AWS_ENDPOINT_URL", endpoint);
    test.env(OBJECTS, objects).env(BUCKET, bucket);
    let ran = test.env("ICECORE_S3_QUIET_SECS", "1").output().unwrap();
    let said = [ran.stdout, ran.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(ran.status.success() && said[0].contains("1 passed"), "{}", said.concat());
    false
}

/// Where the storage at `endpoint` is reached, unless there is the file `away`.
fn through(endpoint: &str, away: PathBuf) -> String {
    let storage = endpoint.strip_prefix("http://").unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for inward in listener.incoming().map_while(Result::ok) {
            if let (false, Ok(outward)) = (away.exists(), TcpStream::connect(&storage)) {
                for (from, to) in [(&inward, &outward), (&outward, &inward)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let away = away.clone();
                    std::thread::spawn(move || pass_on(from, to, &away));
                }
            }
        }
    });
    address
}

/// With the file `flips` beside `away`, a bit of what is large arrives as another one.
fn pass_on(mut from: TcpStream, mut to: TcpStream, away: &Path) {
    let mut bytes = [0; 64 << 10];
    while let Ok(count) = from.read(&mut bytes)
        && count > 0
        && !away.exists()
    {
        if count > LARGE_BYTES && away.with_extension("flips").exists() {
            bytes[count - 1] ^= 1;
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// From now on the storage is reached, or it is not.
fn storage_answers(answers: bool) {
    let away = PathBuf::from(std::env::var(OBJECTS).unwrap()).with_extension("away");
    if answers { fs::remove_file(away).unwrap() } else { fs::write(away, "").unwrap() }
}

/// A server with the pool `disk` in a directory, and `one` and `two` in a bucket; the domain `web` is in `disk`.
struct Pools {
    rig: Rig,
    data: PathBuf,
    folder: Option<Folder>,
}

impl Pools {
    fn new() -> Self {
        let rig = Rig::new();
        let data = rig._place.path().join("server");
        let folder = Folder::open(&data).unwrap();
        let disk = rig._place.path().join("disk");
        fs::create_dir(&disk).unwrap();
        folder.add_pool(&"disk".parse().unwrap(), &disk, false).unwrap();
        ROUND.fetch_add(1, Ordering::Relaxed);
        for name in ["one", "two"] {
            folder.add_pool(&name.parse().unwrap(), Path::new(&address(name)), false).unwrap();
        }
        let pools = Self { rig, data, folder: Some(folder) };
        copy_tree(&pools.rig.from, &pools.at("disk"));
        pools
    }

    /// The directory of the domain in a pool.
    fn at(&self, pool: &str) -> PathBuf {
        self.data.join("pools").join(pool).join("domains/web")
    }

    /// The server starts anew, and begins to use its pools.
    fn restarted(mut self) -> Self {
        self.folder = None;
        let folder = Folder::open(&self.data).unwrap();
        for pool in ["disk", "one", "two"] {
            folder.begin_pool(Some(&pool.parse().unwrap())).unwrap();
        }
        self.folder = Some(folder);
        self
    }

    /// From one pool to another, for who knows the catalog.
    fn between(&self, from: &str, to: &str) -> Rig {
        let place = tempfile::tempdir().unwrap();
        let control = Control::open(&place.path().join("data"), &[]).unwrap();
        let (switch, switched) = (Mutex::new(Ok(())), Mutex::default());
        let (from, to) = (self.at(from), self.at(to));
        let (shared, may_go_on) = (Shared::new(control), Mutex::new(Ok(())));
        Rig { _place: place, shared, from, to, switch, switched, may_go_on }
    }

    fn moved(&self, from: &str, to: &str) -> Result<Moved, UpkeepError> {
        self.between(from, to).moved(false)
    }

    fn finished(&self, from: &str, to: &str) -> Result<Moved, UpkeepError> {
        self.between(from, to).moved(true)
    }

    fn opened(&self, pool: &str) -> Repository {
        Repository::open(moves::source(&self.at(pool)).unwrap()).unwrap()
    }

    fn back_up(&self, pool: &str, n: u16) {
        let repository = std::sync::Arc::new(self.opened(pool));
        let lease = repository.lease("test").unwrap();
        store(&repository, &lease, n, 3_000);
    }

    /// All of it is in this pool, and nothing in any other one.
    fn lies_in(&self, pool: &str, snapshots: u16) {
        let repository = self.opened(pool);
        assert_eq!(repository.snapshots().unwrap().len(), usize::from(snapshots));
        assert!((1..=snapshots).all(|n| repository.is_complete(page(n)).unwrap()));
        for other in ["disk", "one", "two"] {
            let folder = self.at(other);
            let names = fs::read_dir(folder.parent().unwrap()).unwrap();
            let names: Vec<_> = names.map(|name| name.unwrap().file_name()).collect();
            assert_eq!(names.len(), usize::from(other == pool), "{other}: {names:?}");
            assert!(other == pool || objects(other).is_empty(), "{:?}", objects(other));
        }
    }
}

/// Each server has its own part of the bucket.
static ROUND: AtomicU32 = AtomicU32::new(0);

/// Of a pool of the last server.
fn address(pool: &str) -> String {
    let round = ROUND.load(Ordering::Relaxed);
    format!("s3://{}/{round}/{pool}", std::env::var(BUCKET).unwrap())
}

fn place_of(pool: &str) -> PathBuf {
    let round = ROUND.load(Ordering::Relaxed).to_string();
    let objects = PathBuf::from(std::env::var(OBJECTS).unwrap());
    objects.join(round).join(pool).join("domains/web")
}

fn container(pool: &str, number: u32) -> PathBuf {
    place_of(pool).join(format!("containers/00000000/{number:010x}.ice"))
}

/// The objects of the domain in a pool.
fn objects(pool: &str) -> Vec<String> {
    let place = place_of(pool);
    let found = Command::new("find").arg(&place).args(["-type", "f"]).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    let below = |path: &str| Path::new(path).strip_prefix(&place).unwrap().display().to_string();
    found.lines().map(below).collect()
}

fn remove_object(pool: &str, name: &str) {
    fs::remove_file(place_of(pool).join(name)).unwrap();
}

/// As if it were killed there.
fn renamed(from: &Path, to: &Path) {
    fs::rename(from, to).unwrap();
}

#[test]
fn a_domain_moves_there_and_back_and_to_another_bucket() {
    if !is_there("a_domain_moves_there_and_back_and_to_another_bucket") {
        return;
    }
    let pools = Pools::new();
    let (mut at, mut count) = ("disk", 3);
    for to in ["one", "disk", "one", "two", "one", "disk"] {
        let moved = pools.moved(at, to).unwrap();
        assert!(moved.is_done && moved.files > 6 && moved.bytes > 9_000, "{moved:?}");
        pools.lies_in(to, count);
        count += 1;
        pools.back_up(to, count);
        at = to;
    }
    pools.restarted().lies_in("disk", count);
}

#[test]
fn one_that_was_killed_while_it_copied_is_gone_on_with() {
    if !is_there("one_that_was_killed_while_it_copied_is_gone_on_with") {
        return;
    }
    for from in ["disk", "two"] {
        let pools = Pools::new();
        if from == "two" {
            pools.moved("disk", "two").unwrap();
        }
        // As far as it comes: all of it, without the end.
        let rig = pools.between(from, "one");
        *rig.switch.lock() = Err("the database is away".to_owned());
        rig.moved(false).unwrap_err();
        renamed(&finished(&rig.to), &unfinished(&rig.to));
        for name in ["config", "config.copy", "containers/00000000/0000000001.ice"] {
            remove_object("one", name);
        }
        let pools = pools.restarted();
        assert!(!pools.at("one").exists(), "what is copied in part is no domain");
        pools.back_up(from, 4);
        let (kept, gone) = (container("one", 2), container("one", 1));
        assert!(!gone.exists());
        let written = fs::metadata(&kept).unwrap().modified().unwrap();
        pools.moved(from, "one").unwrap();
        let now = fs::metadata(&kept).unwrap().modified().unwrap();
        assert!(now == written && gone.exists(), "what is there is not copied again");
        pools.lies_in("one", 4);
    }
}

#[test]
fn a_copy_in_a_bucket_that_was_whole_before_the_catalog_knew_takes_what_came_since() {
    let name = "a_copy_in_a_bucket_that_was_whole_before_the_catalog_knew_takes_what_came_since";
    if !is_there(name) {
        return;
    }
    let pools = Pools::new();
    let rig = pools.between("disk", "one");
    *rig.switch.lock() = Err("the database is away".to_owned());
    let why = rig.moved(false).unwrap_err().to_string();
    assert!(why.contains("the database is away"), "{why}");
    assert!(finished(&rig.to).exists());
    let pools = pools.restarted();
    assert!(!pools.at("one").exists(), "a note of a move says what the objects are");
    pools.back_up("disk", 4);
    let rig = pools.between("disk", "one");
    let seen = AtomicU32::new(0);
    let looks = At("copy the rest", || {
        assert!(!objects("one").iter().any(|name| name.starts_with("config")), "no repository");
        seen.fetch_add(1, Ordering::Relaxed);
    });
    assert!(
        Mover(rig.shared.clone()).move_domain(&rig.request(false), &rig, &looks).unwrap().is_done
    );
    assert_eq!(seen.into_inner(), 1);
    pools.lies_in("one", 4);
}

#[test]
fn one_that_was_killed_behind_the_change_of_the_catalog_is_finished_in_buckets_too() {
    let name = "one_that_was_killed_behind_the_change_of_the_catalog_is_finished_in_buckets_too";
    if !is_there(name) {
        return;
    }
    for (from, to) in [("disk", "one"), ("one", "disk"), ("one", "two")] {
        for step in 0..5 {
            let pools = Pools::new();
            if from == "one" {
                pools.moved("disk", "one").unwrap();
            }
            let rig = pools.between(from, to);
            *rig.switch.lock() = Err("killed".to_owned());
            rig.moved(false).unwrap_err();
            if step > 0 {
                renamed(&finished(&rig.to), &rig.to);
            }
            if step > 1 {
                renamed(&rig.from, &leftover(&rig.from));
            }
            if step > 2 && from == "one" {
                ["config", "config.copy"].iter().for_each(|name| remove_object("one", name));
            }
            if step > 3 && from == "one" {
                fs::remove_dir_all(place_of("one")).unwrap();
            }
            let pools = pools.restarted();
            assert!(step < 2 || !pools.at(from).exists(), "it lies in one pool only");
            assert!(pools.finished(from, to).unwrap().is_done, "{from} to {to}, step {step}");
            pools.lies_in(to, 3);
        }
    }
}

#[test]
fn what_only_the_first_of_two_buckets_has_is_never_removed() {
    if !is_there("what_only_the_first_of_two_buckets_has_is_never_removed") {
        return;
    }
    let pools = Pools::new();
    pools.moved("disk", "one").unwrap();
    let rig = pools.between("one", "two");
    *rig.switch.lock() = Err("killed".to_owned());
    rig.moved(false).unwrap_err();
    renamed(&finished(&rig.to), &rig.to);
    pools.back_up("one", 4);
    let before = objects("one").len();
    let error = pools.finished("one", "two").unwrap_err();
    assert!(matches!(&error, UpkeepError::Doubt(why) if why.contains("both stay")), "{error}");
    assert!(error.to_string().contains(&format!("{}/domains/web/", address("one"))), "{error}");
    assert!(objects("one").len() >= before && pools.opened("one").is_complete(page(4)).unwrap());
    assert!(pools.opened("two").is_complete(page(3)).unwrap());
}

#[test]
fn a_move_of_a_bucket_that_is_told_to_end_leaves_nothing_behind() {
    if !is_there("a_move_of_a_bucket_that_is_told_to_end_leaves_nothing_behind") {
        return;
    }
    let pools = Pools::new();
    for (from, to) in [("disk", "one"), ("one", "disk")] {
        for questions in 1.. {
            let rig = pools.between(from, to);
            let (mover, ends) = (Mover(rig.shared.clone()), Ends(Mutex::new(questions)));
            if mover.move_domain(&rig.request(false), &rig, &ends).unwrap().is_done {
                assert!(questions > 10, "only {questions}");
                break;
            }
            pools.lies_in(from, 3);
        }
        pools.lies_in(to, 3);
    }
}

#[test]
fn no_domain_is_copied_into_what_somebody_else_has_there() {
    if !is_there("no_domain_is_copied_into_what_somebody_else_has_there") {
        return;
    }
    let pools = Pools::new();
    let stranger = place_of("one").join("containers/00000000");
    fs::create_dir_all(&stranger).unwrap();
    fs::write(stranger.join("0000000001.ice"), "of another repository").unwrap();
    let error = pools.moved("disk", "one").unwrap_err().to_string();
    let at = format!("{}/domains/web", address("one"));
    assert!(error.contains(&at) && error.contains("move again"), "{error}");
    assert!(!error.contains("What was copied"), "{error}");
    assert_eq!(objects("one"), ["containers/00000000/0000000001.ice"]);
    fs::remove_dir_all(place_of("one")).unwrap();
    // The last beat of a writer that removed everything.
    fs::create_dir_all(place_of("one").join("lease")).unwrap();
    fs::write(place_of("one").join("lease/0000000000000001.beat"), "x").unwrap();
    pools.moved("disk", "one").unwrap();
    pools.lies_in("one", 3);
}

#[test]
fn what_was_copied_of_another_repository_of_this_name_goes() {
    if !is_there("what_was_copied_of_another_repository_of_this_name_goes") {
        return;
    }
    let pools = Pools::new();
    let rig = pools.between("disk", "one");
    *rig.switch.lock() = Err("killed".to_owned());
    rig.moved(false).unwrap_err();
    renamed(&finished(&rig.to), &unfinished(&rig.to));
    // A container of the same name and length, of which nothing can be read.
    let container = container("one", 1);
    let length = fs::metadata(&container).unwrap().len();
    fs::write(&container, vec![7; length as usize]).unwrap();
    fs::write(unfinished(&rig.to).join("repository"), "another one\n").unwrap();
    pools.moved("disk", "one").unwrap();
    pools.lies_in("one", 3);
}

#[test]
fn a_note_of_a_move_removes_no_objects_that_are_those_of_the_domain() {
    if !is_there("a_note_of_a_move_removes_no_objects_that_are_those_of_the_domain") {
        return;
    }
    let pools = Pools::new();
    pools.moved("disk", "one").unwrap();
    let domain = pools.at("one");
    let before = objects("one");
    for note in [unfinished(&domain), finished(&domain), leftover(&domain)] {
        fs::create_dir(&note).unwrap();
        fs::copy(domain.join(NOTE), note.join(NOTE)).unwrap();
        let error = moves::remove(&note).unwrap_err();
        assert!(error.to_string().contains("nothing was removed"), "{error}");
        assert!(note.exists() && objects("one") == before);
        // Nor does a new repository come there.
        renamed(&domain, &domain.with_file_name("away"));
        let error = repositories::new_storage(&domain).err().unwrap();
        assert!(error.to_string().contains("icecore server pool move web"), "{error}");
        assert!(!domain.exists());
        renamed(&domain.with_file_name("away"), &domain);
        fs::remove_dir_all(&note).unwrap();
    }
    pools.lies_in("one", 3);
}

#[test]
fn what_moves_have_noted_of_a_domain_that_is_gone_goes_with_it() {
    if !is_there("what_moves_have_noted_of_a_domain_that_is_gone_goes_with_it") {
        return;
    }
    let pools = Pools::new();
    let rig = pools.between("disk", "one");
    *rig.switch.lock() = Err("killed".to_owned());
    rig.moved(false).unwrap_err();
    let has = || {
        pools
            .folder
            .as_ref()
            .unwrap()
            .still_has(Some(&"one".parse().unwrap()), &"web".parse().unwrap())
    };
    assert!(has().unwrap().is_some_and(|at| at.starts_with("s3://")), "objects are there");
    assert!(finished(&rig.to).exists());
    fs::remove_dir_all(place_of("one")).unwrap();
    assert_eq!(has().unwrap(), None);
    assert!(!finished(&rig.to).exists() && repositories::new_storage(&rig.to).is_ok());
}

/// Another server finds the pool by what lies in the bucket, while a domain is being moved into it or out of it.
#[test]
fn another_server_finds_no_domain_in_a_part_of_a_copy_and_the_first_removes_nothing_more() {
    let name =
        "another_server_finds_no_domain_in_a_part_of_a_copy_and_the_first_removes_nothing_more";
    if !is_there(name) {
        return;
    }
    let pools = Pools::new();
    let rig = pools.between("disk", "one");
    *rig.switch.lock() = Err("killed".to_owned());
    rig.moved(false).unwrap_err();
    let found = |is_whole: bool| {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(&place.path().join("data")).unwrap();
        folder.add_pool(&"one".parse().unwrap(), Path::new(&address("one")), true).unwrap();
        let note = place.path().join("data/pools/one/domains/web");
        assert_eq!(note.exists(), is_whole);
    };
    // All is there, and the catalog of the first may say so: in doubt, both know it.
    found(true);
    ["config", "config.copy"].iter().for_each(|name| remove_object("one", name));
    renamed(&finished(&rig.to), &unfinished(&rig.to));
    found(false);
    let before = objects("one").len();
    for request in [rig.request(false), MoveRequest { interrupt: true, ..rig.request(false) }] {
        let mover = Mover(rig.shared.clone());
        let error = mover.move_domain(&request, &rig, &Unwatched).unwrap_err().to_string();
        assert!(error.contains("another server has taken it over"), "{error}");
    }
    assert!(moves::remove(&unfinished(&rig.to)).is_err());
    assert_eq!(objects("one").len(), before);
}

/// Does something when a stage begins.
struct At<F>(&'static str, F);

impl<F: Fn() + Sync> Watch for At<F> {
    fn moved(&self, _: u64) {}

    fn goes_on(&self) -> bool {
        true
    }

    fn stage(&self, name: &str) {
        if name == self.0 {
            (self.1)();
        }
    }
}

/// Does something once, after so many pieces were copied while the domain is closed.
struct After<F> {
    is_closed: AtomicBool,
    copied: AtomicU32,
    pieces: u32,
    act: F,
}

impl<F: Fn() + Sync> After<F> {
    fn new(pieces: u32, act: F) -> Self {
        Self { is_closed: AtomicBool::new(false), copied: AtomicU32::new(0), pieces, act }
    }
}

impl<F: Fn() + Sync> Watch for After<F> {
    fn moved(&self, _: u64) {
        let is_closed = self.is_closed.load(Ordering::Relaxed);
        if is_closed && self.copied.fetch_add(1, Ordering::Relaxed) == self.pieces {
            (self.act)();
        }
    }

    fn goes_on(&self) -> bool {
        true
    }

    fn stage(&self, name: &str) {
        self.is_closed.store(name == "copy the rest", Ordering::Relaxed);
    }
}

/// It stood still for a minute, and somebody else began to write there.
#[test]
fn a_mover_that_is_overtaken_in_its_bucket_changes_no_catalog() {
    if !is_there("a_mover_that_is_overtaken_in_its_bucket_changes_no_catalog") {
        return;
    }
    let pools = Pools::new();
    let location = Location::parse(&format!("{}/domains/web", address("one"))).unwrap().unwrap();
    for pieces in 0.. {
        let taken = Mutex::new(None);
        let overtakes = After::new(pieces, || {
            let mut other =
                object_storage::from_environment(&location, object_storage::Away::NONE).unwrap();
            other.take_over_after(Duration::ZERO);
            let lock = other.try_lock(LOCK).unwrap().unwrap();
            *taken.lock() = Some((lock, other));
        });
        let rig = pools.between("disk", "one");
        let moved = Mover(rig.shared.clone()).move_domain(&rig.request(false), &rig, &overtakes);
        if taken.lock().is_none() {
            assert!(moved.unwrap().is_done && pieces > 3, "only {pieces}");
            return pools.lies_in("one", 3);
        }
        assert!(moved.is_err() && *rig.switched.lock() == 0, "after {pieces} pieces: {moved:?}");
        assert!(rig.shared.domains.open(&pools.at("disk")).is_ok());
    }
}

#[test]
fn a_copy_in_a_bucket_that_lost_an_object_is_seen_before_the_catalog_changes() {
    if !is_there("a_copy_in_a_bucket_that_lost_an_object_is_seen_before_the_catalog_changes") {
        return;
    }
    let pools = Pools::new();
    // All containers are there by then.
    let loses = After::new(3, || fs::remove_file(container("one", 2)).unwrap());
    let rig = pools.between("disk", "one");
    let moved = Mover(rig.shared.clone()).move_domain(&rig.request(false), &rig, &loses);
    let error = moved.unwrap_err();
    assert!(error.to_string().contains("0000000002.ice is not in the copy"), "{error}");
    assert_eq!(*rig.switched.lock(), 0);
    assert!(rig.shared.domains.open(&rig.from).is_ok());
    pools.moved("disk", "one").unwrap();
    pools.lies_in("one", 3);
}

#[test]
fn a_bucket_that_is_away_in_the_middle_costs_nothing_and_closes_nothing() {
    if !is_there("a_bucket_that_is_away_in_the_middle_costs_nothing_and_closes_nothing") {
        return;
    }
    let pools = Pools::new();
    for (from, to, stage) in
        [("disk", "one", "copy the rest"), ("one", "disk", "copy"), ("one", "disk", "remove")]
    {
        let rig = pools.between(from, to);
        let mover = Mover(rig.shared.clone());
        let away = At(stage, || storage_answers(false));
        let error = mover.move_domain(&rig.request(false), &rig, &away).unwrap_err();
        let (error, is_switched) = (error.to_string(), stage == "remove");
        if stage == "copy the rest" || is_switched {
            // Who reaches its pool uses it, and is not kept from it by the other one.
            let used = if is_switched { &rig.to } else { &rig.from };
            assert!(rig.shared.domains.open(used).is_ok(), "{stage}: {error}");
        }
        storage_answers(true);
        let hint = "icecore server pool move web disk";
        assert_eq!(error.contains(hint), is_switched, "{stage}: {error}");
        assert_eq!(*rig.switched.lock() == 1, is_switched, "{stage}");
        let again = if is_switched { pools.finished(from, to) } else { pools.moved(from, to) };
        if stage == "copy" {
            // Back, for what comes next.
            assert!(again.unwrap().is_done && pools.moved(to, from).unwrap().is_done);
            pools.lies_in(from, 3);
        } else {
            assert!(again.unwrap().is_done);
            pools.lies_in(to, 3);
        }
    }
}

/// What a mover sends was compared with what it read; that it arrived so, the storage says.
#[test]
fn what_the_network_changes_is_refused_by_the_storage() {
    if !is_there("what_the_network_changes_is_refused_by_the_storage") {
        return;
    }
    let pools = Pools::new();
    let flips = PathBuf::from(std::env::var(OBJECTS).unwrap()).with_extension("flips");
    fs::write(&flips, "").unwrap();
    let error = pools.moved("disk", "one").unwrap_err().to_string();
    assert!(error.contains(".ice") && error.contains("the next move continues"), "{error}");
    assert!(!container("one", 1).exists(), "it has no object: {error}");
    fs::remove_file(flips).unwrap();
    pools.moved("disk", "one").unwrap();
    pools.lies_in("one", 3);
}
