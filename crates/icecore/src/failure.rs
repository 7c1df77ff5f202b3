//! What the user reads when something fails: what happened, why, and what to type next.

use crate::codes::Code;
use crate::{lost_config, read_only};
use api::sites::Mistake;
use capture::walk::WalkError;
use pipeline::Error;
use serde::Serialize;
use std::io::{self, ErrorKind};
use store::{StorageError, is_connection_error};

/// What the text of every failure begins with.
pub(crate) const ERROR: &str = "error:";

/// Result of a command.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Why a command ends early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    /// What happened, to what, and why.
    pub(crate) message: String,
    /// The next command to type, or what to do.
    pub(crate) hint: Option<String>,
    /// All that is wrong with what was declared, if it is more than one thing.
    pub(crate) mistakes: Vec<Mistake>,
    /// Whoever read our output has gone: there is nobody to tell.
    pub(crate) is_quiet: bool,
}

/// What helps whose key is write-only.
const NEEDS_READER: &str = "Use a key that can read. To list keys: icecore key list";

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, mistakes: Vec::new(), is_quiet: false }
    }

    /// The command line makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A file of this machine could not be used.
    pub(crate) fn file(path: &std::path::Path, error: &io::Error) -> Self {
        let message = format!("{}: {error}", path.display());
        of_io(error, message)
    }

    /// Damage was met at the object `path`; other failures are not its own.
    pub(crate) fn of(mut self, path: &[u8]) -> Self {
        if self.code == Code::Damage {
            self.message = format!("{}: {}", crate::escape::path(path), self.message);
        }
        self
    }

    /// The repository at `location` could not be used: fills in what to type.
    pub(crate) fn at(mut self, location: &str) -> Self {
        let is_bucket = location.starts_with("s3://");
        if self.code == Code::NoRepository && !is_bucket && lost_config::is_at(location) {
            return lost_config::failure(location, None);
        }
        // It refuses whatever is signed with another time, whoever signed it.
        let is_skewed = is_bucket && self.message.contains("RequestTimeTooSkewed");
        // Of its two files the other one cannot be read either.
        let is_config = self.message.contains("config is damaged: ");
        let lacks_conditions = is_bucket && self.message.contains("(If-None-Match)");
        let hint = match self.code {
            _ if lacks_conditions => crate::place::NEEDS_CONDITIONS.into(),
            Code::NotAllowed if is_skewed => {
                "The clock of this machine differs from that of the storage by more than 15 minutes. What it shows: timedatectl. To let it be set from the network: timedatectl set-ntp true".into()
            }
            Code::NotAllowed | Code::Unreachable if is_bucket => {
                crate::place::hint(location, self.code == Code::NotAllowed)
            }
            Code::NoSpace if is_bucket => {
                "The storage accepts no more data: raise its quota, or forget old snapshots and reclaim".into()
            }
            Code::NoRepository if is_bucket => {
                format!("Create one: icecore init --repo {}", quoted(location))
            }
            // Who creates one below a mount point has two, of which the mount hides one.
            Code::NoRepository => format!(
                "Is its file system mounted? If it is, create one: icecore init --repo {}",
                quoted(location)
            ),
            Code::InUse => in_use(&self.message),
            Code::WrongKey => "Check ICECORE_PASSWORD, ICECORE_PASSWORD_FILE or --password-file. A recovery key works too.".into(),
            Code::NotAllowed => read_only::advice(&self.message, location)
                .unwrap_or_else(|| format!("Check the permissions: ls -la {}", quoted(location))),
            Code::Damage if is_config => format!(
                "Nothing opens without config or config.copy, not even a check. A copy has the same file as what it was made from. Bring it back from there as {location}/config, then: icecore check --repair --repo {}",
                quoted(location)
            ),
            Code::Damage => format!("To see what is affected: icecore check --repo {}", quoted(location)),
            Code::NoSpace => crate::full_disk::advice(location),
            Code::Unreachable => format!("Check that it is mounted: df {}", quoted(location)),
            _ => return self,
        };
        self.hint.get_or_insert(hint);
        self
    }

    /// The repository on the server could not be used: fills in what to type.
    pub(crate) fn at_server(mut self) -> Self {
        // A node has one key.
        if self.hint.as_deref() == Some(NEEDS_READER) {
            return self.hint("This node is write-only. Restore on another node of the domain, or let this one read. On the server: icecore server token NODE --read-write. Here, with what it prints: icecore agent enroll --replace URL TOKEN");
        }
        let hint = match self.code {
            Code::NoRepository => {
                "Back up first: icecore backup PATH. If there were backups before, the repository is missing: an administrator of the server sees why with icecore server status"
            }
            Code::InUse => "A command on the server is using it. Wait for it: --wait 10m",
            Code::WrongKey => {
                "The key of this machine was removed, or belongs to another domain: icecore agent status"
            }
            Code::Damage => "On the server: icecore server check DOMAIN",
            // Which disk of the server is full, and what helps there, says the server.
            Code::Unreachable => "Check that the server runs and is reachable: icecore net test",
            _ => return self,
        };
        self.hint.get_or_insert(hint.into());
        self
    }

    /// Output that nobody reads changes nothing about what was done.
    pub(crate) fn ignore_broken_pipe(printed: Result<()>) -> Result<()> {
        printed.or_else(|failure| if failure.is_quiet { Ok(()) } else { Err(failure) })
    }

    /// Of a command whose output is what was asked for: without a reader it is not done.
    pub(crate) fn of_bytes(self) -> Self {
        if !self.is_quiet {
            return self;
        }
        Self::new(Code::Failed, "whoever read the output stopped before its end")
    }

    /// As a line of JSON shows it.
    pub(crate) fn json(&self) -> Json<'_> {
        Json {
            message_type: "error",
            code: self.code.number(),
            name: self.code.name(),
            message: &self.message,
            hint: self.hint.as_deref(),
            mistakes: &self.mistakes,
        }
    }

    /// As people read it.
    pub(crate) fn text(&self) -> String {
        let message = crate::escape::text(&self.message);
        let hint = self
            .hint
            .as_deref()
            .map_or_else(String::new, |hint| format!("\n  {}", crate::escape::text(hint)));
        let mistakes = self.mistakes.iter().map(mistake).collect::<String>();
        format!("{ERROR} {message} (exit {}){mistakes}{hint}", self.code.number())
    }

    /// The same in one line, for a log.
    pub(crate) fn line(&self) -> String {
        self.text().replace("\n  ", ". ")
    }
}

