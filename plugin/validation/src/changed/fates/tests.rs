// SPDX-License-Identifier: GPL-2.0-or-later
//! The fates of functions in a small image.

use super::*;

const MAP: &str = "\
ffffffff81000000 T _text
ffffffff81000000 T rmdir
ffffffff81001000 t walk.constprop.0
ffffffff81002000 t drain
ffffffff81003000 T tiny
ffffffff81003010 t split.part.0
ffffffff81004000 t init_once
ffffffff81005000 t init_once
ffffffff81006000 t hidden
ffffffff81007000 t quiet
ffffffff81008000 t blocker
ffffffff81009000 T _etext
";

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

fn function(name: &str) -> ChangedFunction {
    ChangedFunction { file: "fs/one.c".into(), function: name.into(), patches: vec![1], ..Default::default() }
}

fn local(name: &str, calls: &[(&str, &str)]) -> ChangedFunction {
    let calls: Vec<(String, String)> = calls.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect();
    ChangedFunction { local: true, callers: super::super::callers::callers(&calls), calls, ..function(name) }
}

#[test]
fn each_fate_has_its_ground() {
    let (objects, map) = (set(&["fs/one.o", "fs/two.c"]), SystemMap::parse(MAP));
    let executed = set(&["rmdir", "walk.constprop.0", "init_once"]);
    let traceable = set(&["rmdir", "walk.constprop.0", "drain", "tiny", "init_once", "hidden", "blocker"]);
    let config = Config::parse("CONFIG_A=y\n");
    let observed = Observed {
        objects: &objects,
        system_map: &map,
        object_symbols: None,
        config: Some(&config),
        executed: Some(&executed),
        traceable: Some(&traceable),
    };
    let in_file = |file: &str, f: ChangedFunction| ChangedFunction { file: file.into(), ..f };
    let under =
        |condition: &str, f: ChangedFunction| ChangedFunction { conditions: vec![condition.into()], ..f };
    for (function, fate, callers) in [
        (function("rmdir"), Fate::Executed, vec![]),
        (local("walk", &[]), Fate::Executed, vec![]),
        (local("drain", &[("rmdir", "drain")]), Fate::NotExecuted, vec![]),
        // small enough to have been copied into its caller as well
        (local("tiny", &[("rmdir", "tiny")]), Fate::Unknown, vec!["rmdir"]),
        (local("split", &[("rmdir", "split")]), Fate::Inlined, vec!["rmdir"]),
        (local("merged", &[("gone", "merged"), ("rmdir", "gone")]), Fate::Inlined, vec!["rmdir"]),
        // the caller has a symbol and did not run, so what it calls did not
        (local("merged", &[("blocker", "merged"), ("rmdir", "blocker")]), Fate::Inlined, vec![]),
        (local("unused", &[]), Fate::NotCompiled, vec![]),
        (function("dropped"), Fate::NotCompiled, vec![]),
        (local("init_once", &[]), Fate::Unknown, vec![]),
        (ChangedFunction { untraceable: true, ..function("hidden") }, Fate::Unknown, vec![]),
        (function("quiet"), Fate::Unknown, vec![]),
        (in_file("fs/other.c", function("rmdir")), Fate::NotCompiled, vec![]),
        (in_file("fs/two.c", function("rmdir")), Fate::Executed, vec![]),
        (in_file("include/one.h", local("leaf", &[])), Fate::Inlined, vec![]),
        (under("defined(CONFIG_B)", function("rmdir")), Fate::NotCompiled, vec![]),
        (under("defined(CONFIG_A)", function("rmdir")), Fate::Executed, vec![]),
        (under("defined(odd)", function("rmdir")), Fate::Executed, vec![]),
    ] {
        let name = format!("{} {:?}", function.function, function.conditions);
        let result = fates(vec![function], vec![], &observed, &observed);
        assert_eq!(result.functions[0].fate, fate, "{name}");
        assert_eq!(result.functions[0].executed_callers, callers, "{name}");
    }
    let blind = Observed { executed: None, ..observed };
    assert_eq!(fates(vec![function("rmdir")], vec![], &blind, &blind).functions[0].fate, Fate::Unknown);
    let by_object = BTreeMap::from([("fs/one.o".to_owned(), set(&["rmdir"]))]);
    let exact = Observed { object_symbols: Some(&by_object), ..observed };
    let namesake = fates(vec![local("init_once", &[("rmdir", "init_once")])], vec![], &exact, &exact);
    assert_eq!((namesake.functions[0].fate, namesake.executed()), (Fate::Inlined, 1));
}

#[test]
fn each_side_answers_for_what_it_has() {
    let objects = set(&["fs/one.o"]);
    let (base_map, patched_map) = (
        SystemMap::parse("1000 T old\n2000 T both\n3000 T _etext\n"),
        SystemMap::parse("1000 T new\n2000 T both\n3000 T _etext\n"),
    );
    let (base_run, patched_run) = (set(&["old", "both"]), set(&["new"]));
    let side = |system_map, executed| Observed {
        objects: &objects,
        system_map,
        object_symbols: None,
        config: None,
        executed: Some(executed),
        traceable: None,
    };
    let changed = vec![
        ChangedFunction { change: Change::Removed, ..function("old") },
        ChangedFunction { change: Change::Added, ..function("new") },
        function("both"),
    ];
    let result = fates(changed, vec![], &side(&base_map, &base_run), &side(&patched_map, &patched_run));
    assert_eq!(result.executed(), 3);
}

#[test]
fn the_summary_counts_what_ran_and_what_is_compiled() {
    let fate = |name: &str, fate| FunctionFate { changed: function(name), fate, executed_callers: vec![] };
    let functions = vec![fate("a", Fate::Executed), fate("b", Fate::NotCompiled), fate("c", Fate::Unknown)];
    let mixed = Executed { functions, outside_functions: vec![] };
    assert_eq!(mixed.summary(), "executed: 1 of 3 changed functions");
    assert_eq!((mixed.compiled(), mixed.not_executed()), (2, vec!["b", "c"]));
}
