//! What is advised where a copy is named, or is what lost something, followed to the letter.

use super::Two;
use crate::machine::{Machine, Ran, ended, random};
use std::path::PathBuf;

/// A machine whose repository is copied.
fn copied() -> Two {
    let two = Two::new();
    two.machine.write("large", &random(3 << 20));
    two.machine.backup();
    two.copy(&[]).ends(0);
    two
}

/// The command that `ran` advises and that begins with `begin`, up to what ends a sentence.
fn advised(ran: &Ran, begin: &str) -> Vec<String> {
    let said = format!("{}\n{}", ran.text(), ran.stderr);
    let at = said.find(begin).unwrap_or_else(|| panic!("{begin}: {said}"));
    let words = said[at..].lines().next().unwrap_or_default().split(' ').map(str::to_owned);
    let mut command = Vec::new();
    for word in words {
        let is_last = word.ends_with(['.', ',', ')']);
        command.push(word.trim_end_matches(['.', ',', ')']).to_owned());
        if is_last {
            break;
        }
    }
    command
}

/// Runs the command that `ran` advises.
fn follow(machine: &Machine, ran: &Ran, begin: &str) -> Ran {
    let words = advised(ran, begin);
    match words[0].as_str() {
        "icecore" => machine.run(&words[1..]),
        program => ended(std::process::Command::new(program).args(&words[1..])),
    }
}

/// Only to give up what is lost was advised, and a copy had all of it.
#[test]
fn who_names_a_copy_is_told_to_repair_from_it_before_anything_is_given_up() {
    let two = copied();
    let machine = &two.machine;
    std::fs::remove_file(machine.container_over(1 << 20)).unwrap();
    let told = machine.run(["reclaim"]).ends(14);
    assert!(!told.stderr.contains("--repair"), "no copy is named: {}", told.stderr);
    let told = two.run(&["reclaim"]).ends(14).stderr;
    assert!(told.contains("first: icecore check --repair."), "the environment names it: {told}");
    for words in [&["reclaim", "--copies", &two.second][..], &["check", "--copies", &two.second]] {
        let told = machine.run(words).ends(14);
        let said = format!("{}{}", told.text(), told.stderr);
        let repair = said.find("icecore check --repair --copies").expect(&said);
        assert!(repair < said.find("--accept-damage").unwrap_or(usize::MAX), "{said}");
        follow(machine, &told, "icecore check --repair").ends(0);
        machine.run(["check", "--read-data"]).ends(0);
        std::fs::remove_file(machine.container_over(1 << 20)).unwrap();
    }
}

/// To create a new one was advised.
#[test]
fn a_first_place_that_is_lost_is_made_again_from_the_copy_that_is_named() {
    let two = copied();
    let machine = &two.machine;
    let (repository, source) = (machine.path("repository"), machine.source());
    let backup = ["backup", source.to_str().unwrap(), "--copies", &two.second];
    for is_empty in [false, true] {
        std::fs::remove_dir_all(&repository).unwrap();
        if is_empty {
            std::fs::create_dir(&repository).unwrap();
        }
        let told = machine.run(backup).ends(10);
        assert!(!told.stderr.contains("icecore init"), "{}", told.stderr);
        follow(machine, &told, "icecore copy").ends(0);
        machine.run(backup).ends(0);
    }
    assert_eq!(machine.snapshots().len(), 2, "the one of the copy, and the last one");
    let none = Machine::bare();
    let told = ended(none.command(backup).env("ICECORE_REPO", none.path("repository"))).ends(10);
    assert!(told.stderr.contains("icecore copy"), "{}", told.stderr);
    std::fs::remove_dir_all(&two.second).unwrap();
    let told = ended(none.command(backup).env("ICECORE_REPO", none.path("repository"))).ends(10);
    assert!(told.stderr.contains("icecore init"), "there is no copy: {}", told.stderr);
}

