//! Which files are named to whom, and what is told of it.

use super::files::{judged, named, place};
use super::*;
use lock_helper::Secured;

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
    assert_eq!(state.reach_now(now), Asked::default());
    state.outcomes.insert("failed".into(), Err("away".into()));
    state.outcomes.insert("bucket".into(), Ok(Kept { files: 0, objects: 7 }));
    state.outcomes.insert("web".into(), Ok(Kept { files: 7, objects: 0 }));
    assert_eq!(state.reach_now(now + REACH_EVERY / 2), Asked::default(), "not yet");
    for looked_at in ["failed", "web", "new"] {
        state.looks.insert(looked_at.into(), looked_at.into());
    }
    let [kept, looked_at] = ["web", "new"].map(|it| vec![PathBuf::from(it)]);
    assert_eq!(state.reach_now(now + REACH_EVERY), Asked { kept, looked_at });
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

/// What it keeps is known of a socket at which somebody listens and says nothing.
fn silent_helper(folder: &Path) -> (std::os::unix::net::UnixListener, Keepers) {
    let socket = folder.join("lock-helper");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    (listener, Keepers { lock_helper: Some(socket), object_lock: None })
}

fn looking(
    keepers: &Keepers,
    folders: &[PathBuf],
    answers: Answers,
    told: &Arc<Mutex<KeptLocks>>,
) -> Arc<Securing> {
    let (listed, tell) = (folders.to_vec(), told.clone());
    let listed: Folders = Box::new(move || listed.clone());
    let tell = move |kept| *tell.lock() = kept;
    Arc::new(Securing::new(keepers, Arc::default(), (listed, answers), Box::new(tell)))
}

fn until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "it does not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_pool_that_begins_to_hang_holds_up_no_look_at_another() {
    let folder = tempfile::tempdir().unwrap();
    let [hangs, web] =
        ["pools/slow/domains/hangs", "pool/domains/web"].map(|it| folder.path().join(it));
    let (_listener, keepers) = silent_helper(folder.path());
    let told = Arc::new(Mutex::new(KeptLocks::default()));
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let (ended, this) = (Mutex::new(ended), std::thread::current().id());
    // Whoever looks into it is in there, and comes back at the end only.
    let answers = move |domain: &Path| match domain.ends_with("hangs") {
        true if std::thread::current().id() != this => Ok(_ = ended.lock().recv()),
        true => Err("its file system has not answered".to_owned()),
        false => Err("not a repository".to_owned()),
    };
    let folders = [hangs.clone(), web.clone()];
    let securing = looking(&keepers, &folders, Box::new(answers), &told);
    securing.look();
    until(|| securing.state.lock().is_wrong(&web));
    until(|| securing.state.lock().looks.len() == 1);
    until(|| {
        securing.state.lock().reach_at = None;
        securing.lost_any();
        securing.state.lock().is_wrong(&hangs)
    });
    // The other one is looked at again, the one that hangs is not.
    let later = Instant::now() + AGAIN + AGAIN;
    let turn = securing.state.lock().take_due(later);
    assert_eq!(turn.into_values().collect::<Vec<_>>(), [[web.clone()]]);
    assert!(securing.state.lock().ends_in(&pool_of(&web)), "nothing is told meanwhile");
    end.send(()).unwrap();
    until(|| securing.state.lock().looks.is_empty());
}

#[test]
fn a_pool_that_does_not_answer_is_told_and_not_looked_into() {
    let folder = tempfile::tempdir().unwrap();
    let [hangs, web] =
        ["pools/slow/domains/hangs", "pool/domains/web"].map(|it| folder.path().join(it));
    let folders = [hangs.clone(), web.clone()];
    folders.iter().for_each(|domain| std::fs::create_dir_all(domain).unwrap());
    folders.iter().for_each(|it| std::fs::write(it.join(LOCKS_GIVEN), "").unwrap());
    let (_listener, keepers) = silent_helper(folder.path());
    let told = Arc::new(Mutex::new(KeptLocks::default()));
    let answers = |domain: &Path| match domain.ends_with("hangs") {
        true => Err("its file system has not answered".to_owned()),
        false => Ok(()),
    };
    let securing = looking(&keepers, &folders, Box::new(answers), &told);
    securing.look();
    until(|| !told.lock().problems.is_empty() && securing.state.lock().looks.is_empty());
    // What the look itself found, and not who only asked meanwhile whether the pool answers.
    let problems = securing.summary().problems;
    let is_said =
        |name: &str| problems.iter().any(|it| it.contains(name) && it.contains("answered"));
    assert!(is_said("hangs") && !is_said("web"), "{problems:?}");
    // What was kept before is an alarm soon, and not when all are looked at again.
    let kept = Outcome::Ok(Kept { files: 7, objects: 0 });
    securing.state.lock().outcomes.insert(hangs.clone(), kept);
    securing.state.lock().reach_at = None;
    assert!(securing.lost_any());
    assert!(securing.state.lock().outcomes[&hangs].is_err());
}

#[test]
fn whether_a_pool_answers_is_asked_by_the_name_of_it() {
    let place = tempfile::tempdir().unwrap();
    let folder =
        Folder::open_storage(&place.path().join("data"), &"disk".parse().unwrap()).unwrap();
    for domain in ["pool/domains/web", "pools/second/domains/web"] {
        assert_eq!(pool_answers(&folder, &folder.file(domain)), Ok(()), "{domain}");
    }
    assert!(pool_answers(&folder, &folder.file("pools/no name/domains/web")).is_err());
}
