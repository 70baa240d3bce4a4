// SPDX-License-Identifier: GPL-2.0-or-later
//! Which options have to be switched on for one option to be on.
//!
//! Follows `depends on`, and for options without a prompt the options that
//! select them, and takes the way with the fewest new options. The result is a
//! proposal: `make olddefconfig` decides, and the builder checks what stuck.

use super::config::Config;
use super::expression::{Expression, Operator};
use super::kconfig::{Definition, Kconfig};
use std::collections::BTreeSet;

/// Why an option cannot be switched on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No Kconfig file of this architecture has it.
    #[error("no Kconfig file that x86 reads has an option {0}")]
    NoSuchOption(String),
    /// It depends on something that is off for good, or off while this is on.
    #[error("{option} needs \"{needs}\", which does not hold in this configuration")]
    Excluded {
        /// The option.
        option: String,
        /// The part of its dependencies.
        needs: String,
    },
    /// It has no prompt, and nothing that selects it can be switched on.
    #[error("{0} cannot be set by hand, and no option that selects it can be switched on")]
    Hidden(String),
    /// The search was given up.
    #[error("the dependencies of {0} are too many to follow, or go in a circle: build it on another machine")]
    TooDeep(String),
}

/// Steps after which the search for one option is given up.
const MAX_STEPS: u32 = 20_000;
/// Longest chain of dependencies.
const MAX_DEPTH: usize = 24;

/// The options to switch on for `option`, dependencies first; empty when it is on.
///
/// # Errors
/// [`Refusal`] says what stands against it.
pub fn switch_on(kconfig: &Kconfig, config: &Config, option: &str) -> Result<Vec<String>, Refusal> {
    let mut search = Search { kconfig, config, steps: 0, open: Vec::new() };
    let mut chosen = Chosen::default();
    search.want(option, &mut chosen)?;
    Ok(chosen.by_hand)
}

/// What the search has switched on so far.
#[derive(Debug, Clone, Default)]
struct Chosen {
    /// To be written into the configuration, dependencies first.
    by_hand: Vec<String>,
    /// These and what follows from them.
    on: BTreeSet<String>,
}

struct Search<'a> {
    kconfig: &'a Kconfig,
    config: &'a Config,
    steps: u32,
    /// Options whose dependencies are being followed.
    open: Vec<String>,
}

impl Search<'_> {
    fn want(&mut self, option: &str, chosen: &mut Chosen) -> Result<(), Refusal> {
        if chosen.on.contains(option) || self.config.is_on(option) {
            return Ok(());
        }
        self.steps += 1;
        if self.steps > MAX_STEPS || self.open.len() >= MAX_DEPTH || self.open.iter().any(|o| o == option) {
            return Err(Refusal::TooDeep(option.to_owned()));
        }
        let definitions = self.kconfig.definitions(option);
        if definitions.is_empty() {
            return Err(Refusal::NoSuchOption(option.to_owned()));
        }
        self.open.push(option.to_owned());
        let best = self.cheapest_way(option, definitions, chosen);
        self.open.pop();
        *chosen = best?;
        chosen.on.insert(option.to_owned());
        Ok(())
    }

    /// Tries all entries of an option, each by hand, by default and by select.
    fn cheapest_way(
        &mut self,
        option: &str,
        definitions: &[Definition],
        chosen: &Chosen,
    ) -> Result<Chosen, Refusal> {
        let mut best: Option<Chosen> = None;
        let mut refusal = None;
        let mut offer = |way: Result<Chosen, Refusal>| match way {
            Ok(way) if best.as_ref().is_none_or(|b| way.by_hand.len() < b.by_hand.len()) => best = Some(way),
            Ok(_) => {}
            Err(error) => {
                refusal.get_or_insert(error);
            }
        };
        for definition in definitions {
            let dependencies = self.kconfig.dependencies(definition);
            // A default does not count where a .config says "is not set".
            if let Some(prompt) = &definition.prompt {
                let mut way = chosen.clone();
                let all = dependencies.iter().copied().chain([prompt]);
                let visible = self.satisfy_all(option, all, &mut way);
                let settable = visible.is_ok();
                offer(visible.map(|()| {
                    way.by_hand.push(option.to_owned());
                    way
                }));
                if settable {
                    continue;
                }
            }
            for default in &definition.default_on {
                let mut way = chosen.clone();
                let all = dependencies.iter().copied().chain([default]);
                offer(self.satisfy_all(option, all, &mut way).map(|()| way));
            }
        }
        let by_hand = definitions.iter().any(|d| d.prompt.is_some());
        if best.is_none() && !by_hand {
            let mut best_selector: Option<Chosen> = None;
            for (selector, condition) in self.kconfig.selectors(option) {
                let mut way = chosen.clone();
                let done =
                    self.want(selector, &mut way).and_then(|()| self.satisfy(selector, condition, &mut way));
                let shorter = best_selector.as_ref().is_none_or(|b| way.by_hand.len() < b.by_hand.len());
                if done.is_ok() && shorter {
                    best_selector = Some(way);
                }
            }
            return best_selector.ok_or_else(|| Refusal::Hidden(option.to_owned()));
        }
        best.ok_or_else(|| refusal.unwrap_or_else(|| Refusal::Hidden(option.to_owned())))
    }

    fn satisfy_all<'e>(
        &mut self,
        option: &str,
        all: impl Iterator<Item = &'e Expression>,
        chosen: &mut Chosen,
    ) -> Result<(), Refusal> {
        for expression in all {
            self.satisfy(option, expression, chosen)?;
        }
        Ok(())
    }

    fn satisfy(&mut self, option: &str, expression: &Expression, chosen: &mut Chosen) -> Result<(), Refusal> {
        if self.holds(expression, chosen) {
            return Ok(());
        }
        match expression {
            Expression::Option(wanted) => self.want(wanted, chosen),
            Expression::Compare { option: wanted, value, operator }
                if matches!(
                    (value.as_str(), operator),
                    ("y", Operator::Equal) | ("n", Operator::Unequal)
                ) =>
            {
                self.want(wanted, chosen)
            }
            Expression::And(all) => self.satisfy_all(option, all.iter(), chosen),
            Expression::Or(any) => {
                let mut best: Option<Chosen> = None;
                let mut refusal = None;
                for one in any {
                    let mut way = chosen.clone();
                    match self.satisfy(option, one, &mut way) {
                        Ok(()) if best.as_ref().is_none_or(|b| way.by_hand.len() < b.by_hand.len()) => {
                            best = Some(way);
                        }
                        Ok(()) => {}
                        Err(error) => {
                            refusal.get_or_insert(error);
                        }
                    }
                }
                match (best, refusal) {
                    (Some(best), _) => *chosen = best,
                    (None, refusal) => return Err(refusal.unwrap_or_else(|| excluded(option, expression))),
                }
                Ok(())
            }
            Expression::Yes
            | Expression::No
            | Expression::Module
            | Expression::Compare { .. }
            | Expression::Not(_) => Err(excluded(option, expression)),
        }
    }

    fn holds(&self, expression: &Expression, chosen: &Chosen) -> bool {
        expression.holds(&|name| {
            if chosen.on.contains(name) {
                Some("y".to_owned())
            } else {
                self.config.value(name).map(str::to_owned)
            }
        })
    }
}

