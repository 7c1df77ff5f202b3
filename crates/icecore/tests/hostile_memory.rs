//! A server that goes back: it shows an older state than a node has made, or another one. The node remembers its last
//! snapshot of each source and says so, whatever it is asked to do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use crypto::SlotSecret;
use format::manifest::{Head, SIGNATURE_BYTES, snapshot_id};
use format::record::{self, HEADER_BYTES, SealedRecord};
use hostile_server::{Asked, Fake, Reply};
use ids::KeyId;
use parking_lot::Mutex;
use pipeline::UnlockedRepository;
use pipeline::unlocked::InitOptions;
use protocol::Packet;
use protocol::packet::{PathBytes, SnapshotName};
use repository::local::LocalStorage;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use store::StoredSnapshot;

/// What opens the slot of the node.
const SECRET: [u8; 32] = [7; 32];

/// What the server says when it is asked for the newest snapshot of a source, or for a list; the truth without one.
type Shown = Arc<Mutex<Option<Packet>>>;
/// The keys for receipts that the server tells, its own first.
type Told = Arc<Mutex<Vec<[u8; 32]>>>;

/// A node with two backups on a server, of which a copy was made after the first one.
struct Lab {
    folder: tempfile::TempDir,
    fake: Fake,
    shown: Shown,
    /// How often it says the truth before that.
    truths: Arc<Mutex<usize>>,
    listed: Shown,
    told: Told,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repository = UnlockedRepository::init(
            Arc::new(LocalStorage::create(&folder.path().join("repository")).unwrap()),
            SlotSecret::Recovery(SECRET),
            InitOptions::default(),
        );
        let (shown, repository) = (Shown::default(), repository.unwrap().local().unwrap().clone());
        let (says, told) = (shown.clone(), Told::default());
        let (truths, listed) = (Arc::new(Mutex::new(0)), Shown::default());
        let (tells, left, lists) = (told.clone(), truths.clone(), listed.clone());
        let fake = Fake::start(Some(repository), move |asked| {
            let lie = match asked.packet {
                Packet::GetNewest { .. } if *left.lock() > 0 => {
                    *left.lock() -= 1;
                    None
                }
                Packet::GetNewest { .. } => says.lock().clone(),
                Packet::ListSnapshots { .. } => lists.lock().clone(),
                _ => None,
            };
            match lie {
                Some(packet) => Reply::Say(vec![packet]),
                None => telling(asked, &tells.lock()),
            }
        });
        let lab = Self { folder, fake, shown, truths, listed, told };
        lab.enroll("agent", &lab.fake);
        lab.write("one");
        lab.backs_up("agent");
        copy(&lab.path("repository"), &lab.path("copy"));
        copy(&lab.path("agent"), &lab.path("other"));
        lab.write("two");
        lab.backs_up("agent");
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, text: &str) {
        std::fs::create_dir_all(self.path("source")).unwrap();
        std::fs::write(self.path("source/file"), text).unwrap();
    }

    fn enroll(&self, agent: &str, fake: &Fake) {
        fake.enroll(&self.path(agent));
        let key: String = SECRET.iter().map(|byte| format!("{byte:02x}")).collect();
        std::fs::write(self.path(agent).join("slot.key"), key).unwrap();
    }

    /// A server with the copy; the node of the folder `agent` calls it from now on.
    fn copy_serves(&self, agent: &str) -> Fake {
        let repository = open(&self.path("copy")).local().unwrap().clone();
        let copy = self.fake.beside(Some(repository), |asked| asked.honestly());
        let file = self.path(agent).join("agent.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let (before, after) = (self.fake.address.to_string(), copy.address.to_string());
        std::fs::write(file, text.replace(&before, &after)).unwrap();
        copy
    }

    fn run(&self, agent: &str, words: &[&str]) -> Output {
        let ran = self.ran(agent, words);
        assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
        ran
    }

    /// A command that ends with "damage"; what it says.
    fn refuses(&self, words: &[&str]) -> String {
        let ran = self.ran("agent", words);
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(14), "{words:?}: {said}");
        said
    }

    fn ran(&self, agent: &str, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_icecore"));
        command.args(words).arg("--agent-dir").arg(self.path(agent));
        command.env_clear().env("HOME", self.path("home")).output().unwrap()
    }

    /// Where the node notes what it made.
    fn seen(&self) -> PathBuf {
        let files = std::fs::read_dir(self.path("agent")).unwrap().map(|file| file.unwrap());
        let mut files = files.filter(|it| it.file_name().to_string_lossy().starts_with("seen-"));
        files.next().unwrap().path()
    }

    fn backs_up(&self, agent: &str) -> String {
        let source = self.path("source");
        let ran = self.run(agent, &["backup", source.to_str().unwrap()]);
        String::from_utf8(ran.stderr).unwrap()
    }

    /// What a command that only looks says beside its result.
    fn notes(&self) -> String {
        String::from_utf8(self.run("agent", &["snapshots"]).stderr).unwrap()
    }

    fn shows(&self, packet: Packet) -> String {
        *self.shown.lock() = Some(packet);
        self.notes()
    }

    /// The snapshots of a repository, oldest first.
    fn snapshots(&self, repository: &str) -> Vec<StoredSnapshot> {
        let repository = open(&self.path(repository));
        let names = repository.store.snapshots().unwrap();
        names.into_iter().map(|name| repository.store.snapshot(name).unwrap()).collect()
    }
}

