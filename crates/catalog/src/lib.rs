//! What a server knows: nodes, tokens, domains, grants, jobs. SQLite.
