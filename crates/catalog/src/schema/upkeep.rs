//! Upkeep of domains: its jobs, how far its schedules are settled, and what came of it.

/// `until`: when a job ends between two stages, or is missed. `position`: the container up to which checks have
/// read; `damaged`: what the checks found since they began with the first container.
pub(super) const STEP: &str = "
CREATE TABLE upkeep_jobs (
    job {int} PRIMARY KEY REFERENCES jobs ON DELETE CASCADE, upkeep {text} NOT NULL,
    schedule {text}, task {text} NOT NULL, until {int}){strict};

-- settled: all runs due up to this time were started, or are over.
CREATE TABLE upkeep_states (
    upkeep {text} NOT NULL, schedule {text} NOT NULL, domain {text} NOT NULL,
    settled {int} NOT NULL, PRIMARY KEY (upkeep, schedule, domain)){strict};

CREATE TABLE domain_upkeep (
    domain {text} NOT NULL, task {text} NOT NULL, job {int} NOT NULL, ended {int} NOT NULL,
    state {text} NOT NULL, position {int} NOT NULL DEFAULT 0, damaged {int} NOT NULL DEFAULT 0,
    alarm {text}, PRIMARY KEY (domain, task)){strict};
";
