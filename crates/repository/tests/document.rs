//! `docs/FORMAT.md` and the files of a real repository say the same.

use ids::{KeyId, RepositoryId};
use repository::Repository;
use repository::config::Config;
use repository::keys::Keys;
use repository::lease::Lease;
use repository::local::LocalStorage;
use repository::storage::Storage;
use std::path::Path;
use std::sync::Arc;

/// A layout table: offset and length of each field, which follow each other without gaps.
fn layout(title: &str) -> Vec<(usize, usize, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/FORMAT.md");
    let text = std::fs::read_to_string(path).expect("docs/FORMAT.md");
    let lines = text.lines().skip_while(|line| *line != title).skip(2);
    let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
    let mut end = 0;
    let mut fields = Vec::new();
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let (offset, length): (usize, usize) =
            (cells[0].parse().expect("an offset"), cells[1].parse().expect("a length"));
        assert_eq!(offset, end, "{title} {}", cells[2]);
        end += length;
        fields.push((offset, length, cells[2].to_owned()));
    }
    assert!(!fields.is_empty(), "no table after {title:?}");
    fields
}

fn assert_layout(title: &str, bytes: &[u8], expected: &[&[u8]]) {
    let fields = layout(title);
    assert_eq!(fields.len(), expected.len(), "{title} number of fields");
    for ((offset, length, name), expected) in fields.iter().zip(expected) {
        assert_eq!(bytes.get(*offset..offset + length), Some(*expected), "{title} {name}");
    }
    let length: usize = fields.iter().map(|(_, length, _)| length).sum();
    assert_eq!(length, bytes.len(), "{title} length");
}

fn config() -> Config {
    Config::new(RepositoryId([1; 16]), [6; 32], -2, 1, [3, 4, 5]).signed(|_| [7; 64])
}

fn made() -> (tempfile::TempDir, Arc<dyn Storage>) {
    let folder = tempfile::tempdir().expect("a folder");
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(folder.path()).expect("a storage"));
    let keys = Keys { slots: vec![(KeyId([0xab; 8]), vec![1, 2, 3])], key_list: Vec::new() };
    drop(Repository::init(storage.clone(), config(), &keys).expect("a repository"));
    (folder, storage)
}

#[test]
fn the_config_is_laid_out_as_told() {
    let (folder, _) = made();
    let bytes = std::fs::read(folder.path().join("config")).expect("config");
    let sum = format::wire::checksum(&[&bytes[..bytes.len() - 16]]);
    let expected: [&[u8]; 13] = [
        b"ICEREPO2",
        &[1; 16],
        &[0; 8],
        &[0; 8],
        &(-2i64).to_le_bytes(),
        &[1],
        &[3, 0, 0, 0],
        &[4, 0, 0, 0],
        &[5, 0, 0, 0],
        &[6; 32],
        &[0; 64],
        &[7; 64],
        &sum,
    ];
    assert_layout("Config:", &bytes, &expected);
}

#[test]
fn the_index_state_is_laid_out_as_told() {
    let (folder, _) = made();
    let bytes = std::fs::read(folder.path().join("index/state")).expect("state");
    let (body, sum) = bytes.split_at(bytes.len() - 16);
    assert_eq!(sum, format::wire::checksum(&[body]));
    let one = 1u64.to_le_bytes();
    assert_layout("Index state:", body, &[b"ICESTAT1", &one, &one, &one, &bytes[32..40], &[0; 8]]);
}

#[test]
fn the_lease_is_as_told() {
    let (folder, storage) = made();
    let lease = Lease::acquire(&storage, "somebody").expect("the lease");
    assert_eq!(lease.generation(), 1);
    let bytes = std::fs::read(folder.path().join("lease")).expect("lease");
    let (body, sum) = bytes.split_last_chunk::<16>().expect("a checksum");
    assert_eq!(*sum, format::wire::checksum(&[body]));
    let (head, number) = body.split_last_chunk::<16>().expect("a random number");
    assert_eq!(head, [&1u64.to_le_bytes()[..], b"somebody\0"].concat());
    assert!(number.iter().all(u8::is_ascii_hexdigit), "{number:?}");
}

#[test]
fn the_lock_clock_is_laid_out_as_told() {
    let (folder, storage) = made();
    let repository = Repository::open(storage).expect("a repository");
    repository.show_time(clock::Tick { wall_secs: 5, boot: 6, up_secs: 7 });
    let lease = repository.lease("somebody").expect("the lease");
    repository.give_lock(&lease, 8, 9).expect("a lock");
    let bytes = std::fs::read(folder.path().join("lock-clock")).expect("lock-clock");
    let sum = format::wire::checksum(&[&bytes[..bytes.len() - 16]]);
    let [time, up, credit, until] = [9i64, 7, clock::CREDIT_SECS_MAX, 17].map(i64::to_le_bytes);
    let boot = 6u128.to_le_bytes();
    let expected: [&[u8]; 7] = [b"ICELOCK1", &time, &up, &credit, &boot, &until, &sum];
    assert_layout("Lock clock:", &bytes, &expected);
}

#[test]
fn files_lie_where_told() {
    let (folder, _) = made();
    for name in [
        "README",
        "config",
        "config.copy",
        "index/state",
        "keys/abababababababab",
        "containers",
        "snapshots",
    ] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
}

#[test]
fn the_run_adds_up_as_told() {
    let page = layout("Run page:");
    let row = layout("Run row:");
    let length =
        |fields: &[(usize, usize, String)]| fields.iter().map(|field| field.1).sum::<usize>();
    assert_eq!(length(&page), 4096);
    assert_eq!(page.last().expect("rows").1, 170 * length(&row));
    assert_eq!(length(&layout("Run trailer:")), 48);
}
