// SPDX-License-Identifier: GPL-2.0-or-later
//! Reports of whole findings against goldens, which are plain files that other
//! programs can read. `UPDATE_GOLDEN=1` rewrites them.

use kernmark_validation::findings::Findings;
use kernmark_validation::report::{Envelope, FORMATS, KcidbError, ReportError, Templates, compose};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One findings file for each case in `findings/`, one file for each case and format in `golden/`.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report")
}

fn cases() -> Vec<(String, Findings)> {
    let mut cases: Vec<(String, Findings)> = std::fs::read_dir(root().join("findings"))
        .expect("the cases are there")
        .map(|entry| {
            let path = entry.expect("entry").path();
            assert_eq!(
                path.extension().and_then(|e| e.to_str()),
                Some("json"),
                "{} is a stray",
                path.display()
            );
            let name = path.file_stem().expect("named").to_str().expect("utf-8").to_owned();
            let text = std::fs::read_to_string(&path).expect("readable");
            let findings = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            (name, findings)
        })
        .collect();
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(!cases.is_empty(), "there are no cases");
    cases
}

#[test]
fn every_report_is_as_agreed() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let golden = root().join("golden");
    let mut expected = BTreeSet::new();
    let mut wrong = Vec::new();
    for (case, findings) in cases() {
        for format in FORMATS {
            let name = format!("{case}.{}", format.file.trim_start_matches("report."));
            let path = golden.join(&name);
            let made = (format.render)(&findings, &Templates::default())
                .unwrap_or_else(|e| panic!("{case} as {}: {e}", format.name));
            if update {
                std::fs::write(&path, &made).expect("writable");
            }
            if std::fs::read_to_string(&path).ok().as_deref() != Some(made.as_str()) {
                wrong.push(name.clone());
            }
            expected.insert(name);
        }
    }
    let found: BTreeSet<String> = std::fs::read_dir(&golden)
        .expect("the goldens are there")
        .map(|e| e.expect("entry").file_name().into_string().expect("utf-8"))
        .collect();
    let strays: Vec<_> = found.difference(&expected).collect();
    assert!(strays.is_empty(), "no case makes {strays:?}");
    assert!(wrong.is_empty(), "differ from their goldens: {wrong:?}; UPDATE_GOLDEN=1 rewrites them");
}

/// Header lines and body of a message.
fn parts(message: &str) -> (Vec<&str>, &str) {
    let (headers, body) = message.split_once("\n\n").expect("headers end");
    (headers.lines().collect(), body)
}

fn rendered(format: &str) -> Vec<(String, Findings, String)> {
    let format = kernmark_validation::report::format(format).expect("a format");
    let render = |(case, findings): (String, Findings)| {
        let made = (format.render)(&findings, &Templates::default()).expect("renders");
        (case, findings, made)
    };
    cases().into_iter().map(render).collect()
}

#[test]
fn mails_keep_the_manners() {
    for (case, findings, mail) in rendered("mail") {
        let (headers, body) = parts(&mail);
        assert!(mail.bytes().all(|b| b == b'\n' || (b' '..=b'~').contains(&b)), "{case} is not ASCII");
        assert!(body.lines().count() <= 45, "{case} has {} lines", body.lines().count());
        assert!(body.len() <= 4096, "{case} has {} bytes", body.len());
        for line in body.lines().filter(|l| !l.contains("://")) {
            assert!(line.len() <= 72, "{case}: {line}");
        }
        assert!(headers.iter().all(|l| l.len() <= 78), "{case}: {headers:?}");
        let names: Vec<&str> =
            headers.iter().filter(|l| !l.starts_with(' ')).filter_map(|l| l.split(':').next()).collect();
        let allowed = [
            "From",
            "To",
            "Subject",
            "Date",
            "Message-ID",
            "In-Reply-To",
            "References",
            "Auto-Submitted",
            "MIME-Version",
            "Content-Type",
            "Content-Transfer-Encoding",
        ];
        assert!(names.iter().all(|n| allowed.contains(n)), "{case}: {names:?}");
        assert!(headers.contains(&"Auto-Submitted: auto-replied"), "{case}");
        let first = body.lines().next().expect("a line");
        let verdict: String = first.chars().take_while(|c| c.is_ascii_uppercase() || *c == ' ').collect();
        assert!(verdict.trim().len() > 3, "{case}: the verdict is not in line 1: {first}");
        let executed = body.lines().any(|l| l.starts_with("Executed: "));
        assert!(executed, "{case} does not say what was executed");
        if findings.provenance.operator.is_none() {
            assert!(body.ends_with("private run; not sent\n"), "{case}: {body}");
        }
    }
}

