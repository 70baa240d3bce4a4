// SPDX-License-Identifier: GPL-2.0-or-later
//! Joins the records of one boot. A kernel may forge whole records, so their
//! words are checked, their texts escaped, and repetition is named.

use super::excerpt::escape;
use super::{LogProblem, OperationSeries, PointLog};
use kernmark_wire::{
    CallerSamples, Calls, Environment, Operations, Profile, Record, Sample, SelfSamples, Start,
};
use std::collections::{BTreeMap, BTreeSet};

/// Longest id, key or symbol.
const MAX_WORD_BYTES: usize = 200;

/// Gathers records; what does not fit comes back as a problem.
#[derive(Debug, Default)]
pub struct Collector {
    log: PointLog,
    /// Index of each joined series, by kind and names.
    joined: BTreeMap<String, usize>,
    /// What must be there only once.
    seen: BTreeSet<String>,
    /// Samples so far, by series.
    samples: BTreeMap<String, u64>,
}

impl Collector {
    /// The first record, once it came.
    pub fn start(&self) -> Option<&Start> {
        self.log.start.as_ref()
    }

    /// Everything joined.
    pub fn into_log(mut self) -> PointLog {
        let log = &mut self.log;
        if let Some(status) = &log.status
            && status != "ok"
        {
            let reason = status.strip_prefix("failed: ").unwrap_or(status).to_owned();
            log.problems.push(LogProblem::Failed { reason });
        }
        for check in log.checks.iter().filter(|check| !check.pass) {
            let place = format!("{} {}: {}", check.workload, check.arm, check.name);
            log.problems.push(LogProblem::CheckFailed { check: place, detail: check.detail.clone() });
        }
        self.log
    }

    /// Takes one record.
    ///
    /// # Errors
    /// It does not fit; the line number of a `BadLine` is left to the caller.
    pub fn take(&mut self, record: Record) -> Result<(), LogProblem> {
        match record {
            Record::Start(start) => self.start_record(start),
            Record::Environment(environment) => self.environment(environment),
            Record::Fact(fact) => {
                words(&[&fact.workload, &fact.arm, &fact.name])?;
                self.once(format!("fact {} {} {}", fact.workload, fact.arm, fact.name))?;
                self.log.facts.push(fact);
                Ok(())
            }
            Record::Operations(operations) => self.operations(operations),
            Record::Sample(sample) => self.sample(sample),
            Record::Histogram(histogram) => {
                words(&[&histogram.workload, &histogram.arm, &histogram.metric, &histogram.unit])?;
                let (workload, arm, metric) = (&histogram.workload, &histogram.arm, &histogram.metric);
                self.once(format!("histogram {workload} {arm} {metric}"))?;
                self.log.histograms.push(histogram);
                Ok(())
            }
            Record::Profile(profile) => self.profile(profile),
            Record::Calls(calls) => self.calls(calls),
            Record::Returns(returns) => {
                words(&[&returns.workload, &returns.arm, &returns.operation, &returns.function])?;
                let (workload, arm, operation) = (&returns.workload, &returns.arm, &returns.operation);
                self.once(format!("returns of {} in {workload} {arm} {operation}", returns.function))?;
                self.log.returns.push(returns);
                Ok(())
            }
            Record::Sampling(mut sampling) => {
                words(&[&sampling.workload, &sampling.arm])?;
                clean(&mut sampling.event);
                clean(&mut sampling.instead_of);
                self.once(format!("sampling profile of {} {}", sampling.workload, sampling.arm))?;
                self.log.samplings.push(sampling);
                Ok(())
            }
            Record::SelfSamples(chunk) => self.self_samples(chunk),
            Record::CallerSamples(chunk) => self.caller_samples(chunk),
            Record::NotAvailable(mut missing) => {
                words(&[&missing.workload, &missing.arm])?;
                clean(&mut missing.what);
                clean(&mut missing.reason);
                self.log.not_available.push(missing);
                Ok(())
            }
            Record::Check(mut check) => {
                words_or_empty(&[&check.workload, &check.arm])?;
                words(&[&check.name])?;
                clean(&mut check.detail);
                self.once(format!("check {} {} {}", check.workload, check.arm, check.name))?;
                self.log.checks.push(check);
                Ok(())
            }
            Record::Skip(mut skip) => {
                words(&[&skip.workload])?;
                words_or_empty(&[&skip.arm])?;
                clean(&mut skip.reason);
                self.once(format!("skip {} {}", skip.workload, skip.arm))?;
                self.log.skips.push(skip);
                Ok(())
            }
            Record::End(mut end) => {
                clean(&mut end.status);
                self.log.status = Some(end.status);
                Ok(())
            }
        }
    }

