//! The client options that a site says for a node: those of its policies, and its own.

use crate::{ClientOption, Compression, OptionValue, Policy, Site};
use std::collections::{BTreeMap, BTreeSet};

/// A client option, and who says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The option.
    pub option: ClientOption,
    /// Who says it, for people: `policy web`.
    pub origin: String,
}

/// What all policies of a node say together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaidOfNode {
    /// What they agree on, by name.
    pub options: BTreeMap<String, Said>,
    /// Options of which they say different things, and which policies do. None of them counts.
    pub disputed: BTreeMap<String, Vec<String>>,
}

impl Site {
    /// All options for a backup that a policy wants of a node: what the policy says by its keys, then by its
    /// `options`, then those of the node, in place of the ones before.
    pub fn options_of_job(
        &self,
        name: &str,
        policy: &Policy,
        node: &str,
    ) -> BTreeMap<String, Said> {
        let mut all = of_keys(policy);
        all.extend(policy.options.clone());
        let mut all = said(all, &format!("policy {name}"));
        all.extend(self.options_of_node(node));
        all
    }

    /// The options for whatever a node backs up by itself: what its policies agree on, and its own. Compression and
    /// hooks of a policy are for the backups of that policy.
    pub fn options_by_hand(&self, node: &str) -> SaidOfNode {
        let own = self.options_of_node(node);
        let enrolled = BTreeSet::from([node.to_owned()]);
        let mut found = SaidOfNode::default();
        for (name, policy) in &self.policies {
            if self.members(policy, &enrolled).is_empty() {
                continue;
            }
            for (option, new) in said(policy.options.clone(), &format!("policy {name}")) {
                if !own.contains_key(&option) {
                    found.add(option, new);
                }
            }
        }
        found.options.extend(own);
        found
    }

    fn options_of_node(&self, node: &str) -> BTreeMap<String, Said> {
        let options = self.nodes.get(node).map(|it| it.options.clone()).unwrap_or_default();
        said(options, &format!("node {node}"))
    }
}

impl SaidOfNode {
    fn add(&mut self, option: String, new: Said) {
        if let Some(policies) = self.disputed.get_mut(&option) {
            return policies.push(new.origin);
        }
        match self.options.remove(&option) {
            Some(known) if known.option != new.option => {
                self.disputed.insert(option, vec![known.origin, new.origin]);
            }
            Some(known) => {
                let origin = format!("{}, {}", known.origin, new.origin);
                self.options.insert(option, Said { origin, ..known });
            }
            None => {
                self.options.insert(option, new);
            }
        }
    }
}

/// What the keys of a policy mean as options. They are the policy's word, not a suggestion.
fn of_keys(policy: &Policy) -> BTreeMap<String, ClientOption> {
    let force = true;
    let mut all = BTreeMap::new();
    if let Compression::Level(level) = policy.compression {
        let value = OptionValue::Number(level.into());
        all.insert("compression".to_owned(), ClientOption { value, force });
    }
    let hooks = &policy.hooks;
    let named = [
        ("hook-pre", &hooks.pre),
        ("hook-post", &hooks.post),
        ("hook-on-failure", &hooks.on_failure),
    ];
    for (option, hook) in named {
        if let Some(hook) = hook {
            let value = OptionValue::List(vec![hook.clone()]);
            all.insert(option.to_owned(), ClientOption { value, force });
        }
    }
    all
}

fn said(options: BTreeMap<String, ClientOption>, origin: &str) -> BTreeMap<String, Said> {
    let one = |(name, option)| (name, Said { option, origin: origin.to_owned() });
    options.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use serde_json::json;

    fn site(objects: &[(Kind, &str, serde_json::Value)]) -> Site {
        let mut site = Site::default();
        objects.iter().for_each(|(kind, name, body)| site.set(*kind, name, body).unwrap());
        site
    }

    fn shown(all: &BTreeMap<String, Said>) -> Vec<String> {
        let line = |(name, said): (&String, &Said)| {
            let Said { option, origin } = said;
            format!("{name}={} {} {origin}", option.value, if option.force { "forced" } else { "" })
        };
        all.iter().map(line).collect()
    }

    #[test]
    fn a_job_gets_what_its_policy_says_and_the_node_stands_above_it() {
        let site = site(&[
            (
                Kind::Policy,
                "web",
                json!({"nodes": ["a"], "paths": ["/etc"], "compression": 9, "hooks": {"pre": "dump"},
                    "options": {"nice": {"value": 5}, "limit-read": {"value": "20M", "force": true}}}),
            ),
            (Kind::Node, "a", json!({"options": {"nice": {"value": 7}}})),
        ]);
        let all = site.options_of_job("web", &site.policies["web"], "a");
        let expected = [
            "compression=9 forced policy web",
            "hook-pre=dump forced policy web",
            "limit-read=20M forced policy web",
            "nice=7  node a",
        ];
        assert_eq!(shown(&all), expected);
        let other = site.options_of_job("web", &site.policies["web"], "b");
        assert_eq!(shown(&other)[3], "nice=5  policy web");
    }

    #[test]
    fn policies_that_differ_say_nothing_of_backups_by_hand() {
        let policy = |nice: i64, limit: &str| {
            let options = json!({"nice": {"value": nice}, "limit-read": {"value": limit}});
            json!({"nodes": ["a"], "paths": ["/etc"], "compression": 9, "options": options})
        };
        let mut site = site(&[
            (Kind::Policy, "one", policy(5, "1M")),
            (Kind::Policy, "two", policy(5, "2M")),
            (Kind::Policy, "elsewhere", json!({"nodes": ["b"], "options": {"nice": {"value": 9}}})),
        ]);
        let found = site.options_by_hand("a");
        assert_eq!(shown(&found.options), ["nice=5  policy one, policy two"]);
        let disputed = [("limit-read".to_owned(), vec!["policy one".into(), "policy two".into()])];
        assert_eq!(found.disputed, disputed.into());
        let body = json!({"options": {"limit-read": {"value": "3M"}}});
        site.set(Kind::Node, "a", &body).unwrap();
        let found = site.options_by_hand("a");
        assert_eq!(shown(&found.options)[0], "limit-read=3M  node a");
        assert!(found.disputed.is_empty());
    }
}
