//! Client options: what a backup, and the commands around it, can be told in more than one place. [`table`] lists
//! them once; from it follow what the config file, the environment and a server may say, which of several values is
//! in effect ([`resolve`]), and what `icecore options` shows.

pub(crate) mod apply;
pub(crate) mod resolve;
pub(crate) mod table;
pub(crate) mod typed;

use std::ffi::OsString;

/// Where a value comes from. The first one in this order is in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    /// Of the server, which forces it.
    Forced,
    CommandLine,
    Environment,
    /// A profile of the config file.
    Profile,
    /// The config file outside of its profiles.
    File,
    /// Of the server, for nodes that say nothing themselves.
    Suggested,
    Default,
}

impl Layer {
    /// Its name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Forced => "server-forced",
            Self::Suggested => "server-suggested",
            Self::CommandLine => "command-line",
            Self::Environment => "environment",
            Self::Profile => "profile",
            Self::File => "config-file",
            Self::Default => "default",
        }
    }
}

/// A value that somebody gave to an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The option: `name` of a row of the table.
    pub(crate) option: &'static str,
    pub(crate) layer: Layer,
    /// Where exactly, for people: a flag, a variable, a file with its line.
    pub(crate) place: String,
    /// One value, or those of a list.
    pub(crate) values: Vec<OsString>,
}

impl Candidate {
    /// Whether the server says it.
    pub(crate) fn is_of_server(&self) -> bool {
        matches!(self.layer, Layer::Forced | Layer::Suggested)
    }
}
