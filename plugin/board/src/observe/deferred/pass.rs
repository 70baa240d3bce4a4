// SPDX-License-Identifier: GPL-2.0-or-later
//! The untimed pass over work items: what operations leave to workqueues, item by item.

use super::super::tracefs::Tracefs;
use super::super::{Seen, not_available};
use super::works::{END_MARK, Works, all_ended, middle, works};
use crate::emit::Emitter;
use crate::measure::report_facts;
use crate::stop::Stop;
use crate::workloads::{Session, Workload};
use std::time::{Duration, Instant};

/// Operations that are traced.
const OPERATIONS: u64 = 16;
/// How often the trace is looked at.
const GLANCE: Duration = Duration::from_millis(50);
/// Looks at a trace that has not grown, after which nothing is expected any more.
const STILL: u32 = 4;
/// What has not been done by then is missing.
const LIMIT: Duration = Duration::from_secs(10);

/// Events of the kernel that are switched on.
pub const EVENTS: [&str; 3] = [
    "workqueue/workqueue_queue_work",
    "workqueue/workqueue_execute_start",
    "workqueue/workqueue_execute_end",
];

/// Reports the work items that operations of `session` leave, where it says which function ends them.
///
/// # Errors
/// An operation failed, or results cannot be written. What cannot be seen is reported, not an error.
pub fn report(
    workload: &Workload,
    arm: &str,
    session: &mut dyn Session,
    out: &mut Emitter,
) -> Result<(), Stop> {
    let Some(last) = session.last_work() else { return Ok(()) };
    let found = match Tracefs::find() {
        Ok(tracefs) => traced(&tracefs, session, last)?,
        Err(reason) => Err(reason),
    };
    match found {
        Ok(works) => report_facts(workload.id, arm, &facts(&works), out),
        Err(reason) => not_available(workload, arm, "deferred work items", reason, out),
    }
}

fn traced(tracefs: &Tracefs, session: &mut dyn Session, last: &str) -> Result<Seen<Works>, Stop> {
    let tracing = match tracefs.events(&EVENTS) {
        Ok(tracing) => tracing,
        Err(reason) => return Ok(Err(reason)),
    };
    tracing.start()?;
    for _ in 0..OPERATIONS {
        session.observe(&mut |_| Ok(()))?;
    }
    tracing.mark(END_MARK)?;
    let start = Instant::now();
    let (mut length, mut still) = (0, 0);
    while start.elapsed() < LIMIT && still < STILL {
        crate::signals::check()?;
        std::thread::sleep(GLANCE);
        let text = match tracing.read() {
            Ok(text) => text,
            Err(reason) => return Ok(Err(reason)),
        };
        let unchanged = text.len() == length && all_ended(&text).unwrap_or(true) && text.contains(last);
        still = if unchanged { still + 1 } else { 0 };
        length = text.len();
    }
    tracing.stop()?;
    Ok(tracing.read().and_then(|text| works(&text, true)).and_then(|found| whole(found, last)))
}

/// Each operation must have had its last item, and that item its end.
fn whole(found: Works, last: &str) -> Result<Works, String> {
    let items = found.functions.get(last);
    let (queued, ended) = items.map_or((0, 0), |items| (items.queued, items.durations.len() as u64));
    if (queued, ended) == (OPERATIONS, OPERATIONS) {
        Ok(found)
    } else {
        Err(format!("{queued} items of {last} were queued and {ended} ended, {OPERATIONS} were expected"))
    }
}

/// Facts of the functions that at least every other operation leaves an item to: what a machine does
/// for itself now and then is left out.
fn facts(works: &Works) -> Vec<(String, u64)> {
    let mut facts =
        vec![("work.operations".to_owned(), OPERATIONS), ("work.outstanding".to_owned(), works.outstanding)];
    for (function, items) in works.functions.iter().filter(|(_, items)| items.queued * 2 >= OPERATIONS) {
        facts.push((format!("work.{function}.items"), items.queued));
        facts.extend(middle(&items.durations).map(|us| (format!("work.{function}.duration_us"), us)));
        facts.extend(middle(&items.delays).map(|us| (format!("work.{function}.delay_us"), us)));
        facts.push((format!("work.{function}.drain_us"), items.drain));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::super::works::Items;
    use super::*;

    fn found(queued: u64, ended: usize) -> Works {
        let items = Items { queued, durations: vec![7; ended], delays: vec![3; ended], drain: 9 };
        Works { functions: [("destroy_super_work".to_owned(), items)].into(), outstanding: 4 }
    }

    #[test]
    fn an_item_that_is_missing_or_not_done_makes_it_not_available() {
        assert!(whole(found(16, 16), "destroy_super_work").is_ok());
        for (works, expected) in
            [(found(15, 15), "15 items"), (found(16, 12), "12 ended"), (found(17, 17), "17 items")]
        {
            let reason = whole(works, "destroy_super_work").expect_err("not whole");
            assert!(reason.contains(expected), "{reason}");
        }
        assert!(whole(found(16, 16), "other_work").expect_err("not there").contains("0 items of other_work"));
    }

    #[test]
    fn facts_leave_out_what_a_machine_does_for_itself() {
        let mut works = found(16, 16);
        works.functions.insert("vmstat_update".into(), Items { queued: 2, ..Items::default() });
        let names: Vec<String> =
            facts(&works).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            names,
            [
                "work.operations=16",
                "work.outstanding=4",
                "work.destroy_super_work.items=16",
                "work.destroy_super_work.duration_us=7",
                "work.destroy_super_work.delay_us=3",
                "work.destroy_super_work.drain_us=9"
            ]
        );
    }
}
