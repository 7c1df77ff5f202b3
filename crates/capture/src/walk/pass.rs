//! From the root of the snapshot to the roots of the walk: directories that are only passed
//! through, and the roots themselves.

use super::batch::{DirectoryContext, Job, Listing, RowBatch};
use super::directory::Directory;
use super::names::{NamePosition, Names};
use super::plan::{PlanNode, split_last};
use super::row::Row;
use super::units::UnitId;
use super::worker::{STATX_FIELDS, Worker, add_problem};
use crate::problem::CaptureOperation;
use format::entry::Kind;
use rustix::fs::{AtFlags, Statx, statx};
use std::sync::Arc;

impl Worker {
    /// One child of a directory that is only passed through.
    pub(super) fn pass(&mut self, unit: UnitId, node: &Arc<PlanNode>, index: usize) -> RowBatch {
        let Some(child) = node.children.get(index) else {
            return self.nowhere(&node.name); // no roots at all
        };
        let next = (index + 1 < node.children.len()).then(|| {
            self.scheduler.add_after(unit, Job::Pass { node: node.clone(), index: index + 1 })
        });
        let mut batch = self.root_or_parent(child);
        batch.next = next.unwrap_or(batch.next);
        batch
    }

    fn root_or_parent(&mut self, node: &Arc<PlanNode>) -> RowBatch {
        let Some(source) = &node.source else {
            return self.made_up(node);
        };
        let (directory, name) = split_last(source);
        let is_strict = self.options.refuse_links_to_roots;
        let directory = match is_strict {
            true => Directory::starting_without_links(directory, &self.handles),
            false => Directory::starting_at(directory, &self.handles),
        };
        let mut listing = Listing::of(directory, Names::single(name));
        listing.shown = (node.name != name).then(|| node.name.clone());
        let mut batch = RowBatch::of(Arc::new(listing));
        let position = batch.listing.names.positions()[0];
        let is_link_itself = node.is_root || is_strict;
        let follow = if is_link_itself { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() };
        let stat = batch.listing.directory.handle().and_then(|handle| {
            statx(&*handle, batch.listing.names.c_name(position), follow, STATX_FIELDS)
        });
        match stat {
            Ok(stat) if node.is_root => self.add_root(&mut batch, node, position, &stat),
            Ok(stat) => {
                let row = Row::from_statx(&stat, position);
                if is_strict && row.kind != Kind::Directory {
                    return self.made_up(node);
                }
                self.add_parent(&mut batch, node, row);
            }
            // Continue without it, so that every root below reports its own problem.
            Err(_) if !node.is_root => return self.made_up(node),
            Err(error) => add_problem(&mut batch, Some(position), CaptureOperation::Inspect, error),
        }
        batch
    }

    /// A name that no directory of this machine has.
    fn nowhere(&self, name: &[u8]) -> RowBatch {
        let top = Directory::starting_at(b"/", &self.handles);
        RowBatch::of(Arc::new(Listing::of(top, Names::single(name))))
    }

    fn made_up(&mut self, node: &Arc<PlanNode>) -> RowBatch {
        let mut batch = self.nowhere(&node.name);
        let row = Row::made_up(batch.listing.names.positions()[0]);
        self.add_parent(&mut batch, node, row);
        batch
    }

    fn add_parent(&mut self, batch: &mut RowBatch, node: &Arc<PlanNode>, mut row: Row) {
        row.is_parent_of_root = true;
        self.below.push((batch.rows.len(), Job::Pass { node: node.clone(), index: 0 }));
        batch.rows.push(row);
    }

    pub(super) fn add_root(
        &mut self,
        batch: &mut RowBatch,
        node: &Arc<PlanNode>,
        position: NamePosition,
        stat: &Statx,
    ) {
        let mut row = Row::from_statx(stat, position);
        row.is_root = true;
        if row.kind == Kind::Directory {
            let listing = &batch.listing;
            let directory = Directory::child(
                &listing.directory,
                listing.names.c_name(position),
                (row.device, row.inode),
            );
            let plan = (!node.children.is_empty()).then(|| node.clone());
            let context = DirectoryContext {
                mount: stat.stx_mnt_id,
                device: row.device,
                gitignores: None,
                plan,
            };
            self.below.push((batch.rows.len(), Job::List { directory, context, is_root: true }));
        }
        batch.rows.push(row);
    }
}
