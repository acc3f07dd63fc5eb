//! Configuration: values of flags from the environment (`CRAWLMARK_RUN_RATE`) and from a file (`--config`), as words that are added to the
//! command line before it is read. A flag that is typed replaces that of the environment, and that replaces the file's.
//!
//! Called once, by `main`. Must not decide what a value means, so that a value means the same wherever it comes from; what a result
//! records is therefore a command line that needs neither file nor environment.

mod printed;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory};
use crawlmark_harness::units::nearest;
use toml::{Table, Value};

use crate::cli::{Cli, Typed};
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

/// True for a variable that may be of this program.
fn is_ours(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// True for a variable whose value could change what `crawlmark run` does.
pub(crate) fn configures_run(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name == FILE || name.starts_with(&prefix("run")))
}

/// A command line with what is configured.
pub(crate) struct Config {
    words: Vec<OsString>,
    /// Sources of the values that were not typed, by the keys of their arguments.
    sources: BTreeMap<String, String>,
}

impl Config {
    /// Add what is configured to the words of a command line. One that cannot be understood, or asks for help, is left as it is.
    ///
    /// # Errors
    /// When the file cannot be read, or the file or the environment sets a flag that the command does not have.
    pub(crate) fn read(
        words: Vec<OsString>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Error> {
        let unchanged = |words| Ok(Self { words, sources: BTreeMap::new() });
        let environment: Vec<_> = environment.into_iter().filter(|(name, _)| is_ours(name)).collect();
        let asks =
            |word: &OsString| [FLAG, PRINT].iter().any(|flag| word.as_encoded_bytes().starts_with(flag.as_bytes()));
        if environment.is_empty() && !words.iter().any(asks) {
            return unchanged(words);
        }
        let Ok(typed) = Cli::matches_so_far(&words) else { return unchanged(words) };
        let Some((name, typed)) = typed.subcommand() else { return unchanged(words) };
        let program = built();
        let Some(command) = program.find_subcommand(name) else { return unchanged(words) };
        let variables = Variables::of(command, environment)?;
        let named = typed.get_one::<PathBuf>("config").cloned().or_else(|| variables.file.clone().map(PathBuf::from));
        let file = named.map(|path| File::read(path, &program)).transpose()?;

        let mut added = Added::default();
        let is_typed =
            |argument: &Arg| typed.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine);
        let has_place = !configurable(command).any(|argument| is_place(argument) && is_typed(argument));
        for argument in configurable(command) {
            if is_typed(argument) || (is_place(argument) && !has_place) {
                continue;
            }
            let of_file = || file.as_ref().and_then(|file| file.value(name, argument).transpose());
            if let Some((value, source)) =
                variables.value(argument)?.map_or_else(|| of_file().transpose(), |found| Ok(Some(found)))?
            {
                added.add(argument, value, source);
            }
        }
        let Some(at) = position(&words, &program) else { return unchanged(words) };
        let mut all = words;
        let typed = all.split_off(at + 1);
        all.extend(added.words);
        all.extend(typed);
        if !added.last.is_empty() {
            all.push("--".into());
            all.extend(added.last);
        }
        Ok(Self { words: all, sources: added.sources })
    }

    /// The words of the command line.
    pub(crate) fn words(&self) -> &[OsString] {
        &self.words
    }

    /// Parse the command line, as [`Cli::of`].
    ///
    /// # Errors
    /// When it cannot be parsed, or asks for help; names the source of each configured value that the error is about.
    pub(crate) fn cli(&self) -> Result<(Cli, Typed), clap::Error> {
        let (cli, typed) = Cli::of(&self.words).map_err(|error| self.explained(error))?;
        Ok((cli, typed.with_sources(&self.sources)))
    }

    /// Record the sources with a command line that goes on with another one.
    pub(crate) fn with_sources(&self, (cli, typed): (Cli, Typed)) -> (Cli, Typed) {
        (cli, typed.with_sources(&self.sources))
    }

    /// Name the source of each configured flag that an error of usage names.
    pub(crate) fn located(&self, error: Error) -> Error {
        let Error::Usage(text) = error else { return error };
        let names = |flag: &str| {
            let mut ends = text.match_indices(flag).map(|(at, _)| text[at + flag.len()..].chars().next());
            ends.any(|next| next.is_none_or(|next| !next.is_alphanumeric() && next != '-'))
        };
        let those = self.sources.iter().map(|(key, source)| (format!("--{key}"), source));
        let set = those.filter(|(flag, _)| names(flag)).map(|(flag, source)| format!(" ({flag} is set by {source})"));
        let set: String = set.collect();
        Error::Usage(text + &set)
    }

