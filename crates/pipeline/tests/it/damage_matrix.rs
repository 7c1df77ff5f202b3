//! The damage matrix: everything that can happen to every part of every kind of file, and every
//! command on what is left. Five promises, whatever was damaged:
//!
//! 1. no wrong byte: what a restore does not name is there, byte for byte;
//! 2. it is found: `check` says so, and names the snapshots and the files;
//! 3. the rest restores: a file of which nothing was hit comes back;
//! 4. the next backup heals: after a rebuild and a full backup the newest snapshot is whole;
//! 5. nothing makes it worse: no command costs a file that could be restored before it.
//!
//! `ICECORE_DAMAGE=all` runs all of it, some minutes; else a slice of it runs, the same each time.

mod harm;
mod lab;
mod needs;

use crate::testkit::{TestFolder, checked, files_below};
use harm::{Harm, How, Kind};
use lab::{Lab, Made, Restored, names, open, secret};
use needs::Needs;
use pipeline::check::{self, Damage};
use pipeline::{UnlockedRepository, rebuild, reclaim};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use store::SnapshotRef;

/// Longer than any cell takes; what is not done by then hangs. Looks are counted, not seconds: while the process is
/// stopped, also by a machine that sleeps, nothing hangs.
const LOOKS: u32 = 1_200;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// By default every so-manieth cell runs.
const SLICE: usize = 17;

/// What is done to the damaged repository. Restoring and checking are done in every cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Command {
    Look,
    Backup,
    FullBackup,
    Forget,
    Reclaim,
    Rebuild,
    RebuildIncomplete,
}

impl Command {
    const ALL: [Self; 7] = [
        Self::Look,
        Self::Backup,
        Self::FullBackup,
        Self::Forget,
        Self::Reclaim,
        Self::Rebuild,
        Self::RebuildIncomplete,
    ];
}

/// Damage that costs nothing and that nobody need be told of, with the reason.
fn harmless(harm: &Harm) -> Option<&'static str> {
    match (harm.kind, harm.how) {
        (Kind::Lock, _) => Some("it is empty, and the next writer makes it again"),
        (Kind::Lease, _) => Some("the next writer replaces it, with a number beyond any before"),
        (Kind::Key, How::Delete) => Some("as if that key had been removed; the other one opens"),
        _ => None,
    }
}

/// Files that a rebuild may cost although they could be restored before it, with the reason.
fn costs_a_rebuild(lab: &Lab, harm: &Harm) -> Option<&'static str> {
    harm.hits_only_a_sum(lab)
        .then_some("only who has the key can tell a bad checksum from a bad record")
}

/// What all cells share.
struct Matrix {
    lab: Lab,
    needs: Vec<Needs>,
}

/// What a repository gives back.
struct State {
    restored: Vec<Restored>,
    check: pipeline::Result<check::CheckReport>,
}

impl Matrix {
    fn new() -> Self {
        let lab = Lab::new();
        let repository = lab.folder.open();
        let needs = lab.made.iter().map(|made| needs::of(&repository, made)).collect();
        Self { lab, needs }
    }

    /// One cell: what it says in the table, or `None` when the harm changes nothing.
    fn cell(&self, harm: &Harm, command: Command) -> Option<String> {
        let folder = harm.done(&self.lab)?;
        let what = format!("{command:?} after {harm}");
        let files = || files_below(&folder.repository());
        let listed = files();
        let before = self.state(&folder, &self.lab.made, &what);
        assert_eq!(files(), listed, "{what}: looking has changed something");
        self.assert_found(harm, before.as_ref(), &what);
        self.assert_rest_restores(harm, before.as_ref(), &what);
        let said = self.run(command, &folder, &what);
        let left: Vec<_> = self.left(command, &said).collect();
        let after = self.state(&folder, left.iter().copied(), &what);
        let rebuilds = matches!(command, Command::Rebuild | Command::RebuildIncomplete);
        if !rebuilds || costs_a_rebuild(&self.lab, harm).is_none() {
            assert_no_worse(&left, before.as_ref(), after.as_ref(), &what);
        }
        let healed = self.heal(harm, &folder, &left, before.as_ref(), &what);
        let lost = before.map_or("closed".into(), |state| state.lost().to_string());
        Some(format!("{lost:>6} | {:<40} | {healed}", said.unwrap_or_else(|error| error)))
    }

