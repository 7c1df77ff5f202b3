//! Quotas on a storage server: the control server says how many bytes a domain may have in all, and the storage server
//! what it has.

use api::quotas::{DomainQuota, DomainUse};
use parking_lot::Mutex;
use server_contract::access_control::Refusal;
use server_contract::uses::{Allowance, Exceeded, REFUSED_AGE, USE_AGE, Uses};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What the control server said last, and what domains store.
#[derive(Default)]
pub(super) struct Quotas {
    uses: Uses,
    /// `None` until the first reply: then nobody knows what is allowed.
    told: Mutex<Option<BTreeMap<String, DomainQuota>>>,
}

impl Quotas {
    /// What the reply to a heartbeat says: all domains here that have a quota.
    pub(super) fn apply_reply(&self, quotas: &[DomainQuota]) {
        let all = quotas.iter().map(|quota| (quota.domain.to_string(), quota.clone()));
        *self.told.lock() = Some(all.collect());
    }

    /// What those domains store, each in its `folder`, if that is known.
    pub(super) fn to_report(
        &self,
        folder: impl Fn(&api::Name) -> Option<PathBuf>,
    ) -> Vec<DomainUse> {
        let told = self.told.lock().clone().unwrap_or_default();
        let of = |quota: DomainQuota| {
            let name = quota.domain.as_str();
            // What cannot be measured is told as unknown.
            if let Some(folder) = folder(&quota.domain) {
                let _ = self.uses.measure(name, &folder, USE_AGE);
            }
            DomainUse { bytes: self.uses.of(name), domain: quota.domain }
        };
        told.into_values().map(of).collect()
    }

    /// Takes `more` bytes for `domain`, which lies in `folder`: that is looked up if it has a quota.
    ///
    /// # Errors
    /// [`Refusal`]; a transient one when nobody knows what is allowed.
    pub(super) fn take(
        &self,
        domain: &str,
        folder: impl FnOnce() -> Result<PathBuf, Refusal>,
        more: u64,
    ) -> Result<(), Refusal> {
        let unknown = || Refusal::transient("the control server has not said what quotas allow");
        let told = self.told.lock().as_ref().map(|all| all.get(domain).cloned());
        let Some(quota) = told.ok_or_else(unknown)? else { return Ok(()) };
        let (bytes, folder) = (quota.bytes.ok_or_else(unknown)?, folder()?);
        let allowance = Allowance { quota: quota.quota, bytes, domains: vec![domain.to_owned()] };
        let take = |age| {
            // What cannot be measured is unknown, and refused for that.
            let _ = self.uses.measure(domain, &folder, age);
            self.uses.take(domain, more, [&allowance])
        };
        take(USE_AGE).or_else(|_| take(REFUSED_AGE)).map_err(|error: Exceeded| error.refusal())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_in_before_the_control_server_has_spoken_and_then_as_much_as_it_says() {
        let place = tempfile::tempdir().unwrap();
        let quotas = Quotas::default();
        let take = |more| quotas.take("web", || Ok(place.path().to_owned()), more);
        assert!(take(0).unwrap_err().is_transient);
        quotas.apply_reply(&[]);
        take(1 << 40).unwrap();
        let told = |bytes| DomainQuota { domain: "web".parse().unwrap(), quota: "q".into(), bytes };
        quotas.apply_reply(&[told(None)]);
        assert!(take(0).unwrap_err().is_transient, "others are unknown");
        quotas.apply_reply(&[told(Some(100))]);
        take(60).unwrap();
        let refused = take(60).unwrap_err();
        assert!(!refused.is_transient && refused.message.contains("'q' has no room"), "{refused}");
        let reported = quotas.to_report(|_| Some(place.path().to_owned()));
        assert_eq!((reported.len(), reported[0].bytes), (1, Some(60)));
    }
}
