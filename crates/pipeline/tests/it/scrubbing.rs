//! The check that needs no key, as a server carries it out.

use crate::testkit::TestFolder;
use ids::ContainerNo;
use parking_lot::Mutex;
use pipeline::keyless::{Part, scrub_part};
use repository::watch::Watch;

/// Notes what was read without damage.
#[derive(Default)]
struct Passed(Mutex<Vec<u64>>);

impl Watch for Passed {
    fn moved(&self, _: u64) {}

    fn goes_on(&self) -> bool {
        true
    }

    fn stage(&self, _: &str) {}

    fn passed(&self, container: ContainerNo) {
        self.0.lock().push(container.0);
    }
}

/// Whoever goes on there would not find the damage again.
#[test]
fn a_check_says_of_no_container_behind_damage_that_it_was_passed() {
    let test_folder = TestFolder::new();
    let repository = test_folder.init();
    for content in [b"first", b"other", b"third"] {
        test_folder.write("file", &content.repeat(1000));
        test_folder.backup(&repository);
    }
    let mut containers = test_folder.files();
    containers.retain(|name| name.ends_with(".ice"));
    containers.sort();
    let engine = repository.local().unwrap();
    let passed = || {
        let watch = Passed::default();
        let found = scrub_part(engine, Part::default(), &watch).unwrap();
        (watch.0.into_inner(), found)
    };
    let (all, found) = passed();
    assert_eq!((all.len(), found.report.damaged), (containers.len(), 0));
    let second = test_folder.repository().join(&containers[1]);
    let mut bytes = std::fs::read(&second).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::remove_file(&second).unwrap();
    std::fs::write(&second, bytes).unwrap();
    let (read, found) = passed();
    assert!(found.report.damaged > 0 && found.is_done, "{found:?}");
    assert_eq!(read, all[..1]);
    let rest = Part { after: all[0], percent: None };
    let again = scrub_part(engine, rest, &Passed::default()).unwrap();
    assert_eq!(again.damaged, found.damaged, "it is found again");
}
