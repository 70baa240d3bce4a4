// SPDX-License-Identifier: GPL-2.0-or-later
//! The page: self-contained, no script, no network; every boot as a dot.

use super::names::metric_name;
use super::story::{Story, number};
use super::{ReportError, Templates};
use crate::findings::Findings;
use serde::Serialize;

/// Inner width of a plot in its own units.
const PLOT_WIDTH: f64 = 600.0;
const ROW_HEIGHT: f64 = 26.0;

#[derive(Debug, Serialize)]
struct Page {
    story: Story,
    plots: Vec<Plot>,
    builds: Vec<String>,
    functions: Vec<FunctionRow>,
    identities: Vec<Identity>,
    environment: Vec<(String, String)>,
}

/// One metric: a row of dots for each build.
#[derive(Debug, Serialize)]
struct Plot {
    title: String,
    unit: String,
    height: f64,
    left: String,
    right: String,
    rows: Vec<PlotRow>,
}

#[derive(Debug, Serialize)]
struct PlotRow {
    label: String,
    y: f64,
    median: String,
    dots: Vec<Dot>,
}

#[derive(Debug, Serialize)]
struct Dot {
    x: String,
    title: String,
}

#[derive(Debug, Serialize)]
struct FunctionRow {
    function: String,
    file: String,
    patches: String,
    fate: String,
}

#[derive(Debug, Serialize)]
struct Identity {
    label: String,
    image: String,
    release: String,
}

/// The whole page.
pub fn render(findings: &Findings, templates: &Templates) -> Result<String, ReportError> {
    let page = Page {
        story: Story::of(findings),
        plots: plots(findings),
        builds: findings.plan.builds.iter().map(|b| b.label.clone()).collect(),
        functions: findings
            .executed
            .functions
            .iter()
            .map(|f| FunctionRow {
                function: f.changed.function.clone(),
                file: f.changed.file.clone(),
                patches: f.changed.patches.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
                fate: fate(f),
            })
            .collect(),
        identities: findings
            .builds
            .iter()
            .map(|b| Identity {
                label: b.label.clone(),
                image: b.image_sha256.chars().take(16).collect(),
                release: b.identity.release.clone(),
            })
            .collect(),
        environment: findings.environment.clone().into_iter().collect(),
    };
    templates.render("html/report.html.j2", &page)
}

fn fate(function: &crate::changed::FunctionFate) -> String {
    use crate::changed::Fate;
    match function.fate {
        Fate::NotCompiled => "not compiled".into(),
        Fate::Inlined if function.executed_callers.is_empty() => "inlined or unused".into(),
        Fate::Inlined => format!("inlined into {}, executed", function.executed_callers.join(", ")),
        Fate::NotExecuted => "not executed".into(),
        Fate::Executed => "executed".into(),
        Fate::Unknown => "cannot be observed".into(),
    }
}

fn plots(findings: &Findings) -> Vec<Plot> {
    let mut keys: Vec<(String, String)> = Vec::new();
    for median in &findings.medians {
        let key = (median.workload.clone(), median.metric.clone());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.into_iter().map(|(workload, metric)| plot(findings, &workload, &metric)).collect()
}

fn plot(findings: &Findings, workload: &str, metric: &str) -> Plot {
    let of_metric: Vec<_> =
        findings.medians.iter().filter(|m| m.workload == workload && m.metric == metric).collect();
    let low = of_metric.iter().map(|m| m.median).fold(f64::MAX, f64::min);
    let high = of_metric.iter().map(|m| m.median).fold(f64::MIN, f64::max);
    // Equal values stand in the middle, not at an edge.
    let (left, right) = if high > low { (low, high) } else { (low - 1.0, high + 1.0) };
    let x = |value: f64| 20.0 + (value - left) / (right - left) * (PLOT_WIDTH - 40.0);
    let rows: Vec<PlotRow> = findings
        .plan
        .builds
        .iter()
        .enumerate()
        .map(|(index, build)| {
            let mut values: Vec<f64> = Vec::new();
            let dots = of_metric
                .iter()
                .filter(|m| m.build == build.label)
                .map(|m| {
                    values.push(m.median);
                    let seed = m.seed.map_or_else(String::new, |s| format!(", seed {s}"));
                    Dot {
                        x: format!("{:.1}", x(m.median)),
                        title: format!("boot {}{seed}: {}", m.boot, number(m.median)),
                    }
                })
                .collect();
            values.sort_by(f64::total_cmp);
            PlotRow {
                label: build.label.clone(),
                y: ROW_HEIGHT * (index as f64 + 0.5),
                median: values.get(values.len() / 2).map_or_else(String::new, |v| number(*v)),
                dots,
            }
        })
        .collect();
    Plot {
        title: metric_name(workload, metric).long,
        unit: of_metric.first().map(|m| m.unit.clone()).unwrap_or_default(),
        height: ROW_HEIGHT * rows.len() as f64,
        left: number(low),
        right: number(high),
        rows,
    }
}
