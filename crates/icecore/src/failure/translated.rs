//! What the errors of the layers below mean to the user.

use super::{Failure, NEEDS_READER, quoted};
use crate::codes::Code;
use capture::walk::WalkError;
use pipeline::Error;
use repository::directories::DATA_AND_LIST;
use std::io::{self, ErrorKind};
use store::{StorageError, is_connection_error};

/// Output that could not be written. If the reader went away, there is nobody to tell.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let is_quiet = error.kind() == ErrorKind::BrokenPipe;
        let failed = of_io(&error, format!("cannot write the output: {error}"));
        // Of a connection it would mean that a server is away; this is about who reads.
        let code = if is_quiet { Code::Failed } else { failed.code };
        Self { is_quiet, code, ..failed }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::Repository(error) => of_repository(&error),
            Error::Crypto(error) => of_keys(&error),
            Error::ManifestChanged => Self::new(Code::Damage, message).hint(
                "Run it again. If it happens again, the memory or CPU of this machine is faulty: test it (memtest86+) before the next backup.",
            ),
            Error::Seal(_) | Error::Format(_) | Error::WrongContent(_) => {
                Self::new(Code::Damage, message)
            }
            Error::SnapshotUnread { .. } => Self::new(Code::Damage, message).hint(
                "To see what can be done: icecore check. To list all snapshots: icecore snapshots",
            ),
            Error::Untrusted { id, .. } => Self::new(Code::Damage, message)
                .hint(format!("No command uses it. To remove it: icecore forget {id}")),
            Error::NoThread(_) | Error::Walk(WalkError::NoThread(_)) => no_thread(message),
            Error::Walk(_) | Error::Usage(_) => Self::usage(message),
            Error::WriteOnly => Self::new(Code::NotAllowed, message).hint(NEEDS_READER),
            Error::WrongKey => Self::new(Code::WrongKey, message),
            Error::KeysMissing(_) => Self::new(Code::WrongKey, message).hint(
                "If the password is right, put the file of its key back from a copy of the repository. Any other password and a recovery key work without it.",
            ),
            Error::Forked { .. } => Self::new(Code::Failed, message).hint(
                "Nothing was copied, and both stay as they are: each can be restored from where it lies. To continue with one of the two, forget the other where it lies: icecore forget SNAPSHOT --repo PLACE. Then copy again. For another copy of the original: icecore copy --to OTHER-PLACE",
            ),
            Error::KeysApart { .. } => Self::new(Code::Failed, message).hint(
                "Nothing was copied. To see the keys of each place: icecore key list --repo PLACE. To give the copy those of the original, and to lose the others: icecore copy --replace-keys --to COPY. To keep both as they are: icecore copy --to OTHER-PLACE",
            ),
            Error::KeysDisown { there, .. } => Self::new(Code::Failed, message).hint(format!(
                "Nothing was copied, and the copy opens with the passwords that it had. Restore what you need of them, then remove them with such a password: icecore forget SNAPSHOT --repo {0}. Then copy again. To lose them without that: icecore copy --give-up --to {0}",
                quoted(&there)
            )),
            Error::KeysOfCopyDamaged(_) => Self::new(Code::Damage, message).hint(
                "With a full key, make its list again from its keys: icecore rebuild --repo COPY. Or delete the copy, and copy again",
            ),
            Error::ReadOnly => Self::new(Code::NotAllowed, message)
                .hint("Use a key that can write. To list keys: icecore key list"),
            Error::BoundKey { bound, .. } => Self::new(Code::NotAllowed, message)
                .hint(format!("To back up as that node: icecore backup --node {} PATH... Another key can do more. To list keys: icecore key list", quoted(&bound))),
            Error::NeedsFullKey => Self::new(Code::NotAllowed, message)
                .hint("Use a full key (the first password or a recovery key) on the machine that holds the repository. To list keys: icecore key list"),
            Error::KeyRemoved(_) | Error::LaterEpoch { .. } => Self::new(Code::NotAllowed, message)
                .hint("Whoever has a full key can add a new one: icecore key add"),
            Error::OldKeyList { .. } => Self::new(Code::Damage, message)
                .hint("Rebuild it with a full key: icecore rebuild"),
            Error::StaleKeyList { .. } => Self::new(Code::Damage, message)
                .hint("Ask the administrator of the server whether an older copy of the repository was restored."),
            Error::NoKeyList => Self::new(Code::Damage, message)
                .hint("Rebuild it from the key slots, with a full key: icecore rebuild"),
            Error::ForgedConfig => Self::new(Code::Damage, message)
                .hint("Somebody changed it. Restore config and config.copy from a copy of the repository."),
            Error::KeyNotFound(_) => Self::new(Code::Failed, message).hint("To list keys: icecore key list"),
            Error::SnapshotNotFound(_) | Error::Ambiguous { .. } => {
                Self::new(Code::Failed, message).hint("To list snapshots: icecore snapshots")
            }
            Error::PathNotFound(_) => {
                Self::new(Code::Failed, message).hint("To search for it: icecore find NAME")
            }
            Error::NothingRead(_) => Self::new(Code::Failed, message).hint("No snapshot was made."),
            Error::Cancelled => Self::new(Code::Cancelled, "cancelled")
                .hint("Nothing is lost: the same command can be run again, and what was done until now stays."),
            Error::File { path, source } => {
                let is_quiet = source.kind() == ErrorKind::BrokenPipe;
                let hint = of_file(&path, &source);
                Self { is_quiet, hint, ..of_io(&source, message) }
            }
            _ => Self::new(Code::Failed, message),
        }
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        of_repository(&error)
    }
}