fn excluded(option: &str, needs: &Expression) -> Refusal {
    Refusal::Excluded { option: option.to_owned(), needs: needs.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &[(&str, &str)] = &[
        (
            "Kconfig",
            "source \"fs/Kconfig\"\nsource \"arch/$(SRCARCH)/Kconfig\"\nsource \"../etc/x\"\nsource \"Kconfig\"\n",
        ),
        ("arch/x86/Kconfig", "config X86\n\tdef_bool y\nconfig SMP\n\tbool \"cpus\"\n"),
        (
            "fs/Kconfig",
            "\
menuconfig BLOCK
\tbool \"Block layer\" if EXPERT
\tdefault y
\thelp
\t  depends on words, not on options:

\t  config NOT_AN_OPTION
config EXPERT
\tbool \"expert\"
if BLOCK
menu \"Disks\"
\tdepends on SMP && !UML
config ONE_FS
\ttristate \"one\"
\tdepends on (NET || INET) && CRYPTO_OPTION
\tselect IOMAP
endmenu
endif
config CRYPTO_OPTION
\tbool
\tdefault y if CRYPTO
config CRYPTO
\tbool 'crypto if you like' if EXPERT || X86
config NET
\tbool \"net\"
config INET
\tbool \"inet\"
\tdepends on NET
config IOMAP
\tbool
config TINY
\tbool \"tiny\"
\tdepends on !SMP
config MODULE_ONLY
\ttristate \"m\"
\tdepends on m
config ORPHAN
\tbool
config LOOP_A
\tbool \"a\"
\tdepends on LOOP_B
config LOOP_B
\tbool \"b\"
\tdepends on LOOP_A
choice
\tprompt \"level\"
\tdepends on NET
config LEVEL_HIGH
\tbool \"high\"
endchoice
config TWICE
\tbool \"first\"
\tdepends on NOWHERE
config TWICE
\tbool \"second\"
\tdepends on NET
",
        ),
    ];

    fn needed(option: &str, config: &str) -> String {
        let kconfig =
            Kconfig::read(&|path| TREE.iter().find(|(p, _)| *p == path).map(|(_, text)| (*text).to_owned()));
        match switch_on(&kconfig, &Config::parse(config), option) {
            Ok(options) => options.join(" "),
            Err(refusal) => refusal.to_string(),
        }
    }

    #[test]
    fn dependencies_come_first() {
        for (option, config, expected) in [
            ("ONE_FS", "", "EXPERT BLOCK SMP NET CRYPTO ONE_FS"),
            ("ONE_FS", "CONFIG_BLOCK=y\nCONFIG_SMP=y\nCONFIG_INET=y\nCONFIG_CRYPTO_OPTION=y\n", "ONE_FS"),
            ("BLOCK", "", "EXPERT BLOCK"),
            ("IOMAP", "CONFIG_BLOCK=y\nCONFIG_SMP=y\nCONFIG_CRYPTO_OPTION=y\n", "NET ONE_FS"),
            ("LEVEL_HIGH", "", "NET LEVEL_HIGH"),
            ("TWICE", "", "NET TWICE"),
            ("NET", "CONFIG_NET=y\n", ""),
            ("TINY", "", "TINY"),
            ("TINY", "CONFIG_SMP=y\n", "TINY needs \"!SMP\", which does not hold in this configuration"),
            ("MODULE_ONLY", "", "MODULE_ONLY needs \"m\", which does not hold in this configuration"),
            ("ORPHAN", "", "ORPHAN cannot be set by hand, and no option that selects it can be switched on"),
            ("NOT_AN_OPTION", "", "no Kconfig file that x86 reads has an option NOT_AN_OPTION"),
            (
                "LOOP_A",
                "",
                "the dependencies of LOOP_A are too many to follow, or go in a circle: build it on another machine",
            ),
        ] {
            assert_eq!(needed(option, config), expected, "{option} with {config:?}");
        }
    }
}
