//! Where domains lie, and where new ones go.

use super::*;
use api::enroll::KeyMode;
use testkit::Hanging;

fn server() -> (tempfile::TempDir, Pools) {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::open(&place.path().join("data")).unwrap();
    let catalog = catalog::Location::file(place.path().join("data/catalog.sqlite"));
    let catalog = Arc::new(Catalog::open(&catalog).unwrap());
    (place, Pools::new(catalog, Arc::new(folder)))
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn new(pool: &str, path: &str) -> NewPool {
    NewPool { name: name(pool), path: path.to_owned(), accept: false }
}

fn add(pools: &Pools, place: &tempfile::TempDir, pool: &str) -> PathBuf {
    let dir = place.path().join(format!("disk of {pool}"));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.display().to_string();
    pools.add("test", &new(pool, &path)).unwrap();
    dir
}

fn domain(pool: Option<&str>) -> Domain {
    let (keys, settings) = (KeyMode::Managed, Default::default());
    let (repository, pool) = (Some("ab".to_owned()), pool.map(name));
    Domain {
        name: name("web"),
        keys,
        repository,
        sealed: None,
        made: 0,
        storage: None,
        pool,
        settings,
    }
}

fn why(pools: &Pools, domain: &Domain) -> String {
    pools.place_of(domain).err().unwrap().to_string()
}

#[test]
fn a_domain_that_lies_in_two_pools_or_in_none_is_an_error_that_names_them() {
    let (place, pools) = server();
    let disk = add(&pools, &place, "fast");
    let [main, fast] = [place.path().join("data/pool/domains/web"), disk.join("domains/web")];
    assert!(
        why(&pools, &domain(None)).contains("'main'")
            && why(&pools, &domain(None)).contains("lies in none")
    );
    std::fs::create_dir(&main).unwrap();
    assert!(why(&pools, &domain(None)).contains("lies in none"), "an empty folder");
    // One of its two files of settings is lost: a check repairs that.
    std::fs::write(main.join("config.copy"), "").unwrap();
    assert_eq!(pools.place_of(&domain(None)).unwrap().folder, main);
    let elsewhere = why(&pools, &domain(Some("fast")));
    assert!(
        elsewhere.contains("should lie in the pool 'fast'") && elsewhere.contains("'main'"),
        "{elsewhere}"
    );
    std::fs::create_dir(&fast).unwrap();
    std::fs::write(fast.join("config"), "").unwrap();
    for pool in [None, Some("fast")] {
        let both = why(&pools, &domain(pool));
        assert!(both.contains("lies in two pools: "), "{both}");
        assert!(both.contains("'main'") && both.contains("'fast'"), "{both}");
    }
    std::fs::remove_dir_all(&main).unwrap();
    let found = pools.place_of(&domain(Some("fast"))).unwrap().folder;
    assert_eq!(std::fs::canonicalize(found).unwrap(), std::fs::canonicalize(fast).unwrap());
}

/// Seen: the catalog came back from a copy that was older than a move, and the status advised to remove the domain.
#[test]
fn a_domain_that_is_in_another_pool_than_its_own_is_told_with_that_one() {
    let (place, pools) = server();
    let disk = add(&pools, &place, "fast");
    let web = domain(None);
    pools.catalog.add_domain(by("test"), &web).unwrap();
    let lost = pools.domain_faults().unwrap();
    assert!(lost.len() == 1 && lost[0].contains("remove-domain"), "{lost:?}");
    std::fs::create_dir(disk.join("domains/web")).unwrap();
    std::fs::write(disk.join("domains/web/config"), "").unwrap();
    let moved = pools.domain_faults().unwrap();
    assert!(moved.len() == 1 && moved[0].contains("lies in 'fast'"), "{moved:?}");
    assert!(!moved[0].contains("remove-domain"), "{moved:?}");
}

#[test]
fn a_state_says_what_a_pool_is_used_for() {
    let (place, pools) = server();
    let disk = add(&pools, &place, "fast");
    std::fs::create_dir(disk.join("domains/web")).unwrap();
    std::fs::write(disk.join("domains/web/config"), "").unwrap();
    let web = domain(Some("fast"));
    let set = |state| pools.set_state("test", &name("fast"), state).unwrap();
    assert!(pools.place_of(&web).unwrap().read_only.is_none());
    set(PoolState::ReadOnly);
    let refusal = pools.place_of(&web).unwrap().read_only.unwrap();
    assert_eq!(refusal.message, "the pool 'fast' is read-only");
    set(PoolState::Draining);
    assert!(pools.place_of(&web).unwrap().read_only.is_none());
    let refused = pools.choose(&name("new"), Some(&name("fast"))).unwrap_err();
    assert!(refused.to_string().contains("is draining: it takes no new domains"), "{refused}");
    assert_eq!(pools.choose(&name("new"), None).unwrap(), None);
    set(PoolState::Offline);
    assert!(why(&pools, &web).contains("is offline"));
    pools.set_state("test", &name("main"), PoolState::Draining).unwrap();
    assert!(
        pools
            .choose(&name("new"), None)
            .unwrap_err()
            .to_string()
            .contains("no pool takes new domains")
    );
    set(PoolState::Online);
    assert_eq!(pools.choose(&name("new"), None).unwrap(), Some(name("fast")));
    assert!(pools.set_state("test", &name("none"), PoolState::Online).is_err());
}

#[test]
fn a_directory_is_one_pool_of_one_server_and_none_within_another() {
    let (place, pools) = server();
    let disk = add(&pools, &place, "fast");
    let refused = |pool: &str, path: &Path| {
        let path = path.display().to_string();
        pools.add("test", &new(pool, &path)).unwrap_err().to_string()
    };
    assert!(refused("other", &disk).contains("lies in the same directories"));
    assert!(refused("other", &disk.join("domains")).contains("lies in the same directories"));
    assert!(
        refused("other", &place.path().join("data/pool")).contains("lies in the same directories")
    );
    assert!(refused("main", &disk).contains("take another name"));
    assert!(refused("other", Path::new("disk")).contains("no full path"));
    assert!(refused("other", &place.path().join("nowhere")).contains("nowhere"));
    let (_other_place, other) = server();
    let taken = other.add("test", &new("mine", &disk.display().to_string())).unwrap_err();
    assert!(taken.to_string().contains("another pool already"), "{taken}");
    assert_eq!(add(&pools, &place, "fast"), disk, "who was killed repeats it");
}

#[test]
fn a_pool_that_is_not_mounted_is_told_and_takes_no_domains() {
    let (place, pools) = server();
    let disk = add(&pools, &place, "fast");
    let away = place.path().join("away");
    std::fs::rename(&disk, &away).unwrap();
    std::fs::create_dir(&disk).unwrap();
    let fault = |pools: &Pools| pools.all().unwrap().pools[1].fault.clone();
    assert!(fault(&pools).unwrap().contains("not mounted"));
    pools.set_state("test", &name("main"), PoolState::Draining).unwrap();
    let web = domain(Some("fast"));
    assert!(pools.place_of(&web).is_ok(), "who opens it is told that it is not mounted");
    pools.set_state("test", &name("main"), PoolState::Online).unwrap();
    let main = place.path().join("data/pool");
    std::fs::rename(&main, place.path().join("main away")).unwrap();
    let none = pools.choose(&name("new"), None).unwrap_err().to_string();
    assert!(none.contains("no pool takes new domains"), "{none}");
    std::fs::rename(place.path().join("main away"), &main).unwrap();
    std::fs::remove_dir(&disk).unwrap();
    // Elsewhere now: it is found by its identity.
    let path = away.display().to_string();
    let found = pools.add("test", &new("fast", &path)).unwrap();
    assert_eq!((found.path, found.fault), (path, None));
}

/// The catalog was lost, or restored from before the pool was added.
#[test]
fn a_domain_that_lies_in_a_pool_unknown_to_the_catalog_is_found() {
    let (place, pools) = server();
    let disk = add(&pools, &place, "fast");
    std::fs::create_dir(disk.join("domains/web")).unwrap();
    let lost = catalog::Location::file(place.path().join("data/other.sqlite"));
    let pools = Pools::new(Arc::new(Catalog::open(&lost).unwrap()), pools.folder.clone());
    assert_eq!(pools.all().unwrap().pools[1].path, disk.display().to_string());
    assert_eq!(pools.choose(&name("web"), None).unwrap(), Some(name("fast")));
    let elsewhere = pools.choose(&name("web"), Some(&name("main"))).unwrap_err().to_string();
    assert!(elsewhere.contains("lies in the pool 'fast'"), "{elsewhere}");
    pools.set_state("test", &name("fast"), PoolState::Draining).unwrap();
    assert_eq!(pools.choose(&name("web"), None).unwrap(), Some(name("fast")));
    assert!(why(&pools, &domain(None)).contains("and lies in 'fast'"));
    std::fs::create_dir(place.path().join("data/pool/domains/web")).unwrap();
    let twice = pools.choose(&name("web"), None).unwrap_err().to_string();
    assert!(twice.contains("lies in two pools: 'main'") && twice.contains("'fast'"), "{twice}");
}

/// The folder of the server was restored without what it remembers of its further pools, or that is damaged.
#[test]
fn a_further_pool_is_attached_again_when_an_administrator_says_that_it_is_the_right_one() {
    let (place, pools) = server();
    let disk = add(&pools, &place, "fast");
    let memory = place.path().join("data/pool-ids/fast");
    let path = disk.display().to_string();
    let accept = |path: &str| NewPool { accept: true, ..new("fast", path) };
    for damaged in [false, true] {
        std::fs::remove_file(place.path().join("data/pools/fast")).unwrap();
        std::fs::remove_file(&memory).unwrap();
        if damaged {
            std::fs::write(&memory, "x").unwrap();
        }
        let refused = pools.add("test", &new("fast", &path)).unwrap_err().to_string();
        assert!(refused.contains("icecore server pool add fast DIR --accept"), "{refused}");
        assert_eq!(pools.add("test", &accept(&path)).unwrap().fault, None);
    }
    let empty = place.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let refused = pools.add("test", &accept(&empty.display().to_string())).unwrap_err().to_string();
    assert!(refused.contains("no superblock"), "{refused}");
}

/// What it left: a memory without a superblock, and a link under another name.
#[test]
fn whoever_was_killed_while_a_pool_was_added_repeats_it() {
    let (place, pools) = server();
    let disk = add(&pools, &place, "fast");
    let data = place.path().join("data");
    std::fs::remove_file(disk.join("superblock")).unwrap();
    let empty = new("fast", &disk.display().to_string());
    assert!(pools.add("test", &empty).is_err(), "a pool that is linked is missing");
    std::fs::rename(data.join("pools/fast"), data.join("pools/.fast.part")).unwrap();
    std::fs::write(data.join("pool-ids/.fast.part"), "x").unwrap();
    add(&pools, &place, "fast");
    add(&pools, &place, "fast.part");
    let names = |pools: &Pools| pools.all().unwrap().pools.into_iter().map(|pool| pool.fault);
    assert_eq!(names(&pools).collect::<Vec<_>>(), [None, None, None]);
}

/// Which generation the superblock in a directory has, and which one the server remembers.
fn generations(place: &tempfile::TempDir, disk: &Path) -> [String; 2] {
    let remembered = place.path().join("data/pool-ids/fast");
    [disk.join("superblock"), remembered].map(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().find(|line| line.starts_with("generation")).unwrap().to_owned()
    })
}

