//! Nodes that back up changing trees, all at once.

use super::network::Host;
use super::servers::{Control, path};
use crate::client::{Client, Started};
use crate::{failed, tree};
use simulation::Random;
use std::path::{Path, PathBuf};

/// New content of each node in each round, and the rate at which it goes: some seconds are left for harm.
const NEW_BYTES: u64 = 6 << 20;
const RATE: &str = "1M";

pub(super) struct Node {
    pub(super) name: String,
    /// Its storage server.
    pub(super) home: usize,
    client: Client,
    work: PathBuf,
    /// What was acknowledged, with what the source was.
    kept: Vec<(String, tree::Copy)>,
}

impl Node {
    pub(super) fn enroll(
        control: &Control,
        (work, binary, host): (&Path, &Path, &Host),
        (number, home, server): (usize, usize, &str),
        random: &mut Random,
    ) -> Result<Self, String> {
        let name = format!("node-{number}");
        let work = work.join(&name);
        let mut client = Client::new(binary, Path::new("/nonexistent"));
        (client.under, client.agent) = (host.under(), Some(work.join("agent")));
        let token = control.token(&[&name, "--on", server])?;
        client.ends(&["agent", "enroll", &control.url(), &token], &[0])?;
        control.govern(&["limit", "add", "--node", &name, "--up", RATE])?;
        let node = Self { name, home, client, work, kept: Vec::new() };
        std::fs::create_dir_all(node.source()).map_err(failed("make a source"))?;
        tree::create(&node.source(), random).map_err(failed("make a source"))?;
        Ok(node)
    }

    fn source(&self) -> PathBuf {
        self.work.join("source")
    }

    /// Changes its source, and begins to back it up.
    pub(super) fn begin(&mut self, random: &mut Random) -> Result<(tree::Copy, Started), String> {
        let source = self.source();
        tree::mutate(&source, random).map_err(failed("change a source"))?;
        let bytes: Vec<u8> = (0..NEW_BYTES / 8).flat_map(|_| random.next().to_le_bytes()).collect();
        std::fs::write(source.join("new"), bytes).map_err(failed("change a source"))?;
        let was = tree::copy(&source).map_err(failed("read a source"))?;
        let begun = self.client.start(&["backup", &path(&source), "--json"])?;
        Ok((was, begun))
    }

    /// Its backup has to be complete.
    pub(super) fn end(&mut self, (was, begun): (tree::Copy, Started)) -> Result<(), String> {
        let ran = begun.end()?;
        match (ran.code, ran.acknowledged()) {
            (Some(0), Some(id)) => {
                self.kept.push((id, was));
                Ok(())
            }
            _ => Err(format!("{} lost its backup: {}", self.name, ran.told())),
        }
    }

    /// Its newest snapshot and one of before are what was backed up.
    pub(super) fn restores(&self, random: &mut Random) -> Result<u64, String> {
        let target = self.work.join("target");
        let some = random.below(self.kept.len() as u64) as usize;
        let chosen = [self.kept.len() - 1, some];
        let wrong = |error: String| format!("{}: {error}", self.name);
        for (id, was) in chosen.iter().map(|at| &self.kept[*at]) {
            self.client.restores(id, was, &target).map_err(wrong)?;
        }
        Ok(chosen.len() as u64)
    }
}
