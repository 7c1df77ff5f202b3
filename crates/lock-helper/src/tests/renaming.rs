//! Whoever owns a pool renames what lies in it, at any time: the helper's own directory, too. Root goes by what it has
//! opened, and by no name.

use super::*;
use crate::tree;
use rustix::fs::{CWD, RenameFlags, fstat, renameat_with};
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

const ROUNDS: usize = 200;

/// Kept files, while all directories of the helper are root's.
fn kept_files(pool: &Pool) -> usize {
    assert_eq!(fstat(&pool.kept).unwrap().st_uid, 0, "the helper's directory was given away");
    let mut files = 0;
    tree::walk((&pool.kept, &pool.place()), &mut |visited| {
        files += visited.entries.len();
        Ok(())
    })
    .unwrap();
    files
}

/// Exchanges the helper's directory with others of the pool, as its owner can, until this is dropped.
struct Renaming {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Renaming {
    fn start(pool: PathBuf) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = is_over.clone();
        let exchange = move |name| {
            let (own, other) = (pool.join(DIRECTORY), pool.join(name));
            let _ = renameat_with(CWD, own, CWD, other, RenameFlags::EXCHANGE);
        };
        let forever = move || {
            while !seen.load(SeqCst) {
                ["domains", ".made", "domains.replaced-1"].into_iter().for_each(&exchange);
            }
        };
        Self { is_over, thread: Some(std::thread::spawn(forever)) }
    }
}

impl Drop for Renaming {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Under the name of a directory of the pool it would become the server's, with all that is kept.
#[test]
fn the_helpers_directory_in_the_place_of_another_one_is_not_given_away() {
    let Some(rig) = Rig::new() else { return };
    assert!(rig.shell("mkdir keys && echo key > keys/list"));
    let pool = rig.pool();
    assert_eq!(pool.secure(&[file(NAME, NOW + 9), file("keys/list", NOW + 9)]).unwrap().files, 2);
    drop(pool);
    for name in ["keys", "domains"] {
        assert!(rig.shell(&format!("mv {name} x && mv {DIRECTORY} {name} && rm -rf x")));
        let pool = Pool::existing(&rig.path("")).unwrap().unwrap();
        let recovered = pool.recover(None).unwrap();
        assert_eq!((recovered.recovered, recovered.present), (1, 1), "{name}");
        assert_eq!((recovered.replaced, &recovered.problems[..]), (0, &[][..]), "{name}");
        assert_eq!((kept_files(&pool), fs::metadata(rig.path(DIRECTORY)).unwrap().uid()), (2, 0));
        assert!(rig.shell(&format!("grep -q content {NAME} && grep -q key keys/list")), "{name}");
        assert!(rig.shell(&format!("touch {name}/new")), "it is the server's");
    }
}

/// And whatever the server renames and removes meanwhile.
#[test]
fn whatever_is_renamed_while_files_come_back_nothing_of_the_helper_is_given_away() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    assert_eq!(pool.secure(&[file(NAME, NOW + 9)]).unwrap().files, 1);
    let renaming = Renaming::start(rig.path(""));
    for round in 0..ROUNDS {
        rig.shell("chmod -R u+rwx . ; rm -rf ..?* .[!.]* *");
        let _ = pool.recover(None); // it may fail: what is renamed all the time cannot be given a name
        assert_eq!(kept_files(&pool), 1, "round {round}");
    }
    drop(renaming);
    rig.shell("rm -rf ..?* .[!.]* *");
    assert_eq!(pool.recover(None).unwrap().problems, [""; 0]);
    assert!(rig.shell(&format!("grep -q content {NAME} && touch domains/web/new")));
    assert_eq!(rig.kept().len(), 1, "it has its name back");
}

/// What root made, or somebody else, is none of the server's, and does not become its own.
#[test]
fn no_directory_that_was_there_gets_another_owner() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    assert_eq!(pool.secure(&[file(NAME, NOW + 9)]).unwrap().files, 1);
    for (number, owner) in [0, OTHER].into_iter().enumerate() {
        assert!(rig.shell("mv domains/web away"));
        fs::create_dir(rig.path("domains/web")).unwrap();
        chown(rig.path("domains/web"), Some(owner), None).unwrap();
        let recovered = pool.recover(None).unwrap();
        assert_eq!((recovered.recovered, recovered.replaced), (1, 1), "{recovered:?}");
        let aside = rig.path(&format!("domains/web.replaced-{}", number + 1));
        assert_eq!(fs::metadata(aside).unwrap().uid(), owner);
        assert!(rig.shell(&format!("grep -q content {NAME} && touch domains/web/new")));
        assert!(rig.shell("rm -rf away"));
    }
}

/// A directory of the server's in the place of the helper's own.
#[test]
fn what_takes_the_name_of_the_helpers_directory_is_set_aside() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    pool.secure(&[file(NAME, NOW + 9)]).unwrap();
    let attacks = ["mkdir .locked", "ln -s /etc .locked", "touch .locked"];
    for (number, attack) in attacks.into_iter().enumerate() {
        assert!(rig.shell(&format!("mv {DIRECTORY} .hidden && {attack}")));
        assert_eq!(pool.release().unwrap(), 0, "while it runs");
        assert_eq!(rig.kept().len(), 1, "{attack}");
        let aside = rig.path(&format!("{DIRECTORY}.replaced-{}", 2 * number + 1));
        assert!(aside.symlink_metadata().is_ok(), "{attack}");
        assert!(rig.shell(&format!("mv {DIRECTORY} .hidden && {attack}")));
        assert_eq!(kept_files(&rig.pool()), 1, "when it starts");
    }
}