/// The truth, but for the keys for receipts.
fn telling(asked: Asked<'_>, keys: &[[u8; 32]]) -> Reply {
    let mut reply = asked.honestly();
    if let Reply::Say(packets) = &mut reply
        && let [Packet::Opened { receipt_keys, .. }] = &mut packets[..]
    {
        *receipt_keys = keys.iter().map(|key| PathBytes(key.to_vec())).collect();
    }
    reply
}

fn open(repository: &Path) -> UnlockedRepository {
    let storage = Arc::new(LocalStorage::open(repository).unwrap());
    UnlockedRepository::open(storage, SlotSecret::Recovery(SECRET)).unwrap()
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-r").args([from, to]).status().unwrap();
    assert!(done.success());
}

fn packet(stored: &StoredSnapshot) -> Packet {
    let name = SnapshotName { sequence: stored.name.sequence, id: stored.name.id };
    Packet::Snapshot { name, file: stored.to_bytes() }
}

/// `stored` with another head or signature, under the name that fits: all that a server can make without a key.
fn forged(
    stored: &StoredSnapshot,
    change: impl FnOnce(&mut Head, &mut [u8; SIGNATURE_BYTES]),
) -> Packet {
    let file = stored.to_bytes();
    let (session, manifest) = file.split_at(file.len() - stored.record.len());
    let manifest = record::verify(manifest).unwrap();
    let (mut head, mut signature) = Head::decode(manifest.clear).unwrap();
    change(&mut head, &mut signature);
    let clear = [&head.encode()[..], &signature].concat();
    let name = SnapshotName { sequence: head.sequence, id: snapshot_id(&clear) };
    let associated = [&manifest.associated[..HEADER_BYTES], &clear].concat();
    let (kind, ids, sealed) = (manifest.header.kind, Vec::new(), manifest.sealed.to_vec());
    let manifest = SealedRecord { kind, ids, associated, sealed }.to_bytes();
    Packet::Snapshot { name, file: [session, &manifest].concat() }
}

#[test]
fn a_server_without_the_newest_snapshot_or_with_another_in_its_place_is_told() {
    let lab = Lab::new();
    assert_eq!(lab.notes(), "", "an honest server is not doubted");
    let all = lab.snapshots("repository");
    let missing = format!("does not list snapshot {}", &all[1].name.id.to_string()[..8]);
    for (what, packet) in [("an older one", packet(&all[0])), ("none", Packet::NotFound {})] {
        let said = lab.shows(packet);
        assert!(said.contains(&missing) && said.contains("icecore server audit"), "{what}: {said}");
    }
    // Another one with the same number, made by the same key: from a copy that went its own way.
    let copy = lab.copy_serves("other");
    lab.write("three");
    lab.backs_up("other");
    drop(copy);
    let other = lab.snapshots("copy").pop().unwrap();
    assert_eq!(other.head.source_sequence, all[1].head.source_sequence);
    let said = lab.shows(packet(&other));
    let ours = format!("in the place of snapshot {}", &all[1].name.id.to_string()[..8]);
    assert!(
        said.contains(&ours) && said.contains("another machine is a copy of this one"),
        "{said}"
    );
}

/// It says the truth of the newest snapshot, and leaves it out of the list by which commands choose.
#[test]
fn a_server_that_names_the_newest_snapshot_and_lists_only_older_ones_is_told() {
    let lab = Lab::new();
    let all = lab.snapshots("repository");
    let name = SnapshotName { sequence: all[0].name.sequence, id: all[0].name.id };
    *lab.listed.lock() = Some(Packet::SnapshotList { names: vec![name], more: false });
    let missing = format!("does not list snapshot {}", &all[1].name.id.to_string()[..8]);
    let said = lab.notes();
    assert_eq!(said.matches(&missing).count(), 1, "{said}");
    let target = lab.path("target");
    let to = ["--target", target.to_str().unwrap()];
    for words in [&["ls", "latest"][..], &["restore", "latest", to[0], to[1]]] {
        assert!(lab.refuses(words).contains(&missing), "{words:?}");
    }
    let check = lab.ran("agent", &["check", "--read-data"]);
    let printed = String::from_utf8(check.stdout).unwrap();
    assert_eq!(check.status.code(), Some(14), "{printed}");
    assert!(printed.contains(&missing), "{printed}");
    // Where it could cost files, nothing is begun.
    let source = lab.path("source");
    let latest = format!("latest:{}", source.display());
    let words = ["restore", &latest, "--target", source.to_str().unwrap(), "--delete"];
    assert!(lab.refuses(&words).contains("nothing was changed"));
    assert_eq!(std::fs::read(source.join("file")).unwrap(), b"two");
    // Who names one by its id has it.
    lab.run("agent", &["ls", &all[0].name.id.to_string()]);
}

