//! The config file: defaults, and named profiles that override them. It may say every client option.
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
//! compression = 9
//! keep = { daily = 7, weekly = 5 }
//! ```

use crate::client_options::resolve::Resolved;
use crate::client_options::table::{self, Given, PATHS};
use crate::client_options::{Candidate, Layer};
use crate::failure::{Failure, Result, quoted};
use crate::home;
use crate::text_file;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// No config file has more.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// For all users of a machine.
const SYSTEM_FILE: &str = "/etc/icecore/config.toml";
const FILE: &str = "icecore/config.toml";
/// Keys of the file that are no client options.
const PROFILE: &str = "profile";
const KEEP: &str = "keep";

/// What the config file says, with the profile that was chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    /// The file, if there is one.
    pub(crate) file: Option<PathBuf>,
    /// Client options: those of the profile first.
    pub(crate) options: Vec<Candidate>,
    /// What `forget` keeps when no rule is given.
    pub(crate) keep: Option<Retention>,
    /// Whether the profile says that, and not the rest of the file.
    pub(crate) keep_is_of_profile: bool,
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

impl Retention {
    /// Each rule with its value, as the file has them.
    pub(crate) fn words(&self) -> Vec<String> {
        let amounts = [
            ("last", &self.last),
            ("hourly", &self.hourly),
            ("daily", &self.daily),
            ("weekly", &self.weekly),
            ("monthly", &self.monthly),
            ("yearly", &self.yearly),
        ];
        let amounts =
            amounts.map(|(name, amount)| (name, amount.as_ref().map(ToString::to_string)));
        let texts = [
            ("within", self.within.clone()),
            ("within-hourly", self.within_hourly.clone()),
            ("within-daily", self.within_daily.clone()),
            ("within-weekly", self.within_weekly.clone()),
            ("within-monthly", self.within_monthly.clone()),
            ("within-yearly", self.within_yearly.clone()),
            ("tags", self.tags.as_ref().map(|tags| tags.join(","))),
            ("group-by", self.group_by.clone()),
        ];
        let all = amounts.into_iter().chain(texts);
        all.filter_map(|(name, value)| Some(format!("{name}={}", value?))).collect()
    }
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

/// What the file says beside client options.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Rest {
    keep: Option<Retention>,
    profile: BTreeMap<String, OfProfile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OfProfile {
    keep: Option<Retention>,
}

/// A mistake in a file, with the byte where it is.
type Mistake = (usize, String);

impl Profile {
    /// The profile `name` of the first config file that exists; without a name its defaults.
    pub(crate) fn load(name: Option<&str>) -> Result<Self> {
        for file in config_files() {
            match text_file::found(&file, FILE_BYTES_MAX) {
                Ok(text) => {
                    let profile =
                        Self::parse(&text, name, &file).map_err(|reason| wrong(&file, &reason))?;
                    if profile.options.iter().any(|one| one.option == "password-command") {
                        is_ours(&file)?;
                    }
                    return Ok(profile);
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    return Err(wrong(&file, &error.to_string()));
                }
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

    /// Reads the text of `file`.
    pub(crate) fn parse(
        text: &str,
        name: Option<&str>,
        file: &Path,
    ) -> std::result::Result<Self, String> {
        let said = |error: toml::de::Error| said(text, &error);
        let table = DeTable::parse(text).map_err(said)?;
        let reader = Reader { text, file };
        let (mut options, mut profiles) = reader.root(table.get_ref())?;
        let Rest { keep, profile: mut rest } = toml::from_str(text).map_err(said)?;
        let file = Some(file.to_owned());
        let Some(name) = name else {
            return Ok(Self { file, options, keep, keep_is_of_profile: false });
        };
        let own = profiles.remove(name).ok_or_else(|| {
            let known: Vec<_> = profiles.keys().cloned().collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            format!("there is no profile '{name}'; there are: {known}")
        })?;
        options.splice(0..0, own);
        let own_keep = rest.remove(name).and_then(|rest| rest.keep);
        let keep_is_of_profile = own_keep.is_some();
        Ok(Self { file, options, keep: own_keep.or(keep), keep_is_of_profile })
    }
}

/// Reads client options out of the tables of a file.
struct Reader<'a> {
    text: &'a str,
    file: &'a Path,
}

/// Options of the file, and of each of its profiles.
type Read = (Vec<Candidate>, BTreeMap<String, Vec<Candidate>>);

impl Reader<'_> {
    fn root(&self, table: &DeTable<'_>) -> std::result::Result<Read, String> {
        let options = self.options(table, Layer::File, &[KEEP, PROFILE])?;
        let mut profiles = BTreeMap::new();
        let sections = table.get(PROFILE).and_then(|value| value.get_ref().as_table());
        for (name, value) in sections.into_iter().flatten() {
            let own = value.get_ref().as_table().ok_or_else(|| {
                self.said((value.span().start, format!("`{}` is no profile", name.get_ref())))
            })?;
            let own = self.options(own, Layer::Profile, &[KEEP])?;
            profiles.insert(name.get_ref().to_string(), own);
        }
        Ok((options, profiles))
    }

    fn options(
        &self,
        table: &DeTable<'_>,
        layer: Layer,
        others: &[&str],
    ) -> std::result::Result<Vec<Candidate>, String> {
        let own = table.iter().filter(|(key, _)| !others.contains(&key.get_ref().as_ref()));
        own.map(|(key, value)| self.option(key, value, layer).map_err(|error| self.said(error)))
            .collect()
    }

    fn option(
        &self,
        key: &Spanned<impl AsRef<str>>,
        value: &Spanned<DeValue<'_>>,
        layer: Layer,
    ) -> std::result::Result<Candidate, Mistake> {
        let name = key.get_ref().as_ref();
        let at = key.span().start;
        let row = table::row(name).filter(|row| row.in_file).ok_or_else(|| {
            let known = table::TABLE.iter().filter(|row| row.in_file);
            let known: Vec<_> = known.map(|row| format!("`{}`", row.name)).collect();
            (at, format!("there is no option `{name}`; there are: {}, `keep`", known.join(", ")))
        })?;
        let values = row.read(given(value.get_ref())).map_err(|why| (at, why))?;
        let place = format!("{}:{}", self.file.display(), line(self.text, at));
        Ok(Candidate { option: row.name, layer, place, values })
    }

    fn said(&self, (at, why): Mistake) -> String {
        format!("line {}: {why}", line(self.text, at))
    }
}

/// A value of the file, as options take it.
fn given(value: &DeValue<'_>) -> Given {
    match value {
        DeValue::String(text) => Given::Text(text.to_string()),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Given::Number(number.to_string()),
            Err(_) => Given::Other("no integer of a usual size"),
        },
        DeValue::Boolean(is_on) => Given::Switch(*is_on),
        DeValue::Array(items) => {
            let texts = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
            texts.collect::<Option<_>>().map_or(Given::Other("a mixed array"), Given::List)
        }
        DeValue::Float(_) => Given::Other("a number with a fraction"),
        DeValue::Datetime(_) => Given::Other("a time"),
        DeValue::Table(_) => Given::Other("a table"),
    }
}

/// The paths that are named elsewhere than on the command line, as the system takes them. A relative one would depend
/// on where somebody stands.
pub(crate) fn own_paths(resolved: &Resolved) -> Result<Vec<PathBuf>> {
    let chosen = resolved.chosen(PATHS).last();
    let Some(chosen) = chosen.filter(|chosen| chosen.layer != Layer::CommandLine) else {
        return Ok(Vec::new());
    };
    let home = home::folder();
    let own = |path: &OsStr| match (Path::new(path).strip_prefix("~"), &home) {
        (Ok(rest), Some(home)) => Ok(home.join(rest)),
        _ if Path::new(path).is_absolute() => Ok(PathBuf::from(path)),
        _ => Err(Failure::usage(format!(
            "'{}' in `paths` ({}) must begin with / or ~/",
            path.display(),
            chosen.place
        ))
        .hint("Write the full path: a relative path would depend on the current directory.")),
    };
    chosen.values.iter().map(|path| own(path)).collect()
}

/// The user's file, then that of the machine.
fn config_files() -> Vec<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = absolute("XDG_CONFIG_HOME").or_else(|| Some(home::folder()?.join(".config")));
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
    let said = match error.span() {
        Some(span) => format!("line {}: {}", line(text, span.start), error.message()),
        None => error.to_string(), // names the key instead
    };
    said.trim_end().replace('\n', ", ")
}

