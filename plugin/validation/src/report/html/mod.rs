// SPDX-License-Identifier: GPL-2.0-or-later
//! The page: self-contained, no script, no network; every boot as a dot.

mod plot;

use super::story::Story;
use super::{ReportError, Templates};
use crate::changed::{Change, Fate, FunctionFate};
use crate::findings::Findings;
use plot::Plot;
use serde::Serialize;

/// What the page shows beside the story.
#[derive(Debug, Serialize)]
struct Page {
    story: Story,
    plots: Vec<Plot>,
    builds: Vec<String>,
    functions: Vec<FunctionRow>,
    identities: Vec<Identity>,
    config: String,
    environment: Vec<(String, String)>,
    facts: Vec<(String, u64)>,
    protocol: String,
    started: String,
}

#[derive(Debug, Serialize)]
struct FunctionRow {
    function: String,
    file: String,
    patches: String,
    fate: String,
    ran: bool,
}

#[derive(Debug, Serialize)]
struct Identity {
    label: String,
    image: String,
    release: String,
    same_as: Option<String>,
}

/// The whole page.
pub fn render(findings: &Findings, templates: &Templates) -> Result<String, ReportError> {
    let page = Page {
        story: Story::of(findings),
        plots: plot::plots(findings),
        // Calls are counted in each build that was made.
        builds: findings.builds.iter().map(|b| b.label.clone()).collect(),
        functions: findings.executed.functions.iter().map(function).collect(),
        identities: findings
            .builds
            .iter()
            .map(|b| Identity {
                label: b.label.clone(),
                image: b.image_sha256.clone(),
                release: b.identity.release.clone(),
                same_as: b.same_image_as.clone(),
            })
            .collect(),
        config: findings.builds.first().map(|b| b.identity.config_sha256.clone()).unwrap_or_default(),
        environment: findings.environment.clone().into_iter().collect(),
        facts: findings.facts.clone().into_iter().collect(),
        protocol: findings.protocol_sha256.clone(),
        started: findings.provenance.started.clone(),
    };
    Ok(visible(&templates.render("html/report.html.j2", &page)?))
}

/// Control characters and those that turn the direction of text are shown as replacement
/// characters: nobody reads another text than the bytes say.
fn visible(page: &str) -> String {
    let turns = |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    page.chars().map(|c| if (c.is_control() && c != '\n') || turns(c) { '\u{fffd}' } else { c }).collect()
}

fn function(function: &FunctionFate) -> FunctionRow {
    let changed = &function.changed;
    let change = match changed.change {
        Change::Changed => "",
        Change::Added => "new, ",
        Change::Removed => "removed, ",
    };
    let fate = match function.fate {
        Fate::NotCompiled => "not compiled".to_owned(),
        Fate::Inlined if function.executed_callers.is_empty() => {
            "inlined into callers that did not run, or unused".into()
        }
        Fate::Inlined => format!("inlined into {}, which ran", function.executed_callers.join(", ")),
        Fate::NotExecuted => "not executed".into(),
        Fate::Executed => "executed".into(),
        Fate::Unknown => "cannot be observed".into(),
    };
    FunctionRow {
        function: changed.function.clone(),
        file: changed.file.clone(),
        patches: changed.patches.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
        fate: format!("{change}{fate}"),
        ran: function.ran(),
    }
}
