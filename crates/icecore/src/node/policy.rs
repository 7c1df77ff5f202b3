//! Client options that the server sets for this node. What it said last is kept, so that it is in effect while the
//! server is away. The node decides: it refuses what its flags would not take, what no server may set, and what its own
//! `allow.toml` keeps to itself, and tells the server so.

use super::{Node, allow};
use crate::client_options::table::{self, EXCLUDE};
use crate::client_options::{Candidate, Layer};
use crate::failure::{Failure, Result};
use access::{Client, blocking, files};
use api::options::{
    OPTIONS_MAX, OptionReport, OptionValue, Options, SetOptions, TOTAL_BYTES_MAX, VALUE_BYTES_MAX,
    total_bytes,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

const FILE: &str = "options.json";
/// A backup and an agent's commands do not wait longer for this: what the server said last goes on to count.
const ASK_TIME: Duration = Duration::from_secs(5);

/// What the server says, and what this node makes of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Received {
    options: Options,
    /// Who says them, if they are not for this node alone.
    #[serde(default)]
    origins: BTreeMap<String, String>,
    /// What the policies of this node differ about.
    #[serde(default)]
    disputed: BTreeMap<String, Vec<String>>,
    report: OptionReport,
}

/// The options of one backup that the server wants, as the agent hands them on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobOptions {
    pub(crate) options: Options,
    pub(crate) origins: BTreeMap<String, String>,
}

/// Whether a flag takes a value.
pub(crate) type Check = fn(&Candidate) -> std::result::Result<(), String>;

impl Received {
    /// What was kept in `folder`; nothing if nothing can be read.
    pub(crate) fn load(folder: &Path) -> Self {
        let text = files::read(&file(folder)).ok().flatten();
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    /// Asks the server, tells it what this node ignores, and keeps the result.
    pub(crate) fn exchange(node: &Node, check: Check) -> Result<Self> {
        let own = allow::read(&node.folder).map(|allow| allow.own);
        let client = Client::of_folder(&node.folder, &node.identity)?.with_call_time(ASK_TIME);
        let ask = |report: &OptionReport| -> Result<SetOptions> {
            Ok(blocking::wait(client.post("/node/options", report))?)
        };
        let kept = Self::load(&node.folder);
        let mut now = Self::judged(ask(&kept.report)?, &own, check);
        if now.report != kept.report {
            now = Self::judged(ask(&now.report)?, &own, check);
        }
        if now != kept {
            let text = serde_json::to_string(&now).map_err(std::io::Error::from)?;
            files::write(&file(&node.folder), &text)?;
        }
        Ok(now)
    }

    /// Those of one backup, `json` a [`JobOptions`], in place of what policies say otherwise. What the server sets for
    /// this very node stands above both.
    ///
    /// # Errors
    /// When it is none: nothing may be left out that the server forces.
    pub(crate) fn with_job(self, folder: &Path, json: &str, check: Check) -> Result<Self> {
        let own = allow::read(folder).map(|allow| allow.own);
        let JobOptions { mut options, mut origins } = serde_json::from_str(json)
            .map_err(|error| Failure::usage(format!("--job-options: {error}")))?;
        for (name, value) in self.options {
            if !self.origins.contains_key(&name) {
                origins.remove(&name);
                options.insert(name, value);
            }
        }
        let disputed = BTreeMap::new();
        Ok(Self::judged(SetOptions { options, origins, disputed }, &own, check))
    }

    /// `own` are the options of this node, or why nobody knows them: then the server sets none.
    fn judged(
        set: SetOptions,
        own: &std::result::Result<Vec<String>, String>,
        check: Check,
    ) -> Self {
        let SetOptions { mut options, origins, disputed } = set;
        let mut report = OptionReport::default();
        if options.len() > OPTIONS_MAX || total_bytes(&options) > TOTAL_BYTES_MAX {
            options.clear();
        }
        for (name, value) in &options {
            match own {
                Ok(own) if own.contains(name) => report.own.push(name.clone()),
                own => {
                    let judged = own.as_ref().map(drop).map_err(String::clone);
                    if let Err(mut why) = judged.and_then(|()| judge(name, value, check)) {
                        why.truncate(why.floor_char_boundary(VALUE_BYTES_MAX));
                        report.refused.insert(name.clone(), why);
                    }
                }
            }
        }
        Self { options, origins, disputed, report }
    }

    /// What the server says, as far as this node follows it.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        let is_followed = |name: &String| {
            !self.report.own.contains(name) && !self.report.refused.contains_key(name)
        };
        let followed = self.options.iter().filter(|(name, _)| is_followed(name));
        let candidate = |(name, value): (&String, &OptionValue)| {
            candidate(name, value, self.origins.get(name).map(String::as_str))
        };
        followed.filter_map(candidate).collect()
    }

    /// What the policies of this node differ about: no backup by hand follows it.
    pub(crate) fn disputed(&self) -> &BTreeMap<String, Vec<String>> {
        &self.disputed
    }

    /// What this node tells the server.
    pub(crate) fn report(&self) -> &OptionReport {
        &self.report
    }
}

/// A value of the server, as one of several places; `None` for an option that no server may set.
fn candidate(name: &str, value: &OptionValue, origin: Option<&str>) -> Option<Candidate> {
    let row = table::row(name).filter(|row| row.by_server)?;
    let (layer, how) = match value.force {
        true => (Layer::Forced, "forced"),
        false => (Layer::Suggested, "suggested"),
    };
    let place = format!("{} ({how})", origin.unwrap_or("the server"));
    let values = value.values.iter().map(Into::into).collect();
    Some(Candidate { option: row.name, layer, place, values })
}