/// It says the truth where it is compared with what is remembered, and shows an older base for the next backup.
#[test]
fn a_backup_on_an_older_base_is_told_and_costs_no_memory() {
    let lab = Lab::new();
    lab.write("three");
    lab.backs_up("agent");
    let (all, seen) = (lab.snapshots("repository"), std::fs::read(lab.seen()).unwrap());
    *lab.shown.lock() = Some(packet(&all[0]));
    *lab.truths.lock() = 1;
    lab.write("four");
    let said = lab.backs_up("agent");
    let missing = format!("does not list snapshot {}", &all[2].name.id.to_string()[..8]);
    assert!(said.contains(&missing), "{said}");
    assert_eq!(std::fs::read(lab.seen()).unwrap(), seen, "what was seen stays remembered");
    assert!(lab.notes().contains(&missing), "and is told again");
}

#[test]
fn a_newest_snapshot_that_nobody_signed_is_told() {
    let lab = Lab::new();
    let newest = lab.snapshots("repository").pop().unwrap();
    type Change = fn(&mut Head, &mut [u8; SIGNATURE_BYTES]);
    let lies: [(&str, Change); 4] = [
        ("the signature is flipped", |_, signature| signature[20] ^= 1),
        ("a later number", |head, _| head.source_sequence += 1),
        ("of a key that is gone", |head, _| {
            (head.source_sequence, head.writer) = (head.source_sequence + 1, KeyId([9; 8]));
        }),
        ("an older number of a key that is gone", |head, _| {
            (head.source_sequence, head.writer) = (1, KeyId([9; 8]));
        }),
    ];
    for (what, lie) in lies {
        let said = lab.shows(forged(&newest, lie));
        assert!(said.contains("no key of this repository signed it"), "{what}: {said}");
    }
}

#[test]
fn a_server_that_went_back_as_a_whole_is_told_until_the_next_backup() {
    let lab = Lab::new();
    let _copy = lab.copy_serves("agent");
    let newest = lab.snapshots("repository").pop().unwrap();
    let missing = format!("does not list snapshot {}", &newest.name.id.to_string()[..8]);
    assert!(lab.notes().contains(&missing));
    // Files that the older state lacks are the newest.
    let source = lab.path("source");
    let latest = format!("latest:{}", source.display());
    let words = ["restore", &latest, "--target", source.to_str().unwrap(), "--delete"];
    assert!(lab.refuses(&words).contains("nothing was changed"));
    assert!(lab.refuses(&["forget", "latest"]).contains("nothing was changed"));
    let said = lab.backs_up("agent");
    assert!(said.contains(&missing), "{said}");
    // What was made since is what the node remembers now.
    assert_eq!(lab.notes(), "");
}

/// The first keys are remembered. Later the server's own is believed, and what its files name besides is not.
#[test]
fn a_node_remembers_its_servers_keys_for_receipts_and_believes_no_others() {
    let lab = Lab::new();
    let (own, former, strange, next) = ([1; 32], [2; 32], [3; 32], [4; 32]);
    let tells = |keys: &[[u8; 32]]| {
        *lab.told.lock() = keys.to_vec();
        lab.notes()
    };
    assert_eq!(tells(&[own, former]), "", "what is told first is believed");
    let said = tells(&[own, former, strange]);
    assert!(
        said.contains("does not know, 03030303") && said.contains("retention does not count"),
        "{said}"
    );
    let said = tells(&[next, own, strange]);
    assert!(said.contains("a new key, 04040404") && said.contains("03030303"), "{said}");
    assert_eq!(tells(&[next, own, former]), "");
    // The advice, followed to the letter.
    let said = tells(&[next, strange]);
    let (_, file) = said.trim_end().rsplit_once("rm ").unwrap();
    std::fs::remove_file(file).unwrap();
    assert_eq!(tells(&[next, strange]), "");
    std::fs::write(file, "damaged").unwrap();
    let said = lab.refuses(&["snapshots"]);
    assert!(said.contains(&format!("rm {file}")), "{said}");
}

#[test]
fn a_node_that_cannot_read_what_it_made_trusts_nobody_and_forgets_nothing() {
    let lab = Lab::new();
    let _copy = lab.copy_serves("agent");
    let newest = lab.snapshots("repository").pop().unwrap();
    let file = lab.seen();
    let source = lab.path("source");
    let what_was_seen = std::fs::read(&file).unwrap();
    for damaged in [&b""[..], b"{", b"[]", b"\xff\xfe", &what_was_seen[..what_was_seen.len() / 2]] {
        std::fs::write(&file, damaged).unwrap();
        for words in [&["snapshots"][..], &["backup", source.to_str().unwrap()]] {
            let said = lab.refuses(words);
            assert!(said.contains(&format!("rm {}", file.display())), "{damaged:?}: {said}");
            assert_eq!(std::fs::read(&file).unwrap(), damaged, "{words:?}");
        }
    }
    std::fs::write(&file, what_was_seen).unwrap();
    assert!(lab.notes().contains(&newest.name.id.to_string()[..8]), "it knows what it made");
    // The advice, followed to the letter.
    std::fs::remove_file(file).unwrap();
    assert_eq!(lab.notes(), "");
}
