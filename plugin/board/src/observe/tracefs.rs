// SPDX-License-Identifier: GPL-2.0-or-later
//! The tracing file system: profiler, function tracer, return probe. Each is
//! switched off and reset when dropped.

use crate::stop::Stop;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Trace buffer for each CPU: holds every call of some operations.
const BUFFER_KB: &str = "16384";
/// What the kernel starts with (TRACE_BUF_SIZE_DEFAULT).
const USUAL_BUFFER_KB: &str = "1408";
/// Group of our probe events.
const PROBE_GROUP: &str = "kernmark";

/// A mounted tracing file system.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
}

/// Tracing under way; reset when dropped.
#[derive(Debug)]
pub struct Tracing<'a> {
    tracefs: &'a Tracefs,
    probe: Option<Probe>,
    /// Directories below events/ that were switched on.
    events: Vec<&'static str>,
    /// Open for the whole pass, so that a mark is one write and nothing else.
    marker: fs::File,
}

/// A probe event of ours.
#[derive(Debug)]
struct Probe {
    /// The file it is defined in.
    file: &'static str,
    event: String,
}

/// The function profiler, counting since it was made.
#[derive(Debug)]
pub struct Profiler<'a> {
    tracefs: &'a Tracefs,
}

impl Tracefs {
    /// The mounted tracing file system, or why there is none.
    pub fn find() -> Result<Self, String> {
        for root in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
            if Path::new(root).join("current_tracer").exists() {
                return Ok(Self { root: root.into() });
            }
        }
        Err("tracefs is not mounted or not readable; as root: mount -t tracefs none /sys/kernel/tracing"
            .into())
    }

    /// Starts counting every function on every CPU.
    pub fn profiler(&self) -> Result<Profiler<'_>, String> {
        if !self.root.join("function_profile_enabled").exists() {
            return Err("the kernel has no function profiler (CONFIG_FUNCTION_PROFILER)".into());
        }
        self.write("function_profile_enabled", "0")?;
        self.write("function_profile_enabled", "1")?;
        Ok(Profiler { tracefs: self })
    }

    /// The symbols of these functions that can be traced, and the functions without any. A
    /// compiler's clone (`__kernfs_remove.part.0`) serves for its function.
    pub fn symbols(&self, functions: &[String]) -> Result<(Vec<String>, Vec<String>), String> {
        Ok(symbols_in(&self.read("available_filter_functions")?, functions))
    }

    /// Prepares the function tracer for this task; `symbols` empty means all functions.
    pub fn function_tracer(&self, symbols: &[String]) -> Result<Tracing<'_>, String> {
        let tracers = self.read("available_tracers")?;
        if !tracers.split_whitespace().any(|t| t == "function") {
            return Err("the kernel has no function tracer (CONFIG_FUNCTION_TRACER)".into());
        }
        let tracing = self.tracing()?;
        if !symbols.is_empty() {
            self.write("set_ftrace_filter", &symbols.join("\n"))?;
        }
        self.write("set_ftrace_pid", &std::process::id().to_string())?;
        self.write("current_tracer", "function")?;
        Ok(tracing)
    }

    /// Prepares an event at each return of `function` in this task: a kretprobe, which says when
    /// it missed one; else a function probe.
    pub fn return_probe(&self, function: &str) -> Result<Tracing<'_>, String> {
        let returned = "ret=$retval";
        self.probe(
            function,
            &format!("{function}_return"),
            &[
                ("kprobe_events", "r", format!("{function} {returned}")),
                ("dynamic_events", "f", format!("{function}%return {returned}")),
            ],
        )
    }

    /// Prepares an event at each call of `function` in this task, with its first argument and,
    /// from the top of the stack, its caller.
    pub fn entry_probe(&self, function: &str) -> Result<Tracing<'_>, String> {
        let definition = format!("{function} lock=$arg1 caller=$stack0:symbol");
        self.probe(function, &format!("{function}_entry"), &[("kprobe_events", "p", definition)])
    }

    /// Defines and switches on the first of the probes (file, kind, definition) that the kernel takes.
    fn probe(
        &self,
        function: &str,
        event: &str,
        kinds: &[(&'static str, &str, String)],
    ) -> Result<Tracing<'_>, String> {
        let mut tracing = self.tracing()?;
        let mut reason = "the kernel has no probe events (CONFIG_KPROBE_EVENTS)".to_owned();
        for (file, kind, definition) in kinds {
            if !self.root.join(file).exists() {
                continue;
            }
            match self.append(file, &format!("{kind}:{PROBE_GROUP}/{event} {definition}")) {
                Ok(()) => {
                    tracing.probe = Some(Probe { file, event: event.to_owned() });
                    self.write("set_event_pid", &std::process::id().to_string())?;
                    self.write(&format!("events/{PROBE_GROUP}/{event}/enable"), "1")?;
                    return Ok(tracing);
                }
                Err(error) => reason = format!("{function} cannot be probed: {error}"),
            }
        }
        Err(reason)
    }

    /// Prepares events of the kernel, by every task: `workqueue/workqueue_queue_work` and the like.
    pub fn events(&self, events: &[&'static str]) -> Result<Tracing<'_>, String> {
        let mut tracing = self.tracing()?;
        for event in events {
            if !self.root.join("events").join(event).exists() {
                return Err(format!("the kernel has no event {event} (CONFIG_EVENT_TRACING)"));
            }
            tracing.events.push(event);
            self.write(&format!("events/{event}/enable"), "1")?;
        }
        Ok(tracing)
    }

    fn tracing(&self) -> Result<Tracing<'_>, String> {
        let path = self.root.join("trace_marker");
        let marker =
            fs::OpenOptions::new().write(true).open(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let tracing = Tracing { tracefs: self, probe: None, events: Vec::new(), marker };
        self.write("tracing_on", "0")?;
        self.write("current_tracer", "nop")?;
        self.write("buffer_size_kb", BUFFER_KB)?;
        self.write("trace", "")?;
        Ok(tracing)
    }

    fn reset(&self) {
        // Each step is worth trying even when another fails.
        let _ = self.write("tracing_on", "0");
        let _ = self.write("current_tracer", "nop");
        let _ = self.write("set_ftrace_filter", "");
        let _ = self.write("set_ftrace_pid", "");
        let _ = self.write("trace", "");
        // Somebody else's size stays.
        if self.read("buffer_size_kb").is_ok_and(|size| size.trim() == BUFFER_KB) {
            let _ = self.write("buffer_size_kb", USUAL_BUFFER_KB);
        }
        let _ = self.write("tracing_on", "1");
    }

    fn remove_event(&self, file: &str, event: &str) {
        let _ = self.write(&format!("events/{PROBE_GROUP}/{event}/enable"), "0");
        let _ = self.write("set_event_pid", "");
        // Appended, because opening it anew would remove everybody's probes.
        let _ = self.append(file, &format!("-:{PROBE_GROUP}/{event}"));
    }

    fn switch_off(&self, event: &str) {
        let _ = self.write(&format!("events/{event}/enable"), "0");
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.root.join(file);
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn append(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.root.join(file);
        let opened = fs::OpenOptions::new().append(true).open(&path);
        opened.and_then(|mut f| f.write_all(text.as_bytes())).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn read(&self, file: &str) -> Result<String, String> {
        let path = self.root.join(file);
        fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
    }
}

/// Switches off whatever a killed process of ours may have switched on, these events of the
/// kernel too.
pub fn reset(events: &[&str]) {
    let Ok(tracefs) = Tracefs::find() else { return };
    tracefs.reset();
    events.iter().for_each(|event| tracefs.switch_off(event));
    let _ = tracefs.write("function_profile_enabled", "0");
    for file in ["kprobe_events", "dynamic_events"] {
        let text = tracefs.read(file).unwrap_or_default();
        for event in own_events(&text) {
            tracefs.remove_event(file, &event);
        }
    }
}

/// Our own probes in the text of a file of events: `r8:kernmark/ilookup_return ilookup ...`.
fn own_events(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let event = rest.strip_prefix(PROBE_GROUP)?.strip_prefix('/')?;
            event.split_whitespace().next().map(str::to_owned)
        })
        .collect()
}

impl Tracing<'_> {
    /// Starts recording.
    ///
    /// # Errors
    /// The switch cannot be written.
    pub fn start(&self) -> Result<(), Stop> {
        self.tracefs.write("tracing_on", "1").map_err(Stop::Failed)
    }

    /// Writes a mark into the trace.
    ///
    /// # Errors
    /// The mark cannot be written.
    pub fn mark(&self, text: &str) -> Result<(), Stop> {
        (&self.marker).write_all(text.as_bytes()).map_err(|e| Stop::failed("trace_marker", e))
    }

    /// Stops recording.
    ///
    /// # Errors
    /// The switch cannot be written.
    pub fn stop(&self) -> Result<(), Stop> {
        self.tracefs.write("tracing_on", "0").map_err(Stop::Failed)
    }

    /// The recorded text.
    ///
    /// # Errors
    /// It cannot be read, or a probe missed a call.
    pub fn read(&self) -> Result<String, String> {
        if let Some(probe) = self.probe.as_ref().filter(|p| p.file == "kprobe_events") {
            let missed = missed_by(&self.tracefs.read("kprobe_profile")?, &probe.event);
            if missed != Some(0) {
                let count = missed.map_or_else(|| "an unknown number of".to_owned(), |n| n.to_string());
                return Err(format!("the probe {} missed {count} calls", probe.event));
            }
        }
        self.tracefs.read("trace")
    }
}

impl Drop for Tracing<'_> {
    fn drop(&mut self) {
        if let Some(Probe { file, event }) = &self.probe {
            self.tracefs.remove_event(file, event);
        }
        for event in &self.events {
            self.tracefs.switch_off(event);
        }
        self.tracefs.reset();
    }
}

