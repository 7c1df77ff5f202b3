//! The config file: defaults, and named profiles that override them.
//!
//! ```toml
//! repo = "/mnt/backup"
//! password-file = "/etc/icecore/password"
//! exclude = ["*.tmp"]
//!
//! [profile.laptop]
//! repo = "/media/disk/backup"
//! tags = ["laptop"]
//! paths = ["/etc", "~/work"]
//! keep = { daily = 7, weekly = 5 }
//! ```

use crate::failure::{Failure, Result, quoted};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// For all users of a machine.
const SYSTEM_FILE: &str = "/etc/icecore/config.toml";
const FILE: &str = "icecore/config.toml";

/// What a profile may say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct Profile {
    pub(crate) repo: Option<PathBuf>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) password_command: Option<String>,
    pub(crate) exclude: Option<Vec<String>>,
    pub(crate) tags: Option<Vec<String>>,
    pub(crate) node: Option<String>,
    /// What `backup` takes when no PATH is given: from `/` or `~/`.
    pub(crate) paths: Option<Vec<String>>,
    /// What `forget` keeps when no rule is given.
    pub(crate) keep: Option<Retention>,
}

/// What to keep, as the flags of `forget` say it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct Retention {
    pub(crate) last: Option<Amount>,
    pub(crate) hourly: Option<Amount>,
    pub(crate) daily: Option<Amount>,
    pub(crate) weekly: Option<Amount>,
    pub(crate) monthly: Option<Amount>,
    pub(crate) yearly: Option<Amount>,
    pub(crate) within: Option<String>,
    pub(crate) within_hourly: Option<String>,
    pub(crate) within_daily: Option<String>,
    pub(crate) within_weekly: Option<String>,
    pub(crate) within_monthly: Option<String>,
    pub(crate) within_yearly: Option<String>,
    pub(crate) tags: Option<Vec<String>>,
    pub(crate) group_by: Option<String>,
}

/// A number, or a word such as `unlimited`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Amount {
    Number(i64),
    Word(String),
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Word(word) => word.fmt(f),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Config {
    profile: BTreeMap<String, Profile>,
    #[serde(flatten)]
    defaults: BTreeMap<String, toml::Value>,
}

impl Profile {
    /// The profile `name` of the first config file that exists; without a name its defaults.
    pub(crate) fn load(name: Option<&str>) -> Result<Self> {
        for file in config_files() {
            match std::fs::read_to_string(&file) {
                Ok(text) => {
                    let profile =
                        Self::parse(&text, name).map_err(|reason| wrong(&file, &reason))?;
                    if profile.password_command.is_some() {
                        is_ours(&file)?;
                    }
                    return Ok(profile);
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => return Err(Failure::file(&file, &error)),
            }
        }
        name.map_or(Ok(Self::default()), |name| {
            let failure = Failure::usage(format!(
                "there is no profile '{name}', because there is no config file"
            ));
            let own = config_files().swap_remove(0);
            Err(failure
                .hint(format!("Create one: {}, or {SYSTEM_FILE} for all users", own.display())))
        })
    }

    pub(crate) fn parse(text: &str, name: Option<&str>) -> std::result::Result<Self, String> {
        let said = |error: toml::de::Error| said(text, &error);
        let config: Config = toml::from_str(text).map_err(said)?;
        let defaults = toml::Table::from_iter(config.defaults);
        let defaults: Self = defaults.try_into().map_err(said)?;
        let Some(name) = name else { return Ok(defaults) };
        let known: Vec<_> = config.profile.keys().cloned().collect();
        let own = config.profile.get(name).cloned();
        let own = own.ok_or_else(|| {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            format!("there is no profile '{name}'; there are: {known}")
        })?;
        Ok(own.or(defaults))
    }

    /// The more specific source of the password hides the other one.
    fn or(self, other: Self) -> Self {
        let has_password = self.password_file.is_some() || self.password_command.is_some();
        let password = if has_password { Self::default() } else { other.clone() };
        Self {
            repo: self.repo.or(other.repo),
            password_file: self.password_file.or(password.password_file),
            password_command: self.password_command.or(password.password_command),
            exclude: self.exclude.or(other.exclude),
            tags: self.tags.or(other.tags),
            node: self.node.or(other.node),
            paths: self.paths.or(other.paths),
            keep: self.keep.or(other.keep),
        }
    }

    /// The paths as the system takes them. A relative one would depend on where somebody stands.
    pub(crate) fn own_paths(&self) -> Result<Vec<PathBuf>> {
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let own = |path: &String| match (path.strip_prefix("~/"), &home) {
            _ if path.starts_with('/') => Ok(PathBuf::from(path)),
            (Some(rest), Some(home)) => Ok(home.join(rest)),
            _ if path == "~" && home.is_some() => Ok(home.clone().unwrap_or_default()),
            _ => Err(Failure::usage(format!(
                "'{path}' in `paths` of the config file must begin with / or ~/"
            ))
            .hint("Write the full path: a relative path would depend on the current directory.")),
        };
        self.paths.iter().flatten().map(own).collect()
    }
}

/// The user's file, then that of the machine.
fn config_files() -> Vec<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    home.map(|home| home.join(FILE)).into_iter().chain([PathBuf::from(SYSTEM_FILE)]).collect()
}

