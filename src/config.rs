//! Configuration: values of flags from the environment (`CRAWLMARK_RUN_RATE`) and from a file
//! (`--config`), as words that are added to the command line before it is read. A flag that is
//! typed replaces that of the environment, and that replaces the file's.
//!
//! Called once, by `main`. Must not decide what a value means, so that a value means the same
//! wherever it comes from; what a result records is therefore a command line that needs neither
//! file nor environment.

mod file;
mod printed;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Command};
use crawlmark_harness::units::nearest;

use self::file::File;
use crate::cli::{Cli, Typed, built};
use crate::error::Error;

/// Beginning of the names of variables.
const PREFIX: &str = "CRAWLMARK_";

/// Variable that names the file.
const FILE: &str = "CRAWLMARK_CONFIG";

/// Flags without which no configuration is read or printed.
const FLAG: &str = "--config";
const PRINT: &str = "--print-config";

/// Flags that choose what is done, and not a value of it: whatever cannot be used with one of them
/// is refused, wherever it comes from. Flags of the bundled target are such, too: `--target-latency`
/// must not turn a crawl of the file's URL into one of the bundled target.
const CHOICES: [&str; 8] = [
    "connections_per_shard",
    "exports",
    "history",
    "latency_bound",
    "plan",
    "png",
    "steady",
    "unix_socket",
];

/// Arguments that no configuration has.
const NEVER: [&str; 4] = ["help", "version", "config", "print_config"];

/// True for a variable that may be of this program.
fn is_ours(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// True for a variable whose value could change what `crawlmark run` does.
pub(crate) fn configures_run(name: &OsStr) -> bool {
    let is_of_run = |name: &str| name == FILE || name.starts_with(&prefix("run"));
    name.to_str().is_some_and(is_of_run)
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
        let environment = environment.into_iter().filter(|(name, _)| is_ours(name));
        let environment: Vec<_> = environment.collect();
        let mut config = Self {
            words,
            sources: BTreeMap::new(),
        };
        let begins =
            |word: &OsString, flag: &str| word.as_encoded_bytes().starts_with(flag.as_bytes());
        let mut words = config.words.iter();
        let is_asked = words.any(|word| begins(word, FLAG) || begins(word, PRINT));
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
        let variables = Variables::of(command, environment)?;
        let typed_file = typed.get_one::<PathBuf>("config").cloned();
        let is_typed_file = typed_file.is_some();
        let path = typed_file.or_else(|| variables.file.as_ref().map(PathBuf::from));
        let file = path
            .map(|path| File::read(path, command, &program))
            .transpose()?;
        // The variable may name a file for several commands.
        if let (Some(file), true) = (&file, is_typed_file) {
            file.check_has(name)?;
        }
        let is_typed = |argument: &Arg| {
            typed.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine)
        };
        let has_place =
            configurable(command).any(|argument| is_place(argument) && is_typed(argument));
        let (mut first, mut last) = (Vec::new(), Vec::new());
        for argument in configurable(command) {
            let others: Vec<&Arg> = alternatives(command, argument).collect();
            let is_replaced = is_typed(argument) || others.iter().any(|other| is_typed(other));
            if is_replaced || (has_place && is_place(argument)) {
                continue;
            }
            let mut found = variables.value(argument)?;
            if let (None, Some(file)) = (&found, &file)
                && !others.iter().any(|other| variables.sets(other))
            {
                found = file.value(name, argument)?;
            }
            let Some((values, source)) =
                found.filter(|(values, _)| *values != Given::Switch(false))
            else {
                continue;
            };
            let added = if argument.is_last_set() {
                &mut last
            } else {
                &mut first
            };
            added.extend(values.words(argument).into_iter().map(OsString::from));
            self.sources.insert(key(argument), source);
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
            Ok(read) => Ok(self.with_sources(read)),
            Err(error) => Err(self.explained(error)),
        }
    }

    /// Record the sources with a command line that goes on with another one.
    pub(crate) fn with_sources(&self, (cli, typed): (Cli, Typed)) -> (Cli, Typed) {
        (cli, typed.with_sources(&self.sources))
    }

    /// Say what is configured in an error of usage, which may be about that.
    pub(crate) fn located(&self, error: Error) -> Error {
        match (error, self.origins()) {
            (Error::Usage(text), Some(origins)) => Error::Usage(format!("{text} ({origins})")),
            (error, _) => error,
        }
    }

    fn explained(&self, mut error: clap::Error) -> clap::Error {
        if let Some(origins) = self.origins().filter(|_| error.use_stderr()) {
            let mut hints = match error.remove(ContextKind::Suggested) {
                Some(ContextValue::StyledStrs(hints)) => hints,
                _ => Vec::new(),
            };
            hints.push(origins.into());
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(hints));
        }
        error
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

