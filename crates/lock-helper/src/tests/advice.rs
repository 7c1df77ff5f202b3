//! What to do when something is not kept: each advice is followed to the letter.

use super::*;

fn as_root(script: &str) {
    assert!(Command::new("sh").args(["-c", script]).status().unwrap().success(), "{script}");
}

/// Somebody changed the owner of a whole data directory.
#[test]
fn a_directory_below_that_is_not_roots_is_refused_until_all_are() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    pool.secure(&[file(NAME, NOW + 9)]).unwrap();
    let own = rig.path(DIRECTORY);
    as_root(&format!("chown -R {SERVER} '{}'", own.display()));
    assert!(rig.shell(&format!("chmod 777 {DIRECTORY}/domains")));
    let error = pool.secure(&[file(NAME, NOW + 9)]).unwrap_err().to_string();
    assert!(error.contains("systemctl restart icecore-lock-helper"), "while it runs: {error}");
    as_root(&format!("chown root '{0}' && chmod 700 '{0}'", own.display()));
    assert!(refused(&pool, NAME).contains("systemctl restart"), "one below it is not");
    drop(pool);
    let pool = rig.pool();
    assert_eq!(pool.secure(&[file(NAME, NOW + 9)]).unwrap(), Secured { files: 1, failed: vec![] });
    assert!(!rig.shell(&format!("echo x >> {NAME}")));
}

/// With `cp -a` a kept file and its second name stay one, of another inode.
#[test]
fn a_pool_that_was_copied_stays_kept() {
    let Some(rig) = Rig::new() else { return };
    rig.pool().secure(&[file(NAME, NOW + 9)]).unwrap();
    let copy = rig.folder.path().join("pool");
    as_root(&format!("cd '{0}' && mv pool old && cp -a old pool", rig.folder.path().display()));
    assert!(copy.exists());
    let pool = rig.pool();
    assert_eq!(pool.secure(&[file(NAME, NOW + 50)]).unwrap(), Secured { files: 1, failed: vec![] });
    assert_eq!(rig.kept().len(), 1);
    let inode = fs::metadata(rig.path(NAME)).unwrap().ino();
    assert!(rig.kept()[0].contains(&format!("@{inode}@{}", NOW + 50)));
    // And one whose second name another program made a file of its own.
    as_root(&format!("cd '{}' && cp -p {NAME} x && mv -f x {NAME}", rig.path("").display()));
    let why = refused(&pool, NAME);
    as_root(why.split_once("it: ").unwrap().1);
    assert_eq!(pool.secure(&[file(NAME, NOW + 9)]).unwrap().files, 1);
}

#[test]
fn a_pool_that_is_missing_is_named_with_all_others() {
    let Some(rig) = Rig::new() else { return };
    let (helper, socket) = served(&rig);
    let pool = helper.pools()[0].path().display();
    let refused = Client::new(socket).secure(Path::new("/srv/fast"), &[file(NAME, NOW)]);
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains(&format!("lock-helper --pool {pool} --pool /srv/fast")), "{refused}");
}

#[test]
fn looking_at_a_pool_changes_nothing_and_finds_what_was_renamed() {
    let Some(rig) = Rig::new() else { return };
    assert!(Pool::existing(&rig.path("")).unwrap().is_none());
    assert!(!rig.path(DIRECTORY).exists());
    rig.pool().secure(&[file(NAME, NOW + 9)]).unwrap();
    assert!(rig.shell(&format!("mv {DIRECTORY} .hidden")));
    let pool = Pool::existing(&rig.path("")).unwrap().unwrap();
    assert_eq!(pool.content().unwrap()["domains/web"].files, 1);
    assert!(!rig.path(DIRECTORY).exists(), "it was not renamed");
    // Somebody moved the pool away and made another one.
    let (path, moved) = (rig.path("").canonicalize().unwrap(), rig.folder.path().join("pool2"));
    fs::rename(&path, &moved).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(Pool::beside(&path), [moved]);
}

#[test]
fn what_is_kept_is_shown_by_its_repository_in_every_kind_of_pool() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    let names = ["config", "keys/a", "containers/0/a.ice", "web/config", "web/keys/a"];
    assert!(rig.shell("mkdir -p keys containers/0 web/keys"));
    let files: Vec<_> = names.iter().map(|name| file(name, NOW + 9)).collect();
    for name in names {
        assert!(rig.shell(&format!("echo x > {name}")));
    }
    assert_eq!(pool.secure(&files).unwrap().failed, []);
    let content = pool.content().unwrap();
    let shown: Vec<_> = content.iter().map(|(name, it)| (name.as_str(), it.files)).collect();
    assert_eq!(shown, [("", 3), ("web", 2)]);
}

#[test]
fn a_pool_that_cannot_be_opened_costs_itself_only_and_is_tried_again() {
    let Some(rig) = Rig::new() else { return };
    let folder = rig.folder.path().canonicalize().unwrap();
    let second = folder.join("second");
    let helper = Helper::open(&[second.clone(), rig.path("")]).unwrap();
    assert_eq!(helper.pools().len(), 1);
    let socket = rig.folder.path().join("socket");
    let listener = helper.listen(&socket).unwrap();
    let helper = Arc::new(helper);
    let serving = helper.clone();
    std::thread::spawn(move || crate::serve(&serving, &listener));
    let client = Client::new(socket);
    let until = repository::machine_time().wall_secs + 1000;
    let first = helper.pools()[0].path().to_owned();
    assert_eq!(client.secure(&first, &[file(NAME, until)]).unwrap().files, 1);
    let ask = || client.secure(&second, &[file("config", until)]);
    assert!(ask().unwrap_err().to_string().contains("cannot open"));
    // It is mounted.
    fs::create_dir(&second).unwrap();
    chown(&second, Some(SERVER), Some(SERVER)).unwrap();
    assert!(rig.shell("echo x > ../second/config"));
    assert_eq!(ask().unwrap().files, 1);
    let foreign = client.secure(Path::new("/srv/fast"), &[file(NAME, until)]).unwrap_err();
    assert!(foreign.to_string().contains("ReadWritePaths=/srv/fast"), "{foreign}");
    assert!(Helper::open(&[folder.join("none")]).is_err(), "there is nothing to serve");
}
