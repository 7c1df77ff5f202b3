//! What a command asked of an object storage, in its report.

use crate::units::{bytes, many};
use object_storage::Asked;
use serde::Serialize;

/// The same for programs: requests by what providers charge for, and bytes.
#[derive(Serialize)]
pub(crate) struct Report {
    writes: u64,
    lists: u64,
    reads: u64,
    deletes: u64,
    sent_bytes: u64,
    received_bytes: u64,
}

impl From<Asked> for Report {
    fn from(asked: Asked) -> Self {
        let Asked { writes, lists, reads, deletes, sent_bytes, received_bytes } = asked;
        Self { writes, lists, reads, deletes, sent_bytes, received_bytes }
    }
}

/// Of two buckets: a copy asks both.
pub(crate) fn sum(one: Asked, other: Asked) -> Asked {
    Asked {
        writes: one.writes + other.writes,
        lists: one.lists + other.lists,
        reads: one.reads + other.reads,
        deletes: one.deletes + other.deletes,
        sent_bytes: one.sent_bytes + other.sent_bytes,
        received_bytes: one.received_bytes + other.received_bytes,
    }
}

/// A line for people.
pub(crate) fn text(asked: &Asked) -> String {
    let kinds = [
        (asked.writes, "to write"),
        (asked.lists, "to list"),
        (asked.reads, "to read"),
        (asked.deletes, "to delete"),
    ];
    let shown = kinds.iter().filter(|(count, _)| *count > 0);
    let kinds: Vec<_> = shown.map(|(count, what)| format!("{count} {what}")).collect();
    format!(
        "storage: {} ({}), {} sent, {} received",
        many(asked.requests(), "request"),
        kinds.join(", "),
        bytes(asked.sent_bytes),
        bytes(asked.received_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_were_not_asked_for_are_not_told() {
        let asked = Asked { writes: 2, reads: 1, sent_bytes: 2048, ..Asked::default() };
        let told = "storage: 3 requests (2 to write, 1 to read), 2.00 KiB sent, 0 B received";
        assert_eq!(text(&asked), told);
    }

    #[test]
    fn what_two_buckets_were_asked_is_told_together() {
        let asked = |n| Asked {
            writes: n,
            lists: 2 * n,
            reads: 3 * n,
            deletes: 4 * n,
            sent_bytes: 5 * n,
            received_bytes: 6 * n,
        };
        let told = |asked| serde_json::to_string(&Report::from(asked)).unwrap();
        assert_eq!(told(sum(asked(1), asked(10))), told(asked(11)));
    }
}
