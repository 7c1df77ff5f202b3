//! What an administrator declares: `icecore server apply`, `export`, `policy`, `schedule` and the like.

mod apply;
mod export;
mod given;
mod objects;
mod retention;
mod shown;

pub(crate) use apply::Apply;
pub(crate) use export::Export;
pub(crate) use objects::{Action as ObjectAction, Objects, replace};
pub(crate) use retention::Retention;
