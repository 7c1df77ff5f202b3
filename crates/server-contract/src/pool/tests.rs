use super::*;
use crate::folder::make_directory;
use std::fs;
use tempfile::TempDir;

/// A server that was started once.
fn server() -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    make_directory(&data).unwrap();
    open(&data).unwrap();
    (place, data)
}

/// As if its file system were not mounted: an empty directory is there.
fn unmount(data: &Path, name: &str) -> PathBuf {
    let away = data.join("away");
    fs::rename(data.join(name), &away).unwrap();
    fs::create_dir(data.join(name)).unwrap();
    away
}

fn why(error: &Error) -> &str {
    match error {
        Error::Pool { why, .. } => why,
        other => panic!("{other}"),
    }
}

#[test]
fn a_pool_that_is_not_mounted_is_an_error_and_nothing_is_created_below_it() {
    let (_place, data) = server();
    let domain = data.join("pool/domains/web");
    verify(&domain).unwrap();
    let away = unmount(&data, "pool");
    let error = open(&data).unwrap_err();
    assert!(why(&error).contains("not mounted"), "{error}");
    let refused = verify(&domain).unwrap_err();
    assert!(refused.is_unreachable() && !refused.is_not_found(), "{refused}");
    assert_eq!(fs::read_dir(data.join("pool")).unwrap().count(), 0);
    fs::remove_dir(data.join("pool")).unwrap();
    assert!(open(&data).is_err() && !data.join("pool").exists());
    fs::rename(&away, data.join("pool")).unwrap();
    verify(&domain).unwrap();
    open(&data).unwrap();
}

#[test]
fn a_pool_without_its_directory_of_domains_is_an_error() {
    let (_place, data) = server();
    fs::remove_dir(data.join("pool/domains")).unwrap();
    assert!(why(&open(&data).unwrap_err()).contains("pool/domains is missing"));
    assert!(!data.join("pool/domains").exists());
}

#[test]
fn a_pool_of_another_server_is_not_taken() {
    let (_one, data) = server();
    let (_two, other) = server();
    fs::copy(other.join("pool/superblock"), data.join("pool/superblock")).unwrap();
    assert!(why(&open(&data).unwrap_err()).contains("another pool"));
    accept(&data).unwrap();
    open(&data).unwrap();
}

#[test]
fn who_lost_its_pool_to_another_server_uses_it_no_more() {
    let (_place, data) = server();
    let copy = data.join("copy");
    make_directory(&copy).unwrap();
    fs::copy(data.join(REMEMBERED), copy.join(REMEMBERED)).unwrap();
    std::os::unix::fs::symlink(data.join("pool"), copy.join("pool")).unwrap();
    open(&copy).unwrap();
    let refused = verify(&data.join("pool/domains/web")).unwrap_err();
    assert!(refused.to_string().contains("another server"), "{refused}");
    assert!(why(&open(&data).unwrap_err()).contains("another server"));
    verify(&copy.join("pool/domains/web")).unwrap();
}

/// The files of the server were lost, or another one was pointed at its pool.
#[test]
fn who_starts_for_the_first_time_on_a_pool_takes_it_from_whoever_used_it() {
    let (_place, data) = server();
    let new = data.join("new");
    make_directory(&new).unwrap();
    std::os::unix::fs::symlink(data.join("pool"), new.join("pool")).unwrap();
    open(&new).unwrap();
    let refused = verify(&data.join("pool/domains/web")).unwrap_err();
    assert!(refused.to_string().contains("another server"), "{refused}");
    verify(&new.join("pool/domains/web")).unwrap();
}

/// Else the files of a server and an empty pool would pass for a first start.
#[test]
fn a_pool_without_a_superblock_is_a_first_start_only_where_no_server_ever_was() {
    let (_place, data) = server();
    fs::remove_file(data.join("pool/superblock")).unwrap();
    for name in ["catalog.sqlite", "storage.toml", "receipts"] {
        fs::write(data.join(name), "").unwrap();
        assert!(why(&open(&data).unwrap_err()).contains("no superblock"), "{name}");
        fs::remove_file(data.join(name)).unwrap();
    }
    open(&data).unwrap();
    verify(&data.join("pool/domains/web")).unwrap();
}

