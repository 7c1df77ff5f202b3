//! Nodes, tokens, grants, jobs and commands together.

mod changes;
mod speed;

use crate::certificates::{Certificate, Holder, Renewal, Renewed};
use crate::domains::Domain;
use crate::error::TokenRefusal;
use crate::grants::GrantedKey;
use crate::jobs::{Ending, NewJob};
use crate::testing::{BY, On, on_both};
use crate::tokens::{Enrollment, TokenTerms, TokenUse};
use crate::{By, Catalog, Error};
use api::Name;
use api::commands::{CommandState, NewBackup, Task};
use api::domains::Grant;
use api::enroll::{EnrollReply, KeyMode, Role};
use api::jobs::{JobFilter, JobState, Progress};
use api::nodes::ForgetScope;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn domain(catalog: &Catalog, text: &str) {
    let (name, keys) = (name(text), KeyMode::Managed);
    let (repository, sealed, storage, settings) = Default::default();
    let pool = None;
    let new = Domain { name, keys, repository, sealed, made: 0, storage, pool, settings };
    catalog.add_domain(BY, &new).unwrap();
}

fn terms(node: &str) -> TokenTerms {
    let (node, domain) = (name(node), name(node));
    let (role, keys) = (Role::Full, KeyMode::Managed);
    let (storage, settings) = Default::default();
    TokenTerms { node, domain, role, keys, expires: 2_000, storage, pool: None, settings }
}

fn certificate(serial: &str) -> Certificate {
    Certificate { serial: serial.to_owned(), not_before: 0, not_after: 9_000 }
}

fn answer(node: &str) -> EnrollReply {
    EnrollReply {
        node: name(node),
        domain: name(node),
        keys: KeyMode::Managed,
        role: Role::Full,
        settings: Default::default(),
        repository: None,
        key: Some("00".into()),
        certificate: "c".into(),
        ca_certificate: "a".into(),
        expires: 9_000,
    }
}

fn enroll(catalog: &Catalog, token: u8, node: &str, serial: &str) -> Result<(), Error> {
    let (answer, certificate) = (answer(node), certificate(serial));
    let new = Enrollment {
        token: &[token; 32],
        request: &[9; 32],
        answer: &answer,
        certificate: &certificate,
        version: "1",
    };
    catalog.enroll(BY, new)
}

/// A catalog with the nodes `web` and `db`, each in a domain of its own.
fn with_nodes(on: On) -> (tempfile::TempDir, Catalog) {
    let (folder, catalog) = on.catalog();
    fill(&catalog);
    (folder, catalog)
}

