// SPDX-License-Identifier: GPL-2.0-or-later
//! Where records go: checksummed lines, the samples table, test cases, chunks
//! for a log among others, or a table for people.

mod cases;
mod chunks;
mod kernel_log;
mod progress;
mod table;
mod tsv;

pub use kernel_log::KernelLog;
pub use progress::{Begun, PlannedArm};

use kernmark_wire::{End, Record, frame};
use progress::Progress;
use std::io::{self, Write};

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A table for people.
    Text,
    /// The samples table.
    Tsv,
    /// One checksummed JSON line for each record.
    Jsonl,
    /// LAVA test case signals, then the chunks.
    Lava,
    /// Test cases, one line each, as a result.txt has them.
    Cases,
    /// The whole result in numbered lines that can travel among those of a log.
    Chunks,
}

impl Format {
    /// Whether a log carries this format, so that its lines may have to go through the kernel's log.
    pub fn is_for_a_log(self) -> bool {
        match self {
            Self::Lava | Self::Chunks => true,
            Self::Text | Self::Tsv | Self::Jsonl | Self::Cases => false,
        }
    }
}

/// Writes records in one format.
pub struct Emitter {
    format: Format,
    out: Box<dyn Write>,
    sequence: u64,
    records: Vec<Record>,
    progress: Option<Progress>,
}

impl std::fmt::Debug for Emitter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emitter")
            .field("format", &self.format)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

impl Emitter {
    /// Writes to `out`; with `progress` says on standard error what is going on.
    pub fn new(format: Format, out: Box<dyn Write>, progress: bool) -> Self {
        let progress = progress.then(Progress::new);
        Self { format, out, sequence: 0, records: Vec::new(), progress }
    }

    /// Takes one record.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn emit(&mut self, record: Record) -> io::Result<()> {
        match self.format {
            Format::Jsonl => writeln!(self.out, "{}", frame(self.sequence, &record))?,
            Format::Text | Format::Tsv | Format::Lava | Format::Cases | Format::Chunks => {
                self.records.push(record);
            }
        }
        self.sequence += 1;
        Ok(())
    }

    /// Says something to whoever watches.
    pub fn say(&self, line: &str) {
        if let Some(progress) = &self.progress {
            progress.say(line);
        }
    }

    /// Takes down what will be measured, in order.
    pub fn plan(&self, arms: impl Iterator<Item = PlannedArm>) {
        if let Some(progress) = &self.progress {
            progress.plan(arms);
        }
    }

    /// Says how far a workload is.
    pub fn progress(&self, sample: Begun<'_>) {
        if let Some(progress) = &self.progress {
            progress.begin(sample);
        }
    }

    /// Writes the last record and whatever the format holds back.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(&mut self, status: &str) -> io::Result<()> {
        self.progress.iter().for_each(Progress::clear);
        let records = &self.records;
        let text = match self.format {
            Format::Jsonl => frame(self.sequence, &end(self.sequence, status)) + "\n",
            Format::Text => table::render(records, status),
            Format::Tsv => tsv::render(records, status),
            Format::Lava => {
                cases::render_signals(records, status) + &chunks::render(&json_lines(records, status))
            }
            Format::Cases => cases::render(records, status),
            Format::Chunks => chunks::render(&json_lines(records, status)),
        };
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

/// What [`Format::Jsonl`] writes of all these records.
fn json_lines(records: &[Record], status: &str) -> String {
    let count = records.len() as u64;
    let mut text: String = records.iter().zip(0..).map(|(record, n)| frame(n, record) + "\n").collect();
    text.push_str(&frame(count, &end(count, status)));
    text.push('\n');
    text
}

fn end(records: u64, status: &str) -> Record {
    Record::End(End { records, status: status.to_owned() })
}

#[cfg(test)]
impl Emitter {
    /// Keeps the records, for tests.
    pub fn collecting() -> Self {
        Self::new(Format::Text, Box::new(io::sink()), false)
    }

    /// The records kept.
    pub fn into_records(self) -> Vec<Record> {
        self.records
    }
}

