//! Jobs that a policy wants, and how far its schedules are settled.

/// A job that no policy wants has no `policy`. `task`: what its node will be asked to do; `command`: the node command
/// that asked it.
pub(super) const STEP: &str = "
ALTER TABLE jobs ADD COLUMN policy {text};
ALTER TABLE jobs ADD COLUMN schedule {text};
ALTER TABLE jobs ADD COLUMN source {text};
ALTER TABLE jobs ADD COLUMN unit {text};
ALTER TABLE jobs ADD COLUMN priority {int};
ALTER TABLE jobs ADD COLUMN due {int};
ALTER TABLE jobs ADD COLUMN until {int};
ALTER TABLE jobs ADD COLUMN attempt {int};
ALTER TABLE jobs ADD COLUMN late {int};
ALTER TABLE jobs ADD COLUMN runs {int};
ALTER TABLE jobs ADD COLUMN cause {text};
ALTER TABLE jobs ADD COLUMN task {text};
ALTER TABLE jobs ADD COLUMN command {int};

-- settled: all runs due up to this time were started, or recorded as missed.
CREATE TABLE schedule_states (
    policy {text} NOT NULL, schedule {text} NOT NULL, node {text} NOT NULL, source {text} NOT NULL,
    settled {int} NOT NULL, failed_due {int}, attempts {int}, failed_ended {int},
    PRIMARY KEY (policy, schedule, node, source)){strict};

-- The newest backups of each source that a policy names.
CREATE TABLE source_states (
    node {text} NOT NULL, source {text} NOT NULL, last_complete {int}, last_backup {int},
    snapshot {text}, PRIMARY KEY (node, source)){strict};
";
