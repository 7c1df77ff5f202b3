//! Whether the containers of a domain are there: asked before a domain lies at a place to which it was copied.

use super::of_engine;
use api::upkeep::CheckReport;
use repository::Repository;
use repository::presence::presence;
use server_contract::upkeep::UpkeepError;
use std::time::Duration;

/// Somebody waits for the answer, and the control server does so for a minute.
const LENGTHS_WITHIN: Duration = Duration::from_secs(10);
/// Damages that are listed; all are counted.
const TOLD_MAX: usize = 100;

pub(super) fn of(repository: &Repository) -> Result<CheckReport, UpkeepError> {
    let found = presence(repository, LENGTHS_WITHIN).map_err(of_engine)?;
    let told = found.damages.iter().take(TOLD_MAX);
    Ok(CheckReport {
        damaged: found.damages.len() as u64,
        damages: told.map(|it| format!("container {} {}", it.container.0, it.reason)).collect(),
        is_done: true,
        ..CheckReport::default()
    })
}

#[cfg(test)]
mod tests {
    use crate::upkeep::Worker;
    use ids::ContainerNo;
    use repository::watch::Unwatched;
    use server_contract::upkeep::{CheckRequest, DomainUpkeep};
    use server_control::Control;
    use server_data::Shared;
    use stored::{made, store};

    #[test]
    fn a_check_of_a_part_names_what_is_missing_in_the_others() {
        let (folder, repository, lease) = made();
        for n in 1..=3 {
            store(&repository, &lease, n, 3_000);
        }
        drop((repository, lease));
        let place = tempfile::tempdir().unwrap();
        let control = Control::open(&place.path().join("data"), &[]).unwrap();
        let worker = Worker(Shared::new(control).domains.clone());
        let request = CheckRequest {
            sample_percent: Some(1.0),
            position: 0,
            bytes_per_sec: None,
            copies: &[],
        };
        // The fixture has no list of keys, which is told as well.
        let check = || {
            let found = worker.check(folder.path(), &request, &Unwatched).unwrap();
            let of_containers = found.damages.into_iter().filter(|it| it.starts_with("container"));
            (found.position, of_containers.collect::<Vec<_>>())
        };
        let file = |n: u64| folder.path().join(repository::container::name(ContainerNo(n)));
        let last = (1..20).rfind(|n| file(*n).exists()).unwrap();
        let (first, damages) = check();
        assert!(damages.is_empty() && first < last, "one was read: {first}, {damages:?}");
        std::fs::remove_file(file(last)).unwrap();
        assert_eq!(check().1, [format!("container {last} is missing")]);
        std::fs::remove_file(file(first)).unwrap();
        assert_eq!(check().1.len(), 2, "what the part has found is not told again");
    }
}