/// The server was started again.
fn restarted(place: &tempfile::TempDir, pools: Pools) -> Pools {
    let Pools { catalog, folder } = pools;
    drop(folder);
    let pools = Pools::new(catalog, Arc::new(Folder::open(&place.path().join("data")).unwrap()));
    Pools::new(pools.catalog.clone(), pools.folder.clone()).compare().unwrap();
    pools
}

#[test]
fn a_pool_is_taken_from_who_used_it_before_when_it_is_used_and_never_while_it_is_offline() {
    let (place, pools) = server();
    let disk = add(&pools, &place, "fast");
    pools.set_state("test", &name("fast"), PoolState::Offline).unwrap();
    let before = generations(&place, &disk);
    let pools = restarted(&place, pools);
    assert!(why(&pools, &domain(Some("fast"))).contains("is offline"));
    assert_eq!(generations(&place, &disk), before, "nobody touches it");
    pools.set_state("test", &name("fast"), PoolState::Online).unwrap();
    assert!(why(&pools, &domain(Some("fast"))).contains("lies in none"));
    let online = generations(&place, &disk);
    assert!(online[0] != before[0] && online[0] == online[1], "{online:?}");
    // Not there at the start, and mounted later.
    let away = place.path().join("away");
    std::fs::rename(&disk, &away).unwrap();
    let pools = restarted(&place, pools);
    std::fs::rename(&away, &disk).unwrap();
    assert_eq!(generations(&place, &disk), online);
    let begun = std::time::Instant::now();
    while generations(&place, &disk) == online {
        let _ = pools.place_of(&domain(Some("fast")));
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_domain_goes_from_the_catalog_only_when_its_directory_is_surely_gone() {
    let place = tempfile::tempdir().unwrap();
    let parts = Parts::open(&place.path().join("data"), &[]).unwrap();
    let (domains, pools) = (crate::domains::Domains::new(&parts), Pools::of(&parts));
    let disk = add(&pools, &place, "fast");
    parts.catalog.add_domain(by("test"), &domain(Some("fast"))).unwrap();
    let refused = || domains.remove("test", &name("web"), false).unwrap_err().to_string();
    std::fs::create_dir(disk.join("domains/web")).unwrap();
    assert!(refused().contains("is still there"), "{}", refused());
    std::fs::remove_dir(disk.join("domains/web")).unwrap();
    pools.set_state("test", &name("fast"), PoolState::Offline).unwrap();
    assert!(refused().contains("cannot be looked into"), "{}", refused());
    pools.set_state("test", &name("fast"), PoolState::Online).unwrap();
    let hint = match pools.place_of(&domain(Some("fast"))).err().unwrap() {
        Error::Refused(refusal) => refusal.hint,
        other => panic!("{other}"),
    };
    assert!(hint.ends_with("icecore server remove-domain web"), "{hint}");
    domains.remove("test", &name("web"), false).unwrap();
    assert!(parts.catalog.domains().unwrap().is_empty());
    assert!(refused().contains("web"), "{}", refused());
}

#[test]
fn a_pool_that_hangs_holds_up_nobody_but_those_who_need_it() {
    let (place, pools) = server();
    let disk = add(&pools, &place, "slow");
    let main = place.path().join("data/pool/domains/web");
    std::fs::create_dir(&main).unwrap();
    std::fs::write(main.join("config"), "").unwrap();
    std::thread::sleep(Duration::from_millis(1100)); // an answer is good for a second
    let Some(hanging) = Hanging::at(&disk.join("superblock")) else { return };
    let begun = std::time::Instant::now();
    assert_eq!(pools.place_of(&domain(None)).unwrap().folder, main);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    // It is known now: nobody waits again.
    let begun = std::time::Instant::now();
    (0..100).for_each(|_| drop(pools.place_of(&domain(None)).unwrap()));
    let needed = why(&pools, &domain(Some("slow")));
    assert!(needed.contains("has not answered for"), "{needed}");
    let new = pools.choose(&name("new"), None).unwrap_err().to_string();
    assert!(new.contains("has not answered for"), "it may have the folder: {new}");
    let all = pools.all().unwrap().pools;
    let [first, second] = &all[..] else { panic!("{all:?}") };
    assert_eq!(first.fault, None);
    assert!(second.fault.as_ref().unwrap().contains("has not answered for"), "{second:?}");
    assert_eq!(second.free_bytes, None);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    pools.set_state("test", &name("slow"), PoolState::Offline).unwrap();
    assert_eq!(pools.choose(&name("new"), None).unwrap(), None);
    pools.set_state("test", &name("slow"), PoolState::Online).unwrap();
    drop(hanging);
    let is_back = || pools.place_of(&domain(Some("slow"))).err().unwrap().to_string();
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while is_back().contains("has not answered") {
        assert!(std::time::Instant::now() < until, "it stays so although it answers");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(is_back().contains("lies in 'main'"), "{}", is_back());
}
