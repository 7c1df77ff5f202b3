//! Where the helper listens.

use super::*;

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
