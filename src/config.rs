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

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Command};
use crawlmark_harness::units::nearest;
use toml::{Table, Value};

use crate::cli::{Cli, built};
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
        let begins =
            |word: &OsStr, with: &str| word.as_encoded_bytes().starts_with(with.as_bytes());
        let environment = environment.into_iter();
        let environment: Vec<_> = environment
            .filter(|(name, _)| begins(name, PREFIX))
            .collect();
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
        let Ok(matches) = Cli::matches_so_far(&self.words) else {
            return Ok(());
        };
        let program = built();
        let Some((command, typed)) = matches
            .subcommand()
            .and_then(|(name, typed)| Some((program.find_subcommand(name)?, typed)))
        else {
            return Ok(());
        };
        let (variables, named) = of_environment(command, environment)?;
        let typed_file = typed.get_one::<PathBuf>("config");
        let file = match typed_file.or(named.as_ref()) {
            Some(path) => of_file(path, command, &program, typed_file.is_some())?,
            None => Layer::new(),
        };
        let is_typed = |argument: &&Arg| {
            typed.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine)
        };
        let mut set: Vec<&Arg> = configurable(command).filter(is_typed).collect();
        let (mut off, mut flags, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for layer in [variables, file] {
            let before = set.clone();
            for argument in configurable(command) {
                let key = key(argument);
                let is_set = |set: &&Arg| *set == argument || replaces(command, set, argument);
                let Some((value, source)) = layer
                    .get(&key)
                    .filter(|_| !before.iter().any(is_set) && !off.contains(&argument))
                else {
                    continue;
                };
                let words = words(argument, value)
                    .map_err(|form| refused(source, &format!("`{key}` is {form}")))?;
                let Some(words) = words else {
                    off.push(argument);
                    continue;
                };
                set.push(argument);
                let added = if argument.is_last_set() {
                    &mut last
                } else {
                    &mut flags
                };
                added.extend(words.into_iter().map(OsString::from));
                self.sources.insert(key, source.clone());
            }
        }
        let dashes = self.words.iter().position(|word| word == "--");
        let end = dashes.unwrap_or(self.words.len());
        self.words.splice(end..end, flags);
        if dashes.is_none() && !last.is_empty() {
            self.words.push("--".into());
        }
        self.words.extend(last);
        Ok(())
    }

    /// The words of the command line.
    pub(crate) fn words(&self) -> &[OsString] {
        &self.words
    }

    /// Parse the command line, as [`Cli::of`].
    ///
    /// # Errors
    /// When it cannot be parsed, or asks for help.
    pub(crate) fn cli(&self) -> Result<Cli, clap::Error> {
        let mut cli = Cli::of(&self.words)?;
        if let Some(run) = cli.command.run_mut() {
            run.typed.sources.clone_from(&self.sources);
        }
        Ok(cli)
    }

    /// Say which keys each source sets, a line each: an error of usage may be about that.
    pub(crate) fn origins(&self) -> String {
        let mut by_source: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (key, source) in &self.sources {
            by_source.entry(source).or_default().push(key);
        }
        let lines = by_source
            .iter()
            .map(|(source, keys)| format!("note: {source} sets {}\n", keys.join(", ")));
        lines.collect()
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

/// Read the table of `command`, one of `program`, in a file, which has to have one if it was named
/// for this command alone. Never repeats a value, which may be a secret.
fn of_file(
    path: &Path,
    command: &Command,
    program: &Command,
    is_for_it: bool,
) -> Result<Layer, Error> {
    let (name, source) = (command.get_name(), path.display().to_string());
    let text = fs::read_to_string(path)
        .map_err(|error| refused(&source, &format!("cannot be read: {error}")))?;
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
            let hint = hint(nearest(table, names));
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
    if is_for_it && !tables.contains_key(name) {
        let why = format!("there is no table [{name}]: write the settings below a line [{name}]");
        return Err(refused(&source, &why));
    }
    Ok(layer)
}

fn refused(source: &str, why: &str) -> Error {
    Error::Usage(format!("{source}: {why}"))
}

fn hint(meant: Option<impl std::fmt::Display>) -> String {
    meant.map_or_else(String::new, |meant| format!(": did you mean `{meant}`?"))
}

/// Return the words that give an argument the value; none of a flag that is off.
///
/// # Errors
/// When the value has another form; returns the right one.
fn words(argument: &Arg, value: &Value) -> Result<Option<Vec<String>>, &'static str> {
    let flag = format!("--{}", key(argument));
    let values = match value {
        Value::Boolean(is_on) if may_lack_value(argument) => {
            return Ok(is_on.then(|| vec![flag]));
        }
        _ if is_switch(argument) => return Err("true or false"),
        Value::Array(values) if is_repeatable(argument) => {
            let texts: Option<Vec<String>> = values.iter().map(text).collect();
            texts.ok_or("a list of plain values")?
        }
        value => vec![text(value).ok_or("one plain value")?],
    };
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
    (is_place(set) && is_place(argument))
        || (![set, argument].into_iter().any(is_bundled)
            && (command.get_arg_conflicts_with(set).contains(&argument)
                || command.get_arg_conflicts_with(argument).contains(&set)))
}

/// True for an argument whose place among the words says what it is.
fn is_place(argument: &Arg) -> bool {
    argument.get_long().is_none() && !argument.is_last_set()
}

/// True for a flag of the bundled target.
fn is_bundled(argument: &Arg) -> bool {
    let id = argument.get_id().as_str();
    id.starts_with("target_") || id == "latency_bound"
}

/// The long name of a flag, or that of an argument without one.
fn key(argument: &Arg) -> String {
    argument.get_long().map_or_else(
        || argument.get_id().as_str().replace('_', "-"),
        str::to_owned,
    )
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

/// Find the argument of a key that `source` has.
///
/// # Errors
/// When there is none; names the key that was probably meant.
fn known<'a>(command: &'a Command, wanted: &str, source: &str) -> Result<&'a Arg, Error> {
    if let Some(argument) = configurable(command).find(|argument| key(argument) == wanted) {
        return Ok(argument);
    }
    let alias = configurable(command).find(|argument| {
        let aliases = argument.get_all_aliases().unwrap_or_default();
        let is_short = argument
            .get_short()
            .is_some_and(|short| wanted == short.to_string());
        is_short || aliases.contains(&wanted)
    });
    let meant = alias.map(key);
    let hint = hint(meant.or_else(|| nearest(wanted, configurable(command).map(key))));
    let why = format!("`crawlmark {}` has no `{wanted}`{hint}", command.get_name());
    Err(refused(source, &why))
}

#[cfg(test)]
mod tests;
