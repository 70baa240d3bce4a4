// SPDX-License-Identifier: GPL-2.0-or-later
//! Work items of an untimed pass, from the events of the workqueues (workloads.md
//! 5.4): which functions were queued, how long they waited and ran, and when the last was done.

use std::collections::BTreeMap;

/// Written into the trace when the last operation has returned.
pub const END_MARK: &str = "END operations";

/// All items of one function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Items {
    /// Items that were queued.
    pub queued: u64,
    /// From its start to its end, blocked or running, of each item, us, ascending.
    pub durations: Vec<u64>,
    /// From being queued to its start, us, ascending.
    pub delays: Vec<u64>,
    /// From the return of the last operation to the end of the last item; 0 when that was before.
    pub drain: u64,
}

/// Items by function, and how many were queued and not ended at the same time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Works {
    /// By function.
    pub functions: BTreeMap<String, Items>,
    /// Largest number at one time, of all functions together.
    pub outstanding: u64,
}

/// The middle value, the lower one of two.
pub fn middle(ascending: &[u64]) -> Option<u64> {
    ascending.get(ascending.len().checked_sub(1)? / 2).copied()
}

/// Whether as many items of each function ended as were queued, from the text so far.
pub fn all_ended(text: &str) -> Result<bool, String> {
    let works = works(text, false)?;
    Ok(works.functions.values().all(|items| items.durations.len() as u64 == items.queued))
}

/// Reads the text of a trace with the events of workqueues. Items that were queued before it began do
/// not count.
///
/// # Errors
/// Events were lost, or with `whole` the mark of the end is missing.
pub fn works(text: &str, whole: bool) -> Result<Works, String> {
    let mut found = Works::default();
    // By the address of the item: (function, queued at), and with the start for those that run.
    let mut queued: BTreeMap<&str, (&str, u64)> = BTreeMap::new();
    let mut running: BTreeMap<&str, (&str, u64, u64)> = BTreeMap::new();
    let mut end = None;
    for line in text.lines() {
        if line.contains("LOST") {
            return Err(format!("the trace lost events: {}", line.trim()));
        }
        let Some((time, event)) = time_and_event(line) else { continue };
        let item = || word_after(event, "struct ").map(|item| item.trim_end_matches(':'));
        if event.ends_with(END_MARK) {
            end = Some(time);
        } else if event.starts_with("workqueue_queue_work: ") {
            let (Some(item), Some(function)) = (word_after(event, "struct="), word_after(event, "function="))
            else {
                return Err(format!("an event of an unknown form: {event}"));
            };
            found.functions.entry(function.to_owned()).or_default().queued += 1;
            queued.insert(item, (function, time));
            found.outstanding = found.outstanding.max((queued.len() + running.len()) as u64);
        } else if event.starts_with("workqueue_execute_start: ") {
            if let Some((item, (function, since))) = item().and_then(|i| Some((i, queued.remove(i)?))) {
                running.insert(item, (function, since, time));
            }
        } else if event.starts_with("workqueue_execute_end: ")
            && let Some((function, since, started)) = item().and_then(|item| running.remove(item))
        {
            let items = found.functions.entry(function.to_owned()).or_default();
            items.durations.push(time - started);
            items.delays.push(started - since);
            items.drain = end.map_or(0, |end| time - end);
        }
    }
    if whole && end.is_none() {
        return Err("the trace has no mark of its end; its buffer was too small or tracing stopped".into());
    }
    for items in found.functions.values_mut() {
        items.durations.sort_unstable();
        items.delays.sort_unstable();
    }
    Ok(found)
}

/// Time in us, and what stands behind it: `  kworker/0:1-17 [000] ..... 12.345678: event: ...`.
fn time_and_event(line: &str) -> Option<(u64, &str)> {
    let (_, rest) = line.split_once('[')?;
    let (before, event) = rest.split_once(": ")?;
    let time = before.rsplit(' ').next()?;
    let (seconds, fraction) = time.split_once('.')?;
    if fraction.len() != 6 {
        return None;
    }
    Some((seconds.parse::<u64>().ok()? * 1_000_000 + fraction.parse::<u64>().ok()?, event))
}

fn word_after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(key)?;
    rest.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# tracer: nop
     kworker/0:0-9  [000] .....     0.900000: workqueue_execute_end: work struct 00000000aaaa0000: function before
          init-1    [000] d....     1.000000: workqueue_queue_work: work struct=00000000aaaa1111 function=destroy_super_work workqueue=events req_cpu=8192 cpu=0
          init-1    [000] d....     1.000400: workqueue_queue_work: work struct=00000000aaaa2222 function=destroy_super_work workqueue=events req_cpu=8192 cpu=0
          init-1    [000] .....     1.000500: tracing_mark_write: END operations
     kworker/0:0-9  [000] .....     1.001000: workqueue_execute_start: work struct 00000000aaaa1111: function destroy_super_work
     kworker/0:0-9  [000] .....     1.001030: workqueue_execute_end: work struct 00000000aaaa1111: function destroy_super_work
     kworker/0:0-9  [000] .....     1.002000: workqueue_execute_start: work struct 00000000aaaa2222: function destroy_super_work
     kworker/0:0-9  [000] .....     1.012000: workqueue_execute_end: work struct 00000000aaaa2222: function destroy_super_work
";

    #[test]
    fn items_are_counted_and_timed_by_function() {
        let found = works(TEXT, true).expect("whole");
        assert_eq!(found.outstanding, 2);
        let items = &found.functions["destroy_super_work"];
        assert_eq!((items.queued, items.drain), (2, 11_500));
        assert_eq!(
            (items.durations.as_slice(), items.delays.as_slice()),
            (&[30, 10_000][..], &[1000, 1600][..])
        );
        assert_eq!(found.functions.len(), 1, "what was queued before does not count");
        assert_eq!(middle(&items.durations), Some(30));
        assert_eq!(middle(&[]), None);
    }

    #[test]
    fn items_under_way_are_seen() {
        assert_eq!(all_ended(TEXT), Ok(true));
        let (under_way, _) = TEXT.trim_end().rsplit_once('\n').expect("lines");
        assert_eq!(all_ended(under_way), Ok(false));
    }

    #[test]
    fn an_item_queued_again_while_it_runs_counts_twice() {
        let item = "work struct 00000000aaaa1111: function f";
        let queue = "workqueue_queue_work: work struct=00000000aaaa1111 function=f workqueue=events";
        let text = [
            ("1.000001", queue.to_owned()),
            ("1.000002", format!("workqueue_execute_start: {item}")),
            ("1.000003", queue.to_owned()),
            ("1.000004", format!("workqueue_execute_end: {item}")),
            ("1.000005", format!("workqueue_execute_start: {item}")),
            ("1.000009", format!("workqueue_execute_end: {item}")),
        ]
        .map(|(time, event)| format!(" k-9 [000] ..... {time}: {event}\n"))
        .concat();
        let found = works(&text, false).expect("good");
        let items = &found.functions["f"];
        assert_eq!((items.queued, items.durations.as_slice()), (2, &[2, 4][..]));
        assert_eq!((items.delays.as_slice(), found.outstanding), (&[1, 2][..], 2));
    }

    #[test]
    fn a_trace_with_gaps_is_refused() {
        assert!(works("CPU:0 [LOST 12 EVENTS]\n", false).expect_err("a gap").contains("lost"));
        assert!(works("", true).expect_err("no end").contains("no mark"));
    }
}
