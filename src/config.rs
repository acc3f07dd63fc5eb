//! Configuration: values of flags from the environment (`CRAWLMARK_RUN_RATE`) and from a file
//! (`--config`), as words that are added to the command line before it is read. A flag that is
//! typed replaces that of the environment, and that replaces the file's.
//!
//! Called once, by `main`. Must not decide what a value means, so that a value means the same
//! wherever it comes from; what a result records is therefore a command line that needs neither
//! file nor environment.

mod printed;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Command};
use crawlmark_harness::units::nearest;
use toml::{Table, Value};

use self::printed::example;
use crate::cli::{Cli, Typed, built};
use crate::error::Error;

/// Beginning of the names of variables.
const PREFIX: &str = "CRAWLMARK_";

/// Variable that names the file.
const FILE: &str = "CRAWLMARK_CONFIG";

/// Flags without which no configuration is read or printed.
const FLAG: &str = "--config";
const PRINT: &str = "--print-config";

/// Arguments that no configuration has.
const NEVER: [&str; 4] = ["help", "version", "config", "print_config"];

/// True for a variable whose value could change what `crawlmark run` does.
pub(crate) fn configures_run(name: &OsStr) -> bool {
    name.to_str()
        .is_some_and(|name| name == FILE || name.starts_with(&prefix("run")))
}

/// A command line with what is configured.
pub(crate) struct Config {
    words: Vec<OsString>,
    /// Sources of the values that were not typed, by the keys of their arguments.
    sources: BTreeMap<String, String>,
}

impl Config {
    /// Add what is configured to the words of a command line. One that cannot be understood, or
    /// asks for help, is left as it is.
    ///
    /// # Errors
    /// When the file cannot be read, or the file or the environment sets a flag that the command
    /// does not have.
    pub(crate) fn read(
        words: Vec<OsString>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Error> {
        let is_ours = |name: &OsStr| name.as_encoded_bytes().starts_with(PREFIX.as_bytes());
        let environment = environment.into_iter().filter(|(name, _)| is_ours(name));
        let environment: Vec<_> = environment.collect();
        let begins =
            |word: &OsString, flag: &str| word.as_encoded_bytes().starts_with(flag.as_bytes());
        let is_asked = words
            .iter()
            .any(|word| begins(word, FLAG) || begins(word, PRINT));
        let mut config = Self {
            words,
            sources: BTreeMap::new(),
        };
        if is_asked || !environment.is_empty() {
            config.complete(environment)?;
        }
        Ok(config)
    }

    fn complete(&mut self, environment: Vec<(OsString, OsString)>) -> Result<(), Error> {
        let program = built();
        let matches = Cli::matches_so_far(&self.words);
        let Some((name, typed)) = matches
            .as_ref()
            .ok()
            .and_then(|matches| matches.subcommand())
        else {
            return Ok(());
        };
        let at = (1..self.words.len()).find(|at| {
            let is_value = [FLAG, "--color"]
                .iter()
                .any(|flag| self.words[at - 1] == *flag);
            self.words[*at] == *name && !is_value
        });
        let (Some(at), Some(command)) = (at, program.find_subcommand(name)) else {
            return Ok(());
        };
        let (variables, named) = of_environment(command, environment)?;
        let typed_file = typed.get_one::<PathBuf>("config").cloned();
        let file = match (typed_file, named) {
            (Some(path), _) => of_file(&path, command, &program, FileFor::ThisCommand)?,
            // The variable may name a file for several commands.
            (None, Some(path)) => of_file(&path, command, &program, FileFor::AnyCommand)?,
            (None, None) => Layer::new(),
        };
        let mut set: Vec<&Arg> = configurable(command)
            .filter(|argument| {
                typed.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine)
            })
            .collect();
        let (mut off, mut first, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for layer in [variables, file] {
            let mut here = Vec::new();
            for argument in configurable(command) {
                let key = key(argument);
                let Some((value, source)) = layer.get(&key) else {
                    continue;
                };
                let is_set =
                    |other: &&Arg| *other == argument || replaces(command, other, argument);
                if set.iter().any(is_set) || off.contains(&argument) {
                    continue;
                }
                let Some(words) = words(argument, value)
                    .map_err(|form| refused(source, &format!("`{key}` is {form}")))?
                else {
                    off.push(argument);
                    continue;
                };
                here.push(argument);
                let added = if argument.is_last_set() {
                    &mut last
                } else {
                    &mut first
                };
                added.extend(words.into_iter().map(OsString::from));
                self.sources.insert(key, source.clone());
            }
            set.extend(here);
        }
        let typed = self.words.split_off(at + 1);
        self.words.extend(first);
        self.words.extend(typed);
        if !last.is_empty() {
            self.words.push("--".into());
            self.words.extend(last);
        }
        Ok(())
    }

    /// The words of the command line.
    pub(crate) fn words(&self) -> &[OsString] {
        &self.words
    }

    /// Parse the command line, as [`Cli::of`].
    ///
    /// # Errors
    /// When it cannot be parsed, or asks for help; says what is configured.
    pub(crate) fn cli(&self) -> Result<(Cli, Typed), clap::Error> {
        match Cli::of(&self.words) {
            Ok((cli, typed)) => Ok((cli, self.with_sources(typed))),
            Err(mut error) => {
                if let Some(origins) = self.origins().filter(|_| error.use_stderr()) {
                    let mut hints = match error.remove(ContextKind::Suggested) {
                        Some(ContextValue::StyledStrs(hints)) => hints,
                        _ => Vec::new(),
                    };
                    hints.push(origins.into());
                    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(hints));
                }
                Err(error)
            }
        }
    }

