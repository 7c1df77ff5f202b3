//! Bandwidth limits: which one applies to which node at which time.

use crate::error::missing;
use crate::{Error, Result, by};
use api::limits::Limit;
use catalog::Catalog;
use jiff::Zoned;
use jiff::civil::Weekday;
use parking_lot::RwLock;
use std::net::IpAddr;
use std::sync::Arc;

/// A parsed limit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    node: Option<String>,
    network: Option<Network>,
    /// Bit 0 is Monday.
    days: u8,
    /// Minutes of the day: from, to; the same twice is all day.
    minutes: [u16; 2],
    rates: [u64; 2],
}

/// A network of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u8,
}

/// Lowest limit in bytes per second; a lower one is a mistake.
const RATE_MIN: u64 = 1 << 10;
const EVERY_DAY: u8 = 0x7f;
const ALL_DAY: [u16; 2] = [0, 0];
const DAY_MINUTES: u16 = 24 * 60;
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

impl Rule {
    fn parse(limit: &Limit) -> std::result::Result<Self, String> {
        if limit.node.is_some() == limit.network.is_some() {
            return Err("a limit needs either a node or a network".to_owned());
        }
        let network = limit.network.as_deref().map(Network::parse).transpose()?;
        let days = limit.days.as_deref().map_or(Ok(EVERY_DAY), parse_days)?;
        let minutes = limit.hours.as_deref().map_or(Ok(ALL_DAY), parse_hours)?;
        let node = limit.node.as_ref().map(ToString::to_string);
        Ok(Self { node, network, days, minutes, rates: [limit.up, limit.down] })
    }

    /// Whether both apply to the same node or network at the same times, which would be ambiguous.
    fn is_for_same(&self, other: &Self) -> bool {
        let place = |rule: &Self| (rule.node.clone(), rule.network, rule.days, rule.minutes);
        place(self) == place(other)
    }

    /// How specific it is for this node and time; `None` when it does not apply. The most specific one applies.
    fn fit(&self, node: &str, address: IpAddr, day: u8, minute: u16) -> Option<(u16, bool)> {
        let place = match (&self.node, self.network) {
            (Some(own), _) => (own == node).then_some(u16::MAX)?,
            (None, Some(network)) => network.has(address).then_some(network.bits.into())?,
            (None, None) => return None,
        };
        let in_time = self.holds_at(day, minute).then_some(self.is_timed())?;
        Some((place, in_time))
    }

    fn is_timed(&self) -> bool {
        self.days != EVERY_DAY || self.minutes != ALL_DAY
    }

    /// A window over midnight belongs to the day on which it began.
    fn holds_at(&self, day: u8, minute: u16) -> bool {
        let on = |day: u8| self.days >> day & 1 == 1;
        let [from, to] = self.minutes;
        let yesterday = (day + 6) % 7;
        match from.cmp(&to) {
            std::cmp::Ordering::Equal => on(day),
            std::cmp::Ordering::Less => on(day) && (from..to).contains(&minute),
            std::cmp::Ordering::Greater => {
                on(day) && minute >= from || on(yesterday) && minute < to
            }
        }
    }
}

