//! How long the lists of a large site take: 1,000 nodes and 1,000,000 jobs with `ICECORE_CATALOG=all` (`make
//! catalog-speed`). Else the same lists of few jobs, whose times are not judged.

use super::*;
use crate::audit::note;
use crate::testing::run;
use api::reports::ReportFilter;
use std::time::Instant;

const NODES: i64 = 1_000;
const JOBS: i64 = 1_000_000;
const JOBS_FEW: i64 = 10_000;
const LIST_MS_MAX: u128 = 200;

fn is_whole() -> bool {
    std::env::var("ICECORE_CATALOG").is_ok_and(|what| what == "all")
}

fn all() -> i64 {
    if is_whole() { JOBS } else { JOBS_FEW }
}

/// Jobs, one each second; a few are special.
fn add_jobs(catalog: &Catalog) {
    let insert = format!(
        "WITH RECURSIVE numbers (n) AS (
            SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {} - 1)
         INSERT INTO jobs (node, domain, kind, what, begun, ended, state, report)
         SELECT 'node-' || (n % {NODES}), 'domain-' || (n % 100),
            CASE WHEN n % 1000 = 7 THEN 'restore' ELSE 'backup' END, '/etc, /home', n, n + 30,
            CASE WHEN n % 5000 = 99 THEN 'failed' ELSE 'complete' END, '{{}}'
         FROM numbers ORDER BY n",
        all()
    );
    run(catalog, &insert);
    if !catalog.location().is_file() {
        run(catalog, "ANALYZE");
    }
}

fn add_nodes(catalog: &Catalog) {
    domain(catalog, "web");
    catalog
        .change(|change| {
            for number in 0..NODES {
                let node: Name = format!("node-{number}").parse().unwrap();
                let values = crate::sql::values![crate::sql::Word(&node)];
                change.execute(
                    "INSERT INTO nodes (name, domain, role, made) VALUES ($1, 'web', 'full', 1)",
                    values,
                )?;
                for serial in ["a", "b"] {
                    change.execute(
                        &format!(
                            "INSERT INTO certificates (serial, node, not_before, not_after)
                             VALUES ('{serial}{number}', $1, 0, 9000)"
                        ),
                        values,
                    )?;
                }
                note(change, BY, "test", node.as_str(), "")?;
            }
            Ok(())
        })
        .unwrap();
}

/// Each list a few times: half of them are within the limit, whatever else the machine does.
fn in_time(on: On, what: &str, rows: usize, list: impl Fn() -> usize) {
    let took = |_| {
        let begun = Instant::now();
        assert_eq!(list(), rows, "{on:?}: {what}");
        begun.elapsed().as_millis()
    };
    let mut took: Vec<u128> = (0..9).map(took).collect();
    took.sort_unstable();
    println!("{on:?}: {what}: {rows} rows, {} ms, at most {} ms", took[4], took[8]);
    assert!(!is_whole() || took[4] < LIST_MS_MAX, "{on:?}: {what}: {took:?} ms");
}

/// Filters, and how many of the jobs on a page they find.
fn filters() -> Vec<(&'static str, usize, JobFilter)> {
    let text = |text: &str| Some(text.to_owned());
    let none = JobFilter::default();
    let failed = JobFilter { state: Some(JobState::Failed), limit: Some(1_000), ..none.clone() };
    let of_node = (all() / NODES).min(100) as usize;
    let some = (all() / NODES) as usize;
    vec![
        ("newest jobs", 100, none.clone()),
        ("the last page", 99, JobFilter { before: Some(100), ..none.clone() }),
        ("jobs of a node", of_node, JobFilter { node: text("node-77"), ..none.clone() }),
        ("jobs of no node", 0, JobFilter { node: text("nobody"), ..none.clone() }),
        ("jobs of a domain", 100, JobFilter { domain: text("domain-7"), ..none.clone() }),
        ("restores", of_node, JobFilter { kind: text("restore"), ..none.clone() }),
        ("failed jobs", some / 5, failed.clone()),
        ("failed restores", 0, JobFilter { kind: text("restore"), ..failed.clone() }),
        ("failed jobs of a node", some / 5, JobFilter { node: text("node-99"), ..failed }),
        ("jobs since ever", 100, JobFilter { since: Some(0), ..none.clone() }),
        ("jobs of a minute", 60, JobFilter { since: Some(all() - 60), ..none.clone() }),
        ("none since", 0, JobFilter { since: Some(all()), ..none.clone() }),
        ("running jobs", 0, JobFilter { state: Some(JobState::Running), ..none }),
    ]
}

/// Of a million jobs in 400 days, as a server keeps them, 75,000 are of a month.
const OF_A_MONTH: i64 = 75_000;

fn reports(on: On, catalog: &Catalog) {
    let sources = "INSERT INTO backup_states (node, policy, source, since, complete_begun,
             complete_ended, complete_job, took_secs)
         SELECT name, 'daily', '/etc', 1, 2, 3, 4, 5 FROM nodes";
    run(catalog, sources);
    let nodes = NODES as usize;
    in_time(on, "sources", nodes, || catalog.backup_states().unwrap().len());
    in_time(on, "durations", nodes, || catalog.durations().unwrap().len());
    let page = |filter: &ReportFilter| catalog.backup_rows(filter, None).unwrap().0.len();
    let none = ReportFilter::default();
    in_time(on, "newest backups", 1_000, || page(&none));
    let until = Some(all() / 2);
    in_time(on, "older backups", 1_000, || page(&ReportFilter { until, ..none.clone() }));
    let node = Some("node-77".to_owned());
    let of_node = (all() / NODES) as usize;
    in_time(on, "backups of a node", of_node, || {
        page(&ReportFilter { node: node.clone(), ..none.clone() })
    });
    let since = (all() - OF_A_MONTH).max(0);
    in_time(on, "costs of a month", nodes - 1, || catalog.costs(since, all()).unwrap().len());
    in_time(on, "causes of a month", 1, || catalog.causes(since).unwrap().len());
    in_time(on, "causes since ever", 1, || catalog.causes(0).unwrap().len());
    in_time(on, "the log of a job", 0, || catalog.job_log(5_000).unwrap().len());
}

fn every_list_of_a_million_jobs_is_there_in_200_ms(on: On) {
    let (_folder, catalog) = on.catalog();
    add_nodes(&catalog);
    add_jobs(&catalog);
    for (what, rows, filter) in filters() {
        in_time(on, what, rows, || catalog.jobs(&filter).unwrap().len());
    }
    let nodes = NODES as usize;
    in_time(on, "one job", 1, || usize::from(catalog.job(5_000).is_ok()));
    in_time(on, "nodes", nodes, || catalog.nodes().unwrap().len());
    in_time(on, "nodes of a domain", nodes, || catalog.nodes_of(&name("web")).unwrap().len());
    in_time(on, "audit entries", 1_000, || catalog.audit_entries(None, 1_000).unwrap().len());
    in_time(on, "commands", 0, || catalog.commands(1_000).unwrap().len());
    in_time(on, "grants", 0, || catalog.grants().unwrap().len());
    in_time(on, "stale keys", 0, || catalog.stale_keys(5).unwrap().len());
    reports(on, &catalog);
    in_time(on, "a job begins", 1, || usize::from(begin(&catalog, "web", all()) > 0));
}

on_both![every_list_of_a_million_jobs_is_there_in_200_ms];
