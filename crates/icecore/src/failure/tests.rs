use super::*;
use ids::{KeyEpoch, KeyId};
use pipeline::{Error, KeyError, KeyListAge};
use std::io::{Error as Io, ErrorKind};
use store::StorageError;

#[test]
fn every_error_has_the_code_that_the_documentation_says() {
    let storage = |kind: ErrorKind| {
        let error = StorageError::new("open", "x", Io::from(kind));
        Error::Repository(store::Error::Storage(error))
    };
    let gone = || {
        let name = "containers/00000000/0000000001.part";
        StorageError::new("create", name, Io::from(ErrorKind::NotFound))
    };
    let archived = || {
        let error = StorageError::new("read", "x", store::Archived { class: "GLACIER".into() });
        Error::Repository(store::Error::Storage(error))
    };
    let table = [
        (storage(ErrorKind::StorageFull), Code::NoSpace),
        (storage(ErrorKind::QuotaExceeded), Code::NoSpace),
        (storage(ErrorKind::PermissionDenied), Code::NotAllowed),
        (storage(ErrorKind::StaleNetworkFileHandle), Code::Unreachable),
        (storage(ErrorKind::NotConnected), Code::Unreachable),
        (Error::Repository(store::Error::Storage(gone())), Code::NoRepository),
        (archived(), Code::Archived),
        (Error::WrongKey, Code::WrongKey),
        (Error::KeysMissing(Vec::new()), Code::WrongKey),
        (Error::WriteOnly, Code::NotAllowed),
        (Error::ReadOnly, Code::NotAllowed),
        (Error::BoundKey { bound: "web".into(), node: "db".into() }, Code::NotAllowed),
        (Error::NeedsFullKey, Code::NotAllowed),
        (Error::NoKeyList, Code::Damage),
        (Error::LaterEpoch { epoch: KeyEpoch(1), newest: KeyEpoch(0) }, Code::NotAllowed),
        (Error::OldKeyList { epoch: KeyEpoch(0), made_in: KeyEpoch(1) }, Code::Damage),
        (
            Error::StaleKeyList { shown: KeyListAge::default(), seen: KeyListAge::default() },
            Code::Damage,
        ),
        (Error::ForgedConfig, Code::Damage),
        (Error::Cancelled, Code::Cancelled),
        (Error::Usage("x".into()), Code::Usage),
        (Error::SnapshotNotFound("x".into()), Code::Failed),
        (crypto::Error::BadSignature.into(), Code::Damage),
        (Error::Repository(store::Error::InUse { holder: "x".into() }), Code::InUse),
        (
            Error::Repository(store::Error::NoRepository { location: "x".into() }),
            Code::NoRepository,
        ),
        (repository::Error::UncertainData("x".into()).into(), Code::Damage),
        (repository::Error::WriterStopped.into(), Code::Failed),
        (Error::NoThread(ErrorKind::WouldBlock.into()), Code::Failed),
    ];
    for (error, code) in table {
        let message = error.to_string();
        assert_eq!(Failure::from(error).code, code, "{message}");
    }
}

#[test]
fn who_waits_for_a_process_that_is_gone_is_told() {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let hint = |host: &str, process: u32| {
        in_use(&format!("the repository is in use by backup on {host}, process {process}"))
    };
    let ended = std::process::Command::new("true").spawn().and_then(|mut child| {
        child.wait()?;
        Ok(child.id())
    });
    assert!(hint(&host, ended.unwrap()).contains("still keeps its lock"));
    assert!(hint(&host, std::process::id()).contains("--wait"));
    assert!(hint("elsewhere", u32::MAX).contains("--wait"), "nobody here knows");
    assert!(in_use("the repository is in use by another process").contains("--wait"));
}

#[test]
fn a_failure_says_what_happened_and_what_to_type() {
    let error = repository::Error::NoRepository { location: "/x y".into() };
    let text = Failure::from(error).at("/x y").text();
    assert_eq!(
        text,
        "error: there is no repository at /x y (exit 10)\n  Is its file system mounted? If it is, create one: icecore init --repo '/x y'"
    );
}

#[test]
fn a_full_directory_for_temporary_files_is_not_a_full_storage() {
    let of = |operation| {
        let error = StorageError::new(operation, "x", Io::from(ErrorKind::StorageFull));
        Failure::from(store::Error::Storage(error)).at("s3://bucket/x").text()
    };
    assert!(of(object_storage::TEMPORARY).contains("TMPDIR"));
    let (operation, folder) = ("write", "/var/tmp".to_owned());
    let source = Io::from(ErrorKind::StorageFull);
    let failure = Failure::from(repository::Error::Temporary { operation, folder, source });
    assert_eq!(failure.code, Code::NoSpace);
    assert!(failure.at("/x").text().contains("TMPDIR"));
    assert!(of("write").contains("raise its quota"));
}

#[test]
fn a_damaged_index_is_rebuilt_where_it_lies() {
    let hint = |name: &str| {
        let error = store::Error::IndexDamaged { name: name.into() };
        Failure::from(error).at("/first").hint.unwrap()
    };
    assert!(hint("index/state").ends_with("icecore rebuild"));
    assert!(hint("/a copy/index/state").ends_with("icecore rebuild --repo '/a copy'"));
}

#[test]
fn a_damaged_file_of_a_key_is_brought_back_by_a_copy() {
    let damaged = || crypto::Error::Damaged { what: "a slot's checksum" };
    let of = |keys| Failure::from(Error::Crypto(KeyError { keys, source: damaged() }));
    let named = of(vec![KeyId([7; KeyId::LEN])]);
    assert!(named.message.starts_with("keys/07") && named.code == Code::Damage);
    assert!(named.hint.unwrap().contains("icecore copy --repo COPY"));
    assert_eq!(of(Vec::new()), Failure::from(damaged()));
}

#[test]
fn too_little_memory_for_a_password_is_said_with_advice() {
    let failure = Failure::from(crypto::Error::OutOfMemory);
    assert!(failure.code == Code::Failed && failure.text().contains("ulimit -v"));
}

#[test]
fn a_wrong_clock_is_not_told_as_wrong_credentials() {
    let of = |reason: &str| {
        let source = Io::new(ErrorKind::PermissionDenied, reason.to_owned());
        Failure::from(store::Error::Storage(StorageError::new("list", "x", source)))
    };
    let skewed = of("The time differs. (RequestTimeTooSkewed)").at("s3://bucket/x");
    let hint = skewed.hint.unwrap();
    assert!(skewed.code == Code::NotAllowed && hint.contains("timedatectl"), "{hint}");
    let refused = of("Access Denied. (AccessDenied)").at("s3://bucket/x").hint.unwrap();
    assert!(refused.contains("credentials") && !refused.contains("timedatectl"), "{refused}");
}

#[test]
fn a_message_of_others_moves_no_terminal() {
    let failure = Failure::new(Code::Failed, "bad \x1b[2J name");
    assert!(!failure.text().contains('\x1b'));
}
