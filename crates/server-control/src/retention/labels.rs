//! What a policy says of the snapshot of a job: it becomes part of the receipt, and nobody can change it there.

use super::Retention;
use crate::sites::Stored;
use crate::{Error, Result};
use api::jobs::JobPlan;
use parking_lot::Mutex;
use server_contract::access_control::{JobNo, Labels};
use site::{Policy, Site};
use std::collections::BTreeMap;

impl Retention {
    /// The labels of the snapshot of `job`.
    ///
    /// # Errors
    /// [`Error::Catalog`], [`Error::Object`], when it is not known whether a policy wants a lock.
    pub(crate) fn labels(&self, job: JobNo) -> Result<Labels> {
        let plan = match self.jobs.job(job) {
            Ok(job) => job.plan,
            // It could not be written to the catalog, and is of no policy therefore.
            Err(Error::Catalog(catalog::Error::Missing { .. })) => None,
            Err(error) => return Err(error),
        };
        let Some(plan) = plan else { return Ok(Labels::default()) };
        let stored = self.sites.stored()?;
        let labels = of(&stored, &plan);
        let is_known = stored.site.policies.contains_key(&labels.policy);
        let is_there = |job| self.jobs.has_session(job);
        Ok(self.promised.labels(job, labels, (is_known, &is_there)))
    }
}

/// The locks that policies wanted when jobs began: a policy that is removed meanwhile unlocks nothing.
#[derive(Default)]
pub(super) struct PromisedLocks(Mutex<BTreeMap<JobNo, u64>>);

impl PromisedLocks {
    /// The labels of `job`, with the lock that was promised if its policy is not known any more. Locks of jobs that
    /// are not there any more are forgotten.
    fn labels(
        &self,
        job: JobNo,
        labels: Labels,
        (is_known, is_there): (bool, &dyn Fn(JobNo) -> bool),
    ) -> Labels {
        let mut promised = self.0.lock();
        match (is_known, labels.lock_secs) {
            (true, Some(secs)) => {
                promised.retain(|other, _| is_there(*other));
                promised.insert(job, secs);
            }
            (true, None) => drop(promised.remove(&job)),
            (false, _) => return Labels { lock_secs: promised.get(&job).copied(), ..labels },
        }
        labels
    }
}

fn of(stored: &Stored, plan: &JobPlan) -> Labels {
    let (site, policy) = (&stored.site, plan.policy.clone());
    let (source, class) = (plan.source_name.clone(), plan.class.clone());
    let Some(found) = site.policies.get(&policy) else {
        // It was removed while the job ran. Nothing expires of a policy that nobody knows.
        return Labels { policy, source, class, lock_secs: None };
    };
    let class = site.class_now(found, &class).to_owned();
    Labels { lock_secs: lock_secs(site, found, &class), policy, source, class }
}

fn lock_secs(site: &Site, policy: &Policy, class: &str) -> Option<u64> {
    let retention = site.retentions.get(policy.retention.as_ref()?)?;
    Some(retention.classes.get(class)?.immutable?.secs())
}