impl Profiler<'_> {
    /// Stops counting and reads the hits of all CPUs together, by name.
    pub fn read(self) -> Result<Vec<(String, u64)>, String> {
        self.tracefs.write("function_profile_enabled", "0")?;
        let directory = self.tracefs.root.join("trace_stat");
        let entries = fs::read_dir(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let mut hits = std::collections::BTreeMap::new();
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with("function") {
                let text = fs::read_to_string(entry.path()).map_err(|e| format!("trace_stat: {e}"))?;
                for (function, count) in profile_lines(&text) {
                    *hits.entry(function.to_owned()).or_insert(0) += count;
                }
            }
        }
        if hits.is_empty() {
            Err("the function profiler saw nothing".into())
        } else {
            Ok(hits.into_iter().collect())
        }
    }
}

impl Drop for Profiler<'_> {
    fn drop(&mut self) {
        // A profiler left on only costs time.
        let _ = self.tracefs.write("function_profile_enabled", "0");
    }
}

/// (function, hits) of a trace_stat file.
fn profile_lines(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let function = fields.next()?;
        Some((function, fields.next()?.parse().ok()?))
    })
}

/// (symbols, functions without one), from the text of available_filter_functions.
fn symbols_in(available: &str, functions: &[String]) -> (Vec<String>, Vec<String>) {
    let mut symbols = Vec::new();
    let mut unknown = Vec::new();
    for function in functions {
        let before = symbols.len();
        let all = available.lines().filter_map(|l| l.split_whitespace().next());
        symbols.extend(
            all.filter(|s| {
                s.strip_prefix(function.as_str()).is_some_and(|r| r.is_empty() || r.starts_with('.'))
            })
            .map(str::to_owned),
        );
        if symbols.len() == before {
            unknown.push(function.clone());
        }
    }
    (symbols, unknown)
}