/// Metric with its arm as prefix; the default arm of a workload has none.
pub fn metric_with_arm(workload: &str, arm: &str, metric: &str) -> String {
    let default = crate::workloads::find(workload).map(|w| w.arms[0].id).unwrap_or_default();
    if arm == default { metric.to_owned() } else { format!("{arm}_{metric}") }
}

/// Median; the mean of the two middle values of an even number. `None` of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// Samples of one metric, summarised for a person or for LAVA.
pub struct Summary {
    /// Workload id.
    pub workload: String,
    /// Metric with its arm as prefix.
    pub metric: String,
    /// Unit of the values.
    pub unit: String,
    /// Sample values: mean over the operations of a sample.
    pub values: Vec<f64>,
}

/// Every metric among `records`, in order.
pub fn summaries(records: &[Record]) -> Vec<Summary> {
    let mut found: Vec<Summary> = Vec::new();
    for record in records {
        let Record::Sample(sample) = record else { continue };
        let metric = metric_with_arm(&sample.workload, &sample.arm, &sample.metric);
        let value = sample.sum as f64 / sample.operations.max(1) as f64;
        match found.iter_mut().find(|s| s.workload == sample.workload && s.metric == metric) {
            Some(summary) => summary.values.push(value),
            None => found.push(Summary {
                workload: sample.workload.clone(),
                metric,
                unit: sample.unit.clone(),
                values: vec![value],
            }),
        }
    }
    found
}

#[cfg(test)]
pub mod test_records {
    //! Records that the tests of all formats share.
    use kernmark_wire::{Record, Sample, Skip};
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    /// A writer whose text can still be read after it was given away.
    #[derive(Clone, Default)]
    pub struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Shared {
        /// What was written.
        pub fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("utf-8")
        }
    }

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Two samples in the default arm, one in another, one skipped arm.
    pub fn some() -> Vec<Record> {
        let sample = |arm: &str, sample, sum| {
            Record::Sample(Sample {
                workload: "kernfs.rmdir".into(),
                arm: arm.into(),
                metric: "remove".into(),
                unit: "ns".into(),
                better: "lower".into(),
                sample,
                operations: 4,
                sum,
            })
        };
        vec![
            sample("scx-off", 1, 400),
            sample("scx-off", 2, 402),
            sample("bare", 1, 300),
            Record::Skip(Skip {
                workload: "kernfs.rmdir".into(),
                arm: "scx-cb".into(),
                reason: "no sched_ext".into(),
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn json_lines_count_up_and_end() {
        let shared = test_records::Shared::default();
        let mut out = Emitter::new(Format::Jsonl, Box::new(shared.clone()), false);
        for record in test_records::some() {
            out.emit(record).expect("memory");
        }
        out.end("ok").expect("memory");
        let text = shared.text();
        let lines: Vec<_> = text.lines().map(|l| kernmark_wire::unframe(l).expect("valid line")).collect();
        assert_eq!(lines.iter().map(|l| l.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(lines[4].1, Record::End(End { records: 4, status: "ok".into() }));
    }

    #[test]
    fn held_back_lines_are_those_written_at_once() {
        let shared = test_records::Shared::default();
        let mut out = Emitter::new(Format::Jsonl, Box::new(shared.clone()), false);
        for record in test_records::some() {
            out.emit(record).expect("memory");
        }
        out.end("failed: gone").expect("memory");
        assert_eq!(json_lines(&test_records::some(), "failed: gone"), shared.text());
    }

    #[test]
    fn medians() {
        for (values, expected) in
            [(vec![], None), (vec![3.0, 1.0, 2.0], Some(2.0)), (vec![4.0, 1.0], Some(2.5))]
        {
            assert_eq!(median(values), expected);
        }
    }

    #[test]
    fn only_other_arms_are_a_prefix() {
        assert_eq!(metric_with_arm("kernfs.rmdir", "scx-off", "remove"), "remove");
        assert_eq!(metric_with_arm("kernfs.rmdir", "bare", "remove"), "bare_remove");
    }
}
