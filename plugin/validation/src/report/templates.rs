// SPDX-License-Identifier: GPL-2.0-or-later
//! The templates: embedded, each replaceable by a text of the operator.

use super::ReportError;
use super::wrap;
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use std::collections::BTreeMap;

/// (name, text) of every embedded template.
const EMBEDDED: &[(&str, &str)] = &[
    ("html/report.html.j2", include_str!("../../../../report-templates/html/report.html.j2")),
    ("mail/details.txt.j2", include_str!("../../../../report-templates/mail/details.txt.j2")),
    ("mail/path.txt.j2", include_str!("../../../../report-templates/mail/path.txt.j2")),
    ("mail/reply.txt.j2", include_str!("../../../../report-templates/mail/reply.txt.j2")),
    ("mail/short.txt.j2", include_str!("../../../../report-templates/mail/short.txt.j2")),
    ("mail/time.txt.j2", include_str!("../../../../report-templates/mail/time.txt.j2")),
    ("text/report.txt.j2", include_str!("../../../../report-templates/text/report.txt.j2")),
];

/// Template texts by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Templates {
    replaced: BTreeMap<String, String>,
}

impl Templates {
    /// Names of all templates, as paths below `report-templates/`.
    pub fn names() -> impl Iterator<Item = &'static str> {
        EMBEDDED.iter().map(|(name, _)| *name)
    }

    /// Uses `text` instead of the embedded template `name`.
    pub fn replace(&mut self, name: &str, text: String) {
        self.replaced.insert(name.to_owned(), text);
    }

    /// Renders template `name` with `values`.
    ///
    /// # Errors
    /// The template is wrong, or names a value that is not there.
    pub fn render(&self, name: &str, values: &impl serde::Serialize) -> Result<String, ReportError> {
        let failed = |e: minijinja::Error| {
            let place = match (e.name(), e.line()) {
                (Some(name), Some(line)) => format!("{name}:{line}: "),
                _ => String::new(),
            };
            let reason = format!("{place}{}", e.detail().map_or_else(|| e.kind().to_string(), str::to_owned));
            ReportError::Template { name: name.to_owned(), reason }
        };
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .keep_trailing_newline(true)
            .build()
            .map_err(failed)?;
        environment.set_syntax(syntax);
        environment.set_auto_escape_callback(|name| {
            if name.ends_with(".html.j2") { AutoEscape::Html } else { AutoEscape::None }
        });
        environment.add_filter("fill", |text: String| wrap::fill(&text));
        environment.add_filter("ascii", |text: String| wrap::ascii(&wrap::one_line(&text)));
        environment.add_filter("command", |text: String| wrap::command(&text));
        environment.add_filter("shorten", |text: String, width: usize| wrap::shorten(&text, width));
        for (name, embedded) in EMBEDDED {
            let text = self.replaced.get(*name).map_or(*embedded, String::as_str);
            environment.add_template(name, text).map_err(failed)?;
        }
        let template = environment.get_template(name).map_err(failed)?;
        template.render(minijinja::Value::from(minijinja::value::Serde(values))).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_template_is_named_with_its_line() {
        let mut templates = Templates::default();
        templates.replace("text/report.txt.j2", "one\n{{ no.such.value }}\n".into());
        let error =
            templates.render("text/report.txt.j2", &BTreeMap::from([("a", 1)])).expect_err("undefined");
        assert!(error.to_string().contains("text/report.txt.j2"), "{error}");
        assert!(error.to_string().contains(":2"), "{error}");
    }

    #[test]
    fn every_file_is_embedded() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../report-templates");
        let mut files = Vec::new();
        for directory in std::fs::read_dir(root).expect("templates") {
            let directory = directory.expect("entry").path();
            for file in std::fs::read_dir(&directory).expect("directory") {
                let path = file.expect("entry").path();
                files.push(path.strip_prefix(root).expect("below").to_str().expect("utf-8").to_owned());
            }
        }
        files.sort();
        assert_eq!(files, Templates::names().collect::<Vec<_>>());
    }

    #[test]
    fn pages_are_escaped_and_mails_are_not() {
        let mut templates = Templates::default();
        for (name, expected) in [("html/report.html.j2", "&lt;b&gt;"), ("mail/reply.txt.j2", "<b>")] {
            templates.replace(name, "{{ x }}".into());
            assert_eq!(templates.render(name, &BTreeMap::from([("x", "<b>")])).expect("valid"), expected);
        }
    }
}
