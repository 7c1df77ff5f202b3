//! The name that somebody may have meant.

/// Names beyond this number are not looked at.
const CANDIDATES_MAX: usize = 500;
/// So many letters may be wrong.
const DISTANCE_MAX: usize = 2;

/// The nearest of some names to one that is not among them.
pub(crate) fn near<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let is_alike = |one: &&str| one.len().abs_diff(name.len()) <= DISTANCE_MAX;
    let alike = candidates.into_iter().filter(is_alike).take(CANDIDATES_MAX);
    let all = alike.map(|one| (distance(name, one), one));
    // Of a short name, nothing would be left.
    let is_near =
        |(distance, one): &(usize, &str)| *distance <= DISTANCE_MAX && *distance < one.len();
    all.filter(is_near).min().map(|(_, one)| one)
}

/// How many letters must be changed, added or removed.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (number, from) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = number + 1;
        for (at, to) in b.bytes().enumerate() {
            let least = (row[at] + 1).min(row[at + 1] + 1).min(diagonal + usize::from(from != to));
            diagonal = std::mem::replace(&mut row[at + 1], least);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_proposed_and_none_that_is_far() {
        let names = ["nightly", "weekly", "disk"];
        assert_eq!(near("nigthly", names), Some("nightly"));
        assert_eq!(near("weekl", names), Some("weekly"));
        assert_eq!(near("tape", names), None);
        assert_eq!(near("a", ["b"]), None);
    }
}
