//! The handlers of all routes: read caller and request, call a topic, reply.

pub(crate) mod commands;
pub(crate) mod domains;
pub(crate) mod enroll;
pub(crate) mod events;
pub(crate) mod jobs;
pub(crate) mod nodes;
pub(crate) mod options;
pub(crate) mod pools;
pub(crate) mod quotas;
pub(crate) mod reports;
pub(crate) mod retention;
pub(crate) mod server;
pub(crate) mod sites;
pub(crate) mod storage_servers;
pub(crate) mod upkeep;