    /// What there is to be had of `made`; `None` when the repository does not open.
    fn state<'a>(
        &self,
        folder: &TestFolder,
        made: impl IntoIterator<Item = &'a Made>,
        what: &str,
    ) -> Option<State> {
        let repository = open(folder).ok()?;
        let restored = made.into_iter().map(|made| Restored::of(&repository, made, what)).collect();
        Some(State { restored, check: checked(&repository) })
    }

    /// Promise 2.
    fn assert_found(&self, harm: &Harm, state: Option<&State>, what: &str) {
        let Some(State { restored, check }) = state else {
            assert!(matches!(harm.kind, Kind::Config | Kind::State | Kind::Run), "{what}: closed");
            return;
        };
        if let Some(reason) = harmless(harm) {
            assert!(restored.iter().all(|one| one.lost.is_empty()), "{what} was not: {reason}");
            assert_eq!(check.as_ref().unwrap().damages, [], "{what}");
            return;
        }
        let Ok(report) = check else { return };
        // A note, with which `check` ends well, is enough where no snapshot of the list lost a file.
        let costs = restored.iter().any(|one| !one.refused && !one.lost.is_empty());
        let said = !report.damages.is_empty() || !costs && !report.notes.is_empty();
        assert!(said, "{what}: check finds nothing: {:?}", report.notes);
        for (made, restored) in self.lab.made.iter().zip(restored) {
            assert_named(report, made.name, restored, what);
        }
    }

    /// Promise 3. Damage to anything but a container costs no data, after a rebuild: see `heal`.
    fn assert_rest_restores(&self, harm: &Harm, state: Option<&State>, what: &str) {
        let Some(state) = state.filter(|_| harm.kind == Kind::Container) else { return };
        for ((made, needs), restored) in self.lab.made.iter().zip(&self.needs).zip(&state.restored)
        {
            for path in &restored.lost {
                let hit = needs[path].iter().any(|location| harm.hits(&self.lab, *location));
                let path = path.escape_ascii();
                assert!(hit, "{what}: {path} of {} is lost: {:?}", made.name.id, restored.heard);
            }
        }
    }

    fn run(&self, command: Command, folder: &TestFolder, what: &str) -> Result<String, String> {
        let text = |error: pipeline::Error| error.to_string().chars().take(40).collect::<String>();
        let rebuild = |incomplete| {
            let report =
                rebuild::run(folder.storage(), secret(folder), incomplete).map_err(text)?;
            Ok(format!("{} snapshots, {} back", report.snapshots, report.snapshots_restored))
        };
        match command {
            Command::Rebuild => return rebuild(false),
            Command::RebuildIncomplete => return rebuild(true),
            _ => {}
        }
        let repository = open(folder).map_err(text)?;
        match command {
            Command::Look => Ok("looked".into()),
            Command::Backup => self.back_up(&repository, false, what).map_err(text),
            Command::FullBackup => self.back_up(&repository, true, what).map_err(text),
            Command::Forget => repository
                .forget(&[self.lab.made[0].name])
                .map(|_| "forgotten".into())
                .map_err(text),
            _ => {
                let options = reclaim::ReclaimOptions {
                    max_waste_percent: 0.0,
                    dry_run: false,
                    accept_damage: false,
                    free_interrupted: false,
                };
                let report = reclaim::run(&repository, &options).map_err(text)?;
                Ok(format!("{} containers gone", report.containers_removed))
            }
        }
    }

    /// A backup on the damaged repository may cite what is damaged; then it is found and named.
    fn back_up(
        &self,
        repository: &UnlockedRepository,
        full: bool,
        what: &str,
    ) -> pipeline::Result<String> {
        let made = self.backup(repository, full)?;
        let restored = Restored::of(repository, &made, what);
        if let Ok(report) = checked(repository) {
            assert_named(&report, made.name, &restored, what);
        }
        Ok(format!("{} files lost in the new one", restored.lost.len()))
    }

    fn backup(&self, repository: &UnlockedRepository, full: bool) -> pipeline::Result<Made> {
        let options = pipeline::backup::BackupOptions { full, ..self.lab.folder.options() };
        let heard = crate::testkit::Heard::default();
        let done = pipeline::backup::run(repository, &options, &Default::default(), &heard)?;
        assert!(done.report.adds_up(), "{:#?}", done.report);
        Ok(Made { name: done.snapshot, files: self.lab.source().clone() })
    }

    /// The snapshots that shall be there after `command`.
    fn left(&self, command: Command, said: &Result<String, String>) -> impl Iterator<Item = &Made> {
        let gone = usize::from(command == Command::Forget && said.is_ok());
        self.lab.made.iter().skip(gone)
    }

    /// Promise 4, and 5 once more: rebuild, a full backup, and what is there then.
    fn heal(
        &self,
        harm: &Harm,
        folder: &TestFolder,
        left: &[&Made],
        before: Option<&State>,
        what: &str,
    ) -> String {
        if harm.kind == Kind::Config {
            // There is no other copy in the repository: put the owner's back.
            std::fs::copy(
                self.lab.folder.repository().join("config"),
                folder.repository().join("config"),
            )
            .unwrap();
        }
        rebuild::run(folder.storage(), secret(folder), false)
            .unwrap_or_else(|error| panic!("{what}: rebuild: {error}"));
        let repository =
            open(folder).unwrap_or_else(|error| panic!("{what}: rebuilt, but {error}"));
        let newest = self
            .backup(&repository, true)
            .unwrap_or_else(|error| panic!("{what}: the backup after the rebuild: {error}"));
        let whole = Restored::of(&repository, &newest, what);
        assert!(whole.lost.is_empty(), "{what}: the newest snapshot lacks {:?}", whole.heard);
        let report = checked(&repository).unwrap();
        let id = newest.name.id.to_string();
        let of_newest = report.damages.iter().find(|damage| damage.snapshots.contains(&id));
        assert_eq!(of_newest, None, "{what}: check of the newest");
        let after = self.state(folder, left.iter().copied(), what);
        if costs_a_rebuild(&self.lab, harm).is_none() {
            assert_no_worse(left, before, after.as_ref(), &format!("healing {what}"));
        }
        let lost = after.map_or(0, |state| state.lost());
        assert!(harm.kind == Kind::Container || lost == 0, "{what}: {lost} files stay lost");
        format!("{lost} lost, {} damages left", report.damages.len())
    }
}

