//! Keys that the server has removed from the repositories of its domains.

/// A domain that comes back from an older copy has them again.
pub(super) const STEP: &str = "
CREATE TABLE removed_keys (
    domain {text} NOT NULL, key {text} NOT NULL, node {text} NOT NULL, removed {int} NOT NULL,
    PRIMARY KEY (domain, key)){strict};
";
