//! Which files are named to whom, and what is told of it.

use super::*;

#[test]
fn a_domain_is_named_by_its_pool_and_its_path_in_there() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    let domain = real.join("data/pool/domains/web");
    std::fs::create_dir_all(&domain).unwrap();
    let pool = (real.join("data/pool"), "domains/web".to_owned());
    assert_eq!(place(&domain).unwrap(), pool);
    std::os::unix::fs::symlink(real.join("data/pool"), real.join("link")).unwrap();
    assert_eq!(place(&real.join("link/domains/web")).unwrap(), pool, "through a link");
    // Memory is another file system than that of `/`.
    let Ok(mounted) = tempfile::tempdir_in("/dev/shm") else {
        return testkit::skip("no second file system at /dev/shm");
    };
    let web = mounted.path().join("web");
    std::fs::create_dir(&web).unwrap();
    let (pool, within) = place(&web).unwrap();
    assert!(pool.starts_with("/dev/shm") && web == pool.join(within), "{}", pool.display());
}

#[test]
fn a_domain_that_is_a_file_system_of_its_own_is_named_from_there() {
    let locked = LockedFiles { files: vec![("keys/a".into(), 7)], lost_pages: 0 };
    let name = |within| named(within, &locked)[0].name.clone();
    assert_eq!((name(""), name("web")), ("keys/a".to_owned(), "web/keys/a".to_owned()));
}

#[test]
fn the_helper_is_reached_for_while_it_keeps_something() {
    let (now, mut state) = (Instant::now(), State::default());
    assert_eq!(state.reach_now(now), [""; 0].map(PathBuf::from));
    state.outcomes.insert("failed".into(), Err("away".into()));
    state.outcomes.insert("bucket".into(), Ok(Kept { files: 0, objects: 7 }));
    state.outcomes.insert("web".into(), Ok(Kept { files: 7, objects: 0 }));
    assert!(state.reach_now(now + REACH_EVERY / 2).is_empty(), "not yet");
    assert_eq!(state.reach_now(now + REACH_EVERY), [PathBuf::from("web")]);
}

#[test]
fn what_is_gone_is_looked_for_again_and_what_failed_is_told() {
    let failed = |name: &str, is_gone| lock_helper::Failed {
        name: name.into(),
        why: "busy".into(),
        is_gone,
    };
    let judge = |failed: Vec<_>, lost| judged(&Secured { files: 7, failed }, lost);
    assert_eq!(judge(vec![], 0), Ok(Kept { files: 7, objects: 0 }));
    assert!(judge(vec![failed("a", true)], 0).unwrap_err().contains("removed meanwhile"));
    let both = judge(vec![failed("a", true), failed("b", false)], 0).unwrap_err();
    assert!(both.contains("b (busy)") && !both.contains("a ("), "{both}");
    let same = judge(vec![failed("a", false), failed("b", false)], 0).unwrap_err();
    assert_eq!(same, "2 files are not kept: a, b (busy)", "each reason once");
    assert!(judge(vec![], 3).unwrap_err().contains("3 pages"));
}
