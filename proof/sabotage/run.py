"""One protection after the other is taken out of a copy of the sources: a test must fail each time.

`make sabotage` takes out what has a switch in the engine. This is for what has none: syncs and
renames of real files, names of contents, paths of restores. A row whose text is not found is an
error, so the list stays true.

    python3 proof/sabotage/run.py [FOLDER] [NAME...]
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SYNC = ["cargo", "run", "--quiet", "--profile", "fast", "--package", "proof", "--",
        "device", "--seconds", "20", "--seed", "1"]
BUILD = ["cargo", "build", "--quiet", "--profile", "fast", "--package", "icecore"]


def test(package, *names):
    return ["cargo", "test", "--quiet", "--package", package, "--", *names]


# Name: file, text, other text, and what must fail then.
SABOTAGES = {
    "sync of a file": (
        "crates/repository/src/local.rs", "fs::fdatasync(&self.file)",
        "rustix::io::Result::Ok(())", SYNC),
    "sync of a folder": (
        "crates/repository/src/local.rs", "fs::fsync(&directory)",
        "rustix::io::Result::Ok(directory).map(drop)", SYNC),
    "nothing is published over a file": (
        "crates/repository/src/local.rs", "let flags = RenameFlags::NOREPLACE;",
        "let flags = RenameFlags::empty();",
        test("repository", "a_file_has_its_name_only_when_published")),
    "a failed write is an error": (
        "crates/repository/src/local.rs",
        'Err(error) => return Err(StorageError::new("write", &self.name, error)),',
        "Err(_) => written = total,",
        test("icecore", "full_disk")),
    "checksum of a record": (
        "crates/format/src/record.rs", "return Err(Error::Checksum { what: \"record\" });", "",
        test("format", "every_flipped_bit")),
    "lease before the index is replaced": (
        "crates/repository/src/repository.rs",
        "        lease.verify()?;\n        index.state.write(&*self.storage)?;",
        "        let _ = lease;\n        index.state.write(&*self.storage)?;",
        test("repository", "robbed")),
    "lease before strays are removed": (
        "crates/repository/src/recover.rs",
        "            lease.verify()?;\n            repository.storage.remove(&path)?;",
        "            let _ = lease;\n            repository.storage.remove(&path)?;",
        test("repository", "robbed")),
    "lease before runs are removed": (
        "crates/repository/src/session.rs",
        "    lease.verify()?;\n    runs.try_for_each",
        "    let _ = lease;\n    runs.try_for_each",
        test("repository", "robbed")),
    "name of a chunk, in a restore": (
        "crates/client/src/restore/work.rs",
        "if !is_as_long || shared.archive.keys.writer.ids.chunk_id(bytes) != used.id {",
        "if !is_as_long {",
        test("client", "poison", "under_the_name_of_another")),
    "length of a chunk, in a restore": (
        "crates/client/src/restore/work.rs", "if !is_as_long ||", "let _ = is_as_long;\n    if",
        test("client", "a_chunk_of_another_length")),
    "name of a page": (
        "crates/client/src/pages.rs",
        "if self.ids.page_id(kind as u8, refs, payload) != *id {",
        "if self.ids.page_id(kind as u8, refs, payload) != *id && false {",
        test("client", "pages")),
    "name of a chunk, when it is printed": (
        "crates/client/src/browse/content.rs",
        "let bytes = self.archive.blocks()?.object(id, &mut self.scratch, name)?;",
        "let _ = name;\n        let bytes = self.archive.blocks()?.object(id, &mut self.scratch, "
        "|_: &[u8]| *id)?;",
        test("client", "poison", "under_the_name_of_another")),
    "name of an object, in a check": (
        "crates/client/src/check/data.rs", "            if name != *id {",
        "            if name != *id && false {",
        test("client", "poison", "a_bit_lost_before_sealing")),
    "looking again before storing": (
        "crates/client/src/backup/content.rs",
        "shared.sealer.verify(&self.record, unpacker, |bytes| shared.ids.chunk_id(bytes))?;",
        "let _ = unpacker;",
        test("client", "a_bit_lost_before_sealing", "a_compressor_that_lies")),
    "snapshots in no list come back before a reclaim": (
        "crates/client/src/reclaim.rs",
        "if options.dry_run { 0 } else { unlisted::bring_back(archive, lease)? }", "0",
        test("client", "g3_a_list_that_lacks_snapshots")),
    "nothing is deleted while a page is lost": (
        "crates/client/src/restore/work.rs",
        "self.options.delete && !self.has_lost_pages.load(Ordering::Relaxed)",
        "self.options.delete",
        test("client", "a_restore_that_deletes_spares_everything")),
    "only what is not there is not there": (
        "crates/repository/src/local.rs",
        "Err(error) if error.is_not_found() => self.replace(from, to),",
        'Err(error) if error.operation == "open" => self.replace(from, to),',
        test("repository", "where_a_rename_cannot_refuse")),
    "keys are looked for by name": (
        "crates/client/src/unlisted.rs", "unknown.insert(self.archive.slot_of(id)?).as_ref(),",
        "unknown.insert(self.archive.slots()?.into_iter().find(|it| it.0 == id).map(|it| it.1))"
        ".as_ref(),",
        test("client", "what_a_new_key_signed")),
    "paths stay below the target": (
        "crates/restore/src/system.rs",
        "ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS",
        "ResolveFlags::NO_MAGICLINKS",
        test("restore")),
    "a repair is synced before it takes the old name": (
        "crates/repository/src/parity/repair.rs", "            file.sync()?;", "",
        test("client", "repair")),
}


def take_out(copy, file, text, other):
    path = copy / file
    source = path.read_text()
    if source.count(text) != 1:
        raise SystemExit(f"sabotage: {file} has {source.count(text)} times what should be there "
                         f"once: {text!r}")
    path.write_text(source.replace(text, other))
    return path, source


def is_seen(copy, environment, sabotage):
    file, text, other, command = sabotage
    path, source = take_out(copy, file, text, other)
    try:
        if command is SYNC:
            subprocess.run(BUILD, cwd=copy, env=environment, check=True)
            binary = Path(environment["CARGO_TARGET_DIR"]) / "fast" / "icecore"
            command = [*command, "--binary", str(binary)]
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
        said = done.stdout + done.stderr
        if "could not compile" in said:
            raise SystemExit(f"sabotage: {file} does not compile without it:\n{said[-2000:]}")
        failed = [line for line in said.splitlines() if "FAILED" in line or "panicked" in line
                  or line.startswith("device:")]
        return done.returncode != 0, failed[0] if failed else ""
    finally:
        path.write_text(source)


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="icecore-sabotage-"))
    only = sys.argv[2:]
    copy = folder / "sources"
    shutil.rmtree(copy, ignore_errors=True)
    ignored = shutil.ignore_patterns("target", ".git", "corpus", "artifacts")
    shutil.copytree(ROOT, copy, ignore=ignored)
    environment = {**os.environ, "CARGO_TARGET_DIR": str(folder / "target")}
    unseen = []
    for name, sabotage in SABOTAGES.items():
        if only and name not in only:
            continue
        begun = time.monotonic()
        seen, line = is_seen(copy, environment, sabotage)
        print(f"{name:<48} {time.monotonic() - begun:6.1f} s  "
              f"{line.strip()[:120] if seen else 'NOT SEEN'}", flush=True)
        if not seen:
            unseen.append(name)
    print(f"{len(only or SABOTAGES) - len(unseen)} sabotages of the sources were seen, "
          f"{len(unseen)} were not")
    sys.exit(1 if unseen else 0)


if __name__ == "__main__":
    main()
