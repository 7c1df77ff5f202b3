"""`python3 -m unittest discover bench`: the bench's own arithmetic, without data sets."""

import argparse
import contextlib
import io
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent))

import against
import buckets
import counts
import run
import wan
from report import claims, netreport
from report.figures import Figures
from runs import compare, rounds
from sets import textlike, zoo
from tools import measure, repository, served


def result(tool, wall, round_=1, **more):
    return {"set": "small", "operation": "first", "tool": tool, "round": round_, "ok": True,
            "wall_s": wall, "foreign_cpu_s": 0, "read_mib": 0, **more}


def figures(*runs):
    return Figures({"runs": list(runs), "sets": {}, "machine": {"cores": 2}})


def verdict(runs, part):
    return next(v for v in claims.judge({"runs": runs, "sets": {}, "machine": {"cores": 2}})
                if part in v.sentence)


class Claims(unittest.TestCase):
    def test_ratios_are_taken_within_a_round(self):
        f = figures(result("icecore", 1, 1), result("tar", 2, 1),
                    result("icecore", 10, 2), result("tar", 20, 2))
        self.assertEqual(f.ratio("small", "first", "icecore", "tar"), 0.5)

    def test_a_failed_run_is_no_figure(self):
        runs = [result("icecore", 1), {**result("tar", 2), "ok": False}]
        self.assertEqual(verdict(runs, "small first: time of tar").state, "NOT MEASURED")

    def test_a_claim_against_peers_is_judged_when_all_were_measured(self):
        runs = [result("icecore", 1), *(result(peer, 9) for peer in ("restic", "rustic", "borg"))]
        found = verdict(runs, "small first: times faster than the fastest")
        self.assertEqual((found.state, found.against), ("NOT MEASURED", "not measured: bupstash"))
        runs.append(result("bupstash", 9))
        self.assertEqual(verdict(runs, "small first: times faster than the fastest").state, "PASS")

    def test_the_smallest_repository_is_the_one_to_beat(self):
        sizes = {"icecore": 101, "restic": 120, "rustic": 110, "borg": 100, "bupstash": 130}
        runs = [result(tool, 1, repo_mib=size) for tool, size in sizes.items()]
        found = verdict(runs, "small first: repository")
        self.assertEqual((found.against, found.state), ("borg", "FAIL"))
        self.assertEqual(verdict(runs[:-1], "small first: repository").state, "NOT MEASURED")

    def test_a_disturbed_run_is_no_figure_and_is_named(self):
        f = figures(result("icecore", 1, 1), {**result("icecore", 9, 2), "foreign_cpu_s": 5})
        self.assertEqual(f.value("small", "first", "icecore"), 1)
        self.assertEqual(list(f.doubtful()), ["round 2, small first icecore: others used 5 s of CPU"])
        disturbed = [{**result("icecore", 1), "foreign_cpu_s": 5}, result("tar", 2)]
        self.assertEqual(verdict(disturbed, "small first: time of tar").state, "NOT MEASURED")

    def test_what_could_not_be_judged_is_no_success(self):
        with tempfile.TemporaryDirectory() as folder:
            place = {"cpu": "c", "cores": 2, "memory_gib": 1, "system": "s", "kernel": "k",
                     "file_system": "f"}
            results = {"machine": place, "commit": "abc", "tools": {}, "sets": {},
                       "runs": [result("icecore", 1)]}
            asked = argparse.Namespace(out=Path(folder, "x"), claim=None)
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(run.show(results, asked), 1)
            text = Path(folder, "x.md").read_text()
        self.assertIn("commit abc", text)
        self.assertLess(text.index("NOT MEASURED"), text.index("First backup"))

    def test_the_fastest_peer_is_the_one_to_beat(self):
        others = [result("rustic", 60), result("borg", 70)]
        runs = [result("icecore", 10), result("restic", 50), result("bupstash", 19), *others]
        found = verdict(runs, "small first: times faster than the fastest")
        self.assertEqual((found.against, found.state), ("bupstash", "FAIL"))
        runs[0]["wall_s"] = 9
        self.assertEqual(verdict(runs, "small first: times faster than the fastest").state, "PASS")

    def test_memory_limits_hold_for_the_worst_round(self):
        runs = [result("icecore", 1, 1, peak_mib=100), result("icecore", 1, 2, peak_mib=151)]
        self.assertEqual(verdict(runs, "small first: peak").state, "FAIL")