/// All snapshots are listed in such a copy: there was "nothing to copy", and nothing could be restored.
#[test]
fn a_copy_that_lost_containers_is_told_and_gets_them_again() {
    let two = copied();
    two.machine.write("more", &random(2 << 20));
    let newest = two.machine.backup();
    two.copy(&[]).ends(0);
    let containers = || {
        let of_copy = two.machine.path("second/containers/00000000");
        let mut files: Vec<_> =
            std::fs::read_dir(of_copy).unwrap().map(|it| it.unwrap().path()).collect();
        files.sort();
        files
    };
    let remove = |file: &PathBuf| std::fs::remove_file(file).unwrap();
    let cut = |file: &PathBuf| {
        std::fs::File::options().write(true).open(file).unwrap().set_len(1000).unwrap();
    };
    let lose: [&dyn Fn(); 3] =
        [&|| remove(&containers()[0]), &|| containers().iter().for_each(remove), &|| {
            cut(&containers()[0])
        }];
    for lose in lose {
        assert!(!two.copy(&[]).ends(0).stderr.contains("container"), "nothing is lost");
        lose();
        let plan = two.copy(&["-n"]).ends(14).stderr;
        assert!(plan.contains("check --repair"), "{plan}");
        let told = two.copy(&["--json"]).ends(14).last();
        assert_ne!(told["lost_containers"][0].as_u64(), None, "{told}");
        let told = two.copy(&[]).ends(14);
        assert_eq!(told.stderr.matches("check --repair").count(), 1, "{}", told.stderr);
        follow(&two.machine, &told, "icecore check --repair").ends(0);
        two.on_copy(&["check", "--read-data"]).ends(0);
    }
    two.restores(&newest);
}

/// Both files that say how to read the repository in `place`.
fn lose_config(place: &str) {
    for name in ["config", "config.copy"] {
        std::fs::remove_file(format!("{place}/{name}")).unwrap();
    }
}

/// A copy was "made now" and then existed already; all others were told to create one, which is refused there.
#[test]
fn a_place_that_lost_its_config_gets_it_from_the_other_one() {
    let two = copied();
    let machine = &two.machine;
    let (first, source) = (machine.path("repository"), machine.source());
    let first = first.to_str().unwrap();
    let mend = |told: &Ran| {
        assert!(!told.stderr.contains("icecore init"), "{}", told.stderr);
        assert!(!told.stderr.contains("it is made now"), "{}", told.stderr);
        follow(machine, told, "cp ").ends(0);
        follow(machine, told, "icecore check --repair").ends(0);
    };
    for words in [&["copy", "--to", &two.second][..], &["copy", "--to", &two.second, "-n"]] {
        lose_config(&two.second);
        mend(&machine.run(words).ends(14));
        machine.run(words).ends(0);
        two.on_copy(&["check", "--read-data"]).ends(0);
    }
    let source = source.to_str().unwrap();
    for words in [&["backup", source][..], &["check"], &["reclaim"]] {
        lose_config(first);
        mend(&machine.run([words, &["--copies", &two.second]].concat()).ends(14));
        machine.run(words).ends(0);
    }
    lose_config(first);
    for words in [&["check"][..], &["rebuild"], &["init"], &["backup", source], &["snapshots"]] {
        let told = machine.run(words).ends(14).stderr;
        assert!(told.contains(&format!("cp COPY/config {first}/config")), "{words:?}: {told}");
        assert!(told.contains(&format!("--copies COPY --repo {first}")), "{words:?}: {told}");
    }
    mend(&machine.run(["copy", "--repo", &two.second, "--to", first]).ends(14));
    machine.run(["check", "--read-data"]).ends(0);
}

/// An empty repository was made there, and the end was 0.
#[test]
fn a_copy_of_what_no_snapshot_matches_fails_and_makes_nothing() {
    let two = Two::new();
    two.machine.backup_with(&["--node", "here", "--tag", "some"]);
    for typo in [["--node", "typo"], ["--tag", "typo"], ["--path", "/typo"]] {
        for more in [&[][..], &["--dry-run"]] {
            let words = [&["copy", "--to", &two.second], &typo[..], more].concat();
            let ran = two.machine.run(words).ends(1);
            let told = format!("no snapshot matches {}", typo.join(" "));
            assert!(ran.stderr.contains(&told), "{}", ran.stderr);
            assert!(ran.stderr.contains("icecore snapshots"), "{}", ran.stderr);
            assert!(!PathBuf::from(&two.second).exists(), "{typo:?}");
        }
    }
    let words = ["copy", "--to", &two.second, "--node", "here"];
    two.machine.run(words).ends(0);
    assert_eq!(two.snapshots().len(), 1);
}

/// There is nothing to copy yet, and nobody asked for something that is not there.
#[test]
fn a_repository_without_snapshots_is_copied_as_it_is() {
    let two = Two::new();
    two.copy(&[]).ends(0);
    assert!(two.snapshots().is_empty());
}
