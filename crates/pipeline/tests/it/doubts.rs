//! What is old, strange or false in a repository: an index of yesterday, a clock of another
//! century, a writer who lies about names, a version of tomorrow.

use crate::testkit::build::{noise, small_tree};
use crate::testkit::faulty::{FaultyStorage, Plan};
use crate::testkit::forge::{Forge, entry, file};
use crate::testkit::{
    CHEAP, PASSWORD, TestFolder, Tree, assert_clean, checked, copy_tree, rebuilt, reclaimed,
    restore_with, snapshot,
};
use crypto::{Role, SlotSecret};
use format::entry::{Content, Kind, Segment};
use pipeline::retention::{self, CalendarTime, Keep, RetentionPolicy};
use pipeline::{Error, UnlockedRepository, reclaim};
use store::{Config, SnapshotRef};

const AGENT: SlotSecret<'static> = SlotSecret::Password(b"of the agent");

/// A repository and its past: how it was after each step.
struct Lab {
    test_folder: TestFolder,
    made: Vec<(SnapshotRef, Tree)>,
    past: Vec<TestFolder>,
}

impl Lab {
    /// Three backups; the first one is forgotten and its space reclaimed.
    fn new() -> Self {
        let test_folder = TestFolder::new();
        small_tree(&test_folder.source(), 1);
        let repository = test_folder.init();
        let mut lab = Self { test_folder, made: Vec::new(), past: Vec::new() };
        (0..3).for_each(|seed| lab.step(&repository, seed));
        let (forgotten, _) = lab.made.remove(0);
        repository.forget(&[forgotten]).unwrap();
        lab.past.push(lab.test_folder.copied());
        reclaimed(&repository);
        lab.past.push(lab.test_folder.copied());
        lab.step(&repository, 7);
        lab
    }

    fn step(&mut self, repository: &UnlockedRepository, seed: u64) {
        self.test_folder.write("large", &noise(seed, 120_000));
        let tree = self.test_folder.state();
        self.made.push((self.test_folder.backup(repository).snapshot, tree));
        self.past.push(self.test_folder.copied());
    }

    /// Puts `name` back as it was then.
    fn put_back(&self, past: &TestFolder, name: &str) -> TestFolder {
        let copy = self.test_folder.copied();
        let (from, to) = (past.repository().join(name), copy.repository().join(name));
        if from.is_dir() {
            std::fs::remove_dir_all(&to).unwrap();
            copy_tree(&from, &to);
        } else {
            std::fs::copy(from, to).unwrap();
        }
        copy
    }

    fn assert_all_restore(&self, test_folder: &TestFolder) {
        let repository = test_folder.open();
        for (name, tree) in &self.made {
            self.test_folder.assert_restores(&repository, *name, tree);
        }
    }

    /// Whatever was put back: the next backup is whole, and after a rebuild so are all others.
    fn assert_goes_on(&self, test_folder: &TestFolder, what: &str) {
        let repository = test_folder.open();
        let tree = self.test_folder.state();
        let done = self.test_folder.backup(&repository);
        self.test_folder.assert_restores(&repository, done.snapshot, &tree);
        rebuilt(test_folder);
        self.assert_all_restore(test_folder);
        self.test_folder.assert_restores(&test_folder.open(), done.snapshot, &tree);
        let names = test_folder.open().local().unwrap().snapshots().unwrap();
        assert!(names.is_sorted_by(|a, b| a.sequence < b.sequence), "{what}: {names:?}");
        assert_clean(&test_folder.open());
    }
}

#[test]
fn an_old_index_put_back_is_found_or_costs_nothing() {
    let lab = Lab::new();
    for (at, past) in lab.past.iter().enumerate() {
        let copy = lab.put_back(past, "index");
        let what = format!("the index of step {at}");
        let report = checked(&copy.open()).unwrap();
        // Restores from it are right, or say what they lack; and nobody reclaims by it.
        let mut whole = true;
        for (name, _) in &lab.made {
            let target = copy.at(&format!("target{}", name.sequence));
            let (report, _) =
                restore_with(&copy.open(), *name, b"", &target, &Default::default()).unwrap();
            whole &= report.failed == 0;
        }
        assert!(whole || !report.damages.is_empty(), "{what}: check says nothing");
        let before = copy.files();
        let options = pipeline::reclaim::ReclaimOptions {
            max_waste_percent: 0.0,
            dry_run: false,
            accept_damage: false,
            free_interrupted: false,
        };
        if pipeline::reclaim::run(&copy.open(), &options).is_err() {
            let containers = |name: &&String| name.ends_with(".ice");
            let left = copy.files();
            assert!(before.iter().filter(containers).all(|name| left.contains(name)), "{what}");
        }
        lab.assert_goes_on(&copy, &what);
        lab.assert_goes_on(&lab.put_back(past, "index"), &what);
    }
}