class FakeRepository:
    """Its runs are disturbed so often, then not."""

    def __init__(self, _set, tool, disturbed):
        self.tool, self.disturbed = tool, disturbed
        self.spec = argparse.Namespace(fine=(0,))

    def once(self, _repository):
        self.disturbed -= 1
        return {"exit": 0, "disturbed": self.disturbed >= 0}


class Rounds(unittest.TestCase):
    def runs(self, operation, disturbed):
        found = []
        one = rounds.Round("small", {"icecore": disturbed}, 1, found.append, make=FakeRepository,
                           is_disturbed=lambda run: run["disturbed"])
        one.for_tools(operation, one.repositories[0].once, one.repositories)
        return [run["disturbed"] for run in found]

    def test_a_disturbed_run_is_made_again_where_that_is_possible(self):
        self.assertEqual(self.runs("first", 0), [False])
        self.assertEqual(self.runs("first", 1), [True, False])
        self.assertEqual(self.runs("first", 9), [True, True, True])
        self.assertEqual(self.runs("reclaim", 1), [True])

    def test_before_cold_runs_the_set_is_read_for_all_tools(self):
        seen, one = [], rounds.Round("small", {"icecore": 0, "read": 0}, 1, lambda run: None,
                                     make=FakeRepository)
        one.first_backup = lambda repository: (seen.append(repository.tool), {"exit": 0})[1]
        with mock.patch.object(rounds.measure, "drop_caches", lambda: seen.append("dropped")), \
             mock.patch.object(rounds, "Pinned") as pinned:
            pinned.return_value.__enter__.side_effect = lambda: seen.append("set")
            one.cold_first()
        self.assertEqual(seen, ["set", "dropped", "icecore", "dropped", "read"])


class Measuring(unittest.TestCase):
    def run_line(self, line):
        with open(os.devnull, "wb") as log:
            return measure.run(line, dict(os.environ), log, {})

    def test_memory_of_processes_that_run_together_adds_up(self):
        one = f"{sys.executable} -c 'b = bytearray(100 << 20); import time; time.sleep(0.7)'"
        facts = self.run_line(f"{one} & {one}; wait")
        self.assertGreater(facts["peak_mib"], 200)
        self.assertLess(facts["peak_process_mib"], 200)

    def test_a_failure_in_a_pipeline_is_seen(self):
        self.assertEqual(self.run_line("false | true")["exit"], 1)

    def test_a_run_without_figures_says_so_and_does_not_end_the_bench(self):
        with self.assertRaisesRegex(OSError, "is the disk full"):
            measure.figures_of("", 1.0, 1, (0, 0), 0, 0)

    def test_strace_summaries_are_read_with_and_without_errors(self):
        text = " 50.0  0.1  10  7      openat\n 50.0  0.1  10  5  2 statx\n100.0 0.2 10 12 2 total\n"
        self.assertEqual(counts.parse(text), {"openat": 7, "statx": 5})


class GoingOn(unittest.TestCase):
    def taken_over(self, **changes):
        facts = {"commit": "abc", "tools": {"tar": {"version": "1", "path": "x"}}, "machine": {"cores": 2},
                 "sets": {"small": {"files": 3}, "large": {"files": 2}}}
        runs = [result("tar", 1), result("tar", 2, 2), {**result("tar", 3), "set": "large"}]
        before = {**facts, "whole": [[1, "small"]], "days": ["2026-01-01"], "runs": runs, **changes}
        results = {**facts, "whole": [], "days": [], "runs": []}
        with mock.patch.object(run.machine, "has_sources_of", lambda commit: commit == "abc"):
            run.take_over(before, results)
        return results

    def test_only_whole_rounds_of_a_set_are_kept(self):
        results = self.taken_over()
        self.assertEqual([one["wall_s"] for one in results["runs"]], [1])
        self.assertEqual((results["whole"], results["days"]), ([[1, "small"]], ["2026-01-01"]))

    def test_nothing_is_taken_over_of_other_sources_programs_machines_or_data(self):
        for changes in ({"commit": "xyz"}, {"tools": {"tar": {"version": "2"}}}, {"tools": {}},
                        {"machine": {"cores": 4}}, {"sets": {"small": {"files": 4}}}):
            with self.assertRaises(SystemExit):
                self.taken_over(**changes)


