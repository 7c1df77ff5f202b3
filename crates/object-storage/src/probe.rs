//! Whether a storage keeps what everything here relies on: an object that is created only if it is absent is created by
//! one. Some storages ignore that condition, some check it and then write, with time in between.

use crate::client::Client;
use crate::roots::nonce;
use bytes::Bytes;
use repository::storage::{StorageError, StorageResult};
use std::io::{Error, ErrorKind};

/// Writers that race.
const WRITERS: usize = 32;
/// Races: where they are lost, it is not each time.
const RACES: usize = 8;
/// How often a race is run of which nobody knows who has won.
const TRIES: usize = 3;
/// Bytes that each of them writes, so that none is done before the others begin: 16 KiB.
const BODY_BYTES: usize = 16 << 10;

/// What follows where conditions do not hold; the command line looks for the name in brackets.
pub(crate) const NEEDS: &str = "so two writers could damage each other's work. It needs conditional writes (If-None-Match) that hold \
     for all writers";

/// Lets writers race for fresh objects.
///
/// # Errors
/// When more than one wins, or what is read is not the winner's; those of the storage when nobody knows who has won.
pub(crate) fn race(client: &Client) -> StorageResult<()> {
    (0..RACES).try_for_each(|_| race_until_known(client))
}

/// The answer to the winner can get lost: what is sent once more is refused then, as by its own object.
fn race_until_known(client: &Client) -> StorageResult<()> {
    let mut result = race_once(client);
    for _ in 1..TRIES {
        match result {
            Err(error) if error.already_exists() => result = race_once(client),
            result => return result,
        }
    }
    result.map_err(|error| unknown(client, &error))
}

/// [`ErrorKind::AlreadyExists`] when it was created, and nobody was told so.
fn race_once(client: &Client) -> StorageResult<()> {
    let hex: String = nonce().iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!("probe-{hex}");
    let bodies: Vec<_> = (0..WRITERS)
        .map(|writer| Bytes::from(format!("{writer} {hex} ").repeat(BODY_BYTES / 32)))
        .collect();
    let told = client.create_at_once(&name, &bodies);
    let there = client.get(&name);
    let winners: Vec<_> = told.iter().zip(&bodies).filter(|(told, _)| told.is_ok()).collect();
    if let ([], Err(error), Some(body)) = (&winners[..], &there, bodies.first())
        && error.is_not_found()
    {
        // Nobody can write: one more alone says why.
        client.put(&name, body.clone()).map_err(|error| not_gone(client, error))?;
    }
    client.delete(std::slice::from_ref(&name))?;
    if winners.is_empty() {
        return Err(not_gone(client, why_nobody(told, client)));
    }
    match (&winners[..], there.map_err(|error| not_gone(client, error))?) {
        ([(_, body)], there) if **body == there => Ok(()),
        (winners, _) => Err(several(client, winners.len())),
    }
}

/// Why nobody has won: a refusal says only that the object is there.
fn why_nobody(told: Vec<StorageResult<()>>, client: &Client) -> StorageError {
    let mut why: Vec<_> = told.into_iter().filter_map(Result::err).collect();
    let at = why.iter().position(|error| !error.already_exists()).unwrap_or(0);
    let none = || StorageError::new("use", client.location(), ErrorKind::TimedOut);
    if why.is_empty() { none() } else { why.swap_remove(at) }
}

/// The bucket was listed a moment ago: what is said to be absent now is not the bucket.
fn not_gone(client: &Client, error: StorageError) -> StorageError {
    if error.is_not_found() { unknown(client, &error) } else { error }
}

/// Nobody can say whether the storage keeps what is relied on.
fn unknown(client: &Client, error: &StorageError) -> StorageError {
    let why =
        format!("it could not be tried whether two writers can create the same object: {error}");
    StorageError::new("use", client.location(), Error::new(ErrorKind::TimedOut, why))
}

fn several(client: &Client, count: usize) -> StorageError {
    let reason = format!("it let {count} of {WRITERS} writers create the same object, {NEEDS}");
    StorageError::new("use", client.location(), Error::new(ErrorKind::Unsupported, reason))
}
