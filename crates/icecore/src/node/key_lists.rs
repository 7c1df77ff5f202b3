//! The newest key list that this machine has seen of each repository. With an older one, a server or a thief of its
//! files could make a removed key look alive, and this machine would store what that key can read. So it is refused.

use crate::codes::Code;
use crate::failure::{Failure, Result};
use crate::out::Out;
use ids::KeyEpoch;
use pipeline::{Error, KeyListAge, UnlockedRepository};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The file.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    epoch: u32,
    version: u64,
}

/// Has `repository` refuse key lists that are older than what this machine has seen, and keeps what it sees from now on.
///
/// # Errors
/// When the server shows an older list, or the file does not say what was seen.
pub(super) fn remember(folder: &Path, repository: &UnlockedRepository, out: &Out) -> Result<()> {
    let path = folder.join(format!("key-list-{}.json", repository.store.config().repository));
    let seen = load(&path)?;
    // A newer list is also saved when it comes later; if that fails, the next command reports it.
    let later = path.clone();
    let shown = repository
        .remember_key_lists(seen.unwrap_or_default(), move |age| drop(save(&later, age)))
        .map_err(|error| refused(error, &path))?;
    match shown {
        Some(age) if seen != Some(age) => save(&path, age).unwrap_or_else(|error| {
            out.note(&format!(
                "cannot save on this machine which key list the server shows: {error}"
            ));
        }),
        _ => {}
    }
    Ok(())
}

fn refused(error: Error, path: &Path) -> Failure {
    let is_stale = matches!(error, Error::StaleKeyList { .. });
    let failure = Failure::from(error).at_server();
    if !is_stale {
        return failure;
    }
    let hint = format!(
        "Nothing was stored. Ask the administrator of the server whether an older copy of the domain was restored, and which keys were removed since. To accept it: rm {}",
        path.display()
    );
    Failure { hint: Some(hint), ..failure }
}

/// What was seen; `None` before the first time.
fn load(path: &Path) -> Result<Option<KeyListAge>> {
    let Some(text) = access::files::read(path)? else { return Ok(None) };
    let seen: Seen = serde_json::from_str(&text).map_err(|_| damaged(path))?;
    Ok(Some(KeyListAge { epoch: KeyEpoch(seen.epoch), version: seen.version }))
}

fn damaged(path: &Path) -> Failure {
    let shown = path.display();
    Failure::new(Code::Damage, format!("{shown} is damaged: it names no key list"))
        .hint(format!("To trust the key list that the server presents now: rm {shown}"))
}

fn save(path: &Path, age: KeyListAge) -> access::Result<()> {
    let seen = Seen { epoch: age.epoch.0, version: age.version };
    access::files::write(path, &serde_json::to_string(&seen).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_read_back_and_a_damaged_file_is_no_first_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key-list.json");
        assert_eq!(load(&path).unwrap(), None);
        let age = KeyListAge { epoch: KeyEpoch(2), version: 7 };
        save(&path, age).unwrap();
        assert_eq!(load(&path).unwrap(), Some(age));
        for damaged in ["", "{}", "[2]", "{\"epoch\":2}", "{\"epoch\":-1,\"version\":7}"] {
            std::fs::write(&path, damaged).unwrap();
            let failure = load(&path).unwrap_err();
            assert_eq!(failure.code, Code::Damage, "{damaged:?}");
            assert!(failure.hint.unwrap().contains("rm "), "{damaged:?}");
        }
    }
}
