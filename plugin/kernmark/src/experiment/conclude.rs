// SPDX-License-Identifier: GPL-2.0-or-later
//! What was built and booted, to findings.

use super::Runtime;
use super::kernels::Kernels;
use super::measure::Measured;
use super::prepare::Prepared;
use kernmark_validation::calls::executed;
use kernmark_validation::changed::Executed;
use kernmark_validation::changed::boards::layout_or_locking;
use kernmark_validation::changed::config::Config;
use kernmark_validation::changed::fates::{Observed, fates};
use kernmark_validation::changed::system_map::SystemMap;
use kernmark_validation::conclude::{self, Known};
use kernmark_validation::findings::{Findings, Provenance};
use std::collections::BTreeSet;
use std::time::Duration;

/// Compares, decides and gathers everything a report can say.
pub fn conclude(
    runtime: &Runtime,
    prepared: Prepared,
    kernels: Kernels,
    measured: Measured,
    started: &str,
    elapsed: Duration,
) -> Findings {
    let executed = judge_functions(&prepared, &kernels, &measured);
    let mut not_available = measured.not_available.clone();
    not_available
        .extend(prepared.code.problems.iter().map(|p| ("some changed functions".to_owned(), p.to_string())));
    let boots = measured.boot_logs();
    let observed: Vec<_> = measured.observed.iter().map(|(label, log)| (label.as_str(), log)).collect();
    let known = Known {
        builds: kernels.builds.iter().map(|b| b.record.clone()).collect(),
        executed,
        incidents: kernels.incidents.iter().chain(&measured.incidents).cloned().collect(),
        not_available,
        for_boards: layout_or_locking(&prepared.code).iter().map(ToString::to_string).collect(),
        tampering: kernels.tampering,
        excerpt: measured.excerpt.clone(),
        provenance: Provenance {
            tool_version: env!("CARGO_PKG_VERSION").into(),
            tree: prepared.tree.title.clone(),
            base_commit: prepared.tree.commit.clone(),
            kernel_config: prepared.configuration.fragment().name().into(),
            repeat: runtime.repeat.clone(),
            started: started.to_owned(),
            duration_seconds: elapsed.as_secs(),
            operator: runtime.operator.clone(),
            bundle_url: None,
            origin: "kernmark".into(),
        },
        series: prepared.series,
        plan: prepared.plan,
    };
    conclude::conclude(known, &boots, &observed)
}

/// What became of each changed function, from the images and the untimed boots of base and the last build.
fn judge_functions(prepared: &Prepared, kernels: &Kernels, measured: &Measured) -> Executed {
    let code = &prepared.code;
    let planned = &prepared.plan.builds;
    let made = |label: Option<&str>| kernels.builds.iter().find(|b| Some(b.record.label.as_str()) == label);
    let base = made(planned.first().map(|b| b.label.as_str()));
    // Where the whole series cannot be built, what comes nearest to it.
    let last = made(planned.last().map(|b| b.label.as_str())).or(kernels.builds.last());
    let (Some(base), Some(last)) = (base, last) else {
        let nothing = Side::default();
        return fates(code.functions.clone(), code.outside.clone(), &nothing.observed(), &nothing.observed());
    };
    let side = |build: &crate::kernel::Build| {
        let booted = build.record.same_image_as.as_deref().unwrap_or(&build.record.label);
        let log = measured.observed.iter().find(|(label, _)| label == booted).map(|(_, log)| log);
        Side {
            objects: build.objects.clone(),
            system_map: SystemMap::parse(&build.system_map),
            config: Some(Config::parse(&build.config)),
            executed: log.and_then(executed),
        }
    };
    let (base, last) = (side(base), side(last));
    fates(code.functions.clone(), code.outside.clone(), &base.observed(), &last.observed())
}

/// One side as the judgement takes it.
#[derive(Default)]
struct Side {
    objects: BTreeSet<String>,
    system_map: SystemMap,
    config: Option<Config>,
    executed: Option<BTreeSet<String>>,
}

impl Side {
    fn observed(&self) -> Observed<'_> {
        Observed {
            objects: &self.objects,
            system_map: &self.system_map,
            object_symbols: None,
            config: self.config.as_ref(),
            executed: self.executed.as_ref(),
            traceable: None,
        }
    }
}
