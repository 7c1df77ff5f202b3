//! Which snapshots protect: those that exist, are complete, not suspect and not in the trash. Pure.

use ::retention::Facts;
use api::retention::UnreadDomain;
use ids::SnapshotId;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A complete backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Complete {
    /// When it began; when it was received, if no job says more.
    pub(super) secs: i64,
    pub(super) snapshot: Option<String>,
}

/// Node, policy and source of a snapshot; of no policy, the node alone.
type Key<'a> = (&'a str, &'a str, &'a str);

/// The snapshots that protect. It borrows what is known of them: there are very many.
pub(super) struct GoodSnapshots<'a> {
    /// Domains whose repositories cannot be read.
    unread: FxHashSet<String>,
    /// All by domain, those too that protect nothing.
    all: FxHashMap<(&'a str, SnapshotId), &'a Facts>,
    newest: FxHashMap<Key<'a>, NewestOfEach<'a>>,
    newest_of_nodes: FxHashMap<&'a str, &'a Facts>,
}

/// Of each class and list of paths the newest one. There are few: looking through them beats a map.
type NewestOfEach<'a> = Vec<&'a Facts>;

/// Which snapshots of a source are looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) node: &'a str,
    pub(super) policy: &'a str,
    pub(super) source: &'a str,
    pub(super) class: WantedClass<'a>,
}

/// Of which class.
#[derive(Clone, Copy, Debug)]
pub(super) enum WantedClass<'a> {
    One(&'a str),
    /// The usual one, whatever it was called: every class but these.
    Usual {
        but: &'a [&'a str],
    },
}

impl WantedClass<'_> {
    fn is(self, class: &str) -> bool {
        match self {
            Self::One(wanted) => wanted == class,
            Self::Usual { but } => !but.contains(&class),
        }
    }
}

impl<'a> GoodSnapshots<'a> {
    pub(super) fn new(all: &'a BTreeMap<String, Arc<Vec<Facts>>>, unread: &[UnreadDomain]) -> Self {
        let unread = unread.iter().map(|domain| domain.domain.clone()).collect();
        let every = || all.values().flat_map(|facts| facts.iter());
        let mut newest = FxHashMap::default();
        let mut newest_of_nodes: FxHashMap<&str, &Facts> = FxHashMap::default();
        for facts in every().filter(|facts| protects(facts)) {
            let source = if facts.policy.is_empty() { "" } else { facts.source.as_str() };
            let key: Key<'a> = (&facts.node, &facts.policy, source);
            note(newest.entry(key).or_default(), facts);
            let of_node = newest_of_nodes.entry(&facts.node).or_insert(facts);
            if of_node.received_secs < facts.received_secs {
                *of_node = facts;
            }
        }
        let all = all.iter().flat_map(|(domain, facts)| {
            facts.iter().map(move |facts| ((domain.as_str(), facts.id), facts))
        });
        let all = all.collect();
        Self { unread, all, newest, newest_of_nodes }
    }

    /// The newest complete backup of a source: the one that its jobs tell of, if its snapshot is good, or else the
    /// newest good one of the same paths. A source whose paths were changed has none until a job has backed them up:
    /// its snapshots show others.
    pub(super) fn newest(
        &self,
        domain: &str,
        said: Option<Complete>,
        wanted: Wanted<'_>,
    ) -> Option<Complete> {
        if self.unread.contains(domain) {
            return said;
        }
        let id = said.as_ref()?.snapshot.as_deref().and_then(SnapshotId::from_hex);
        let known = *self.all.get(&(domain, id?))?;
        if protects(known) {
            return said;
        }
        let Wanted { node, policy, source, class } = wanted;
        let each = self.newest.get(&(node, policy, source))?.iter();
        let alike = each.filter(|one| class.is(&one.class) && one.paths == known.paths);
        alike.max_by_key(|one| one.received_secs).map(|facts| complete(facts))
    }

    /// The newest complete backup of anything of a node.
    pub(super) fn newest_of_node(
        &self,
        domain: &str,
        said: Option<Complete>,
        node: &str,
    ) -> Option<Complete> {
        if self.unread.contains(domain) {
            return said;
        }
        self.newest_of_nodes.get(node).map(|facts| complete(facts))
    }
}

fn complete(facts: &Facts) -> Complete {
    Complete { secs: facts.received_secs, snapshot: Some(facts.id.to_string()) }
}

/// Notes it if it is the newest of its class and paths.
fn note<'a>(each: &mut NewestOfEach<'a>, facts: &'a Facts) {
    let is_alike = |known: &&mut &Facts| known.class == facts.class && known.paths == facts.paths;
    match each.iter_mut().find(is_alike) {
        Some(known) if known.received_secs < facts.received_secs => *known = facts,
        Some(_) => {}
        None => each.push(facts),
    }
}