    fn explained(&self, mut error: clap::Error) -> clap::Error {
        let of_context = |value: &ContextValue| match value {
            ContextValue::String(name) => vec![name.clone()],
            ContextValue::Strings(names) => names.clone(),
            _ => Vec::new(),
        };
        let is_named = |kind: &ContextKind| matches!(kind, ContextKind::InvalidArg | ContextKind::PriorArg);
        let named: Vec<String> =
            error.context().filter(|(kind, _)| is_named(kind)).flat_map(|(_, value)| of_context(value)).collect();
        let program = built();
        let command = self.words.iter().find_map(|word| program.find_subcommand(word));
        let set = command.into_iter().flat_map(configurable).filter_map(|argument| {
            let source = self.sources.get(&key(argument))?;
            let is_named = named.contains(&argument.to_string());
            is_named.then(|| StyledStr::from(format!("{argument} is set by {source}")))
        });
        let set: Vec<StyledStr> = set.collect();
        if !set.is_empty() {
            let hints = match error.remove(ContextKind::Suggested) {
                Some(ContextValue::StyledStrs(hints)) => [hints, set].concat(),
                _ => set,
            };
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(hints));
        }
        error
    }
}

/// The program's command with its global arguments in each command.
fn built() -> Command {
    let mut program = Cli::command();
    program.build();
    program
}

/// Iterate over the arguments that a command can be configured with.
fn configurable(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| !NEVER.contains(&argument.get_id().as_str()))
}

/// The long name of a flag, or that of an argument without one.
fn key(argument: &Arg) -> String {
    argument.get_long().map_or_else(|| argument.get_id().as_str().replace('_', "-"), str::to_owned)
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
    is_switch(argument) || argument.get_num_args().is_some_and(|values| values.min_values() == 0)
}

fn is_repeatable(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Append)
}

fn prefix(command: &str) -> String {
    format!("{PREFIX}{}_", command.to_uppercase())
}

/// Return the place of the command among the words: the first that is neither a flag nor the value of one.
fn position(words: &[OsString], program: &Command) -> Option<usize> {
    let takes_next = |word: &OsStr| {
        let mut those = program.get_arguments().filter(|argument| !is_switch(argument));
        those.any(|argument| argument.get_long().is_some_and(|long| word.to_str() == Some(&format!("--{long}"))))
    };
    let is_flag = |word: &OsStr| word.as_encoded_bytes().starts_with(b"-");
    (1..words.len()).find(|at| !is_flag(&words[*at]) && (*at == 1 || !takes_next(&words[*at - 1])))
}

/// Value of an argument.
enum Given {
    /// A flag without a value; none at all if it is false.
    Switch(bool),
    /// Its values.
    Texts(Vec<String>),
}

/// Words that are added to a command line.
#[derive(Default)]
struct Added {
    words: Vec<OsString>,
    /// Words behind `--`.
    last: Vec<OsString>,
    sources: BTreeMap<String, String>,
}

impl Added {
    fn add(&mut self, argument: &Arg, value: Given, source: String) {
        let key = key(argument);
        match value {
            Given::Switch(false) => return,
            Given::Switch(true) => self.words.push(format!("--{key}").into()),
            Given::Texts(values) if argument.is_last_set() => self.last.extend(values.into_iter().map(OsString::from)),
            Given::Texts(values) => {
                let is_place = is_place(argument);
                let word = |value| if is_place { value } else { format!("--{key}={value}") };
                self.words.extend(values.into_iter().map(|value| OsString::from(word(value))));
            }
        }
        self.sources.insert(key, source);
    }
}

/// Values that the environment sets for a command.
struct Variables {
    file: Option<String>,
    /// Values by the keys of their arguments, each with the name of its variable.
    values: BTreeMap<String, (String, String)>,
}

