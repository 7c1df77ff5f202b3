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
/// Bytes that each of them writes, so that none is done before the others begin: 16 KiB.
const BODY_BYTES: usize = 16 << 10;

/// What follows where conditions do not hold; the command line looks for the name in brackets.
pub(crate) const NEEDS: &str = "so two writers could damage each other's work. It needs conditional writes (If-None-Match) that hold \
     for all writers";

/// Lets writers race for fresh objects.
///
/// # Errors
/// When more than one wins, or none, or what is read is not the winner's.
pub(crate) fn race(client: &Client) -> StorageResult<()> {
    (0..RACES).try_for_each(|_| race_once(client))
}

fn race_once(client: &Client) -> StorageResult<()> {
    let hex: String = nonce().iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!("probe-{hex}");
    let bodies: Vec<_> = (0..WRITERS)
        .map(|writer| Bytes::from(format!("{writer} {hex} ").repeat(BODY_BYTES / 32)))
        .collect();
    let results = client.create_at_once(&name, &bodies);
    let there = client.get(&name);
    let winners: Vec<_> = results.iter().zip(&bodies).filter(|(won, _)| **won).collect();
    if let ([], Err(error), Some(body)) = (&winners[..], &there, bodies.first())
        && error.is_not_found()
    {
        // Nobody can write: one more alone says why.
        client.put(&name, body.clone())?;
    }
    client.delete(std::slice::from_ref(&name))?;
    match (&winners[..], there?) {
        ([(_, body)], there) if **body == there => Ok(()),
        (winners, _) => {
            let count = winners.len();
            let reason =
                format!("it let {count} of {WRITERS} writers create the same object, {NEEDS}");
            Err(StorageError::new(
                "use",
                client.location(),
                Error::new(ErrorKind::Unsupported, reason),
            ))
        }
    }
}