/// Calls that `event` missed, from the text of kprobe_profile: event, hits, misses.
fn missed_by(profile: &str, event: &str) -> Option<u64> {
    profile.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        (fields.next()? == event).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_lines_are_name_and_hits() {
        let text = "  Function                Hit    Time\n  --------                ---    ----\n  down_write   52    1.2 us\n  up_write 52 1 us\n";
        let found: Vec<_> = profile_lines(text).collect();
        assert_eq!(found, [("down_write", 52), ("up_write", 52)]);
    }

    #[test]
    fn clones_serve_for_their_function() {
        let available = "ilookup\nilookup5\n__kernfs_remove.part.0\nxfs_attr [xfs]\n";
        let asked = ["ilookup", "__kernfs_remove", "kernfs_drain", "xfs_attr"].map(str::to_owned);
        let (symbols, unknown) = symbols_in(available, &asked);
        assert_eq!(symbols, ["ilookup", "__kernfs_remove.part.0", "xfs_attr"]);
        assert_eq!(unknown, ["kernfs_drain"]);
    }

    #[test]
    fn our_own_probes_are_told_from_others() {
        let text =
            "r8:kernmark/ilookup_return ilookup ret=$retval\np:kprobes/mine do_sys\nf:kernmark/x y%return\n";
        assert_eq!(own_events(text), ["ilookup_return", "x"]);
    }

    #[test]
    fn misses_of_a_probe_are_its_third_column() {
        let text = "  ilookup_return          104               0\n  other_return 1 2\n";
        assert_eq!(missed_by(text, "ilookup_return"), Some(0));
        assert_eq!(missed_by(text, "other_return"), Some(2));
        assert_eq!(missed_by(text, "ilookup"), None);
    }

    #[test]
    fn events_are_switched_on_and_off_again_and_one_that_is_not_there_is_named() {
        let root = tempfile::tempdir().expect("temporary directory");
        let there = root.path().join("events/workqueue/there");
        fs::create_dir_all(&there).expect("writable");
        fs::write(root.path().join("trace_marker"), "").expect("writable");
        let tracefs = Tracefs { root: root.path().to_owned() };
        let enabled = || tracefs.read("events/workqueue/there/enable");
        let tracing = tracefs.events(&["workqueue/there"]).expect("there");
        assert_eq!(enabled().as_deref(), Ok("1"));
        drop(tracing);
        assert_eq!(enabled().as_deref(), Ok("0"));
        let error = tracefs.events(&["workqueue/there", "workqueue/none"]).expect_err("not there");
        assert!(error.contains("workqueue/none"), "{error}");
        assert_eq!(enabled().as_deref(), Ok("0"), "nothing is left on");
    }

    #[test]
    fn marks_and_switches_are_written_where_tracefs_has_them() {
        let root = tempfile::tempdir().expect("temporary directory");
        for file in ["trace_marker", "available_tracers", "available_filter_functions", "kprobe_events"] {
            fs::write(root.path().join(file), "").expect("writable");
        }
        let tracefs = Tracefs { root: root.path().to_owned() };
        let error = tracefs.function_tracer(&[]).expect_err("no tracer is offered");
        assert!(error.contains("CONFIG_FUNCTION_TRACER"), "{error}");
        fs::write(root.path().join("available_tracers"), "blk function nop\n").expect("writable");
        let tracing = tracefs.function_tracer(&["ilookup".into()]).expect("offered");
        assert_eq!(tracefs.read("current_tracer").as_deref(), Ok("function"));
        assert_eq!(tracefs.read("set_ftrace_pid"), Ok(std::process::id().to_string()));
        tracing.mark("BEGIN rmdir").expect("writable");
        drop(tracing);
        assert_eq!(tracefs.read("trace_marker").as_deref(), Ok("BEGIN rmdir"));
        for (file, text) in [("current_tracer", "nop"), ("set_ftrace_filter", ""), ("set_ftrace_pid", "")] {
            assert_eq!(tracefs.read(file).as_deref(), Ok(text), "{file}");
        }
    }
}