    fn once(&mut self, what: String) -> Result<(), LogProblem> {
        if self.seen.contains(&what) {
            return Err(LogProblem::Duplicate { what });
        }
        self.seen.insert(what);
        Ok(())
    }

    fn start_record(&mut self, mut start: Start) -> Result<(), LogProblem> {
        words(&[&start.pass, &start.clock])?;
        for text in [&mut start.protocol, &mut start.point, &mut start.boot_id, &mut start.version] {
            clean(text);
        }
        for (workload, arm) in &start.default_arms {
            words(&[workload, arm])?;
        }
        if self.log.start.is_some() {
            return Err(LogProblem::Duplicate { what: "the start of a boot".into() });
        }
        self.log.start = Some(start);
        Ok(())
    }

    fn environment(&mut self, mut environment: Environment) -> Result<(), LogProblem> {
        words(&[&environment.key])?;
        clean(&mut environment.value);
        let side = match environment.when.as_str() {
            "before" => &mut self.log.environment_before,
            "after" => &mut self.log.environment_after,
            _ => return Err(bad("an environment that is neither before nor after")),
        };
        if side.contains_key(&environment.key) {
            return Err(LogProblem::Duplicate {
                what: format!("environment {} {}", environment.when, environment.key),
            });
        }
        side.insert(environment.key, environment.value);
        Ok(())
    }

    fn operations(&mut self, chunk: Operations) -> Result<(), LogProblem> {
        words(&[&chunk.workload, &chunk.arm, &chunk.metric, &chunk.unit])?;
        direction(&chunk.better)?;
        let name = format!("{} {} {}", chunk.workload, chunk.arm, chunk.metric);
        let all = &mut self.log.operations;
        let series = joined(&mut self.joined, all, format!("operations {name}"), || OperationSeries {
            workload: chunk.workload.clone(),
            arm: chunk.arm.clone(),
            metric: chunk.metric.clone(),
            unit: chunk.unit.clone(),
            better: chunk.better.clone(),
            ..OperationSeries::default()
        });
        let first_chunk = series.values.is_empty();
        let waited = first_chunk || series.waiting.is_empty() == chunk.waiting.is_empty();
        let whole = chunk.waiting.is_empty() || chunk.waiting.len() == chunk.values.len();
        let follows = chunk.first == series.values.len() as u64 && !chunk.values.is_empty();
        let alike = series.unit == chunk.unit && series.better == chunk.better;
        if !(waited && whole && follows && alike) {
            return Err(LogProblem::Gap { series: name });
        }
        series.values.extend(chunk.values);
        series.waiting.extend(chunk.waiting);
        Ok(())
    }

    fn sample(&mut self, sample: Sample) -> Result<(), LogProblem> {
        words(&[&sample.workload, &sample.arm, &sample.metric, &sample.unit])?;
        direction(&sample.better)?;
        let name = format!("{} {} {}", sample.workload, sample.arm, sample.metric);
        if sample.operations == 0 {
            return Err(bad("a sample of no operations"));
        }
        let count = self.samples.entry(name.clone()).or_insert(0);
        if sample.sample <= *count {
            return Err(LogProblem::Duplicate { what: format!("sample {} of {name}", sample.sample) });
        }
        let follows = sample.sample == *count + 1;
        *count = sample.sample;
        self.log.samples.push(sample);
        if follows { Ok(()) } else { Err(LogProblem::Gap { series: name }) }
    }