impl State {
    fn lost(&self) -> usize {
        self.restored.iter().map(|one| one.lost.len()).sum()
    }
}

/// Check names a snapshot of which anything is lost, and all that is lost of it.
fn assert_named(report: &check::CheckReport, name: SnapshotRef, restored: &Restored, what: &str) {
    let id = name.id.to_string();
    let all = report.damages.iter().chain(&report.notes);
    let of_it: Vec<&Damage> = all.filter(|damage| damage.snapshots.contains(&id)).collect();
    assert!(
        restored.lost.is_empty() || !of_it.is_empty(),
        "{what}: check does not name {id}: {:#?}",
        report.damages
    );
    if restored.refused {
        return;
    }
    let lines: Vec<_> = of_it.iter().flat_map(|damage| lines(damage)).collect();
    for path in &restored.lost {
        let path_text = path.escape_ascii();
        assert!(names(&lines, path), "{what}: check does not name {path_text}: {lines:#?}");
    }
}

/// A damage as lines that each begin with a path.
fn lines(damage: &Damage) -> Vec<String> {
    let line = |path: &Vec<u8>| format!("{}: {}", String::from_utf8_lossy(path), damage.what);
    damage.paths.iter().map(line).collect()
}

/// Promise 5: what could be restored before can be restored after.
fn assert_no_worse(left: &[&Made], before: Option<&State>, after: Option<&State>, what: &str) {
    let Some(before) = before else { return };
    let after = after.unwrap_or_else(|| panic!("{what}: it does not open any more"));
    let before = &before.restored[before.restored.len() - left.len()..];
    for ((made, before), after) in left.iter().zip(before).zip(&after.restored) {
        let gone = before.good.iter().find(|path| !after.good.contains(path));
        let gone = gone.map(|path| path.escape_ascii().to_string());
        assert_eq!(gone, None, "{what}: {} is worse now: {:?}", made.name.id, after.heard);
    }
}

