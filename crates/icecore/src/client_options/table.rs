//! The table of client options.

use std::ffi::OsString;

/// What values an option has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    /// A number, or a text such as `20M` or `auto`.
    Amount,
    Switch,
    /// Several texts. Who gives some replaces those of lower layers.
    List,
    /// Several texts. Those of all layers count.
    Sum,
    /// Never shown.
    Secret,
}

/// A client option. `name` is its key in the config file and for a server; in capitals, behind `ICECORE_`, its
/// variable.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Its flag without `--`; empty if it has none.
    pub(crate) flag: &'static str,
    pub(crate) kind: Kind,
    /// What is in effect when nobody says anything, for people.
    pub(crate) default: &'static str,
    /// Options of a group exclude each other: of them all, the value of the first layer is in effect.
    pub(crate) group: &'static str,
    /// Whether the config file may say it.
    pub(crate) in_file: bool,
    /// Whether a server may say it. Not what chooses the repository or the source, what takes files into a backup that
    /// the node leaves out, or what names a path or a program of the node.
    pub(crate) by_server: bool,
}

impl Row {
    const fn new(name: &'static str, kind: Kind, default: &'static str) -> Self {
        Self { name, flag: name, kind, default, group: "", in_file: true, by_server: false }
    }

    const fn flag(self, flag: &'static str) -> Self {
        Self { flag, ..self }
    }

    const fn group(self, group: &'static str) -> Self {
        Self { group, ..self }
    }

    const fn not_in_file(self) -> Self {
        Self { in_file: false, ..self }
    }

    const fn by_server(self) -> Self {
        Self { by_server: true, ..self }
    }

    /// Its environment variable.
    pub(crate) fn variable(&self) -> String {
        format!("ICECORE_{}", self.name.to_ascii_uppercase().replace('-', "_"))
    }

    /// Whether it has several values.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List | Kind::Sum)
    }
}

/// Passwords: a file, a command and the password itself exclude each other.
pub(crate) const PASSWORD: &str = "password";
/// What is excluded has its own rules: see `excludes` of `icecore backup`.
pub(crate) const EXCLUDE: &str = "exclude";
/// Paths have no flag.
pub(crate) const PATHS: &str = "paths";

use Kind::{Amount, List, Secret, Sum, Switch, Text};

/// All client options, as `icecore options` shows them.
pub(crate) static TABLE: [Row; 43] = [
    Row::new("repo", Text, "none"),
    Row::new("copies", List, "none"),
    Row::new(PASSWORD, Secret, "asked for").flag("").group(PASSWORD).not_in_file(),
    Row::new("password-file", Text, "none").group(PASSWORD),
    Row::new("password-command", Text, "none").group(PASSWORD),
    Row::new("profile", Text, "none").not_in_file(),
    Row::new("agent-dir", Text, "by user").not_in_file(),
    Row::new("domain", Text, "the node's own").not_in_file(),
    Row::new(PATHS, List, "none").flag(""),
    Row::new("node", Text, "the host name"),
    Row::new("tags", List, "none").flag("tag").by_server(),
    Row::new(EXCLUDE, Sum, "none").by_server(),
    Row::new("exclude-from", Sum, "none"),
    Row::new("exclude-if-present", Sum, "none"),
    Row::new("exclude-larger-than", Amount, "no limit"),
    Row::new("exclude-older-than", Text, "no limit"),
    Row::new("exclude-newer-than", Text, "no limit"),
    Row::new("gitignore", Switch, "false"),
    Row::new("nodump", Switch, "false"),
    Row::new("no-cache-tags", Switch, "false"),
    Row::new("one-file-system", Switch, "false"),
    Row::new("skip-if-unchanged", Switch, "false").by_server(),
    Row::new("full", Switch, "false"),
    Row::new("ignore-inode", Switch, "false"),
    Row::new("verify-blocks", Switch, "false").by_server(),
    Row::new("compression", Amount, "auto").by_server(),
    Row::new("parallel", Amount, "auto").group("parallel").by_server(),
    Row::new("threads", Amount, "by disks").group("parallel").by_server(),
    Row::new("streams", Amount, "by throughput").by_server(),
    Row::new("socket-buffer", Amount, "by system").by_server(),
    Row::new("nice", Amount, "0").by_server(),
    Row::new("idle-io", Switch, "false").by_server(),
    Row::new("limit-read", Amount, "no limit").by_server(),
    Row::new("limit-write", Amount, "no limit").by_server(),
    Row::new("limit-cpu", Amount, "no limit").by_server(),
    Row::new("checkpoint-bytes", Amount, "no limit").by_server(),
    Row::new("checkpoint-objects", Amount, "no limit").by_server(),
    Row::new("chunk-cache", Text, "by user"),
    Row::new("chunk-cache-size", Amount, "1G").by_server(),
    Row::new("report", Text, "summary"),
    Row::new("hook-pre", Sum, "none").by_server(),
    Row::new("hook-post", Sum, "none").by_server(),
    Row::new("hook-on-failure", Sum, "none").by_server(),
];

/// The row of `name`.
pub(crate) fn row(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}

/// A value as TOML or JSON have it.
pub(crate) enum Given {
    Text(String),
    Number(String),
    Switch(bool),
    List(Vec<String>),
    /// What no option takes, by its name.
    Other(&'static str),
}

impl Given {
    fn name(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Number(_) => "an integer",
            Self::Switch(_) => "a boolean",
            Self::List(_) => "an array of strings",
            Self::Other(name) => name,
        }
    }
}

impl Row {
    /// The values in `given`.
    ///
    /// # Errors
    /// What was expected instead, for people.
    pub(crate) fn read(&self, given: Given) -> Result<Vec<OsString>, String> {
        let one = |text: String| Ok(vec![OsString::from(text)]);
        match (self.kind, given) {
            (Text | Amount, Given::Text(text)) | (Amount, Given::Number(text)) => one(text),
            (Switch, Given::Switch(is_on)) => one(is_on.to_string()),
            (List | Sum, Given::List(texts)) => Ok(texts.into_iter().map(Into::into).collect()),
            (_, given) => {
                let expected = match self.kind {
                    Text | Secret => "a string",
                    Amount => "a string or an integer",
                    Switch => "true or false",
                    List | Sum => "an array of strings",
                };
                Err(format!("`{}` is {}, but must be {expected}", self.name, given.name()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_flags_are_there_once() {
        let mut names: Vec<_> = TABLE.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TABLE.len());
        assert_eq!(row("chunk-cache-size").unwrap().variable(), "ICECORE_CHUNK_CACHE_SIZE");
    }

    #[test]
    fn each_kind_takes_its_own_values_and_no_others() {
        let read = |name: &str, given| row(name).unwrap().read(given);
        assert_eq!(read("nice", Given::Number("3".into())).unwrap(), ["3"]);
        assert_eq!(read("limit-read", Given::Text("3M".into())).unwrap(), ["3M"]);
        assert_eq!(read("full", Given::Switch(false)).unwrap(), ["false"]);
        assert_eq!(read("tags", Given::List(vec!["a".into()])).unwrap(), ["a"]);
        for (name, given) in [
            ("repo", Given::Number("3".into())),
            ("full", Given::Text("true".into())),
            ("tags", Given::Text("a".into())),
            ("nice", Given::Switch(true)),
            ("password", Given::Text("x".into())),
            ("nice", Given::Other("a table")),
        ] {
            assert!(read(name, given).unwrap_err().contains(name));
        }
    }
}
