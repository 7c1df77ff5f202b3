//! What the handlers of the API get: the topic that each needs.

use crate::Control;
use crate::catalog_mark::CatalogMark;
use crate::commands::Commands;
use crate::domains::Domains;
use crate::enroll::Enrollment;
use crate::events::Events;
use crate::forget::ForgetPermissions;
use crate::grants::Grants;
use crate::jobs::Jobs;
use crate::limits::Limits;
use crate::nodes::Nodes;
use crate::options::ClientOptions;
use crate::permissions::Permissions;
use crate::placing::Placing;
use crate::pools::Pools;
use crate::protection::ProtectionView;
use crate::quotas::Quotas;
use crate::reports::Reports;
use crate::retention::Retention;
use crate::scheduler::Scheduler;
use crate::sites::Sites;
use crate::status::ServerStatus;
use crate::storage_servers::{StorageServerRequests, StorageServers};
use crate::tokens::Tokens;
use crate::upkeep::Upkeep;
use axum::extract::{FromRef, State};
use std::sync::Arc;

/// The state of the router; only the extractors of callers see all of it.
#[derive(Clone)]
pub(crate) struct Server(pub(super) Arc<Control>);

/// The topic `T`, as a parameter of a handler.
pub(crate) type Topic<T> = State<Arc<T>>;

macro_rules! topics {
    ($($field:ident: $topic:ty,)*) => {$(
        impl FromRef<Server> for Arc<$topic> {
            fn from_ref(server: &Server) -> Self {
                server.0.$field.clone()
            }
        }
    )*};
}

topics! {
    client_options: ClientOptions,
    commands: Commands,
    domains: Domains,
    enrollment: Enrollment,
    events: Events,
    forget_permissions: ForgetPermissions,
    grants: Grants,
    jobs: Jobs,
    limits: Limits,
    mark: CatalogMark,
    nodes: Nodes,
    permissions: Permissions,
    placing: Placing,
    pools: Pools,
    protection: ProtectionView,
    quotas: Quotas,
    reports: Reports,
    retention: Retention,
    sites: Sites,
    scheduler: Scheduler,
    status: ServerStatus,
    storage_server_requests: StorageServerRequests,
    storage_servers: StorageServers,
    tokens: Tokens,
    upkeep: Upkeep,
}
