//! The stories, one test each.

use simulation::world::stories::{self, tell};

macro_rules! tests {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            tell(stories::$name, None).unwrap();
        })*
    };
}

simulation::all_stories!(tests);
