//! Sources whose protection has changed since somebody looked. Pure.

use api::protection::{ProtectionState, SourceProtection};
use std::collections::BTreeMap;

/// Node, policy, source and class.
type Key = [Option<String>; 4];

/// The states at the last look.
#[derive(Default)]
pub(super) struct SeenProtection {
    states: Option<BTreeMap<Key, ProtectionState>>,
}

impl SeenProtection {
    /// Those of `now` that are in another state than before, or new. The first look tells nothing.
    pub(super) fn changed<'a>(&mut self, now: &'a [SourceProtection]) -> Vec<&'a SourceProtection> {
        let states = now.iter().map(|one| (key(one), one.state)).collect();
        let Some(before) = self.states.replace(states) else { return Vec::new() };
        now.iter().filter(|one| before.get(&key(one)) != Some(&one.state)).collect()
    }
}

fn key(one: &SourceProtection) -> Key {
    [&one.node, &one.policy, &one.source, &one.class].map(Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(node: &str, state: ProtectionState) -> SourceProtection {
        let text = serde_json::json!({
            "node": node, "policy": "daily", "source": "main", "is_manual": false,
            "state": state, "reason": "",
        });
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn a_change_is_told_once_and_so_is_a_new_source() {
        use ProtectionState::{AtRisk, New, Protected};
        let mut seen = SeenProtection::default();
        let mut told = |now: &[SourceProtection]| -> Vec<_> {
            seen.changed(now).iter().map(|one| (one.node.clone().unwrap(), one.state)).collect()
        };
        let web = |state| source("web", state);
        assert!(told(&[web(Protected)]).is_empty(), "at first nothing has changed");
        assert!(told(&[web(Protected)]).is_empty());
        assert_eq!(told(&[web(AtRisk)]), [("web".into(), AtRisk)]);
        assert!(told(&[web(AtRisk)]).is_empty());
        assert_eq!(told(&[web(AtRisk), source("db", New)]), [("db".into(), New)]);
        assert!(told(&[web(AtRisk)]).is_empty(), "what goes was told as a change of the site");
    }
}
