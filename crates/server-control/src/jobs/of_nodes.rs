//! Jobs as nodes see them.

use super::Jobs;
use crate::Result;
use crate::error::{parse_name, refused};
use crate::permissions::Permissions;
use api::jobs::Job;
use server_contract::access_control::{JobNo, Node};

impl Jobs {
    /// The job `id`, for a node that made it or may read its domain. To others it is as if it did not exist.
    ///
    /// # Errors
    /// [`crate::Error::Refused`]; [`crate::Error::Catalog`].
    pub(crate) fn job_for(&self, permissions: &Permissions, node: &Node, id: JobNo) -> Result<Job> {
        let none = || {
            let message = format!("the node '{}' has no job {id}", node.name);
            refused(message, "On the server: icecore server jobs")
        };
        let job = match self.job(id) {
            Err(crate::Error::Catalog(catalog::Error::Missing { .. })) => return Err(none()),
            job => job?,
        };
        let (name, domain) = (parse_name(&node.name)?, parse_name(&job.domain)?);
        let is_seen = job.node == node.name || permissions.may_read(&name, &domain).is_ok();
        if is_seen { Ok(job) } else { Err(none()) }
    }
}