#[test]
fn an_old_lease_put_back_gives_no_number_twice() {
    let lab = Lab::new();
    for past in &lab.past {
        lab.assert_goes_on(&lab.put_back(past, "lease"), "an old lease");
        let copy = lab.put_back(past, "lease");
        std::fs::copy(past.repository().join("index/state"), copy.repository().join("index/state"))
            .unwrap();
        rebuilt(&copy);
        lab.assert_goes_on(&copy, "an old lease and an old state");
    }
}

/// A storage that goes back as a whole shows a state that once was true. Only who remembers a
/// later one can tell; the repository itself cannot, and does not pretend to.
#[test]
fn a_storage_that_goes_back_as_a_whole_is_sound_and_not_noticed() {
    let lab = Lab::new();
    assert_clean(&lab.past[1].open());
    assert_eq!(lab.past[1].open().local().unwrap().snapshots().unwrap().len(), 2);
}

/// But one that drops, replays or exchanges single files is.
#[test]
fn a_storage_that_drops_replays_or_swaps_a_snapshot_is_found() {
    let lab = Lab::new();
    let folder = |test_folder: &TestFolder| test_folder.repository().join("snapshots");
    let names = |test_folder: &TestFolder| {
        let of = |name: &String| name.starts_with("snapshots/");
        test_folder.files().into_iter().filter(of).collect::<Vec<_>>()
    };
    let all = names(&lab.test_folder);
    for (at, (name, _)) in lab.made.iter().enumerate() {
        let copy = lab.test_folder.copied();
        std::fs::remove_file(copy.repository().join(&all[at])).unwrap();
        let report = checked(&copy.open()).unwrap();
        let mut said = report.damages.iter().chain(&report.notes);
        let id = name.id.to_string();
        assert!(said.any(|damage| damage.what.contains(&id)), "dropped {at}: {report:#?}");
        // All but the newest are cited by the next one: that is damage, and not only a note.
        assert_eq!(report.damages.is_empty(), at + 1 == all.len(), "{:?}", report.damages);
    }
    let copy = lab.test_folder.copied();
    std::fs::rename(copy.repository().join(&all[0]), folder(&copy).join("x")).unwrap();
    std::fs::rename(copy.repository().join(&all[1]), copy.repository().join(&all[0])).unwrap();
    std::fs::rename(folder(&copy).join("x"), copy.repository().join(&all[1])).unwrap();
    assert_eq!(checked(&copy.open()).unwrap().damages.len(), 2, "swapped");
    for (name, _) in &lab.made[..2] {
        assert!(snapshot(&copy.open(), *name).is_err());
    }
    // A forgotten one that is shown again lacks its data, and check says so.
    let copy = lab.test_folder.copied();
    let forgotten = &names(&lab.past[2])[0];
    std::fs::copy(lab.past[2].repository().join(forgotten), copy.repository().join(forgotten))
        .unwrap();
    assert!(!checked(&copy.open()).unwrap().damages.is_empty(), "replayed");
}

/// Retention as the command line applies it.
fn kept(repository: &UnlockedRepository, policy: &RetentionPolicy) -> Vec<u64> {
    let mut reader = pipeline::manifest::ManifestReader::new(repository).unwrap();
    let all = reader.all(|name, error| panic!("{}: {error}", name.id)).unwrap();
    let days = |secs: i64| secs.div_euclid(86_400);
    let calendar = |time: format::entry::Time| CalendarTime {
        year: (1970 + days(time.secs) / 365) as i32,
        month: (days(time.secs).rem_euclid(365) / 31 + 1) as u8,
        day: (days(time.secs).rem_euclid(31) + 1) as u8,
        hour: (time.secs.rem_euclid(86_400) / 3600) as u8,
        week: (days(time.secs).div_euclid(364) as i32, (days(time.secs).rem_euclid(364) / 7) as u8),
    };
    let groups = retention::apply(
        policy,
        &all,
        &|_| true,
        &calendar,
        pipeline::environment::Environment::default().now_secs(),
    );
    let decisions = groups.iter().flat_map(|group| &group.decisions);
    let stay = decisions.filter(|decision| !decision.reasons.is_empty());
    stay.map(|decision| decision.snapshot.head.sequence).collect()
}