#[test]
fn nothing_executed_stands_in_the_first_line() {
    let mut seen = 0;
    for (case, findings, mail) in rendered("mail") {
        let nothing = findings.executed.changed() > 0 && findings.executed.executed() == 0;
        if nothing && !case.starts_with("invalid") {
            seen += 1;
            let (_, body) = parts(&mail);
            let first = body.lines().next().expect("a line");
            assert!(first.contains("0 of"), "{case}: {first}");
        }
    }
    assert!(seen > 1);
}

#[test]
fn a_mail_reader_sees_what_was_meant() {
    use mail_parser::MessageParser;
    for (case, findings, mail) in rendered("mail") {
        let message = MessageParser::default().parse(mail.as_bytes()).expect("a message");
        let subject = message.subject().expect("a subject");
        let original = match &findings.series.cover {
            Some(cover) if !subject.contains("2/2") => cover.subject.clone(),
            _ => findings.series.patches.last().expect("patches").subject.clone(),
        };
        if case == "hostile" {
            assert!(message.in_reply_to().as_text().is_none(), "a broken id is not answered");
            assert!(message.cc().is_none() && message.bcc().is_none(), "an address was smuggled");
        } else {
            assert_eq!(subject, format!("Re: {original}"), "{case}");
            let answered = message.in_reply_to().as_text().expect("an id").to_owned();
            let references = format!("{:?}", message.references());
            assert!(references.contains(&answered), "{case}: {references}");
        }
        let to = message.to().and_then(|t| t.first()).and_then(|a| a.address()).expect("somebody");
        assert!(findings.series.patches[0].author.contains(to), "{case}: {to}");
        assert!(message.date().is_some() && message.message_id().is_some(), "{case}");
    }
}

#[test]
fn times_are_never_told_from_an_emulator() {
    for (case, findings, mail) in rendered("mail") {
        if findings.plan.evidence == kernmark_validation::plan::Evidence::Path {
            let (_, body) = parts(&mail);
            for word in [" ns ", " us ", " ms ", "SLOWER", "FASTER", "slower", "faster"] {
                assert!(!body.contains(word), "{case} says {word:?}");
            }
        }
    }
}

#[test]
fn pages_hold_no_script_and_ask_nobody() {
    for (case, _, page) in rendered("html") {
        for forbidden in ["<script", "<img", "onerror=\"", "url(", "@import", "<b>"] {
            assert!(!page.contains(forbidden), "{case} holds {forbidden}");
        }
        // A hostile subject may well say so in the text; no tag may.
        let tags: Vec<&str> =
            page.split('<').skip(1).map(|t| t.split('>').next().unwrap_or_default()).collect();
        for forbidden in ["src=", "href=", "javascript:", "onload="] {
            assert!(tags.iter().all(|tag| !tag.contains(forbidden)), "{case} has a tag with {forbidden}");
        }
        let turned = page.chars().find(|c| ('\u{202a}'..='\u{202e}').contains(c) || *c == '\u{1b}');
        assert_eq!(turned, None, "{case}: nobody reads another text than the bytes say");
        assert!(page.contains("name=\"viewport\""), "{case}");
        assert!(page.starts_with("<!DOCTYPE html>"), "{case}");
    }
}

#[test]
fn an_envelope_is_used_as_given_or_refused() {
    let (_, findings) = cases().into_iter().find(|(name, _)| name == "path-longer").expect("the case");
    let envelope = Envelope {
        from: "J\u{f6}rg <bot@k.example.org>".into(),
        message_id: "42@k.example.org".into(),
        date: "2026-10-06T08:00:00Z".into(),
        cc: vec!["List <list@example.org>".into(), "ada@example.org".into(), "list@example.org".into()],
    };
    let mail = compose(&findings, &Templates::default(), &envelope).expect("a mail");
    for line in [
        "From: =?utf-8?q?J=C3=B6rg?= <bot@k.example.org>",
        "Cc: List <list@example.org>",
        "Date: Tue, 6 Oct 2026 08:00:00 +0000",
        "Message-ID: <42@k.example.org>",
    ] {
        assert!(mail.contains(&format!("{line}\n")), "{mail}");
    }
    for cc in ["nobody", "a@b\r\nBcc: c@d", "a@b, c@d"] {
        let envelope = Envelope { cc: vec![cc.into()], ..envelope.clone() };
        let error = compose(&findings, &Templates::default(), &envelope).expect_err("no address");
        assert!(error.to_string().contains("is no address"), "{error}");
    }
}

