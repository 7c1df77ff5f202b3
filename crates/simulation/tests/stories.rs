//! The stories, one test each.

use simulation::world::stories::{self, tell};

macro_rules! tests {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            tell(stories::$name, None).unwrap();
        })*

        #[test]
        fn all_stories_are_told() {
            assert_eq!(stories::ALL.len(), [$(stringify!($name)),*].len());
        }
    };
}

tests! {
    a_directory_of_a_killed_writer
    a_directory_whose_sync_failed
    a_name_of_a_killed_writer
    a_rebuild_after_a_killed_writer
    a_removal_that_is_not_durable
    a_snapshot_that_is_forgotten_twice
    a_base_that_is_forgotten
    a_torn_container
    a_run_that_a_failed_commit_named
    a_reclaim_after_a_failed_commit
    a_manifest_without_its_data
    a_number_that_could_not_be_read
    a_rebuild_that_is_killed
    a_forget_on_a_full_disk
    a_sleeper_that_wakes
    a_container_that_is_gone
    a_rebuild_that_could_not_read
}
