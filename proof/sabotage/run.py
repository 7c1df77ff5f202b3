"""Removes one protection after the other from a copy of the sources: a test must fail each time.

`make sabotage` switches off the guards of the engine. This is for protections without a switch: syncs and renames of
real files, names of contents, paths of restores. A row whose text is not found is an error, so the list stays true.

    python3 proof/sabotage/run.py [FOLDER] [NAME...]
    python3 proof/sabotage/run.py --check      only check that the rows fit the sources

Rows that were seen with the same sources are not run again, unless they are named (seen.py).

Packages that are built from few sources come first, and rows of one file together: what is restored behind a row is
built with the next one. Before the rows of a package, all their tests run in the copy as it is: one that fails then
proves nothing, nor does one that waits for ever without its protection or fails for another reason; the others go on.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from itertools import groupby
from pathlib import Path

from seen import Seen

ROOT = Path(__file__).resolve().parents[2]
SYNC = ["cargo", "run", "--quiet", "--profile", "fast", "--package", "proof", "--",
        "device", "--seconds", "20", "--seed", "1"]
# How the rig says that a cut cost something; a rig that fails otherwise has seen nothing.
LOST = re.compile("FAILED: power cut at request .*(was acknowledged and is not there"
                  "|is not restored as it was|icecore (check|restore|backup|snapshots).* ended with)")
# A row takes two minutes at most, a first build ten.
SECONDS_MAX = 1200
BUILD = ["cargo", "build", "--quiet", "--profile", "fast", "--package", "icecore"]


def test(package, name, *more):
    """The test that must fail: a package alone would also fail for another reason."""
    names = [name, *more]
    return ["cargo", "test", "--quiet", "--package", package, "--", *names]


# Name: file, text, other text, and what must fail then.
SABOTAGES = {
    "a container that was seen is not longer than it was": (
        "crates/repository/src/session.rs", "length.is_some_and(|length| end_of(location) <= length);\n        if !was_seen", "length.is_some();\n        if !was_seen",
        test("repository", "what_lies_behind_a_cut_is_stored_again")),
    "an ordered restore gives no setuid": (
        "crates/restore/src/withheld.rs", "if self.0.options.is_unprivileged { mode & !SET_ID } else { mode }", "mode",
        test("restore", "an_unprivileged_restore_gives_no_rights")),
    "an ordered restore gives no capabilities": (
        "crates/restore/src/withheld.rs", "self.0.options.is_unprivileged && is_capability(name)", "false && is_capability(name)",
        test("restore", "an_unprivileged_restore_gives_no_rights")),
    "an ordered restore makes no devices": (
        "crates/restore/src/special.rs", "self.refuse_device(entry)?;", "let _ = self.refuse_device(entry);",
        test("restore", "an_unprivileged_restore_gives_no_rights")),
    "a restore that is ordered is unprivileged": (
        "crates/icecore/src/commands/restore.rs", "is_unprivileged: self.target_below.is_some() && !self.privileged", "is_unprivileged: false && !self.privileged",
        test("icecore", "a_restore_by_command_gives_no_rights")),
    "nothing is deleted because of an older snapshot": (
        "crates/icecore/src/commands/restore.rs", "            context.refuse_doubtful_choice(&snapshot)?;", "            let _ = context.refuse_doubtful_choice(&snapshot);",
        test("icecore", "restore_delete_refuses_to_go_back")),
    "what is damaged is not taken for missing": (
        "crates/pipeline/src/select/passed_over.rs", "self.unread.push(name);", "let _ = name;",
        test("icecore", "snapshots_that_are_all_damaged")),
    "a damaged snapshot of later spoils no search": (
        "crates/pipeline/src/select.rs", "self.unread.retain(|name| name.sequence < first_later);", "let _ = first_later;",
        test("icecore", "a_damaged_snapshot_of_later")),
    "an older snapshot is used with the code of damage": (
        "crates/icecore/src/context/chosen.rs", "Code::Complete | Code::Partial if is_doubtful => Code::Damage,", "Code::Complete if is_doubtful && false => Code::Damage,",
        test("icecore", "an_older_snapshot_in_place")),
    "files of others make no repository": (
        "crates/icecore/src/place.rs", "matches!(config::read(&storage), Ok(_) | Err(repository::Error::UnknownFeatures(_)))", "config::exists(&storage).unwrap_or(false)",
        test("icecore", "no_repository_is_made_inside")),
    "a repository is in no other because of its name": (
        "crates/icecore/src/place.rs", "    if config::NAMES.into_iter().any(has) {\n        return Ok(()); // what it is, others say\n    }\n    refuse_inside(place, flag)?;", "    refuse_inside(place, flag)?;\n    if config::NAMES.into_iter().any(has) {\n        return Ok(()); // what it is, others say\n    }",
        test("icecore", "a_repository_is_found_by_every_name")),
    "a key slot that came wrong is read again": (
        "crates/repository/src/keys.rs", "|slot| is_slot(&slot).map(|()| slot));", "|slot| is_slot(&slot).map_or(Ok(slot.clone()), |()| Ok(slot.clone())));",
        test("object-storage", "a_wrong_key_slot_is_asked_for")),
    "nothing is made of a repository without data and list": (
        "crates/repository/src/directories.rs", "    if is_missing(storage, container::DIRECTORY)? &&", "    if false && is_missing(storage, container::DIRECTORY)? &&",
        test("icecore", "where_data_and_list_are_lost")),
    "what the index does not know comes from a copy": (
        "crates/pipeline/src/check/repair.rs", "    names.retain(|name| listed.contains(name));", "    names.retain(|name| listed.contains(name) && false);",
        test("icecore", "what_a_rebuild_did_not_find")),
    "a locked snapshot file need not be replaced by the same": (
        "crates/repository/src/session/copied.rs", "Err(_) if self.has_file(snapshot.name, &bytes) =>", "Err(_) if false && self.has_file(snapshot.name, &bytes) =>",
        test("icecore", "what_a_rebuild_did_not_find")),
    "nothing is deleted because of the list of a copy": (
        "crates/icecore/src/context/chosen.rs", "(is_short || is_of_copy())", "(is_short || is_of_copy() && false)",
        test("icecore", "nothing_is_deleted_because_of_the_list")),
    "nothing is deleted because of a server that went back": (
        "crates/icecore/src/context/chosen.rs", "self.is_list_short() || self.has_doubted(&found.head.source)", "self.is_list_short() || false && self.has_doubted(&found.head.source)",
        test("icecore", "a_server_that_went_back_as_a_whole")),
    "nothing is forgotten because of a server that went back": (
        "crates/icecore/src/context/chosen.rs", "                    || self.is_list_doubtful(&found.snapshot, &selector) =>", "                    || false && self.is_list_doubtful(&found.snapshot, &selector) =>",
        test("icecore", "a_server_that_went_back_as_a_whole")),
    "a storage server has jobs of its nodes only": (
        "crates/server-control/src/storage_servers/heartbeat.rs", "if !own && !self.permissions.is_granted(&job.node, &job.domain) {", "if false && !own && !self.permissions.is_granted(&job.node, &job.domain) {",
        test("server", "a_storage_server_has_no_jobs_of_nodes")),
    "a started job is one of its domain": (
        "crates/server-control/src/jobs/started.rs", "(&*job.node, &*job.domain) == (node, domain)", "job.node == node && !domain.is_empty()",
        test("server-control", "only_the_node_that_was_asked_takes")),
    "a started job in the catalog is one of its domain": (
        "crates/server-control/src/jobs.rs", "(&*job.node, &*job.domain) == whose && its == command", "job.node == whose.0 && its == command",
        test("server-control", "a_job_whose_start_was_stored_without")),
    "a snapshot protects its own domain": (
        "crates/server-control/src/protection/snapshots.rs", "let known = *self.all.get(&(domain, id?))?;", "let id = id?;\n        let known = self.all.iter().find(|it| it.0.1 == id)?.1;",
        test("server-control", "a_snapshot_of_another_domain_protects")),
    "an untold job is lost": (
        "crates/server-control/src/storage_servers/table.rs", "let is_told = job.at.elapsed() < UNTOLD_MAX;", "let is_told = job.at.elapsed() < UNTOLD_MAX || true;",
        test("server-control", "a_job_of_which_its_storage_server_tells_no_more")),
    "few heartbeats are taken at once": (
        "crates/server-control/src/storage_servers/table.rs", "if *count >= ENTERED_MAX {", "if false && *count >= ENTERED_MAX {",
        test("server-control", "few_heartbeats_of_a_storage_server")),
    "one heartbeat writes so much": (
        "crates/server-control/src/storage_servers/heartbeat.rs", "let is_full = (is_new || has_ended) && written >= WRITTEN_MAX;", "let is_full = false && has_ended && written >= WRITTEN_MAX;",
        test("server", "one_heartbeat_writes_so_much")),
    "a storage server has a budget of the audit log": (
        "crates/server-control/src/storage_servers/heartbeat.rs", "if !self.copy_reads.take(storage.as_str(), 1) {", "if false && !self.copy_reads.take(storage.as_str(), 1) {",
        test("server", "one_heartbeat_writes_so_much")),
    "lists of a heartbeat are not endless": (
        "crates/server-control/src/storage_servers/heartbeat.rs", "        refuse_endless(heartbeat)?;\n", "        let _ = refuse_endless(heartbeat);\n",
        test("server", "one_heartbeat_writes_so_much")),
    "a storage server stops no node": (
        "crates/server-control/src/admission.rs", "is_forked(&known, now_secs) && seen == Seen::There => Err", "is_forked(&known, now_secs) && seen == Seen::There && false => Err",
        test("server", "a_storage_server_that_names_an_old_certificate")),
    "nobody forges a line in the log of the lock helper": (
        "crates/lock-helper/src/message.rs", "if char.is_control() { '\\u{fffd}' } else { char }", "char",
        test("lock-helper", "a_line_that_makes_no_sense_forges")),
    "another repository is not taken for that of a domain": (
        "crates/server-control/src/remote_domain/exchange.rs", "                self.must_be_known(&exchange)?;\n", "                let _ = self.must_be_known(&exchange);\n",
        test("server", "nothing_is_signed_for_another_repository")),
    "a snapshot says itself which number it has": (
        "crates/pipeline/src/select.rs", "if fitting.len() > 1 && fitting.iter()", "if false && fitting.iter()",
        test("pipeline", "a_snapshot_file_under_another_number")),
    "a rebuild removes what is called by another number": (
        "crates/pipeline/src/rebuild.rs", "    remove_misnamed(repository, lease)?;\n", "    let _ = remove_misnamed;\n",
        test("pipeline", "a_snapshot_file_under_another_number")),
    "parity of another container promises no repair": (
        "crates/pipeline/src/check/data.rs", "is_healed && is_of_its_name(", "is_healed || is_of_its_name(",
        test("pipeline", "a_rotted_container_under_another_number")),
    "a file that was cut short is damage": (
        "crates/icecore/src/failure/translated.rs", 'ErrorKind::UnexpectedEof if error.operation == "read" =>', 'ErrorKind::UnexpectedEof if error.operation == "never" =>',
        test("icecore", "a_container_that_was_cut_short_is_damage")),
    "what a measurement left goes with the next": (
        "crates/repository/src/local/sweep.rs", "    remove_left(path);\n", "    let _ = remove_left;\n",
        test("repository", "a_sweep_that_is_stopped_or_has_no_space")),
    "a list has what the server named": (
        "crates/remote/src/as_store.rs", "if self.expected.lacks(&listed) {", "if false && self.expected.lacks(&listed) {",
        test("icecore", "lists_only_older_ones_is_told")),
    "a memory does not go back unsaid": (
        "crates/icecore/src/node/memory.rs", "new.sequence < last.sequence && !was_told", "false && new.sequence < last.sequence && !was_told",
        test("icecore", "a_backup_on_an_older_base")),
    "empty expiries end": (
        "crates/remote/src/as_store.rs", "if expiry.is_empty() {", "if false && expiry.is_empty() {",
        test("remote", "expiries_that_say_nothing")),
    "the next certificate has the name": (
        "crates/pki/src/client.rs", "if facts.common_name != name {", "if false && facts.common_name != name {",
        test("access", "no_certificate_of_another_key")),
    "texts of refusals are short": (
        "crates/icecore/src/commands/agent/node_commands.rs", "let text = text[..text.floor_char_boundary(WORDS_MAX)].to_owned();", "",
        test("icecore", "commands_of_any_length")),
    "what a command says is escaped": (
        "crates/icecore/src/commands/agent/daemon.rs", "escape::text(&outcome.text)", "escape::text(\"\") + &outcome.text",
        test("icecore", "no_command_writes_lines")),
    "a wrong answer is read once more": (
        "crates/repository/src/storage.rs", "Err(crate::Error::Damaged { .. }) if storage.distrust(name) => read(),", "Err(crate::Error::Damaged { .. }) if name.is_empty() => read(),",
        test("object-storage", "a_wrong_answer_is_asked_for_once_more_and_nobody_keeps_it")),
    "a damaged page of the index is read once more": (
        "crates/repository/src/index/run.rs", "Err(Error::IndexDamaged { .. }) if file.distrust() => read(),", "Err(Error::IndexDamaged { .. }) if file.length().is_err() => read(),",
        test("object-storage", "a_wrong_answer_is_asked_for_once_more_and_nobody_keeps_it")),
    "a small object that is distrusted is fetched": (
        "crates/object-storage/src/small.rs", "        state.recent.retain(|(recent, _)| recent != name);\n", "",
        test("object-storage", "a_wrong_answer_is_asked_for_once_more_and_nobody_keeps_it")),
    "a run that is distrusted is fetched again": (
        "crates/object-storage/src/runs.rs", "        *self.run.copy.lock() = Copy::NotYet;\n", "",
        test("object-storage", "a_large_run_that_was_fetched_wrongly_is_fetched_again")),
    "what is distrusted leaves the cache": (
        "crates/object-storage/src/reader.rs", "[WHOLE, FILE].iter().for_each(|piece| cache.remove(&self.key(name, piece)));", "let _ = (name, cache);",
        test("object-storage", "a_large_run_that_was_fetched_wrongly_is_fetched_again")),
    "pieces that are distrusted are fetched again": (
        "crates/object-storage/src/reader.rs", "        self.is_distrusted = true;\n", "",
        test("object-storage", "a_piece_of_a_run_that_was_fetched_wrongly_is_fetched_again")),
    "a takeover reads a damaged state once more": (
        "crates/object-storage/src/roots.rs", "if decode(&object).is_some() { Ok(object) } else { client.get(name) }", "Ok(object)",
        test("object-storage", "no_wrong_answer_makes_a_takeover_disown_a_snapshot")),
    "what is no list counts as a storage that is away": (
        "crates/object-storage/src/listed.rs", "    if !is_whole(&body, element)\n", "    if !is_whole(&body, element) && element.is_empty()\n",
        test("object-storage", "an_answer_that_is_no_list_is_asked_for_once_more")),
    "a list without the own lease settles nothing": (
        "crates/object-storage/src/takeover.rs", "    if !names.has(&numbered(LEASE, mine)) {", "    if names.has(\"\") {",
        test("object-storage", "a_list_without_the_lease_of_who_asks_settles_nothing")),
    "no winner of a probe is no proof": (
        "crates/object-storage/src/probe.rs", "    if winners.is_empty() {", "    if winners.len() > WRITERS {",
        test("object-storage", "a_storage_of_which_no_answer_is_heard_is_not_refused_for_good")),
    "a rebuild of nothing is no success": (
        "crates/pipeline/src/rebuild.rs", "    report.damages.extend(without_containers(&report));", "    let _ = without_containers(&report);",
        test("icecore", "a_rebuild_that_finds_no_container_for_the_snapshots_is_no_success")),
    "a lost config is seen in a bucket": (
        "crates/icecore/src/lost_config.rs", "from_environment(&bucket, Away::NONE).is_ok_and(|storage| is_in(&storage))", "from_environment(&bucket, Away::NONE).is_err()",
        test("icecore", "a_bucket_that_lost_its_config_is_not_taken_for_one_without_a_repository")),
    "where the list is lost nothing counts as forgotten": (
        "crates/repository/src/fallback/as_store.rs", "self.has_lost_list.store(listed.is_err(), Relaxed);", "self.has_lost_list.store(false, Relaxed);",
        test("icecore", "what_was_in_a_lost_directory_is_read_from_the_copy_that_is_named")),
    "keys that are gone come from the copy": (
        "crates/repository/src/fallback.rs", "            Ok(value) if is_empty(&value) => {", "            Ok(value) if false && is_empty(&value) => {",
        test("icecore", "keys_that_are_gone_are_read_from_the_copy_that_is_named")),
    "a master key that opens nothing starts no server": (
        "crates/server-control/src/sealing.rs", "    if is_another {", "    if false && is_another {",
        test("icecore", "a_server_does_not_start_with_the_master_key_of_another_one")),
    "no repository is made inside another one": (
        "crates/icecore/src/place.rs", "    refuse_inside(place, flag)?;\n", "    let _ = refuse_inside;\n",
        test("icecore", "no_repository_is_made_inside_of_another_one")),
    "what seemed lost is looked for again": (
        "crates/repository/src/session/first_stored.rs", "        found.extend(index.find_newer(tried, distrusted)?);", "        let _ = (tried, distrusted);",
        test("repository", "what_seemed_lost_when_it_was_claimed_stays_where_it_is")),
    "a disk that was mounted by hand is missed": (
        "crates/pipeline/src/backup/emptied.rs", "        (!is_inside).then(|| Last::new(found, source(), false))", "        (!is_inside && false).then(|| Last::new(found, source(), false))",
        test("icecore", "a_disk_that_was_mounted_by_hand_inside_a_source_is_missed_once")),
    "another disk may have empty directories": (
        "crates/pipeline/src/backup/emptied.rs", "        (!is_inside).then(|| Last::new(found, source(), false))", "        (!is_inside || true).then(|| Last::new(found, source(), false))",
        test("icecore", "a_disk_that_is_another_one_may_have_empty_directories")),
    "what others published is left where it is": (
        "crates/repository/src/session/first_stored.rs", "rows.iter().partition(|row| known.contains_key(&row.prefix));", "rows.iter().partition(|row| false && known.contains_key(&row.prefix));",
        test("repository", "a_commit_replaces_nothing_that_was_stored_meanwhile")),
    "who was overtaken after the look looks again": (
        "crates/repository/src/session/first_stored.rs", "&looked_at, &looked_at, rows)?.is_empty() {", "&looked_at, &looked_at, rows)?.is_empty() || true {",
        test("repository", "neither_does_a_commit_that_is_overtaken_after_its_look")),
    "what is lost where it was is left out of nothing": (
        "crates/repository/src/session/first_stored.rs", "            match self.pin(row.location)? {", "            match self.pin(row.location)? || true {",
        test("repository", "what_is_lost_is_found_where_it_was_stored_again")),
    "what a heal stores takes the place of what is damaged": (
        "crates/repository/src/session/copied.rs", "        self.objects.lock().replace(ids);\n", "",
        test("repository", "a_heal_moves_everything_while_the_index_is_merged")),
    "what was forgotten beside the server is missed": (
        "crates/server-control/src/retention/explain.rs", "self.table.note(domain.as_str(), &[], &gone.collect::<Vec<_>>())?;", "let _ = gone.count();",
        test("server-control", "what_was_forgotten_beside_the_server")),
    "a domain that lies on a storage server is made nowhere else": (
        "crates/server-control/src/domain_keys.rs", "                self.lies_on_no_other(&new)?;\n", "                let _ = Self::lies_on_no_other;\n",
        test("server", "a_domain_that_a_storage_server_has_is_found_there")),
    "a receipt says whose a source is": (
        "crates/server-data/src/manifest.rs", "|other| other.node == receipt.node", "|other| false && other.node == receipt.node",
        test("server", "a_source_stays_with_its_node_when")),
    "a node has a budget of reports": (
        "crates/server-control/src/jobs.rs", "} else if !self.budgets.take(&job.node, report.len() as u64) {", "} else if false && !self.budgets.take(&job.node, report.len() as u64) {",
        test("server-control", "a_report_that_is_left_out_is_told_in_the_log_of_its_job")),
    "a node may begin so many jobs": (
        "crates/server-data/src/lib.rs", "control || self.jobs.take(&node.name, 1)", "control || self.jobs.take(&node.name, 1) || true",
        test("server", "a_node_begins_so_many_jobs_and_others_go_on")),
    "a removed key keeps the numbers of what was forgotten": (
        "crates/repository/src/repository.rs", "Ok(stored.max(listed.unwrap_or_default()))", "Ok(listed.unwrap_or(stored.min(0)))",
        test("pipeline", "a_removed_key_keeps_the_numbers")),
    "a table that is set takes the place of the one before": (
        "crates/icecore/src/commands/server/site/given.rs", "if named.is_object() => {", "if named.is_object() || true => {",
        test("icecore", "a_table_takes_the_place_of_the_table_before")),
    "a month of a span has 31 days": (
        "crates/icecore/src/time.rs", "checked_add(self.months % 12 * 31)?", "checked_add(self.months % 12 * 30)?",
        test("icecore", "what_is_kept_for_months_is_kept_for_all_of_them")),
    "a revoked storage server cuts its sources off": (
        "crates/server-control/src/protection/decide.rs", "if let Some(storage) = facts.cut_off_on {", "if let Some(storage) = facts.cut_off_on.filter(|_| false) {",
        test("server-control", "a_revoked_storage_server_that_has_domains")),
    "a full bucket is not tried like a busy one": (
        "crates/object-storage/src/requests.rs", "return answer.map(not_repeated);", "{ let _ = not_repeated; return answer; }",
        test("object-storage", "a_full_storage_is_asked_a_few_times")),
    "who enrolls a storage server again keeps its address": (
        "crates/icecore/src/commands/storage.rs", "access::storage_server::listens_at(&data).unwrap_or(LISTEN_DEFAULT)", "access::storage_server::listens_at(&data).filter(|_| false).unwrap_or(LISTEN_DEFAULT)",
        test("icecore", "a_storage_server_that_enrolls_again_listens")),
    "a cancel reaches a hook": (
        "crates/icecore/src/commands/agent/cancelled.rs", "Some(job) if is_cancelled(&job) => {", "Some(job) if false && is_cancelled(&job) => {",
        test("icecore", "a_job_that_is_cancelled_during_its_hook")),
    "a record that a reader keeps speaks for nothing of others": (
        "crates/pipeline/src/blocks.rs", "        let opened = self.fetch_record(id, scratch)?;\n        let payload", "        let opened = self.find_record(id, scratch)?;\n        let payload",
        test("pipeline", "a_record_that_a_reader_keeps_speaks")),
    "no page refers to what is not stored": (
        "crates/repository/src/session.rs", "        self.check_references()?;\n", "",
        test("repository", "no_snapshot_refers_to_what_is_not_stored")),
    "of the records of a container the first counts": (
        "crates/repository/src/rebuild/places.rs", "kind.placed.entry(prefix).or_insert(location);", "kind.placed.insert(prefix, location);",
        test("repository", "without_an_index_the_oldest_record")),
    "a page speaks for itself only where the index has it": (
        "crates/repository/src/page_heads.rs", "self.records.get(location)", "self.order.front().and_then(|first| self.records.get(first)).or(self.records.get(location))",
        test("repository", "a_page_refers_to_what_it_says_where")),
    "a copy walks pages where the index has them": (
        "crates/repository/src/page_heads.rs", "self.records.get(location)", "self.order.front().and_then(|first| self.records.get(first)).or(self.records.get(location)) ",
        test("repository", "a_copy_walks_each_page_where")),
    "a reclaim moves what a record only names nowhere": (
        "crates/repository/src/reclaim/copy.rs", "both.filter(|(_, found)| *found == Some(place))", "both.filter(|(_, found)| found.is_some() || *found == Some(place))",
        test("repository", "a_reclaim_moves_nothing_to_a_record")),
    "a reclaim tells records of a container apart": (
        "crates/repository/src/reclaim/copy.rs", "Some(location) => Ok(location == place),", "Some(location) => Ok(location.container == place.container),",
        test("repository", "a_reclaim_tells_records_of_one_container")),
    "a copy takes from a record what lies in it": (
        "crates/repository/src/copy/batch.rs", "*at == Some(job.location)", "at.is_some()",
        test("repository", "a_copy_takes_from_a_record_only")),
    "a rebuild asks the index of before": (
        "crates/repository/src/rebuild/places.rs", "before.get(&prefix) == Some(&location)", "before.is_empty() && before.get(&prefix) == Some(&location)",
        test("repository", "a_rebuild_finds_what_is_named_twice")),
    "a rebuild uses what is kept for a full disk": (
        "crates/repository/src/rebuild.rs", "holder, LeasePurpose::Reclaim)?;\n    // A full disk", "holder, LeasePurpose::Store)?;\n    // A full disk",
        test("icecore", "a_lost_index_is_rebuilt_on_a_full_disk")),
    "a rebuild that has its lease uses it, too": (
        "crates/repository/src/rebuild.rs", "let done = reserve::with(&**storage, || rebuild_under(storage, &lease, ids_max));", "let done = rebuild_under(storage, &lease, ids_max);",
        test("icecore", "a_lost_index_is_rebuilt_on_a_full_disk")),
    "a rebuild that fails leaves no runs of its own": (
        "crates/repository/src/rebuild.rs", "    if done.is_err() {\n        let _ = places", "    if done.is_err() && false {\n        let _ = places",
        test("repository", "a_rebuild_that_fails_leaves_no_runs")),
    "nothing is put back to before it was made": (
        "crates/object-storage/src/versions.rs", "if first.is_some_and(|first| first <= moment) {", "if first.is_some_and(|first| first <= moment) || true {",
        test("icecore", "no_repository_is_put_back_to_before_it_was_made")),
    "the oldest record counts where no index says more": (
        "crates/repository/src/rebuild/places.rs", "full.into_iter().rev().unzip()", "full.into_iter().unzip()",
        test("repository", "without_an_index_the_oldest_record")),
    "who comes while a question is asked waits for its answer": (
        "crates/server-contract/src/pool/question.rs", "while state.waits_since == Some(since) {", "while false && state.waits_since == Some(since) {",
        test("server-contract", "one_thread_waits_for_who_hangs")),
    "what a move left is no domain": (
        "crates/server-contract/src/pool/states.rs", "crate::moving::domain_of(Path::new(name)) != Path::new(name)", "false && crate::moving::domain_of(Path::new(name)) != Path::new(name)",
        test("server-contract", "what_a_move_left")),
    "what is no file is damaged": (
        "crates/store/src/storage_error.rs", "REFUSED.contains(&errno)", "REFUSED[..7].contains(&errno)",
        test("repository", "what_stands_in_the_place_of_a_file")),
    "a clock that went back is told": (
        "crates/pipeline/src/backup/run.rs", "if effective_time::is_before(own, newest)", "if false && effective_time::is_before(own, newest)",
        test("icecore", "a_backup_may_have_another_time")),
    "a tagged enum is described as one object": (
        "crates/server-control/src/http/openapi.rs", "*variant = RefOr::T(Schema::Object(whole));", "let _ = whole;",
        test("server-control", "what_is_described_in_parts")),
    "a write-only node is told how it may read": (
        "crates/icecore/src/failure.rs", "if self.hint.as_deref() == Some(NEEDS_READER) {", "if false && self.hint.as_deref() == Some(NEEDS_READER) {",
        test("icecore", "a_node_that_cannot_read_is_told")),
    "what the disk does not give is damaged": (
        "crates/repository/src/storage.rs", "_ if error.is_unreadable() =>", "_ if false && error.is_unreadable() =>",
        test("icecore", "what_the_disk_does_not_give")),
    "a run that the disk does not give is damaged": (
        "crates/repository/src/index/run.rs", "match error.is_unreadable() {", "match false && error.is_unreadable() {",
        test("icecore", "what_the_disk_does_not_give")),
    "a client that lives long shows the newest certificate": (
        "crates/access/src/client.rs", "reloading_certificate::tls(folder, identity, pki::ALPN_HTTP)?", "{ let _ = (folder, reloading_certificate::tls); identity.tls(pki::ALPN_HTTP)? }",
        test("server", "a_client_that_lives_long")),
    "a repository that nodes made is noted": (
        "crates/server-control/src/made_repositories.rs", "if !known && domain.keys", "if false && !known && domain.keys",
        test("icecore", "a_repository_that_is_lost")),
    "a repository that a storage server lost is an alarm": (
        "crates/server-control/src/made_repositories.rs", "Ok(None) if known => self", "Ok(None) if false && known => self",
        test("icecore", "a_repository_that_is_lost")),
    "a lost repository has no list of snapshots": (
        "crates/server-control/src/remote_domain.rs", "return if self.known.is_some() {", "return if false && self.known.is_some() {",
        test("icecore", "a_repository_that_is_lost")),
    "of a name that nobody has nothing is protected": (
        "crates/server-control/src/protection.rs", "        refuse_unknown(filter, (&nodes, &stored.site), &sources)?;\n", "        let _ = refuse_unknown(filter, (&nodes, &stored.site), &sources);\n",
        test("icecore", "a_server_says_how_it_stands")),
    "a dry run knows which names will be linked to another file": (
        "crates/pipeline/src/restore/finish.rs", "if self.shared.is_to_be_replaced(existing) =>", "if false && self.shared.is_to_be_replaced(existing) =>",
        test("pipeline", "a_dry_run_foretells_what_becomes")),
    "a file of a key that a list lacks is looked for": (
        "crates/pipeline/src/unlocked.rs", "local.key_slot(key.id)", "local.key_slot(key.id).map(|found| found.filter(|_| false))",
        test("pipeline", "a_check_calls_no_stale_listing_damage")),
    "reads from copies are believed of what lies there": (
        "crates/server-control/src/storage_servers/heartbeat.rs", "if self.permissions.lies_on(storage, &read.domain)? {", "if true || self.permissions.lies_on(storage, &read.domain)? {",
        test("server", "what_was_read_from_copies_on_a_storage_server")),
    "a key list is replaced by others": (
        "crates/repository/src/local/current.rs", "const WRITTEN_ONCE: [&str; 3] = [\"containers/\",", "const WRITTEN_ONCE: [&str; 4] = [\"keys/\", \"containers/\",",
        test("repository", "what_gets_its_name_once")),
    "the sealed part of a manifest has its own limit": (
        "crates/format/src/record.rs", "[MANIFEST_CLEAR_MAX, MANIFEST_BODY_MAX, MANIFEST_SEALED_MAX],", "[MANIFEST_CLEAR_MAX, MANIFEST_BODY_MAX, RECORD_SEALED_MAX],",
        test("server", "a_manifest_is_refused_whose_snapshot_file_nobody_would_read")),
    "keys that do not fit are asked for": (
        "crates/remote/src/as_store.rs", "all.len() >= KEYS_MAX && self", "all.len() > KEYS_MAX && self",
        test("remote", "the_keys_of_a_container_that_do_not_fit")),
    "keys are sent in order": (
        "crates/server-data/src/reading.rs", "    keys.sort_unstable();\n    keys.dedup();\n", "    keys.dedup();\n",
        test("server-data", "all_keys_of_a_container_are_sent_in_parts")),
    "two snapshots of a fork have one number": (
        "crates/protocol/src/field.rs", "(one.sequence == next.sequence && one.id != next.id)", "false",
        test("server-control", "two_snapshots_of_a_forked_history")),
    "a snapshot is listed once": (
        "crates/protocol/src/field.rs", "one.sequence == next.sequence && one.id != next.id", "one.sequence == next.sequence",
        test("server-control", "a_list_without_an_end")),
    "a server that shuts down does not say that a snapshot is damaged": (
        "crates/server-control/src/remote_domain.rs", "[Code::Damaged, Code::Storage].iter()", "Code::ALL.iter()",
        test("server-control", "only_what_cannot_be_read_counts_as_damaged")),
    "a container has one name": (
        "crates/repository/src/container.rs", "(number.to_string() == digits)", "true",
        test("repository", "names_are_read_back")),
    "a snapshot file has one name": (
        "crates/store/src/snapshot.rs", "(named.file_name() == name)", "true",
        test("store", "a_snapshot_file_has_one_name")),
    "keys that have no end are refused": (
        "crates/remote/src/as_store.rs", "bytes > KEYS_BYTES_MAX", "bytes > 4 * KEYS_BYTES_MAX",
        test("remote", "keys_that_have_no_end_are_a_lie")),
    "a lease that was lost does not begin again": (
        "crates/repository/src/lease.rs", "    match is_missing && files.is_empty() {", "    match is_missing {",
        test("repository", "a_lease_that_was_lost_does_not_begin_again")),
    "a rebuild behind a lost lease raises the epoch": (
        "crates/repository/src/lease.rs", "    match is_missing && files.is_empty() {", "    match is_missing {",
        test("pipeline", "a_rebuild_after_the_state_was_lost_distrusts")),
    "a machine that replaces another keeps its domain": (
        "crates/server-control/src/tokens.rs", "new.domain.clone().or(known.map(|node| node.domain))", "new.domain.clone()",
        test("server-control", "a_machine_that_replaces_another_gets_its_domain")),
    "a machine that replaces another gets no more rights": (
        "crates/server-control/src/tokens.rs", "new.role.or(known.as_ref().map(|node| node.role))", "new.role",
        test("server-control", "a_machine_that_replaces_another_gets_its_domain")),
    "what is still there has not vanished": (
        "crates/capture/src/gone.rs", "        Errno::NOENT => is_gone(directory, name),", "        Errno::NOENT => true,",
        test("icecore", "what_is_listed_and_cannot_be_had")),
    "what is stale has not vanished": (
        "crates/capture/src/gone.rs", "        Errno::STALE => is_gone_by_path(&directory.path_of(name.to_bytes())),", "        Errno::STALE => true,",
        test("icecore", "what_is_listed_and_cannot_be_had")),
    "what is listed again and not found is told": (
        "crates/capture/src/walk/missing.rs", "            Err(Errno::NOENT) if Some(change_times(handle)?) != before => Err(VANISHED),", "            Err(Errno::NOENT) if true || Some(change_times(handle)?) != before => Err(VANISHED),",
        test("capture", "what_is_listed_and_never_found")),
    "a directory that the user named has not vanished": (
        "crates/capture/src/walk/worker.rs", "            Err(error) if is_root => add_problem(&mut batch, None, CaptureOperation::List, error),\n", "            Err(_) if is_root => add_problem(&mut batch, None, CaptureOperation::List, crate::problem::VANISHED),\n",
        test("icecore", "what_is_listed_and_cannot_be_had")),
    "what comes back is opened again": (
        "crates/capture/src/gone.rs", "                Ok(()) => {}\n", "                Ok(()) => return Err(Errno::NOENT),\n",
        test("capture", "what_comes_back_is_opened_again")),
    "what is created again under a deleted name is another": (
        "crates/capture/src/gone.rs", "                Err(error) if is_missing(Err(error)) => return Err(VANISHED),\n", "",
        test("capture", "what_is_missing_when_it_is_asked_for")),
    "a deleted directory has no name": (
        "crates/capture/src/gone.rs", "    found.is_ok_and(|found| found.stx_nlink == 0)", "    found.is_ok_and(|found| found.stx_nlink == u32::MAX)",
        test("capture", "what_was_in_a_deleted_directory")),
    "a name that is listed twice is one": (
        "crates/capture/src/walk/names.rs", "        self.positions.dedup_by(|a, b| bytes[a.range()] == bytes[b.range()]);\n", "",
        test("icecore", "a_name_that_a_directory_lists_twice")),
    "a file of an overlay in memory is racy": (
        "crates/capture/src/file_system_kinds.rs", "syscalls::has_extents(file.as_fd()) || self.overlays.lie_on_disks(file)", "true || syscalls::has_extents(file.as_fd()) || self.overlays.lie_on_disks(file)",
        test("capture", "a_file_of_an_overlay_in_memory")),
    "the second name of an ACL is not stored": (
        "crates/capture/src/xattrs.rs", "        .filter(|name| !is_second_name_of_acl(name.to_bytes()))\n", "        .filter(|name| true || !is_second_name_of_acl(name.to_bytes()))\n",
        test("capture", "the_second_name_of_an_acl_on_xfs")),
    "the second name of an ACL is not restored": (
        "crates/restore/src/xattrs.rs", ".filter(|xattr| !is_second_name_of_acl(&xattr.name))", ".filter(|xattr| true || !is_second_name_of_acl(&xattr.name))",
        test("restore", "the_second_name_of_an_acl_on_xfs")),
    "an ACL from above a new target goes": (
        "crates/restore/src/target.rs", "            remove_acl(self.fd.as_fd());\n", "            let _ = remove_acl;\n",
        test("restore", "an_acl_from_above_a_new_target")),
    "a link above what was backed up stays": (
        "crates/restore/src/directory.rs", "        if options.is_above_sources(path) {", "        if false && options.is_above_sources(path) {",
        test("icecore", "a_link_above_what_was_backed_up")),
    "what is above a source keeps its attributes": (
        "crates/restore/src/metadata.rs", "match self.0.options.is_above_sources(&entry.path) {", "match false && self.0.options.is_above_sources(&entry.path) {",
        test("icecore", "what_is_only_above_a_source")),
    "what was not entered is not emptied": (
        "crates/pipeline/src/restore/finish.rs", "        if status & STATUS_NOT_ENTERED == 0 {", "        if true || status & STATUS_NOT_ENTERED == 0 {",
        test("icecore", "restore_delete_leaves_alone_what_no_backup_entered")),
    "what was entered since is not as it was": (
        "crates/pipeline/src/backup/merge.rs", "            && before.status & STATUS_NOT_ENTERED == not_entered(row)\n", "",
        test("icecore", "what_is_entered_by_a_later_backup")),
    "directories are locked again": (
        "crates/restore/src/opened_up.rs", "        flags::lock_again(directory, &before)\n", "        let _ = flags::lock_again;\n        Ok(())\n",
        test("icecore", "never_leaves_directories_as_locked")),
    "what lies in a locked directory is not deleted": (
        "crates/restore/src/extraneous.rs", "        match self.0.opened_up.was_locked(&stat) {", "        match false && self.0.opened_up.was_locked(&stat) {",
        test("icecore", "restore_delete_leaves_alone_what_lies_in_a_locked")),
    "a locked target is opened": (
        "crates/restore/src/opened_up.rs", "if flags::are_locked(&before) && flags::clear_locks(root).is_ok() {", "if false && flags::are_locked(&before) && flags::clear_locks(root).is_ok() {",
        test("icecore", "a_locked_target_is_opened")),
    "a file is locked again only behind its new name": (
        "crates/restore/src/link.rs",
        "                flags::unlock(directory, self.name, &system::stat_at(directory, self.name)?);\n"
        "                is_unlocked.set(true);\n                self.link(fd, name)",
        "                let before = system::stat_at(directory, self.name)?;\n"
        "                flags::unlock(directory, self.name, &before);\n                is_unlocked.set(true);\n"
        "                let linked = self.link(fd, name);\n"
        "                let open = rustix::fs::openat(directory, self.name, system::READ, rustix::fs::Mode::empty())?;\n"
        "                flags::lock_again(open.as_fd(), &before)?;\n                linked",
        test("icecore", "names_of_a_locked_file")),
    "further names are linked to what was restored": (
        "crates/pipeline/src/restore/finish.rs", "                if !shared.may_be_another(&existing) ||", "                if true || !shared.may_be_another(&existing) ||",
        test("icecore", "further_names_are_not_linked_to_what_was_kept")),
    "what was born in the future is replaced": (
        "crates/restore/src/system.rs", "birth.secs <= now() + CLOCKS_DIFFER_SECS", "(true || birth.secs <= now() + CLOCKS_DIFFER_SECS)",
        test("restore", "what_was_born_in_the_future")),
    "what could not be read is told by a restore": (
        "crates/pipeline/src/restore/plan.rs", "        if self.shared.lets_be(&entry) {", "        if false && self.shared.lets_be(&entry) {",
        test("icecore", "what_could_not_be_read_is_named")),
    "a dead address keeps nobody from a living one": (
        "crates/transport/src/dial.rs", "        let wait = if is_last { Duration::MAX } else { HEAD_START };", "        let wait = if is_last { HEAD_START } else { Duration::MAX };",
        test("transport", "a_dead_address_keeps_nobody")),
    "a link with a slash is followed": (
        "crates/icecore/src/commands/backup/links.rs", "    if !link.is_symlink() {", "    if true || !link.is_symlink() {",
        test("icecore", "a_link_with_a_slash_at_its_end")),
    "root gives what it creates to the owner of a repository": (
        "crates/repository/src/local/heir.rs", "        self.give(&file);\n", "",
        test("repository", "what_root_creates_belongs_to_the_owner_of_the_directory")),
    "root follows no link in the repository of another user": (
        "crates/repository/src/local/heir.rs", "ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS", "ResolveFlags::empty()",
        test("repository", "what_root_creates_belongs_to_the_owner_of_the_directory")),
    "root gives what it writes to the owner of a server's folder": (
        "crates/server-contract/src/folder.rs", "    let _ = std::os::unix::fs::fchown(file, Some(owner.uid()), Some(owner.gid()));\n", "",
        test("icecore", "root_leaves_nothing_that_stops_a_server_of_another_user")),
    "a catalog is moved by its owner alone": (
        "crates/server-control/src/catalog_location.rs", "    belongs_to_us(folder)?;\n", "",
        test("icecore", "root_leaves_nothing_that_stops_a_server_of_another_user")),
    "no domain is made by an older catalog": (
        "crates/server-control/src/domain_keys.rs", "self.mark.allows_new_domain(&new.name).map(|()| new)?", "new",
        test("icecore", "a_domain_that_is_found_nowhere_is_made_only_once_somebody_confirms")),
    "a thread that does not start is no panic": (
        "crates/pipeline/src/threads.rs", "Builder::new().spawn_scoped(scope, work.clone());", "Ok::<_, std::io::Error>(scope.spawn(work.clone()));",
        test("icecore", "too_few_threads_end_no_command_by_a_panic")),
    "the clocks of a site are compared": (
        "crates/server-control/src/storage_servers/table.rs", "(ahead_secs.unsigned_abs() >= CLOCKS_DIFFER_SECS)", "(ahead_secs.unsigned_abs() >= u64::MAX)",
        test("server", "a_clock_that_is_five_minutes_off_is_told_and_no_other")),
    "a storage server tells its clock": (
        "crates/server/src/storage_server.rs", "self.takes_clock.load(Ordering::Relaxed).then(now_secs)", "(false && self.takes_clock.load(Ordering::Relaxed)).then(now_secs)",
        test("icecore", "a_storage_server_with_another_time_is_an_alarm_until_it_is_right")),
    "each snapshot that a node forgets is asked for": (
        "crates/server-control/src/forget.rs", "asked.snapshots.iter().take(FORGET_MAX)", "asked.snapshots.iter().take(AUDITED_MAX)",
        test("server", "more_than_an_entry_of_the_audit_log_names_are_asked_for_one_by_one")),
    "each connection is told its limits": (
        "crates/server-data/src/hub.rs", "    handle.rates.up.set(up);\n", "    if handle.rates.up.bytes_per_sec() == up {\n        return;\n    }\n    handle.rates.up.set(up);\n",
        test("server", "every_connection_of_a_node_is_told_its_limits")),
    "that nothing is limited is told, too": (
        "crates/server-data/src/request_handler.rs", "Packet::Redirect { .. }) => {", "Packet::Redirect { .. })\n                if self.handle.rates.up.is_limited() =>\n            {",
        test("server", "every_connection_of_a_node_is_told_its_limits")),
    "whoever attaches is told its limits": (
        "crates/server-data/src/request_handler.rs", "Packet::Opened { .. } | Packet::Attached { .. } | ", "Packet::Opened { .. } | ",
        test("server", "a_claim_that_is_asked_again_is_answered_as_it_was")),
    "keys that were changed in both places are not mixed": (
        "crates/pipeline/src/copy/keys.rs", "    if newer == Newer::Neither && !options.replace_keys {", "    if false && newer == Newer::Neither && !options.replace_keys {",
        test("icecore", "keys_that_were_changed_in_both_places_stop_a_copy")),
    "a domain lies nowhere without its containers": (
        "crates/server-control/src/placing.rs", "        if report.damaged > 0 && !wanted.lost {", "        if false && report.damaged > 0 && !wanted.lost {",
        test("icecore", "a_copy_without_all_of_its_containers_is_placed_only_once_they_are_there")),
    "a removed key opens nothing of a copy that goes on": (
        "crates/server-control/src/placing.rs", "            if wanted.lost {\n                self.issued.remove_at(&after)?;", "            if wanted.lost && false {\n                self.issued.remove_at(&after)?;",
        test("icecore", "a_key_that_was_removed_since_the_copy_opens_nothing_from_the_first_moment")),
    "a key that comes back with an older copy is removed": (
        "crates/server-control/src/housekeeping.rs", "            self.issued.remove_again();\n", "",
        test("icecore", "a_key_that_was_removed_and_comes_back")),
    "what took the place of a file is told": (
        "crates/capture/src/read.rs", "Errno::LOOP | Errno::NXIO | Errno::SPIPE | Errno::ISDIR => REPLACED,", "Errno::LOOP | Errno::NXIO | Errno::SPIPE | Errno::ISDIR => Errno::STALE,",
        test("capture", "another_file_in_its_place_is_taken_and_another_kind_is_not")),
    "what takes the place of a config file is no pipe": (
        "crates/icecore/src/text_file.rs", "    if !file.metadata()?.is_file() {", "    if false {",
        test("icecore", "what_has_no_end_is_refused_and_nobody_waits")),
    "a small file that grew is damaged": (
        "crates/repository/src/storage.rs", "        io::ErrorKind::InvalidData => {\n            crate::Error::damaged", "        io::ErrorKind::Unsupported => {\n            crate::Error::damaged",
        test("repository", "a_damaged_lease_keeps_nobody_from_writing")),
    "a check of a copy heals it": (
        "crates/pipeline/src/copy/checked.rs", "    if found.report.damaged == 0 || !watch.goes_on() {", "    if found.report.damaged == 0 || watch.goes_on() {",
        test("icecore", "a_check_of_a_copy_heals_it_from_the_domain")),
    "a key that a copy lacks is an alarm": (
        "crates/server-control/src/upkeep/came.rs", "        if !report.lost_keys.is_empty() {", "        if false {",
        test("icecore", "a_key_that_the_copy_lacks_is_an_alarm")),
    "copies in directories are checked by default": (
        "crates/server-control/src/upkeep/due.rs", "    unread.map(part).collect()", "    unread.map(part).take(0).collect()",
        test("server-control", "copies_in_directories_are_read_every_week")),
    "a commit whose answer was lost is looked for": (
        "crates/pipeline/src/manifest.rs", "published(repository, &manifest)?.ok_or(", "None::<CommittedSnapshot>.ok_or(",
        test("pipeline", "a_backup_whose_last_answer_is_lost_has_made_one_snapshot")),
    "what is forgotten is pending in no earlier state": (
        "crates/repository/src/repository.rs", "            return Ok(self.storage.sync_directory(\"index\")?);\n", "            return Ok(());\n",
        test("simulation", "a_forget_behind_a_state_of_a_killed_writer")),
    "a storage that is away is waited for": (
        "crates/object-storage/src/requests.rs", ".filter(|_| self.requests.has_answered())", ".filter(|_| false)",
        test("icecore", "a_storage_that_is_away_for_a_while_is_waited_for_and_the_backup_is_complete")),
    "a storage that was waited for in vain is not waited for again": (
        "crates/object-storage/src/requests.rs", "        self.has_answered.store(false, Ordering::Relaxed);\n", "",
        test("icecore", "a_storage_that_goes_away_in_the_middle_of_a_backup_is_named_with_what_to_do")),
    "a refusal behind a lost write leaves the lease to its end": (
        "crates/object-storage/src/requests.rs", "is_lost && is_refusal(answer)", "false && is_lost && is_refusal(answer)",
        test("object-storage", "a_refusal_after_a_lost_request_leaves_the_lease_to_its_end")),
    "the time that answers take is no silence": (
        "crates/object-storage/src/lease.rs", "        watched += pause;", "        watched += 4 * pause;",
        test("object-storage", "the_time_that_answers_take_is_no_silence_of_a_holder")),
    "a copy takes no keys that disown what was made in it": (
        "crates/pipeline/src/copy/keys.rs", "    if disowned.is_empty() || options.give_up {", "    if true || disowned.is_empty() || options.give_up {",
        test("icecore", "a_copy_takes_no_keys_that_would_disown_what_was_made_in_it")),
    "the server's own key forgets nothing that a hold keeps": (
        "crates/icecore/src/commands/forget.rs", "        refuse_kept(&plan, kept)?;\n", "",
        test("icecore", "what_a_hold_keeps_is_forgotten_by_no_command")),
    "no node forgets what a hold keeps": (
        "crates/server-control/src/forget.rs", "        if let Some((id, why)) = ids.iter().find_map(|id| kept.get_key_value(id)) {", "        if let Some((id, why)) = ids.iter().take(0).find_map(|id| kept.get_key_value(id)) {",
        test("icecore", "what_a_hold_keeps_is_forgotten_by_no_node")),
    "no grant of an older catalog opens a domain": (
        "crates/server-control/src/permissions.rs", "self.mark.allows_grants().map(|()| grant)", "self.mark.allows_grants().or(Ok(())).map(|()| grant)",
        test("server-control", "no_grant_of_an_older_catalog_is_good_until_somebody_confirms")),
    "an older catalog ends who reads by a grant": (
        "crates/server-control/src/permissions.rs", "&& !self.mark.is_known_older()", "&& (true || self.mark.is_known_older())",
        test("server-control", "no_grant_of_an_older_catalog_is_good_until_somebody_confirms")),
    "a restore of an older catalog fails when that is found": (
        "crates/server-control/src/catalog_mark.rs", "        self.catalog.fail_restores(by(SERVER))?;\n        self.found_at", "        self.found_at",
        test("server-control", "a_restore_of_an_older_catalog_is_given_to_nobody")),
    "a restore of an older catalog fails at each start": (
        "crates/server-control/src/catalog_mark.rs", "            self.catalog.fail_restores(by(SERVER))?;\n            self.tell", "            self.tell",
        test("server-control", "a_restore_of_an_older_catalog_is_given_to_nobody")),
    "a restore of an older catalog is given to no agent": (
        "crates/server-control/src/commands.rs", "!self.mark.may_be_of_copy(one.made)?", "(true || !self.mark.may_be_of_copy(one.made)?)",
        test("server-control", "a_restore_of_an_older_catalog_is_given_to_nobody")),
    "the trash of an older catalog stays for a whole time": (
        "crates/server-control/src/catalog_mark.rs", "            self.catalog.keep_trash(by, now_secs)?;\n", "            let _ = now_secs;\n",
        test("server-control", "what_an_older_catalog_has_in_the_trash_stays_for_a_whole_time")),
    "a snapshot that was to go at once stays in the trash of an older catalog": (
        "crates/catalog/src/snapshots.rs", "            word(TrashedBy::NameAtOnce),\n            word(TrashedBy::Name)\n", "            word(TrashedBy::NameAtOnce),\n            word(TrashedBy::NameAtOnce)\n",
        test("server-control", "what_an_older_catalog_has_in_the_trash_stays_for_a_whole_time")),
    "a domain in two places takes nothing by an older catalog": (
        "crates/server-control/src/permissions.rs", "        if !self.mark.is_known_older() {\n            return Ok(None);", "        if true || !self.mark.is_known_older() {\n            return Ok(None);",
        test("icecore", "a_domain_in_two_places_takes_nothing_while_the_catalog_is_older")),
    "a domain in another pool is told with that one": (
        "crates/server-control/src/pools.rs", "match self.found_in(&domain.name, Some(&pool))? {", "match self.found_in(&domain.name, Some(&pool))?.filter(|_| false) {",
        test("server-control", "a_domain_that_is_in_another_pool_than_its_own_is_told_with_that_one")),
    "nothing is forgotten by an older catalog": (
        "crates/server-control/src/offline.rs", "let doubt = if is_older { Some(Doubt::Catalog) }", "let doubt = if false && is_older { Some(Doubt::Catalog) }",
        test("icecore", "an_older_copy_of_the_catalog_lets_nobody_in_and_nothing_go")),
    "a server serves nobody before keys that came back are gone": (
        "crates/server/src/planes.rs", "        self.remove_returned_keys().await;\n", "",
        test("icecore", "a_server_that_starts_removes_a_key_that_came_back_before_it_serves_nodes")),
    "a node joins no domain of others unasked": (
        "crates/server-control/src/tokens.rs", "match self.catalog.nodes_of(node)?.first() {", "match self.catalog.nodes_of(node)?.first().filter(|other| other.revoked) {",
        test("icecore", "a_node_with_the_name_of_a_domain_of_others_does_not_join_it_unasked")),
    "a disk that fails is no damage": (
        "crates/repository/src/local/failing.rs", "        match error == Errno::IO", "        match false && error == Errno::IO",
        test("icecore", "a_disk_that_fails_in_the_middle_of_a_restore_is_no_damage")),
    "what is archived is no lack of permission": (
        "crates/object-storage/src/errors.rs", "let is_archived = part(text, \"Code\") == Some(ARCHIVED);", "let is_archived = false && part(text, \"Code\") == Some(ARCHIVED);",
        test("object-storage", "what_is_archived_is_told_asked_for_and_read")),
    "an upload whose answer was lost is known by its mark": (
        "crates/object-storage/src/client/writing.rs", "&& there.content == Some(sum(bytes))", "&& (true || there.content == Some(sum(bytes)))",
        test("object-storage", "a_container_whose_answer_was_lost_is_known_by_its_mark")),
    "reclaim rewrites nothing that is cold": (
        "crates/repository/src/reclaim/plan.rs", "Some(Coldness::Content) => !self.is_all_dead(),", "Some(Coldness::Content) => false,",
        test("repository", "what_is_cold_stays_unless_nothing_in_it_lives")),
    "reclaim removes nothing cold of which nobody knows what it holds": (
        "crates/repository/src/reclaim/plan.rs", "Some(Coldness::Other) => true,", "Some(Coldness::Other) => false,",
        test("repository", "what_is_cold_stays_unless_nothing_in_it_lives")),
    "what is dead in an archive goes without being read": (
        "crates/repository/src/reclaim/rewrite.rs", "if self.cold.contains(number) {", "if false && self.cold.contains(number) {",
        test("object-storage", "what_lives_again_before_it_goes_unread_stays")),
    "what lives again does not go unread": (
        "crates/repository/src/reclaim/stages.rs", "let revived = rewriter.revived(&condemned)?;", "let revived: Vec<ContainerNo> = Vec::new();\n        let _ = Rewriter::revived;",
        test("object-storage", "what_lives_again_before_it_goes_unread_stays")),
    "a writer gives up no archive that may hold manifests": (
        "crates/repository/src/recover.rs", "Err(error) if error.is_archived() && self.is_given_up(file)? => {}", "Err(error) if error.is_archived() && (true || self.is_given_up(file)?) => {}",
        test("object-storage", "an_archive_that_nobody_knows_keeps_a_writer_from_guessing")),
    "a check calls nothing lost that is archived": (
        "crates/pipeline/src/check.rs", "if seen.archived_others == 0 {", "if seen.archived_others < u64::MAX {",
        test("icecore", "a_check_misses_no_snapshot_where_tombstones_are_archived")),
    "a class that a storage does not keep is refused": (
        "crates/object-storage/src/class_setting.rs", "if kept == class {", "if kept == class || true {",
        test("icecore", "a_storage_that_keeps_no_class_is_found_out")),
    "nothing that is under way is paid for twice": (
        "crates/icecore/src/commands/restore/cold.rs", ".partition(|(_, it)| it.readable == Readable::No);", ".partition(|(_, it)| !it.is_readable());",
        test("icecore", "content_goes_into_the_cold_class_and_comes_back")),
    "an archive has ACLs as tar reads them": (
        "crates/icecore/src/tarball.rs", "            pax.add(key, text.as_bytes());\n", "            let _ = (key, text);\n",
        test("icecore", "acls_of_a_dump_come_back")),
    "an archive gives no group the rights of a mask": (
        "crates/icecore/src/tarball.rs", "                header.set_mode(mode_without(&xattr.value, entry.attributes.mode.into()));\n", "                let _ = (mode_without, &header);\n",
        test("icecore", "acls_of_a_dump_come_back")),
    "a node tries again while the catalog is away": (
        "crates/server-control/src/access_control.rs", "Error::Catalog(error) if error.is_of_database() => {", "Error::Catalog(error) if error.passes() && false => {",
        test("icecore", "a_backup_tries_again_while_the_database_is_away")),
    "without owners setuid of others is dropped": (
        "crates/restore/src/withheld.rs", "        let mode = self.0.owners.mode_of(entry);\n", "        let mode = u32::from(entry.attributes.mode);\n",
        test("restore", "without_owners_no_program_of_others")),
    "a filter chooses what latest names to be forgotten": (
        "crates/icecore/src/commands/forget.rs", "context.to_forget(repository, text, &self.filter)?", "context.to_forget(repository, text, &Filter::default())?",
        test("icecore", "a_filter_chooses_what_latest_names")),
    "a bound key backs up as its node only": (
        "crates/icecore/src/commands/backup.rs", "        repository.refuse_other_node(&options.node)?;\n", "",
        test("icecore", "a_key_that_is_bound_to_a_node")),
    "a bound key forgets nothing of others": (
        "crates/icecore/src/commands/forget.rs", "        let refused = repository.refuse_other_nodes(&plan.removed);\n", "            let refused: pipeline::Result<()> = Ok(());\n",
        test("icecore", "a_key_that_is_bound_to_a_node")),
    "the newest snapshot of each list of paths stays": (
        "crates/retention/src/evaluate.rs", "        keep_other_paths(newest_first, &mut reasons);\n", "        let _ = keep_other_paths;\n",
        test("icecore", "a_policy_whose_paths_change_is_new")),
    "the server knows of which paths a snapshot is": (
        "crates/server-control/src/retention/facts.rs", "        paths: Some(head.source),\n", "        paths: { let _ = head.source; None },\n",
        test("icecore", "a_policy_whose_paths_change_is_new")),
    "a snapshot of other paths does not protect": (
        "crates/server-control/src/protection/snapshots.rs", "&& one.paths == known.paths)", ")",
        test("server-control", "a_snapshot_of_other_paths_protects_none")),
    "the next writer lists what a killed one left pending": (
        "crates/repository/src/recover.rs", "    list_pending(repository, lease, &listed)\n", "    { let _ = (list_pending as fn(_, _, _) -> _, &listed); Ok(()) }\n",
        test("icecore", "a_newest_snapshot_that_lost_its_file_is_listed_again")),
    "what is listed of a killed backup rests on a durable state": (
        "crates/repository/src/pending.rs", "        repository.storage.sync_directory(\"index\")?;\n", "",
        test("pipeline", "what_a_killed_backup_left_pending_is_listed_durably")),
    "what is forgotten is not pending": (
        "crates/repository/src/repository.rs", "        self.are_pending_no_more(lease, names)?;\n", "        let _ = Self::are_pending_no_more;\n",
        test("icecore", "a_newest_snapshot_that_was_forgotten_does_not_come_back")),
    "a snapshot that is not pending and not in the list is lost": (
        "crates/pipeline/src/check/history.rs", "let is_new = pending.has(&id, one.container) || is_not_copied(&id);", "let is_new = pending.has(&id, one.container) || is_not_copied(&id) || true;",
        test("icecore", "snapshots_whose_files_are_lost_are_told_by_the_verdict")),
    "a commit makes its snapshot pending": (
        "crates/repository/src/session.rs", "        self.repository.pending.lock().add(PendingSnapshot { name, container });\n", "        let _ = PendingSnapshot { name, container };\n",
        test("pipeline", "power::")),
    "a manifest that no state knew of is pending": (
        "crates/repository/src/recover.rs", "        if name.sequence >= known {\n", "        if name.sequence >= known && false {\n",
        test("pipeline", "power::")),
    "a certificate of the future is renewed": (
        "crates/server-control/src/server_identity.rs", "left_secs < RENEW_BEFORE_SECS || is_of_the_future", "{ let _ = is_of_the_future; left_secs < RENEW_BEFORE_SECS }",
        test("server-control", "a_certificate_is_renewed_in_time_and_when_it_begins_too_late")),
    "a clock that was ahead is in doubt although somebody confirms it": (
        "crates/clock/src/believed.rs", "        self.read(tick)\n", "        Reading::certain(self.believed_secs)\n",
        test("icecore", "a_clock_in_doubt_is_told_with_what_ends_it")),
    "a writer whose repository is gone does not say that nobody took it over": (
        "crates/repository/src/lease.rs", "None if config::exists(&*self.storage)? => {", "None if config::exists(&*self.storage)? || true => {",
        test("icecore", "a_repository_that_is_deleted_during_a_backup_is_said_to_be_gone")),
    "a source that is not mounted is not complete": (
        "crates/pipeline/src/backup/emptied.rs", "let last = self.last.take().filter(|last| last.had_files)?;", "let last = self.last.take().filter(|last| last.had_files && false)?;",
        test("icecore", "a_source_that_is_not_mounted_pushes_no_good_backup_out")),
    "a source that is not mounted is not complete the second time": (
        "crates/pipeline/src/backup/emptied.rs", "failed.contains(escape(source).as_str())", "failed.contains(escape(source).as_str()) && false",
        test("icecore", "a_source_that_is_not_mounted_pushes_no_good_backup_out")),
    "a directory that was empty before is not missed": (
        "crates/pipeline/src/backup/emptied.rs", "Last::new(found, root.source.clone(), had_files))", "Last::new(found, root.source.clone(), true || had_files))",
        test("icecore", "a_directory_that_somebody_emptied_is_backed_up_as_it_is")),
    "a snapshot in a bucket whose config was deleted is not acknowledged": (
        "crates/object-storage/src/storage/files.rs", "if is_repository { self.is_still_there() }", "if is_repository && false { self.is_still_there() }",
        test("object-storage", "nobody_acknowledges_a_snapshot_where")),
    "a snapshot in a bucket whose lease was deleted is not acknowledged": (
        "crates/object-storage/src/ownership.rs", "if !later.has(&numbered(LEASE, held.number)) {", "if false {",
        test("object-storage", "nobody_acknowledges_a_snapshot_where")),
    "restore --delete leaves repositories alone": (
        "crates/restore/src/removal.rs", "if mounted.is_err() || is_repository(open.as_fd()) {", "if mounted.is_err() {",
        test("icecore", "restore_delete_leaves_repositories_alone")),
    "the dry run of restore --delete counts no repository": (
        "crates/restore/src/removal_count.rs", "if is_repository(open.as_fd()) {", "if is_repository(open.as_fd()) && false {",
        test("icecore", "restore_delete_leaves_repositories_alone")),
    "nothing is deleted inside a repository": (
        "crates/pipeline/src/restore/removal.rs", "if is_in_repository(target) {", "if is_in_repository(target) && false {",
        test("icecore", "restore_delete_leaves_repositories_alone")),
    "nothing is restored into the repository that is read": (
        "crates/icecore/src/commands/restore.rs", "self.refuse_repositories(context, target)?;", "",
        test("icecore", "nothing_is_restored_over_what_it_is_read_from")),
    "a pool of a storage server that is read-only takes no writes of the control server": (
        "crates/server-data/src/upkeep.rs", "permitted(asked.read_only.cloned(), work)", "permitted({ let _ = asked.read_only; None }, work)",
        test("server-data", "in_a_pool_that_is_read_only_nothing_is_freed")),
    "a pool whose state nobody knows is used for nothing": (
        "crates/server/src/storage_server/pools.rs", "            PoolState::Offline\n        })", "            PoolState::Online\n        })",
        test("server", "a_state_says_what_a_pool_is_used_for")),
    "a pool that is there is not lost": (
        "crates/server-contract/src/pool/states.rs", '(Ok(()), true) => return Err(refused(data, name, "it can be reached, so it is not lost")),', "(Ok(()), true) => {}",
        test("server", "only_a_pool_without_domains_or_one_that_is_lost_is_removed")),
    "a server locks what lies in its buckets": (
        "crates/server/src/securing.rs", "return buckets.secure(folder, &self.locked(folder)?);", "let _ = buckets; return Ok(Kept::default());",
        test("icecore", "locks_of_a_policy_reach_the_bucket_of_a_pool")),
    "a lock that is known and ends too early is prolonged": (
        "crates/object-storage/src/object_lock.rs", "*until_secs >= enough(object.needed_secs, now)", "{ let _ = (until_secs, now); true }",
        test("object-storage", "what_is_known_to_be_locked_is_not_asked_for_again")),
    "locks that are known are of one stay in a bucket": (
        "crates/server/src/securing/buckets.rs", "self.stay == stay && self.since", "(stay == stay) && self.since",
        test("server", "what_moved_away_and_came_back")),
    "ids in temporary files are those that were written": (
        "crates/repository/src/sorted_ids/run.rs", "if sum_of(ids) == kept.sum { Ok(ids) }", "if sum_of(ids) != [0; 8] { let _ = kept; Ok(ids) }",
        test("repository", "a_disk_that_gives_back_something_else")),
    "ids in temporary files count": (
        "crates/repository/src/sorted_ids.rs", "        for run in &self.runs {", "        for run in self.runs.iter().skip(1) {",
        test("repository", "what_does_not_fit_into_memory")),
    "a link that leads nowhere costs only itself": (
        "crates/icecore/src/commands/backup/links.rs", 'Err(_) => SourceRoot { source: [path.as_slice(), b"/"].concat(), shown_as },', "Err(_) => SourceRoot { source: path, shown_as },",
        test("icecore", "a_link_with_a_slash_at_its_end_and_nothing_behind_it")),
    "an overlay without extents is not all in memory": (
        "crates/capture/src/file_system_kinds.rs", "|| self.overlays.lie_on_disks(file)", "|| false && self.overlays.lie_on_disks(file)",
        test("capture", "a_file_of_an_overlay_without_extents")),
    "an overlay with a layer in memory is not on disks": (
        "crates/capture/src/overlay.rs", "kind != OVERLAY && !MEMORY.contains(&kind)", "kind != OVERLAY && (true || !MEMORY.contains(&kind))",
        test("capture", "a_file_of_an_overlay")),
    "a named file that is deleted is missed": (
        "crates/pipeline/src/backup/worker.rs", "if problem.vanished() && !is_root =>", "if problem.vanished() && (true || !is_root) =>",
        test("pipeline", "a_named_file_that_is_deleted_meanwhile")),
    "a directory in which much is missing is listed once": (
        "crates/capture/src/walk/missing.rs", "        if self.times == times {", "        if false && self.times == times {",
        test("capture", "a_directory_in_which_much_is_missing")),
    "names of a file in use stay one file": (
        "crates/pipeline/src/backup/links.rs", "newest.filter(|(_, first)| is_here(first))", "newest.filter(|(_, first)| is_here(first) && false)",
        test("pipeline", "names_of_what_is_written_to_meanwhile")),
    "two files behind an overlay are not one file in use": (
        "crates/capture/src/found_name.rs", "        if one.is_same_content(&other) {", "        if true || one.is_same_content(&other) {",
        test("capture", "a_file_that_is_written_to_is_looked_at")),
    "what is unchanged is a name of what is being read": (
        "crates/pipeline/src/backup/merge.rs", "if is_taken_over && !self.is_name_of_read(found) {", "if is_taken_over && (true || !self.is_name_of_read(found)) {",
        test("pipeline", "what_was_met_before_a_change")),
    "what changed is a name of what was taken over": (
        "crates/pipeline/src/backup/merge.rs", "(self.is_unchanged(before, found) || self.kept.have(before, found))", "(self.is_unchanged(before, found) || false && self.kept.have(before, found))",
        test("pipeline", "what_was_met_after_a_change")),
    "old pages of a file with several names are not read": (
        "crates/capture/src/read.rs", "    file_system_kinds.forget_old_pages(file, met.device, met.links);\n",
        "", test("pipeline", "what_was_written_through_another_name")),
    "both times of a file are set": (
        "crates/restore/src/handle.rs", "tv_nsec: UTIME_NOW }", "tv_nsec: { let _ = UTIME_NOW; rustix::fs::UTIME_OMIT } }",
        test("pipeline", "times_are_set_where_only_both")),
    "what was set is looked at again": (
        "crates/restore/src/kept.rs", "if !self.0.looks.takes(entry.mtime.secs) {", "if self.0.looks.takes(0) || true {",
        test("pipeline", "what_the_file_system_does_not_keep")),
    "a file that another machine has replaced is asked for": (
        "crates/repository/src/local.rs", "            current::look(&self.root.handle, name);\n", "",
        test("proof", "what_another_machine_has_replaced")),
    "reclaim looks for records that the index does not know": (
        "crates/repository/src/reclaim/plan.rs", "        if options.free_interrupted {\n            find_unknown",
        "        if false {\n            find_unknown", test("repository", "all_space_gives_back_a_copy")),
    "whoever stores something is told why it is over": (
        "crates/repository/src/syncer.rs", "get_or_insert_with(|| why.again())",
        "get_or_insert_with(|| { let _ = why; Error::WriterStopped })",
        test("repository", "one_that_cannot_be_published")),
    "a pool that hangs is asked by one thread": (
        "crates/server-control/src/pools.rs", "    answers(folder, pool)?;\n    // Who", "    // Who",
        test("server-control", "a_pool_that_hangs_holds_up_nobody")),
    "a pool that hangs may have the folder of a new domain": (
        "crates/server-control/src/pools/choice.rs",
        "looked_into().try_for_each(|pool| answers(&self.folder, pool))?;", "let _ = answers;",
        test("server-control", "a_pool_that_hangs_holds_up_nobody")),
    "rules of a copy hold back what expired": (
        "crates/pipeline/src/copy/expired.rs", "    gone.retain(|name| !kept.contains(&name.id));", "    let _ = kept;",
        test("icecore", "a_copy_keeps_by_rules_of_its_own")),
    "a copy whose rules are unknown forgets nothing": (
        "crates/server-control/src/upkeep/run.rs", "if now.doubt.is_some() || (upkeep.retention.is_some() &&",
        "if now.doubt.is_some() || (false &&", test("server-control", "copies_forget_nothing_by_a_clock")),
    "how far a check is outlives its server": (
        "crates/server-control/src/upkeep/watch.rs", "if passed.0.elapsed() < NOTED_EVERY {", "if true {",
        test("icecore", "a_check_whose_server_starts_anew")),
    "ends of jobs that the catalog did not take are kept": (
        "crates/server-control/src/jobs.rs", "                self.unwritten.keep(id, job, &ending);\n", "",
        test("icecore", "a_job_that_ends_while_the_catalogs_disk")),
    "ends of jobs that were kept are written": (
        "crates/server-control/src/scheduler.rs", "        self.jobs.write_ends_again();\n", "",
        test("icecore", "a_job_that_ends_while_the_catalogs_disk")),
    "a pool that hangs is unreachable": (
        "crates/server-control/src/access_control.rs", 'Refusal::transient(format!("{why}. {hint}"))', 'Refusal::new(why, hint)',
        test("icecore", "a_pool_that_hangs_stops")),
    "what is gone from a bucket is an alarm": (
        "crates/server-control/src/pools.rs", "has_objects(folder).ok().flatten() != Some(false)", "has_objects(folder).is_ok()",
        test("icecore", "a_domain_whose_objects_are_gone")),
    "a reclaim without room asks for what is enough": (
        "crates/icecore/src/commands/reclaim.rs", "        return full(context, repository, error);\n", "        return context.failure(error);\n",
        test("icecore", "the_room_that_a_reclaim_on_a_full_disk")),
    "the largest container says how much room is enough": (
        "crates/icecore/src/commands/reclaim/room.rs", "length(storage, file.number)).max()?;", "length(storage, file.number)).min()?;",
        test("icecore", "the_room_that_a_reclaim_on_a_full_disk")),
    "who names a copy repairs from it before anything is given up": (
        "crates/icecore/src/commands/reclaim.rs", "    let first = match copies::repair(context) {", "    let first = match copies::repair(context).filter(|_| false) {",
        test("icecore", "who_names_a_copy_is_told_to_repair")),
    "a copy that was typed is typed again": (
        "crates/icecore/src/copies.rs", ".filter(|_| chosen.layer == Layer::CommandLine);", ".filter(|_| false && chosen.layer == Layer::CommandLine);",
        test("icecore", "who_names_a_copy_is_told_to_repair")),
    "a lost repository is made again from the copy that is named": (
        "crates/icecore/src/copies.rs", "    let Ok((place, _)) = fallback::instead(&copies.unwrap_or_default()) else { return failure };", "    let Ok((place, _)) = fallback::instead(&copies.unwrap_or_default()[..0]) else { return failure };",
        test("icecore", "a_first_place_that_is_lost_is_made_again")),
    "what lost its config is no place without a repository": (
        "crates/icecore/src/failure.rs", "if self.code == Code::NoRepository && lost_config::is_at(location) {", "if self.code == Code::NoRepository && false && lost_config::is_at(location) {",
        test("icecore", "a_place_that_lost_its_config_gets_it")),
    "a copy that lost its config is not created again": (
        "crates/icecore/src/commands/copy.rs", "        if opened.as_ref().is_ok_and(|there| lost_config::is_in(&**there)) {", "        if opened.as_ref().is_ok_and(|there| false && lost_config::is_in(&**there)) {",
        test("icecore", "a_place_that_lost_its_config_gets_it")),
    "none is created beside what lost its config": (
        "crates/icecore/src/commands/init.rs", "    match lost_config::is_in(storage) {", "    match false && lost_config::is_in(storage) {",
        test("icecore", "a_place_that_lost_its_config_gets_it")),
    "a copy looks whether its containers are there": (
        "crates/icecore/src/commands/copy.rs", "if exists { lost::containers(target, self.dry_run) }", "if exists && false { lost::containers(target, self.dry_run) }",
        test("icecore", "a_copy_that_lost_containers_is_told")),
    "who looks behind a lost page ends as after damage": (
        "crates/icecore/src/commands/ls/lost.rs", "    context.out.note(IS_INCOMPLETE);\n    Code::Damage\n", "    context.out.note(IS_INCOMPLETE);\n    code\n",
        test("icecore", "whoever_looks_into_a_snapshot_behind_a_lost_page")),
    "a dump behind a lost page ends as after damage": (
        "crates/icecore/src/commands/dump.rs", "if lost.is_empty() && damaged.is_empty() {", "if damaged.is_empty() {",
        test("icecore", "whoever_looks_into_a_snapshot_behind_a_lost_page")),
    "one name of a stream is one source": (
        "crates/icecore/src/commands/backup/source.rs", "escape::escape(&stream::called(name))", "escape::escape(name.as_bytes())",
        test("icecore", "one_name_of_a_stream_is_one_source")),
    "a bad name of a stream is told before anything is opened": (
        "crates/icecore/src/commands/backup/stream.rs", "    let why = match is_clean_path(&path) {", "    let why = match true || is_clean_path(&path) {",
        test("icecore", "one_name_of_a_stream_is_one_source")),
    "who writes to a read-only mount is told which": (
        "crates/icecore/src/failure.rs", "read_only::advice(&self.message, location)\n", "read_only::advice(\"\", location)\n",
        test("icecore", "who_writes_to_a_read_only_mount")),
    "a mount point is where the mount begins": (
        "crates/icecore/src/read_only.rs", "take_while(|above| mount_id(above) == Some(own));", "take_while(|above| true || mount_id(above) == Some(own));",
        test("icecore", "a_mount_is_found_for_what_is_there")),
    "a backup begins only where the domain lies": (
        "crates/server-data/src/request_handler/writing.rs", "        if !self.lies_here(access)? {\n", "        if false {\n",
        test("server", "whether_a_domain_still_lies_there")),
    "a domain lies at one path": (
        "crates/server-control/src/permissions.rs", "self.place(&known)?.0 == path)", "!self.place(&known)?.0.as_os_str().is_empty())",
        test("server-control", "a_domain_lies_where_its_catalog_says")),
    "a job of a policy is known again after a restart": (
        "crates/server-control/src/storage_servers/heartbeat.rs", "if !self.jobs.has_session(id) => self.jobs.take_over(known),", "if !self.jobs.has_session(id) => {}",
        test("icecore", "a_backup_of_a_policy_outlives_the_control_server")),
    "a command that is sent again takes no room": (
        "crates/remote/src/server_messages.rs", "all(|(number, _)| *number != command) =>", "all(|(number, _)| *number != command || true) =>",
        test("remote", "a_command_that_is_sent_again_and_again")),
    "a clock in doubt makes nothing old": (
        "crates/server-control/src/housekeeping.rs", "Ok(Reading { secs, doubt: None }) => self.delete_by_time(secs),", "Ok(Reading { secs, .. }) => self.delete_by_time(secs),",
        test("server-control", "nothing_is_old_by_a_clock_in_doubt")),
    "what a server has seen is in a file of its own": (
        "crates/access/src/identity.rs", "        files::write(&folder.join(MANAGED), slot_secret)?;", "        files::write(&folder.join(secrets::SLOT), slot_secret)?;",
        test("icecore", "what_a_server_has_seen_opens_no_domain")),
    "what an earlier version kept in slot.key of a managed domain seals nothing": (
        "crates/access/src/secrets.rs", "        Some(KeyMode::Managed) => true,", "        Some(KeyMode::Managed) => false,",
        test("access", "an_older_version_had_both_secrets")),
    "a node's own secret goes on when it enrolls again": (
        "crates/access/src/secrets.rs", "        Some(KeyMode::Client) => false,", "        Some(KeyMode::Client) => true,",
        test("access", "an_older_version_had_both_secrets")),
    "a secret of unknown origin is set aside": (
        "crates/access/src/secrets.rs", "        None => told.keys == KeyMode::Managed || told.repository.is_none(),", "        None => false,",
        test("access", "a_secret_of_unknown_origin")),
    "what is set aside goes over nothing": (
        "crates/access/src/secrets.rs", "renameat_with(CWD, &from, CWD, &to, RenameFlags::NOREPLACE)", "renameat_with(CWD, &from, CWD, &to, RenameFlags::empty())",
        test("access", "a_secret_of_unknown_origin")),
    "the server's word for a repository is no path": (
        "crates/access/src/secrets.rs", "    agent.repository.as_deref().filter(is_id).unwrap_or(agent.domain.as_str())", "    agent.repository.as_deref().filter(|id| true || is_id(id)).unwrap_or(agent.domain.as_str())",
        test("access", "what_is_set_aside_stays_in_the_folder")),
    "the recovery key of another domain is set aside": (
        "crates/access/src/secrets.rs", "        Some(was) if is_other(was, told) =>", "        Some(was) if false && is_other(was, told) =>",
        test("icecore", "the_recovery_key_of_another_domain")),
    "a command is known by what it asks for": (
        "crates/icecore/src/commands/agent/done.rs", ".filter(|end| end.asked == asked)", ".filter(|end| true || end.asked == asked)",
        test("icecore", "a_number_that_names_another_command")),
    "commands of another server are forgotten": (
        "crates/icecore/src/commands/agent/done.rs", "        if self.of.as_ref() != Some(&of) {", "        if false && self.of.as_ref() != Some(&of) {",
        test("icecore", "a_number_that_names_another_command")),
    "one process makes the repository of a domain": (
        "crates/icecore/src/node/first_open.rs", "                Err(_) => std::thread::sleep(LOOK_EVERY),", "                Err(_) => break File::open(&path).map_err(|error| Failure::file(&path, &error))?,",
        test("icecore", "processes_that_open_a_domain_first_at_once")),
    "a recovery key has no name before the repository is there": (
        "crates/icecore/src/node/keys.rs", 'const NEXT_RECOVERY: &str = "next-recovery.key";', 'const NEXT_RECOVERY: &str = "recovery.key";',
        test("icecore", "a_recovery_key_gets_its_name")),
    "a recovery key whose acknowledgment was lost gets its name": (
        "crates/icecore/src/node/first_open.rs", "            Ok(_) => keys::name_recovery(&node.folder, repository),", "            Ok(_) => Ok(()),",
        test("icecore", "a_recovery_key_gets_its_name")),
    "a recovery key that gets its name goes over no other": (
        "crates/icecore/src/node/keys.rs", "    if there.is_some_and(|there| *there != *text) {", "    if there.is_some_and(|there| false && *there != *text) {",
        test("icecore", "a_recovery_key_gets_its_name")),
    "a check of a part looks for all containers": (
        "crates/pipeline/src/keyless.rs", "    add_missing(repository, &mut found)?;\n", "    let _ = add_missing;\n",
        test("server", "a_check_of_a_part_names")),
    "a missing container is counted once": (
        "crates/pipeline/src/keyless.rs", "if found.damaged.insert(missing.container) {", "if found.damaged.insert(missing.container) || true {",
        test("server", "a_check_of_a_part_names")),
    "states of pools end a pass of a move": (
        "crates/server/src/moving.rs", "Pace::new(&allowed, ", "Pace::new(self.watch, ",
        test("server", "a_pool_whose_state_changed_meanwhile")),
    "a move waits for a copy from its files": (
        "crates/server/src/moving.rs", "} else if self.is_read()? {", "} else if self.is_read()? && false {",
        test("server", "a_move_waits_for_a_copy_that_reads")),
    "a move that interrupts waits for no copy": (
        "crates/server/src/moving.rs", "|| self.request.interrupt || !readers::are_noted(from)", "|| !readers::are_noted(from)",
        test("server", "a_move_waits_for_a_copy_that_reads")),
    "a move waits for no reader that died": (
        "crates/server/src/moving/readers.rs", '/{name}"))?.is_none() {', '/{name}"))?.is_none() || true {',
        test("server", "a_reader_that_died_keeps_nobody")),
    "a server that asks to wait is not unreachable": (
        "crates/remote/src/waits.rs", "(&mut self.is_busy, \"the server cannot do this yet\")",
        "(&mut self.is_unreachable, \"server unreachable\")", test("remote", "a_server_that_asks_to_wait")),
    "what the user is told of a wait is told once": (
        "crates/remote/src/waits.rs", "if std::mem::replace(is_told, true) {", "if std::mem::replace(is_told, false) {",
        test("remote", "a_server_that_asks_to_wait")),
    "a move keeps its rate": (
        "crates/server/src/moving.rs", "let pace = Pace::new(&allowed, self.request.bytes_per_sec);",
        "let pace = Pace::new(&allowed, None);", test("server", "a_move_copies_no_faster")),
    "credentials of a command are renewed": (
        "crates/object-storage/src/credential_process.rs", "if is_ending(&known, Timestamp::now()) {", "if false {",
        test("object-storage", "credentials_are_renewed")),
    "a domain of a pool that is away is made nowhere else": (
        "crates/server/src/storage_server/pools.rs", "(None, _, None, Some(away)) => (*away).clone(),", "(None, _, None, Some(away)) if away.is_none() => None,\n            (None, _, None, Some(_)) => self.choose(&there, domain)?,",
        test("server", "while_a_pool_is_away_a_domain")),
    "a domain in two pools of a storage server is used by nobody": (
        "crates/server/src/storage_server/pools.rs", "            (Some(one), Some(other), ..) => return Err(self.in_two(domain, [one, other])),\n", "            (Some(one), Some(other), ..) if one == other => return Err(self.twice(domain, [one, other])),\n            (Some(one), Some(_), ..) => (*one).clone(),\n",
        test("server", "a_domain_that_lies_in_two_pools_is_used")),
    "files of another repository do not count as copied": (
        "crates/server-contract/src/pool/moves.rs", "if unfinished.exists() && copied_id(unfinished)?.as_deref() != Some(id) {",
        "if unfinished.exists() && copied_id(unfinished)?.as_deref() == Some(\"\") && id.is_empty() {",
        test("server", "what_was_copied_of_another_repository_is_not")),
    "a lease that this process let go is not waited for": (
        "crates/object-storage/src/lease.rs", "process == Process::here() && is_let_go(client, lease)?)",
        "process == Process::here() && is_let_go(client, lease)? && false)",
        test("object-storage", "a_lease_that_this_process_could_not_end")),
    "a lease that this process holds is not let go": (
        "crates/object-storage/src/lease.rs", "        OURS.lock().insert(nonce);\n", "",
        test("object-storage", "a_holder_that_lives_is_named")),
    "a restore that keeps files gives a part of one no name": (
        "crates/restore/src/replace.rs", "entry.kind() == Kind::File && self.0.options.overwrite.keeps_existing();",
        "entry.kind() == Kind::File && self.0.options.overwrite.keeps_existing() && false;",
        test("restore", "a_restore_that_keeps_files_names_them_when_they_are_complete")),
    "a restore that keeps files takes no name that somebody has": (
        "crates/restore/src/replace.rs", "take_free_name(fd, temporary, entry.name()),",
        "rustix::fs::renameat(fd, &temporary[..], fd, entry.name()),",
        test("restore", "what_somebody_makes_meanwhile_is_not_replaced")),
    "what lost a name to a restore is not taken for made by it": (
        "crates/restore/src/target.rs", " && !self.old_links.has(stat)", "",
        test("restore", "all_names_of_a_file_are_replaced_where_no_time_of_birth")),
    "a restore tries what the file system keeps": (
        "crates/restore/src/abilities.rs", "if !flags::is_usual(marker) {", "if !flags::is_usual(marker) && false {",
        test("restore", "what_is_equal_as_far_as_a_file_system_keeps_it")),
    "a file whose time is only roughly equal is compared": (
        "crates/restore/src/verify.rs", "timed == TimeMatch::Rough && entry.kind() == Kind::File;",
        "timed == TimeMatch::Rough && entry.kind() == Kind::File && false;",
        test("restore", "what_is_equal_within_the_step_of_a_file_system_is_compared")),
    "a time is roughly equal only as the file system would have kept it": (
        "crates/restore/src/abilities.rs", "let is_rough = found % self.step == 0 && (found - wanted).abs() < self.step;",
        "let is_rough = (found - wanted).abs() < self.step;",
        test("restore", "what_is_equal_within_the_step_of_a_file_system_is_compared")),
    "a file of several names is not changed in vain": (
        "crates/restore/src/fixing.rs", "        if is_linked && is_in_vain {", "        if is_linked && is_in_vain && false {",
        test("restore", "what_is_equal_within_the_step_of_a_file_system_is_compared")),
    "what a file system cannot hold is said in words": (
        "crates/restore/src/refused.rs", "        Errno::INVAL | Errno::ILSEQ => RestoreCause::NameRefused,\n", "",
        test("restore", "what_a_file_system_cannot_hold_is_said_in_words")),
    "a small file that is begun in pieces has its content": (
        "crates/restore/src/open_file.rs", "            file.write_at(0, bytes)?;", "            let _ = bytes;",
        test("restore", "a_small_file_that_is_begun_in_pieces_has_its_content")),
    "the messages of a restore add up": (
        "crates/icecore/src/commands/restore.rs", "    match told == failed {", "    match told >= failed {",
        test("icecore", "the_messages_of_a_restore_add_up")),
    "a target that was there is not new because something is put into it": (
        "crates/restore/src/target.rs", "    pub fn has_made_root(&self) -> bool {\n        self.0.has_made_root\n",
        "    pub fn has_made_root(&self) -> bool {\n        self.0.has_made_root"
        " || self.0.root.fd().and_then(|fd| system::stat_open(fd).ok()).is_some_and(|stat| self.0.is_ours(&stat))\n",
        test("restore", "a_target_that_was_there_keeps_its_mode")),
    "an object that is listed under another name is not equal": (
        "crates/restore/src/verify.rs", "if self.is_of_another(open.as_fd(), &entry.path) {",
        "if self.is_of_another(open.as_fd(), &entry.path) && false {",
        test("restore", "what_is_found_and_not_listed_is_another_object")),
    "any file system that is not usual may fold names": (
        "crates/restore/src/flags.rs", "    flagged || !is_usual(directory)\n", "    flagged\n",
        test("restore", "what_is_found_and_not_listed_is_another_object")),
    "a link that is found in another spelling is not there": (
        "crates/restore/src/link.rs",
        "            self.refuse_other_spelling(parent, fd, entry.name(), &entry.path)?;\n", "            let _ = fd;\n",
        test("restore", "what_is_found_and_not_listed_is_another_object")),
    "a restore believes no part of a file that another one has left": (
        "crates/restore/src/replace.rs", "false if self.is_maybe_partial(&stat, entry) =>",
        "false if self.is_maybe_partial(&stat, entry) && false =>",
        test("restore", "after_a_restore_that_was_cut_short_never_keeps_no_part")),
    "a marker stays while a file is in doubt": (
        "crates/restore/src/replace.rs", "self.0.has_left_doubt.store(true, Relaxed);", "",
        test("restore", "after_a_restore_that_was_cut_short_never_keeps_no_part")),
    "a restore removes what a killed one has left": (
        "crates/restore/src/directory.rs", "self.remove_left(open.as_fd());", "",
        test("icecore", "restores_that_are_killed_and_run_again")),
    "a restore removes nothing of one that runs": (
        "crates/restore/src/unfinished.rs", "let has_ended = !marker::is_held(directory, name);", "let has_ended = true;",
        test("restore", "a_restore_that_keeps_files_names_them_when_they_are_complete")),
    "only who restores the same again ends what another restore began": (
        "crates/restore/src/unfinished.rs", "RestoreScope::covers(own, found.says.scope.as_ref())", "(RestoreScope::covers(own, found.says.scope.as_ref()) || true)",
        test("icecore", "only_who_restores_the_same_again")),
    "a restore knows what began in a directory above": (
        "crates/restore/src/unfinished.rs", "unfinished.look_elsewhere(above.as_fd(), &is_trusted);", "",
        test("icecore", "only_who_restores_the_same_again")),
    "a restore that keeps files knows what began in a directory below": (
        "crates/restore/src/unfinished.rs", "if self.0.options.overwrite == Overwrite::Always ||",
        "if self.0.options.overwrite != Overwrite::IfChanged ||",
        test("icecore", "only_who_restores_the_same_again")),
    "a larger restore knows what began in a directory below": (
        "crates/pipeline/src/restore/plan.rs", "self.not_looked_into.drain(..).for_each(|path| self.shared.target.look_into(&path));",
        "self.not_looked_into.clear();",
        test("pipeline", "what_a_restore_of_a_part_left_is_compared")),
    "no marker is extraneous, wherever it lies": (
        "crates/restore/src/extraneous.rs", ' || marker::is_marker(directory, name)', " || false && marker::is_marker(directory, name)",
        test("pipeline", "what_a_restore_of_a_part_left_is_compared")),
    "what is younger than a marker was made by somebody else": (
        "crates/restore/src/unfinished.rs", "self.says.last_secs.saturating_add(1);", "self.says.last_secs.max(i64::MAX);",
        test("restore", "what_somebody_made_and_closed_after")),
    "a marker has the time of what was made last": (
        "crates/restore/src/unfinished.rs", "let _ = rustix::fs::futimens(&marker.file, &times);",
        "let _ = (&marker.file, &times);",
        test("restore", "the_marker_says_when_something_was_last_made")),
    "a directory in which something stays for its lock keeps it": (
        "crates/restore/src/extraneous.rs", "            self.0.opened_up.keep_locks(&stat);\n", "",
        test("restore", "a_directory_in_which_something_stays")),
    "new files keep nothing of what their directory gives them": (
        "crates/restore/src/file.rs", "parent.gives_nodump.then(", "false.then(",
        test("restore", "what_a_directory_gives_to_new_files")),
    "locks stay where something is left alone for them": (
        "crates/pipeline/src/restore/finish.rs", "                target.keep_locks(directory);\n", "",
        test("pipeline", "locks_stay_where_something_is_left_alone")),
    "an include may wait for the removal of a directory": (
        "crates/pipeline/src/restore/removal.rs", " || !shared.in_the_way.lock().is_empty();", ";",
        test("pipeline", "what_an_include_takes_comes_where")),
    "what nobody asked for may be anything": (
        "crates/restore/src/extraneous.rs", "Err(problem) if is_no_directory(&problem) =>",
        "Err(problem) if is_no_directory(&problem) && self.0.options.dry_run =>",
        test("pipeline", "what_nobody_asked_for_may_be_anything")),
    "a directory in the way is full with a marker, too": (
        "crates/restore/src/extraneous.rs", 'let is_other = |name: &[u8]| !matches!(name, b"." | b"..");',
        "let is_other = |name: &[u8]| !is_never_extraneous(open.as_fd(), name);",
        test("pipeline", "a_directory_in_the_way_goes_with_the_marker")),
    "no more is deleted than was confirmed": (
        "crates/pipeline/src/restore/removal.rs", "objects <= confirmed.unwrap_or(0)", "objects <= confirmed.unwrap_or(u64::MAX)",
        test("pipeline", "nothing_is_removed_beyond_what_was_confirmed")),
    "an include that the snapshot does not know removes nothing": (
        "crates/pipeline/src/restore/removal.rs", "if selection.has_include() && !", "if false && !",
        test("pipeline", "patterns_that_the_snapshot_does_not_know")),
    "a dry run foretells directories in the way": (
        "crates/restore/src/replace.rs", "                self.may_be_removed(&old, &entry.path).map_err(problem)?;\n",
        "                if false {\n self.may_be_removed(&old, &entry.path).map_err(problem)?;\n }\n",
        test("pipeline", "what_is_there_stays_or_becomes")),
    "a dry run goes through no link": (
        "crates/restore/src/extraneous.rs", "[Errno::NOTDIR, Errno::LOOP]", "[Errno::NOTDIR, Errno::NOTDIR]",
        test("icecore", "nothing_is_deleted_before_somebody_was_asked")),
    "a dry run counts files of one chunk": (
        "crates/pipeline/src/restore/plan.rs", "let is_single = !is_dry && ", "let is_single = ",
        test("pipeline", "a_dry_run_changes_nothing_and_says")),
    "only means what is behind a named link": (
        "crates/icecore/src/commands/backup/source.rs", "links::taken(pattern, links)", "links::taken(pattern, &links[..0])",
        test("icecore", "only_means_what_is_behind_a_link")),
    "places that went on apart are not mixed": (
        "crates/pipeline/src/copy.rs", "Some(id) if *id != name.id => {", "Some(id) if *id != name.id && false => {",
        test("icecore", "places_that_went_on_apart_are_not_mixed")),
    "a pool is made among no files of others": (
        "crates/server-contract/src/pool/places.rs", "is_for_a_pool(&new.pool).map_err(refused)?;", "is_for_a_pool(&new.pool).map_err(refused).ok();",
        test("icecore", "a_pool_whose_disk_is_lost_is_replaced")),
    "accepting a pool makes none where it should be mounted": (
        "crates/server-contract/src/pool.rs", "known.bucket.is_none()) && !place.pool.is_dir() {", "known.bucket.is_none()) && false {",
        test("server-contract", "a_first_pool_whose_link_is_gone_is_found")),
    "if-newer keeps what lies in the place of a directory": (
        "crates/restore/src/directory.rs", "if self.0.options.overwrite.keeps_existing() {", "if self.0.options.overwrite == crate::Overwrite::Never {",
        test("icecore", "if_newer_and_never_keep_what_lies_in_the_place_of_a_directory")),
    "restore --delete enters no subvolume that no backup has entered": (
        "crates/restore/src/extraneous.rs", "|| system::device(&above) != system::device(&own)", "|| { let _ = above; false }",
        test("icecore", "restore_delete_leaves_what_is_locked_and_what_lies_in_other_subvolumes")),
    "restore --delete leaves what is immutable": (
        "crates/restore/src/flags.rs", "if are_locked(stat) { Err(RestoreCause::Locked) } else { Ok(()) }", "{ let _ = stat; Ok(()) }",
        test("icecore", "restore_delete_leaves_what_is_locked_and_what_lies_in_other_subvolumes")),
    "a target that was there keeps its attributes": (
        "crates/restore/src/target.rs", "self.has_made_root() && self.may_dress_root(root)", "self.may_dress_root(root)",
        test("icecore", "a_directory_that_is_restored_to_where_it_was")),
    "a server that lost its first pool does not take it back": (
        "crates/server-contract/src/pool/linked.rs", "if !was_started(data) && dir != &place.pool {", "if dir != &place.pool {",
        test("server-contract", "who_lost_the_first_pool_does_not_take_it_back")),
    "a file of somebody else is no marker of a restore": (
        "crates/restore/src/marker.rs", "    if !is_name_of_marker(name) {", "    if false {",
        test("restore", "a_file_of_somebody_else_is_no_marker")),
    "what was removed from a bucket is not removed again": (
        "crates/object-storage/src/storage/files.rs", "if containers.is_empty() { Ok(()) } else { self.forget_removal(&containers) }",
        "if true || containers.is_empty() { Ok(()) } else { self.forget_removal(&containers) }",
        test("object-storage", "a_container_that_comes_late_under_a_number")),
    "what a takeover has finished to remove is not removed again": (
        "crates/object-storage/src/takeover.rs", "    forget_removals(client, names)\n}", "    let _ = forget_removals;\n    Ok(())\n}",
        test("object-storage", "what_a_takeover_has_finished_to_remove")),
    "a list of all names counts for a short time": (
        "crates/object-storage/src/storage.rs", "self.unread.remove(what) && self.is_fresh(\"\", BELIEVED_FOR)", "self.unread.remove(what)",
        test("object-storage", "a_list_of_all_names_is_not_kept")),
    "tags of an old list are not believed": (
        "crates/object-storage/src/storage.rs", "self.is_fresh(directory, BELIEVED_FOR) &&", "(true || self.is_fresh(directory, BELIEVED_FOR)) &&",
        test("object-storage", "a_slot_that_was_changed_behind_an_old_list")),
    "an object with another tag is read again": (
        "crates/object-storage/src/known.rs", "known.tag == tag &&", "(true || known.tag == tag) &&",
        test("object-storage", "a_slot_is_read_once_by_a_process")),
    "the latest snapshot is looked for again after a second": (
        "crates/object-storage/src/snapshots.rs", "age.is_some_and(|age| state.is_fresh(\"\", age))",
        "age.is_some() && (true || state.is_fresh(\"\", Duration::MAX))",
        test("object-storage", "what_another_process_has_done_is_listed_at_once")),
    "young uploads of others stay": (
        "crates/object-storage/src/uploads.rs", "is_ok_and(|begun: Timestamp| begun < than)",
        "is_ok_and(|begun: Timestamp| { let _ = (begun, than); true })",
        test("object-storage", "abandoned_uploads_go")),
    "a weaker lock does not count for a stricter one": (
        "crates/object-storage/src/object_lock.rs", "held.is_compliance || options.mode == LockMode::Governance;", "true;",
        test("object-storage", "a_lock_is_set_where_it_ends_too_early")),
    "a lock that ends too early is set": (
        "crates/object-storage/src/object_lock.rs", "Some(until_secs) => late.push((name, until_secs)),",
        "Some(_) => locked.objects += 1,", test("object-storage", "what_is_locked_outlasts")),
    "who has other keys makes no domain of a repository that is there": (
        "crates/server-control/src/domain_keys.rs",
        "own_ring(&repository, &config, &secret)?.ok_or_else(|| strange_keys(&domain))?;", "let _ = (secret, strange_keys);",
        test("icecore", "nodes_that_enroll_again_find")),
    "a domain whose repository is there has the settings of it": (
        "crates/server-control/src/domain_keys.rs", "let domain = Domain { settings, ..new.clone() };",
        "let domain = { let _ = settings; new.clone() };", test("icecore", "nodes_that_enroll_again_find")),
    "the slot of a server is bound to the name of its domain": (
        "crates/crypto/src/domain.rs", "&[master, &repository.0, name.as_bytes()]", "&[master, &repository.0, &name.as_bytes()[..0]]",
        test("crypto", "the_slot_of_a_server_opens")),
    "without deduplication the ids of two backups differ": (
        "crates/crypto/src/object_id.rs", "let number = even(number);", "let number = even([number[0] & 0; 4]);",
        test("pipeline", "each_backup_stores_all_of_its_data")),
    "without deduplication nothing is taken over from the previous snapshot": (
        "crates/pipeline/src/backup/previous.rs", "!options.full && repository.store.config().dedup();", "!options.full;",
        test("pipeline", "each_backup_stores_all_of_its_data")),
    "an interrupted backup and the next one have the same number": (
        "crates/pipeline/src/unlocked.rs", "ids.of_backup([a, b, c, d])",
        "ids.of_backup([a, b, c, d].map(|byte| byte ^ self.environment.now().subsec_nanos() as u8))",
        test("pipeline", "an_interrupted_backup_is_gone_on_with")),
    "rows of a bucket are locked, too": (
        "crates/object-storage/src/object_lock.rs", "for object in own.chain(self.objects_of_files(files)?) {",
        "for object in own.take(0).chain(self.objects_of_files(files)?) {",
        test("object-storage", "what_is_locked_outlasts")),
    "what came later than the time goes": (
        "crates/object-storage/src/versions.rs", "(None, Some(_)) => Some(Step::Remove),", "(None, Some(_)) => None,",
        test("object-storage", "an_object_becomes_what_it_was")),
    "a mark that an object was removed is no object": (
        "crates/object-storage/src/client/marks.rs", "=> Ok(replacing(tag)),", "=> Ok(PutMode::Create),",
        test("object-storage", "of_writers_that_race_for_a_name_that_was_removed")),
    "a refusal that nobody heard is one": (
        "crates/object-storage/src/client/marks.rs", "if self.tries < 2 || is_wrong_tag {", "if self.tries < 2 || is_wrong_tag || !is_refusal {",
        test("object-storage", "a_name_that_was_removed_is_used_again_although_no_refusal_is_heard")),
    "nothing is created by its tag where tags are not compared": (
        "crates/object-storage/src/client/marks.rs", "Some(tag) if self.compares()? =>", "Some(tag) if self.compares()? || true =>",
        test("object-storage", "where_the_storage_takes_no_notice_of_tags")),
    "marks of which nobody knows the tag go": (
        "crates/object-storage/src/versions.rs", "if how.frees && object.came_and_went(how.moment) {", "if false {",
        test("object-storage", "names_below_marks_of_which_nobody_knows")),
    "no lease is given twice when all is put back": (
        "crates/object-storage/src/versions.rs", "is_later.then(|| self.highest + 1)", "is_later.then(|| self.highest + 1).filter(|_| false)",
        test("object-storage", "a_writer_that_slept_while_all_was_put_back")),
    "all pages of versions are read": (
        "crates/object-storage/src/versions.rs", "next = Some((page.next_key.clone(), page.next_version));", "",
        test("object-storage", "more_objects_than_a_page")),
    "a bucket that cannot lock makes an alarm": (
        "crates/server/src/upkeep/object_locks.rs", "Err(why) => report.not_locked = Some(why),", "Err(_) => {}",
        test("icecore", "a_bucket_without_object_lock")),
    "no check begins anew behind damage that it found": (
        "crates/pipeline/src/keyless.rs", "        if report.damaged == 0 {\n            watch.passed",
        "        if true {\n            watch.passed",
        test("pipeline", "a_check_says_of_no_container_behind_damage")),
    "what the lock helper of a storage server that is away kept is not believed": (
        "crates/server-control/src/storage_servers/table.rs",
        "KeptLocksNews::Kept(kept) if self.is_there() => return", "KeptLocksNews::Kept(kept) if true => return",
        test("icecore", "a_storage_server_whose_helper_is_not_heard")),
    "a storage server that does not tell of its lock helper any more is an alarm": (
        "crates/server-control/src/storage_servers/table.rs",
        "Self::Kept(kept) | Self::Before(kept) => Self::Before(kept),", "Self::Kept(_) | Self::Before(_) => Self::None,",
        test("icecore", "a_storage_server_whose_helper_is_not_heard")),
    "a record that lies keeps no server from giving space back": (
        "crates/pipeline/src/reclaim.rs", "Err(error) if self.passes_over => {",
        "Err(error) if self.passes_over && false => {", test("pipeline", "a_record_that_lies")),
    "no repacked record has more than a record may have": (
        "crates/pipeline/src/reclaim.rs", "ObjectId::LEN, BLOCK_BYTES) {", "ObjectId::LEN, BLOCK_BYTES) && false {",
        test("pipeline", "records_that_are_too_many")),
    "a server with the key packs anew what is partly unused": (
        "crates/server-control/src/upkeep/run.rs", "let secret = secret.as_ref().map(|secret| OwnSecret(secret));",
        "let secret = secret.as_ref().map(|secret| OwnSecret(secret)).filter(|_| false);",
        test("icecore", "a_server_that_manages_the_keys")),
    "what is kept is kept only longer": (
        "crates/lock-helper/src/secure.rs", "let until_secs = until_secs.max(old.entry.until_secs);", "",
        test("lock-helper", "a_time_becomes_longer")),
    "nobody has a kept file open for writing": (
        "crates/lock-helper/src/writers.rs", "if done == 0 { Ok(()) }", "if done <= 0 { Ok(()) }",
        test("lock-helper", "a_file_that_somebody_may_still_write")),
    "root makes only files of the owner its own": (
        "crates/lock-helper/src/secure.rs", "None if Uid::from_raw(status.st_uid) != self.owner.0 => {",
        "None if Uid::from_raw(status.st_uid) != self.owner.0 && false => {",
        test("lock-helper", "only_regular_files_of_the_owner")),
    "a kept file is root's": (
        "crates/lock-helper/src/secure.rs", "fs::fchown(file, Some(Uid::ROOT), None)?;", "",
        test("lock-helper", "who_owns_a_pool")),
    "the helper without its clock lets nothing go early": (
        "crates/lock-helper/src/clock_file.rs", "Some(secs) => LockClock::not_before(secs.min(tick.wall_secs), tick),",
        "Some(_) => LockClock::start(tick),",
        test("lock-helper", "without_its_clock")),
    "a clock that was ahead comes right": (
        "crates/lock-helper/src/clock_file.rs", "LockClock::not_before(secs.min(tick.wall_secs), tick),",
        "LockClock::not_before(secs, tick),",
        test("lock-helper", "stamps_of_a_clock_that_was_ahead")),
    "the socket of the helper lies where root alone may write": (
        "crates/lock-helper/src/socket.rs", "verify(at, at == directory)?;", "drop(verify(at, at == directory));",
        test("lock-helper", "a_socket_lies_only")),
    "only names that a pool has are kept": (
        "crates/lock-helper/src/names.rs", "(!is_own && above(&parts).len() <= ABOVE_MAX)", "(above(&parts).len() < 9)",
        test("lock-helper", "names_lead_down_and_never_to_the_own_directory")),
    "directories go with what is let go": (
        "crates/lock-helper/src/pool.rs", "tree::remove_empty(visited.directory, &visited.directories)",
        "tree::remove_empty(visited.directory, &[])",
        test("lock-helper", "directories_go_with_what_is_let_go")),
    "nothing of the helper's directory belongs to somebody else": (
        "crates/lock-helper/src/tree.rs", "own_directory::verify(&status, &at().join(name), false)?;", "let _ = status;",
        test("lock-helper", "a_directory_below_that_is_not_roots")),
    "a directory that was there gets no other owner": (
        "crates/lock-helper/src/aside.rs", "Ok(there) if self.is_owners(&there)? => {", "Ok(there) if self.is_owners(&there)? || true => {",
        test("lock-helper", "no_directory_that_was_there")),
    "the helper's directory has its name before files come back": (
        "crates/lock-helper/src/recover.rs", "        self.is_in_place()?;\n        let mut recovered", "        let mut recovered",
        test("lock-helper", "the_helpers_directory_in_the_place")),
    "a clock that others may have written is not believed": (
        "crates/lock-helper/src/clock_file.rs", "if !is_ours(&status) {", "if false && !is_ours(&status) {",
        test("lock-helper", "a_clock_that_is_not_roots")),
    "a running helper looks whose its directory is": (
        "crates/lock-helper/src/pool.rs", "own_directory::verify(&own, &place, false)?;", "",
        test("lock-helper", "a_running_helper")),
    "each directory on the way to a kept file is root's": (
        "crates/lock-helper/src/tree.rs", "own_directory::verify(&status, &path, false)?;", "let _ = status;",
        test("lock-helper", "a_running_helper")),
    "nobody else may write a directory of the helper": (
        "crates/lock-helper/src/own_directory.rs", "status.st_uid == 0 && status.st_mode & 0o022 == 0", "status.st_uid == 0",
        test("lock-helper", "a_running_helper")),
    "a foreign directory of the helper is set aside": (
        "crates/lock-helper/src/own_directory.rs", 'aside::set(root, DIRECTORY).map_err(Error::file("give another name to", &foreign))?;', "let _ = aside::set;",
        test("lock-helper", "locks_begin_anew")),
    "what was set aside is not taken for the helper's": (
        "crates/lock-helper/src/own_directory.rs", "let _ = fs::unlinkat(&same, clock_file::NAME, AtFlags::empty());", "let _ = (&same, clock_file::NAME);",
        test("lock-helper", "locks_begin_anew")),
    "what takes the name of the helper's directory is set aside": (
        "crates/lock-helper/src/moved.rs", "Err(Errno::EXIST) => aside::set(root, DIRECTORY).and_then(|()| renamed()),", "Err(Errno::EXIST) => { let _ = aside::set; Err(Errno::EXIST) }",
        test("lock-helper", "what_takes_the_name")),
    "a pool that was copied stays kept": (
        "crates/lock-helper/src/secure.rs", "Entry { inode: status.st_ino, ..entry }", "{ let _ = status; entry }",
        test("lock-helper", "a_pool_that_was_copied")),
    "no helper takes the socket of another one": (
        "crates/lock-helper/src/socket.rs", "if UnixStream::connect(socket).is_ok() {", "if false {",
        test("lock-helper", "the_directory_of_the_socket")),
    "a lock helper that goes is noticed while it keeps something": (
        "crates/server/src/securing.rs", "kept.files > 0", "kept.files > 0 && false",
        test("server", "the_helper_is_reached_for")),
    "what is over does not count as kept": (
        "crates/lock-helper/src/until.rs", "if behind_secs >= BEHIND_SECS_MAX {", "if behind_secs >= BEHIND_SECS_MAX && false {",
        test("lock-helper", "what_is_over_by_the_clock")),
    "the helper finds its directory under another name": (
        "crates/lock-helper/src/moved.rs", "Some(name) if name != DIRECTORY => rename(root, path, &name),",
        "Some(name) if name != DIRECTORY && false => rename(root, path, &name),",
        test("lock-helper", "the_directory_of_the_helper")),
    "of several files of one name the first one comes back": (
        "crates/lock-helper/src/recover.rs", "self.versions.iter().rposition(is_before).unwrap_or(0)", "self.versions.len() - 1",
        test("lock-helper", "what_somebody_added")),
    "what came first is known from no stamp of the file": (
        "crates/lock-helper/src/secure.rs", "now_secs.max(last.saturating_add(1))", "now_secs.min(0)",
        test("lock-helper", "what_somebody_added")),
    "a directory on the way can be used after recovering": (
        "crates/lock-helper/src/aside.rs", "if status.st_mode & OWNER_ALL != OWNER_ALL {", "if false {",
        test("lock-helper", "what_is_in_the_way")),
    "a container is needed until the last lock that needs it": (
        "crates/repository/src/reclaim/locked.rs", "locked.sort_unstable_by_key(|(name, until_secs)| (std::cmp::Reverse(*until_secs), *name));",
        "locked.sort_unstable_by_key(|(name, until_secs)| (*until_secs, *name));",
        test("repository", "what_locked_snapshots_need")),
    "keys are needed as long as any lock": (
        "crates/repository/src/reclaim/locked.rs", 'names.extend(keys.into_iter().map(|key| format!("{}/{key}", keys::DIRECTORY)));',
        "drop(keys);",
        test("icecore", "a_server_that_was_taken_over")),
    "reclaim leaves alone what is kept": (
        "crates/repository/src/reclaim/plan.rs", "self.is_kept || self.is_secured && !self.is_damaged", "self.is_kept",
        test("repository", "what_a_lock_helper_keeps")),
    "the server tells its helper of each locked snapshot": (
        "crates/server-data/src/session.rs", "if labels.lock_secs.is_some() {\n                    self.domain",
        "if labels.lock_secs.is_some() && false {\n                    self.domain",
        test("icecore", "a_server_that_was_taken_over")),
    "what says that a snapshot expired is healed from a copy": (
        "crates/pipeline/src/keyless.rs", "crate::copy::take_expiries(repository, lease, copies).unwrap_or(0)", "0",
        test("icecore", "a_copy_in_a_bucket_is_kept")),
    "a copy loses only what its server let expire": (
        "crates/pipeline/src/copy/expired.rs", "signed.get(&name.id).is_some_and(|secs| *secs < before)",
        "signed.get(&name.id).is_none_or(|secs| *secs < before)",
        test("icecore", "a_copy_keeps_what_expired")),
    "a copy keeps what expired for as long as it is told": (
        "crates/pipeline/src/copy/expired.rs", "signed.get(&name.id).is_some_and(|secs| *secs < before)",
        "signed.get(&name.id).is_some_and(|secs| *secs < before || true)",
        test("icecore", "a_copy_keeps_what_expired")),
    "a copy follows no clock that is in doubt": (
        "crates/server-control/src/upkeep/run.rs", "if now.doubt.is_some() || (upkeep", "if false || (upkeep",
        test("server-control", "copies_forget_nothing_by_a_clock")),
    "no location makes a server allocate more than a record": (
        "crates/repository/src/container/read.rs", "if location.length as usize > RECORD_BYTES_MAX {",
        "if location.length as usize > RECORD_BYTES_MAX && false {",
        test("repository", "a_location_of_any_length")),
    "a server reads from copies what a domain has lost": (
        "crates/server-data/src/request_handler/open_domain.rs", "=> &access.copies[..],", "=> &access.copies[..0],",
        test("icecore", "a_restore_reads_what_the_domain_has_lost")),
    "payloads end where their record does": (
        "crates/format/src/record.rs",
        "plain.len().checked_sub(table).ok_or(Error::Truncated { what })?", "plain.len() - table",
        test("fuzzed", "every_target_takes")),
    "a receipt lies in the container of its manifest": (
        "crates/repository/src/session.rs", "            && kind != RecordKind::Manifest\n", "",
        test("simulation", "a_receipt_at_the_end")),
    "backups leave inodes for forget and reclaim": (
        "crates/repository/src/session.rs", "        reserve::leaves_inodes(&*self.repository.storage)?;\n", "",
        test("icecore", "few_inodes_refuse")),
    "records are counted before they are stored": (
        "crates/server-data/src/session.rs", "access_control.may_store(&self.access.domain, record.len() as u64)",
        "access_control.may_store(&self.access.domain, record.len() as u64 / 1_000)",
        test("server", "two_sessions_that_store")),
    "nothing is copied to a disk that is not mounted": (
        "crates/server/src/upkeep/copies.rs", "if !mark.is_file() {", "if !mark.is_file() && false {",
        test("server", "nothing_is_copied_to_a_place")),
    "a domain is looked for in all pools": (
        "crates/server-control/src/pools.rs", "let mut also = others.filter(|(_, path)| path.exists());",
        "let mut also = others.filter(|(_, path)| path.exists()).take(0);",
        test("server-control", "a_domain_that_lies_in_two_pools")),
    "sessions follow what is healed": (
        "crates/repository/src/copy/heal.rs", "    repository.pins.lock().follow(&whole, &written.map(ContainerNo).collect());\n",
        "    let _ = written;\n",
        test("repository", "a_session_goes_on_to_rely")),
    "where a session was told that something is stays in the index": (
        "crates/repository/src/pins.rs", "pinned.containers.iter().chain(&pinned.writes)", "pinned.writes.iter()",
        test("simulation", "a_newer_place_of_what_drains")),
    "where a session stored something itself stays in the index": (
        "crates/repository/src/pins.rs", "pinned.containers.iter().chain(&pinned.writes)", "pinned.containers.iter()",
        test("simulation", "a_copy_of_what_a_session_stored_again")),
    "nothing waits at a pipe in the place of a file": (
        "crates/repository/src/local.rs", "OFlags::RDONLY | OFlags::NONBLOCK", "OFlags::RDONLY",
        test("icecore", "nothing_waits_for_a_pipe_in_the_place_of_a_file")),
    "what was opened without waiting is read with it": (
        "crates/repository/src/local.rs", "fs::fcntl_setfl(&file, OFlags::empty()).map(|()| file)", "Ok(file)",
        test("repository", "what_is_read_waits_for_the_disk")),
    "the index is not written over a newer one": (
        "crates/repository/src/index/run.rs", "Err(error) if error.already_exists() => {", "Err(error) if false && error.already_exists() => {",
        test("icecore", "the_advice_for_older_files_that_were_copied_over_newer_ones")),
    "a new password is none of another key": (
        "crates/icecore/src/commands/key.rs", "    check_new(context, repository, &secret, None)?;\n", "",
        test("icecore", "a_new_password_is_none_of_another_key")),
    "a changed password is none of another key": (
        "crates/icecore/src/commands/key.rs", "    check_new(context, repository, &secret, Some(old.id))?;\n", "",
        test("icecore", "a_new_password_is_none_of_another_key")),
    "fewer threads than asked for are enough": (
        "crates/pipeline/src/threads.rs", "Err(_) => break,", "Err(error) => return Err(error),",
        test("pipeline", "fewer_threads_than_asked_for_are_enough_and_none_is_an_error")),
    "a repository in a bucket is made in no other": (
        "crates/icecore/src/place.rs", "    refuse_inside_bucket(&location, out)?;\n", "    let _ = refuse_inside_bucket;\n",
        test("icecore", "a_repository_in_a_bucket_is_made_in_no_other")),
    "what a move writes is durable": (
        "crates/repository/src/moving.rs", "written.and_then(|()| to.sync()).map_err", "written.map_err",
        test("simulation", "a_repository_that_moves")),
    "what a move writes is compared": (
        "crates/repository/src/moving.rs", "if self.sum_of(&part)? != (length, sum) {",
        "if self.sum_of(&part)? != (length, sum) && false {",
        test("repository", "what_reads_differently")),
    "a move removes what the source does not have any more": (
        "crates/repository/src/moving.rs", "there.difference(names).cloned().collect();",
        "there.difference(names).take(0).cloned().collect();",
        test("repository", "what_comes_and_goes_beside")),
    "nobody opens a domain that is being moved": (
        "crates/server-data/src/domains.rs", "        self.is_open(folder)?;\n        if let Some(domain)",
        "        if let Some(domain)",
        test("server", "a_domain_moves_there_and_back")),
    "who uses a domain is waited for before it moves": (
        "crates/server-data/src/lib.rs", "!self.domains.is_in_use(folder)", "true",
        test("server", "who_uses_the_domain")),
    "what is in one pool only is not removed": (
        # A move looks twice, before it closes the domain and behind it: either is enough for the test.
        "crates/server/src/moving.rs", "lacks(&**source.storage(), &*target).map_err(of_engine)",
        "lacks(&**source.storage(), &*target).map(|_| None).map_err(of_engine)",
        test("server", "what_is_in_the_first_pool_only")),
    "and is missed before the catalog changes": (
        "crates/server/src/moving.rs", "if let Some(name) = self.lacking(&repository, &finished(self.request.to))? {",
        "if let Some(name) = self.lacking(&repository, &finished(self.request.to))?.filter(|_| false) {",
        test("server", "a_copy_in_a_bucket_that_lost_an_object")),
    "a move writes the config last": (
        "crates/repository/src/moving.rs", "names.iter().partition(|name| is_config(name));",
        "names.iter().partition(|name| is_config(name) && false);",
        test("object-storage", "a_move_into_a_bucket_that_fails_at_any_request")),
    "a container that vanishes while it is copied is no error": (
        "crates/repository/src/moving.rs", "error.is_not_found() && !self.is_there(name)? => {",
        "error.is_not_found() && !self.is_there(name)? && false => {",
        test("object-storage", "a_container_that_vanishes_from_the_bucket")),
    "a copy of what was damaged when it was copied is written anew": (
        "crates/repository/src/moving.rs", "                Err(error) if error.already_exists() => {}\n", "",
        test("object-storage", "damage_moves_as_it_is")),
    "a copy in a bucket that is taken up again is no repository": (
        "crates/server-contract/src/pool/moves.rs", "        storage.remove_config()?;\n        Ok(Self", "        Ok(Self",
        test("server", "a_copy_in_a_bucket_that_was_whole_before")),
    "a move begins only where no objects are": (
        "crates/server-contract/src/pool/moves.rs", "            is_free(&storage, &at)?;\n", "",
        test("server", "no_domain_is_copied_into_what_somebody_else")),
    "what is copied in part is of the same repository": (
        "crates/server-contract/src/pool/moves.rs", ".is_some_and(|noted| noted != id)", ".is_some_and(|noted| noted != id && false)",
        test("server", "what_was_copied_of_another_repository")),
    "a note of a move removes no objects of a domain": (
        "crates/server-contract/src/pool/moves.rs", "if domain != path && domain.exists() {",
        "if domain != path && domain.exists() && false {",
        test("server", "a_note_of_a_move_removes_no_objects")),
    "no repository is made where a note of a move is": (
        "crates/server-contract/src/pool/bucket.rs", "        if moves::has_note(folder) {\n", "        if moves::has_note(folder) && false {\n",
        test("server", "a_note_of_a_move_removes_no_objects")),
    "objects of which a note of a move is there are no domain": (
        "crates/server-contract/src/pool/bucket.rs", " || moves::has_note(&folder) {", " {",
        test("server", "one_that_was_killed_behind_the_change_of_the_catalog_is_finished_in_buckets")),
    "objects without a config are no domain": (
        "crates/server-contract/src/pool/bucket.rs", "if pool.has_repository(name.as_str()).map_err(failed)? {",
        "if pool.has_repository(name.as_str()).map_err(failed)? || true {",
        test("server", "another_server_finds_no_domain_in_a_part")),
    "nothing is removed in a pool that another server has": (
        "crates/server-contract/src/pool/moves.rs", "    super::verify(path)?;\n    let domain", "    let domain",
        test("server", "another_server_finds_no_domain_in_a_part")),
    "a mover looks whether its lease is still its own": (
        "crates/server/src/moving.rs", "        target.verify().map_err(of_storage)?;\n", "",
        test("server", "a_mover_that_is_overtaken_in_its_bucket")),
    "and asks at that moment": (
        "crates/object-storage/src/removal.rs", "        held.forget_check();\n", "",
        test("object-storage", "a_mover_that_was_overtaken_in_its_target")),
    "a removal looks what is left": (
        "crates/object-storage/src/removal.rs", "        let left = self.client().list(\"\", \"\")?;\n",
        "        let left = self.client().list(\"\", \"\")?.into_iter().take(0).collect::<Vec<_>>();\n",
        test("object-storage", "what_the_storage_does_not_remove")),
    "the config goes first": (
        "crates/object-storage/src/removal.rs", "        self.remove_config()?;\n        // Parts", "        // Parts",
        test("object-storage", "what_is_removed_with_a_fault_at_any_request")),
    "a copy that was whole before the catalog knew is none": (
        "crates/server/src/moving.rs", "            if moves::exists(&finished(to))? {\n", "        if finished(to).exists() && false {\n",
        test("server", "a_copy_that_was_whole_before")),
    "the control plane reads no domain that is being moved": (
        "crates/server-control/src/domain_uses.rs", "if state.closed.contains(domain) {",
        "if state.closed.contains(domain) && false {",
        test("server-control", "a_domain_is_free_when_all_have_left")),
    "a move runs where the domain lies": (
        "crates/catalog/src/domains.rs", " AND COALESCE(pool, '') = $2 AND", " AND $2 = $2 AND",
        test("catalog", "a_domain_is_read_back")),
    "an unknown use is not zero": (
        "crates/server-contract/src/uses.rs",
        "None => Err(Exceeded::Unknown { quota: allowance.quota.clone(), domain: domain.clone() }),",
        "None => Ok(sum),",
        test("server-contract", "an_unknown_use")),
    "and where reclaim copies it": (
        "crates/repository/src/reclaim/copy.rs", "if self.is_full(at) && kind != RecordKind::Receipt {",
        "if self.is_full(at) {",
        test("simulation", "a_receipt_that_reclaim_copies")),
    "reclaim leaves what a copy of another process reads": (
        "crates/repository/src/reclaim/mark.rs", "still_there(repository, repository.roots_of_readers()?)?",
        "still_there(repository, repository.roots_of_readers()?.into_iter().take(0).collect())?",
        test("repository", "a_reclaim_of_another_process_leaves")),
    "a reader that died pins nothing": (
        "crates/repository/src/readers.rs", "self.storage.try_lock(&format!(\"{name}{LOCK_SUFFIX}\"))? {\n            remove",
        "self.storage.try_lock(&format!(\"{name}{LOCK_SUFFIX}\"))?.filter(|_| false) {\n            remove",
        test("repository", "a_reader_that_died")),
    "a record is verified before it is copied": (
        "crates/repository/src/copy/records.rs", "            return Err(at(reason));", "            let _ = reason;",
        test("repository", "a_damaged_record_is_refused")),
    "a snapshot that is not whole is not copied": (
        "crates/repository/src/copy.rs", "true if !self.accept_damage =>", "true if self.accept_damage =>",
        test("repository", "a_damaged_record_is_refused")),
    "a copy takes the numbers of its snapshots": (
        "crates/repository/src/session/copied.rs", "fetch_max(last.saturating_add(1), ", "fetch_max(last.min(1), ",
        test("repository", "a_copy_has_the_same")),
    "what was forgotten at a copy is not copied again": (
        "crates/pipeline/src/copy.rs", "known.contains(&name.id) && !options.again", "known.contains(&name.id) && false",
        test("icecore", "a_copy_has_its_own_retention")),
    "another repository is no copy": (
        "crates/pipeline/src/copy.rs", "if target.config() == source.config() {", "if true {",
        test("icecore", "another_repository_and_the_same_place")),
    "what the first place has lost is read from a copy": (
        "crates/repository/src/fallback.rs", "match self.fetch_from_copies(id, buffer) {",
        "match self.fetch_from_copies(id, buffer).filter(|_| false) {",
        test("icecore", "what_the_first_place_has_lost")),
    "reclaim makes durable that containers are gone": (
        "crates/repository/src/reclaim/rewrite.rs",
        "        directories.iter().try_for_each(|name| storage.sync_directory(name))?;\n", "",
        test("pipeline", "a_reclaim_makes_durable_that_containers_are_gone")),
    "what a neighbor says is not believed": (
        "crates/pipeline/src/restore/work.rs", "match chunk.filter(|chunk| is_right(shared, used, chunk)) {",
        "match chunk {",
        test("pipeline", "leads_nobody_astray")),
    "tiny files are found by their neighbors": (
        "crates/pipeline/src/restore/plan.rs", "store.locate_neighbors(&ids)?", "store.locate(&ids)?",
        test("pipeline", "a_restore_of_tiny_files_reads_little_more")),
    "a container of tiny objects ends": (
        "crates/repository/src/container/write.rs", " || self.objects >= OBJECTS_MAX", "",
        test("repository", "a_container_ends_after_so_many_objects")),
    "half of an init goes": (
        "crates/repository/src/recover.rs", "    remove_half_of_an_init(repository, lease)?;\n",
        "    let _ = remove_half_of_an_init;\n",
        test("simulation", "an_init_that_is_killed")),
    "a writer looks at the lease behind its snapshot": (
        "crates/repository/src/session.rs",
        "too late for the next writer to see.\n        self.lease.verify()?;", "too late for the next writer to see.",
        test("object-storage", "a_writer_that_sleeps_before_any_step")),
    "who takes a lease over fences the state": (
        "crates/object-storage/src/takeover.rs", "    fence_state(client, names)?;\n", "    let _ = fence_state;\n",
        test("object-storage", "an_overtaken_writer_publishes_no_state")),
    "a container that is about to go is announced": (
        "crates/object-storage/src/storage/files.rs", "            self.announce_removal(&containers)?;\n",
        "            let _ = Self::announce_removal;\n",
        test("object-storage", "removes_nothing_that_a_rebuild_has_found")),
    "a snapshot that came too late counts for nobody": (
        "crates/object-storage/src/takeover.rs", "is_none_or(|files| files.contains(file))",
        "is_none_or(|files| files.contains(file) || true)",
        test("object-storage", "a_snapshot_that_an_overtaken_writer_writes")),
    "an object that exists already is read": (
        "crates/object-storage/src/client/writing.rs", "Ok(is_ours.then_some(Written { tag: None }))",
        "Ok((is_ours && !is_ours).then_some(Written { tag: None }))",
        test("object-storage", "a_bucket_keeps_the_contract_while_answers_get_lost")),
    "what a machine keeps of a bucket is of the content that the storage has": (
        "crates/object-storage/src/reader.rs", "self.tag.as_deref().unwrap_or_default()",
        'self.tag.as_deref().map_or("", |_| "")',
        test("object-storage", "unless_the_storage_has_another_one")),
    "a storage without conditional writes is refused": (
        "crates/object-storage/src/storage.rs", "        probe::race(&self.shared.client)\n",
        "        let _ = probe::race;\n        Ok(())\n",
        test("object-storage", "a_storage_that_lets_every_writer_win")),
    "a check reads the bucket alone": (
        "crates/icecore/src/context.rs", "self.open_to_cancel(Purpose::Check, Reads::Fresh)",
        "self.open_to_cancel(Purpose::Check, Reads::Cached)",
        test("icecore", "a_check_reads_the_bucket")),
    "a cache is believed only for the state that it was filled from": (
        "crates/object-storage/src/cache.rs", "if !states.iter().any(|state| state.text() == known) {",
        "if known.is_empty() {",
        test("object-storage", "a_bucket_that_was_put_back")),
    "a short write goes on": (
        "crates/repository/src/storage.rs", "Ok(count) => written += count,",
        "Ok(_) => written = total,",
        test("repository", "a_write_that_takes_a_part")),
    "runs of a rebuild are merged on the way": (
        "crates/repository/src/rebuild/places.rs", "const RUNS_A_LEVEL: usize = 64;",
        "const RUNS_A_LEVEL: usize = 1 << 20;",
        test("simulation", "a_rebuild_that_writes_very_many_runs")),
    "what expires is read from its repository again": (
        "crates/server-control/src/retention/expire.rs", "let (ids, others) = self.confirmed(domain, ids)?;",
        "let _ = Self::confirmed;\n        let (ids, others) = (ids.to_vec(), Vec::<SnapshotId>::new());",
        test("server-control", "what_the_catalog_says_of_a_snapshot")),
    "an agent ends the commands of its own node": (
        "crates/server-control/src/scheduler/ends.rs", " && run.job.node == node;", ";",
        test("server", "a_node_ends_no_job_of_another")),
    "a session that has begun decides how its job ends": (
        "crates/server-control/src/jobs.rs", "if !was_expected && self.has_session(id) {",
        "if false && !was_expected && self.has_session(id) {",
        test("server-control", "a_session_that_begins_while_its_job_is_ended")),
    "a snapshot proves one job": (
        "crates/server-control/src/scheduler/ends.rs",
        ".filter(|(id, _)| self.is_new(&run.job, id));", ".filter(|(id, _)| self.is_new(&run.job, id) || true);",
        test("server", "an_old_snapshot_proves_no_new_job")),
    "a sum of what nodes said has a bound": (
        "crates/catalog/src/backup_states.rs",
        "CASE WHEN $6 > $7 - stored_bytes THEN $7 ELSE stored_bytes + $6 END",
        "CASE WHEN $7 < 0 THEN $7 ELSE stored_bytes + $6 END",
        test("catalog", "figures_that_a_node_made_up")),
    "nothing expires in a domain that cannot be read": (
        "crates/server-control/src/retention/expire.rs", "        self.reconcile(domain)?;\n",
        "        let _ = self.reconcile(domain);\n",
        test("server-control", "a_domain_that_cannot_be_read")),
    "a site that is not whole lets nothing go": (
        "crates/server-control/src/retention.rs",
        "let rules = stored.site.rules(&zone).map_err(|error| Error::Usage(error.to_string()))?;",
        "let rules = stored.site.rules(&zone).unwrap_or_default();",
        test("server-control", "a_site_that_is_not_whole")),
    "a storage server expires and keeps up for its control server only": (
        "crates/server-data/src/request_handler.rs",
        "        if !self.shared.access_control.is_control_server(&self.handle.node) {",
        "        if false {",
        test("server", "a_node_cannot_do_what_the_control_server_does")),
    "an expiry on a storage server is signed": (
        "crates/server-data/src/expiry.rs", "    (is_signed && expiry.snapshots.len()",
        "    let _ = is_signed;\n    (expiry.snapshots.len()",
        test("server-data", "an_expiry_that_nobody_signed")),
    "a job for which nobody asks ends": (
        "crates/server-data/src/upkeep.rs", "        state.was_left |= is_left;\n", "        let _ = is_left;\n",
        test("server-data", "a_job_for_which_nobody_asks_ends")),
    "a receipt that is read elsewhere is verified": (
        "crates/repository/src/received.rs",
        "let is_known = |one: &SignedReceipt| one.1 == Some(true) && self.keys.contains(&one.0.key);",
        "let is_known = |_: &SignedReceipt| true;",
        test("server", "what_is_read_of_a_snapshot_elsewhere")),
    "a lock stands above a name": (
        "crates/retention/src/evaluate.rs", "Some(until_secs) => State::Locked { until_secs },",
        "Some(until_secs) if !facts.is_named() => State::Locked { until_secs },\n            Some(_) => State::Expired,",
        test("retention", "a_lock_outlives_names")),
    "a snapshot in the trash protects nothing": (
        "crates/server-control/src/protection/snapshots.rs", " && facts.trashed.is_none()", "",
        test("server-control", "only_a_snapshot_that_exists_and_is_good_protects")),
    "a class protects itself and no other": (
        "crates/server-control/src/protection/snapshots.rs", "Self::Usual { but } => !but.contains(&class),",
        "Self::Usual { .. } => true,",
        test("server-control", "a_class_protects_itself")),
    "who may only exclude takes back nothing of others": (
        "crates/capture/src/excludes.rs", "if let Some(excluded @ (PatternVerdict::Exclude, _)) = foreign {",
        "if let Some(excluded) = foreign {",
        test("capture", "who_may_only_exclude_takes_back_nothing")),
    "what was never backed up is new for a time only": (
        "crates/server-control/src/protection/decide.rs", "Some(until) if is_new && now <= until => {",
        "Some(_) if is_new => {",
        test("server-control", "what_was_never_backed_up_is_new")),
    "nothing expires by an older catalog": (
        "crates/server-control/src/machine_clock.rs", "let doubt = if is_older {", "let doubt = if is_older && false {",
        test("server-control", "a_catalog_from_an_older_copy_counts_only")),
    "an older catalog is recognized by the entry that was seen": (
        "crates/server-control/src/catalog_mark.rs", "if state.mark.is_some() && same != state.mark {",
        "if same.is_none() && newest.as_ref().map(|it| it.id) < state.mark.as_ref().map(|it| it.id) {",
        test("server-control", "an_older_copy_that_went_on_elsewhere")),
    "a mark that is missing is a doubt": (
        "crates/server-control/src/catalog_mark.rs", "Found::Missing if is_expected => Err(Lost::Missing),", "Found::Missing if false && is_expected => Err(Lost::Missing),",
        test("server-control", "a_mark_that_is_lost_or_damaged")),
    "tokens of an older catalog are void": (
        "crates/server-control/src/catalog_mark.rs", "        self.catalog.void_tokens(by(SERVER))?;\n", "",
        test("server-control", "tokens_of_an_older_catalog_enroll_nobody")),
    "nodes forget nothing by an older catalog": (
        "crates/server-control/src/catalog_mark.rs", "        if !self.is_older()? {\n            return Ok(());\n        }\n        let message = format!(\"nothing is forgotten", "        if true {\n            return Ok(());\n        }\n        let message = format!(\"nothing is forgotten",
        test("server-control", "a_catalog_from_an_older_copy_counts_only")),
    "what was revoked is refused whatever the catalog says": (
        "crates/server-control/src/admission.rs", "if let Some(holder) = self.revoked.holder_of(&facts.serial)? {",
        "if let Some(holder) = self.revoked.holder_of(&facts.serial)?.filter(|_| false) {",
        test("server-control", "a_listed_certificate_is_refused")),
    "a revocation is in the list when it returns": (
        "crates/server-control/src/nodes.rs", "let listed = self.revoked.catch_up();", "let listed = Ok(());",
        test("server-control", "what_was_revoked_removed_or_replaced")),
    "a node that was removed is in the list": (
        "crates/server-control/src/nodes.rs", "let listed = self.revoked.add(&certificates);",
        "let listed = self.revoked.add(&certificates[..0]);",
        test("server-control", "what_was_revoked_removed_or_replaced")),
    "without its list of revoked certificates a server admits nobody": (
        "crates/server-control/src/revocations.rs", "        if list.fault.is_some() {\n            let message =",
        "        if false {\n            let message =",
        test("server-control", "without_its_list_a_server_admits_nobody")),
    "a damaged file beside the catalog is recognized": (
        "crates/server-control/src/checked_file.rs", "let is_whole = |body: &&str| text == with_end(body);",
        "let is_whole = |_: &&str| true;",
        test("server-control", "a_file_with_one_changed_or_missing_byte")),
    "nothing expires while the clock is in doubt": (
        "crates/retention/src/evaluate.rs", "let Some(doubt) = now.doubt else {",
        "let Some(doubt) = now.doubt.filter(|_| false) else {",
        test("retention", "nothing_goes_while_the_clock_is_in_doubt")),
    "a source keeps its newest complete snapshot": (
        "crates/retention/src/evaluate.rs", "(0..minimum.max(1)).zip(complete)", "(0..minimum).zip(complete)",
        test("retention", "the_newest_complete_snapshot_goes_only_by_name")),
    "the clock is believed within bounds": (
        "crates/clock/src/believed.rs", "let is_believed = total <= OFF_SECS_MAX;", "let is_believed = total < i64::MAX;",
        test("clock", "a_machine_may_be_off_for_weeks")),
    "a start settles its run": (
        "crates/schedule/src/decide.rs", "Decision { missed, settled_secs: due_secs, next: Next::Due(start) }",
        "Decision { missed, settled_secs: settled, next: Next::Due(start) }",
        test("schedule", "a_run_starts_when_its_window_opens_and_once")),
    "a source runs once at a time": (
        "crates/schedule/src/decide.rs", "if known.is_running {", "if known.is_running && now < 0 {",
        test("schedule", "a_source_never_runs_twice_at_once")),
    "a zone that is missing leaves no rules": (
        "crates/site/src/rules.rs", "zones(&retention.zone).ok_or_else(unknown)?",
        "zones(&retention.zone).or(Some(TimeZone::UTC)).ok_or_else(unknown)?",
        test("site", "rules_that_are_not_whole_are_none")),
    "a label that is not set chooses nobody": (
        "crates/site/src/members.rs", "if choice.all || !choice.labels.is_empty() {", "if choice.all || choice.nodes.is_empty() {",
        test("site", "a_node_is_a_member_by_name")),
    "groups contain no cycle": (
        "crates/site/src/members.rs", "self.back.entry(outer).or_insert(position);", "let _ = (outer, position);",
        test("site", "a_long_chain_of_groups")),
    "promises of a node are bounded": (
        "crates/server-data/src/session.rs", "PROMISES_MAX.min(NODE_PROMISES_MAX - of_others)",
        "PROMISES_MAX.max(of_others)",
        test("server", "promises_of_all_sessions")),
    "a change of the catalog without an answer is not repeated": (
        "crates/catalog/src/sql/postgresql/errors.rs", "_ => Error::OutcomeUnknown,",
        "_ => failed(error, address),",
        test("catalog", "a_connection_that_is_lost_in_a_commit")),
    "a server writes to the catalog only with its lock": (
        "crates/catalog/src/sql/writer.rs", "if self.serves {", "if false {",
        test("catalog", "a_server_whose_lock_another_one_took")),
    "a change that did not get its turn leaves no transaction": (
        "crates/catalog/src/sql/postgresql.rs", "begun.inspect_err(|_| self.rollback())",
        "begun",
        test("catalog", "a_change_that_waited_too_long_leaves")),
    "a connection in a failed transaction is given up": (
        "crates/catalog/src/sql/postgresql/errors.rs", "        SqlState::IN_FAILED_SQL_TRANSACTION,\n",
        "",
        test("catalog", "a_connection_in_a_failed_transaction_is_used_no_more")),
    "a connection that was ended for being idle is opened again": (
        "crates/catalog/src/sql/postgresql/errors.rs", "        SqlState::IDLE_SESSION_TIMEOUT,\n",
        "",
        test("catalog", "connections_that_were_ended_for_being_idle_are_opened_again")),
    "the lock of a server does not end because nobody writes": (
        "crates/catalog/src/sql/postgresql.rs", " -c idle_session_timeout=0",
        "",
        test("catalog", "the_connection_with_the_lock_of_a_server_is_not_ended_for_being_idle")),
    "a reader does not wait for a table for minutes": (
        "crates/catalog/src/sql/postgresql.rs", '"-c lock_timeout=10s -c default_transaction',
        '"-c default_transaction',
        test("catalog", "waiting_for_a_table_ends_for_readers_too")),
    "no server begins anew where its catalog is missing": (
        "crates/catalog/src/lib.rs", "        location.must_be_there()?;\n",
        "",
        test("catalog", "a_file_that_somebody_named_is_made_by_a_move_only")),
    "an address of a catalog is no file": (
        "crates/catalog/src/location.rs", "|| text.contains('='))",
        '|| text.starts_with("host="))',
        test("catalog", "an_address_is_no_file_however_it_begins")),
    "nobody is told to empty the catalog that is in use": (
        "crates/catalog/src/moving.rs", "    must_lie_elsewhere(change, &mut *target, to)?;\n",
        "",
        test("catalog", "a_catalog_is_not_moved_to_where_it_lies")),
    "a database misses a server that lost its power": (
        "crates/catalog/src/sql/postgresql.rs", '{own} {}", network::OPTIONS);',
        '{own} {}", &network::OPTIONS[..0]);',
        test("catalog", "both_ends_of_a_connection_notice")),
    "a server misses a database that lost its power": (
        "crates/catalog/src/sql/postgresql.rs", "    network::notice_ends(&mut config);\n",
        "    let _ = network::notice_ends;\n",
        test("catalog", "both_ends_of_a_connection_notice")),
    "a connection that only reads is given up": (
        "crates/catalog/src/error.rs", "failure: Disconnected | ReadOnly, ..",
        "failure: Disconnected, ..",
        test("catalog", "a_database_that_only_reads_is_told")),
    "a database that refuses its server refuses no node": (
        "crates/server-control/src/access_control.rs", "Error::Catalog(error) if error.is_of_database() => {",
        "Error::Catalog(error) if error.passes() => {",
        test("icecore", "a_database_that_refuses_the_server_is_no_refusal")),
    "what was not stored is an alarm": (
        "crates/catalog/src/lib.rs", "Err(error) if error.is_of_database() => {",
        "Err(error) if error.is_of_database() && false => {",
        test("catalog", "a_change_that_waited_too_long_leaves_no_transaction")),
    "the status shows that the last change was not stored": (
        "crates/server-control/src/status.rs", "let why = self.catalog.write_fault()?;",
        "let why = self.catalog.write_fault().filter(|_| false)?;",
        test("icecore", "the_status_has_an_alarm_while_the_catalog")),
    "a stop does not wait for a database that hangs": (
        "crates/icecore/src/commands/server/run.rs", "tokio::time::timeout(NOTED_WITHIN, noted).await",
        "tokio::time::timeout(THREADS_WITHIN * 60, noted).await",
        test("icecore", "a_server_whose_database_hangs_stops")),
    "a catalog is copied before its tables change": (
        "crates/catalog/src/schema.rs", "            backend.copy(at as u32, COPIES)?;\n", "",
        test("catalog", "each_step_is_made_on_a_copied_catalog")),
    "a change of the site is made only on the version that it is based on": (
        "crates/catalog/src/objects.rs", "if found != expected {", "if false {",
        test("catalog", "the_second_of_two_writers")),
    "what others need is not removed from the site": (
        "crates/server-control/src/sites.rs", "self.check(&stored.site, &wanted)?;",
        "self.check(&stored.site, &wanted).unwrap_or_default();",
        test("server-control", "what_another_object_needs")),
    "a catalog that moves is compared": (
        "crates/catalog/src/moving.rs",
        "if content(&Sql::on(target), table, |_| Ok(()))? != content_of_source {", "if false {",
        test("catalog", "a_table_that_would_differ")),
    "keys for receipts are remembered": (
        "crates/icecore/src/node.rs",
        "        receipt_keys::believe(&self.folder, &remote, caller.out)?;\n",
        "        let _ = receipt_keys::believe;\n",
        test("icecore", "a_node_remembers_its_servers_keys")),
    "a server tells its own key first": (
        "crates/server-data/src/request_handler/opening.rs", "[own].into_iter().chain(others)",
        "others.chain([own])",
        test("server", "a_key_for_receipts_that_the_files_name")),
    "what is locked stays": (
        "crates/repository/src/repository.rs", "        self.refuse_locked(names)?;\n", "",
        test("repository", "a_locked_snapshot_goes_when_its_lock_has_ended")),
    "a lock has a signature": (
        "crates/repository/src/locks.rs",
        "Some((Receipt { lock: Some(lock), .. }, None | Some(true))) => Self::By(lock),",
        "Some((Receipt { lock: Some(lock), .. }, _)) => Self::By(lock),",
        test("repository", "what_no_server_signed_for_this_snapshot_here")),
    "no wall clock ends a lock": (
        "crates/clock/src/lock_clock.rs", ".clamp(0, self.credit_secs)", ".max(0)",
        test("clock", "the_wall_clock_is_believed_for_three_days_off")),
    "a lost lock clock begins at what is proven": (
        "crates/repository/src/locks.rs", "let clock = LockClock::not_before(since_secs, tick);",
        "let clock = LockClock::start(tick);",
        test("repository", "a_clock_whose_file_was_removed_or_damaged")),
    "only a known key proves time": (
        "crates/repository/src/locks.rs",
        "is_signed == Some(true) && keys.contains(&receipt.key)", "is_signed == Some(true)",
        test("repository", "a_list_of_keys_that_was_removed_or_replaced")),
    "a doubtful clock lets nothing expire": (
        "crates/server-data/src/expiry.rs", "if let Some(doubt) = now.doubt {",
        "if let Some(doubt) = now.doubt.filter(|_| false) {",
        test("server", "what_a_server_lets_expire")),
    "no receipt without the lock that is wanted": (
        "crates/server/src/storage_server.rs",
        "            Ok(None) => Err(Refusal::transient(\"the control server does not know this job\")),",
        "            Ok(None) => Ok(Labels::default()),",
        test("server", "there_is_no_receipt_before_the_control_server")),
    "sync of a file": (
        "crates/repository/src/local/writer.rs", "fs::fdatasync(&self.file)",
        "rustix::io::Result::Ok(())", SYNC),
    "the zeros that fill the last block are cut": (
        "crates/repository/src/local/writer.rs", "fs::ftruncate(&self.file, length)",
        "rustix::io::Result::Ok(length).map(drop)",
        test("repository", "zeros_that_fill_a_block")),
    "a direct file is synced with its last block": (
        "crates/repository/src/local/writer.rs", "self.with_waiting(Self::flush_end)?;",
        "let _ = Self::flush_end;",
        test("repository", "what_is_written_directly")),
    "a direct write that is refused goes on through the cache": (
        "crates/repository/src/local/writer.rs",
        "Err(error @ (Errno::INVAL | Errno::OPNOTSUPP)) => self.give_up(&error.to_string()),",
        "Err(error @ (Errno::INVAL | Errno::OPNOTSUPP)) => Err(self.failed(\"write\", error)),",
        test("repository", "a_direct_write_that_is_refused_or_short")),
    "a short direct write goes on through the cache": (
        "crates/repository/src/local/writer.rs", "Ok(count) if count == blocks.len() => Ok(true),",
        "Ok(count) if count <= blocks.len() => Ok(true),",
        test("repository", "a_direct_write_that_is_refused_or_short")),
    "nothing is made visible where nobody sees it": (
        "crates/repository/src/local.rs",
        "self.identity.map_or(Ok(()), |identity| identity.verify(&self.root.path))",
        "Ok(())",
        test("repository", "nothing_is_made_visible_in_a_directory")),
    "a pool that is not mounted is not made": (
        "crates/server-contract/src/pool.rs",
        "let found = memory.verify(place).map_err(|why| not_mounted(place, &why))?;",
        "let found = memory.verify(place).unwrap_or(memory.superblock.clone());\n    place.make_all()?;",
        test("server-contract", "a_pool_that_is_not_mounted")),
    "a mount point that was there is missed": (
        "crates/server-contract/src/pool/memory.rs",
        "self.mounts.iter().find(|name| !mounted.contains(name))",
        "self.mounts.iter().find(|name| name.is_empty() && !mounted.contains(name))",
        test("server-contract", "a_mount_point_that_was_there")),
    "who lost its pool uses it no more": (
        "crates/server-contract/src/pool/memory.rs",
        "if found.generation > self.superblock.generation && !self.is_taking {",
        "if found.generation == 0 {",
        test("server-contract", "who_lost_its_pool_to_another_server")),
    "no two leases are the same": (
        "crates/repository/src/lease.rs",
        "let number = RandomState::new().hash_one(std::time::SystemTime::now());",
        "let number = RandomState::new().hash_one(std::time::SystemTime::now()) & 0;",
        test("repository", "two_leases_are_never_the_same")),
    "what another server has locked is taken with its pool": (
        "crates/repository/src/lease.rs",
        "    reserve::with(&**storage, || Ok(storage.put(LOCK, &[])?))?;\n",
        "",
        test("repository", "a_lease_is_taken_from_one_that_never_gives_it_back")),
    "what another server has is taken by the next start, too": (
        "crates/server-contract/src/pool.rs",
        "mounts: place.mounted(), ..memory.clone() };",
        "mounts: place.mounted(), is_taking: false, ..memory.clone() };",
        test("server-contract", "what_another_server_has_locked_is_taken_also_by_one")),
    "a lock on a file that was replaced is none": (
        "crates/repository/src/local/locking.rs",
        "Ok(found) => Ok((found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)),",
        "Ok(found) => Ok(found.st_dev == own.st_dev),",
        test("repository", "a_file_that_was_replaced_is_not_the_lock")),
    "a pool elsewhere is known before the first start": (
        "crates/server-contract/src/pool/linked.rs",
        "        None => new(place),",
        "        None => Ok(drop(new)),",
        test("server-contract", "a_pool_that_is_not_mounted_at_the_first_start")),
    "a pool is taken over only by who says so": (
        "crates/server-contract/src/pool/linked.rs",
        "true if take_over || is_ours => return Ok(()),",
        "true if take_over || is_ours || !had_another => return Ok(()),",
        test("server-contract", "a_pool_elsewhere_is_taken_over_only_by_who_says_so")),
    "a pool of another storage server is not used by mistake": (
        "crates/server-contract/src/pool/linked.rs",
        "Some(other) if other != name.as_str() => {",
        "Some(other) if other.is_empty() => {",
        test("server-contract", "a_pool_says_to_which_storage_server_it_belongs")),
    "no repository is looked for in a pool that is not mounted": (
        "crates/server-contract/src/repositories.rs",
        "    // In a pool that is not mounted there is none, and somebody would create it.\n    pool::verify(folder)?;\n",
        "",
        test("server-contract", "a_repository_is_not_missing_where_the_pool_is")),
    "a superblock in a bucket is written once": (
        "crates/object-storage/src/pool.rs",
        "if self.client.create(&name, &roots::encode(content))?.is_none() {",
        "if self.client.put(&name, roots::encode(content)).is_err() {",
        test("object-storage", "the_last_superblock_counts")),
    "who lost a bucket sees it while it runs": (
        "crates/server-contract/src/pool/bucket.rs",
        "Some(Read { at, last }) if at.elapsed() < BELIEVED_FOR => {", "Some(Read { at: _, last }) => {",
        test("icecore", "a_part_of_a_bucket_is_the_pool")),
    "pools do not lie in one another in a bucket": (
        "crates/server-contract/src/pool/places.rs",
        "if let Some(address) = address.filter(|address| address.overlaps(bucket)) {",
        "if let Some(address) = address.filter(|_| false) {",
        test("icecore", "a_part_of_a_bucket_is_the_pool")),
    "what lies in a bucket is counted": (
        "crates/server-contract/src/uses.rs", "        return Ok(bytes);", "        return Ok(bytes.min(1));",
        test("icecore", "a_quota_counts_what_lies_in_a_bucket")),
    "a bucket that has the domain keeps it in the catalog": (
        "crates/server-contract/src/pool.rs",
        "if bucket::domains(&bucket)?.contains(domain) {", "if bucket::domains(&bucket)?.contains(domain) && false {",
        test("icecore", "a_domain_that_was_deleted_in_its_bucket")),
    "the notes of a pool in a bucket are made from its listing": (
        "crates/server-contract/src/pool/memory.rs", "            bucket::note_domains(place, bucket)?;\n", "",
        test("icecore", "a_part_of_a_bucket_is_the_pool")),
    "sync of a folder": (
        "crates/repository/src/local.rs", "fs::fsync(&directory)",
        "rustix::io::Result::Ok(directory).map(drop)", SYNC),
    "nothing is published over a file": (
        "crates/repository/src/local.rs", "let flags = RenameFlags::NOREPLACE;",
        "let flags = RenameFlags::empty();",
        test("repository", "a_file_has_its_name_only_when_published")),
    "a failed write is an error": (
        "crates/repository/src/storage.rs", "Err(error) => return Err(error),",
        "Err(_) => written = total,",
        test("icecore", "full_disk")),
    "checksum of a record": (
        "crates/format/src/record.rs", "return Err(Error::Checksum { what: \"record\" });", "",
        test("format", "every_flipped_bit")),
    "lease before the index is replaced": (
        "crates/repository/src/publication.rs",
        "        lease.verify()?;\n        index.state.write(&*self.storage)?;",
        "        let _ = lease;\n        index.state.write(&*self.storage)?;",
        test("repository", "robbed")),
    "lease before strays are removed": (
        "crates/repository/src/recover.rs",
        "        lease.verify()?;\n        repository.storage.remove(&path)?;\n    }\n    Ok(names)",
        "        let _ = lease;\n        repository.storage.remove(&path)?;\n    }\n    Ok(names)",
        test("repository", "robbed")),
    "lease before runs are removed": (
        "crates/repository/src/publication.rs",
        "        lease.verify()?;\n        let names: Vec<_> = runs",
        "        let _ = lease;\n        let names: Vec<_> = runs",
        test("pipeline", "fences::a_backup", "fences::a_reclaim_looks", "fences::settling")),
    "who forgets from afar has a full key": (
        "crates/server-data/src/forget.rs",
        "let may = signer.is_live() && signer.role == Role::Full;", "let may = true;",
        test("server", "no_tombstone_removes_anything_but_one_of_a_full_key_in_use")),
    "a node forgets its own alone": (
        "crates/server-control/src/forget.rs", "ForgetScope::Own if are_own =>",
        "ForgetScope::Own if are_own || !are_own =>",
        test("server", "a_node_forgets_when_it_may_and_what_it_may")),
    "name of a chunk, in a restore": (
        "crates/pipeline/src/restore/work.rs",
        "        && shared.repository.keys.writer.ids.is_chunk(&used.id, chunk)\n", "",
        test("pipeline", "a_chunk_under_the_name_of_another_is_refused")),
    "length of a chunk, in a restore": (
        "crates/pipeline/src/restore/work.rs", "    chunk.len() == used.length as usize\n        && ", "    ",
        test("pipeline", "a_chunk_of_another_length_than_its_run_is_refused")),
    "records are sent for before they are read": (
        "crates/pipeline/src/restore/plan.rs", "            self.shared.repository.store.prefetch(*location)?;",
        "            let _ = location;", test("pipeline", "a_restore_waits_for_few_answers")),
    "pages are sent for before they are read": (
        "crates/pipeline/src/restore/entries.rs", "                self.prefetch_pages()?;",
        "                let _ = Self::prefetch_pages;", test("pipeline", "pages_are_sent_for")),
    "what a restore adds to a cache goes": (
        "crates/pipeline/src/cache.rs",
        "let _ = self.pages.set_len(self.saved_length.min(self.length));", "",
        test("pipeline", "nothing_stays_in_the_cache")),
    "keys before the first record": (
        "crates/remote/src/prefetcher.rs", "            self.request_keys(stream, location.container)?;",
        "            let _ = Self::request_keys;",
        test("remote", "records_are_asked_for_before_they_are_read")),
    "name of a page": (
        "crates/pipeline/src/pages.rs",
        "if !self.ids.is_page(id, kind as u8, refs, payload) {",
        "if !self.ids.is_page(id, kind as u8, refs, payload) && false {",
        test("pipeline", "a_page_under_the_name_of_another_is_refused")),
    "name of a chunk, when it is printed": (
        "crates/pipeline/src/browse/content.rs",
        "let bytes = self.repository.blocks()?.object(id, &mut self.scratch, is_named)?;",
        "let _ = is_named;\n        let bytes = self.repository.blocks()?.object(id, &mut self.scratch, "
        "|_: &[u8]| true)?;",
        test("pipeline", "of_another_length_is_not_printed")),
    "length of a chunk, when it is printed": (
        "crates/pipeline/src/browse/content.rs", "if bytes.len() == length as usize {",
        "if true || bytes.len() == length as usize {",
        test("pipeline", "of_another_length_is_not_printed")),
    "name of an object, in a check": (
        "crates/pipeline/src/blocks.rs", "named.filter(move |(at, id)| !is_named(*at, id))", "named.filter(move |(at, id)| !is_named(*at, id) && false)",
        test("pipeline", "poison", "a_bit_lost_before_sealing")),
    "looking again before storing": (
        "crates/pipeline/src/backup/compressor.rs",
        "sealer.verify(&self.record, unpacker, |bytes| ids.chunk_id(bytes))?;",
        "let _ = unpacker;",
        test("pipeline", "a_bit_lost_before_sealing", "a_compressor_that_lies")),
    "snapshots in no list come back before a reclaim": (
        "crates/pipeline/src/reclaim.rs",
        "            orphans::restore_orphans(repository, lease, options.accept_damage)?\n", "            0\n",
        test("pipeline", "g3_a_list_that_lacks_snapshots")),
    "nothing is deleted while a page is lost": (
        "crates/pipeline/src/restore/removal.rs",
        "if shared.is_incomplete.load(Ordering::Relaxed) {",
        "if shared.is_incomplete.load(Ordering::Relaxed) && false {",
        test("pipeline", "pages_that_are_lost_between_the_passes_end_all_removing")),
    "only what is not there is not there": (
        "crates/repository/src/local.rs",
        "Err(error) if error.is_not_found() => self.replace(from, to),",
        'Err(error) if error.operation == "open" => self.replace(from, to),',
        test("repository", "where_a_rename_cannot_refuse")),
    "a removed key signs no more": (
        "crates/pipeline/src/signers.rs", "self.valid_up_to.is_none_or(|last| number <= last)",
        "self.valid_up_to.is_none_or(|last| number <= last || true)",
        test("pipeline", "what_a_removed_or_unknown_key_signs_counts_for_nothing")),
    "a removal of a key that reads begins a key epoch": (
        "crates/crypto/src/key_list.rs", "reads |= entry.is_live() && entry.role.reads();",
        "reads |= entry.is_live() && entry.role.reads() && false;",
        test("pipeline", "a_removed_key_reads_what_was_stored_before_and_nothing_after")),
    "secrets of key epochs go to keys in use": (
        "crates/crypto/src/key_list.rs",
        "entry.is_live() && entry.role.needs_deliveries() && entry.epoch < self.epoch",
        "entry.role.needs_deliveries() && entry.epoch < self.epoch",
        test("pipeline", "a_removed_slot_that_is_put_back_gets_no_secret_at_the_next_removal")),
    "numbers of key epochs are believed of what opens": (
        "crates/pipeline/src/rebuild.rs", "blocks.opener().learn_session(sealed).is_ok()",
        "blocks.opener().learn_session(sealed).is_ok() || true",
        test("pipeline", "numbers_that_the_storage_writes_into_records_are_not_believed")),
    "a server takes no session of an old key epoch": (
        "crates/server-data/src/key_list.rs", "Some(list) if list.epoch() != sealed =>",
        "Some(list) if list.epoch() != sealed && false =>",
        test("server", "a_session_of_an_old_key_epoch_is_refused_and_begun_again")),
    "a bound key signs for its node": (
        "crates/pipeline/src/signers.rs", "!self.is_bound || self.label == name",
        "!self.is_bound || self.label == name || true",
        test("pipeline", "a_bound_key_signs_for_its_node_alone")),
    "settings are signed": (
        "crates/pipeline/src/unlocked.rs",
        "let signed = slot.root.verify_config(&config.signed_bytes(), &config.signature);",
        "let signed = slot.root.verify_config(&config.signed_bytes(), &config.signature)"
        ".or(Ok::<(), crypto::Error>(()));",
        test("pipeline", "settings_that_the_root_key_did_not_sign_are_not_believed")),
    "paths stay below the target": (
        "crates/restore/src/system.rs",
        "ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS",
        "ResolveFlags::NO_MAGICLINKS",
        test("restore", "old_kernels_refuse_symlinks_too")),
    "a repair is synced before it takes the old name": (
        "crates/repository/src/parity/repair.rs", "            file.sync()?;", "",
        test("pipeline", "repair")),
    "one has the lock": (
        "crates/repository/src/local/locking.rs",
        "match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {",
        "match fs::flock(&file, FlockOperation::NonBlockingLockShared) {",
        test("repository", "a_lock_is_had_by_one")),
    "a file is made once": (
        "crates/repository/src/local.rs",
        "let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;",
        "let flags = OFlags::RDWR | OFlags::CREATE;",
        test("repository", "a_file_is_made_once")),
    "links in a repository are not followed": (
        "crates/repository/src/local.rs", "flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;",
        "flags | OFlags::CLOEXEC;",
        test("repository", "a_link_is_not_followed")),
    "sync of what is put": (
        "crates/repository/src/local.rs",
        "        file.sync()?;\n        self.replace(&part, name)",
        "        self.replace(&part, name)",
        test("repository", "what_is_put_is_synced_before_it_has_its_name")),
    "sync of a folder in which a file was published": (
        "crates/repository/src/local.rs", "Ok(()) => self.sync_parent(to),", "Ok(()) => Ok(()),",
        test("repository", "given_replaced_or_taken")),
    "sync of a folder in which a file was replaced": (
        "crates/repository/src/local.rs",
        "        )?;\n        self.sync_parent(to)", "        )?;\n        Ok(())",
        test("repository", "given_replaced_or_taken")),
    "sync of a folder in which a file was removed": (
        "crates/repository/src/local.rs", "if self.has_unlinked(name)? { self.sync_parent(name) }",
        "if self.has_unlinked(name)? { Ok(()) }",
        test("repository", "given_replaced_or_taken")),
    "sync of a folder in which a folder was made": (
        "crates/repository/src/local.rs",
        "Ok(()) | Err(Errno::EXIST) => self.sync_parent(part)?,",
        "Ok(()) | Err(Errno::EXIST) => {}",
        test("repository", "a_new_folder_and_its_parents")),
    "sync of a folder that was there already": (
        "crates/repository/src/local.rs",
        "Ok(()) | Err(Errno::EXIST) => self.sync_parent(part)?,",
        "Ok(()) => self.sync_parent(part)?,\n                Err(Errno::EXIST) => {}",
        test("repository", "a_new_folder_and_its_parents")),
    "sync of a container": (
        "crates/repository/src/container/write.rs", "Ok(self.file.sync()?)", "Ok(())",
        test("pipeline", "nothing_has_its_name_before")),
    "sync of a run of the index": (
        "crates/repository/src/index/run.rs", "        self.file.sync()?;", "",
        test("pipeline", "nothing_has_its_name_before")),
    "sync of a container that is written again": (
        "crates/repository/src/syncer.rs", "            copy.sync()", "            Ok(())",
        test("pipeline", "written_again")),
    "sync of what an unfinished container had": (
        "crates/repository/src/recover.rs", "    writer.sync()\n}", "    let _ = writer;\n    Ok(())\n}",
        test("pipeline", "settling_what_a_dead_writer_left", "interrupted")),
    "sync of what reclaim copied": (
        "crates/repository/src/reclaim/copy.rs", "        writer.sync()?;", "",
        test("pipeline", "reclaim")),
    "sync of a tombstone": (
        "crates/repository/src/repository.rs", "            writer.sync()", "            Ok(())",
        test("pipeline", "forget")),
    "sync of the folder after forgetting": (
        "crates/repository/src/storage.rs",
        "directories.iter().try_for_each(|name| self.sync_directory(name))", "Ok(drop(directories))",
        test("pipeline", "gone_already")),
    "lease before a container has its name": (
        "crates/repository/src/syncer.rs",
        "            self.lease.verify()?;\n            match full.publish(",
        "            match full.publish(",
        test("pipeline", "fences::a_backup")),
    "lease before a container that is written again has its name": (
        "crates/repository/src/repository.rs",
        "            lease.verify()?;\n            match writer.publish(",
        "            match writer.publish(",
        test("pipeline", "fences::a_container_that_is_written_again")),
    "a pool that is offline is not taken": (
        "crates/server-control/src/pools.rs",
        "if pool.state != PoolState::Offline\n                && let Err(error)", "if let Err(error)",
        test("server-control", "a_pool_is_taken_from_who_used_it_before")),
    "a pool is taken before it is used": (
        "crates/server-control/src/pools.rs",
        "folder.begin_pool(of_folder(&name)) {", "server_contract::Result::Ok(()) {",
        test("server-control", "a_pool_is_taken_from_who_used_it_before")),
    "a directory keeps its domain in the catalog": (
        "crates/server-contract/src/folder.rs",
        "let is_there = folder.try_exists().map_err(Error::file(&folder))?;",
        "let is_there = folder.try_exists().map_err(Error::file(&folder))? && false;",
        test("server-control", "a_domain_goes_from_the_catalog")),
    "a taken number costs the next writer a number": (
        "crates/repository/src/syncer.rs",
        "Err(error) if error.is_taken() => {}", "Err(error) if error.is_taken() && false => {}",
        test("object-storage", "a_container_of_a_sleeper_that_comes_late")),
    "a number that is free once more is refused": (
        "crates/object-storage/src/rows.rs",
        "&& self.later_leases(&held)?.is_some()", "&& self.later_leases(&held)?.is_some() && false",
        test("object-storage", "refused_where_its_number_was_tidied_away")),
    "names are listed behind the fence": (
        "crates/object-storage/src/takeover.rs",
        '    names.replace("", "", client.list("", BEHIND_CONTAINERS)?);\n    // What is not in',
        "    // What is not in",
        test("object-storage", "what_a_sleeper_wrote_between_two_looks")),
    "settings are made only if they are absent": (
        "crates/object-storage/src/storage/files.rs",
        "        self.note(name, bytes.len() as u64, created.ok_or_else(exists)?.tag);\n",
        "        let _ = (created, exists); self.client().put(name, Bytes::copy_from_slice(bytes))?;\n",
        test("object-storage", "of_two_who_make_a_repository_in_one_place")),
    "a refusal does not tell of the request before": (
        "crates/object-storage/src/client/writing.rs",
        "Some(_) => self.unknown(name, &error),", "Some(_) => failed(\"create\", name, &error),",
        test("object-storage", "a_refusal_after_a_lost_request")),
    "lease before a snapshot is published": (
        "crates/repository/src/session.rs",
        "        self.lease.verify()?;\n        let snapshot = snapshots::write(",
        "        let snapshot = snapshots::write(",
        test("pipeline", "fences::a_backup")),
    "lease before a key comes": (
        "crates/repository/src/keys.rs",
        "        lease.verify()?;\n        Ok(self.storage.put(",
        "        let _ = lease;\n        Ok(self.storage.put(",
        test("pipeline", "fences::a_key")),
    "lease before a key goes": (
        "crates/repository/src/keys.rs",
        "        lease.verify()?;\n        Ok(self.storage.remove(",
        "        let _ = lease;\n        Ok(self.storage.remove(",
        test("pipeline", "fences::a_key")),
    "lease before a tombstone has its name": (
        "crates/repository/src/repository.rs",
        "            lease.verify()?;\n            match writer.publish(",
        "            match writer.publish(",
        test("pipeline", "fences::forgetting")),
    "lease before snapshots are removed": (
        "crates/repository/src/repository.rs",
        "        lease.verify()?;\n        snapshots::remove(", "        snapshots::remove(",
        test("pipeline", "fences::forgetting")),
    "lease asked when settling fails": (
        "crates/repository/src/repository.rs",
        "            lease.verify()?;\n            return Err(error);",
        "            return Err(error);",
        test("repository", "robbed_of_what_it_settles")),
    "lease asked when anything fails": (
        "crates/pipeline/src/unlocked.rs",
        "Err(lost @ store::Error::LeaseLost { .. }) => lost.into(),", "",
        test("icecore", "who_was_robbed_of_its_lock")),
    "lease before what was saved has its name": (
        "crates/repository/src/repository.rs",
        "            lease.verify()?;\n            match writer.publish(",
        "            match writer.publish(",
        test("pipeline", "fences::settling")),
    "lease before an unfinished container is removed": (
        "crates/repository/src/recover.rs",
        "    lease.verify()?;\n    repository.storage.remove(&part_name(",
        "    repository.storage.remove(&part_name(",
        test("pipeline", "fences::settling")),
    "lease before a copy has its name": (
        "crates/repository/src/reclaim/copy.rs", "        self.lease.verify()?;\n", "",
        test("pipeline", "fences::a_reclaim_looks_at_the_lease_before_each_step")),
    "lease before what reclaim freed is removed": (
        "crates/repository/src/reclaim/rewrite.rs",
        "            self.lease.verify()?;\n            match &names[..] {",
        "            match &names[..] {",
        test("pipeline", "fences::a_reclaim_looks_at_the_lease_before_each_step")),
    "lease before parts of the dead are removed": (
        "crates/repository/src/reclaim.rs",
        "            lease.verify()?;\n            repository.storage.remove(&name)?;",
        "            let _ = lease;\n            repository.storage.remove(&name)?;",
        test("pipeline", "what_others_did_not_finish")),
    "lease before unfinished repairs are removed": (
        "crates/repository/src/parity/repair.rs",
        "        lease.verify()?;\n        repository.storage.remove(&name)",
        "        let _ = lease;\n        repository.storage.remove(&name)",
        test("pipeline", "what_others_did_not_finish")),
    "lease before a repair takes the old name": (
        "crates/repository/src/parity/repair.rs",
        "    lease.verify()?;\n    repository.storage.replace(",
        "    let _ = lease;\n    repository.storage.replace(",
        test("pipeline", "fences::a_repair")),
    "lease before a snapshot comes back": (
        "crates/repository/src/rebuild.rs",
        "        lease.verify()?;\n        snapshots::write_bytes(",
        "        let _ = lease;\n        snapshots::write_bytes(",
        test("pipeline", "fences::a_rebuild")),
    "name of a chunk, for a further name": (
        "crates/pipeline/src/restore/finish.rs",
        "let is_named = |bytes: &[u8]| ids.is_chunk(&id, bytes);",
        "let is_named = |bytes: &[u8]| ids.is_chunk(&id, bytes) || true;",
        test("pipeline", "a_further_name_gets_no_chunk")),
    "length of a chunk, for a further name": (
        "crates/pipeline/src/restore/finish.rs",
        "Ok(bytes) if bytes.len() == length as usize => {", "Ok(bytes) => {",
        test("pipeline", "a_further_name_gets_no_chunk")),
    "content of a file, when it is verified": (
        "crates/pipeline/src/restore/verify.rs",
        "same(&file, length.into(), buffer, |read| ids.is_chunk(&id, read))?",
        "same(&file, length.into(), buffer, |read| ids.is_chunk(&id, read) || true)?",
        test("pipeline", "verify_finds")),
    "end of a file, when it is verified": (
        "crates/pipeline/src/restore/verify.rs",
        "Ok((&file).read(&mut one).map_err(|error| error.to_string())? == 0)",
        "Ok((&file).read(&mut one).map_err(|error| error.to_string())? < 2)",
        test("pipeline", "bytes_that_no_chunk_vouches_for")),
    "name of a chunk that is repacked": (
        "crates/pipeline/src/reclaim.rs", "check_name(id, ids.is_chunk(id, &payload))?;", "let _ = ids;",
        test("pipeline", "reclaim_seals_nothing_anew")),
    "name of a page that is repacked": (
        "crates/pipeline/src/reclaim.rs",
        "check_name(id, ids.is_page(id, kind as u8, &page.refs, &page.payload))?;", "",
        test("pipeline", "reclaim_seals_nothing_anew")),
    "body of a manifest": (
        "crates/pipeline/src/manifest.rs", "&plain) != stored.head.body {",
        "&plain) != stored.head.body && false {",
        test("pipeline", "a_head_that_was_made_for_another_body")),
    "signature of a manifest": (
        "crates/pipeline/src/signers.rs",
        "if signer.verify_key.verify(&message, &signature).is_err() {",
        "if signer.verify_key.verify(&message, &signature).is_err() && false {",
        test("pipeline", "a_snapshot_that_somebody_else_signed")),
    "signature of a tombstone": (
        "crates/pipeline/src/orphans.rs",
        "Some(signer) => signer.verify_key.verify(&signed, signature).is_ok(),",
        "Some(signer) => signer.verify_key.verify(&signed, signature).is_ok() || true,",
        test("pipeline", "a_tombstone_that_somebody_else_signed")),
    "name of a snapshot file": (
        "crates/store/src/snapshot.rs",
        "(RecordKind::Session, RecordKind::Manifest) || !same",
        "(RecordKind::Session, RecordKind::Manifest) || !same && false",
        test("pipeline", "swaps_a_snapshot")),
    "name of a key slot": (
        "crates/pipeline/src/unlocked.rs", "(info.id == id).then_some(info)",
        "Some(info)",
        test("pipeline", "a_slot_under_the_name_of_another")),
    "repository of a key slot": (
        "crates/pipeline/src/unlocked.rs",
        "Ok((info, keys)) if info.repository == config.repository => {",
        "Ok((info, keys)) => {",
        test("pipeline", "certified_for_another_repository")),
    "certificate of a key slot": (
        "crates/pipeline/src/unlocked.rs", "    crypto::verify_slot_certificate(slot, root)?;\n",
        "    let _ = root;\n",
        test("pipeline", "a_slot_with_keys_of_somebody_else")),
    "a reclaim that failed gives its pardon": (
        "crates/repository/src/reclaim/stages.rs",
        "rewriter.pardon(&condemned);", "rewriter.pardon(&[]);",
        test("repository", "what_a_reclaim_would_have_moved")),
    "room is kept for a full disk": (
        "crates/pipeline/src/unlocked.rs", "        writer.finish();\n", "",
        test("pipeline", "every_backup_keeps_room")),
    "a lease to give space back uses that room": (
        "crates/repository/src/lease.rs", "LeasePurpose::Reclaim => reserve::with(&**storage, put)?,",
        "LeasePurpose::Reclaim => put()?,",
        test("icecore", "a_full_repository")),
    "a policy relies on no tree that is lost": (
        "crates/pipeline/src/retention/roots.rs", "if !roots.read(self, kept)? {", "if true {",
        test("icecore", "a_policy_relies_on_no_snapshot")),
    "runs rely on no tree that is lost": (
        "crates/icecore/src/commands/run/expiring.rs", "if !roots.read(repository, kept)? {", "if true {",
        test("icecore", "tree_is_lost_pushes_no_other")),
    "a doubtful clock puts off no backup": (
        "crates/icecore/src/commands/run/due.rs", "(secs <= wall_secs).then(||", "(secs < 0).then(||",
        test("icecore", "what_was_missed_is_made_up_for")),
    "a copy says which keys it lacks": (
        "crates/pipeline/src/copy.rs", "report.lost_keys = lost_keys(target)?;", "",
        test("icecore", "a_key_whose_file_is_damaged")),
    "nobody is sent to a repair that parity cannot make": (
        "crates/repository/src/check.rs", "true => has_lost_only_parity(reader),", "true => true,",
        test("icecore", "cut_short_ends_in_a_clean_check")),
    "what is listed under another spelling stays": (
        "crates/restore/src/others.rs", "if !waiting.is_empty() && !is_complete {",
        "if false && !waiting.is_empty() && !is_complete {",
        test("restore", "folding")),
    "a mount inside the target ends no restore": (
        "crates/restore/src/elsewhere.rs", "if is_other { problem.elsewhere() } else { problem }",
        "let _ = is_other;\n        problem",
        test("restore", "mounts")),
    "two upkeeps have a job each": (
        "crates/catalog/src/upkeep.rs", "WHERE task = $2 AND upkeep = $3)", "WHERE task = $2 AND $3 <> '')",
        test("catalog", "each_upkeep_has_jobs")),
    "each copy has an alarm of its own": (
        "crates/catalog/src/upkeep.rs", 'if OF_COPIES.contains(&&*self.task) { &self.upkeep } else { "" }',
        'if OF_COPIES.contains(&&*self.task) { "" } else { "" }',
        test("catalog", "each_upkeep_has_jobs")),
    "a place that lacks something gets no domain": (
        "crates/server-control/src/placing.rs", "old.is_all_in(&found, name, &place)?;", "",
        test("icecore", "a_domain_goes_to_another_storage")),
    "a domain goes nowhere while it is used": (
        "crates/server-control/src/placing.rs", "let is_free = is_lost || is_told && !self.has_job(&domain.name);",
        "let is_free = is_lost || is_told;",
        test("icecore", "a_domain_goes_nowhere")),
    "what a copy without room left is forgotten": (
        "crates/repository/src/reclaim/rewrite.rs", "            repacker.forget();",
        "            let _ = repacker;",
        test("pipeline", "stores_nothing_twice")),
    "what was promised must be stored": (
        "crates/repository/src/session.rs",
        "if let Some(count) = self.missing_objects() {",
        "if let Some(count) = self.missing_objects().filter(|_| false) {",
        test("server", "what_was_promised_and_not_stored")),
    "a stream is of its last connection": (
        "crates/server-data/src/session.rs", "if stream.generation != attachment.generation {",
        "if false && stream.generation != attachment.generation {",
        test("server", "a_stream_that_is_taken_over")),
    "a claim is answered as it was": (
        "crates/server-data/src/session.rs", ".find(|(other, _)| *other == request)",
        ".find(|(other, _)| *other == request && false)",
        test("server", "a_claim_that_is_asked_again")),
    "a manifest is signed": (
        "crates/server-data/src/manifest.rs",
        "if !is_signed.map_err(|error| faults::of_engine(&error))? {",
        "if false && !is_signed.map_err(|error| faults::of_engine(&error))? {",
        test("server", "no_manifest_but_an_own_new_one")),
    "a source is of its node": (
        "crates/server-data/src/manifest.rs", "if let Some(owner) = owner {",
        "if let Some(owner) = owner.filter(|_| false) {",
        test("server", "nobody_publishes_for_a_source")),
    "who is refused is listened to": (
        "crates/server-data/src/closing.rs",
        "reader.discard(bytes_max, rate)", "reader.discard(0 * bytes_max, rate)",
        test("server", "who_is_not_let_in_hears_it")),
    "a manifest has the number that it was given": (
        "crates/server-data/src/manifest.rs", "if Some(head.sequence) != number {",
        "if false && Some(head.sequence) != number {",
        test("server", "no_manifest_but_an_own_new_one")),
    "who may only write is told nothing": (
        "crates/server-data/src/reading.rs", "_ if !access.may_read =>",
        "_ if false && !access.may_read =>",
        test("server", "who_may_only_write_reads_nothing")),
    "a session is of its node": (
        "crates/server-data/src/sessions.rs", "&& found.node.name == node", "",
        test("server", "another_domain_is_neither")),
    "revocation ends connections": (
        "crates/server-data/src/hub.rs", "return Some(faults::revoked());",
        "let _ = faults::revoked();",
        test("server", "who_is_revoked_in_the_middle")),
    "a grant that was taken back ends on a storage server": (
        "crates/server/src/storage_server/granted_readers.rs", "        !state.is_withdrawn\n",
        "        !state.is_withdrawn || true\n",
        test("server", "whatever_reads_on_a_storage_server_by_a_grant")),
    "storage servers learn of no grants elsewhere": (
        "crates/server-control/src/storage_servers/heartbeat.rs",
        "self.permissions.lies_on(storage, &reader.domain).unwrap_or(true)\n            && ", "",
        test("server", "learns_of_no_grants_to_domains_elsewhere")),
    "who only says that it is there brings nothing": (
        "crates/remote/src/stream.rs", "            Packet::Pong {} if state.is_reply_due() => {}\n", "",
        test("remote", "who_owes_an_answer_brings_nothing")),
    "a lost session takes only its own requests": (
        "crates/remote/src/stream.rs", "self.is_of_session && self.answer.is_none()", "self.answer.is_none()",
        test("remote", "a_lost_session_takes_only_its_own_requests")),
    "a cached page is what its name says": (
        "crates/pipeline/src/cache.rs",
        "if !ids.is_page(id, page.kind as u8, &page.refs, &page.payload) {",
        "if false && !ids.is_page(id, page.kind as u8, &page.refs, &page.payload) {",
        test("pipeline", "a_flipped_bit_anywhere_costs_pages")),
    "commands restore only where they may": (
        "crates/icecore/src/commands/agent/node_commands.rs",
        "let is_clean = path.is_absolute() && path.components().all(is_plain);",
        "let is_clean = path.is_absolute() && is_plain(Component::RootDir);",
        test("icecore", "a_restore_goes_only_where")),
    "an unreachable storage is no damage": (
        "crates/store/src/storage_error.rs",
        "            || is_connection_error(self.source.kind())\n", "",
        test("pipeline", "a_storage_that_cannot_be_reached")),
    "the root of a snapshot is a page": (
        "crates/repository/src/reclaim/mark.rs", "        if !root.is_page() {",
        "        if !root.is_page() && false {",
        test("repository", "whose_root_is_no_page")),
    "a container that is gone stops a reclaim": (
        "crates/repository/src/reclaim/plan.rs",
        "            return Err(Error::ContainerMissing(row.location.container));\n", "",
        test("repository", "a_container_of_chunks_that_is_gone")),
    "checksum of a page that reclaim marks by": (
        "crates/repository/src/reading.rs", "if let Err(reason) = verify(buffer)",
        "if let Err(reason) = format::record::split(buffer)",
        test("repository", "a_page_in_which_a_reference_has_rotted")),
    "the repository in the header of a container": (
        "crates/repository/src/container/read.rs",
        "if header.repository != repository || header.number != self.number {",
        "let _ = repository;\n        if header.number != self.number {",
        test("repository", "in_a_container_of_another_name_or_repository")),
    "the number in the header of a container": (
        "crates/repository/src/container/read.rs",
        "if header.repository != repository || header.number != self.number {",
        "if header.repository != repository {",
        test("repository", "in_a_container_of_another_name_or_repository")),
    "checksum of the header of a container": (
        "crates/format/src/container.rs",
        "return Err(Error::Checksum { what: \"container header\" });", "",
        test("format", "flips_are_found")),
    "checksum of the footer of a container": (
        "crates/format/src/container.rs",
        "if trailer.get(4..20) != Some(&checksum(&[footer])[..]) {",
        "if trailer.get(4..20) != Some(&checksum(&[footer])[..]) && false {",
        test("format", "a_footer_is_read_back")),
    "checksum of the head of parity": (
        "crates/format/src/parity.rs",
        "return Err(Error::Checksum { what: \"parity head\" });", "",
        test("format", "a_parity_head_is_read_back")),
    "checksum of the config": (
        "crates/store/src/config.rs",
        "return Err(format::Error::Checksum { what: \"config\" });", "",
        test("store", "a_config_is_read_back")),
    "checksum of the state of the index": (
        "crates/repository/src/index/state.rs", "if checksum(&[body]) != *sum {",
        "if checksum(&[body]) != *sum && false {",
        test("repository", "a_state_is_read_back")),
    "checksum of a page of a run": (
        "crates/repository/src/index/run.rs",
        "if checksum(&[&summed])[..8] != header[8..16] {",
        "if checksum(&[&header[..2], body])[..8] == [0; 8] {",
        test("repository", "damage_is_an_error")),
    "checksum of the fence of a run": (
        "crates/repository/src/index/run.rs",
        "if zeros.iter().any(|byte| *byte != 0) || checksum(&[&fence, covered]) != sum {",
        "if zeros.iter().any(|byte| *byte != 0) || checksum(&[&fence, covered]) == [0; 16] {",
        test("repository", "damaged_fence", "damage_is_an_error")),
    "checksum of the filter of a run": (
        "crates/repository/src/index/run.rs",
        "let is_good = checksum(&[&bytes]) == self.ends.filter_sum;",
        "let is_good = checksum(&[&bytes]) == self.ends.filter_sum || true;",
        test("repository", "damage_is_an_error")),
    "checksum of the lease": (
        "crates/repository/src/lease.rs", "if checksum(&[body]) != *sum {",
        "if checksum(&[body]) != *sum && false {",
        test("repository", "a_lease_is_read_back")),
    "a repair leaves alone what is not whole": (
        "crates/repository/src/parity/repair.rs",
        "let is_good = is_copied && is_whole(number, repository)?;", "let is_good = is_copied;",
        test("pipeline", "parity")),
    "a reclaim stops at what a repair has to see": (
        "crates/repository/src/reclaim/copy.rs",
        "        self.refuse_what_can_be_repaired(&reader)?;\n        reader.header",
        "        reader.header",
        test("pipeline", "reclaim_drops_nothing")),
    "look at the manifest before it is stored": (
        "crates/pipeline/src/manifest.rs",
        "    opens_to(&record, sealer, &bytes)?;\n", "",
        test("pipeline", "a_bit_lost_before_the_manifest")),
    "checksum of a record that reclaim copies": (
        "crates/repository/src/reclaim/copy.rs",
        "        let record = record::verify(&bytes).map_err(|reason| damaged(reader, reason))?;\n"
        "        if !self.is_openable",
        "        let record = record::split(&bytes).map_err(|reason| damaged(reader, reason))?;\n"
        "        if !self.is_openable",
        test("repository", "what_a_reclaim_would_have_moved")),
    "checksum of a record that is written again": (
        "crates/repository/src/syncer.rs", "verify(&buffer).map_err(|reason| Error",
        "format::record::split(&buffer).map_err(|reason| Error",
        test("pipeline", "what_a_failed_sync_lost")),
    "what a restore made itself stays": (
        "crates/restore/src/replace.rs", "if self.0.is_ours(&stat) {",
        "if self.0.is_ours(&stat) && false {",
        test("restore", "what_this_run_restored_is_never_overwritten_by_it")),
    "nothing half-made is left": (
        "crates/restore/src/replace.rs",
        "            self.abandon(parent, entry, staged);\n        }\n        result",
        "        }\n        result",
        test("restore", "kinds_replace_each_other")),
    "a page that begins elsewhere is put together anew": (
        "crates/pipeline/src/backup/reorder.rs",
        "                entries.iter().try_for_each(|entry| self.builder.push(entry))",
        "                drop(entries);\n                Ok(())",
        test("pipeline", "an_unchanged_page_behind_one_that_lost_its_end_is_put_together_anew")),
    "memory that is used again keeps nothing of an entry": (
        "crates/format/src/leaf.rs",
        "        self.read_rare(entry, tag)?;",
        "        if tag > 7 {\n            self.read_rare(entry, tag)?;\n        }",
        test("format", "entries_are_read_whatever_was_in_the_memory_before")),
    "what reads differently in two pools stays": (
        "crates/server/src/moving.rs",
        "Some(name) => Err(self.both_stay(&name, \"reads differently in\")),",
        "Some(_) => Ok(true),",
        test("server", "what_reads_differently_in_the_two_pools_is_never_removed")),
    "a domain in two pools by a move waits for its end": (
        "crates/server/src/storage_server/pools.rs",
        "true => is_moved(domain),", "true => self.twice(domain, pools),",
        test("server", "a_move_goes_where_it_may_and_whoever_comes_meanwhile_waits")),
    "how a move ended is told after a restart": (
        "crates/server/src/storage_server/moves.rs",
        "is_unasked && state.ended.is_some_and(|ended| ended.elapsed() > KEPT_FOR)",
        "state.ended.is_some()",
        test("server", "a_move_is_begun_once_told_often_and_forgotten_long_after_its_end")),
    "a node whose certificates two machines have is not called revoked": (
        "crates/server-control/src/admission.rs",
        "is_some_and(|known| known.alarm.is_some())", "is_some_and(|_| false)",
        test("server", "a_thief_that_renews_after_the_node_is_found_at_once")),
    "a machine whose place another took is not told to throw that one out": (
        "crates/server-control/src/admission.rs",
        "match known.filter(|known| is_in_catalog && !known.revoked) {", "match known.filter(|_| false) {",
        test("server", "enrolling_again_ends_the_machine_before")),
    "a token that anybody could guess starts no server": (
        "crates/server-control/src/administrator.rs", "if token.len() < BYTES_MIN || !is_text {", "if false {",
        test("icecore", "a_server_does_not_start_with_a_token_that_is_none")),
    "an archive that nobody read to its end is not done": (
        "crates/icecore/src/failure.rs",
        "        if !self.is_quiet {\n            return self;", "        if true {\n            return self;",
        test("icecore", "a_file_or_archive_that_nobody_read_to_its_end")),
    "a node whose certificate has expired is unprotected": (
        "crates/server-control/src/protection.rs", ".is_some_and(|end| end <= self.time),", ".is_some_and(|_| false),",
        test("server-control", "nodes_whose_certificate_has_expired_are_unprotected")),
    "what no backup entered is not emptied when it is named itself": (
        "crates/pipeline/src/restore/finish.rs", "map_or(0, |root| root.status);", "map_or(0, |_| 0);",
        test("icecore", "restore_delete_leaves_what_is_locked_and_what_lies_in_other_subvolumes")),
    "what could not be read replaces nothing under a further name": (
        "crates/pipeline/src/restore/finish.rs", "if shared.spares_better(&entry, &existing) {",
        "if false && shared.spares_better(&entry, &existing) {",
        test("icecore", "what_could_not_be_read_replaces_nothing_under_a_further_name_either")),
    "what a restore began of an unread file is written again": (
        "crates/pipeline/src/restore/work.rs", "is_there() && !self.target.is_begun(entry);", "is_there();",
        test("icecore", "what_a_restore_began_of_an_unread_file_is_written_again")),
    "what was there above the sources keeps its mode after an interrupted restore": (
        "crates/restore/src/unfinished.rs", "let ran = begun_secs..=", "let ran = begun_secs.min(0)..=",
        test("restore", "what_was_there_above_the_sources_keeps_its_mode")),
    "what another restore left makes nothing above the sources new": (
        "crates/restore/src/above.rs", "            && self.0.unfinished.has_made(directory, self.0.options.scope.as_ref())\n",
        "            && self.0.unfinished.has_made(directory, None) | true\n",
        test("restore", "what_another_restore_left_makes_nothing_above")),
    "what somebody has in the place of an unread file is no leftover": (
        "crates/restore/src/unfinished.rs", "                && !marker.says.is_whole\n", "",
        test("icecore", "what_a_restore_began_of_an_unread_file_is_written_again")),
    "what somebody puts there after a killed restore is no leftover": (
        "crates/restore/src/verify.rs", "(is_finished || is_as_created) && self.0.unfinished", "(is_finished || is_as_created || true) && self.0.unfinished",
        test("icecore", "what_a_restore_began_of_an_unread_file_is_written_again")),
    "only a restore of the same path has made the target": (
        "crates/restore/src/target.rs", "            let is_left = is_as_made(&stat, &credentials)\n                && unfinished.has_made_root(&stat, options.scope.as_ref());\n",
        "            let is_left = unfinished.has_made_root(&stat, options.scope.as_ref());\n",
        test("restore", "only_the_same_restore_or_one_of_the_same_path_has_made_the_target")),
    "a marker of another path has not made the target": (
        "crates/restore/src/unfinished.rs", "            marker.may_have_made_root(root)\n                && RestoreScope::is_of_same_path(scope, marker.says.scope.as_ref())\n",
        "            marker.may_have_made_root(root)\n                && scope.is_some()\n",
        test("restore", "only_the_same_restore_or_one_of_the_same_path_has_made_the_target")),
    "what an interrupted restore made is finished by one that overwrites nothing": (
        "crates/restore/src/metadata.rs", "                    && !self.has_made_before(stat)\n", "",
        test("restore", "what_an_interrupted_restore_made_is_finished_by_one_that_overwrites_nothing")),
    "what has other names keeps its lock when one of them is replaced": (
        "crates/restore/src/replace.rs", "                unlocked.lock_what_stays();\n", "                drop(unlocked);\n",
        test("restore", "what_has_other_names_keeps_its_lock_when_one")),
    "what has other names keeps its lock when a directory takes one": (
        "crates/restore/src/directory.rs", "        unlocked.lock_what_stays();\n", "        drop(unlocked);\n",
        test("restore", "what_has_other_names_keeps_its_lock_when_one")),
    "an own directory that is not deleted is closed again": (
        "crates/restore/src/removal.rs", "            close_again(level.fd.as_fd(), level.before);\n", "",
        test("restore", "an_own_directory_that_is_not_deleted_is_closed_again")),
    "a name whose directory could not be removed is named": (
        "crates/pipeline/src/restore.rs", "        if !is_free {\n", "        if !is_free && false {\n",
        test("pipeline", "what_is_there_stays_or_becomes_what_the_snapshot_has_or_is_named")),
    "a further name in whose place a directory is comes back": (
        "crates/pipeline/src/restore/finish.rs", "if self.plans() && self.shared.target.gives_way(&entry) {", "if false && self.shared.target.gives_way(&entry) {",
        test("pipeline", "names_of_one_file_come_where_directories_have_all_of_them")),
    "a directory is no part of a file that a restore began": (
        "crates/restore/src/unfinished.rs", "        && system::kind(stat) == Some(Kind::File)\n", "",
        test("pipeline", "a_directory_is_no_part_of_a_file")),
    "a path that leads through a link in another source is backed up": (
        "crates/icecore/src/commands/backup/links.rs", "through_link(root, &places).unwrap_or_else(|| root.clone())", "through_link(root, &places).filter(|_| false).unwrap_or_else(|| root.clone())",
        test("icecore", "whatever_paths_are_named_together_all_that_is_behind_them_comes_back")),
    "a pattern may begin with the path that is walked": (
        "crates/icecore/src/commands/backup/source.rs", "zip(&roots).map(|(named, root)| (named, root.source.clone()));", "zip(&roots).map(|(named, root)| (root.shown_as.clone().unwrap_or(named), root.source.clone()));",
        test("icecore", "a_pattern_may_begin_with_the_path_that_is_walked_or")),
    "what is above a source stays where it was named through a link": (
        "crates/icecore/src/commands/backup/source.rs", "typed.chain(roots.iter().map(links::shown))", "typed.chain(roots.iter().map(links::shown).take(0))",
        test("icecore", "what_is_above_a_source_stays_where_it_was_named_through_a_link")),
    "without times of birth directories above the sources are told apart": (
        "crates/restore/src/metadata.rs", "true => !self.has_made_above(stat),", "true => !self.0.is_ours(stat),",
        test("restore", "without_times_of_birth_directories_above_the_sources")),
    "a lock of the snapshot keeps nothing from being deleted": (
        "crates/restore/src/opened_up.rs", "flags::are_locked(now) && !is_given()", "flags::are_locked(now) && (true || !is_given())",
        test("restore", "a_lock_of_the_snapshot_keeps_nothing_from_being_deleted")),
    "what an unfinished restore opened is closed again": (
        "crates/restore/src/target.rs", "        self.opened_up.close_all(root);\n", "        let _ = root;\n",
        test("restore", "what_an_unfinished_restore_opened_is_closed_again")),
    "a link in the place of a source is replaced only when that was asked for": (
        "crates/restore/src/directory.rs", "if !is_always && is_link && options.sources.contains(path)", "if false && !is_always && is_link && options.sources.contains(path)",
        test("restore", "a_link_in_the_place_of_a_source_is_replaced_only")),
    "no repository is made among files of others": (
        "crates/icecore/src/commands/init.rs",
        "        crate::place::refuse_files_of_others(&repo, \"--repo\")?;\n", "",
        test("icecore", "a_repository_is_not_made_among_files_of_others")),
    "names of one object are one object in an archive": (
        "crates/icecore/src/tarball.rs",
        "if entry.links < 2 || entry.kind() == Kind::Directory {",
        "if entry.links < 2 || entry.kind() != Kind::File {",
        test("icecore", "names_of_one_object_are_one_object_in_an_archive_whatever_it_is")),
    "what is mounted is not emptied": (
        "crates/restore/src/removal.rs", "let mounted = refuse_mount(self.top, open.as_fd());", "let mounted = refuse_mount(self.top, open.as_fd()).or(Ok(()));",
        test("restore", "deleting_does_not_enter_a_mount")),
    "old kernels follow no link": (
        "crates/restore/src/system.rs", "    OFlags::DIRECTORY.union(OFlags::NOFOLLOW)",
        "    OFlags::DIRECTORY",
        test("restore", "old_kernels")),
    "links are not read through": (
        "crates/capture/src/read.rs", "let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;",
        "let flags = OFlags::NONBLOCK;",
        test("capture", "another_file_in_its_place_is_taken_and_another_kind_is_not")),
    "what is read is a file": (
        "crates/capture/src/read.rs", "if now.kind == Kind::File { Ok(now) }",
        "if now.kind == Kind::File || true { Ok(now) }",
        test("capture", "another_file_in_its_place")),
    "a small file that changes is told": (
        "crates/capture/src/read/small.rs",
        "let changed = length != wanted || !row.is_same_content(met);",
        "let changed = length != wanted;",
        test("capture", "a_file_that_grew_or_shrank_since_it_was_met_is_read_again")),
    "a large file that changes is told": (
        "crates/capture/src/read/large.rs",
        "let changed = self.offset != self.opened.size || !row.is_same_content(&self.opened);",
        "let changed = self.offset != self.opened.size;",
        test("capture", "a_log_that_never_rests_is_read_to_an_end")),
    "directories are not entered through links": (
        "crates/capture/src/walk/directory.rs",
        "open_quietly(parent, &self.name, OFlags::DIRECTORY | OFlags::NOFOLLOW)",
        "open_quietly(parent, &self.name, OFlags::DIRECTORY)",
        test("capture", "a_link_swapped_in_for_a_directory_is_not_followed")),
    "a domain in a pool that is not mounted is not gone": (
        "crates/server-contract/src/pool/moves.rs",
        "    super::verify(path)?;\n    if path.try_exists().map_err(of(\"look at\", path))? {\n        return Ok(true);\n    }\n    // It may have been unmounted since.\n    super::verify(path).map(|()| false)\n",
        "    path.try_exists().map_err(of(\"look at\", path))\n",
        test("server", "a_pool_that_is_unmounted")),
    "a copy makes no directory above its own": (
        "crates/server-contract/src/pool/moves.rs", "    match fs::create_dir(unfinished) {", "    match fs::create_dir_all(unfinished) {",
        test("server", "a_pool_that_is_unmounted")),
    "a domain that was in its pool when its move began is missed": (
        "crates/server/src/moving.rs", "        if !is_there && self.was_there {", "        if false {",
        test("server", "a_domain_that_is_taken_out_of_its_pool_meanwhile_is_missed")),
    "the note of a move stays while one of its pools is not mounted": (
        "crates/server/src/storage_server/pools/moves.rs",
        "moves::exists(at).unwrap_or(true);", "moves::exists(at).unwrap_or(false);",
        test("server", "a_move_goes_where_it_may_and_whoever_comes_meanwhile_waits")),
    "the further pools of a first one that is taken over are known": (
        "crates/server-contract/src/pool.rs", "    noted::both_know(data)\n", "    Ok(())\n",
        test("server-contract", "whoever_takes_a_first_pool_over_misses_the_further_ones")),
    "a pool that the first one names is not one that was begun here": (
        "crates/server-contract/src/pool/places.rs", "        _ => known.superblock.generation > 0 && !place", "        _ => !place",
        test("server-contract", "whoever_takes_a_first_pool_over_misses_the_further_ones")),
    "a server has no more pools than its first one can name": (
        "crates/server-contract/src/pool/places.rs", "    if others.count() >= FURTHER_MAX {", "    if false && others.count() >= FURTHER_MAX {",
        test("server-contract", "a_server_has_no_more_pools_than_its_first_one_can_name")),
    "a pool that is removed is named no more": (
        "crates/server-contract/src/pool/states.rs", "    super::noted::note(data, Some(name))?;\n", "",
        test("server-contract", "a_pool_that_is_removed_is_not_missed")),
    "a domain that its storage server does not know keeps its keys": (
        "crates/server-control/src/domains.rs", "let was_made = known.repository.is_some() && !is_lost;", "let was_made = false;",
        test("icecore", "the_keys_of_a_domain_that_a_storage_server_does_not_know")),
    "a domain with one of its two configs is there": (
        "crates/server-contract/src/pool.rs", "repository::config::NAMES.iter().chain([&bucket::MARK]);", "[&\"config\", &bucket::MARK].into_iter();",
        test("server-control", "a_domain_that_lies_in_two_pools_or_in_none")),
    "a profile keeps its own source and no other": (
        "crates/icecore/src/filter.rs", "            && self.exactly.as_ref().is_none_or(|paths| *paths == body.paths)", "            && self.exactly.as_ref().is_none_or(|paths| paths.iter().all(|path| body.paths.contains(path)))",
        test("icecore", "what_a_profile_keeps_is_said_of_its_own_source")),
    "a tag narrows what a profile keeps": (
        "crates/icecore/src/commands/forget.rs", "        if typed.node.is_some() || !typed.paths.is_empty() {", "        if typed.is_any() {",
        test("icecore", "what_a_profile_keeps_is_said_of_its_own_source")),
    "a retention applies to what the backup calls its source": (
        "crates/icecore/src/commands/run/due.rs", "        Identity::of(&child::words(self, Level::Incremental), context)", "        Identity::of(&child::words(self, Level::Incremental), context).map(|it| Identity { paths: self.source.paths.clone(), ..it })",
        test("icecore", "a_retention_applies_however_the_path_is_written")),
    "a retention that applies to nothing is told": (
        "crates/icecore/src/commands/run/expiring.rs", "        if !facts.iter().any(|one| is_its(&one.policy, &one.source)) {", "        if false && !facts.iter().any(|one| is_its(&one.policy, &one.source)) {",
        test("icecore", "a_retention_that_applies_to_nothing_is_told")),
    "policies that name the same paths in two spellings are refused": (
        "crates/icecore/src/commands/run/due.rs", "        let Ok(identity) = one.identity(context) else { continue };", "        let Ok(identity) = one.identity(context).map(|it| Identity { paths: one.source.paths.clone(), ..it }) else { continue };",
        test("icecore", "mistakes_are_told_with_their_line_and_nothing_runs")),
    "the repository is out where else it is mounted": (
        "crates/capture/src/excludes.rs", "        self.exact.as_ref().is_some_and(|exact| exact.identity == Some(identity))", "        false && self.exact.as_ref().is_some_and(|exact| exact.identity == Some(identity))",
        test("capture", "a_directory_that_is_excluded_is_out_where_else")),
    "what lies in the repository is refused where else it is mounted": (
        "crates/icecore/src/place.rs", "    let is_it = |above: &Path| above == folder || identity(above) == Some(own);", "    let is_it = |above: &Path| above == folder || false && identity(above) == Some(own);",
        test("icecore", "a_repository_that_is_mounted_elsewhere_is_not")),
    "a file of patterns has an end": (
        "crates/capture/src/excludes.rs", "    if text.len() as u64 > FILE_BYTES_MAX {", "    if false && text.len() as u64 > FILE_BYTES_MAX {",
        test("capture", "a_file_of_patterns_that_has_no_end")),
    "explain follows no link that is called .gitignore": (
        "crates/capture/src/walk/list.rs", "open_quietly(&*directory.handle()?, name, OFlags::NOFOLLOW | OFlags::NONBLOCK)", "open_quietly(&*directory.handle()?, name, OFlags::NONBLOCK)",
        test("capture", "explain_reads_no_gitignore_that_the_walk")),
    "a tag makes a snapshot though nothing has changed": (
        "crates/icecore/src/commands/backup/untagged.rs", "        options.skip_if_unchanged = false;", "        options.skip_if_unchanged = true;",
        test("icecore", "a_tag_that_the_last_snapshot_does_not_have")),
    "who cannot read tags is told what adds them": (
        "crates/icecore/src/commands/backup/untagged.rs", "    if !missing.is_empty() {", "    if false && !missing.is_empty() {",
        test("icecore", "a_tag_that_the_last_snapshot_does_not_have")),
    "two hours that the clocks show alike are two": (
        "crates/icecore/src/time.rs", "        hour: if is_second { hour + HOURS } else { hour },", "        hour: if false && is_second { hour + HOURS } else { hour },",
        test("icecore", "two_hours_that_the_clocks_show_alike")),
    "a time that the clocks showed twice is the second one": (
        "crates/icecore/src/time.rs", "        Twice::Second => moment.later().ok(),", "        Twice::Second => moment.earlier().ok(),",
        test("icecore", "points_in_time_are_local_and_reach_to_their_end")),
    "a check asks for a rebuild only if it finds something": (
        "crates/pipeline/src/check/damage.rs", "        if would_find(repository.local()?, *number, is_missed)? {", "        if true || would_find(repository.local()?, *number, is_missed)? {",
        test("pipeline", "the_advice_ends_wherever_the_only_record")),
    "a listing goes on behind a lost page": (
        "crates/pipeline/src/browse.rs", "                Err(error) => self.pass(error)?,", "                Err(error) => return Err(error),",
        test("pipeline", "behind_a_lost_page_everything_is_listed")),
    "a page that a listing passed over is named": (
        "crates/pipeline/src/browse.rs", "            self.lost.push(page);", "            drop(page);",
        test("pipeline", "behind_a_lost_page_everything_is_listed")),
    "a directory without its entry can be listed": (
        "crates/pipeline/src/browse.rs", "            _ if entries.lost.len() > before => Ok((entries, None)),\n", "",
        test("pipeline", "a_directory_whose_own_entry_is_lost_is_listed")),
    "a directory without its entry is named where it should be listed": (
        "crates/pipeline/src/browse/ls.rs", "                entries.lost.push(without_entry);", "                drop(without_entry);",
        test("pipeline", "a_directory_whose_own_entry_is_lost_is_listed")),
    "a search goes on behind a lost page": (
        "crates/pipeline/src/browse/find.rs", "            let page = LostPage::at(cursor, &error).ok_or(error)?;", "            let page = LostPage::at(cursor, &error).filter(|_| false).ok_or(error)?;",
        test("pipeline", "a_search_finds_what_can_be_read")),
    "a comparison does not need pages that it may skip": (
        "crates/tree/src/cursor.rs", "            let Ok(page) = self.source.get(&head) else { break };", "            let page = self.source.get(&head)?;",
        test("pipeline", "a_search_finds_what_can_be_read")),
    "a directory without its entry is restored": (
        "crates/pipeline/src/restore/entries.rs", "            Err(error) if error.is_damage() && has_some_below(pages, snapshot, subpath)? => {", "            Err(error) if false && error.is_damage() && has_some_below(pages, snapshot, subpath)? => {",
        test("pipeline", "a_directory_whose_own_entry_is_lost_is_restored")),
    "a path whose entry is lost is not refused": (
        "crates/pipeline/src/restore/entries.rs", "        Err(error) if error.is_damage() => Ok(()),", "        Err(error) if false && error.is_damage() => Ok(()),",
        test("pipeline", "a_directory_whose_own_entry_is_lost_is_restored")),
    "a page that ends before the goal is not needed": (
        "crates/tree/src/cursor.rs", "        self.seek_by(before, |next| before(next) || !path.is_empty() && next == path)", "        self.seek_by(before, before)",
        test("tree", "a_lost_page_before_the_goal")),
    "the empty first path of a page skips nothing": (
        "crates/tree/src/cursor.rs", "before(next) || !path.is_empty() && next == path", "before(next) || next == path",
        test("pipeline", "a_path_twice_in_two_pages")),
    "the damaged file of a key is named": (
        "crates/pipeline/src/unlocked.rs", "                    damaged.push(*id);\n", "                    let _ = id;\n",
        test("pipeline", "a_damaged_file_of_a_key_is_named")),
    "the folder of the chunk cache is of its owner alone": (
        "crates/pipeline/src/cache.rs", "DirBuilder::new().recursive(true).mode(0o700).create(folder)?;", "DirBuilder::new().recursive(true).mode(0o755).create(folder)?;",
        test("pipeline", "its_folder_is_of_its_owner_alone")),
    "the damaged index of a copy is named by where it lies": (
        "crates/pipeline/src/copy.rs", "located(error.into(), &**target)", "store::Error::from(error)",
        test("pipeline", "the_damaged_index_of_a_copy")),
    "the tasks that a worker of a restore leaves are let go": (
        "crates/pipeline/src/restore/budget.rs", "        self.tasks.iter().for_each(drop);\n", "",
        test("pipeline", "what_a_worker_leaves_does_not_keep")),
    "a worker of a restore that panics ends the others": (
        "crates/pipeline/src/restore/budget.rs", "if std::thread::panicking() {", "if false {",
        test("pipeline", "what_a_worker_leaves_does_not_keep")),
    "an error behind the contents of files ends a restore before it removes": (
        "crates/pipeline/src/restore.rs", "        shared.unless_ended(done)\n", "        done\n",
        test("pipeline", "a_storage_that_goes_away_at_any_point_of_a_restore")),
    "an error in the attributes of what is restored ends the restore": (
        "crates/pipeline/src/restore.rs",
        "shared.unless_ended(Ok(selection.root.as_ref().map(|root| shared.whole(root))))?",
        "selection.root.as_ref().map(|root| shared.whole(root))",
        test("pipeline", "a_storage_that_goes_away_at_any_point_of_a_restore")),
    "partial checks read other containers in each round": (
        "crates/pipeline/src/check/data.rs", "rounds.floor() * SQRT_2", "rounds.floor() * SQRT_2.floor()",
        test("pipeline", "shares_of_the_containers_come_to_all")),
    "a dump goes on behind a damaged file": (
        "crates/icecore/src/tarball.rs", "self.content.copy_with_gaps(entry, &mut self.output)?",
        "self.content.copy(entry, &mut self.output).map(|()| None)?",
        test("icecore", "a_damaged_file_of_a_dump_costs_no_other")),
    "a dump with a damaged file ends as after damage": (
        "crates/icecore/src/commands/dump.rs", "if lost.is_empty() && damaged.is_empty() {", "if lost.is_empty() {",
        test("icecore", "a_damaged_file_of_a_dump_costs_no_other")),
    "a recovery key is no password to change": (
        "crates/icecore/src/commands/key.rs", "if old.kdf.is_none() {", "if false {",
        test("icecore", "a_recovery_key_is_no_password_to_change")),
    "a job of upkeep that has no thread waits again": (
        "crates/server-control/src/upkeep.rs", "Ok(!has_thread && self.catalog", "Ok(false && !has_thread && self.catalog",
        test("server-control", "a_job_whose_start_was_stored_without_an_answer")),
    "a session finds the job whose start was stored without an answer": (
        "crates/server-control/src/jobs.rs", "started.or_else(|| self.take_stored(whose, kind, what, run))",
        "started.or_else(|| self.take_stored(whose, kind, what, run).filter(|_| false))",
        test("server-control", "a_job_whose_start_was_stored_without_an_answer_is")),
    "a job whose start was stored without an answer can be cancelled": (
        "crates/server-control/src/jobs/asked.rs",
        "None => Ok(self.stored(|job, _| job.id == id)?.map(|(_, command)| command)),", "None => Ok(None),",
        test("server-control", "a_job_whose_start_was_stored_without_an_answer_is")),
    "sessions of certificates that only the catalog has revoked are closed": (
        "crates/server-control/src/admission.rs", "self.is_listed(serial).unwrap_or(false));",
        "self.is_listed(serial).unwrap_or(false) && serial.is_empty());",
        test("server-control", "sessions_of_certificates_that_only")),
    "an enrollment that is answered again closes the sessions of the machine before it": (
        "crates/server-control/src/enroll.rs",
        "                self.admission.list_revoked();\n                Ok(*answer)", "                Ok(*answer)",
        test("server-control", "sessions_of_certificates_that_only")),
    "a job of upkeep that panics on a storage server has ended": (
        "crates/server-data/src/upkeep.rs",
        "            let ends = EndsAnyway(&begun);\n            ends.0.ended(", "            begun.ended(",
        test("server-data", "a_job_that_panics")),
    "a panic fails a job of upkeep": (
        "crates/server-control/src/upkeep/run.rs", "match catch_unwind(AssertUnwindSafe(work)) {",
        "match Ok::<_, ()>(AssertUnwindSafe(work)()) {", test("server-control", "a_job_that_panics")),
    "the domain of a job of upkeep is free behind its thread": (
        "crates/server-control/src/upkeep.rs", "            let _ends = EndsAnyway(&this, &open);\n", "",
        test("server-control", "a_job_that_panics")),
    "a job of upkeep is known by its work, too": (
        "crates/server-data/src/upkeep.rs", "known.number == asked.job && is_same(&known.work, &work);",
        "known.number == asked.job && (true || is_same(&known.work, &work));",
        test("server-data", "another_job_of_the_same_number")),
    "a stored time that cannot be read is in doubt": (
        "crates/server-control/src/machine_clock.rs", "                (None, true)", "                (None, false)",
        test("server-control", "a_stored_time_that_cannot_be_read")),
    "a stored time that cannot be read stays until somebody confirms the clock": (
        "crates/server-control/src/machine_clock.rs", "        if known.is_lost {", "        if false {",
        test("server-control", "a_stored_time_that_cannot_be_read")),
    "stale keys are read again under the lock of their domain": (
        "crates/server-control/src/issued_keys.rs",
        "listed.into_iter().map(|key| key.domain).collect();\n        for domain in domains {\n"
        "            let removed = self.locks.with(&domain, || {\n                let mut keys = list()?;",
        "listed.iter().map(|key| key.domain.clone()).collect();\n        for domain in domains {\n"
        "            let removed = self.locks.with(&domain, || {\n                let mut keys = listed.clone();",
        test("server-control", "a_grant_that_comes_back")),
    "what a node was permitted to forget is not said to be held": (
        "crates/server-control/src/forget.rs", "        self.permitted.add(&known);\n", "",
        test("server-control", "a_hold_that_is_declared_while")),
    "what a node was refused to forget may be said to be held": (
        "crates/server-control/src/forget.rs", "kept.inspect_err(|_| self.permitted.remove(&known))?;", "kept?;",
        test("server-control", "a_hold_that_is_declared_while")),
    "a claim that is repeated promises nothing more": (
        "crates/server-data/src/session.rs", "stream.claims.iter().find(|(other, _)| *other == request) {",
        "stream.claims.iter().find(|(other, _)| *other == request).filter(|_| false) {",
        test("server", "promises_of_all_sessions")),
    "a superblock is written when only the tidying failed": (
        "crates/object-storage/src/pool.rs", "        let _ = self.tidy();\n        Ok(())", "        self.tidy()",
        test("object-storage", "a_superblock_is_written_also")),
    "what the repository refused to delete at once is no more in the trash": (
        "crates/server-control/src/retention/named.rs", "            self.take_back(who, &put.changes, &done)?;\n", "",
        test("server-control", "what_the_repository_refuses")),
    "a line of any length fits into memory": (
        "crates/icecore/src/lines.rs", "        let longest = LINE_BYTES_MAX as u64;\n", "        let longest = u64::MAX;\n",
        test("icecore", "a_line_of_any_length")),
    "what a node made is not forgotten when it cannot be read": (
        "crates/icecore/src/node/memory.rs", "serde_json::from_str(&text).map_err(|_| damaged(&path))?", "serde_json::from_str(&text).unwrap_or_default()",
        test("icecore", "a_node_that_cannot_read_what_it_made")),
    "a pool that is not there is not accepted": (
        "crates/icecore/src/commands/reach.rs", "    } else if is_first && !is_linked {", "    } else if false && is_first && !is_linked {",
        test("icecore", "is_told_to_name_its_first_pool")),
    "no repository is advised where a domain is gone": (
        "crates/icecore/src/commands/keyless.rs", "        _ if !is_lost => failure.at(&location),", "        _ if true || !is_lost => failure.at(&location),",
        test("icecore", "whose_objects_are_gone_from_the_bucket")),
    "both spellings of a state are taken": (
        "crates/icecore/src/commands/server/jobs.rs", '.map(|state| state.replace("canceled", "cancelled"))', ".map(|state| state)",
        test("icecore", "a_state_is_taken_in_both_spellings")),
    "no second move of a domain begins before the first one has ended": (
        "crates/server/src/storage_server/moves.rs", "is_free.then(||", "(is_free || true).then(||",
        test("server", "no_second_move_of_a_domain")),
    "a job of upkeep that once said it ends goes on no more": (
        "crates/server-control/src/upkeep/watch.rs", "            self.has_ended.store(true, Ordering::SeqCst);",
        "            return false;", test("server-control", "a_job_that_ends_with_its_window")),
    "nothing is copied into the bucket of the pool": (
        "crates/server/src/upkeep/copies.rs", "if is_in_bucket_of_pool(folder, &copy)? {",
        "if false && is_in_bucket_of_pool(folder, &copy)? {", test("server", "nothing_is_copied_into_the_bucket")),
    "a copy does not lie in the bucket of its own repository": (
        "crates/icecore/src/commands/copy.rs", "to.overlaps(repo) && to.prefix", "false && to.prefix",
        test("icecore", "a_copy_does_not_lie_in_the_bucket")),
    "a directory in the place of the link of a lost pool stays": (
        "crates/server-contract/src/pool/states.rs", "(Err(_), true) => may_be_removed(&place)?,", "(Err(_), true) => {}",
        test("server-contract", "a_lost_pool_whose_directory")),
    "a pool that does not answer is not looked into for its locks": (
        "crates/server/src/securing.rs", "        if let Err(why) = (self.answers)(folder) {\n            return Some(Err(why));\n        }\n", "",
        test("server", "a_pool_that_does_not_answer_is_told")),
    "a pool that no longer answers is an alarm for what was kept of it": (
        "crates/server/src/securing.rs", "reached.clone().and_then(|()| (self.answers)(folder)).err()",
        "reached.clone().err().filter(|_| folder.is_absolute())",
        test("server", "a_pool_that_does_not_answer_is_told")),
    "a connection to the lock helper that panics gives its place back": (
        "crates/lock-helper/src/serve.rs", "        self.0.connections.fetch_sub(1, Ordering::SeqCst);",
        "        let _ = std::thread::panicking() || self.0.connections.fetch_sub(1, Ordering::SeqCst) == 0;",
        test("lock-helper", "a_connection_that_panics")),
    "a clock that cannot be stored lets go what is over": (
        "crates/lock-helper/src/pool.rs", "if let Err(error) = clock.store((&self.kept, &place)) {",
        "clock.store((&self.kept, &place))?;\n        if let Err(error) = clock.store((&self.kept, &place)) {",
        test("lock-helper", "a_clock_that_cannot_be_stored")),
    "a pool that cannot be opened costs the lock helper itself only": (
        "crates/lock-helper/src/serve.rs", "failed.push((with_advice(&error, &slot.named), error));", "if true { return Err(error); } failed.push((with_advice(&error, &slot.named), error));",
        test("lock-helper", "a_pool_that_cannot_be_opened_costs")),
    "a pool in which a look goes on is left alone": (
        "crates/server/src/securing.rs", "&& !looks.contains_key(&pool_of(folder))", "&& (true || !looks.contains_key(&pool_of(folder)))",
        test("server", "a_pool_that_begins_to_hang")),
    "a pool in which a look hangs is told": (
        "crates/server/src/securing.rs", "let lost: Vec<_> = kept.chain(looked_at).collect();", "let lost: Vec<_> = kept.chain(looked_at.take(0)).collect();",
        test("server", "a_pool_that_begins_to_hang")),
    "what may be in a lost page is not certain": (
        "crates/tree/src/diff.rs", "visit(Change::Removed(a), !right_lost)?", "visit(Change::Removed(a), true || !right_lost)?",
        test("tree", "a_lost_page_costs_what_it_names")),
    "what is not certain is no difference": (
        "crates/pipeline/src/browse/diff.rs", "Some(found) if is_certain && (", "Some(found) if (true || is_certain) && (",
        test("icecore", "what_may_be_in_a_lost_page_is_no_difference")),
    "what a reclaim removed since the index was read is not missing": (
        "crates/repository/src/presence.rs", "    if first.damages.is_empty() {\n        return Ok(first);\n    }\n", "    if true || first.damages.is_empty() {\n        return Ok(first);\n    }\n",
        test("repository", "what_a_reclaim_removes_meanwhile_is_not_missing")),
    "what should be mounted inside a source is looked for": (
        "crates/pipeline/src/backup/emptied.rs", "options.mount_points.iter().flat_map", "options.mount_points.iter().take(0).flat_map",
        test("icecore", "what_should_be_mounted_inside_a_source")),
    "what is in memory is empty after each start": (
        "crates/capture/src/mount_points.rs", "&& !IN_MEMORY.contains(&kind)", "&& (true || !IN_MEMORY.contains(&kind))",
        test("capture", "what_is_mounted_at_the_start")),
    "what should be mounted is named whatever else failed": (
        "crates/pipeline/src/backup/failed.rs", " || problem.operation == CaptureOperation::FindFiles", "",
        test("pipeline", "what_should_be_mounted_is_named")),
    "what should be mounted is named first": (
        "crates/pipeline/src/backup/failed.rs", "ranked.sort_by_key(|(_, object)| object.reason != not_mounted);", "let _ = not_mounted;",
        test("pipeline", "what_should_be_mounted_is_named")),
    "a new owner has its own name": (
        "crates/pipeline/src/backup/worker.rs", "let (user, group) = (owners.user(uid).to_vec(), owners.group(gid).to_vec());", "let (user, group) = { let _ = owners; (old.user.clone(), old.group.clone()) };",
        test("pipeline", "whoever_got_a_file_since_the_walk")),
    "what waits for further names has a bound": (
        "crates/pipeline/src/backup/links.rs", "            self.files.clear();\n", "",
        test("pipeline", "what_waits_for_further_names_has_a_bound")),
    "without HOME the list of users says where home is": (
        "crates/icecore/src/home.rs", "std::env::home_dir()", 'std::env::var_os("HOME").map(PathBuf::from)',
        test("icecore", "without_home_the_configuration_file")),
    "what lies above the folder of an agent is for others, too": (
        "crates/access/src/files.rs", "    fs::create_dir_all(folder.parent().unwrap_or(folder)).map_err(file(folder))?;\n", "",
        test("access", "what_lies_above_a_folder_of_ours")),
    "a class in a pattern matches no slash": (
        "crates/capture/src/excludes/git_glob.rs", "        line.extend(self.is_negated.then_some('/'));\n", "",
        test("capture", "patterns_mean_what_gitignore_says")),
    "a range in a pattern matches no slash": (
        "crates/capture/src/excludes/git_glob.rs", "const SPECIAL: [char; 3] = ['/', ']', '-'];", "const SPECIAL: [char; 2] = [']', '-'];",
        test("capture", "patterns_mean_what_gitignore_says")),
    "a slash in a class anchors a pattern": (
        "crates/capture/src/excludes/git_glob.rs", "        (true, false) => \"/\",\n", "        (true, false) => \"\",\n",
        test("capture", "patterns_mean_what_gitignore_says")),
    "a class that takes out the slash does not anchor a pattern": (
        "crates/capture/src/excludes/git_glob.rs", "        (false, true) => \"**/\",\n", "        (false, true) => \"\",\n",
        test("capture", "patterns_mean_what_gitignore_says")),
    "braces in a pattern are characters": (
        "crates/capture/src/excludes/git_glob.rs", "            '{' | '}' => line.extend(", "            '{' | '}' if false => line.extend(",
        test("capture", "patterns_mean_what_gitignore_says")),
    "classes of characters have names": (
        "crates/capture/src/excludes/git_glob.rs", "name_of_class(rest).filter(|_| char == '[')", "name_of_class(rest).filter(|_| false && char == '[')",
        test("capture", "patterns_mean_what_gitignore_says")),
    "what is named in a directory with a tag is in": (
        "crates/capture/src/walk/list.rs", "name == tag.name() || is_planned(name)", "name == tag.name() || false && is_planned(name)",
        test("capture", "what_the_user_named_in_a_directory_with_a_tag_is_in")),
    "nothing else in a directory with a tag is in": (
        "crates/capture/src/walk/worker.rs", "        if listing.is_tagged {\n", "        if false && listing.is_tagged {\n",
        test("capture", "what_the_user_named_in_a_directory_with_a_tag_is_in")),
    "nothing else in an excluded directory above a named path is in": (
        "crates/capture/src/walk/worker.rs", "        if self.pattern_excludes(listing, row.position, ListedType::Directory) {\n", "        if false && self.pattern_excludes(listing, row.position, ListedType::Directory) {\n",
        test("capture", "a_root_in_an_excluded_directory_is_reached")),
    "nothing else in a marked directory above a named path is in": (
        "crates/capture/src/walk/worker.rs", "        self.skips(batch, listing, row)\n", "        self.skips(batch, listing, row) && false\n",
        test("capture", "nothing_else_of_an_excluded_directory_that_leads_to_a_root_is_taken")),
    "an automount is not triggered by a look": (
        "crates/capture/src/walk/directory.rs", "        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;\n", "        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;\n",
        test("capture", "an_automount_is_not_triggered_unless_it_is_named")),
    "an automount that is named is mounted before it is inspected": (
        "crates/capture/src/walk/worker.rs", "let flags = if is_root { flags }", "let flags = if is_root && false { flags }",
        test("capture", "an_automount_is_not_triggered_unless_it_is_named")),
    "a file on which another has a lease is waited for": (
        "crates/capture/src/read/lease.rs", "        Err(Errno::AGAIN) => opening_within(", "        Err(Errno::AGAIN) if false => opening_within(",
        test("capture", "a_file_on_which_another_has_a_lease_is_read_when_it_is_given_back")),
    "a file that is told to be empty is read where that says nothing": (
        "crates/capture/src/read/small.rs", "match met.size == 0 && kinds.may_hide_sizes(", "match false && met.size == 0 && kinds.may_hide_sizes(",
        test("capture", "a_file_of_a_pseudo_file_system_is_read_to_its_end")),
    "a file of unknown size is not cut": (
        "crates/capture/src/read/small.rs", "        if length as u64 > bytes_max {\n            return Err(Errno::FBIG);\n", "        if length as u64 > bytes_max {\n            length = bytes_max as usize;\n            break;\n",
        test("capture", "a_file_of_a_pseudo_file_system_is_read_to_its_end")),
    "what is mounted on demand and is not is told": (
        "crates/pipeline/src/backup/emptied.rs", "(was_so || was_entered).then(|| Last::new(found, source, was_so))", "(false && (was_so || was_entered)).then(|| Last::new(found, source, was_so))",
        test("icecore", "what_an_automounter_has_not_mounted_is_told")),
    "what is mounted again is missed no more": (
        "crates/pipeline/src/backup/emptied.rs", "root.was_so && (root.is_named || !is_other)", "root.was_so && (true || root.is_named || !is_other)",
        test("icecore", "what_should_be_mounted_inside_a_source")),
    "a program that is replaced starts itself": (
        "crates/icecore/src/ourselves.rs", 'Command::new("/proc/self/exe")', "Command::new(std::env::current_exe().unwrap_or_default())",
        test("icecore", "a_program_that_is_replaced_while_it_runs")),
}


class Useless(Exception):
    """A row that proves nothing: why."""


def take_out(copy, file, text, other):
    path = copy / file
    source = path.read_text()
    if source.count(text) != 1:
        raise Useless(f"{file} has {source.count(text)} times what should be there once: {text!r}")
    path.write_text(source.replace(text, other))
    return path, source


def ended(command, folder, environment, seconds_max=SECONDS_MAX):
    """Runs a command: its exit code, and what it printed. One that waits for ever is killed with all that it started."""
    with subprocess.Popen(command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, start_new_session=True) as process:
        try:
            said, _ = process.communicate(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            raise Useless(f"it did not end within {seconds_max} s: {command}") from None
    return process.returncode, said


def tested(row):
    """The package whose tests must fail."""
    command = row[3]
    return command[command.index("--package") + 1]


def in_packages(rows, seen):
    """The rows of each package that is tested, in the order in which they cost least."""
    def key(item):
        package, file = tested(item[1]), item[1][0]
        return len(seen.below(package, with_tests=True)), package, file
    return [(package, dict(group)) for (_size, package), group in
            groupby(sorted(rows.items(), key=key), key=lambda item: key(item)[:2])]


def as_they_are(copy, environment, rows):
    """Of the tests of these rows of one package, with every protection in place: the names of those that fail, and all
    by what has them (`by_binary`)."""
    tests = [(command, command.index("--")) for *_, command in rows if command[1] == "test"]
    if not tests:
        return [], {}
    command, end = tests[0]
    names = dict.fromkeys(name for words, after in tests for name in words[after + 1:])
    line = [*(word for word in command[:end] if word != "--quiet"), "--no-fail-fast", "--", *names]
    code, said = ended(line, copy, environment, 3 * SECONDS_MAX)
    found = re.findall(r"^(?:test )?(\S+) (?:---|\.\.\.) FAILED", said, re.MULTILINE)
    if code != 0 and not found:
        sys.exit(f"sabotage: the tests do not run as they are: {command}\n{said[-2000:]}")
    return found, by_binary(said)


def by_binary(said):
    """The names of the tests that Cargo ran, by the flag that makes it build only the binary in which they are."""
    where, tests = {}, set()
    for line in said.splitlines():
        if begun := re.match(r"\s+Running (unittests )?(\S+) \(|\s+Doc-tests ", line):
            tests = where.setdefault(flag(begun[1] is not None, begun[2]), set()) if begun[2] else set()
        elif ran := re.match(r"test (\S+)(?: - should panic)? \.\.\. ", line):
            tests.add(ran[1])
    return where


def flag(is_unit, path):
    """What names a binary of tests: of a file below `tests`, or of the units of a library or a program."""
    if is_unit:
        return ("--lib",) if path.endswith("lib.rs") else ("--bins",)
    path = Path(path)
    return ("--test", path.parent.name if path.name == "main.rs" else path.stem)


def narrowed(command, where):
    """The same with only the binaries that have tests of these names. To link the others, and to look for examples in the
    documents, takes longer than the row itself."""
    if command[1] != "test":
        return command
    end = command.index("--")
    words = command[end + 1:]
    fits = [flags for flags, tests in where.items() if any(word in name for word in words for name in tests)]
    return [*command[:end], *(word for flags in fits for word in flags), *command[end:]]


def fails_anyway(sabotage, failed):
    """Whether a test of this row is among those that fail."""
    command = sabotage[3]
    words = command[command.index("--") + 1:] if command[1] == "test" else []
    return next((name for name in failed for word in words if word in name), None)


def is_seen(copy, environment, sabotage, where):
    file, text, other, command = sabotage
    path, source = take_out(copy, file, text, other)
    try:
        if command is SYNC:
            subprocess.run(BUILD, cwd=copy, env=environment, check=True)
            binary = Path(environment["CARGO_TARGET_DIR"]) / "fast" / "icecore"
            command = [*command, "--binary", str(binary)]
        code, said = ended(narrowed(command, where), copy, environment)
        if "could not compile" in said:
            raise Useless(f"{file} does not compile without it:\n{said[-2000:]}")
        if command[1] == "test" and not re.search(r"^running [1-9]", said, re.MULTILINE):
            raise Useless(f"no test has such a name: {command}")
        reason = LOST if command[1] == "run" else re.compile("panicked|^test result: FAILED")
        failed = [line for line in said.splitlines() if reason.search(line)]
        if code != 0 and not failed:
            raise Useless(f"it failed for another reason:\n{said[-2000:]}")
        return code != 0, failed[0] if failed else ""
    finally:
        path.write_text(source)


def look_at(copy, environment, name, sabotage, tests):
    """Runs one row and prints how it ended: whether a test saw it."""
    begun, (failed, where) = time.monotonic(), tests
    try:
        if test_name := fails_anyway(sabotage, failed):
            raise Useless(f"{test_name} fails without it, too")
        seen, line = is_seen(copy, environment, sabotage, where)
        line = line if seen else "NOT DETECTED"
    except Useless as why:
        seen, line = False, f"PROVES NOTHING: {why}"
        print(line)
    print(f"{name:<48} {time.monotonic() - begun:6.1f} s  {line.strip()[:120]}", flush=True)
    return seen


def build_fast(folder, copy, packages):
    """Has what the rows change built without optimizing, by a setting of Cargo above the copy: to optimize a package again
    behind each change takes 40 s in place of 5. What the sources say of single packages stays."""
    settled = tomllib.loads((copy / "Cargo.toml").read_text())["profile"]["dev"]["package"]
    changed = {name for name, (own, _needs) in packages.items() for file, *_ in SABOTAGES.values()
               if (copy / file).is_relative_to(own)}
    lines = [f"{name}.opt-level = 0" for name in sorted(changed - settled.keys())]
    (folder / ".cargo").mkdir(exist_ok=True)
    (folder / ".cargo" / "config.toml").write_text("\n".join(["[profile.dev.package]", *lines, ""]))


def misfits():
    """Rows whose text is not there once, and rows whose test no source has."""
    folders = ["crates", "proof", "testkit"]
    files = [path for folder in folders for path in ROOT.glob(f"{folder}/**/*.rs")]
    sources = "".join(path.read_text() for path in files)
    for name, (file, text, _other, command) in SABOTAGES.items():
        times = (ROOT / file).read_text().count(text)
        if times != 1:
            yield f"{name}: {file} has {times} times what should be there once: {text!r}"
        tests = command[command.index("--") + 1:] if command[1] == "test" else []
        for test_name in tests:
            # A filter is a part of a test's name, or of its module's.
            last = test_name.split("::")[-1]
            if not re.search(rf"(fn|mod) \w*{re.escape(last)}", sources):
                yield f"{name}: no test has {test_name} in its name"


def main():
    if sys.argv[1:] == ["--check"]:
        found = list(misfits())
        sys.exit("\n".join(found) or 0)
    if unknown := [word for word in sys.argv[1:2] if word.startswith("-")]:
        asked = unknown[0] in ("-h", "--help")
        print(__doc__ if asked else f"sabotage: there is no option {unknown[0]}; see --help",
              file=sys.stdout if asked else sys.stderr)
        sys.exit(0 if asked else 2)
    if unknown := [name for name in sys.argv[2:] if name not in SABOTAGES]:
        sys.exit(f"sabotage: no row has the name '{unknown[0]}'")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="icecore-sabotage-"))
    only = sys.argv[2:]
    copy = folder / "sources"
    shutil.rmtree(copy, ignore_errors=True)
    ignored = shutil.ignore_patterns("target", ".git", "corpus", "artifacts")
    shutil.copytree(ROOT, copy, ignore=ignored)
    for file, *_ in SABOTAGES.values():
        # Cargo goes by the time of a file: what an earlier run built without it must not count.
        os.utime(copy / file)
    environment = {**os.environ, "CARGO_TARGET_DIR": str(folder / "target")}
    before = Seen(copy, ROOT / "docs" / "results" / "sabotage-seen.jsonl")
    build_fast(folder, copy, before.workspace())
    rows = {name: row for name, row in SABOTAGES.items() if (name in only if only else not before.has(name, row))}
    if not only:
        print(f"{len(SABOTAGES) - len(rows)} of {len(SABOTAGES)} rows were seen before, with the same sources", flush=True)
    unseen = []
    for package, group in in_packages(rows, before):
        begun = time.monotonic()
        tests = as_they_are(copy, environment, group.values())
        print(f"{f'the tests of {package} without a sabotage':<48} {time.monotonic() - begun:6.1f} s  "
              f"{len(tests[0])} fail", flush=True)
        for name, sabotage in group.items():
            if look_at(copy, environment, name, sabotage, tests):
                before.add(name, sabotage)
            else:
                unseen.append(name)
    all_asked = only or SABOTAGES
    print(f"{len(all_asked) - len(unseen)} sabotages of the sources were seen, "
          f"{len(unseen)} were not")
    sys.exit(1 if unseen else 0)


if __name__ == "__main__":
    main()
