// SPDX-License-Identifier: GPL-2.0-or-later
//! One worker, timed one by one.

use super::super::{Condition, Edge, Operations, Session};
use super::access::{Access, Accessor};
use super::tree::Tree;
use crate::measure::{Clock, Timed, timed};
use crate::observe::{Frames, LockNames};
use crate::stop::Stop;

/// The first file of a tree, opened again and again.
#[derive(Debug)]
pub struct Single {
    access: Access,
    accessor: Accessor,
    tree: Tree,
    operations: u64,
}

impl Single {
    /// # Errors
    /// The file cannot be read.
    pub fn new(tree: Tree, access: Access) -> Result<Self, Stop> {
        let accessor = Accessor::new(access, &tree, &tree.targets[..1])?;
        Ok(Self { access, accessor, tree, operations: 0 })
    }
}

impl Session for Single {
    fn facts(&mut self) -> Result<Vec<(&'static str, u64)>, Stop> {
        Ok(vec![("depth", self.tree.depth), ("links", self.tree.links)])
    }

    fn operations(&self) -> &'static [&'static str] {
        self.access.calls()
    }

    fn observe(&mut self, mark: &mut dyn FnMut(Edge) -> Result<(), Stop>) -> Result<(), Stop> {
        self.accessor.marked(&self.tree.targets, 0, &mut |call, begins| {
            mark(if begins { Edge::Begin(call) } else { Edge::End(call) })
        })
    }

    /// The walk and what it locks (workloads.md 3.1).
    fn functions(&self) -> &'static [&'static str] {
        &[
            "down_read",
            "kernfs_dop_revalidate",
            "kernfs_fop_open",
            "kernfs_iop_get_link",
            "kernfs_iop_permission",
            "link_path_walk",
            "may_open",
            "mutex_lock",
            "up_read",
        ]
    }

    /// Both are read-write semaphores taken by the same function (workloads.md 3.1).
    fn locks(&self) -> LockNames {
        LockNames {
            functions: &["down_read"],
            owners: &[("kernfs_dop_revalidate", "tree_lock"), ("kernfs_iop_permission", "attribute_lock")],
        }
    }

    fn frames(&self) -> Frames {
        super::FRAMES
    }

    fn finish(&mut self) -> Result<Vec<Condition>, Stop> {
        let left = self.tree.remove();
        Ok(vec![
            // Any other outcome has ended the run already.
            Condition::new(
                "operations",
                true,
                format!("{} operations, each with the content of the first", self.operations),
            ),
            Condition::new("restored", left.is_empty(), format!("left behind: {left:?}")),
        ])
    }
}

impl Operations for Single {
    fn sequence(&mut self, clock: Clock, times: &mut [Timed]) -> Result<(), Stop> {
        let (time, done) = timed(clock, || self.accessor.once(&self.tree.targets, 0));
        times[0] = time;
        self.operations += 1;
        done.map_err(|fault| fault.of(&self.tree.targets[0]))
    }
}