/// The line of the byte `at`.
fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
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

    fn parse(text: &str, name: Option<&str>) -> std::result::Result<Profile, String> {
        Profile::parse(text, name, Path::new("/c.toml"))
    }

    fn chosen(profile: &Profile, option: &str) -> Option<(String, String)> {
        let resolved = Resolved::new(profile.options.clone());
        let chosen = resolved.chosen(option).last()?;
        let values: Vec<_> = chosen.values.iter().map(|value| value.to_string_lossy()).collect();
        Some((values.join(" "), chosen.place.clone()))
    }

    #[test]
    fn a_profile_overrides_the_defaults() {
        let plain = parse(TEXT, None).unwrap();
        assert_eq!(chosen(&plain, "repo"), Some(("/a".into(), "/c.toml:2".into())));
        let named = parse(TEXT, Some("b")).unwrap();
        assert_eq!(chosen(&named, "repo"), Some(("/b".into(), "/c.toml:6".into())));
        assert_eq!(chosen(&named, "tags"), Some(("x".into(), "/c.toml:4".into())));
        assert_eq!(chosen(&named, "password-file"), Some(("/b.pass".into(), "/c.toml:7".into())));
        assert_eq!(chosen(&named, "password-command"), None);
    }

    #[test]
    fn paths_and_what_to_keep_are_of_the_profile() {
        let text = "paths = [\"/etc\"]\n[keep]\nlast = 3\n[profile.b]\npaths = [\"rel\"]\nkeep = { daily = \"unlimited\" }";
        let paths = |profile: &Profile| own_paths(&Resolved::new(profile.options.clone()));
        let plain = parse(text, None).unwrap();
        assert_eq!(paths(&plain).unwrap(), [PathBuf::from("/etc")]);
        assert_eq!(plain.keep.unwrap().last, Some(Amount::Number(3)));
        let named = parse(text, Some("b")).unwrap();
        assert!(paths(&named).is_err());
        let keep = named.keep.unwrap();
        assert_eq!((keep.last, keep.daily), (None, Some(Amount::Word("unlimited".into()))));
        assert!(parse("keep = { dayly = 3 }", None).unwrap_err().contains("dayly"));
    }

    #[test]
    fn values_of_every_kind_are_read() {
        let text = "compression = -3\nfull = true\nlimit-read = \"20M\"\ntags = [\"a\", \"b\"]\nnice = 0x0a";
        let profile = parse(text, None).unwrap();
        for (option, value) in [
            ("compression", "-3"),
            ("full", "true"),
            ("limit-read", "20M"),
            ("tags", "a b"),
            ("nice", "10"),
        ] {
            assert_eq!(chosen(&profile, option).unwrap().0, value);
        }
        for text in [
            "nice = 1.5",
            "tags = [1]",
            "full = \"yes\"",
            "paths = { a = 1 }",
            "profile = 3",
            "[profile]\na = 3",
        ] {
            assert!(parse(text, None).is_err(), "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        assert!(parse(TEXT, Some("c")).unwrap_err().contains("there are: b"));
        assert!(parse("repos = \"/a\"", None).unwrap_err().contains("repos"));
        assert!(parse("[profile.a]\nnodes = 1", Some("a")).unwrap_err().contains("nodes"));
        assert!(parse("repo = ", None).is_err());
    }
}
