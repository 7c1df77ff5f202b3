//! The tables, step by step. What a database calls its types is put in place of `{int}` and the like.

/// The tables, with what refers to them behind them.
pub(super) const FIRST: &str = "
CREATE TABLE settings (key {text} PRIMARY KEY, value {text} NOT NULL){strict};

CREATE TABLE storage_servers (
    name {text} PRIMARY KEY, names {text} NOT NULL, port {int}, made {int} NOT NULL, last_seen {int},
    version {text}, free_bytes {int}, total_bytes {int}, revoked {int} NOT NULL DEFAULT 0,
    alarm {text}){strict};

-- What the repository of a domain is made with: privacy, parity.
CREATE TABLE domains (
    name {text} PRIMARY KEY, keys {text} NOT NULL, folder {text} NOT NULL UNIQUE, repository {text},
    sealed {blob}, made {int} NOT NULL, storage {text} REFERENCES storage_servers,
    privacy {text} NOT NULL DEFAULT 'standard', parity {int} NOT NULL DEFAULT 0){strict};

-- forget: which snapshots a node may forget remotely.
CREATE TABLE nodes (
    name {text} PRIMARY KEY, domain {text} NOT NULL REFERENCES domains, role {text} NOT NULL,
    key {text}, made {int} NOT NULL, last_seen {int}, address {text}, version {text},
    revoked {int} NOT NULL DEFAULT 0, alarm {text}, forget {text} NOT NULL DEFAULT 'none'){strict};
CREATE INDEX nodes_domain ON nodes (domain);

-- Renewals are a chain: which certificate came after which, for which key, and whether it was ever shown.
CREATE TABLE certificates (
    serial {text} PRIMARY KEY, node {text} NOT NULL REFERENCES nodes ON DELETE CASCADE,
    not_before {int} NOT NULL, not_after {int} NOT NULL, revoked {int} NOT NULL DEFAULT 0,
    successor {text}, superseded {int} NOT NULL DEFAULT 0, used {int}, key {blob},
    pem {text}){strict};
CREATE INDEX certificates_node ON certificates (node);
CREATE TABLE storage_certificates (
    serial {text} PRIMARY KEY,
    storage {text} NOT NULL REFERENCES storage_servers ON DELETE CASCADE,
    not_before {int} NOT NULL, not_after {int} NOT NULL, revoked {int} NOT NULL DEFAULT 0,
    successor {text}, superseded {int} NOT NULL DEFAULT 0, used {int}, key {blob},
    pem {text}){strict};
CREATE INDEX storage_certificates_storage ON storage_certificates (storage);

CREATE TABLE tokens (
    hash {blob} PRIMARY KEY, node {text} NOT NULL, domain {text} NOT NULL, role {text} NOT NULL,
    keys {text} NOT NULL, made {int} NOT NULL, expires {int} NOT NULL, used_at {int},
    request {blob}, answer {text}, storage {text}, privacy {text}, parity {int}){strict};
CREATE TABLE storage_tokens (
    hash {blob} PRIMARY KEY, storage {text} NOT NULL, made {int} NOT NULL, expires {int} NOT NULL,
    used_at {int}, request {blob}, answer {text}){strict};

CREATE TABLE grants (
    node {text} NOT NULL REFERENCES nodes ON DELETE CASCADE,
    domain {text} NOT NULL REFERENCES domains, until {int}, PRIMARY KEY (node, domain)){strict};
CREATE TABLE granted_keys (
    key {text} PRIMARY KEY, node {text} NOT NULL,
    domain {text} NOT NULL REFERENCES domains){strict};
-- Key slots of nodes that were revoked, removed or enrolled again, until the slots are removed.
CREATE TABLE old_keys (
    key {text} PRIMARY KEY, node {text} NOT NULL, domain {text} NOT NULL){strict};

CREATE TABLE limits (id {id}, rule {text} NOT NULL){strict};

-- One index for each question that is asked of all jobs: the newest come first.
CREATE TABLE jobs (
    id {id}, node {text} NOT NULL, domain {text} NOT NULL, kind {text} NOT NULL,
    what {text} NOT NULL, begun {int} NOT NULL, ended {int}, state {text} NOT NULL,
    objects {int} NOT NULL DEFAULT 0, bytes {int} NOT NULL DEFAULT 0,
    bytes_read {int} NOT NULL DEFAULT 0, bytes_wire {int} NOT NULL DEFAULT 0,
    stage {text} NOT NULL DEFAULT '', path {text} NOT NULL DEFAULT '', snapshot {text},
    error {text}, cancelled {int} NOT NULL DEFAULT 0, report {text}){strict};
CREATE INDEX jobs_node ON jobs (node, id);
CREATE INDEX jobs_domain ON jobs (domain, id);
CREATE INDEX jobs_kind ON jobs (kind, id);
CREATE INDEX jobs_state ON jobs (state, id);
CREATE INDEX jobs_begun ON jobs (begun, id);

CREATE TABLE commands (
    id {id}, node {text} NOT NULL, task {text} NOT NULL, made {int} NOT NULL,
    state {text} NOT NULL, message {text}){strict};
CREATE INDEX commands_node ON commands (node, state);
CREATE INDEX commands_state ON commands (state, made);

CREATE TABLE audit (
    id {int} PRIMARY KEY, time {int} NOT NULL, who {text} NOT NULL, action {text} NOT NULL,
    subject {text} NOT NULL, detail {text} NOT NULL, hash {blob} NOT NULL){strict};
";

/// What an administrator declares. The version of a row is the change of the site that wrote it.
pub(super) const OBJECTS: &str = "
CREATE TABLE objects (
    kind {text} NOT NULL, name {text} NOT NULL, version {int} NOT NULL, changed {int} NOT NULL,
    body {text} NOT NULL, PRIMARY KEY (kind, name)){strict};
";

/// Client options that the server sets for nodes, and what nodes tell about them.
pub(super) const NODE_OPTIONS: &str = "
CREATE TABLE node_options (
    node {text} PRIMARY KEY REFERENCES nodes ON DELETE CASCADE, options {text} NOT NULL,
    report {text}, reported {int}){strict};
";

/// A table, as a copy of the whole catalog needs to know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its primary key.
    pub(crate) key: &'static str,
    /// Whether the database gives its rows their numbers.
    pub(crate) is_numbered: bool,
}

const fn table(name: &'static str, key: &'static str) -> Table {
    Table { name, key, is_numbered: false }
}

const fn numbered(name: &'static str) -> Table {
    Table { name, key: "id", is_numbered: true }
}

/// All tables; those that refer to others stand behind them.
pub(crate) const TABLES: [Table; 28] = [
    table("settings", "key"),
    table("storage_servers", "name"),
    table("pools", "name"),
    table("domains", "name"),
    table("nodes", "name"),
    table("certificates", "serial"),
    table("storage_certificates", "serial"),
    table("tokens", "hash"),
    table("storage_tokens", "hash"),
    table("grants", "node, domain"),
    table("granted_keys", "key"),
    table("old_keys", "key"),
    table("removed_keys", "domain, key"),
    table("node_options", "node"),
    numbered("limits"),
    numbered("jobs"),
    numbered("commands"),
    table("objects", "kind, name"),
    table("schedule_states", "policy, schedule, node, source"),
    table("source_states", "node, source"),
    table("backup_states", "node, policy, source"),
    numbered("job_log"),
    table("snapshots", "domain, id"),
    table("deleted_sources", "node, policy, source"),
    table("upkeep_jobs", "job"),
    table("upkeep_states", "upkeep, schedule, domain"),
    table("domain_upkeep", "domain, task, upkeep"),
    table("audit", "id"),
];
