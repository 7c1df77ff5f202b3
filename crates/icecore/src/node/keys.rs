//! Keys of client-held domains: made here, never sent to the server.

use crate::codes::Code;
use crate::failure::{Failure, Result};
use access::secrets::{RECOVERY, SLOT};
use api::domains::{Dedup, Settings};
use crypto::{KdfParams, KeyMaterial, NewSlot, Role, SlotInfo, SlotSecret};
use ids::KeyEpoch;
use pipeline::environment::Environment;
use pipeline::unlocked::InitOptions;
use std::path::{Path, PathBuf};
use store::{Config, Keys};
use zeroize::Zeroizing;

/// Holds the recovery key of a repository that is not there yet, or whose making nobody confirmed: it may open one, so
/// it is used until one is, and never written over.
const NEXT_RECOVERY: &str = "next-recovery.key";

/// The settings and key slots of a new repository.
type New = (Config, Keys);

/// What opens this node's slot; made the first time.
pub(super) fn own(folder: &Path) -> Result<Zeroizing<[u8; 32]>> {
    let path = folder.join(SLOT);
    if let Some(text) = access::files::read(&path)? {
        return unhex(&text).ok_or_else(|| {
            Failure::new(Code::Damage, format!("{} contains no key", path.display()))
                .hint("Enroll again, with the recovery key at hand: icecore agent enroll")
        });
    }
    let mut secret = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *secret).map_err(pipeline::Error::from)?;
    access::files::write(&path, &hex(&secret[..]))?;
    Ok(secret)
}

/// The settings and slots of a new repository: this node's, and one for a recovery key, which gets its name once the
/// server has the repository.
pub(super) fn make(
    folder: &Path,
    own: &[u8; 32],
    role: Role,
    settings: Settings,
) -> store::Result<New> {
    prepared(folder, own, role, options(settings)).map_err(|failure| {
        let hint = failure.hint.unwrap_or_default();
        store::Error::Refused { message: failure.message, hint }
    })
}

/// What helps a machine whose key opens nothing on the server, which knows the keys: another enrollment gives it
/// another key. `token` is the command for that.
pub(super) fn with_another_key(failure: Failure, token: &str) -> Failure {
    if failure.code != Code::WrongKey {
        return failure;
    }
    let hint = format!(
        "The key of this machine was removed, or the domain came back from a copy that does not have it. On the server: {token}. Here, with what it prints: icecore agent enroll --replace URL TOKEN"
    );
    Failure { hint: Some(hint), ..failure }
}

/// The recovery key that waits to be put away, and where it is.
pub(crate) fn waiting_recovery(folder: &Path) -> Result<Option<(PathBuf, Zeroizing<String>)>> {
    let path = folder.join(RECOVERY);
    Ok(access::files::read(&path)?.map(|text| (path, text)))
}

/// What the domain wants.
fn options(settings: Settings) -> InitOptions {
    let Settings { privacy, parity_percent, dedup } = settings;
    let (privacy, dedup) = (super::privacy_of(privacy), dedup == Dedup::On);
    InitOptions { privacy, parity_percent, dedup, ..InitOptions::default() }
}

/// Removes it from this machine.
pub(crate) fn remove_recovery(folder: &Path) -> Result<()> {
    Ok(access::files::remove(&folder.join(RECOVERY))?)
}

fn prepared(folder: &Path, own: &[u8; 32], role: Role, options: InitOptions) -> Result<New> {
    let environment = Environment::default();
    let material = pipeline::unlocked::new_material(&environment, options)?;
    // Before there is anything that it opens: a repository without it could be lost with this machine.
    let recovery = match next_recovery(folder)? {
        Some(recovery) => recovery,
        None => new_recovery(folder, &environment)?,
    };
    let slots = vec![
        slot(&material, role, own, "this node", &environment)?,
        slot(&material, Role::Full, &recovery, "recovery key", &environment)?,
    ];
    let now_secs = environment.now_secs();
    let config = pipeline::unlocked::new_config(&material, options, now_secs);
    Ok((config, pipeline::unlocked::new_keys(&material, slots, &environment)?))
}

/// The recovery key that has no name yet.
pub(super) fn next_recovery(folder: &Path) -> Result<Option<Zeroizing<[u8; 32]>>> {
    let path = folder.join(NEXT_RECOVERY);
    let Some(text) = access::files::read(&path)? else { return Ok(None) };
    let key = crypto::recovery_from_text(&text).map_err(|error| {
        let shown = path.display();
        Failure::new(Code::Damage, format!("{shown} contains no recovery key: {error}"))
            .hint(format!("Put it right from a copy, or to make another key: rm {shown}"))
    })?;
    Ok(Some(Zeroizing::new(key)))
}

fn new_recovery(folder: &Path, environment: &Environment) -> Result<Zeroizing<[u8; 32]>> {
    let mut recovery = Zeroizing::new([0; 32]);
    environment.fill_random(&mut *recovery)?;
    let text = Zeroizing::new(crypto::recovery_to_text(&recovery));
    access::files::write(&folder.join(NEXT_RECOVERY), &text)?;
    Ok(recovery)
}

/// It opens `repository`: it is the recovery key from now on. One that was there is kept, as what it opens is unknown.
pub(super) fn name_recovery(folder: &Path, repository: &str) -> Result<()> {
    let next = folder.join(NEXT_RECOVERY);
    let Some(text) = access::files::read(&next)? else { return Ok(()) };
    let there = access::files::read(&folder.join(RECOVERY))?;
    if there.is_some_and(|there| *there != *text) {
        access::secrets::set_aside(folder, RECOVERY, &format!("before-{repository}"))?;
    }
    access::files::write(&folder.join(RECOVERY), &text)?;
    Ok(access::files::remove(&next)?)
}

fn slot(
    material: &KeyMaterial,
    role: Role,
    secret: &[u8; 32],
    label: &str,
    environment: &Environment,
) -> Result<(SlotInfo, Vec<u8>)> {
    let (secret, kdf) = (SlotSecret::Recovery(*secret), KdfParams::DEFAULT);
    let new = NewSlot::new(role, label, environment.now_secs(), KeyEpoch(0));
    Ok(pipeline::unlocked::new_slot(material, &new, secret, kdf, environment)?)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn unhex(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let text = text.trim().as_bytes();
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    let mut bytes = Zeroizing::new([0; 32]);
    if pairs.len() != bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}
