//! Which snapshots `icecore forget` keeps, as flags and in the config file.

use crate::commands::backup::parse_tag;
use crate::profile::{Amount, Retention};
use crate::time;
use pipeline::retention::{Keep, KeepWithin, RetentionPolicy};

/// Which snapshots to keep.
#[derive(clap::Args, Debug, Default)]
#[command(next_help_heading = "Retention (N is a number or `unlimited`)")]
pub(super) struct KeepFlags {
    /// Keep the newest N snapshots.
    #[arg(long, value_name = "N", value_parser = parse_keep)]
    keep_last: Option<Keep>,
    /// Keep the newest snapshot of each of the last N hours that have one.
    #[arg(long, value_name = "N", value_parser = parse_keep)]
    keep_hourly: Option<Keep>,
    /// Keep the newest snapshot of each of the last N days that have one.
    #[arg(long, value_name = "N", value_parser = parse_keep)]
    keep_daily: Option<Keep>,
    /// Keep the newest snapshot of each of the last N weeks (Monday to Sunday) that have one.
    #[arg(long, value_name = "N", value_parser = parse_keep)]
    keep_weekly: Option<Keep>,
    /// Keep the newest snapshot of each of the last N months that have one.
    #[arg(long, value_name = "N", value_parser = parse_keep)]
    keep_monthly: Option<Keep>,
    /// Keep the newest snapshot of each of the last N years that have one.
    #[arg(long, value_name = "N", value_parser = parse_keep)]
    keep_yearly: Option<Keep>,
    /// Keep all snapshots that are at most this much older than the newest: 12h, 30d, 1y6m. A month (m)
    /// counts 31 days, a year (y) or 12m 366.
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span)]
    keep_within: Option<u64>,
    /// Keep the newest snapshot of each hour, up to this much before the newest of all.
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span)]
    keep_within_hourly: Option<u64>,
    /// The same for each day.
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span)]
    keep_within_daily: Option<u64>,
    /// The same for each week.
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span)]
    keep_within_weekly: Option<u64>,
    /// The same for each month.
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span)]
    keep_within_monthly: Option<u64>,
    /// The same for each year.
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span)]
    keep_within_yearly: Option<u64>,
    /// Keep snapshots that have all of these tags, joined by commas. Can be given several times.
    #[arg(long, value_name = "TAG[,TAG]", value_parser = parse_tags)]
    keep_tag: Vec<Tags>,
}

#[derive(Clone, Debug)]
struct Tags(Vec<String>);

/// 0 is refused: it would keep nothing, which is hardly what was meant.
fn parse_keep(text: &str) -> std::result::Result<Keep, String> {
    match text {
        "unlimited" | "-1" => Ok(Keep::All),
        _ => match text.parse() {
            Ok(number) if number > 0 => Ok(Keep::Newest(number)),
            _ => {
                Err(format!("'{text}' is not a number of snapshots; write 1 or more, or unlimited"))
            }
        },
    }
}

fn parse_tags(text: &str) -> std::result::Result<Tags, String> {
    text.split(',').map(parse_tag).collect::<std::result::Result<_, _>>().map(Tags)
}

impl KeepFlags {
    /// What the config file says, read as the flags are.
    pub(super) fn of(keep: &Retention) -> std::result::Result<Self, String> {
        let amount = |amount: &Option<Amount>| {
            amount.as_ref().map(|amount| parse_keep(&amount.to_string())).transpose()
        };
        let span = |span: &Option<String>| span.as_deref().map(time::parse_span).transpose();
        let tags = keep.tags.iter().flatten().map(|tags| parse_tags(tags));
        Ok(Self {
            keep_last: amount(&keep.last)?,
            keep_hourly: amount(&keep.hourly)?,
            keep_daily: amount(&keep.daily)?,
            keep_weekly: amount(&keep.weekly)?,
            keep_monthly: amount(&keep.monthly)?,
            keep_yearly: amount(&keep.yearly)?,
            keep_within: span(&keep.within)?,
            keep_within_hourly: span(&keep.within_hourly)?,
            keep_within_daily: span(&keep.within_daily)?,
            keep_within_weekly: span(&keep.within_weekly)?,
            keep_within_monthly: span(&keep.within_monthly)?,
            keep_within_yearly: span(&keep.within_yearly)?,
            keep_tag: tags.collect::<std::result::Result<_, _>>()?,
        })
    }

    pub(super) fn policy(&self) -> RetentionPolicy {
        RetentionPolicy {
            last: self.keep_last.unwrap_or_default(),
            hourly: self.keep_hourly.unwrap_or_default(),
            daily: self.keep_daily.unwrap_or_default(),
            weekly: self.keep_weekly.unwrap_or_default(),
            monthly: self.keep_monthly.unwrap_or_default(),
            yearly: self.keep_yearly.unwrap_or_default(),
            within_secs: self.keep_within,
            within_secs_each: KeepWithin {
                hourly: self.keep_within_hourly,
                daily: self.keep_within_daily,
                weekly: self.keep_within_weekly,
                monthly: self.keep_within_monthly,
                yearly: self.keep_within_yearly,
            },
            tags: self.keep_tag.iter().map(|tags| tags.0.clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_options::resolve::Resolved;
    use crate::commands::groups::parse_groups;
    use crate::profile::{Profile, blocks_of_guides, own_paths};
    use std::path::Path;

    #[test]
    fn the_config_files_of_the_guides_are_read() {
        let configs: Vec<_> =
            blocks_of_guides().into_iter().filter(|text| text.contains("repo =")).collect();
        assert!(!configs.is_empty());
        for text in configs {
            let headings = text.lines().filter_map(|line| line.strip_prefix("[profile."));
            let names = headings.filter_map(|rest| rest.split(']').next()).map(Some);
            for name in names.chain([None]) {
                let profile = Profile::parse(text, name, Path::new("c.toml")).unwrap();
                let resolved = Resolved::new(profile.options);
                assert_eq!(resolved.value("repo"), Some("/mnt/disk/icecore".as_ref()), "{name:?}");
                if let Some(keep) = profile.keep {
                    assert!(!KeepFlags::of(&keep).unwrap().policy().is_empty());
                    keep.group_by.map(|by| parse_groups(&by).unwrap());
                }
                own_paths(&resolved).unwrap();
            }
        }
    }

    #[test]
    fn numbers_to_keep_are_read_and_nonsense_fails_closed() {
        assert_eq!(
            [parse_keep("7"), parse_keep("unlimited"), parse_keep("-1")],
            [Ok(Keep::Newest(7)), Ok(Keep::All), Ok(Keep::All)]
        );
        ["", "0", "-2", "x", "99999999999"]
            .iter()
            .for_each(|text| assert!(parse_keep(text).is_err(), "{text}"));
    }

    #[test]
    fn empty_tags_fail_closed() {
        assert_eq!(parse_tags("a,b").unwrap().0, ["a", "b"]);
        ["", ",", "a,", " "].iter().for_each(|text| assert!(parse_tags(text).is_err(), "{text}"));
    }
}