/// Runs a cell in a thread of its own: a panic and a hang are told apart from an answer.
fn tried(matrix: &Arc<Matrix>, harm: &Harm, command: Command) -> Result<Option<String>, String> {
    let (reply, answer) = mpsc::channel();
    let (matrix, harm_there) = (matrix.clone(), harm.clone());
    let thread = std::thread::spawn(move || {
        let _ = reply.send(matrix.cell(&harm_there, command));
    });
    let mut looks = (0..LOOKS).map(|_| answer.recv_timeout(BETWEEN_LOOKS));
    match looks.find(|look| *look != Err(mpsc::RecvTimeoutError::Timeout)) {
        Some(Ok(line)) => Ok(line),
        None => Err(format!("{command:?} after {harm} hangs")),
        Some(Err(_)) => {
            let panic = thread.join().unwrap_err();
            let text = panic.downcast_ref::<String>().cloned();
            Err(text
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()))
                .unwrap_or_default())
        }
    }
}

#[test]
fn whatever_is_damaged_five_promises_hold() {
    let matrix = Arc::new(Matrix::new());
    let step =
        if std::env::var("ICECORE_DAMAGE").is_ok_and(|all| all == "all") { 1 } else { SLICE };
    let only = std::env::var("ICECORE_DAMAGE_ONLY").unwrap_or_default();
    let cells: Vec<(Harm, Command)> = Harm::all(&matrix.lab)
        .into_iter()
        .flat_map(|harm| Command::ALL.map(|command| (harm.clone(), command)))
        .filter(|(harm, command)| format!("{command:?} {harm}").contains(&only))
        .step_by(step)
        .collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let counts = Mutex::new(BTreeMap::<Kind, usize>::new());
    println!(
        "{:<24} {:<60} | lost | {:<40} | after rebuild and backup",
        "command", "damage", "said"
    );
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((harm, command)) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match tried(&matrix, harm, *command) {
                        Ok(None) => {}
                        Ok(Some(line)) => {
                            *counts.lock().unwrap().entry(harm.kind).or_default() += 1;
                            let (harm, command) = (harm.to_string(), format!("{command:?}"));
                            println!("{command:<24} {harm:<60} | {line}");
                        }
                        Err(text) => failed.lock().unwrap().push(text),
                    }
                }
            });
        }
    });
    let (counts, failed) = (counts.into_inner().unwrap(), failed.into_inner().unwrap());
    println!("cells: {} {counts:?}", counts.values().sum::<usize>());
    assert!(!only.is_empty() || counts.len() == Kind::ALL.len(), "some kind is spared: {counts:?}");
    assert!(failed.is_empty(), "{} cells failed:\n{}", failed.len(), failed.join("\n\n"));
}

/// What a lost page named is not known any more: it must not look like what the snapshot lacks.
#[test]
fn a_restore_that_deletes_spares_everything_while_a_page_is_lost() {
    let lab = Lab::new();
    let target = lab.folder.at("target");
    let options = pipeline::restore::RestoreOptions { delete: true, ..Default::default() };
    let restore = |folder: &TestFolder| {
        let name = lab.made[0].name;
        crate::testkit::restore_with(&folder.open(), name, b"", &target, &options).unwrap()
    };
    restore(&lab.folder);
    let whole = files_below(&target);
    let harms = Harm::all(&lab).into_iter();
    let of_pages = harms.filter(|harm| harm.region == "pages sealed" && harm.how == How::Flip);
    // Lists of chunks are pages too, and nobody asks for those of files that are there already.
    let lost = of_pages.filter(|harm| {
        let (report, _) = restore(&harm.done(&lab).unwrap());
        assert_eq!((report.deleted, files_below(&target)), (0, whole.clone()), "{harm}");
        report.failed > 0
    });
    assert!(lost.count() > 0, "no page of names was lost");
    std::fs::write(target.join(crate::testkit::NAME).join("more"), b"what no snapshot has")
        .unwrap();
    assert_eq!(restore(&lab.folder).0.deleted, 1, "and deletes again once all is known");
}