    /// Record the sources with a command line, which may go on with another one.
    pub(crate) fn with_sources(&self, typed: Typed) -> Typed {
        typed.with_sources(&self.sources)
    }

    /// Say what is configured in an error of usage, which may be about that.
    pub(crate) fn located(&self, error: Error) -> Error {
        match (error, self.origins()) {
            (Error::Usage(text), Some(origins)) => Error::Usage(format!("{text} ({origins})")),
            (error, _) => error,
        }
    }

    /// Say which keys each source sets; none if nothing is configured.
    fn origins(&self) -> Option<String> {
        let mut by_source: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (key, source) in &self.sources {
            by_source.entry(source).or_default().push(key);
        }
        let said = by_source
            .iter()
            .map(|(source, keys)| format!("{source} sets {}", keys.join(", ")));
        Some(said.collect::<Vec<_>>().join("; ")).filter(|said| !said.is_empty())
    }
}

/// Values of a source by the keys of their arguments, each with the file or the variable that
/// holds it.
type Layer = BTreeMap<String, (Value, String)>;

/// Find the variables of a command, and the file that one names. An empty one is none.
fn of_environment(
    command: &Command,
    environment: Vec<(OsString, OsString)>,
) -> Result<(Layer, Option<PathBuf>), Error> {
    let prefix = prefix(command.get_name());
    let (mut file, mut layer) = (None, Layer::new());
    for (name, value) in environment {
        let (Ok(name), false) = (name.into_string(), value.is_empty()) else {
            continue;
        };
        if name == FILE {
            file = Some(value.into());
        } else if let Some(flag) = name.strip_prefix(&prefix) {
            let key = flag.to_lowercase().replace('_', "-");
            let argument = known(command, &key, &name)?;
            let text = value
                .into_string()
                .map_err(|_| refused(&name, "it is not UTF-8"))?;
            let value = match &*text {
                "true" if may_lack_value(argument) => true.into(),
                "false" if may_lack_value(argument) => false.into(),
                "1" if is_switch(argument) => true.into(),
                "0" if is_switch(argument) => false.into(),
                _ if is_repeatable(argument) => {
                    Value::Array(text.lines().map(Value::from).collect())
                }
                _ => Value::from(text),
            };
            layer.insert(key, (value, name));
        }
    }
    Ok((layer, file))
}

/// Commands that a file has to configure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileFor {
    ThisCommand,
    AnyCommand,
}

/// Read the table of `command`, one of `program`, in a file. Never repeats a value, which may be a
/// secret.
fn of_file(
    path: &Path,
    command: &Command,
    program: &Command,
    file_for: FileFor,
) -> Result<Layer, Error> {
    let (name, source) = (command.get_name(), path.display().to_string());
    let text = fs::read_to_string(path).map_err(|error| {
        let remedy = format!(
            "Check --config and {FILE}, or write a file with `crawlmark {name} --print-config`"
        );
        refused(&source, &format!("cannot be read: {error}. {remedy}"))
    })?;
    let tables: Table = text.parse().map_err(|error: toml::de::Error| {
        let start = error.span().map_or(0, |span| span.start);
        let before = &text[..text.floor_char_boundary(start)];
        let line = before.matches('\n').count() + 1;
        refused(&source, &format!("line {line}: {}", error.message()))
    })?;
    let mut layer = Layer::new();
    for (table, value) in &tables {
        let Some(keys) = value.as_table() else {
            let why = format!("`{table}` is in no table: write a line [{name}] above it");
            return Err(refused(&source, &why));
        };
        let Some(of_table) = program.find_subcommand(table) else {
            let names = program.get_subcommands().map(Command::get_name);
            let hint = hint(nearest(table, names).map(|meant| format!("[{meant}]")));
            let why = format!("[{table}] is not the table of a command{hint}");
            return Err(refused(&source, &why));
        };
        for (key, value) in keys {
            known(of_table, key, &source)?;
            if table == name {
                layer.insert(key.clone(), (value.clone(), source.clone()));
            }
        }
    }
    if file_for == FileFor::ThisCommand && !tables.contains_key(name) {
        let why = format!(
            "there is no table [{name}], so it configures nothing of `crawlmark {name}`. Write the settings below a line [{name}] \
             (`crawlmark {name} --print-config` prints one), or remove --config"
        );
        return Err(refused(&source, &why));
    }
    Ok(layer)
}

