//! Seconds since 1970 as certificates have them.

use crate::Result;
use crate::error::unreadable;
use rcgen::CertificateParams;
use x509_parser::time::ASN1Time;

/// Clocks differ: what is issued is valid from this much earlier on.
const CLOCK_SKEW_SECS: i64 = 3600;

/// Makes `params` valid from an hour before `now_secs` until `until_secs`.
pub(crate) fn set_validity(
    params: &mut CertificateParams,
    now_secs: i64,
    until_secs: i64,
) -> Result<[i64; 2]> {
    let from_secs = now_secs.saturating_sub(CLOCK_SKEW_SECS);
    params.not_before = stamp(from_secs)?.to_datetime();
    params.not_after = stamp(until_secs)?.to_datetime();
    Ok([from_secs, until_secs])
}

fn stamp(secs: i64) -> Result<ASN1Time> {
    ASN1Time::from_timestamp(secs).map_err(unreadable("a time"))
}