/// Whether a server may say this, and a flag takes it.
///
/// # Errors
/// What is wrong, for people.
pub(crate) fn judge(
    name: &str,
    value: &OptionValue,
    check: Check,
) -> std::result::Result<(), String> {
    let Some(candidate) = candidate(name, value, None) else {
        let is_known = table::row(name).is_some();
        let why = if is_known { "a server may not set it" } else { "there is no such option" };
        return Err(why.to_owned());
    };
    if candidate.values.len() != 1 && !table::row(name).is_some_and(table::Row::is_list) {
        return Err("it has one value".to_owned());
    }
    if name == EXCLUDE && value.values.iter().any(|pattern| pattern.starts_with('!')) {
        return Err("a server may exclude files, but not include what this machine excludes".into());
    }
    check(&candidate)
}

fn file(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(given: &[(&str, &str)]) -> Options {
        let value = |text: &str| OptionValue { values: vec![text.into()], force: true };
        given.iter().map(|(name, text)| ((*name).to_owned(), value(text))).collect()
    }

    fn judged(
        options: Options,
        own: &std::result::Result<Vec<String>, String>,
        check: Check,
    ) -> Received {
        Received::judged(SetOptions { options, ..SetOptions::default() }, own, check)
    }

    fn fussy(candidate: &Candidate) -> std::result::Result<(), String> {
        if candidate.values[0] == "bad" { Err("it is bad".into()) } else { Ok(()) }
    }

    fn followed(received: &Received) -> Vec<&str> {
        received.candidates().iter().map(|candidate| candidate.option).collect()
    }

    #[test]
    fn own_options_wrong_values_and_those_of_the_node_alone_are_not_followed() {
        let given = all(&[
            ("compression", "9"),
            ("exclude", "!secret"),
            ("nice", "bad"),
            ("password-command", "touch x"),
            ("repo", "/elsewhere"),
            ("tags", "a"),
            ("verbs", "x"),
        ]);
        let received = judged(given.clone(), &Ok(vec!["tags".into()]), fussy);
        assert_eq!(followed(&received), ["compression"]);
        assert_eq!(received.report.own, ["tags"]);
        let refused: Vec<_> = received.report.refused.keys().collect();
        assert_eq!(refused, ["exclude", "nice", "password-command", "repo", "verbs"]);
        let unknown = judged(given, &Err("others may write".into()), fussy);
        assert_eq!((followed(&unknown).len(), unknown.report.refused.len()), (0, 7));
    }

    #[test]
    fn a_backup_of_the_server_follows_its_policy_and_what_is_set_for_the_node() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = all(&[("compression", "3"), ("nice", "3"), ("streams", "3")]);
        let origins = [("streams".to_owned(), "policy other".to_owned())].into();
        let by_hand = SetOptions { options: options.clone(), origins, ..SetOptions::default() };
        let by_hand = Received::judged(by_hand, &Ok(vec![]), fussy);
        options = all(&[("compression", "9"), ("limit-read", "bad")]);
        let named = |name: &&str| ((*name).to_owned(), "policy web".to_owned());
        let origins = ["compression", "limit-read"].iter().map(named).collect();
        let json = serde_json::to_string(&JobOptions { options, origins }).unwrap();
        let job = by_hand.clone().with_job(folder.path(), &json, fussy).unwrap();
        let shown: Vec<_> = job
            .candidates()
            .into_iter()
            .map(|one| format!("{} {:?} {}", one.option, one.values, one.place))
            .collect();
        let expected =
            ["compression [\"3\"] the server (forced)", "nice [\"3\"] the server (forced)"];
        assert_eq!(shown, expected);
        assert_eq!(job.report.refused.keys().collect::<Vec<_>>(), ["limit-read"]);
        let nothing = Received::default().with_job(folder.path(), &json, fussy).unwrap();
        assert_eq!(nothing.candidates()[0].place, "policy web (forced)");
        for json in ["", "{}", "{\"options\": {}, \"origins\": {}, \"more\": 1}"] {
            assert!(by_hand.clone().with_job(folder.path(), json, fussy).is_err(), "{json}");
        }
    }

    #[test]
    fn what_is_too_much_is_not_kept() {
        let text = "x".repeat(TOTAL_BYTES_MAX - "tags".len());
        for (text, is_kept) in [(text.clone(), true), (text + "x", false)] {
            let received = judged(all(&[("tags", &text)]), &Ok(vec![]), fussy);
            assert_eq!(received.options.len(), usize::from(is_kept));
        }
        for (count, is_kept) in [(OPTIONS_MAX, true), (OPTIONS_MAX + 1, false)] {
            let names: Vec<_> = (0..count).map(|number| format!("n{number}")).collect();
            let given: Vec<_> = names.iter().map(|name| (name.as_str(), "x")).collect();
            let received = judged(all(&given), &Ok(vec![]), fussy);
            assert_eq!(received.report.refused.len(), if is_kept { count } else { 0 });
        }
    }

    #[test]
    fn what_chooses_repository_source_or_programs_is_not_for_servers() {
        let own = [
            "repo",
            "password",
            "password-file",
            "password-command",
            "profile",
            "agent-dir",
            "domain",
            "paths",
            "node",
            "exclude-from",
            "exclude-if-present",
            "chunk-cache",
            "gitignore",
            "nodump",
            "no-cache-tags",
            "one-file-system",
            "exclude-larger-than",
        ];
        own.iter().for_each(|name| assert!(!table::row(name).unwrap().by_server, "{name}"));
    }
}
