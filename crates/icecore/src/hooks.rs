//! Hooks: programs of this machine that run before and after a backup. Which there are, only the file `hooks.toml`
//! beside the identity of the agent says; command line, config file and server only name them.
//!
//! ```toml
//! [hook.dump-shop]
//! command = ["/usr/local/sbin/dump-shop", "--to", "/var/backups/shop"]
//! time-limit = "10m"
//! ```

mod run;

use crate::client_options::resolve::Resolved;
use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::node::allow;
use run::{Ended, Ending};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file.
pub(crate) const FILE: &str = "hooks.toml";
/// Most hooks of a machine, and words of one.
const HOOKS_MAX: usize = 64;
const WORDS_MAX: usize = 64;
/// Most bytes of a name.
const NAME_BYTES_MAX: usize = 64;
const LIMIT_DEFAULT: Duration = Duration::from_secs(10 * 60);
const LIMIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Listed {
    hook: BTreeMap<String, Hook>,
}

/// A program, without a shell.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Hook {
    /// The program by its full path, and its arguments.
    command: Vec<String>,
    /// It is ended when it takes longer.
    #[serde(default)]
    time_limit: Option<String>,
    /// The user of this machine as whom it runs; who runs the backup when missing.
    #[serde(default)]
    user: Option<String>,
}

impl Hook {
    fn limit(&self) -> std::result::Result<Duration, String> {
        let limit = self.time_limit.as_deref().map_or(Ok(LIMIT_DEFAULT), crate::wait::parse)?;
        if limit.is_zero() || limit > LIMIT_MAX {
            return Err("time-limit must be from 1s to 24h".to_owned());
        }
        Ok(limit)
    }

    /// User and group as whom it runs; `None` for ours.
    fn user(&self) -> std::result::Result<Option<(u32, u32)>, String> {
        let Some(name) = &self.user else { return Ok(None) };
        let passwd = std::fs::read_to_string("/etc/passwd").map_err(|error| error.to_string())?;
        let found = numbers_of(&passwd, name);
        found.map(Some).ok_or_else(|| format!("there is no user '{name}' in /etc/passwd"))
    }

    fn check(&self) -> std::result::Result<(), String> {
        let program = self.command.first().ok_or("command is empty")?;
        if !Path::new(program).is_absolute() {
            return Err(format!("'{program}' must be a full path"));
        }
        if self.command.len() > WORDS_MAX {
            return Err(format!("command has more than {WORDS_MAX} words"));
        }
        self.limit().map(drop)
    }
}

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stage {
    Pre,
    Post,
    OnFailure,
}

impl Stage {
    /// The option that names its hooks.
    fn option(self) -> &'static str {
        match self {
            Self::Pre => "hook-pre",
            Self::Post => "hook-post",
            Self::OnFailure => "hook-on-failure",
        }
    }

    /// What a hook is told.
    fn name(self) -> &'static str {
        match self {
            Self::Pre => "pre",
            Self::Post => "post",
            Self::OnFailure => "on-failure",
        }
    }
}

/// How a hook ended, as JSON shows it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HookReport {
    name: String,
    stage: Stage,
    #[serde(flatten)]
    ended: Ended,
}

/// The hooks of one backup.
pub(crate) struct Hooks<'a> {
    context: &'a Context,
    folder: PathBuf,
}

impl<'a> Hooks<'a> {
    /// Those that the options of `context` name.
    pub(crate) fn new(context: &'a Context) -> Self {
        Self { context, folder: context.agent_folder() }
    }

    /// Whether there is anything to run.
    pub(crate) fn are_named(resolved: &Resolved) -> bool {
        let all = [Stage::Pre, Stage::Post, Stage::OnFailure];
        all.iter().any(|stage| !resolved.chosen(stage.option()).is_empty())
    }

    /// Runs what was named for `stage`, one after the other. The first that fails before a backup keeps the others
    /// from running; later ones run whatever became of those before. `code` is how the backup ended.
    ///
    /// # Errors
    /// [`Code::HookFailed`] with the first that failed.
    pub(crate) fn run(&self, stage: Stage, code: Option<Code>) -> Result<Vec<HookReport>> {
        let (reports, done) = self.run_all(stage, code);
        done.map(|()| reports)
    }