pub(crate) fn fill(catalog: &Catalog) {
    for (token, node) in [(1, "web"), (2, "db")] {
        domain(catalog, node);
        catalog.add_token(BY, &[token; 32], &terms(node)).unwrap();
        enroll(catalog, token, node, node).unwrap();
    }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> TokenRefusal {
    match result {
        Err(Error::Token(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

fn a_token_is_good_once_until_it_ends_and_answers_the_same_again(on: On) {
    let (_folder, catalog) = on.catalog();
    domain(&catalog, "web");
    catalog.add_token(BY, &[1; 32], &terms("web")).unwrap();
    assert_eq!(refusal(catalog.token(&[2; 32], &[9; 32], 1_000)), TokenRefusal::Unknown);
    assert_eq!(refusal(catalog.token(&[1; 32], &[9; 32], 2_000)), TokenRefusal::Expired);
    let good = catalog.token(&[1; 32], &[9; 32], 1_999).unwrap();
    assert_eq!(good, TokenUse::Good(terms("web")));
    enroll(&catalog, 1, "web", "a").unwrap();
    assert_eq!(refusal(enroll(&catalog, 1, "web", "b")), TokenRefusal::Used);
    assert_eq!(refusal(catalog.token(&[1; 32], &[8; 32], 1_000)), TokenRefusal::Used);
    let again = catalog.token(&[1; 32], &[9; 32], 1_000).unwrap();
    assert_eq!(again, TokenUse::Answered(Box::new(answer("web"))));
    assert!(catalog.certificate(Holder::Node, "b").unwrap().is_none(), "what failed left nothing");
}

fn a_token_that_ends_before_it_is_used_is_not_used(on: On) {
    let (_folder, catalog) = on.catalog();
    domain(&catalog, "web");
    catalog.add_token(BY, &[1; 32], &TokenTerms { expires: 1_000, ..terms("web") }).unwrap();
    assert!(enroll(&catalog, 1, "web", "a").is_err());
    assert!(catalog.node(&name("web")).unwrap().is_none());
}

fn an_enrollment_without_its_domain_leaves_the_token_as_it_was(on: On) {
    let (_folder, catalog) = on.catalog();
    catalog.add_token(BY, &[1; 32], &terms("web")).unwrap();
    assert!(matches!(enroll(&catalog, 1, "web", "a"), Err(Error::Database { .. })));
    assert!(matches!(catalog.token(&[1; 32], &[9; 32], 1_000), Ok(TokenUse::Good(_))));
}

fn a_revoked_node_is_out_with_all_its_certificates_and_comes_back_with_a_token(on: On) {
    let (_folder, catalog) = with_nodes(on);
    assert_eq!(renew(&catalog, "web", 1, "next").unwrap(), Renewed::New);
    catalog.revoke_node(BY, &name("web")).unwrap();
    for serial in ["web", "next"] {
        assert!(catalog.certificate(Holder::Node, serial).unwrap().unwrap().revoked, "{serial}");
    }
    assert!(!catalog.certificate(Holder::Node, "db").unwrap().unwrap().revoked);
    assert!(renew(&catalog, "next", 2, "more").is_err());
    catalog.add_token(BY, &[3; 32], &terms("web")).unwrap();
    enroll(&catalog, 3, "web", "new").unwrap();
    assert!(!catalog.certificate(Holder::Node, "new").unwrap().unwrap().revoked);
    assert!(catalog.certificate(Holder::Node, "web").unwrap().unwrap().revoked);
    assert!(matches!(catalog.revoke_node(BY, &name("x")), Err(Error::Missing { .. })));
}

fn a_machine_that_takes_a_node_s_place_ends_its_certificates_and_grants(on: On) {
    let (_folder, catalog) = with_nodes(on);
    let grant = Grant { node: name("web"), domain: name("db"), until: None };
    catalog.add_grant(BY, &grant).unwrap();
    catalog.allow_forget(BY, &name("web"), ForgetScope::Own).unwrap();
    catalog.add_token(BY, &[3; 32], &terms("web")).unwrap();
    enroll(&catalog, 3, "web", "new").unwrap();
    assert_eq!(catalog.node(&name("web")).unwrap().unwrap().forget, ForgetScope::None);
    assert!(catalog.certificate(Holder::Node, "web").unwrap().unwrap().revoked);
    assert!(!catalog.certificate(Holder::Node, "new").unwrap().unwrap().revoked);
    assert!(catalog.grants().unwrap().is_empty());
}

fn a_removed_node_is_unknown_and_its_domain_stays(on: On) {
    let (_folder, catalog) = with_nodes(on);
    let grant = Grant { node: name("web"), domain: name("db"), until: None };
    catalog.add_grant(BY, &grant).unwrap();
    catalog.remove_node(BY, &name("web")).unwrap();
    assert!(catalog.certificate(Holder::Node, "web").unwrap().is_none());
    assert!(catalog.grants().unwrap().is_empty());
    assert!(catalog.domain(&name("web")).unwrap().is_some());
}

fn a_grant_ends_by_time_by_withdrawal_and_with_its_node(on: On) {
    let (_folder, catalog) = with_nodes(on);
    let (web, db) = (name("web"), name("db"));
    let grant = Grant { node: web.clone(), domain: db.clone(), until: Some(1_500) };
    let key = GrantedKey { key: "k".into(), node: web.clone(), domain: db.clone() };
    catalog.add_grant(BY, &grant).unwrap();
    catalog.add_granted_key(BY, &key).unwrap();
    assert_eq!(catalog.grant(&web, &db, 1_499).unwrap(), Some(grant.clone()));
    assert_eq!(catalog.grant(&web, &db, 1_500).unwrap(), None);
    assert_eq!(catalog.grant(&db, &web, 0).unwrap(), None, "grants have a direction");
    assert!(catalog.stale_keys(1_499).unwrap().is_empty());
    assert_eq!(catalog.stale_keys(1_500).unwrap(), std::slice::from_ref(&key));
    catalog.revoke_node(BY, &web).unwrap();
    assert_eq!(catalog.stale_keys(0).unwrap(), std::slice::from_ref(&key));
    catalog.remove_granted_key(By { now_secs: 1_500, ..BY }, &key).unwrap();
    assert!(catalog.stale_keys(9_999).unwrap().is_empty() && catalog.grants().unwrap().is_empty());
    assert!(matches!(catalog.add_grant(BY, &grant), Err(Error::Missing { what: "node", .. })));
    assert!(matches!(catalog.remove_grant(BY, &db, &web), Err(Error::Missing { .. })));
}

pub(crate) fn begin(catalog: &Catalog, node: &str, begun: i64) -> u64 {
    let new = NewJob { node, domain: node, kind: "backup", what: "/etc", begun };
    catalog.begin_job(new).unwrap()
}

fn end(catalog: &Catalog, id: u64, state: JobState) {
    let progress = Progress { objects: 5, bytes: u64::MAX, ..Progress::default() };
    let ending = Ending {
        ended: 50,
        state,
        progress: &progress,
        snapshot: Some("s"),
        error: None,
        cause: None,
        cancelled: false,
        report: "{}",
    };
    catalog.end_job(id, ending).unwrap();
}

fn jobs_that_ran_when_the_server_stopped_are_lost_and_stay_so(on: On) {
    let (_folder, catalog) = on.catalog();
    let (ended, running) = (begin(&catalog, "web", 1), begin(&catalog, "web", 2));
    end(&catalog, ended, JobState::Complete);
    let location = catalog.location().clone();
    drop(catalog);
    let catalog = Catalog::open(&location).unwrap();
    assert_eq!(catalog.lose_running_jobs(99).unwrap(), 1);
    let lost = catalog.job(running).unwrap();
    assert_eq!((lost.state, lost.ended), (JobState::Lost, Some(99)));
    end(&catalog, running, JobState::Complete);
    assert_eq!(catalog.job(running).unwrap().state, JobState::Lost);
    let complete = catalog.job(ended).unwrap();
    assert_eq!((complete.state, complete.progress.objects), (JobState::Complete, 5));
    assert_eq!(complete.report.as_deref(), Some("{}"));
    assert_eq!(complete.progress.bytes, i64::MAX as u64, "as much as a column holds");
}

fn jobs_are_found_by_what_they_are_a_page_at_a_time(on: On) {
    let (_folder, catalog) = on.catalog();
    for n in 0..10 {
        let id = begin(&catalog, if n % 2 == 0 { "web" } else { "db" }, n);
        end(&catalog, id, if n < 3 { JobState::Failed } else { JobState::Complete });
    }
    let ids = |filter: JobFilter| -> Vec<u64> {
        catalog.jobs(&filter).unwrap().iter().map(|job| job.id).collect()
    };
    assert_eq!(ids(JobFilter { limit: Some(3), ..Default::default() }), [10, 9, 8]);
    assert_eq!(ids(JobFilter { limit: Some(3), before: Some(8), ..Default::default() }), [7, 6, 5]);
    let failed = JobFilter { state: Some(JobState::Failed), ..Default::default() };
    assert_eq!(ids(failed), [3, 2, 1]);
    let node = Some("db".to_owned());
    assert_eq!(ids(JobFilter { node, since: Some(7), ..Default::default() }), [10, 8]);
    assert!(ids(JobFilter { kind: Some("restore".into()), ..Default::default() }).is_empty());
    assert!(matches!(catalog.job(11), Err(Error::Missing { .. })));
}

fn a_command_goes_to_its_node_and_ends_once(on: On) {
    let (_folder, catalog) = with_nodes(on);
    let task = Task::Backup(NewBackup::of(name("web"), vec!["/etc".into()]));
    let command = catalog.add_command(BY, &task).unwrap();
    assert_eq!(catalog.open_commands("web").unwrap(), std::slice::from_ref(&command));
    assert!(catalog.open_commands("db").unwrap().is_empty());
    let update =
        |node: &str, state| catalog.update_command(BY, &name(node), command.id, state, None);
    assert!(update("db", CommandState::Done).is_err(), "not its own");
    update("web", CommandState::Taken).unwrap();
    update("web", CommandState::Done).unwrap();
    assert!(update("web", CommandState::Failed).is_err());
    assert!(catalog.open_commands("web").unwrap().is_empty());
    assert_eq!(catalog.commands(5).unwrap()[0].state, CommandState::Done);
    let task = Task::Backup(NewBackup::of(name("nobody"), vec![]));
    assert!(matches!(catalog.add_command(BY, &task), Err(Error::Missing { .. })));
}

fn a_command_that_no_node_takes_is_given_up(on: On) {
    let (_folder, catalog) = with_nodes(on);
    let command = |node: &str| {
        let task = Task::Backup(NewBackup::of(name(node), vec![]));
        catalog.add_command(BY, &task).unwrap().id
    };
    let (pending, taken) = (command("web"), command("db"));
    catalog.update_command(BY, &name("db"), taken, CommandState::Taken, None).unwrap();
    assert_eq!(catalog.give_up_commands(BY, BY.now_secs).unwrap(), 0);
    assert_eq!(catalog.give_up_commands(BY, BY.now_secs + 1).unwrap(), 1);
    assert!(catalog.open_commands("web").unwrap().is_empty());
    assert_eq!(catalog.open_commands("db").unwrap().len(), 1);
    assert_eq!(catalog.commands(9).unwrap()[1].id, pending);
}

fn commands_are_deleted_when_they_ended_and_are_old(on: On) {
    let (_folder, catalog) = with_nodes(on);
    let command = |made, state| {
        let task = Task::Backup(NewBackup::of(name("web"), vec![]));
        let command = catalog.add_command(By { now_secs: made, ..BY }, &task).unwrap().id;
        if let Some(state) = state {
            catalog.update_command(BY, &name("web"), command, state, None).unwrap();
        }
        command
    };
    let (waits, runs) = (command(10, None), command(11, Some(CommandState::Taken)));
    command(12, Some(CommandState::Done));
    command(13, Some(CommandState::Failed));
    let young = command(100, Some(CommandState::Done));
    assert_eq!(catalog.delete_old(BY, 100).unwrap(), 2);
    let left: Vec<_> = catalog.commands(9).unwrap().iter().map(|command| command.id).collect();
    assert_eq!(left, [young, runs, waits]);
}

/// The node `web` shows `with` and asks for the key number `key`; `next` is what it would get.
fn renew(catalog: &Catalog, with: &str, key: u8, next: &str) -> Result<Renewed, Error> {
    catalog.renew(
        BY,
        Renewal {
            of: Holder::Node,
            holder: &name("web"),
            predecessor: with,
            key: &[key; 32],
            next: &certificate(next),
            pem: next,
            version: "2",
        },
    )
}

fn who_asks_again_with_the_same_key_gets_the_same_certificate(on: On) {
    let (_folder, catalog) = with_nodes(on);
    assert_eq!(renew(&catalog, "web", 1, "a").unwrap(), Renewed::New);
    let again = Renewed::Before { pem: "a".into(), not_after: certificate("a").not_after };
    assert_eq!(renew(&catalog, "web", 1, "b").unwrap(), again);
    catalog.certificate_used(Holder::Node, "a", 1_000).unwrap();
    assert_eq!(renew(&catalog, "web", 1, "b").unwrap(), again, "also when it is in use");
    assert!(catalog.certificate(Holder::Node, "b").unwrap().is_none());
    assert_eq!(
        catalog.certificate(Holder::Node, "web").unwrap().unwrap().successor_used,
        Some(1_000)
    );
    assert!(renew(&catalog, "nobody", 1, "c").is_err(), "a certificate that is not known");
    assert!(renew(&catalog, "db", 1, "c").is_err(), "that of another node");
}

fn a_certificate_that_nobody_has_shown_is_superseded_and_one_in_use_is_a_fork(on: On) {
    let (_folder, catalog) = with_nodes(on);
    assert_eq!(renew(&catalog, "web", 1, "a").unwrap(), Renewed::New);
    assert_eq!(renew(&catalog, "web", 2, "b").unwrap(), Renewed::New);
    let status = |serial: &str| catalog.certificate(Holder::Node, serial).unwrap().unwrap();
    assert!(status("a").superseded && !status("b").superseded);
    catalog.certificate_used(Holder::Node, "b", 1_000).unwrap();
    assert_eq!(renew(&catalog, "web", 3, "c").unwrap(), Renewed::Forked);
    assert!(status("web").revoked && status("a").revoked && status("b").revoked);
    assert!(catalog.node(&name("web")).unwrap().unwrap().alarm.is_some());
    assert_eq!(catalog.audit_entries(None, 1).unwrap()[0].action, "certificate.fork");
    catalog.add_token(BY, &[7; 32], &terms("web")).unwrap();
    enroll(&catalog, 7, "web", "new").unwrap();
    assert_eq!(catalog.node(&name("web")).unwrap().unwrap().alarm, None);
}

on_both![
    a_token_is_good_once_until_it_ends_and_answers_the_same_again,
    a_token_that_ends_before_it_is_used_is_not_used,
    an_enrollment_without_its_domain_leaves_the_token_as_it_was,
    a_revoked_node_is_out_with_all_its_certificates_and_comes_back_with_a_token,
    a_machine_that_takes_a_node_s_place_ends_its_certificates_and_grants,
    a_removed_node_is_unknown_and_its_domain_stays,
    a_grant_ends_by_time_by_withdrawal_and_with_its_node,
    jobs_that_ran_when_the_server_stopped_are_lost_and_stay_so,
    jobs_are_found_by_what_they_are_a_page_at_a_time,
    a_command_goes_to_its_node_and_ends_once,
    a_command_that_no_node_takes_is_given_up,
    commands_are_deleted_when_they_ended_and_are_old,
    who_asks_again_with_the_same_key_gets_the_same_certificate,
    a_certificate_that_nobody_has_shown_is_superseded_and_one_in_use_is_a_fork,
];
