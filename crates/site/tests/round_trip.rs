//! Whatever a valid site is, what is written of it is read as the same.

use clock::{Span, Unit as Of};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use site::{
    ChangeDetection, ClassRule, ClientOption, Compression, Group, Hold, Hooks, Moment, Node,
    OptionValue, Paused, Percent, Plan, Policy, Quota, Rate, Retention, Site, Size, Source, Unit,
    Upkeep, UpkeepTask, file,
};

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9][a-z0-9._-]{0,8}"
}

/// Any text that is not empty, with quotes, line feeds and other scripts.
fn text() -> impl Strategy<Value = String> {
    "[^\u{0}]{1,12}x"
}

fn span() -> impl Strategy<Value = Span> {
    (1u32..100, prop::sample::select(vec![Of::Minute, Of::Hour, Of::Day, Of::Week]))
        .prop_map(|(count, unit)| Span::new(count, unit))
}

fn moment() -> impl Strategy<Value = Moment> {
    let at = (0i64..4_000_000_000)
        .prop_map(|secs| Moment::At(jiff::Timestamp::from_second(secs).unwrap()));
    prop_oneof![
        at,
        (1i16..9999, 1i8..13, 1i8..29)
            .prop_map(|(y, m, d)| Moment::Day(jiff::civil::date(y, m, d)))
    ]
}

fn labels() -> impl Strategy<Value = std::collections::BTreeMap<String, String>> {
    btree_map(name(), name(), 0..3)
}

fn client_options() -> impl Strategy<Value = std::collections::BTreeMap<String, ClientOption>> {
    let value = prop_oneof![
        any::<bool>().prop_map(OptionValue::Flag),
        any::<i64>().prop_map(OptionValue::Number),
        text().prop_map(OptionValue::Text),
        vec(text(), 0..3).prop_map(OptionValue::List),
    ];
    let option = (value, any::<bool>()).prop_map(|(value, force)| ClientOption { value, force });
    btree_map(name(), option, 0..3)
}

fn node() -> impl Strategy<Value = Node> {
    let paused = (of(moment()), text()).prop_map(|(until, reason)| Paused { until, reason });
    (labels(), of(paused), client_options()).prop_map(|(labels, paused, options)| Node {
        labels,
        paused,
        options,
    })
}

fn group() -> impl Strategy<Value = Group> {
    let nodes = prop::sample::subsequence(vec!["n1".to_owned(), "n2".to_owned()], 0..=2);
    (any::<bool>(), nodes, labels()).prop_map(|(all, nodes, labels)| Group {
        all,
        nodes,
        labels,
        groups: Vec::new(),
    })
}

/// Of two groups; the second may contain the first.
fn groups() -> impl Strategy<Value = [Group; 2]> {
    (group(), group(), any::<bool>()).prop_map(|(first, second, contains)| {
        let groups = contains.then(|| "first".to_owned()).into_iter().collect();
        [first, Group { groups, ..second }]
    })
}

fn paths() -> impl Strategy<Value = Vec<String>> {
    vec("/[a-zä \"'\\\\]{1,9}", 1..3)
}

fn source() -> impl Strategy<Value = Source> {
    paths().prop_map(|paths| Source { paths, ..Source::default() })
}

fn policy() -> impl Strategy<Value = Policy> {
    let how = (0u32..=100, of(-7i32..=19), any::<bool>(), of(span()), any::<bool>());
    let what = (paths(), vec("[*?a-z/.]{1,9}x", 0..3), btree_map("[a-k]{1,4}", source(), 0..3));
    let more = (labels(), client_options(), of(name()), any::<[bool; 4]>());
    (how, what, more).prop_map(|(how, what, more)| {
        let (priority, level, full, promise, has_rule) = how;
        let (paths, excludes, sources) = what;
        let (labels, options, pre, [a, b, c, d]) = more;
        let some = |is: bool, name: &str| is.then(|| name.to_owned());
        let rule = ClassRule { include: vec!["/var/**".to_owned()], class: "short".to_owned() };
        Policy {
            unit: some(a, "disk"),
            priority,
            compression: level.map_or(Compression::Auto, Compression::Level),
            change_detection: if full { ChangeDetection::Full } else { ChangeDetection::Standard },
            groups: some(b, "second").into_iter().collect(),
            labels,
            paths,
            excludes,
            sources,
            schedules: some(c, "nightly").into_iter().collect(),
            retention: Some("long".to_owned()),
            class: some(d, "short"),
            classes: if has_rule { vec![rule] } else { Vec::new() },
            promise,
            hooks: Hooks { pre, ..Hooks::default() },
            options,
            ..Policy::default()
        }
    })
}

