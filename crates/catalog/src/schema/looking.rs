//! What is shown of backups and jobs: how each source stands, and what happened to each job.

/// A row of `backup_states` without a policy is of backups that no policy asked for. `since`: when the source was first
/// expected or backed up; `complete_*`: its newest complete backup; `last_*`: its newest run that ended or was missed;
/// `took_secs`: of the newest run that made a snapshot; the sums are over all its backups.
pub(super) const STEP: &str = "
CREATE TABLE backup_states (
    node {text} NOT NULL, policy {text} NOT NULL, source {text} NOT NULL, since {int} NOT NULL,
    complete_begun {int}, complete_ended {int}, complete_job {int}, complete_snapshot {text},
    last_job {int}, last_state {text}, last_cause {text}, last_ended {int}, last_error {text},
    took_secs {int}, objects {int}, bytes {int}, backups {int} NOT NULL DEFAULT 0,
    measured {int} NOT NULL DEFAULT 0, stored_bytes {int} NOT NULL DEFAULT 0,
    PRIMARY KEY (node, policy, source)){strict};

CREATE TABLE job_log (
    id {id}, job {int} NOT NULL, time {int} NOT NULL, level {text} NOT NULL, code {text} NOT NULL,
    message {text} NOT NULL){strict};
CREATE INDEX job_log_job ON job_log (job, id);

-- What the report of a backup says, in columns, so that reports need not read it again.
ALTER TABLE jobs ADD COLUMN seen_objects {int};
ALTER TABLE jobs ADD COLUMN failed_objects {int};
ALTER TABLE jobs ADD COLUMN incomplete_objects {int};
ALTER TABLE jobs ADD COLUMN seen_bytes {int};
ALTER TABLE jobs ADD COLUMN read_bytes {int};
ALTER TABLE jobs ADD COLUMN before_dedup_bytes {int};
ALTER TABLE jobs ADD COLUMN new_bytes {int};
ALTER TABLE jobs ADD COLUMN stored_bytes {int};
ALTER TABLE jobs ADD COLUMN cpu_ms {int};
ALTER TABLE jobs ADD COLUMN elapsed_ms {int};
CREATE INDEX jobs_node_begun ON jobs (node, begun, id);
";
