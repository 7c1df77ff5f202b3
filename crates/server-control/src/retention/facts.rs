//! What a server knows of a snapshot: from its receipt, its head, or, if it cannot be read, from its name alone.

use ::retention::Facts;
use repository::received::{BelievedReceipt, ReceivedSnapshot};
use repository::snapshots::SnapshotRef;

/// How far the clock of a node may differ from the server's: a day, as for `forget`.
const CLOCKS_SECS: i64 = 86_400;
/// Why a snapshot is suspect whose file cannot be read. It is read again each time.
pub(super) const UNREAD: &str = "its file is damaged";

/// A snapshot that was read. Without a receipt that somebody signed, no policy is known: it stays.
pub fn of_received(received: ReceivedSnapshot) -> Facts {
    let ReceivedSnapshot { name, head, receipt, locked_until_secs } = received;
    let suspect = suspect(receipt.as_ref(), head.time_secs);
    let receipt = receipt
        .unwrap_or_else(|| BelievedReceipt { received_secs: head.time_secs, ..Default::default() });
    Facts {
        node: receipt.node,
        source: receipt.source,
        policy: receipt.policy,
        class: receipt.class,
        received_secs: receipt.received_secs,
        is_partial: head.is_partial(),
        suspect,
        paths: Some(head.source),
        locked_until_secs,
        ..of_name(name)
    }
}

/// A snapshot that cannot be read.
pub fn of_unread(name: SnapshotRef) -> Facts {
    Facts { suspect: Some(UNREAD.to_owned()), ..of_name(name) }
}

fn of_name(name: SnapshotRef) -> Facts {
    Facts {
        id: name.id,
        number: name.sequence,
        node: String::new(),
        source: String::new(),
        policy: String::new(),
        class: String::new(),
        received_secs: 0,
        is_partial: false,
        suspect: None,
        tags: None,
        locked_until_secs: None,
        paths: None,
        has_deleted_objects: None,
        source_deleted_secs: None,
        trashed: None,
    }
}

fn suspect(receipt: Option<&BelievedReceipt>, recorded_secs: i64) -> Option<String> {
    let Some(receipt) = receipt else {
        return Some("no known server signed a receipt for it".to_owned());
    };
    let earliest = receipt.begun_secs.saturating_sub(CLOCKS_SECS);
    let latest = receipt.received_secs.saturating_add(CLOCKS_SECS);
    let why = if receipt.is_doubtful {
        "the server did not trust its clock when it received it"
    } else if !(earliest..=latest).contains(&recorded_secs) {
        "its time and the time of its receipt differ by more than a day"
    } else {
        return None;
    };
    Some(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    fn why(is_doubtful: bool, recorded_secs: i64) -> Option<String> {
        let (begun_secs, received_secs) = (10 * DAY, 11 * DAY);
        let receipt =
            BelievedReceipt { begun_secs, received_secs, is_doubtful, ..Default::default() };
        suspect(Some(&receipt), recorded_secs)
    }

    #[test]
    fn what_nobody_signed_or_no_clock_confirms_is_suspect() {
        assert_eq!(why(false, 10 * DAY), None);
        assert_eq!([why(false, 9 * DAY), why(false, 12 * DAY)], [None, None]);
        for wrong in [why(true, 10 * DAY), why(false, 9 * DAY - 1), why(false, 12 * DAY + 1)] {
            assert!(wrong.is_some());
        }
        assert!(suspect(None, 10 * DAY).unwrap().contains("receipt"));
    }
}
