//! What is known of snapshots without keys, and which of them lie in the trash.

/// `policy` and `class` are those of the receipt; empty for a backup that no policy wanted. `trashed`: since when it
/// lies in the trash; `trashed_by`: what put it there. All but these two can be read again from the repository.
pub(super) const STEP: &str = "
CREATE TABLE snapshots (
    domain {text} NOT NULL, id {text} NOT NULL, number {int} NOT NULL, node {text} NOT NULL,
    source {text} NOT NULL, policy {text} NOT NULL, class {text} NOT NULL,
    received {int} NOT NULL, partial {int} NOT NULL, suspect {text}, locked_until {int},
    deleted_objects {int}, trashed {int}, trashed_by {text}, PRIMARY KEY (domain, id)){strict};

-- Sources of which an administrator said by name that they are gone.
CREATE TABLE deleted_sources (
    node {text} NOT NULL, policy {text} NOT NULL, source {text} NOT NULL, since {int} NOT NULL,
    PRIMARY KEY (node, policy, source)){strict};
";