fn hold() -> impl Strategy<Value = Hold> {
    let words = (of(name()), of(text()), of("[0-9a-f]{32}"), of(moment()), text());
    words.prop_map(|(node, source, snapshot, until, reason)| Hold {
        node,
        source,
        policy: None,
        class: None,
        snapshot,
        until,
        reason,
    })
}

fn upkeep() -> impl Strategy<Value = Upkeep> {
    let tasks = prop::sample::subsequence(UpkeepTask::ALL.to_vec(), 0..=5);
    let share = |least: u32| (least..=10_000).prop_map(Percent);
    let shares = (of((1u64..1 << 40).prop_map(Rate)), of(share(1)), share(0));
    let words = (tasks, any::<[bool; 2]>(), shares, of(span()));
    words.prop_map(|(tasks, [a, b], (throttle, sample, max_waste), kept)| Upkeep {
        to: tasks.iter().any(|task| task.is_of_copy()).then(|| "/mnt/second".to_owned()),
        keep_expired: kept.filter(|_| tasks.contains(&UpkeepTask::Copy)),
        policies: Vec::new(),
        classes: Vec::new(),
        object_lock: None,
        retention: None,
        tasks,
        domains: a.then(|| "x".to_owned()).into_iter().collect(),
        schedules: b.then(|| "nightly".to_owned()).into_iter().collect(),
        throttle,
        sample,
        max_waste,
    })
}

fn quota() -> impl Strategy<Value = Quota> {
    let names = |name: &str| prop::sample::subsequence(vec![name.to_owned()], 0..=1);
    let bytes = (1u64..1 << 50).prop_map(Size);
    (bytes, names("n1"), names("first")).prop_map(|(bytes, nodes, groups)| Quota {
        bytes,
        domains: vec!["x".to_owned()],
        nodes,
        groups,
    })
}

fn site() -> impl Strategy<Value = Site> {
    let domains = prop::sample::subsequence(vec!["x".to_owned(), "y".to_owned()], 0..=2);
    let place = (prop::option::of(name()), prop::option::of(name()), any::<bool>());
    let unit =
        (1u32..=10_000, domains, place).prop_map(|(max_jobs, domains, (pool, on, first))| {
            let (pool, on) = (pool.filter(|_| first), on.filter(|_| !first));
            Unit { max_jobs, domains, pool, on }
        });
    let objects = (unit, groups(), btree_map(name(), node(), 0..3));
    let retention = (1u32..99, span()).prop_map(|(count, within)| -> Retention {
        toml::from_str(&format!(
            "[class.standard]\nkeep_daily = {count}\n[class.short]\nkeep_within = \"{within}\"\ntrash = \"{within}\""
        ))
        .unwrap()
    });
    let upkeeps = btree_map(name(), upkeep(), 0..3);
    let quotas = btree_map(name(), quota(), 0..3);
    let (policies, holds) = (btree_map(name(), policy(), 0..3), btree_map(name(), hold(), 0..3));
    let declared = (policies, holds, upkeeps, quotas);
    (objects, retention, declared).prop_map(
        |((unit, [first, second], nodes), retention, declared)| {
            let (policies, holds, upkeeps, quotas) = declared;
            Site {
                units: [("disk".to_owned(), unit)].into(),
                retentions: [("long".to_owned(), retention)].into(),
                schedules: [(
                    "nightly".to_owned(),
                    toml::from_str("at = \"22:00\"\non = [\"monday\", \"last day\"]").unwrap(),
                )]
                .into(),
                nodes,
                groups: [("first".to_owned(), first), ("second".to_owned(), second)].into(),
                policies,
                holds,
                upkeeps,
                quotas,
            }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_the_same(site in site()) {
        prop_assert_eq!(site.check(&Default::default()), []);
        let text = file::write(&site);
        prop_assert_eq!(file::read(&text).map_err(|all| format!("{all:?}\n{text}")), Ok(site.clone()));
        let mut again = Site::default();
        for (kind, name) in site.objects() {
            again.set(kind, name, &site.body(kind, name).unwrap()).unwrap();
        }
        prop_assert!(Plan::between(&site, &again).is_empty());
        prop_assert_eq!(again, site);
    }

    #[test]
    fn no_text_is_too_much_for_the_reader(text in "[\\[\\].a-z\"'=0-9{}, \n#é]{0,80}") {
        let _ = file::read(&text);
    }
}