/// A clock that was years ahead, years behind or at its beginning when a backup was made. No rule
/// leaves a source with nothing, and what a rule leaves is not what reclaim takes.
#[test]
fn clocks_that_jump_cost_no_snapshot_that_a_rule_keeps() {
    const YEAR: i64 = 365 * 86_400;
    let now = pipeline::environment::Environment::default().now_secs();
    for jump in [10 * YEAR, -10 * YEAR, -now, -now - 5 * YEAR] {
        let test_folder = TestFolder::new();
        let repository = test_folder.init();
        let times = [now - 2 * 86_400, now - 86_400, now + jump, now, now + 60];
        let made: Vec<_> = times
            .iter()
            .map(|secs| {
                let forge = Forge::new(&repository).at(*secs);
                forge.publish_leaf(&[file("file", secs.to_string().as_bytes())])
            })
            .collect();
        assert_clean(&repository);
        let last = kept(
            &repository,
            &RetentionPolicy { last: Keep::Newest(4), ..RetentionPolicy::default() },
        );
        // The one of the wrong time is kept besides, and counts for none.
        assert_eq!(last.len(), 5, "{jump}");
        let daily = kept(
            &repository,
            &RetentionPolicy { daily: Keep::Newest(5), ..RetentionPolicy::default() },
        );
        assert!(daily.contains(&made[0].sequence) || daily.len() == 5, "{jump}: {daily:?}");
        let within =
            RetentionPolicy { within_secs: Some(3 * 86_400), ..RetentionPolicy::default() };
        let within = kept(&repository, &within);
        let today = [0, 1, 3, 4].map(|at: usize| made[at].sequence);
        assert!(today.iter().all(|number| within.contains(number)), "{jump}: {within:?}");
        let gone: Vec<_> =
            made.iter().filter(|name| !last.contains(&name.sequence)).copied().collect();
        repository.forget(&gone).unwrap();
        reclaimed(&repository);
        assert_clean(&test_folder.open());
        assert_eq!(test_folder.open().local().unwrap().snapshots().unwrap().len(), last.len());
    }
}

/// Who may only write names other bytes as what somebody else will store. The other one's backup
/// takes them for stored: found, named, and never given out as his.
#[test]
fn who_only_writes_can_poison_and_is_found_and_believed_by_nobody() {
    let test_folder = TestFolder::new();
    let repository = test_folder.init();
    repository.add_key(Role::WriteOnly, AGENT, CHEAP, "agent").unwrap();
    let content = noise(5, 900);
    test_folder.write("victim", &content);
    test_folder.write("other", &noise(6, 900));
    let agent = UnlockedRepository::open(test_folder.storage(), AGENT).unwrap();
    let forge = Forge::new(&agent);
    forge.chunk_as(agent.keys.writer.ids.chunk_id(&content), &noise(7, 900));
    forge.publish_leaf(&[entry(Kind::Directory, "tree")]);

    let repository = test_folder.open();
    let done = test_folder.backup(&repository);
    let target = test_folder.at("target");
    let (report, heard) =
        restore_with(&repository, done.snapshot, b"", &target, &Default::default()).unwrap();
    assert_eq!(report.failed, 1, "{heard:?}");
    assert!(heard.iter().any(|line| line.contains("tree/victim")), "{heard:?}");
    assert!(!target.join("tree/victim").exists(), "never the wrong bytes");
    assert_eq!(std::fs::read(target.join("tree/other")).unwrap(), noise(6, 900));
    let damages = checked(&repository).unwrap().damages;
    let id = done.snapshot.id.to_string();
    let named = damages.iter().filter(|damage| damage.snapshots.contains(&id));
    let paths: Vec<_> = named.flat_map(|damage| damage.paths.clone()).collect();
    assert_eq!(paths, [b"tree/victim".to_vec()], "{damages:#?}");
}

/// The advice of the check, to the letter, and the next backup stores what was poisoned: also where the poison lies in
/// a container, or in one record, with so much that is needed that no reclaim rewrites it for space alone.
#[test]
fn what_was_poisoned_is_stored_again_behind_the_advice() {
    for one_record in [false, true] {
        let test_folder = TestFolder::new();
        let repository = test_folder.init();
        let content = noise(5, 900);
        test_folder.write("victim", &content);
        let (id, wrong) = (repository.keys.writer.ids.chunk_id(&content), noise(7, 900));
        let large = noise(8, 100_000);
        let forge = Forge::new(&repository);
        let needed = repository.keys.writer.ids.chunk_id(&large);
        if one_record {
            forge.chunks_as(&[(id, &wrong), (needed, &large)]);
        } else {
            forge.chunk_as(id, &wrong);
            forge.chunk_as(needed, &large);
        }
        let runs = Content::Segments([Segment::Data(needed, 100_000)].into());
        let kept =
            format::entry::Entry { size: 100_000, content: runs, ..entry(Kind::File, "kept") };
        forge.publish_leaf(&[kept]);

        test_folder.backup(&repository);
        let damaged = checked(&repository).unwrap().damaged_snapshots();
        assert_eq!(damaged.len(), 1);
        let mut listed = repository.local().unwrap().snapshots().unwrap();
        listed.retain(|name| damaged.contains(&name.id.to_string()));
        repository.forget(&listed).unwrap();
        let options =
            reclaim::ReclaimOptions { accept_damage: true, ..reclaim::ReclaimOptions::default() };
        reclaim::run(&repository, &options).unwrap();
        assert_clean(&repository);
        let done = test_folder.backup(&repository);
        assert_clean(&repository);
        test_folder.assert_restores(&repository, done.snapshot, &test_folder.state());
    }
}