/// Killed between the two files, or the pool was too full for the new superblock.
#[test]
fn a_generation_that_did_not_reach_the_pool_is_no_other_server() {
    let (_place, data) = server();
    let memory = Memory::read(&PoolPaths::of(&data, None)).unwrap().unwrap();
    let text = fs::read_to_string(data.join(REMEMBERED)).unwrap();
    let later = memory.superblock.generation + 5;
    fs::write(data.join(REMEMBERED), text.replace("generation 1", &format!("generation {later}")))
        .unwrap();
    open(&data).unwrap();
    assert_eq!(superblock(&PoolPaths::of(&data, None)).unwrap().unwrap().generation, later + 1);
}

#[test]
fn a_server_of_an_earlier_version_gets_a_superblock_if_its_domains_are_there() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path();
    fs::create_dir_all(data.join("ca")).unwrap();
    fs::write(data.join("ca/ca.pem"), "x").unwrap();
    fs::create_dir(data.join("pool")).unwrap();
    assert!(why(&open(data).unwrap_err()).contains("pool/domains is missing"));
    assert_eq!(fs::read_dir(data.join("pool")).unwrap().count(), 0);
    fs::create_dir(data.join("pool/domains")).unwrap();
    open(data).unwrap();
    assert!(data.join("pool/superblock").exists());
}

#[test]
fn a_mount_point_that_was_there_is_missed_when_it_is_not() {
    let (_place, data) = server();
    let text = fs::read_to_string(data.join(REMEMBERED)).unwrap();
    fs::write(data.join(REMEMBERED), format!("{text}mount pool/domains\n")).unwrap();
    assert!(why(&open(&data).unwrap_err()).contains("pool/domains is not mounted"));
    accept(&data).unwrap();
    assert_eq!(Memory::read(&PoolPaths::of(&data, None)).unwrap().unwrap().mounts, [""; 0]);
    open(&data).unwrap();
}

#[test]
fn a_damaged_memory_or_superblock_is_an_error() {
    for name in [REMEMBERED, "pool/superblock"] {
        let (_place, data) = server();
        fs::write(data.join(name), "icecore pool 1\n").unwrap();
        assert!(open(&data).is_err(), "{name}");
        assert!(verify(&data.join("pool/domains/web")).is_err(), "{name}");
    }
}

#[test]
fn what_is_damaged_in_the_memory_is_accepted_by_who_says_so() {
    let (place, data) = server();
    fs::write(data.join(REMEMBERED), "rubbish").unwrap();
    accept(&data).unwrap();
    open(&data).unwrap();
    let (disk, name) = (place.path().join("disk"), "fast".parse().unwrap());
    fs::create_dir(&disk).unwrap();
    add(&data, &name, &disk, false).unwrap();
    fs::write(data.join("pool-ids/fast"), "rubbish").unwrap();
    assert!(add(&data, &name, &disk, false).is_err());
    add(&data, &name, &disk, true).unwrap();
    verify_pool(&data, Some(&name)).unwrap();
}

#[test]
fn a_repository_in_no_pool_is_not_asked() {
    let place = tempfile::tempdir().unwrap();
    verify(&place.path().join("a/b/c")).unwrap();
    verify(Path::new("c")).unwrap();
}

/// Somebody would create it, below the mount point.
#[test]
fn a_repository_is_not_missing_where_the_pool_is() {
    let (_place, data) = server();
    let domain = data.join("pool/domains/web");
    assert!(crate::config(&domain).unwrap().is_none());
    unmount(&data, "pool");
    let error = crate::config(&domain).unwrap_err();
    assert!(error.to_string().contains("not mounted"), "{error}");
}
