//! The trash of a catalog that came back from an older copy: what lies there may have been brought back since.

use super::*;
use ::retention::{Trashed, TrashedBy};
use catalog::snapshots::TrashChange;

/// Seen: the first expiry after that was confirmed deleted for good what had been brought back since the copy.
#[test]
fn what_an_older_catalog_has_in_the_trash_stays_for_a_whole_time_once_somebody_confirms() {
    let mut rig = rig("keep_last = 9\ntrash = \"7 days\"", &[3, 2, 1]);
    rig.expire(NOW);
    let since_secs = crate::now_secs() - 30 * DAY;
    let changes: Vec<_> = rig.known("web")[..2]
        .iter()
        .zip([TrashedBy::Name, TrashedBy::NameAtOnce])
        .map(|(one, by)| (one.id, Some(Trashed { since_secs, by })))
        .map(|(id, after)| TrashChange { id, before: None, after })
        .collect();
    let by = crate::by("test");
    assert_eq!(rig.parts().catalog.change_trash(by, "web", &changes).unwrap().len(), 2);
    rig.lose_mark();
    assert!(rig.parts().mark.is_older().unwrap());
    let filter = SnapshotFilter::default();
    assert_eq!(rig.retention().snapshots(&filter).unwrap().total, 3, "they are in memory");
    rig.retention().confirm_catalog(&rig.parts().mark, "admin").unwrap();
    let now = crate::now_secs();
    let first = rig.expire(now + 6 * DAY);
    assert_eq!((first.trash, first.expired.len(), rig.stored("web")), (2, 0, 3));
    let ids: Vec<_> = changes.iter().map(|one| one.id.to_string()).collect();
    let back = rig.retention().undelete_named("admin", &named(&ids[..1], false)).unwrap();
    assert_eq!(back.refused.len(), 0);
    let last = rig.expire(now + 8 * DAY);
    assert_eq!((last.expired, rig.stored("web")), (ids[1..].to_vec(), 2));
    // There is nothing to confirm: the trash keeps its times.
    rig.retention().confirm_catalog(&rig.parts().mark, "admin").unwrap();
    assert_eq!(rig.actions().iter().filter(|action| *action == "snapshot.keep-trash").count(), 1);
}