fn protects(facts: &Facts) -> bool {
    !facts.is_partial && facts.suspect.is_none() && facts.trashed.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::retention::{Trashed, TrashedBy};

    fn facts(id: &str, received_secs: i64) -> Facts {
        let [node, source, policy, class] = ["web", "main", "daily", "standard"].map(str::to_owned);
        Facts {
            id: SnapshotId::from_hex(&id.repeat(16)).unwrap(),
            number: 1,
            node,
            source,
            policy,
            class,
            received_secs,
            is_partial: false,
            suspect: None,
            tags: None,
            locked_until_secs: None,
            paths: None,
            has_deleted_objects: None,
            source_deleted_secs: None,
            trashed: None,
        }
    }

    fn wanted(class: WantedClass<'_>) -> Wanted<'_> {
        Wanted { node: "web", policy: "daily", source: "main", class }
    }

    fn newest(all: Vec<Facts>, unread: &[UnreadDomain]) -> Option<i64> {
        let all = BTreeMap::from([("web".to_owned(), Arc::new(all))]);
        let said = Complete { secs: 90, snapshot: Some("5a".repeat(16)) };
        let good = GoodSnapshots::new(&all, unread);
        good.newest("web", Some(said), wanted(WantedClass::Usual { but: &[] })).map(|it| it.secs)
    }

    /// A storage server could say that a backup made the snapshot of another node.
    #[test]
    fn a_snapshot_of_another_domain_protects_nothing() {
        let db = Facts { node: "db".into(), ..facts("5a", 50) };
        let all = BTreeMap::from([("db".to_owned(), Arc::new(vec![db]))]);
        let said = Some(Complete { secs: 40, snapshot: Some("5a".repeat(16)) });
        let good = GoodSnapshots::new(&all, &[]);
        let of = |domain| good.newest(domain, said.clone(), wanted(WantedClass::One("standard")));
        assert_eq!((of("web"), of("db").is_some()), (None, true));
    }

    #[test]
    fn a_class_protects_itself_and_no_other() {
        let logs = Facts { class: "logs".into(), ..facts("0b", 95) };
        let bad = Facts { is_partial: true, ..facts("5b", 99) };
        let all = BTreeMap::from([("web".to_owned(), Arc::new(vec![facts("5a", 50), logs, bad]))]);
        let good = GoodSnapshots::new(&all, &[]);
        let said = |id: &str| Some(Complete { secs: 40, snapshot: Some(id.repeat(16)) });
        let of = |id, class| good.newest("web", said(id), wanted(class)).map(|it| it.secs);
        assert_eq!(of("5b", WantedClass::Usual { but: &["logs"] }), Some(50));
        assert_eq!(of("5b", WantedClass::One("logs")), Some(95));
        assert_eq!(of("5b", WantedClass::One("mail")), None);
    }

    #[test]
    fn a_snapshot_of_other_paths_protects_none() {
        let of = |paths: u8, facts| Facts { paths: Some(ids::ObjectId([paths; 24])), ..facts };
        let bad = Facts { is_partial: true, ..facts("5a", 95) };
        let other = of(2, facts("0b", 50));
        assert_eq!(newest(vec![of(1, bad.clone()), other.clone()], &[]), None);
        assert_eq!(newest(vec![of(2, bad), other.clone()], &[]), Some(50));
        let all = BTreeMap::from([("web".to_owned(), Arc::new(vec![other]))]);
        let good = GoodSnapshots::new(&all, &[]);
        let none = good.newest("web", None, wanted(WantedClass::Usual { but: &[] }));
        assert_eq!(none, None, "no job has backed these paths up");
        assert_eq!(good.newest_of_node("web", None, "web").map(|it| it.secs), Some(50));
        assert_eq!(good.newest_of_node("web", None, "db"), None);
    }

    #[test]
    fn only_a_snapshot_that_exists_and_is_good_protects() {
        let trash = Trashed { since_secs: 100, by: TrashedBy::Name };
        assert_eq!(
            newest(vec![facts("5a", 95), facts("0b", 50)], &[]),
            Some(90),
            "as its job said"
        );
        for bad in [
            Facts { is_partial: true, ..facts("5a", 95) },
            Facts { suspect: Some("the clock".into()), ..facts("5a", 95) },
            Facts { trashed: Some(trash), ..facts("5a", 95) },
        ] {
            assert_eq!(newest(vec![bad.clone()], &[]), None, "{bad:?}");
            assert_eq!(newest(vec![bad, facts("0b", 50)], &[]), Some(50), "an older one is good");
        }
        assert_eq!(newest(vec![], &[]), None, "it was deleted");
        let (domain, error) = ("web".to_owned(), "it lies elsewhere".to_owned());
        assert_eq!(newest(vec![], &[UnreadDomain { domain, error }]), Some(90), "nobody knows");
    }
}
