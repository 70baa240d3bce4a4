// SPDX-License-Identifier: GPL-2.0-or-later
//! Blocks of many workers, as stress-ng and LKP report them (protocol.md 9.7):
//! operations, real time and CPU time to rates, cost and blocked time of one operation. The same
//! formulas as those of `shrinker.umount`, for figures that others published.

use super::TableError;
use super::summary::change;
use super::table::{Place, number, whole};
use super::table_error::TableFault;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The columns of a blocks table, in this order.
const COLUMNS: [&str; 8] =
    ["state", "workers", "cpus", "superblocks_per_op", "ops", "real_s", "usr_s", "sys_s"];

/// One run of many workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// What was measured: `base`, `patched` ...
    pub state: String,
    /// Workers.
    pub workers: u64,
    /// CPUs of the machine.
    pub cpus: u64,
    /// Superblocks that one operation makes and destroys.
    pub superblocks_per_op: u64,
    /// Operations of all workers.
    pub ops: u64,
    /// Wall clock time, seconds.
    pub real_s: f64,
    /// Time in user space of all workers, seconds.
    pub usr_s: f64,
    /// Time in the kernel of all workers, seconds.
    pub sys_s: f64,
}

/// What follows from one block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockFigures {
    /// The block.
    pub block: Block,
    /// Operations per second of wall clock time.
    pub ops_per_s: f64,
    /// Operations per second of CPU time.
    pub ops_per_cpu_s: f64,
    /// Microseconds from one operation of a worker to its next.
    pub us_per_op_and_worker: f64,
    /// Microseconds of CPU time in each operation.
    pub cpu_us_per_op: f64,
    /// Microseconds in each operation in which its worker did not run.
    pub blocked_us_per_op: f64,
    /// Seconds of CPU time there were: real time on every CPU.
    pub available_cpu_s: f64,
    /// Seconds of CPU time that were used.
    pub used_cpu_s: f64,
    /// Used of available, percent.
    pub used_percent: f64,
    /// Against the first block; absent of the first.
    pub change: Option<BlockChange>,
}

/// One block against the first.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BlockChange {
    /// Change of operations per second of wall clock time, percent.
    pub ops_per_s_percent: f64,
    /// Change of operations per second of CPU time, percent.
    pub ops_per_cpu_s_percent: f64,
    /// Microseconds more in which a worker does not run, for each superblock destroyed.
    pub blocked_us_per_superblock: f64,
}

/// Reads a blocks table, tab-separated with one header line.
///
/// # Errors
/// It is not one, or a block says nothing.
pub fn read_blocks(file: &str, text: &str) -> Result<Vec<Block>, TableError> {
    let empty = || TableError { place: file.into(), fault: TableFault::Empty };
    let mut lines =
        text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
    let place = |number: usize| Place { file: file.into(), line: number + 1 };
    let (at, header) = lines.next().ok_or_else(empty)?;
    let names: Vec<&str> = header.split('\t').map(str::trim).collect();
    if names != COLUMNS {
        return Err(place(at).error(TableFault::NotBlocks(COLUMNS.join(" "))));
    }
    let blocks = lines
        .map(|(at, line)| block(line).map_err(|fault| place(at).error(fault)))
        .collect::<Result<Vec<_>, _>>()?;
    if blocks.is_empty() { Err(empty()) } else { Ok(blocks) }
}

fn block(line: &str) -> Result<Block, TableFault> {
    let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
    let [state, workers, cpus, superblocks, ops, real, usr, sys] = cells[..] else {
        return Err(TableFault::CellCount { expected: COLUMNS.len(), found: cells.len() });
    };
    if state.chars().any(char::is_control) {
        return Err(TableFault::ControlCharacter(COLUMNS[0]));
    }
    let positive = |column: &'static str, text: &str| match number(column, text)? {
        value if value > 0.0 => Ok(value),
        _ => Err(TableFault::NothingMeasured(column)),
    };
    let block = Block {
        state: state.into(),
        workers: whole(COLUMNS[1], workers)?,
        cpus: whole(COLUMNS[2], cpus)?,
        superblocks_per_op: whole(COLUMNS[3], superblocks)?,
        // No operations at all are a failure, never a measurement.
        ops: whole(COLUMNS[4], ops)?,
        real_s: positive(COLUMNS[5], real)?,
        usr_s: number(COLUMNS[6], usr)?,
        sys_s: number(COLUMNS[7], sys)?,
    };
    if block.usr_s + block.sys_s > 0.0 {
        Ok(block)
    } else {
        Err(TableFault::NothingMeasured("usr_s + sys_s"))
    }
}

