//! The file that `--print-config` prints: every flag of the command with its help; those that are
//! given, and the defaults as comments.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use super::{
    Config, PRINT, configurable, is_repeatable, is_switch, key, may_lack_value, prefix, variable,
};
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
        let mut lines = vec![head(name)];
        let mut heading = "";
        for argument in configurable(command) {
            let of_it = argument.get_help_heading().unwrap_or_default();
            if of_it != heading {
                lines.push(format!("\n# --- {of_it}\n"));
                heading = of_it;
            }
            let help = argument
                .get_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            lines.push(format!(
                "\n# {help}\n{}\n",
                line(command, argument, &typed(given, argument))
            ));
        }
        Some(lines.concat())
    }
}

/// Values of an argument of a command line, as it gives them.
fn typed(matches: &ArgMatches, argument: &Arg) -> Vec<String> {
    let id = argument.get_id().as_str();
    match matches.value_source(id) {
        Some(ValueSource::CommandLine) => raw_values(matches, id),
        _ => Vec::new(),
    }
}

fn head(name: &str) -> String {
    format!(
        "# Configuration of `crawlmark {name}`: crawlmark {name} --config FILE\n\
         #\n\
         # Each key is a flag by its long name. Lines that begin with `#` show defaults, or the form of a value.\n\
         # The command line replaces the environment ({}FLAG), and that replaces this file.\n\n[{name}]\n",
        prefix(name)
    )
}

/// The line of an argument: its values, or as a comment its default.
fn line(command: &Command, argument: &Arg, values: &[String]) -> String {
    let key = key(argument);
    if values.is_empty() {
        return format!("# {key} = {}", default(argument));
    }
    if may_be_secret(argument.get_id().as_str(), values) {
        let variable = variable(command, &key);
        return format!(
            "# {key} = {}  # left out, because it may be a secret: set {variable}",
            default(argument)
        );
    }
    format!("{key} = {}", value(argument, values))
}

fn value(argument: &Arg, values: &[String]) -> String {
    let all: Vec<String> = values.iter().map(|value| quoted(value)).collect();
    match &*all {
        _ if is_switch(argument) => "true".to_owned(),
        [one] if !is_repeatable(argument) => one.clone(),
        all => format!("[{}]", all.join(", ")),
    }
}

/// A value of an argument, as an example: the form of one, without its default.
pub(super) fn example(argument: &Arg) -> String {
    if is_switch(argument) {
        "true".to_owned()
    } else {
        form(argument)
    }
}

/// The default of an argument, or the form of its value.
fn default(argument: &Arg) -> String {
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    match &*defaults {
        _ if is_switch(argument) => "false".to_owned(),
        [] if may_lack_value(argument) => "true".to_owned(),
        [] => form(argument),
        some => value(argument, some),
    }
}

/// The form of an argument's value.
fn form(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    value(
        argument,
        &[names
            .first()
            .map_or_else(|| key(argument).to_uppercase(), ToString::to_string)],
    )
}

/// A text as TOML has it; a whole number as one.
fn quoted(text: &str) -> String {
    if text
        .parse::<i64>()
        .is_ok_and(|number| number.to_string() == text)
    {
        return text.to_owned();
    }
    // The escapes of JSON are TOML's, but for one character that TOML wants escaped.
    serde_json::Value::from(text)
        .to_string()
        .replace('\u{7f}', "\\u007F")
}
