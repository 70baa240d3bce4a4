// SPDX-License-Identifier: GPL-2.0-or-later
//! Topologies of machines that are not here.

use super::*;
use crate::machine::synthetic::{self, Machine};

fn unknown(_: usize) -> Option<CoreKind> {
    None
}

/// Topology of `machine`, read without asking the processor of the machine the test runs on.
fn read(machine: &Machine) -> Topology {
    Topology::read_with(machine.tree().path(), unknown)
}

/// Performance, efficiency, physical performance, source.
fn lists(found: &Topology) -> (String, String, String, &'static str) {
    let (performance, efficiency) = (found.performance.to_string(), found.efficiency.to_string());
    (performance, efficiency, found.physical_performance.to_string(), found.source)
}

fn place(found: &Topology, arm: &str) -> String {
    found.places(arm).map_or_else(|stop| stop.to_string(), |list| list.to_string())
}

#[test]
fn as_shipped_counters_name_the_kinds() {
    let found = read(&synthetic::i7_12700kf());
    let physical = "0,2,4,6,8,10,12,14";
    assert_eq!(lists(&found), ("0-15".into(), "16-19".into(), physical.into(), "performance counters"));
    for (arm, cpus) in
        [("P1", "0"), ("p4", "0,2,4,6"), ("p6", "0,2,4,6,8,10"), ("p8", physical), ("W16", "0-15")]
    {
        assert_eq!(place(&found, arm), cpus, "{arm}");
    }
    let order = found.filling_order().0;
    assert_eq!(order[..10], [0, 2, 4, 6, 8, 10, 12, 14, 1, 3]);
    assert_eq!((order.len(), &order[16..]), (20, &[16, 17, 18, 19][..]));
}

#[test]
fn counters_may_stand_on_the_event_bus_only() {
    let files = vec![("bus/event_source/devices/cpu_core/cpus", "0-15")];
    let found = read(&Machine { files, ..synthetic::i7_12700kf() });
    assert_eq!((found.efficiency.to_string(), found.source), ("16-19".into(), "performance counters"));
}

#[test]
fn without_counters_the_processor_is_asked() {
    let tree = Machine { files: vec![], ..synthetic::i7_12700kf_smt_off() }.tree();
    let kind = |cpu| Some(if cpu < 16 { CoreKind::Performance } else { CoreKind::Efficiency });
    let found = Topology::read_with(tree.path(), kind);
    assert_eq!((found.efficiency.to_string(), found.source), ("16-19".into(), "CPUID"));
    let partly = |cpu| (cpu != 2).then_some(CoreKind::Performance);
    assert_eq!(Topology::read_with(tree.path(), partly).source, "frequency and siblings");
}

#[test]
fn without_both_frequency_and_siblings_tell() {
    for mut machine in [synthetic::i7_12700kf(), synthetic::i7_12700kf_smt_off()] {
        machine.files.clear();
        let found = read(&machine);
        assert_eq!((found.efficiency.to_string(), found.source), ("16-19".into(), "frequency and siblings"));
    }
    let mut machine = synthetic::i7_12700kf();
    machine.files.clear();
    machine.cores.iter_mut().for_each(|core| core.base_khz = None);
    assert_eq!(read(&machine).efficiency.to_string(), "16-19", "by the highest frequencies");
    // Two frequencies among cores of one kind: the best cores of a processor.
    machine.cores.truncate(8);
    machine.online = "0-15";
    assert_eq!(read(&machine).source, "one kind of core");
}

#[test]
fn without_second_threads_every_performance_core_still_counts() {
    let found = read(&synthetic::i7_12700kf_smt_off());
    let physical = "0,2,4,6,8,10,12,14";
    assert_eq!(lists(&found), (physical.into(), "16-19".into(), physical.into(), "performance counters"));
    assert_eq!(place(&found, "p8"), physical);
    let reason = place(&found, "w16");
    assert!(reason.contains("needs 16 threads") && reason.contains("there are 8"), "{reason}");
}

#[test]
fn without_efficiency_cores_there_is_one_kind() {
    let found = read(&synthetic::i7_12700kf_efficiency_off());
    let physical = "0,2,4,6,8,10,12,14";
    assert_eq!(lists(&found), ("0-15".into(), String::new(), physical.into(), "one kind of core"));
    // Some firmware leaves the second unit of counters, with an empty mask.
    let files = vec![("devices/cpu_core/cpus", "0-15"), ("devices/cpu_atom/cpus", "")];
    let found = read(&Machine { files, ..synthetic::i7_12700kf_efficiency_off() });
    assert_eq!((found.efficiency.0.len(), place(&found, "w16")), (0, "0-15".into()));
}

#[test]
fn another_numbering_is_followed() {
    let found = read(&synthetic::laptop());
    assert_eq!(lists(&found), ("0-1,10-11".into(), "2-9".into(), "0-1".into(), "performance counters"));
    assert_eq!(found.filling_order().0[..5], [0, 1, 10, 11, 2]);
    assert_eq!(place(&found, "w4"), "0-1,10-11");
    assert!(place(&found, "p4").contains("there are 2 (CPUs 0-1)"), "{}", place(&found, "p4"));
}

#[test]
fn a_virtual_machine_has_what_it_has() {
    let found = read(&synthetic::virtual_machine());
    assert_eq!(lists(&found), ("0-1".into(), String::new(), "0-1".into(), "one kind of core"));
    assert_eq!(place(&found, "p1"), "0");
}

#[test]
fn cpus_that_are_offline_are_left_out() {
    // CPU 4 offline: its sibling stands for the core. CPU 16 offline: no mask forgets it.
    let mut machine = synthetic::i7_12700kf();
    machine.online = "0-3,5-15,17-19";
    machine.cores[2].cpus = &[5];
    machine.cores.remove(8);
    let found = read(&machine);
    let physical = "0,2,5-6,8,10,12,14";
    assert_eq!(lists(&found), ("0-3,5-15".into(), "17-19".into(), physical.into(), "performance counters"));
    assert_eq!(place(&found, "p4"), "0,2,5-6");
    assert!(place(&found, "w16").contains("there are 15"));
}

#[test]
fn only_what_may_be_used_is_given_out() {
    let found = read(&synthetic::i7_12700kf()).limited_to(&"1-4,16".parse().expect("valid"));
    assert_eq!((found.performance.to_string(), found.efficiency.to_string()), ("1-4".into(), "16".into()));
    assert_eq!(place(&found, "p3"), "1-2,4", "the lowest that is left of each core");
    assert_eq!(found.limited_to(&CpuList::default()).filling_order(), CpuList::default());
}

#[test]
fn other_names_are_refused() {
    let found = read(&synthetic::i7_12700kf());
    for arm in ["", "p", "p0", "8", "x8", "p-1", "ü8"] {
        assert!(matches!(found.places(arm), Err(Stop::Usage(_))), "{arm}");
    }
}
