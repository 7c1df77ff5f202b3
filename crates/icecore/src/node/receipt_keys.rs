//! Which keys for receipts this machine believes. A receipt dates a snapshot, and retention goes by that; who can
//! write the files of a repository can name a key of its own in them. So the keys that the server told first are
//! remembered, and later only the server's own key, which it tells over TLS, is added to them.

use crate::codes::Code;
use crate::failure::{Failure, Result};
use crate::out::Out;
use remote::Remote;
use std::path::Path;
use store::{ReceiptKey, Store};

/// Keys that are remembered: as many as a repository names.
const KEYS_MAX: usize = 64;

/// What is believed, and what to say of it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Belief {
    keys: Vec<ReceiptKey>,
    /// The server has another key of its own than before.
    new: Option<ReceiptKey>,
    /// Keys that the repository names and nobody vouches for.
    strange: Vec<ReceiptKey>,
}

/// Has `remote` believe receipts of the keys that this machine knows.
pub(super) fn believe(folder: &Path, remote: &Remote, out: &Out) -> Result<()> {
    let presented = remote.server_receipt_keys();
    let path = folder.join(format!("receipts-{}.json", remote.config().repository));
    let known = load(&path)?;
    if presented.is_empty() && known.is_none() {
        return Ok(()); // a server that gives no receipts
    }
    let belief = decide(known.clone(), presented);
    for line in words(&belief, &path) {
        out.note(&line);
    }
    if known.as_ref() != Some(&belief.keys)
        && let Err(error) = save(&path, &belief.keys)
    {
        out.note(&format!("cannot save the server's receipt keys on this machine: {error}"));
    }
    remote.trust_receipt_keys(belief.keys);
    Ok(())
}

/// At first all that the server tells; then what was believed before, and the server's own key, which is told first.
fn decide(known: Option<Vec<ReceiptKey>>, presented: &[ReceiptKey]) -> Belief {
    let presented = &presented[..presented.len().min(KEYS_MAX)];
    let Some(mut keys) = known else {
        return Belief { keys: presented.to_vec(), ..Belief::default() };
    };
    let Some((own, others)) = presented.split_first() else {
        return Belief { keys, ..Belief::default() };
    };
    let new = (!keys.contains(own)).then_some(*own);
    if let Some(own) = new {
        keys.insert(0, own);
        keys.truncate(KEYS_MAX);
    }
    let strange = others.iter().filter(|key| !keys.contains(key)).copied().collect();
    Belief { keys, new, strange }
}

fn words(belief: &Belief, path: &Path) -> Vec<String> {
    let short = |key: &ReceiptKey| super::keys::hex(&key[..4]);
    let new = belief.new.iter().map(|key| {
        format!("the server signs receipts with a new key, {}: it was set up again", short(key))
    });
    let strange = belief.strange.iter().map(|key| {
        format!(
            "the repository names a receipt key that this machine does not know, {}: retention does not count snapshots with its receipts. If the administrator of the server confirms the key: rm {}",
            short(key),
            path.display()
        )
    });
    new.chain(strange).collect()
}

/// The keys that were remembered; `None` before the first time.
fn load(path: &Path) -> Result<Option<Vec<ReceiptKey>>> {
    let Some(text) = access::files::read(path)? else { return Ok(None) };
    let keys: Option<Vec<ReceiptKey>> = serde_json::from_str::<Vec<String>>(&text)
        .ok()
        .and_then(|lines| lines.iter().map(|line| key_of(line)).collect());
    keys.filter(|keys| keys.len() <= KEYS_MAX).map(Some).ok_or_else(|| {
        let message = format!("{} is damaged: it contains no receipt keys", path.display());
        let hint = format!("To trust the keys that the server presents now: rm {}", path.display());
        Failure::new(Code::Damage, message).hint(hint)
    })
}

fn key_of(line: &str) -> Option<ReceiptKey> {
    super::keys::unhex(line).map(|key| *key)
}

fn save(path: &Path, keys: &[ReceiptKey]) -> access::Result<()> {
    let lines: Vec<String> = keys.iter().map(|key| super::keys::hex(key)).collect();
    access::files::write(path, &serde_json::to_string(&lines).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: ReceiptKey = [1; 32];
    const FORMER: ReceiptKey = [2; 32];
    const STRANGE: ReceiptKey = [3; 32];
    const NEXT: ReceiptKey = [4; 32];

    #[test]
    fn at_first_all_is_believed_and_later_only_the_servers_own_key_is_added() {
        let first = decide(None, &[OWN, FORMER]);
        assert_eq!(first, Belief { keys: vec![OWN, FORMER], ..Belief::default() });
        let later = decide(Some(first.keys.clone()), &[OWN, FORMER, STRANGE]);
        assert_eq!((later.keys, later.strange), (first.keys.clone(), vec![STRANGE]));
        let anew = decide(Some(first.keys), &[NEXT, OWN, STRANGE]);
        assert_eq!(anew.keys, [NEXT, OWN, FORMER]);
        assert_eq!((anew.new, anew.strange), (Some(NEXT), vec![STRANGE]));
    }

    #[test]
    fn what_is_not_told_any_more_is_believed_all_the_same() {
        assert_eq!(decide(Some(vec![OWN, FORMER]), &[]).keys, [OWN, FORMER]);
        assert_eq!(decide(Some(vec![OWN, FORMER]), &[OWN]).keys, [OWN, FORMER]);
    }

    #[test]
    fn very_many_keys_take_no_more_memory() {
        let many: Vec<ReceiptKey> = (0..200).map(|number| [number; 32]).collect();
        let first = decide(None, &many).keys;
        assert_eq!(first.len(), KEYS_MAX);
        let next = decide(Some(first), &[[250; 32]]).keys;
        assert_eq!((next.len(), next[0]), (KEYS_MAX, [250; 32]));
    }

    #[test]
    fn keys_are_read_back_and_a_damaged_file_is_no_first_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("receipts.json");
        assert_eq!(load(&path).unwrap(), None);
        save(&path, &[OWN, NEXT]).unwrap();
        assert_eq!(load(&path).unwrap(), Some(vec![OWN, NEXT]));
        for damaged in ["", "{}", "[\"00\"]", "[\"zz\"]"] {
            std::fs::write(&path, damaged).unwrap();
            let failure = load(&path).unwrap_err();
            assert!(failure.hint.unwrap().contains("rm "), "{damaged:?}");
        }
    }
}