impl Variables {
    /// Find the variables of a command. An empty one is none.
    fn of(command: &Command, environment: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, Error> {
        let prefix = prefix(command.get_name());
        let (mut file, mut values) = (None, BTreeMap::new());
        for (name, value) in environment {
            let Ok(name) = name.into_string() else { continue };
            let flag = name.strip_prefix(&prefix);
            if (name != FILE && flag.is_none()) || value.is_empty() {
                continue;
            }
            let value = value.into_string().map_err(|_| Error::Usage(format!("{name}: it is not UTF-8")))?;
            let Some(flag) = flag else {
                file = Some(value);
                continue;
            };
            let key = flag.to_lowercase().replace('_', "-");
            known(command, &key).map_err(|meant| {
                let meant =
                    meant.map(|meant| format!(": did you mean {prefix}{}?", meant.to_uppercase().replace('-', "_")));
                Error::Usage(format!(
                    "{name}: `crawlmark {}` has no flag --{key}{}",
                    command.get_name(),
                    meant.unwrap_or_default()
                ))
            })?;
            values.insert(key, (name, value));
        }
        Ok(Self { file, values })
    }

    /// Return the value of an argument, and its source.
    fn value(&self, argument: &Arg) -> Result<Option<(Given, String)>, Error> {
        let Some((name, value)) = self.values.get(&key(argument)) else { return Ok(None) };
        let switch = match &**value {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        };
        let given = match switch {
            Some(switch) if is_switch(argument) => Given::Switch(switch),
            Some(switch) if may_lack_value(argument) && value.len() > 1 => Given::Switch(switch),
            None if is_switch(argument) => return Err(Error::Usage(format!("{name}: write true or false"))),
            _ if is_repeatable(argument) => Given::Texts(value.lines().map(str::to_owned).collect()),
            _ => Given::Texts(vec![value.clone()]),
        };
        Ok(Some((given, name.clone())))
    }
}

/// Find the argument of a key.
///
/// # Errors
/// When there is none; returns the key that was probably meant.
fn known(command: &Command, wanted: &str) -> Result<(), Option<String>> {
    let keys: Vec<String> = configurable(command).map(key).collect();
    if keys.iter().any(|key| key == wanted) {
        return Ok(());
    }
    let has_alias = |argument: &&Arg| argument.get_all_aliases().is_some_and(|aliases| aliases.contains(&wanted));
    let synonym = configurable(command).find(has_alias).map(key);
    Err(synonym.or_else(|| nearest(wanted, keys)))
}

/// A configuration file.
struct File {
    path: PathBuf,
    tables: Table,
}

impl File {
    fn read(path: PathBuf, program: &Command) -> Result<Self, Error> {
        let refuse = |why: String| Error::Usage(format!("{}: {why}", path.display()));
        let text = fs::read_to_string(&path).map_err(|error| refuse(format!("cannot be read: {error}")))?;
        // Without the line itself, which may hold a secret.
        let tables: Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            refuse(format!("line {line}: {}", error.message()))
        })?;
        let commands = || program.get_subcommands().map(Command::get_name);
        for (name, table) in &tables {
            let command = program.find_subcommand(name).filter(|_| table.is_table());
            let Some(command) = command else {
                let mut owners = program.get_subcommands().filter(|command| known(command, name).is_ok());
                let hint = match owners.next() {
                    Some(owner) => format!(": write it below [{}]", owner.get_name()),
                    None => {
                        nearest(name, commands()).map_or_else(String::new, |meant| format!(": did you mean [{meant}]?"))
                    }
                };
                return Err(refuse(format!("`{name}` is not the table of a command{hint}")));
            };
            for key in table.as_table().into_iter().flat_map(Table::keys) {
                known(command, key).map_err(|meant| {
                    let hint = meant.map_or_else(String::new, |meant| format!(": did you mean `{meant}`?"));
                    refuse(format!("[{name}] has no key `{key}`{hint}"))
                })?;
            }
        }
        Ok(Self { path, tables })
    }

    /// Return the value of an argument of a command, and its source.
    fn value(&self, command: &str, argument: &Arg) -> Result<Option<(Given, String)>, Error> {
        let key = key(argument);
        let Some(value) = self.tables.get(command).and_then(|table| table.get(&key)) else { return Ok(None) };
        let refuse = |why: &str| Error::Usage(format!("{}: `{key}` in [{command}] {why}", self.path.display()));
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Integer(number) => Some(number.to_string()),
            Value::Float(number) => Some(number.to_string()),
            Value::Datetime(time) => Some(time.to_string()),
            Value::Boolean(is_set) => Some(is_set.to_string()),
            Value::Array(_) | Value::Table(_) => None,
        };
        let given = match value {
            Value::Boolean(is_set) if may_lack_value(argument) => Given::Switch(*is_set),
            _ if is_switch(argument) => return Err(refuse("is true or false")),
            Value::Array(values) if is_repeatable(argument) => {
                let texts: Option<Vec<String>> = values.iter().map(text).collect();
                Given::Texts(texts.ok_or_else(|| refuse("is a list of plain values"))?)
            }
            Value::Array(_) => return Err(refuse("has one value, not a list")),
            value => Given::Texts(vec![text(value).ok_or_else(|| refuse("is a plain value, not a table"))?]),
        };
        Ok(Some((given, source(&self.path))))
    }
}

/// The path of a file, as results show it.
fn source(path: &Path) -> String {
    path.display().to_string()
}

/// Values of the arguments of a command line, as it gives them.
fn raw(matches: &ArgMatches, argument: &Arg) -> Vec<String> {
    let id = argument.get_id().as_str();
    if matches.value_source(id) != Some(ValueSource::CommandLine) {
        return Vec::new();
    }
    matches.get_raw(id).into_iter().flatten().map(|value| value.to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests;