/// Rates and costs of each block, and its change against the first.
pub fn block_figures(blocks: &[Block]) -> Vec<BlockFigures> {
    let mut figures: Vec<BlockFigures> = blocks.iter().map(alone).collect();
    let Some(first) = figures.first().cloned() else { return figures };
    for figure in figures.iter_mut().skip(1) {
        let of = |new, old| change(new, old).expect("rates of blocks are positive");
        figure.change = Some(BlockChange {
            ops_per_s_percent: of(figure.ops_per_s, first.ops_per_s),
            ops_per_cpu_s_percent: of(figure.ops_per_cpu_s, first.ops_per_cpu_s),
            blocked_us_per_superblock: (figure.blocked_us_per_op - first.blocked_us_per_op)
                / figure.block.superblocks_per_op as f64,
        });
    }
    figures
}

fn alone(block: &Block) -> BlockFigures {
    let (ops, workers) = (block.ops as f64, block.workers as f64);
    let used_cpu_s = block.usr_s + block.sys_s;
    let available_cpu_s = block.real_s * block.cpus as f64;
    BlockFigures {
        ops_per_s: ops / block.real_s,
        ops_per_cpu_s: ops / used_cpu_s,
        us_per_op_and_worker: 1e6 * workers * block.real_s / ops,
        cpu_us_per_op: 1e6 * used_cpu_s / ops,
        blocked_us_per_op: 1e6 * (workers * block.real_s - used_cpu_s) / ops,
        available_cpu_s,
        used_cpu_s,
        used_percent: 100.0 * used_cpu_s / available_cpu_s,
        change: None,
        block: block.clone(),
    }
}

/// The figures as a table to read.
pub fn blocks_text(figures: &[BlockFigures]) -> String {
    let mut text = String::new();
    let mut line = |content: String| writeln!(text, "{content}").expect("writing to a string");
    for f in figures {
        line(f.block.state.clone());
        line(format!("    rate        {:.2} ops/s real, {:.2} ops/s CPU", f.ops_per_s, f.ops_per_cpu_s));
        line(format!(
            "    operation   {:.1} us on each of {} workers: CPU {:.1} us, blocked {:.1} us",
            f.us_per_op_and_worker, f.block.workers, f.cpu_us_per_op, f.blocked_us_per_op
        ));
        line(format!(
            "    CPU         {:.2} of {:.2} s ({:.2} %)",
            f.used_cpu_s, f.available_cpu_s, f.used_percent
        ));
        if let Some(c) = f.change {
            line(format!(
                "    change      real {:+.2} %, CPU {:+.2} %, blocked {:+.1} us for each superblock",
                c.ops_per_s_percent, c.ops_per_cpu_s_percent, c.blocked_us_per_superblock
            ));
        }
    }
    text
}

/// The figures tab-separated, with one header line.
pub fn blocks_tsv(figures: &[BlockFigures]) -> String {
    let mut text =
        "state\tops_per_s\tops_per_cpu_s\tus_per_op_and_worker\tcpu_us_per_op\tblocked_us_per_op\t\
                    ops_per_s_percent\tops_per_cpu_s_percent\tblocked_us_per_superblock\n"
            .to_owned();
    for f in figures {
        let mut cells = vec![f.block.state.clone()];
        cells.extend(
            [f.ops_per_s, f.ops_per_cpu_s, f.us_per_op_and_worker, f.cpu_us_per_op, f.blocked_us_per_op]
                .map(|v| v.to_string()),
        );
        let changes =
            f.change.map(|c| [c.ops_per_s_percent, c.ops_per_cpu_s_percent, c.blocked_us_per_superblock]);
        cells.extend(changes.map_or_else(|| vec![String::new(); 3], |c| c.map(|v| v.to_string()).to_vec()));
        text += &(cells.join("\t") + "\n");
    }
    text
}
