//! Prices that the user gives. The program knows none: they differ by storage, region and contract, and change.

use super::tiers::TierArg;

/// Requests that a price is for.
const REQUESTS: f64 = 1000.0;
/// Bytes that a price is for: AWS counts 2^30 as a GB.
const GB: f64 = (1u64 << 30) as f64;

/// A price, of one tier or of all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Price {
    tier: Option<TierArg>,
    amount: f64,
}

/// Reads `0.02` or `bulk=0.0025`.
pub(super) fn parse(text: &str) -> Result<Price, String> {
    let wrong = || format!("'{text}' is not a price; write 0.02, or bulk=0.0025 for one tier");
    let (tier, amount) = match text.split_once('=') {
        Some((tier, amount)) => {
            let known = TierArg::ALL.into_iter().find(|it| it.name() == tier);
            (Some(known.ok_or_else(wrong)?), amount)
        }
        None => (None, text),
    };
    let amount: f64 = amount.parse().map_err(|_| wrong())?;
    let is_amount = amount.is_finite() && amount >= 0.0;
    is_amount.then_some(Price { tier, amount }).ok_or_else(wrong)
}

/// The price for `tier` among `prices`: one of its own counts for more than one of all.
fn of(tier: TierArg, prices: &[Price]) -> Option<f64> {
    let own = prices.iter().rfind(|price| price.tier == Some(tier));
    own.or_else(|| prices.iter().rfind(|price| price.tier.is_none())).map(|price| price.amount)
}

/// What it costs to bring back so many objects and bytes; `None` if no price for that was given.
pub(super) fn total(
    tier: TierArg,
    (objects, bytes): (u64, u64),
    (per_gb, per_request): (&[Price], &[Price]),
) -> Option<f64> {
    let (gb, request) = (of(tier, per_gb), of(tier, per_request));
    if gb.is_none() && request.is_none() {
        return None;
    }
    let bytes = gb.unwrap_or(0.0) * bytes as f64 / GB;
    Some(bytes + request.unwrap_or(0.0) * objects as f64 / REQUESTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_costs_what_nobody_said() {
        assert_eq!(total(TierArg::Bulk, (10, 1 << 30), (&[], &[])), None);
        let standard = [parse("standard=0.02").unwrap()];
        assert_eq!(total(TierArg::Bulk, (10, 1 << 30), (&standard, &[])), None);
        assert_eq!(total(TierArg::Standard, (10, 1 << 30), (&standard, &[])), Some(0.02));
    }

    #[test]
    fn a_price_of_a_tier_counts_for_more_than_one_of_all() {
        let gb = ["bulk=0.5", "1"].map(|text| parse(text).unwrap());
        let request = [parse("2").unwrap()];
        let cost = |tier| total(tier, (500, 3 << 30), (&gb, &request));
        assert_eq!((cost(TierArg::Bulk), cost(TierArg::Standard)), (Some(2.5), Some(4.0)));
    }

    #[test]
    fn what_is_no_price_is_refused() {
        for text in ["", "cheap", "slow=1", "-1", "nan", "inf", "bulk="] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