class Comparing(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR"))
        self.addCleanup(folder.cleanup)
        self.a, self.b = Path(folder.name, "a"), Path(folder.name, "b")
        for one in (self.a, self.b):
            zoo.make(one)

    def test_equal_trees_have_no_differences(self):
        self.assertEqual(compare.differences(self.a, self.b), [])

    def test_a_lost_nanosecond_hard_link_and_xattr_are_seen(self):
        os.utime(self.b / "fifo", ns=(1, zoo.NANOSECOND_TIME + 1))
        (self.b / "third-name").unlink()
        (self.b / "third-name").write_bytes((self.a / "third-name").read_bytes())
        os.removexattr(self.b / "attributes", "user.bench")
        text = "\n".join(compare.differences(self.a, self.b))
        for part in ("fifo: mtime_ns", "third-name: no hard link", "attributes: xattrs"):
            self.assertIn(part, text)


class Network(unittest.TestCase):
    def test_every_served_tool_has_the_lines_that_are_measured(self):
        for name, tool in served.TOOLS.items():
            self.assertLessEqual({"init", "backup", "restore"}, set(tool.lines), name)
            self.assertTrue(tool.server or tool.way == served.PIPES, name)

    def test_one_stream_is_compared_with_one_connection(self):
        for name in wan.STREAMED:
            self.assertIn("$BIN --streams 1 ", wan.ONE_STREAM.lines[name])

    def test_a_longer_name_is_not_taken_for_a_shorter_one(self):
        words = {"CLIENT": "one", "CLIENTS": "one two"}
        env = repository.environment({"A": "$CLIENTS of $CLIENT"}, words, "/tmp")
        self.assertEqual(env["A"], "one two of one")

    def test_what_a_report_says_of_buffers_is_found_wherever_it_stands(self):
        text = '{"a": [{"b": "The socket buffer of 64 KiB limits"}], "send_buffer": 65536}'
        self.assertEqual(wan.about_buffers(text),
                         ["b: The socket buffer of 64 KiB limits",
                          "send_buffer: 65536"])
        self.assertEqual(wan.about_buffers("no JSON"), [])

    def test_each_bench_replaces_its_part_of_the_result_only(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "x")
            place = {"cpu": "c", "cores": 2, "memory_gib": 1, "system": "s", "kernel": "k",
                     "file_system": "f"}
            empty = {"machine": place, "tools": {}, "runs": [], "mib": 1}
            netreport.save("agents", empty, out)
            netreport.save("wan", {**empty, "links": {}, "system": {}}, out)
            text = Path(f"{out}.md").read_text()
        self.assertLess(text.index("One stream"), text.index("Many agents"))

    def test_small_files_are_compared_with_large_ones_once_both_are_measured(self):
        runs = [{"round": 1, "size": size, "agents": 4, "mib_s": rate}
                for size, rate in (("100k", 30), ("1m", 50), ("100m", 60))]
        self.assertEqual(netreport.small_against_large([]), "")
        self.assertEqual(netreport.small_against_large(runs[:1]), "")
        self.assertIn("100k to that of 100m: 0.50 with 4", netreport.small_against_large(runs))

    def test_ratios_of_streams_are_taken_within_a_round(self):
        ours = [{"round": 1, "mbit": 9}, {"round": 2, "mbit": 90}]
        bare = [{"round": 1, "mbit": 10}, {"round": 2, "mbit": 100}]
        self.assertEqual(netreport.ratio(ours, bare, "mbit"), 0.9)


class Generating(unittest.TestCase):
    def test_the_same_seed_gives_the_same_text(self):
        words = [b"one", b"two", b"three"]
        textlike.POOL_BYTES = 1000
        self.assertEqual(textlike.line_pool(words, 1), textlike.line_pool(words, 1))
        self.assertNotEqual(textlike.line_pool(words, 1), textlike.line_pool(words, 2))


class Buckets(unittest.TestCase):
    def test_requests_are_counted_by_what_is_charged_for(self):
        names = ["PutObject", "GetObject", "HeadObject", "ListObjectsV2", "DeleteObjects", "UploadPart"]
        lines = ["log starts", *(f"k icecore [time] 127.0.0.1 k ID s3_{name} key \"…\" 200" for name in names)]
        self.assertEqual(buckets.counted(lines), {"write": 2, "read": 2, "list": 1, "delete": 1})


class Against(unittest.TestCase):
    def test_two_binaries_are_compared_within_rounds(self):
        runs = {(operation, name): [(1.0, 5), (2.0, 5), (8.0, 6)]
                for operation in against.OPERATIONS for name in ("old", "new")}
        # Of three ratios the one in the middle counts, whatever the rounds were like.
        runs["first", "new"] = [(1.1, 4), (2.2, 4), (4.0, 9)]
        first, second, *_ = against.rows(runs)
        self.assertEqual(first, ("first", 2.0, 2.2, 1.1, 5, 4))
        self.assertEqual(second, ("second", 2.0, 2.0, 1.0, 5, 5))


if __name__ == "__main__":
    unittest.main()