fn refused(source: &str, why: &str) -> Error {
    Error::Usage(format!("{source}: {why}"))
}

fn hint(meant: Option<String>) -> String {
    meant.map_or_else(String::new, |meant| format!(": did you mean {meant}?"))
}

/// Return the words that give an argument the value; none of a flag that is off.
///
/// # Errors
/// When the value has another form; returns the right one.
fn words(argument: &Arg, value: &Value) -> Result<Option<Vec<String>>, String> {
    let wrong = |form| format!("{form}, as in {} = {}", key(argument), example(argument));
    let flag = format!("--{}", key(argument));
    let values = match value {
        Value::Boolean(is_on) if may_lack_value(argument) => {
            return Ok(is_on.then(|| vec![flag]));
        }
        _ if is_switch(argument) => return Err(wrong("true or false")),
        Value::Array(values) if is_repeatable(argument) => values.iter().map(text).collect(),
        value => text(value).map(|text| vec![text]),
    };
    let values: Vec<String> = values.ok_or_else(|| {
        wrong(if is_repeatable(argument) {
            "a list of plain values"
        } else {
            "one plain value"
        })
    })?;
    if argument.get_long().is_none() {
        return Ok(Some(values));
    }
    let words = values.iter().map(|value| format!("{flag}={value}"));
    Ok(Some(words.collect()))
}

/// The text of a plain value.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Datetime(time) => Some(time.to_string()),
        Value::Boolean(is_set) => Some(is_set.to_string()),
        Value::Array(_) | Value::Table(_) => None,
    }
}

/// Iterate over the arguments that a command can be configured with.
fn configurable(command: &Command) -> impl Iterator<Item = &Arg> {
    command
        .get_arguments()
        .filter(|argument| !NEVER.contains(&argument.get_id().as_str()))
}

/// True if `set` says in another way what `argument` does, so that it replaces that of a file. Flags
/// of the bundled target do not: `--target-latency` must not turn a crawl of the file's URL into one
/// of the bundled target.
fn replaces(command: &Command, set: &Arg, argument: &Arg) -> bool {
    let is_bundled = |argument: &Arg| {
        let id = argument.get_id().as_str();
        id.starts_with("target_") || id == "latency_bound"
    };
    let conflicts = |one: &Arg, other: &Arg| command.get_arg_conflicts_with(one).contains(&other);
    (is_place(set) && is_place(argument))
        || (!is_bundled(set)
            && !is_bundled(argument)
            && (conflicts(set, argument) || conflicts(argument, set)))
}

/// The long name of a flag, or that of an argument without one.
fn key(argument: &Arg) -> String {
    argument.get_long().map_or_else(
        || argument.get_id().as_str().replace('_', "-"),
        str::to_owned,
    )
}

/// True for an argument whose place among the words says what it is.
fn is_place(argument: &Arg) -> bool {
    argument.get_long().is_none() && !argument.is_last_set()
}

/// True for a flag that never has a value.
fn is_switch(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::SetTrue)
}

/// True for a flag that may have a value.
fn may_lack_value(argument: &Arg) -> bool {
    let values = argument.get_num_args();
    is_switch(argument) || values.is_some_and(|values| values.min_values() == 0)
}

fn is_repeatable(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Append)
}

fn prefix(command: &str) -> String {
    format!("{PREFIX}{}_", command.to_uppercase())
}

/// Variable of a key of a command.
fn variable(command: &Command, key: &str) -> String {
    prefix(command.get_name()) + &key.to_uppercase().replace('-', "_")
}

/// Find the argument of a key that `source` has.
///
/// # Errors
/// When there is none; names the key that was probably meant.
fn known<'a>(command: &'a Command, wanted: &str, source: &str) -> Result<&'a Arg, Error> {
    let mut all = configurable(command);
    if let Some(argument) = all.find(|argument| key(argument) == wanted) {
        return Ok(argument);
    }
    let meant = configurable(command)
        .find(|argument| {
            let aliases = argument.get_all_short_aliases().unwrap_or_default();
            let mut letters = argument.get_short().into_iter().chain(aliases);
            letters.any(|letter| wanted == letter.to_string())
                || argument
                    .get_all_aliases()
                    .unwrap_or_default()
                    .contains(&wanted)
        })
        .map(key);
    let meant = meant.or_else(|| nearest(wanted, configurable(command).map(key)));
    let hint = hint(meant.map(|meant| format!("`{meant}`")));
    let why = format!("`crawlmark {}` has no `{wanted}`{hint}", command.get_name());
    Err(refused(source, &why))
}

#[cfg(test)]
mod tests;
