// SPDX-License-Identifier: GPL-2.0-or-later
//! KCIDB JSON before KCIDB's own validator (PyPI `kcidb-io`).

use super::experiment::{case, check, null};
use std::process::Command;

/// Exits 0 when the file is a valid report of the newest schema.
const VALIDATE: &str =
    "import sys, json, kcidb_io; kcidb_io.schema.LATEST.validate(json.load(open(sys.argv[1])))";

fn is_valid(path: &std::path::Path) -> (bool, String) {
    let python = std::env::var("KERNMARK_KCIDB_PYTHON")
        .expect("KERNMARK_KCIDB_PYTHON names a Python with kcidb-io; scripts/test sets it up");
    let out = Command::new(python).args(["-c", VALIDATE]).arg(path).output().expect("python starts");
    (out.status.success(), String::from_utf8_lossy(&out.stderr).lines().last().unwrap_or_default().to_owned())
}

#[test]
fn reports_of_good_and_failed_experiments_are_accepted() {
    for run in [null(), &check(&case("panics"), &["--boots", "2"]), &check(&case("wrong-arch"), &[])] {
        let path = run.place.path().join("bundle/report.kcidb.json");
        let (valid, said) = is_valid(&path);
        assert!(valid, "{said}\n{}", std::fs::read_to_string(&path).unwrap_or_default());
    }
}

#[test]
fn every_kind_of_report_is_accepted() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../validation/tests/report/golden");
    let mut seen = 0;
    for entry in std::fs::read_dir(golden).expect("goldens") {
        let path = entry.expect("entry").path();
        if path.to_string_lossy().ends_with(".kcidb.json") {
            let (valid, said) = is_valid(&path);
            assert!(valid, "{}: {said}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen} reports");
}

#[test]
fn the_validator_refuses_what_is_wrong() {
    let text =
        std::fs::read_to_string(null().place.path().join("bundle/report.kcidb.json")).expect("readable");
    let place = tempfile::tempdir().expect("temporary directory");
    let path = place.path().join("report.json");
    for (from, to) in [("\"DONE\"", "\"LONGER\""), ("\"origin\": \"kernmark\"", "\"origin\": \"Kern-Mark\"")]
    {
        assert!(text.contains(from), "{from}");
        std::fs::write(&path, text.replace(from, to)).expect("writable");
        assert!(!is_valid(&path).0, "{to} was accepted");
    }
}
