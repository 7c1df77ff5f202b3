//! Where each file of a snapshot lies in the repository: what damage elsewhere must not cost.

use super::lab::Made;
use crate::testkit::{NAME, snapshot};
use format::entry::{Content, Segment};
use ids::{ObjectId, RecordLocation};
use pipeline::UnlockedRepository;
use pipeline::pages::PageReader;
use std::collections::BTreeMap;
use tree::Cursor;

/// By path, the locations of all that a file needs: its chunks, its leaf page and the root.
pub(crate) type Needs = BTreeMap<Vec<u8>, Vec<RecordLocation>>;

pub(crate) fn of(repository: &UnlockedRepository, made: &Made) -> Needs {
    let head = snapshot(repository, made.name).unwrap().head;
    assert_eq!(head.level, 1, "leaves and a root, nothing between them");
    let pages = PageReader::new(repository).unwrap();
    let mut cursor = Cursor::new(&pages, head.root, head.level);
    let location = |id: &ObjectId| repository.local().unwrap().index().find(id).unwrap().unwrap();
    let root = location(&head.root);
    let mut needs = Needs::new();
    let mut entries = Vec::new();
    while let Some((leaf, _)) = cursor.next_leaf(&mut entries).unwrap() {
        for entry in &entries {
            let Some(path) = entry.path.strip_prefix(format!("{NAME}/").as_bytes()) else {
                continue;
            };
            let mut locations = vec![root, location(&leaf.id)];
            match &entry.content {
                Content::Segments(runs) => {
                    locations.extend(runs.iter().filter_map(|run| match run {
                        Segment::Data(id, _) => Some(location(id)),
                        Segment::Hole(_) => None,
                    }))
                }
                Content::Lists(_) => panic!("no file of the lab is that long"),
                Content::None | Content::Inline(_) => {}
            }
            needs.insert(path.to_vec(), locations);
        }
    }
    needs
}