    /// What runs after a backup that ended well, before it is told: how each hook ended, and the first that failed.
    pub(crate) fn after_good(&self, code: Code) -> (Vec<HookReport>, Result<()>) {
        let (reports, done) = self.run_all(Stage::Post, Some(code));
        (reports, done.map_err(|failure| failure.hint("The backup itself ended well before that.")))
    }

    fn run_all(&self, stage: Stage, code: Option<Code>) -> (Vec<HookReport>, Result<()>) {
        let chosen = self.context.resolved.chosen(stage.option()).iter();
        let names: Vec<_> = chosen.flat_map(|candidate| &candidate.values).collect();
        if names.is_empty() {
            return (Vec::new(), Ok(()));
        }
        let listed = match self.listed() {
            Ok(listed) => listed,
            Err(why) => return (Vec::new(), Err(failed(&format!("cannot use hooks: {why}")))),
        };
        let (mut reports, mut first) = (Vec::new(), Ok(()));
        for name in names {
            let (report, done) = self.one(&listed, &name.to_string_lossy(), stage, code);
            reports.extend(report);
            first = first.and(done);
            if stage == Stage::Pre && first.is_err() {
                break;
            }
        }
        (reports, first)
    }

    /// What runs after a backup that failed: how each hook ended. One that fails as well is told, and changes nothing.
    pub(crate) fn after_bad(&self, code: Code) -> Vec<HookReport> {
        let (mut reports, on_failure) = self.run_all(Stage::OnFailure, Some(code));
        let (post, after) = self.run_all(Stage::Post, Some(code));
        reports.extend(post);
        if let Err(failure) = on_failure.and(after) {
            self.context.out.note(&failure.message);
        }
        reports
    }

    fn one(
        &self,
        listed: &Listed,
        name: &str,
        stage: Stage,
        code: Option<Code>,
    ) -> (Option<HookReport>, Result<()>) {
        let file = self.folder.join(FILE);
        let Some(hook) = listed.hook.get(name) else {
            let why = format!("there is no hook '{name}' in {}", file.display());
            return (None, Err(failed(&why)));
        };
        let (limit, user) = match (hook.limit(), hook.user()) {
            (Ok(limit), Ok(user)) => (limit, user),
            (Err(why), _) | (_, Err(why)) => {
                return (None, Err(failed(&format!("hook {name}: {why}"))));
            }
        };
        // Those after a backup clean up, also when we are asked to stop.
        let is_stopped = || stage == Stage::Pre && self.context.is_cancelled();
        let ended =
            run::run(&hook.command, user, limit, &environment(name, stage, code), is_stopped);
        let said = format!("hook {name} ({}): {ended}", stage.name());
        let report = HookReport { name: name.to_owned(), stage, ended };
        if report.ended.ending == Ending::Good {
            self.context.out.beside("hook", &report, &said);
            return (Some(report), Ok(()));
        }
        let told = self.context.out.record("hook", &report); // people read it as the error
        let code = if is_stopped() { Code::Cancelled } else { Code::HookFailed };
        (Some(report), told.and(Err(Failure::new(code, said))))
    }

    fn listed(&self) -> std::result::Result<Listed, String> {
        let Some(text) = allow::own_file(&self.folder, FILE)? else {
            return Ok(Listed::default());
        };
        parse(&text).map_err(|why| format!("{}: {why}", self.folder.join(FILE).display()))
    }
}

/// User and group of a name. Not through NSS: a directory server may hang, and is not asked here.
fn numbers_of(passwd: &str, name: &str) -> Option<(u32, u32)> {
    let fields = |line: &str| -> Option<(u32, u32)> {
        let mut fields = line.split(':');
        fields.next().filter(|first| *first == name && !name.is_empty())?;
        let mut numbers = fields.skip(1).map(|field| field.parse().ok());
        Some((numbers.next()??, numbers.next()??))
    };
    passwd.lines().find_map(fields)
}

