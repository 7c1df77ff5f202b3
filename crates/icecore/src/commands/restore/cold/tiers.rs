//! Tiers: how fast something is brought back.

use object_storage::Tier;
use std::collections::BTreeSet;
use std::fmt;

/// How fast something is brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TierArg {
    /// In minutes; not from DEEP_ARCHIVE.
    Expedited,
    /// In hours.
    Standard,
    /// In more hours, and cheapest.
    Bulk,
}

impl TierArg {
    pub(super) const ALL: [Self; 3] = [Self::Expedited, Self::Standard, Self::Bulk];

    pub(super) fn of_storage(self) -> Tier {
        match self {
            Self::Expedited => Tier::Expedited,
            Self::Standard => Tier::Standard,
            Self::Bulk => Tier::Bulk,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Expedited => "expedited",
            Self::Standard => "standard",
            Self::Bulk => "bulk",
        }
    }
}

impl fmt::Display for TierArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How long it takes from `classes`, as AWS publishes: each time once, with its classes if they differ.
pub(super) fn times<'a>(tier: Tier, classes: impl Iterator<Item = &'a str>) -> String {
    let classes: BTreeSet<_> = classes.collect();
    let all: Vec<_> =
        classes.iter().filter_map(|class| Some((tier.takes(class)?, *class))).collect();
    match &all[..] {
        [(first, _), rest @ ..] if rest.iter().all(|(takes, _)| takes == first) => {
            (*first).to_owned()
        }
        all => {
            let one = |(takes, class): &(&str, &str)| format!("{takes} ({class})");
            all.iter().map(one).collect::<Vec<_>>().join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_said_once_unless_classes_differ() {
        let of = |classes: &[&'static str]| times(Tier::Bulk, classes.iter().copied());
        assert_eq!(of(&["GLACIER", "GLACIER"]), "5 to 12 hours");
        assert_eq!(
            of(&["GLACIER", "DEEP_ARCHIVE"]),
            "within 48 hours (DEEP_ARCHIVE), 5 to 12 hours (GLACIER)"
        );
        assert_eq!(times(Tier::Expedited, ["DEEP_ARCHIVE"].into_iter()), "");
    }
}
