//! Several pools of a server.

/// A domain and a token without a pool are those of the first one.
pub(super) const STEP: &str = "
CREATE TABLE pools (
    name {text} PRIMARY KEY, path {text} NOT NULL, state {text} NOT NULL, made {int} NOT NULL){strict};
ALTER TABLE domains ADD COLUMN pool {text};
ALTER TABLE tokens ADD COLUMN pool {text};
";
