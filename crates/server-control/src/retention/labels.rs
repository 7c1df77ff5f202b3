//! What a policy says of the snapshot of a job: it becomes part of the receipt, and nobody can change it there.

use super::Retention;
use crate::sites::Stored;
use crate::{Error, Result};
use api::jobs::JobPlan;
use server_contract::access_control::{JobNo, Labels};
use site::{Policy, Site};

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
        Ok(of(&stored, &plan))
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