    fn profile(&mut self, chunk: Profile) -> Result<(), LogProblem> {
        words(&[&chunk.workload, &chunk.arm, &chunk.section])?;
        let name = format!("profile {} {} {}", chunk.workload, chunk.arm, chunk.section);
        for (function, _) in &chunk.functions {
            words(&[function])?;
        }
        let all = &mut self.log.profiles;
        let known = joined(&mut self.joined, all, name.clone(), || Profile {
            functions: Vec::new(),
            ..chunk.clone()
        });
        if known.operations != chunk.operations {
            return Err(LogProblem::Gap { series: name });
        }
        known.functions.extend(chunk.functions);
        Ok(())
    }

    fn self_samples(&mut self, chunk: SelfSamples) -> Result<(), LogProblem> {
        words(&[&chunk.workload, &chunk.arm])?;
        for (function, _) in &chunk.functions {
            words(&[function])?;
        }
        let all = &mut self.log.self_samples;
        let name = format!("samples by function of {} {}", chunk.workload, chunk.arm);
        let first = || SelfSamples { functions: Vec::new(), ..chunk.clone() };
        joined(&mut self.joined, all, name, first).functions.extend(chunk.functions);
        Ok(())
    }

    fn caller_samples(&mut self, chunk: CallerSamples) -> Result<(), LogProblem> {
        words(&[&chunk.workload, &chunk.arm])?;
        for (function, caller, way, _) in &chunk.callers {
            words(&[function, caller, way])?;
        }
        let all = &mut self.log.caller_samples;
        let name = format!("samples by caller of {} {}", chunk.workload, chunk.arm);
        let first = || CallerSamples { callers: Vec::new(), ..chunk.clone() };
        joined(&mut self.joined, all, name, first).callers.extend(chunk.callers);
        Ok(())
    }

    fn calls(&mut self, chunk: Calls) -> Result<(), LogProblem> {
        words(&[&chunk.workload, &chunk.arm, &chunk.operation])?;
        let name = format!("calls {} {} {}", chunk.workload, chunk.arm, chunk.operation);
        for (function, caller, _) in &chunk.calls {
            words(&[function, caller])?;
        }
        let all = &mut self.log.calls;
        let known =
            joined(&mut self.joined, all, name.clone(), || Calls { calls: Vec::new(), ..chunk.clone() });
        if known.operations != chunk.operations {
            return Err(LogProblem::Gap { series: name });
        }
        known.calls.extend(chunk.calls);
        Ok(())
    }
}

/// The one among `all` to which chunks of this name are joined; the first chunk begins it.
fn joined<'a, T>(
    known: &mut BTreeMap<String, usize>,
    all: &'a mut Vec<T>,
    name: String,
    begin: impl FnOnce() -> T,
) -> &'a mut T {
    let index = *known.entry(name).or_insert_with(|| {
        all.push(begin());
        all.len() - 1
    });
    &mut all[index]
}

fn bad(reason: &str) -> LogProblem {
    LogProblem::BadLine { line: 0, reason: reason.to_owned() }
}

/// Ids, keys and symbols are short, printable and without spaces.
fn words(texts: &[&str]) -> Result<(), LogProblem> {
    match texts.iter().find(|text| !is_word(text)) {
        None => Ok(()),
        Some(text) => Err(bad(&format!("not a name: \"{:.60}\"", escape(text.as_bytes())))),
    }
}

fn words_or_empty(texts: &[&str]) -> Result<(), LogProblem> {
    texts.iter().filter(|text| !text.is_empty()).try_for_each(|text| words(&[text]))
}

fn is_word(text: &str) -> bool {
    (1..=MAX_WORD_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn direction(better: &str) -> Result<(), LogProblem> {
    if ["lower", "higher"].contains(&better) {
        Ok(())
    } else {
        Err(bad(&format!("neither lower nor higher is better: \"{:.60}\"", escape(better.as_bytes()))))
    }
}

/// Text for people: one line of printable ASCII.
fn clean(text: &mut String) {
    if text.bytes().any(|byte| !(b' '..=b'~').contains(&byte)) {
        *text = escape_whole(text);
    }
    text.truncate(MAX_TEXT_BYTES);
}

/// Longest text for people; a kernel command line fits.
const MAX_TEXT_BYTES: usize = 4096;

fn escape_whole(text: &str) -> String {
    text.as_bytes().chunks(32).map(escape).collect()
}