/// Knowing the name of a chunk gives nobody its bytes who cannot read anyway.
#[test]
fn who_only_writes_steals_nothing_by_knowing_a_name() {
    let test_folder = TestFolder::new();
    let repository = test_folder.init();
    repository.add_key(Role::WriteOnly, AGENT, CHEAP, "agent").unwrap();
    let content = noise(5, 900);
    test_folder.write("secret", &content);
    test_folder.backup(&repository);
    let agent = UnlockedRepository::open(test_folder.storage(), AGENT).unwrap();
    let id = agent.keys.writer.ids.chunk_id(&content);
    let forge = Forge::new(&agent);
    let runs = Content::Segments([Segment::Data(id, 900)].into());
    let stolen = forge.publish_leaf(&[format::entry::Entry {
        size: 900,
        content: runs,
        ..entry(Kind::File, "stolen")
    }]);
    let target = test_folder.at("target");
    let refused = crate::testkit::restore_to(&agent, stolen, &target);
    assert!(matches!(refused, Err(Error::WriteOnly)), "{refused:?}");
    assert!(!target.exists());
}

/// The system says only at the sync, or never again, that earlier bytes did not reach the disk.
#[test]
fn a_late_write_error_of_any_file_is_seen() {
    let lab = Lab::new();
    for prefix in ["containers/", "index/run-", "index/state", "snapshots/", "lease"] {
        let copy = lab.test_folder.copied();
        lab.test_folder.write("large", &noise(31, 200_000));
        let plan = Plan::failing_late(prefix);
        let repository =
            UnlockedRepository::open(FaultyStorage::new(&copy.repository(), &plan), PASSWORD);
        let result = repository.and_then(|repository| lab.test_folder.try_backup(&repository));
        assert!(plan.fired(), "{prefix}");
        let repository = copy.open();
        assert_clean(&repository);
        if let Ok(done) = result {
            lab.test_folder.assert_restores(&repository, done.snapshot, &lab.test_folder.state());
        }
        lab.assert_goes_on(&copy, prefix);
    }
}

#[test]
fn features_and_versions_of_tomorrow_are_refused_by_name() {
    let lab = Lab::new();
    let copy = lab.test_folder.copied();
    let storage = copy.storage();
    let config = Config { features: 1 << 5, ..repository::config::read(&*storage).unwrap() };
    repository::config::write(&config, &*storage).unwrap();
    let refused = UnlockedRepository::open(copy.storage(), PASSWORD).err().unwrap();
    assert!(
        matches!(refused, Error::Repository(store::Error::UnknownFeatures(bits)) if bits == 1 << 5),
        "{refused}"
    );
    let refused = pipeline::rebuild::run(copy.storage(), PASSWORD, false).unwrap_err();
    assert!(matches!(refused, Error::Repository(store::Error::UnknownFeatures(_))));

    // A snapshot and a record of another version, and a record of a kind that nobody knows.
    let first = |prefix: &str| {
        lab.test_folder.files().into_iter().rfind(|name| name.starts_with(prefix)).unwrap()
    };
    let cases = [
        (first("snapshots/"), 0, 4, 9, "version"),
        (first("containers/"), 64, 4, 9, "version"),
        (first("containers/"), 64, 5, 77, "kind"),
    ];
    for (name, start, at, value, word) in cases {
        let copy = lab.test_folder.copied();
        let path = copy.repository().join(&name);
        let mut bytes = std::fs::read(&path).unwrap();
        let length = format::record::Header::decode(&bytes[start..]).unwrap().record_bytes();
        bytes[start + at] = value;
        let end = start + length - 16;
        let sum = format::wire::checksum(&[&bytes[start..end]]);
        bytes[end..end + 16].copy_from_slice(&sum);
        std::fs::write(&path, bytes).unwrap();
        let damages = checked(&copy.open()).unwrap().damages;
        assert!(damages.iter().any(|damage| damage.what.contains(word)), "{word}: {damages:?}");
    }
}