impl Network {
    fn parse(text: &str) -> std::result::Result<Self, String> {
        let bad = || format!("'{text}' is not a network: write 192.0.2.0/24 or 2001:db8::/32");
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| bad()))?;
        if bits > most { Err(bad()) } else { Ok(Self { address, bits }) }
    }

    fn has(&self, other: IpAddr) -> bool {
        let other = other.to_canonical();
        let shift = |width: u8| u32::from(width.saturating_sub(self.bits));
        match (self.address.to_canonical(), other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differ = u32::from(own) ^ u32::from(other);
                differ.checked_shr(shift(32)).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differ = u128::from(own) ^ u128::from(other);
                differ.checked_shr(shift(128)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

fn parse_days(text: &str) -> std::result::Result<u8, String> {
    let bad = || format!("'{text}' is not a list of days: write mon-fri or sat,sun");
    let day = |name: &str| DAYS.iter().position(|day| *day == name).ok_or_else(bad);
    let mut days = 0;
    for part in text.to_ascii_lowercase().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (mut at, last) = (day(first.trim())?, day(last.trim())?);
        days |= 1 << at;
        while at != last {
            at = (at + 1) % 7;
            days |= 1 << at;
        }
    }
    Ok(days)
}

fn parse_hours(text: &str) -> std::result::Result<[u16; 2], String> {
    let bad = || format!("'{text}' is not a time range: write 08:00-18:00");
    let minute = |time: &str| -> Option<u16> {
        let (hour, minute) = time.trim().split_once(':').unwrap_or((time.trim(), "0"));
        let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
        (minute < 60 && hour * 60 + minute <= DAY_MINUTES).then_some(hour * 60 + minute)
    };
    let (from, to) = text.split_once('-').ok_or_else(bad)?;
    let (from, to) = (minute(from).ok_or_else(bad)?, minute(to).ok_or_else(bad)?);
    Ok([from % DAY_MINUTES, to % DAY_MINUTES])
}

/// The rates of the most specific rule; of equal ones the latest.
fn best(rules: &[Rule], node: &str, address: IpAddr, day: u8, minute: u16) -> [u64; 2] {
    let fits =
        rules.iter().filter_map(|rule| Some((rule.fit(node, address, day, minute)?, rule.rates)));
    fits.max_by_key(|(fit, _)| *fit).map_or([0, 0], |(_, rates)| rates)
}

/// The bandwidth limits.
pub(crate) struct Limits {
    catalog: Arc<Catalog>,
    rules: RwLock<Vec<Rule>>,
}

impl Limits {
    /// The limits of `catalog`.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn open(catalog: Arc<Catalog>) -> Result<Self> {
        let limits = Self { catalog, rules: RwLock::default() };
        limits.load()?;
        Ok(limits)
    }

    /// Current limits in bytes per second, to the server and from it; 0 for no limit.
    pub(crate) fn of(&self, node: &str, address: IpAddr) -> [u64; 2] {
        let rules = self.rules.read();
        if rules.is_empty() {
            return [0, 0];
        }
        let now = Zoned::now();
        let day = now.weekday().since(Weekday::Monday).unsigned_abs();
        let minute =
            u16::from(now.hour().unsigned_abs()) * 60 + u16::from(now.minute().unsigned_abs());
        best(&rules, node, address, day, minute)
    }

    /// Reads the limits of the catalog. One that cannot be parsed was written by a newer program: it is logged and
    /// ignored.
    fn load(&self) -> Result<()> {
        let understood = self.catalog.limits()?.into_iter().filter_map(|limit| {
            Rule::parse(&limit)
                .inspect_err(|why| {
                    tracing::warn!(
                        id = limit.id,
                        why,
                        "ignoring a limit that this program does not understand"
                    )
                })
                .ok()
        });
        *self.rules.write() = understood.collect();
        Ok(())
    }

    /// All limits.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn all(&self) -> Result<api::limits::Limits> {
        Ok(api::limits::Limits { limits: self.catalog.limits()? })
    }

    /// Adds a limit; it applies at once.
    ///
    /// # Errors
    /// [`Error::Usage`] when it is not valid; [`Error::Catalog`].
    pub(crate) fn add(&self, who: &str, new: &Limit) -> Result<Limit> {
        let rule = Rule::parse(new).map_err(Error::Usage)?;
        if [new.up, new.down].iter().any(|rate| (1..RATE_MIN).contains(rate)) {
            let why = format!("a rate below {RATE_MIN} bytes per second would let no job finish");
            return Err(Error::Usage(why));
        }
        if let Some(node) = &new.node
            && self.catalog.node(node)?.is_none()
        {
            return Err(missing("node", node).into());
        }
        let same = |other: &Limit| Rule::parse(other).is_ok_and(|other| other.is_for_same(&rule));
        if let Some(other) = self.catalog.limits()?.iter().find(|other| same(other)) {
            let id = other.id.unwrap_or_default();
            return Err(Error::Usage(format!(
                "limit {id} applies to the same node or network at the same times; to change it: icecore server limit remove {id}, then add it again"
            )));
        }
        let added = self.catalog.add_limit(by(who), new)?;
        self.load()?;
        Ok(added)
    }

    /// Removes a limit.
    ///
    /// # Errors
    /// [`Error::Catalog`] if it does not exist.
    pub(crate) fn remove(&self, who: &str, id: u64) -> Result<()> {
        self.catalog.remove_limit(by(who), id)?;
        self.load()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(node: Option<&str>, network: Option<&str>) -> Limit {
        let (node, network) = (node.map(|n| n.parse().unwrap()), network.map(str::to_owned));
        Limit { id: None, node, network, days: None, hours: None, up: 0, down: 0 }
    }

    fn rule(node: Option<&str>, network: Option<&str>, hours: Option<&str>, up: u64) -> Rule {
        let hours = hours.map(str::to_owned);
        Rule::parse(&Limit { hours, up, ..limit(node, network) }).unwrap()
    }

    #[test]
    fn the_closest_limit_holds() {
        let rules = [
            rule(None, Some("0.0.0.0/0"), None, 1),
            rule(None, Some("10.0.0.0/8"), None, 2),
            rule(None, Some("10.1.0.0/16"), None, 3),
            rule(None, Some("10.1.0.0/16"), Some("08:00-18:00"), 4),
            rule(Some("web"), None, None, 5),
            rule(None, Some("2001:db8::/32"), None, 6),
        ];
        let at = |node: &str, address: &str, minute| {
            best(&rules, node, address.parse().unwrap(), 0, minute)[0]
        };
        assert_eq!(at("db", "192.0.2.1", 0), 1);
        assert_eq!(at("db", "10.2.0.1", 0), 2);
        assert_eq!(at("db", "10.1.2.3", 0), 3);
        assert_eq!(at("db", "10.1.2.3", 9 * 60), 4);
        assert_eq!(at("db", "::ffff:10.1.2.3", 9 * 60), 4);
        assert_eq!(at("web", "10.1.2.3", 9 * 60), 5);
        assert_eq!(at("db", "2001:db8::7", 0), 6);
        assert_eq!(at("db", "2001:db9::7", 0), 0);
    }

    #[test]
    fn hours_may_pass_midnight() {
        let days = Some("mon-fri".to_owned());
        let hours = Some("22:00-06:00".to_owned());
        let night = Rule::parse(&Limit { days, hours, ..limit(Some("a"), None) }).unwrap();
        assert!(night.holds_at(0, 22 * 60) && night.holds_at(1, 5 * 60 + 59));
        assert!(night.holds_at(5, 60), "the night of Friday");
        assert!(!night.holds_at(0, 60), "the night of Sunday");
        assert!(!night.holds_at(0, 6 * 60) && !night.holds_at(5, 23 * 60));
    }

    #[test]
    fn days_and_hours_are_read() {
        assert_eq!(parse_days("mon-fri"), Ok(0b1_1111));
        assert_eq!(parse_days("Sat,sun"), Ok(0b110_0000));
        assert_eq!(parse_days("sat-mon"), Ok(0b110_0001));
        assert_eq!(parse_hours("8-18:30"), Ok([480, 1110]));
        assert_eq!(parse_hours("18:00-24:00"), Ok([1080, 0]));
        ["", "x", "mon-", "8"].iter().for_each(|text| assert!(parse_days(text).is_err()));
        ["", "8", "25:00-26:00", "08:60-09:00", "-"].iter().for_each(|text| {
            assert!(parse_hours(text).is_err(), "{text}");
        });
    }

    #[test]
    fn what_is_no_limit_is_refused() {
        let bad = [limit(None, None), limit(Some("a"), Some("10.0.0.0/8"))];
        bad.iter().for_each(|limit| assert!(Rule::parse(limit).is_err()));
        for network in ["", "10.0.0.0/33", "x", "10.0.0.0/-1", "::/129"] {
            assert!(Network::parse(network).is_err(), "{network}");
        }
    }
}