/// The schema takes no null anywhere.
fn has_null(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Null => true,
        serde_json::Value::Array(values) => values.iter().any(has_null),
        serde_json::Value::Object(fields) => fields.values().any(has_null),
        _ => false,
    }
}

#[test]
fn kcidb_objects_keep_the_rules_of_the_schema() {
    for (case, _, text) in rendered("kcidb") {
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(report["version"], serde_json::json!({"major": 5, "minor": 3}), "{case}");
        assert!(!has_null(&report) && !text.contains("\\u0000"), "{case}");
        let ids: BTreeSet<&str> = ["checkouts", "builds", "tests"]
            .iter()
            .flat_map(|kind| report[kind].as_array().expect("a list"))
            .map(|object| object["id"].as_str().expect("an id"))
            .collect();
        assert!(ids.iter().all(|id| id.starts_with("kernmark:")), "{case}");
        for (kind, parent, of) in [("builds", "checkout_id", "ck"), ("tests", "build_id", "b")] {
            for object in report[kind].as_array().expect("a list") {
                let id = object[parent].as_str().expect("a parent");
                assert!(ids.contains(id) && id.starts_with(&format!("kernmark:{of}-")), "{case}: {id}");
            }
        }
        let branches: BTreeSet<&str> = report["checkouts"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|c| c["git_repository_branch"].as_str().expect("a branch"))
            .collect();
        assert_eq!(
            branches.len(),
            report["checkouts"].as_array().expect("a list").len(),
            "{case}: would merge"
        );
        let failed = report["tests"].as_array().expect("a list").iter().any(|t| t["status"] == "FAIL");
        assert_eq!(failed, case == "time-slower", "{case}: FAIL is for SLOWER");
    }
}

#[test]
fn a_rerun_has_ids_of_its_own() {
    let (_, findings) = cases().into_iter().find(|(name, _)| name == "path-longer").expect("the case");
    let ids = |findings: &Findings| -> BTreeSet<String> {
        let format = kernmark_validation::report::format("kcidb").expect("a format");
        let text = (format.render)(findings, &Templates::default()).expect("renders");
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        ["checkouts", "builds", "tests"]
            .iter()
            .flat_map(|kind| report[kind].as_array().expect("a list").clone())
            .map(|object| object["id"].as_str().expect("an id").to_owned())
            .collect()
    };
    let mut rerun = findings.clone();
    rerun.provenance.started = "2026-10-06T12:00:00Z".into();
    assert_eq!(ids(&findings), ids(&findings));
    assert!(ids(&findings).is_disjoint(&ids(&rerun)));
}

#[test]
fn numbers_that_are_none_never_reach_kcidb() {
    let (_, findings) = cases().into_iter().find(|(name, _)| name == "path-longer").expect("the case");
    let format = kernmark_validation::report::format("kcidb").expect("a format");
    let refused = |findings: &Findings| match (format.render)(findings, &Templates::default()) {
        Err(error @ ReportError::Kcidb(KcidbError::NotFinite { .. })) => error.to_string(),
        other => panic!("not refused: {other:?}"),
    };
    let mut broken = findings.clone();
    broken.medians[2].median = f64::NAN;
    assert!(
        refused(&broken).contains("kernmark.kernfs.rmdir.scx-off.remove of base"),
        "{}",
        refused(&broken)
    );
    for value in [f64::INFINITY, f64::NAN] {
        let mut broken = findings.clone();
        for comparison in &mut broken.comparison.comparisons {
            comparison.verdict.change_percent = Some(value);
        }
        assert!(refused(&broken).contains("the change of"), "{}", refused(&broken));
    }
    let mut foreign = findings;
    foreign.provenance.origin = "Our-Lab".into();
    let error = (format.render)(&foreign, &Templates::default()).expect_err("refused").to_string();
    assert!(error.contains("Our-Lab"), "{error}");
}
