//! The scenarios, one test each.

use simulation::world::scenarios::{self, run_scenario};

macro_rules! tests {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            run_scenario(scenarios::$name, None).unwrap();
        })*
    };
}

simulation::all_scenarios!(tests);
