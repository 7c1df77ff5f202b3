//! What is declared: a site with one policy, whose retention and holds change.

use clock::Span;
use jiff::tz::TimeZone;
use retention::{Class, Keep, Rules};
use serde_json::{Value, json};
use site::{Kind, Site};
use testkit::Random;
use testkit::calendar::{ZONES, Zone};

pub(crate) const POLICY: &str = "files";
pub(crate) const CLASS: &str = "standard";
const ZONE_NAMES: [&str; 3] = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"];

/// The site and the zone of all its times.
#[derive(Clone)]
pub(crate) struct Declared {
    pub(crate) site: Site,
    pub(crate) zone: &'static Zone,
}

/// The zone of a name, by the rules that the second calendar knows too.
pub(crate) fn zones(name: &str) -> Option<TimeZone> {
    let at = ZONE_NAMES.iter().position(|known| *known == name)?;
    TimeZone::posix(ZONES[at].posix).ok()
}

impl Declared {
    pub(crate) fn any(random: &mut Random) -> Self {
        let at = random.below(3) as usize;
        let mut site = Site::default();
        let mut set = |kind, name: &str, body: Value| site.set(kind, name, &body).unwrap();
        set(Kind::Retention, "kept", retention(random, ZONE_NAMES[at]));
        set(Kind::Schedule, "due", schedule(random, ZONE_NAMES[at]));
        let policy = json!({"nodes": crate::NODES, "paths": ["/"], "schedules": ["due"], "retention": "kept"});
        set(Kind::Policy, POLICY, policy);
        Self { site, zone: &ZONES[at] }
    }

    /// The same with another retention.
    pub(crate) fn with_other_retention(&self, random: &mut Random) -> Self {
        let zone = self.site.retentions["kept"].zone.clone();
        let mut changed = self.clone();
        changed.site.set(Kind::Retention, "kept", &retention(random, &zone)).unwrap();
        changed
    }

    /// The same with another hold, or without it.
    pub(crate) fn with_other_hold(&self, random: &mut Random, until_secs: i64) -> Self {
        let mut changed = self.clone();
        changed.site.remove(Kind::Hold, "case");
        if random.one_in(2) {
            return changed;
        }
        let mut hold = json!({"reason": "a case"});
        if random.one_in(2) {
            hold["node"] = (*random.pick(&crate::NODES)).into();
        }
        if random.one_in(2) {
            hold["until"] = jiff::Timestamp::from_second(until_secs).unwrap().to_string().into();
        }
        changed.site.set(Kind::Hold, "case", &hold).unwrap();
        changed
    }

    pub(crate) fn class(&self) -> &Class {
        &self.site.retentions["kept"].classes[CLASS]
    }

    pub(crate) fn rules(&self) -> Rules {
        self.site.rules(&zones).unwrap()
    }

    /// Whether a hold keeps the snapshots of a node.
    pub(crate) fn holds(&self, node: &str, now_secs: i64) -> bool {
        let Some(hold) = self.site.holds.get("case") else { return false };
        hold.node.as_deref().is_none_or(|held| held == node)
            && hold.until.is_none_or(|until| until.secs() > now_secs)
    }
}

fn retention(random: &mut Random, zone: &str) -> Value {
    loop {
        let class = class(random);
        if class.check().is_ok() {
            return json!({"zone": zone, "class": {CLASS: class}});
        }
    }
}

fn class(random: &mut Random) -> Class {
    let mut keep = |most: u64| match random.below(2) {
        0 => Keep::None,
        _ => Keep::Newest(random.below(most) as u32),
    };
    let mut class = Class {
        keep_last: keep(9),
        keep_daily: keep(20),
        keep_weekly: keep(12),
        keep_monthly: keep(18),
        keep_yearly: keep(4),
        ..Class::default()
    };
    let mut span = |text: &[&str]| text[random.below(text.len() as u64) as usize].parse::<Span>();
    class.trash.0 = span(&["0 days", "1 day", "7 days", "5 weeks"]).unwrap();
    class.keep_within = span(&["never", "never", "3 days", "6 weeks"]).ok();
    class.immutable = span(&["never", "never", "12 hours", "30 days", "2 years"]).ok();
    class.minimum_versions = random.below(3) as u32;
    if random.one_in(6) {
        // No snapshot has it: all that stays is what stays in any case.
        return Class { keep_tags: vec![vec!["release".to_owned()]], ..Class::default() };
    }
    class
}

fn schedule(random: &mut Random, zone: &str) -> Value {
    // Often at the hours in which clocks are set.
    let hour = random.below(24);
    let hours = [format!("{hour:02}:30"), "02:30".to_owned(), "01:59".to_owned()];
    let at = random.pick(&hours).clone();
    let mut schedule = match random.below(6) {
        0 | 1 => json!({"at": at}),
        2 => json!({"at": at, "on": "sunday"}),
        3 => json!({"every": "1 day", "window": "22:00-06:00"}),
        4 => json!({"every": "4 days", "window": ["00:00-04:00"]}),
        _ => json!({"at": [at], "on": ["first monday", "last day"]}),
    };
    schedule["zone"] = zone.into();
    if random.one_in(3) {
        schedule["missed"] = "skip".into();
    }
    if random.one_in(3) {
        schedule["jitter"] = "20 minutes".into();
    }
    schedule
}
