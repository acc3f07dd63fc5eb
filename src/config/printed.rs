//! The file that `--print-config` prints: every flag of the command with its help; those that are
//! given, and the defaults as comments.

use std::fmt::Write;

use clap::Arg;
use clap::parser::ValueSource;

use super::{Config, PRINT, configurable, is_repeatable, is_switch, key, may_lack_value, prefix};
use crate::cli::{Cli, built, may_be_secret, raw_values};

impl Config {
    /// Return the text of a configuration file with what this command line gives; none if it does
    /// not ask for one.
    pub(crate) fn printed(&self) -> Option<String> {
        self.words.iter().find(|word| *word == PRINT)?;
        let matches = Cli::matches_so_far(&self.words).ok()?;
        let (name, given) = matches
            .subcommand()
            .filter(|(_, given)| given.get_flag("print_config"))?;
        let program = built();
        let command = program.find_subcommand(name)?;
        let prefix = prefix(name);
        let mut text = format!(
            "# Configuration of `crawlmark {name}`: crawlmark {name} --config FILE\n\
             #\n\
             # Each key is a flag by its long name. Lines that begin with `#` show defaults, or the form of a value.\n\
             # The command line replaces the environment ({prefix}FLAG), and that replaces this file.\n\n[{name}]\n"
        );
        // Flags of a heading stand together, and those without one come first.
        let mut headings = vec![""];
        for argument in configurable(command) {
            let heading = heading(argument);
            if !headings.contains(&heading) {
                headings.push(heading);
            }
        }
        for of_all in headings {
            if !of_all.is_empty() {
                let _ = write!(text, "\n# --- {of_all}\n");
            }
            for argument in configurable(command).filter(|argument| heading(argument) == of_all) {
                let (id, key) = (argument.get_id().as_str(), key(argument));
                let values = match given.value_source(id) {
                    Some(ValueSource::CommandLine) => raw_values(given, id),
                    _ => Vec::new(),
                };
                let line = if values.is_empty() {
                    format!("# {key} = {}", default(argument))
                } else if may_be_secret(id, &values) {
                    let variable = prefix.clone() + &key.to_uppercase().replace('-', "_");
                    let default = default(argument);
                    format!(
                        "# {key} = {default}  # left out, because it may be a secret: set {variable}"
                    )
                } else {
                    format!("{key} = {}", value(argument, &values))
                };
                let help = argument.get_help().map(ToString::to_string);
                let _ = write!(text, "\n# {}\n{line}\n", help.unwrap_or_default());
            }
        }
        Some(text)
    }
}

fn heading(argument: &Arg) -> &str {
    argument.get_help_heading().unwrap_or_default()
}

/// Values of an argument as TOML has them.
fn value(argument: &Arg, values: &[String]) -> String {
    let all: Vec<String> = values.iter().map(|value| quoted(value)).collect();
    match &*all {
        _ if is_switch(argument) => "true".to_owned(),
        [one] if !is_repeatable(argument) => one.clone(),
        all => format!("[{}]", all.join(", ")),
    }
}

/// The default of an argument, or the form of its value.
fn default(argument: &Arg) -> String {
    let defaults = argument.get_default_values().iter();
    let defaults: Vec<String> = defaults
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    match &*defaults {
        _ if is_switch(argument) => "false".to_owned(),
        [] if may_lack_value(argument) => "true".to_owned(),
        [] => {
            let names = argument.get_value_names().unwrap_or_default();
            let form = names.first().map(ToString::to_string);
            value(
                argument,
                &[form.unwrap_or_else(|| key(argument).to_uppercase())],
            )
        }
        some => value(argument, some),
    }
}

/// A text as TOML has it; a whole number as one.
fn quoted(text: &str) -> String {
    let number = text.parse::<i64>().map(|number| number.to_string());
    if number.is_ok_and(|number| number == text) {
        return text.to_owned();
    }
    // The escapes of JSON are TOML's, but for one character that TOML wants escaped.
    serde_json::Value::from(text)
        .to_string()
        .replace('\u{7f}', "\\u007F")
}