/// Iterate over the arguments that a command can be configured with.
fn configurable(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_one = |argument: &&Arg| !NEVER.contains(&argument.get_id().as_str());
    command.get_arguments().filter(is_one)
}

/// Iterate over the arguments that say what `argument` does in other ways: one of them that is typed
/// or in the environment replaces it in the file.
fn alternatives<'a>(command: &'a Command, argument: &'a Arg) -> impl Iterator<Item = &'a Arg> {
    let is_choice = |argument: &Arg| {
        let id = argument.get_id().as_str();
        CHOICES.contains(&id) || id.starts_with("target_")
    };
    let conflicts = |one: &Arg, other: &Arg| command.get_arg_conflicts_with(one).contains(&other);
    configurable(command).filter(move |other| {
        !is_choice(argument)
            && !is_choice(other)
            && (conflicts(argument, other) || conflicts(other, argument))
    })
}

/// The long name of a flag, or that of an argument without one.
fn key(argument: &Arg) -> String {
    let id = || argument.get_id().as_str().replace('_', "-");
    argument.get_long().map_or_else(id, str::to_owned)
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

/// Value of an argument.
#[derive(Debug, PartialEq, Eq)]
enum Given {
    /// A flag without a value; none at all if it is false.
    Switch(bool),
    /// Its values.
    Texts(Vec<String>),
}

impl Given {
    /// Words that give an argument this value.
    fn words(self, argument: &Arg) -> Vec<String> {
        let key = key(argument);
        match self {
            Self::Switch(_) => vec![format!("--{key}")],
            Self::Texts(values) if argument.get_long().is_none() => values,
            Self::Texts(values) => {
                let words = values.iter().map(|value| format!("--{key}={value}"));
                words.collect()
            }
        }
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
    fn of(command: &Command, environment: Vec<(OsString, OsString)>) -> Result<Self, Error> {
        let prefix = prefix(command.get_name());
        let (mut file, mut values) = (None, BTreeMap::new());
        for (name, value) in environment {
            let Ok(name) = name.into_string() else {
                continue;
            };
            let flag = name.strip_prefix(&prefix);
            if (name != FILE && flag.is_none()) || value.is_empty() {
                continue;
            }
            let not_text = |_| Error::Usage(format!("{name}: it is not UTF-8"));
            let value = value.into_string().map_err(not_text)?;
            let Some(flag) = flag else {
                file = Some(value);
                continue;
            };
            let key = flag.to_lowercase().replace('_', "-");
            known(command, &key).map_err(|meant| {
                let hint =
                    meant.map(|meant| format!(": did you mean {}?", variable(command, &meant)));
                let (command, hint) = (command.get_name(), hint.unwrap_or_default());
                Error::Usage(format!(
                    "{name}: `crawlmark {command}` has no flag --{key}{hint}"
                ))
            })?;
            values.insert(key, (name, value));
        }
        Ok(Self { file, values })
    }

    /// True if a variable sets the argument, and not to nothing.
    fn sets(&self, argument: &Arg) -> bool {
        let value = self.value(argument).ok().flatten();
        value.is_some_and(|(given, _)| given != Given::Switch(false))
    }

    /// Return the value of an argument, and its source.
    fn value(&self, argument: &Arg) -> Result<Option<(Given, String)>, Error> {
        let Some((name, value)) = self.values.get(&key(argument)) else {
            return Ok(None);
        };
        let given = match &**value {
            "true" if may_lack_value(argument) => Given::Switch(true),
            "false" if may_lack_value(argument) => Given::Switch(false),
            "1" if is_switch(argument) => Given::Switch(true),
            "0" if is_switch(argument) => Given::Switch(false),
            _ if is_switch(argument) => {
                return Err(Error::Usage(format!("{name}: write true or false")));
            }
            _ if is_repeatable(argument) => {
                Given::Texts(value.lines().map(str::to_owned).collect())
            }
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
    let has_alias = |argument: &&Arg| {
        let aliases = argument.get_all_short_aliases().unwrap_or_default();
        let mut letters = argument.get_short().into_iter().chain(aliases);
        letters.any(|letter| wanted == letter.to_string())
            || argument
                .get_all_aliases()
                .unwrap_or_default()
                .contains(&wanted)
    };
    let synonym = configurable(command).find(has_alias).map(key);
    Err(synonym.or_else(|| nearest(wanted, keys)))
}

#[cfg(test)]
mod tests;
