//! Protection, reports and logs of jobs.

use crate::http::answer::{Answer, Asked, At, work};
use crate::http::topics::Topic;
use crate::http::who::Admin;
use crate::protection::ProtectionView;
use crate::reports::Reports;
use api::Failure;
use api::job_log::JobLog;
use api::protection::{Protection, ProtectionFilter};
use api::reports::{BackupRows, Capacity, Causes, Costs, ReportFilter};
use axum::extract::State;

/// Shows how well each source of each policy is backed up, nodes that no policy covers, and policies without nodes.
#[utoipa::path(get, path = "/api/v1/protection", tag = "reports", params(ProtectionFilter),
    security(("admin" = [])),
    responses((status = 200, body = Protection), (status = "4XX", body = Failure)))]
pub(crate) async fn protection(
    State(protection): Topic<ProtectionView>,
    _: Admin,
    Asked(filter): Asked<ProtectionFilter>,
) -> Answer<Protection> {
    work(protection, move |protection| protection.now(&filter)).await
}

/// Lists backups that made a snapshot with all their figures, newest first, one page at a time.
#[utoipa::path(get, path = "/api/v1/reports/backups", tag = "reports", params(ReportFilter),
    security(("admin" = [])),
    responses((status = 200, body = BackupRows), (status = "4XX", body = Failure)))]
pub(crate) async fn backups(
    State(reports): Topic<Reports>,
    _: Admin,
    Asked(filter): Asked<ReportFilter>,
) -> Answer<BackupRows> {
    work(reports, move |reports| reports.backups(&filter)).await
}

/// Shows what backups cost each node.
#[utoipa::path(get, path = "/api/v1/reports/costs", tag = "reports", params(ReportFilter),
    security(("admin" = [])),
    responses((status = 200, body = Costs), (status = "4XX", body = Failure)))]
pub(crate) async fn costs(
    State(reports): Topic<Reports>,
    _: Admin,
    Asked(filter): Asked<ReportFilter>,
) -> Answer<Costs> {
    work(reports, move |reports| reports.costs(&filter)).await
}

/// Shows what the backups of each source take.
#[utoipa::path(get, path = "/api/v1/reports/capacity", tag = "reports", params(ReportFilter),
    security(("admin" = [])),
    responses((status = 200, body = Capacity), (status = "4XX", body = Failure)))]
pub(crate) async fn capacity(
    State(reports): Topic<Reports>,
    _: Admin,
    Asked(filter): Asked<ReportFilter>,
) -> Answer<Capacity> {
    work(reports, move |reports| reports.capacity(&filter)).await
}

/// Groups jobs that did not end well by cause.
#[utoipa::path(get, path = "/api/v1/reports/causes", tag = "reports", params(ReportFilter),
    security(("admin" = [])),
    responses((status = 200, body = Causes), (status = "4XX", body = Failure)))]
pub(crate) async fn causes(
    State(reports): Topic<Reports>,
    _: Admin,
    Asked(filter): Asked<ReportFilter>,
) -> Answer<Causes> {
    work(reports, move |reports| reports.causes(&filter)).await
}

/// Shows what happened to a job.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/log", tag = "jobs",
    params(("id" = u64, Path, description = "Its number.")), security(("admin" = [])),
    responses((status = 200, body = JobLog), (status = "4XX", body = Failure)))]
pub(crate) async fn job_log(
    State(reports): Topic<Reports>,
    _: Admin,
    At(id): At<u64>,
) -> Answer<JobLog> {
    work(reports, move |reports| reports.job_log(id)).await
}
