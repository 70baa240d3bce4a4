// SPDX-License-Identifier: GPL-2.0-or-later
//! Shows long work: one bar for each phase on a terminal, a line now and then
//! elsewhere; remembers how long each phase took.

use crate::console::say;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::RefCell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Without a terminal a phase reports at most this often.
const LINE_EVERY: Duration = Duration::from_secs(20);

/// Where progress goes and what it was so far.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    quiet: bool,
    finished: RefCell<Vec<(String, Duration)>>,
}

/// One phase under way; ends when dropped.
#[derive(Debug)]
pub struct Phase<'a> {
    progress: &'a Progress,
    name: String,
    started: Instant,
    bar: ProgressBar,
    last_line: RefCell<Instant>,
}

impl Progress {
    /// On standard error; `quiet` shows nothing but still keeps the times.
    pub fn new(quiet: bool) -> Self {
        Self { terminal: std::io::stderr().is_terminal(), quiet, finished: RefCell::new(Vec::new()) }
    }

    /// Starts a phase. `estimate` says how long it takes as a rule, where known.
    pub fn phase(&self, name: &str, estimate: Option<Duration>) -> Phase<'_> {
        let about = estimate.map_or_else(String::new, |e| format!(" (about {})", short(e)));
        let bar = if self.terminal && !self.quiet {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(
                ProgressStyle::with_template("{spinner} {prefix}: {msg} {elapsed}")
                    .expect("template is valid"),
            );
            bar.set_prefix(name.to_owned());
            bar.set_message(about.trim().to_owned());
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        } else {
            if !self.quiet {
                say(&format!("{name}{about}"));
            }
            ProgressBar::hidden()
        };
        let started = Instant::now();
        Phase { progress: self, name: name.to_owned(), started, bar, last_line: RefCell::new(started) }
    }

    /// Whether nothing is shown.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Says one thing without disturbing a bar.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }

    /// `source 0:19, base build 3:02 ...`, in order; empty when nothing took a second.
    pub fn summary(&self) -> String {
        let finished = self.finished.borrow();
        let parts: Vec<String> = finished
            .iter()
            .filter(|(_, took)| *took >= Duration::from_secs(1))
            .map(|(name, took)| format!("{name} {}", short(*took)))
            .collect();
        parts.join(", ")
    }
}

impl Phase<'_> {
    /// Reports `done` of `total`; a `total` of 0 means it is not known.
    pub fn at(&self, done: u64, total: u64, what: &str) {
        if total > 0 && self.bar.length() != Some(total) {
            self.bar.set_style(
                ProgressStyle::with_template(
                    "{spinner} {prefix}: [{bar:30}] {pos}/{len} {msg} {elapsed}, {eta} left",
                )
                .expect("template is valid"),
            );
            self.bar.set_length(total);
        }
        self.bar.set_position(done);
        self.bar.set_message(what.to_owned());
        if !self.progress.terminal && !self.progress.quiet && self.last_line.borrow().elapsed() >= LINE_EVERY
        {
            *self.last_line.borrow_mut() = Instant::now();
            let count = if total > 0 { format!("{done}/{total} {what}") } else { what.to_owned() };
            let left = remaining(self.started.elapsed(), done, total)
                .map_or_else(String::new, |left| format!(", about {} left", short(left)));
            say(&format!("{}: {count}{left}", self.name));
        }
    }
}

impl Drop for Phase<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        let took = self.started.elapsed();
        if self.progress.terminal && !self.progress.quiet && took >= Duration::from_secs(1) {
            say(&format!("{} took {}", self.name, short(took)));
        }
        self.progress.finished.borrow_mut().push((self.name.clone(), took));
    }
}

/// Time left at the speed so far; `None` before anything is done.
fn remaining(elapsed: Duration, done: u64, total: u64) -> Option<Duration> {
    if done == 0 || total <= done {
        return None;
    }
    Some(elapsed.mul_f64((total - done) as f64 / done as f64))
}

/// `0:07`, `3:15`, `1:02:03`.
pub fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        for (seconds, text) in [(0, "0:00"), (7, "0:07"), (195, "3:15"), (3723, "1:02:03")] {
            assert_eq!(short(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn the_rest_is_estimated_from_the_speed() {
        let ten = Duration::from_secs(10);
        assert_eq!(remaining(ten, 0, 4), None);
        assert_eq!(remaining(ten, 1, 4), Some(Duration::from_secs(30)));
        assert_eq!(remaining(ten, 4, 4), None);
    }

    #[test]
    fn phases_are_remembered_in_order() {
        let progress = Progress::new(true);
        drop(progress.phase("source", None));
        drop(progress.phase("build", None));
        let names: Vec<String> = progress.finished.borrow().iter().map(|(n, _)| n.clone()).collect();
        assert_eq!(names, ["source", "build"]);
        assert_eq!(progress.summary(), "");
    }
}
