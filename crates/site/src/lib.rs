//! What an administrator declares: storage units, retentions, schedules, groups, policies, settings
//! of nodes, holds, upkeep, and quotas.
//!
//! A [`Site`] is all of them. It is one file for people ([`file`]), and for the catalog and the API one
//! JSON body for each object ([`Site::set`], [`Site::body`]). [`Site::check`] says what does not fit
//! together, [`Plan`] what a change does.
//!
//! Pure: text, time zones, snapshots and the time come in as values.

mod body;
mod check;
mod effects;
pub mod file;
mod group;
mod hold;
mod kind;
mod members;
mod moment;
mod name;
mod near;
mod node;
mod option;
mod parts;
mod plan;
mod policy;
mod quota;
mod rules;
mod said;
mod site;
mod unit;
mod upkeep;

pub use body::BodyError;
pub use check::{Known, LIST_MAX, PROBLEMS_MAX, Problem, TEXT_BYTES_MAX, Zones};
pub use effects::{Effect, EffectKind, Effects};
pub use group::Group;
pub use hold::Hold;
pub use kind::{Kind, KindError};
pub use moment::{Moment, MomentError};
pub use name::{NAME_BYTES_MAX, NameError, check_name};
pub use node::{Node, Paused};
pub use option::{ClientOption, OptionValue};
pub use parts::Part;
pub use plan::{Change, KeyChange, Plan, What};
pub use policy::{
    ChangeDetection, ClassRule, Compression, Hooks, MAIN_SOURCE, Policy, PolicyType, Source,
};
pub use quota::{Quota, Size, SizeError};
pub use retention::Retention;
pub use rules::{DEFAULT_CLASS, RulesError};
pub use said::{Said, SaidOfNode};
pub use schedule::Schedule;
pub use site::{OBJECTS_MAX, Site};
pub use unit::{DEFAULT_UNIT, Unit};
pub use upkeep::{
    DEFAULT_UPKEEP, ObjectLock, Percent, PercentError, Rate, RateError, Upkeep, UpkeepTask,
};

#[cfg(test)]
mod tests;
