//! The way from the top of the snapshot to its roots: directories that are only passed through,
//! and the roots themselves.

use super::chunk::{Around, Chunk, Job, Listing};
use super::directory::Directory;
use super::names::{Names, Place};
use super::plan::{Node, split_last};
use super::row::Row;
use super::units::UnitId;
use super::worker::{WANTED, Worker, trouble};
use crate::problem::Operation;
use format::entry::Kind;
use rustix::fs::{AtFlags, Statx, statx};
use std::sync::Arc;

impl Worker {
    /// One child of a directory that is only passed through.
    pub(super) fn pass(&mut self, unit: UnitId, node: &Arc<Node>, index: usize) -> Chunk {
        let Some(child) = node.children.get(index) else {
            return self.nowhere(&node.name); // no roots at all
        };
        let next = (index + 1 < node.children.len()).then(|| {
            self.scheduler.add_after(unit, Job::Pass { node: node.clone(), index: index + 1 })
        });
        let mut chunk = self.root_or_parent(child);
        chunk.next = next.unwrap_or(chunk.next);
        chunk
    }

    fn root_or_parent(&mut self, node: &Arc<Node>) -> Chunk {
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
        let mut chunk = Chunk::of(Arc::new(listing));
        let place = chunk.listing.names.places()[0];
        let is_link_itself = node.is_root || is_strict;
        let follow = if is_link_itself { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() };
        let stat =
            chunk.listing.directory.handle().and_then(|handle| {
                statx(&*handle, chunk.listing.names.c_name(place), follow, WANTED)
            });
        match stat {
            Ok(stat) if node.is_root => self.add_root(&mut chunk, node, place, &stat),
            Ok(stat) => {
                let row = Row::from_statx(&stat, place);
                if is_strict && row.kind != Kind::Directory {
                    return self.made_up(node);
                }
                self.add_parent(&mut chunk, node, row);
            }
            // Go on without it, so that every root below tells its own trouble.
            Err(_) if !node.is_root => return self.made_up(node),
            Err(error) => trouble(&mut chunk, Some(place), Operation::Inspect, error),
        }
        chunk
    }

    /// A name that no directory of this machine has.
    fn nowhere(&self, name: &[u8]) -> Chunk {
        let top = Directory::starting_at(b"/", &self.handles);
        Chunk::of(Arc::new(Listing::of(top, Names::single(name))))
    }

    fn made_up(&mut self, node: &Arc<Node>) -> Chunk {
        let mut chunk = self.nowhere(&node.name);
        let row = Row::made_up(chunk.listing.names.places()[0]);
        self.add_parent(&mut chunk, node, row);
        chunk
    }

    fn add_parent(&mut self, chunk: &mut Chunk, node: &Arc<Node>, mut row: Row) {
        row.is_parent_of_root = true;
        self.below.push((chunk.rows.len(), Job::Pass { node: node.clone(), index: 0 }));
        chunk.rows.push(row);
    }

    pub(super) fn add_root(
        &mut self,
        chunk: &mut Chunk,
        node: &Arc<Node>,
        place: Place,
        stat: &Statx,
    ) {
        let row = Row::from_statx(stat, place);
        if row.kind == Kind::Directory {
            let listing = &chunk.listing;
            let directory = Directory::child(
                &listing.directory,
                listing.names.c_name(place),
                (row.device, row.inode),
            );
            let plan = (!node.children.is_empty()).then(|| node.clone());
            let around = Around { mount: stat.stx_mnt_id, device: row.device, layers: None, plan };
            self.below.push((chunk.rows.len(), Job::List { directory, around, is_root: true }));
        }
        chunk.rows.push(row);
    }
}