/// A command that runs as we do may be said by us and root alone.
fn is_ours(file: &Path) -> Result<()> {
    let status = std::fs::metadata(file).map_err(|error| Failure::file(file, &error))?;
    let owner = status.uid();
    let shown = quoted(&file.display().to_string());
    let (why, hint) = if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        ("it belongs to another user", format!("See the owner: ls -l {shown}"))
    } else if status.mode() & 0o022 != 0 {
        ("others can write to it", format!("Forbid that: chmod go-w {shown}"))
    } else {
        return Ok(());
    };
    let text = format!("the config file {} sets password-command, but {why}", file.display());
    Err(Failure::new(crate::codes::Code::NotAllowed, text).hint(hint))
}

fn wrong(file: &Path, reason: &str) -> Failure {
    Failure::usage(format!("the config file {}: {reason}", file.display()))
        .hint(format!("Correct it: \"${{EDITOR:-vi}}\" {}", quoted(&file.display().to_string())))
}

/// On one line; the excerpt that the parser draws needs many.
fn said(text: &str, error: &toml::de::Error) -> String {
    let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let said = match error.span() {
        Some(span) => format!("line {}: {}", line(span.start), error.message()),
        None => error.to_string(), // names the key instead
    };
    said.trim_end().replace('\n', ", ")
}

/// The blocks of TOML in the guides.
#[cfg(test)]
pub(crate) fn blocks_of_guides() -> Vec<&'static str> {
    let guides = [
        include_str!("../../../docs/GUIDE-ONE-MACHINE.md"),
        include_str!("../../../docs/GUIDE-SERVER.md"),
    ];
    let blocks = guides.iter().flat_map(|text| text.split("```toml\n").skip(1));
    blocks.filter_map(|block| block.split("```").next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        repo = "/a"
        password-command = "pass show a"
        tags = ["x"]
        [profile.b]
        repo = "/b"
        password-file = "/b.pass"
    "#;

    #[test]
    fn a_profile_overrides_the_defaults() {
        let plain = Profile::parse(TEXT, None).unwrap();
        assert_eq!(plain.repo, Some("/a".into()));
        let named = Profile::parse(TEXT, Some("b")).unwrap();
        assert_eq!(named.repo, Some("/b".into()));
        assert_eq!(named.tags, Some(vec!["x".into()]));
        assert_eq!((named.password_file, named.password_command), (Some("/b.pass".into()), None));
    }

    #[test]
    fn paths_and_what_to_keep_are_of_the_profile() {
        let text = "paths = [\"/etc\"]\n[keep]\nlast = 3\n[profile.b]\npaths = [\"rel\"]\nkeep = { daily = \"unlimited\" }";
        let plain = Profile::parse(text, None).unwrap();
        assert_eq!(plain.own_paths().unwrap(), [PathBuf::from("/etc")]);
        assert_eq!(plain.keep.unwrap().last, Some(Amount::Number(3)));
        let named = Profile::parse(text, Some("b")).unwrap();
        assert!(named.own_paths().is_err());
        let keep = named.keep.unwrap();
        assert_eq!((keep.last, keep.daily), (None, Some(Amount::Word("unlimited".into()))));
        assert!(Profile::parse("keep = { dayly = 3 }", None).unwrap_err().contains("dayly"));
    }

    #[test]
    fn mistakes_are_named() {
        assert!(Profile::parse(TEXT, Some("c")).unwrap_err().contains("there are: b"));
        assert!(Profile::parse("repos = \"/a\"", None).unwrap_err().contains("repos"));
        assert!(Profile::parse("[profile.a]\nnodes = 1", Some("a")).unwrap_err().contains("nodes"));
        assert!(Profile::parse("repo = ", None).is_err());
    }
}
