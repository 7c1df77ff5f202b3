//! `icecore server policy`, `schedule`, `retention`, `unit`, `group`, `node`, `hold`: one code for all.

use super::{given, shown};
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::commands::server::ago;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Result};
use crate::table::{Table, flexible, left};
use ::site::Kind;
use api::jobs::{StartPolicy, StartedPolicy};
use api::sites::{PutObject, SiteChange, SiteObject, SiteObjects};
use serde::Serialize;
use serde_json::{Value, json};

/// Objects of one kind.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server unit create fast --set max_jobs=8\n  icecore server policy create web --set 'paths=[\"/etc\", \"/srv\"]' --set 'nodes=[\"web-01\"]' --set 'promise=26 hours'\n  icecore server policy change web --set unit=fast --unset promise\n  icecore server policy show web > web.toml\n  icecore server node change web-01 --set labels.role=web\n  icecore server hold remove case-17\n\nKeys and values are those of a file for `icecore server apply`. For all objects at once: icecore server export"
)]
pub(crate) struct Objects {
    #[command(subcommand)]
    action: Action,
}

/// What is done with them.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Action {
    /// List these objects.
    List,
    /// Show an object as it stands in a file.
    Show {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Create an object.
    Create {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        given: given::Given,
        /// Show what would change, and change nothing.
        #[arg(short = 'n', long)]
        dry_run: bool,
        /// Do not ask, even if snapshots will be deleted as a result.
        #[arg(short, long)]
        yes: bool,
    },
    /// Change keys of an object; the others stay as they are.
    Change {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        given: given::Given,
        /// Remove a key, so that its default applies. Can be repeated.
        #[arg(short, long, value_name = "KEY")]
        unset: Vec<String>,
        /// Show what would change, and change nothing.
        #[arg(short = 'n', long)]
        dry_run: bool,
        /// Do not ask, even if snapshots will be deleted as a result.
        #[arg(short, long)]
        yes: bool,
    },
    /// Remove an object that no other one uses.
    #[command(alias = "release")]
    Remove {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
        /// Show what would change, and change nothing.
        #[arg(short = 'n', long)]
        dry_run: bool,
        /// Do not ask, even if snapshots will be deleted as a result.
        #[arg(short, long)]
        yes: bool,
    },
}

#[derive(Serialize)]
struct Count {
    version: u64,
    objects: usize,
}

impl Objects {
    pub(crate) fn run(&self, kind: Kind, reach: &Reach, context: &Context) -> Result<Code> {
        self.action.run(kind, reach, context)
    }
}

impl Action {
    pub(crate) fn run(&self, kind: Kind, reach: &Reach, context: &Context) -> Result<Code> {
        match self {
            Action::List => list(kind, reach, context),
            Action::Show { name } => show(&get(kind, name, reach)?, context),
            Action::Create { name, given, dry_run, yes } => {
                let (body, path) = (given.on((kind, name), json!({}))?, path(kind, name)?);
                let put = |dry_run| {
                    reach.put(&path, &PutObject { version: None, body: body.clone(), dry_run })
                };
                let code = shown::confirmed([*dry_run, *yes], put, context)?;
                warn_if_idle((kind, name), *dry_run, reach, context);
                Ok(code)
            }
            Action::Change { name, given, unset, dry_run, yes } => {
                if !given.is_any() && unset.is_empty() {
                    return Err(Failure::usage("nothing to change was given")
                        .hint("Give --set KEY=VALUE, --unset KEY or --from FILE"));
                }
                let seen = get(kind, name, reach)?;
                let mut body = given.on((kind, name), seen.body)?;
                unset.iter().try_for_each(|key| remove_key(&mut body, key))?;
                let (version, path) = (Some(seen.version), path(kind, name)?);
                let put =
                    |dry_run| reach.put(&path, &PutObject { version, body: body.clone(), dry_run });
                let code = shown::confirmed([*dry_run, *yes], put, context)?;
                warn_if_idle((kind, name), *dry_run, reach, context);
                Ok(code)
            }
            Action::Remove { name, dry_run, yes } => {
                let (seen, path) = (get(kind, name, reach)?, path(kind, name)?);
                let version = seen.version;
                let remove = |dry_run| -> Result<SiteChange> {
                    reach.delete(&format!("{path}?version={version}&dry_run={dry_run}"))
                };
                shown::confirmed([*dry_run, *yes], remove, context)
            }
        }
    }
}

/// Says so if a policy that was changed backs up nothing now: a label may be misspelt.
fn warn_if_idle((kind, name): (Kind, &str), is_dry_run: bool, reach: &Reach, context: &Context) {
    if kind != Kind::Policy || is_dry_run || context.out.json {
        return;
    }
    let start = StartPolicy { dry_run: true, ..StartPolicy::default() };
    let would: Result<StartedPolicy> = reach.post(&format!("/policies/{name}/start"), &start);
    if let Err(failure) = would
        && failure.code == Code::Usage
    {
        context.out.note(&format!("warning: {}", failure.message));
    }
}

/// Creates an object, or replaces the one of this name.
pub(crate) fn replace(
    kind: Kind,
    (name, body): (&str, &Value),
    reach: &Reach,
    context: &Context,
) -> Result<Code> {
    let SiteObjects { objects, .. } = reach.get(&format!("/objects/{kind}"))?;
    let seen = objects.iter().find(|object| object.name == name);
    let (version, path) = (seen.map(|seen| seen.version), path(kind, name)?);
    let put = |dry_run| reach.put(&path, &PutObject { version, body: body.clone(), dry_run });
    shown::confirmed([false, true], put, context)
}

fn remove_key(body: &mut Value, key: &str) -> Result<()> {
    if given::unset(body, key)? {
        return Ok(());
    }
    Err(Failure::usage(format!("the key '{key}' is not set")))
}

/// Where the object is in the API. Only a name is put into a path.
fn path(kind: Kind, name: &str) -> Result<String> {
    ::site::check_name(name).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(format!("/objects/{kind}/{name}"))
}

fn get(kind: Kind, name: &str, reach: &Reach) -> Result<SiteObject> {
    reach.get(&path(kind, name)?)
}

fn list(kind: Kind, reach: &Reach, context: &Context) -> Result<Code> {
    let SiteObjects { version, objects } = reach.get(&format!("/objects/{kind}"))?;
    let mut table =
        Table::new(&[left("NAME"), left("VERSION"), left("CHANGED"), flexible("DECLARED")]);
    for object in &objects {
        context.out.record("object", object)?;
        table.row([
            escape::text(&object.name),
            object.version.to_string(),
            ago(Some(object.changed)),
            summary(&object.body),
        ]);
    }
    table.print(&context.out)?;
    if objects.is_empty() {
        let line = format!("There are none. To create one: icecore server {kind} create NAME");
        context.out.line(&line)?;
    }
    context.out.summary(Code::Complete, &Count { version, objects: objects.len() })
}

/// All keys in one line.
fn summary(body: &Value) -> String {
    let keys = body.as_object().into_iter().flatten();
    let pairs: Vec<_> =
        keys.map(|(key, value)| format!("{}={}", escape::text(key), shown::value(value))).collect();
    pairs.join("  ")
}

fn show(object: &SiteObject, context: &Context) -> Result<Code> {
    let SiteObject { kind, name, body, .. } = object;
    let table = json!({ kind.as_str(): { name.as_str(): body } });
    let text = toml::to_string(&table)
        .map_err(|error| Failure::new(Code::Failed, format!("{kind} {name}: {error}")))?;
    text.lines().try_for_each(|line| context.out.print(&escape::text(line)))?;
    context.out.summary(Code::Complete, object)
}
