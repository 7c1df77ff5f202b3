//! Where the helper listens.

use super::*;
use std::os::unix::net::UnixStream;

/// Whoever may write there could put a link in the place of the new socket, and root would give what it leads to away.
#[test]
fn a_socket_lies_only_where_root_alone_may_put_something() {
    let Some(rig) = Rig::new() else { return };
    let helper = Helper::open(&[rig.path("")]).unwrap();
    let directory = rig.folder.path().join("run/icecore");
    let socket = directory.join("lock-helper");
    fs::create_dir_all(&directory).unwrap();
    let attempt = |changed: &Path, owner, mode| {
        chown(changed, Some(owner), None).unwrap();
        fs::set_permissions(changed, fs::Permissions::from_mode(mode)).unwrap();
        let done = helper.listen(&socket);
        let is_there = socket.exists();
        chown(changed, Some(0), None).unwrap();
        fs::set_permissions(changed, fs::Permissions::from_mode(0o755)).unwrap();
        done.map(drop).map_err(|error| {
            assert!(!is_there, "nothing was made");
            error.to_string()
        })
    };
    let above = directory.parent().unwrap();
    for changed in [&*directory, above] {
        for (owner, mode) in [(SERVER, 0o755), (0, 0o777), (0, 0o775)] {
            let error = attempt(changed, owner, mode).unwrap_err();
            assert!(error.contains("--socket /run/icecore/lock-helper"), "{error}");
            assert!(error.starts_with(changed.to_str().unwrap()), "{error}");
        }
    }
    assert!(attempt(&directory, 0, 0o1777).is_err(), "not even where names of others stay");
    attempt(above, 0, 0o1777).unwrap();
    let status = fs::metadata(&socket).unwrap();
    assert_eq!((status.uid(), status.gid(), status.mode() & 0o777), (0, SERVER, 0o660));
}

#[test]
fn a_link_in_the_place_of_the_socket_is_not_followed() {
    let Some(rig) = Rig::new() else { return };
    let helper = Helper::open(&[rig.path("")]).unwrap();
    let secret = rig.folder.path().join("secret");
    fs::write(&secret, "of root").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let socket = rig.folder.path().join("socket");
    symlink(&secret, &socket).unwrap();
    assert!(helper.listen(&socket).is_err());
    let status = fs::metadata(&secret).unwrap();
    assert_eq!((status.gid(), status.mode() & 0o777), (0, 0o600));
}

#[test]
fn the_server_asks_through_the_socket_and_others_may_not() {
    let Some(rig) = Rig::new() else { return };
    let (helper, socket) = served(&rig);
    let client = Client::new(socket.clone());
    let pool = helper.pools()[0].path().to_owned();
    let until = repository::machine_time().wall_secs + 1000;
    let missing: Vec<_> = (0..5000).map(|number| file(&format!("a/{number}"), until)).collect();
    let all = [&[file(NAME, until)], &missing[..]].concat();
    let done = client.secure(&pool, &all).unwrap();
    assert_eq!((done.files, done.failed.len()), (1, 5000), "in more than one request");
    let elsewhere = client.secure(Path::new("/"), &[]);
    assert!(elsewhere.is_ok(), "nothing was asked for");
    let elsewhere = client.secure(Path::new("/"), &[file(NAME, until)]).unwrap_err();
    assert!(elsewhere.to_string().contains("--pool /"), "{elsewhere}");

    let speak = |user| {
        let say = format!(
            "python3 -c \"import socket; s=socket.socket(socket.AF_UNIX); s.connect('{}'); s.sendall(b'x\\n'); import sys; \
             sys.exit(0 if b'sense' in s.recv(999) or s.recv(9)==b'' else 1)\"",
            socket.display()
        );
        rig.shell_as(user, &say)
    };
    assert!(speak(SERVER), "what makes no sense ends the connection");
    assert!(!speak(OTHER), "nobody else may connect");
    assert_eq!(client.secure(&pool, &[file(NAME, until)]).unwrap().files, 1, "it goes on");
}

#[test]
fn a_helper_starts_again_where_one_was_killed_and_removes_nothing_else() {
    let Some(rig) = Rig::new() else { return };
    let helper = Helper::open(&[rig.path("")]).unwrap();
    let socket = rig.folder.path().join("socket");
    drop(helper.listen(&socket).unwrap());
    helper.listen(&socket).unwrap();
    let file = rig.folder.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(helper.listen(&file).is_err() && file.exists());
    assert!(Helper::open(&[]).is_err(), "a pool has to be named");
}

#[test]
fn the_directory_of_the_socket_is_made_and_no_helper_is_pushed_aside() {
    let Some(rig) = Rig::new() else { return };
    let helper = Helper::open(&[rig.path("")]).unwrap();
    let socket = rig.folder.path().join("run/lock-helper");
    let first = helper.listen(&socket).unwrap();
    let made = fs::metadata(socket.parent().unwrap()).unwrap();
    assert_eq!((made.uid(), made.mode() & 0o777), (0, 0o755), "the server may enter");
    let error = helper.listen(&socket).unwrap_err().to_string();
    assert!(error.contains("listens there already"), "{error}");
    assert!(UnixStream::connect(&socket).is_ok(), "the first one still listens");
    assert!(Client::new(socket.clone()).reach().is_ok());
    drop(first);
    assert!(Client::new(socket.clone()).reach().is_err());
    assert!(helper.listen(&rig.folder.path().join("no/run/lock-helper")).is_err());
}

#[test]
fn a_connection_that_panics_gives_its_place_back() {
    let Some(rig) = Rig::new() else { return };
    let helper = Arc::new(Helper::open(&[rig.path("")]).unwrap());
    let mut places: Vec<_> = std::iter::from_fn(|| helper.place()).take(99).collect();
    assert_eq!((places.len(), helper.place().is_none()), (4, true));
    let place = places.remove(0);
    let panicked = std::thread::spawn(move || {
        let _place = place;
        panic!("a bug");
    });
    assert!(panicked.join().is_err());
    assert!(
        helper.place().is_some() && helper.place().is_some(),
        "and whoever is refused takes none"
    );
}

/// Who connects and is silent is no failure.
#[test]
fn silence_is_told_from_what_is_broken() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let read = crate::message::read::<File>(&mut std::io::BufReader::new(&ours));
    assert!(matches!(read, Err(Error::Silent)), "{read:?}");
}