fn parse(text: &str) -> std::result::Result<Listed, String> {
    let listed: Listed = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    if listed.hook.len() > HOOKS_MAX {
        return Err(format!("it has more than {HOOKS_MAX} hooks"));
    }
    for (name, hook) in &listed.hook {
        parse_name(name)?;
        hook.check().map_err(|why| format!("hook {name}: {why}"))?;
    }
    Ok(listed)
}

/// The name of a hook: a word that is no path and no flag.
pub(crate) fn parse_name(text: &str) -> std::result::Result<String, String> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_name = !text.is_empty() && !text.starts_with('-') && text.len() <= NAME_BYTES_MAX;
    if is_name && text.bytes().all(is_good) {
        Ok(text.to_owned())
    } else {
        Err("the name of a hook has letters, digits, '-' and '_'".to_owned())
    }
}

/// All that a hook finds in its environment: nothing of ours, so no password either.
fn environment(name: &str, stage: Stage, code: Option<Code>) -> Vec<(&'static str, String)> {
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let mut all = vec![
        ("PATH", path.to_owned()),
        ("LANG", "C.UTF-8".to_owned()),
        ("ICECORE_HOOK", name.to_owned()),
        ("ICECORE_HOOK_STAGE", stage.name().to_owned()),
    ];
    all.extend(code.map(|code| ("ICECORE_HOOK_CODE", code.number().to_string())));
    all
}

fn failed(why: &str) -> Failure {
    Failure::new(Code::HookFailed, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hooks(count: usize, words: usize, limit: &str) -> String {
        let command = vec!["\"/bin/true\""; words].join(", ");
        let one =
            |number| format!("[hook.h{number}]\ncommand = [{command}]\ntime-limit = \"{limit}\"\n");
        (0..count).map(one).collect()
    }

    #[test]
    fn hooks_words_and_limits_are_bounded() {
        for (count, words, limit, is_good) in [
            (1, 1, "1s", true),
            (HOOKS_MAX, 1, "10m", true),
            (HOOKS_MAX + 1, 1, "10m", false),
            (1, WORDS_MAX, "24h", true),
            (1, WORDS_MAX + 1, "24h", false),
            (1, 0, "1s", false),
            (1, 1, "0s", false),
            (1, 1, "25h", false),
            (1, 1, "soon", false),
        ] {
            let read = parse(&hooks(count, words, limit));
            assert_eq!(read.is_ok(), is_good, "{count} {words} {limit}");
        }
    }

    #[test]
    fn programs_have_full_paths_and_names_are_words() {
        assert!(parse("[hook.a]\ncommand = [\"true\"]").unwrap_err().contains("full path"));
        assert!(parse("[hook.a]\ncommand = [\"/bin/true\"]\nshell = true").is_err());
        assert!(parse("[hook.\"a b\"]\ncommand = [\"/bin/true\"]").is_err());
        for (name, is_good) in [
            ("a".repeat(NAME_BYTES_MAX), true),
            ("a".repeat(NAME_BYTES_MAX + 1), false),
            (String::new(), false),
            ("-a".to_owned(), false),
            ("a/b".to_owned(), false),
            ("dump-shop_2".to_owned(), true),
        ] {
            assert_eq!(parse_name(&name).is_ok(), is_good, "{name}");
        }
    }

    #[test]
    fn a_user_is_found_by_the_whole_name() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\npostgres:x:105:110::/:/bin/sh\nbad:x:no:1::/:/x\n";
        assert_eq!(numbers_of(passwd, "postgres"), Some((105, 110)));
        for name in ["post", "", "bad", "nobody"] {
            assert_eq!(numbers_of(passwd, name), None, "{name}");
        }
    }

    #[test]
    fn a_hook_is_told_its_stage_and_nothing_of_ours() {
        let names = |code| {
            let all = environment("a", Stage::Post, code);
            all.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let plain = ["PATH", "LANG", "ICECORE_HOOK", "ICECORE_HOOK_STAGE"];
        assert_eq!(names(None), plain);
        assert_eq!(names(Some(Code::Partial)).last(), Some(&"ICECORE_HOOK_CODE"));
    }
}