impl From<repository::Error> for Failure {
    fn from(error: repository::Error) -> Self {
        store::Error::from(error).into()
    }
}

impl From<crypto::Error> for Failure {
    fn from(error: crypto::Error) -> Self {
        of_crypto(&error)
    }
}

fn of_repository(error: &store::Error) -> Failure {
    use store::Error::*;
    let code = match error {
        Storage(error) => return of_storage(error),
        NoRepository { .. } => Code::NoRepository,
        InUse { .. } => Code::InUse,
        LeaseLost { .. } => {
            return Failure::new(Code::InUse, error.to_string())
                .hint("Run it again: the next run continues with what was stored.");
        }
        IndexDamaged { name } => {
            return Failure::new(Code::Damage, error.to_string()).hint(rebuild_of(name));
        }
        Damaged { .. } | ContainerMissing(_) | ObjectMissing(_) => Code::Damage,
        Exists { .. } => {
            let failure = Failure::new(Code::Failed, error.to_string());
            return failure.hint(
                "To use it: icecore backup PATH. To create another one: icecore init --repo DIR",
            );
        }
        Refused { message, hint } => {
            let failure = Failure::new(Code::NotAllowed, message);
            return if hint.is_empty() { failure } else { failure.hint(hint) };
        }
        Locked(_) => {
            return Failure::new(Code::NotAllowed, error.to_string())
                .hint("Which snapshots are locked, and until when: icecore snapshots -l");
        }
        LocalOnly => {
            return Failure::new(Code::NotAllowed, error.to_string())
                .hint("On the server: icecore COMMAND --repo DATA/pool/domains/DOMAIN, with the key that `icecore server key DOMAIN` prints");
        }
        SessionLost => Code::Unreachable,
        DamagedOnServer(_) => Code::Damage,
        UnknownFeatures(_) => {
            return Failure::new(Code::Failed, error.to_string())
                .hint("Use a newer version of icecore.");
        }
        _ => match error.specific() {
            Some(repository::Error::UncertainData(_)) => Code::Damage,
            Some(repository::Error::Temporary { source, .. }) => {
                return of_temporary(source, error.to_string());
            }
            _ => Code::Failed,
        },
    };
    Failure::new(code, error.to_string())
}

/// How the index `name` is made again; that of a copy is named by where it lies.
fn rebuild_of(name: &str) -> String {
    let place = name.rsplit_once("/index").map(|(place, _)| format!(" --repo {}", quoted(place)));
    format!("Rebuild it from the containers: icecore rebuild{}", place.unwrap_or_default())
}

fn no_thread(message: String) -> Failure {
    Failure::new(Code::Failed, message).hint("What limits processes and memory: ulimit -a, or TasksMax and MemoryMax of a systemd unit. Raise it, or close other programs.")
}

