//! What came of copies, of each upkeep that makes some: one that fails must not be covered by
//! another one that does not.

/// `upkeep`: which one made the copy; empty for tasks whose outcome is that of the domain. Copies whose job is not known
/// any more are told anew by the next one.
pub(super) const STEP: &str = "
ALTER TABLE domain_upkeep RENAME TO domain_upkeep_before;
CREATE TABLE domain_upkeep (
    domain {text} NOT NULL, task {text} NOT NULL, upkeep {text} NOT NULL, job {int} NOT NULL,
    ended {int} NOT NULL, state {text} NOT NULL, position {int} NOT NULL DEFAULT 0,
    damaged {int} NOT NULL DEFAULT 0, alarm {text}, PRIMARY KEY (domain, task, upkeep)){strict};
INSERT INTO domain_upkeep (domain, task, upkeep, job, ended, state, position, damaged, alarm)
    SELECT last.domain, last.task, CASE WHEN last.task = 'copy' THEN jobs.upkeep ELSE '' END,
        last.job, last.ended, last.state, last.position, last.damaged, last.alarm
    FROM domain_upkeep_before AS last LEFT JOIN upkeep_jobs AS jobs ON jobs.job = last.job
    WHERE last.task <> 'copy' OR jobs.upkeep IS NOT NULL;
DROP TABLE domain_upkeep_before;
";
