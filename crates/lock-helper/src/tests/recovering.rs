//! What comes back after somebody took the server over, and what does not stop that.

use super::*;

const DAY: i64 = 86_400;

fn read(rig: &Rig, name: &str) -> String {
    fs::read_to_string(rig.path(name)).unwrap()
}

/// Whoever took the server over can have rubbish kept under the same name, with any stamps, and leave it in its place.
#[test]
fn what_somebody_added_comes_back_beside_what_was_kept_first() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    // Several: which of two a directory lists first is by chance.
    let names: Vec<_> = (0..8).map(|at| format!("{NAME}{at}")).collect();
    let secure = |until| {
        let files: Vec<_> = names.iter().map(|name| file(name, until)).collect();
        assert_eq!(pool.secure(&files).unwrap().failed, []);
    };
    for name in &names {
        assert!(rig.shell(&format!("echo true > {name}")));
    }
    secure(NOW + DAY);
    for name in &names {
        let forge =
            format!("mv {name} {name}.x && echo forged > {name} && touch -d 2000-01-01 {name}");
        assert!(rig.shell(&forge));
    }
    secure(NOW + 300 * DAY);
    secure(NOW + 301 * DAY);
    for name in &names {
        assert!(rig.shell(&format!("mv {name}.x {name}.y && rm -f {name}.y")), "a newer stamp");
    }
    for _ in 0..2 {
        let recovered = pool.recover(None).unwrap();
        assert_eq!((recovered.replaced, recovered.versions.len()), (0, names.len()));
        for (name, versions) in names.iter().zip(&recovered.versions) {
            assert_eq!(versions.path, rig.path(name));
            assert_eq!((versions.in_place, &versions.since_secs[..]), (1, &[NOW, NOW + 1][..]));
            assert_eq!(read(&rig, name), "true\n");
            assert_eq!(read(&rig, &format!("{name}.kept-2")), "forged\n");
            assert!(!rig.path(&format!("{name}.kept-1")).exists());
        }
    }
}

/// A repair writes another file in the place of a damaged one: that is kept, too.
#[test]
fn of_several_files_the_last_one_before_a_time_comes_into_its_place() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    for content in ["first", "repaired", "forged"] {
        assert!(rig.shell(&format!("echo {content} > x && mv -f x {NAME}")));
        pool.secure(&[file(NAME, NOW + DAY)]).unwrap();
        wait(100);
    }
    let beside = |number: u32| read(&rig, &format!("{NAME}.kept-{number}"));
    let recovered = pool.recover(Some(NOW + 150)).unwrap();
    assert_eq!(recovered.versions[0].in_place, 2);
    assert_eq!((read(&rig, NAME), beside(1), beside(3)), texts("repaired", "first", "forged"));
    assert!(!rig.path(&format!("{NAME}.kept-2")).exists());
    pool.recover(Some(NOW - 1)).unwrap();
    assert_eq!((read(&rig, NAME), beside(2), beside(3)), texts("first", "repaired", "forged"));
}

fn texts(first: &str, second: &str, third: &str) -> (String, String, String) {
    (format!("{first}\n"), format!("{second}\n"), format!("{third}\n"))
}

/// An earlier helper wrote no time into the name.
#[test]
fn a_file_of_an_earlier_helper_came_before_all_others() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    pool.secure(&[file(NAME, NOW + DAY)]).unwrap();
    let directory = rig.path(DIRECTORY).join(NAME).parent().unwrap().to_owned();
    let old = rig.kept()[0].replace(&format!("@{NOW}@"), "@");
    fs::rename(directory.join(&rig.kept()[0]), directory.join(&old)).unwrap();
    assert!(rig.shell(&format!("mv -f {NAME} y && echo forged > {NAME}")));
    pool.secure(&[file(NAME, NOW + DAY)]).unwrap();
    assert!(rig.shell(&format!("mv -f y {NAME}")));
    assert_eq!(pool.secure(&[file(NAME, NOW + 2 * DAY)]).unwrap().files, 1, "it is kept longer");
    assert!(rig.kept().iter().all(|name| name != &old) && rig.kept().len() == 2);
    pool.recover(None).unwrap();
    assert_eq!(read(&rig, NAME), "content\n");
}

#[test]
fn what_is_in_the_way_is_set_aside() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    let other = "domains/other/config";
    assert!(rig.shell(&format!("mkdir domains/other && echo other > {other}")));
    assert_eq!(pool.secure(&[file(NAME, NOW + 9), file(other, NOW + 9)]).unwrap().files, 2);
    let directory = "domains/web/containers/00000000";
    for attack in [
        "rm -rf domains/web && echo x > domains/web".to_owned(),
        "mv domains d && ln -s d domains".to_owned(),
        "rm -rf domains && ln -s /etc domains".to_owned(),
        format!("rm -f {NAME} && mkdir {NAME}"),
        format!("rm -f {NAME} && mkfifo {NAME}"),
        format!(
            "echo x > x && mv -f x {NAME}; rm -rf {NAME}.r*; for i in $(seq 1000); do echo > {NAME}.replaced-$i; done"
        ),
        format!("chmod 000 {directory} domains/web/containers"),
        "chmod 000 .".to_owned(),
    ] {
        assert!(rig.shell(&attack), "{attack}");
        let recovered = pool.recover(None).unwrap();
        assert_eq!(recovered.problems, [""; 0], "{attack}");
        assert_eq!(recovered.recovered + recovered.present, 2, "{attack}");
        assert!(rig.shell(&format!("grep -q content {NAME} && grep -q other {other}")), "{attack}");
        assert!(rig.shell(&format!("touch {directory}/new")), "{attack}");
    }
    assert!(!Path::new("/etc/web").exists(), "no link was followed");
}

#[test]
fn what_cannot_come_back_costs_nothing_else_and_is_named() {
    let Some(rig) = Rig::new() else { return };
    let pool = rig.pool();
    let last = "domains/zzz/config";
    assert!(rig.shell(&format!("mkdir domains/zzz && echo other > {last}")));
    assert_eq!(pool.secure(&[file(NAME, NOW + 9), file(last, NOW + 9)]).unwrap().files, 2);
    assert!(rig.shell("rm -rf domains && mkdir -p domains/web"));
    let mount = |words: &[&str]| {
        let done = Command::new(words[0]).args(&words[1..]).arg(rig.path("domains/web")).output();
        done.is_ok_and(|done| done.status.success())
    };
    if !mount(&["mount", "-t", "tmpfs", "tmpfs"]) {
        return testkit::skip("nothing can be mounted");
    }
    let recovered = pool.recover(None);
    assert!(mount(&["umount"]));
    let recovered = recovered.unwrap();
    assert!(
        matches!(&recovered.problems[..], [one] if one.contains("domains/web")),
        "{recovered:?}"
    );
    assert_eq!((recovered.recovered, read(&rig, last)), (1, "other\n".to_owned()));
    assert_eq!(pool.recover(None).unwrap().problems, [""; 0]);
}