fn of_storage(error: &StorageError) -> Failure {
    let message = error.to_string();
    match error.source.kind() {
        _ if error.is_archived() => Failure::new(Code::Archived, message).hint(
            "Nothing is lost. What a restore needs, how long that takes and what it costs: icecore restore SNAPSHOT --plan. To bring it back: icecore restore SNAPSHOT --bring-back",
        ),
        _ if error.name == remote::SERVERS_STORAGE => Failure::new(Code::Unreachable, message)
            .hint("The message names the pool. What is wrong with it, on the server: icecore server pool list. If the domain lies on a storage server, on that: icecore storage pool list"),
        ErrorKind::WouldBlock if error.operation == "start" => no_thread(message),
        // All are made by init, and stay.
        ErrorKind::NotFound if error.operation == "list" => {
            Failure::new(Code::Damage, message).hint(of_directory(&error.name))
        }
        // Its directory was there when it was opened.
        ErrorKind::NotFound if error.operation == "create" => {
            Failure::new(Code::NoRepository, message)
        }
        _ if error.operation == object_storage::TEMPORARY => of_temporary(&error.source, message),
        ErrorKind::UnexpectedEof if error.operation == "read" => Failure::new(Code::Damage, message)
            .hint("The file was cut short. To see what that affects, and what to do: icecore check"),
        ErrorKind::FileTooLarge => Failure::new(Code::Failed, message).hint(
            "Lift the limit of file sizes: ulimit -f unlimited, or LimitFSIZE=infinity in a systemd unit.",
        ),
        _ => of_io(&error.source, message),
    }
}

/// What to do about a directory of the repository that is not there.
fn of_directory(name: &str) -> String {
    let rest = match name {
        DATA_AND_LIST => {
            "Bring them back if they were moved away. Else, if there is a copy, make a new repository of it: icecore copy --repo COPY --to NEW"
        }
        "keys" => {
            "Bring it back if it was moved away. Else, if there is a copy: icecore copy --repo COPY --to REPOSITORY. Without one, nobody can open what is stored"
        }
        _ => {
            "Bring it back if it was moved away. Else, if there is a copy: icecore check --repair --copies COPY. Without one, make what can be made from the rest: icecore rebuild"
        }
    };
    match name {
        DATA_AND_LIST => format!("Two directories of the repository are missing. {rest}"),
        _ => format!("A directory of the repository is missing. {rest}"),
    }
}

/// What to do about a file that is not of the repository: a target, or the output.
fn of_file(path: &str, source: &io::Error) -> Option<String> {
    let mount = || format!("findmnt --target {}", quoted(path));
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some(
            "Make room there, and run it again: a restore continues where it stopped.".to_owned(),
        ),
        ErrorKind::ReadOnlyFilesystem => {
            Some(format!("It is mounted read-only: {}. Choose another place.", mount()))
        }
        ErrorKind::PermissionDenied => {
            Some("Run it as a user who has the right, or choose another place.".to_owned())
        }
        _ => None,
    }
}

fn of_temporary(source: &io::Error, message: String) -> Failure {
    let failure = of_io(source, message);
    match failure.code {
        Code::NoSpace => failure.hint(
            "This machine has no room for temporary files. Set TMPDIR to a directory with room.",
        ),
        _ => failure.hint("Set TMPDIR to a directory for temporary files."),
    }
}

pub(super) fn of_io(error: &io::Error, message: String) -> Failure {
    use ErrorKind::*;
    let code = match error.kind() {
        PermissionDenied | ReadOnlyFilesystem => Code::NotAllowed,
        StorageFull | QuotaExceeded => Code::NoSpace,
        kind if is_connection_error(kind) => Code::Unreachable,
        _ => Code::Failed,
    };
    Failure::new(code, message)
}

fn of_keys(error: &pipeline::KeyError) -> Failure {
    let failure = of_crypto(&error.source);
    if error.keys.is_empty() {
        return failure;
    }
    // A check needs a key, too.
    Failure { message: error.to_string(), ..failure }.hint(
        "Another password or a recovery key still opens the repository, and a copy brings the file back: icecore copy --repo COPY --to REPOSITORY",
    )
}

fn of_crypto(error: &crypto::Error) -> Failure {
    use crypto::Error::*;
    let code = match error {
        OutOfMemory => {
            return Failure::new(Code::Failed, error.to_string()).hint(
                "It needs as much as `init --password-cost` said, 19 MiB if nothing. Is there a limit? ulimit -v, or MemoryMax of a systemd unit",
            );
        }
        WrongKey => Code::WrongKey,
        Damaged { .. } | BadSignature | KdfLimits { .. } => Code::Damage,
        BadLabel | EmptyPassword | BadRecoveryText { .. } => Code::Usage,
        _ => Code::Failed,
    };
    Failure::new(code, error.to_string())
}

/// What helps while another process writes, or seems to.
pub(super) fn in_use(message: &str) -> String {
    match pipeline::unlocked::ended_holder(message) {
        Some(process) => format!(
            "This machine has no process {process}: it ended a moment ago, or a network file system still keeps its lock (MooseFS: SESSION_SUSTAIN_TIME). Wait for it: --wait 10m."
        ),
        None => "Wait for it: --wait 10m. Commands that only read work meanwhile.".into(),
    }
}
