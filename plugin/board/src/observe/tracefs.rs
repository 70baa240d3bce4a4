// SPDX-License-Identifier: GPL-2.0-or-later
//! The tracing file system: profiler, function tracer, return probe. Each is
//! switched off and reset when dropped.

use crate::stop::Stop;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Trace buffer for each CPU: holds every call of some operations.
const BUFFER_KB: &str = "16384";
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
    probe: Option<String>,
    /// Open for the whole pass, so that a mark is one write and nothing else.
    marker: fs::File,
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

    /// Prepares the function tracer for this task; `functions` empty means all.
    pub fn function_tracer(&self, functions: &[String]) -> Result<Tracing<'_>, String> {
        let tracers = self.read("available_tracers")?;
        if !tracers.split_whitespace().any(|t| t == "function") {
            return Err("the kernel has no function tracer (CONFIG_FUNCTION_TRACER)".into());
        }
        let tracing = self.tracing(None)?;
        if !functions.is_empty() {
            let available = self.read("available_filter_functions")?;
            for wanted in functions {
                let known = available.lines().any(|l| l.split_whitespace().next() == Some(wanted.as_str()));
                if !known {
                    return Err(format!(
                        "function {wanted} cannot be traced: inlined, or not in this kernel"
                    ));
                }
            }
            self.write("set_ftrace_filter", &functions.join("\n"))?;
        }
        self.write("set_ftrace_pid", &std::process::id().to_string())?;
        self.write("current_tracer", "function")?;
        Ok(tracing)
    }

    /// Prepares an event at each return of `function` in this task.
    pub fn return_probe(&self, function: &str) -> Result<Tracing<'_>, String> {
        if !self.root.join("kprobe_events").exists() {
            return Err("the kernel has no kprobe events (CONFIG_KPROBE_EVENTS)".into());
        }
        let event = format!("{function}_return");
        self.write("kprobe_events", &format!("r:{PROBE_GROUP}/{event} {function} ret=$retval"))
            .map_err(|e| format!("{function} cannot be probed: {e}"))?;
        let tracing = self.tracing(Some(event.clone()))?;
        self.write("set_event_pid", &std::process::id().to_string())?;
        self.write(&format!("events/{PROBE_GROUP}/{event}/enable"), "1")?;
        Ok(tracing)
    }

    fn tracing(&self, probe: Option<String>) -> Result<Tracing<'_>, String> {
        let path = self.root.join("trace_marker");
        let marker =
            fs::OpenOptions::new().write(true).open(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let tracing = Tracing { tracefs: self, probe, marker };
        self.write("tracing_on", "0")?;
        self.write("current_tracer", "nop")?;
        self.write("buffer_size_kb", BUFFER_KB)?;
        self.write("trace", "")?;
        Ok(tracing)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.root.join(file);
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn read(&self, file: &str) -> Result<String, String> {
        let path = self.root.join(file);
        fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
    }
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
    pub fn read(&self) -> Result<String, String> {
        self.tracefs.read("trace")
    }
}

impl Drop for Tracing<'_> {
    fn drop(&mut self) {
        // Each step is worth trying even when another fails.
        let _ = self.tracefs.write("tracing_on", "0");
        let _ = self.tracefs.write("current_tracer", "nop");
        let _ = self.tracefs.write("set_ftrace_filter", "");
        let _ = self.tracefs.write("set_ftrace_pid", "");
        if let Some(event) = &self.probe {
            let _ = self.tracefs.write(&format!("events/{PROBE_GROUP}/{event}/enable"), "0");
            let _ = self.tracefs.write("set_event_pid", "");
            let _ = self.tracefs.write("kprobe_events", &format!("-:{PROBE_GROUP}/{event}"));
        }
        let _ = self.tracefs.write("trace", "");
        let _ = self.tracefs.write("tracing_on", "1");
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

#[cfg(test)]
mod tests {
    #[test]
    fn profile_lines_are_name_and_hits() {
        let text = "  Function                Hit    Time\n  --------                ---    ----\n  down_write   52    1.2 us\n  up_write 52 1 us\n";
        let found: Vec<_> = super::profile_lines(text).collect();
        assert_eq!(found, [("down_write", 52), ("up_write", 52)]);
    }
}