/// A mistake as people read it: its place, and what to write instead.
fn mistake(mistake: &Mistake) -> String {
    let line = mistake.line.map_or_else(String::new, |line| format!("line {line}: "));
    let fix = mistake.fix.as_deref().map_or_else(String::new, |fix| format!("; {fix}"));
    format!("\n  {line}{}", crate::escape::text(&format!("{}{fix}", mistake.message)))
}

/// The last line of JSON of a command that failed.
#[derive(Serialize)]
pub(crate) struct Json<'a> {
    message_type: &'static str,
    code: u8,
    name: &'static str,
    message: &'a str,
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    mistakes: &'a [Mistake],
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

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
            Error::KeyRemoved(_) => Self::new(Code::NotAllowed, message)
                .hint("Whoever has a full key can add a new one: icecore key add"),
            Error::LaterEpoch { .. } => Self::new(Code::NotAllowed, message)
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
        ErrorKind::NotFound if error.operation == "list" => Failure::new(Code::Damage, message)
            .hint("A directory of the repository is missing. Bring it back if it was moved away. Else make what can be made from the rest: icecore rebuild"),
        // Its directory was there when it was opened.
        ErrorKind::NotFound if error.operation == "create" => {
            Failure::new(Code::NoRepository, message)
        }
        _ if error.operation == object_storage::TEMPORARY => of_temporary(&error.source, message),
        ErrorKind::FileTooLarge => Failure::new(Code::Failed, message).hint(
            "Lift the limit of file sizes: ulimit -f unlimited, or LimitFSIZE=infinity in a systemd unit.",
        ),
        _ => of_io(&error.source, message),
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

fn of_io(error: &io::Error, message: String) -> Failure {
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
fn in_use(message: &str) -> String {
    match pipeline::unlocked::ended_holder(message) {
        Some(process) => format!(
            "This machine has no process {process}: it ended a moment ago, or a network file system still keeps its lock (MooseFS: SESSION_SUSTAIN_TIME). Wait for it: --wait 10m."
        ),
        None => "Wait for it: --wait 10m. Commands that only read work meanwhile.".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::{KeyEpoch, KeyId};
    use pipeline::{KeyError, KeyListAge};
    use std::io::Error as Io;

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
}
