//! The handlers of all routes: read caller and request, call [`crate::control::Control`], reply.

pub(crate) mod commands;
pub(crate) mod domains;
pub(crate) mod enroll;
pub(crate) mod jobs;
pub(crate) mod nodes;
pub(crate) mod server;
pub(crate) mod storage_servers;

use crate::control::Control;
use axum::extract::State;
use std::sync::Arc;

/// The state of every handler.
pub(crate) type Server = State<Arc<Control>>;
