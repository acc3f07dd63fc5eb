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

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory};
use crawlmark_harness::units::nearest;

use self::file::File;
use crate::cli::{Cli, Typed};
use crate::error::Error;

/// Beginning of the names of variables.
const PREFIX: &str = "CRAWLMARK_";

/// Variable that names the file.
const FILE: &str = "CRAWLMARK_CONFIG";

/// Flags without which no configuration is read or printed.
const FLAG: &str = "--config";
const PRINT: &str = "--print-config";

/// Flags that set the same thing. One of a group that is typed or in the environment replaces the
/// others in the file, as it replaces itself. Whatever else cannot be used together is refused:
/// `--target-latency` must not turn a crawl of the file's URL into one of the bundled target.
const ALTERNATIVES: [&[&str]; 14] = [
    &["url", "urls"],
    &["requests_file", "urls"],
    &["body", "body_file", "json_body"],
    &["auth", "bearer_env"],
    &["cacert", "insecure"],
    &["proxy_auth", "proxy_auth_file"],
    &["json", "output_format"],
    &["json", "markdown"],
    &["disable_keepalive", "max_requests_per_connection"],
    &["resume", "save"],
    &["resume", "save_fields"],
    &["resume", "save_bodies"],
    &["resume", "max_body"],
    &["resume", "durability"],
];

/// Arguments that no configuration has.
const NEVER: [&str; 4] = ["help", "version", "config", "print_config"];

/// True for a variable that may be of this program.
fn is_ours(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

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
        let unchanged = |words| {
            Ok(Self {
                words,
                sources: BTreeMap::new(),
            })
        };
        let environment: Vec<_> = environment
            .into_iter()
            .filter(|(name, _)| is_ours(name))
            .collect();
        let asks = |word: &OsString| {
            [FLAG, PRINT]
                .iter()
                .any(|flag| word.as_encoded_bytes().starts_with(flag.as_bytes()))
        };
        if environment.is_empty() && !words.iter().any(asks) {
            return unchanged(words);
        }
        let Ok(typed) = Cli::matches_so_far(&words) else {
            return unchanged(words);
        };
        let Some((name, typed)) = typed.subcommand() else {
            return unchanged(words);
        };
        let program = built();
        let Some(command) = program.find_subcommand(name) else {
            return unchanged(words);
        };
        let variables = Variables::of(command, environment)?;
        let typed_file = typed.get_one::<PathBuf>("config");
        let named = typed_file
            .cloned()
            .or_else(|| variables.file.clone().map(PathBuf::from));
        let file = named
            .map(|path| File::read(path, command, &program))
            .transpose()?;
        // The variable may name a file for several commands.
        if let (Some(file), true) = (&file, typed_file.is_some()) {
            file.check_has(name)?;
        }

        let mut added = Added::default();
        let is_typed = |argument: &Arg| {
            typed.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine)
        };
        let has_place =
            !configurable(command).any(|argument| is_place(argument) && is_typed(argument));
        for argument in configurable(command) {
            let is_replaced = alternatives(command, argument).any(is_typed);
            if is_typed(argument) || is_replaced || (is_place(argument) && !has_place) {
                continue;
            }
            let is_set = |argument: &Arg| variables.sets(argument);
            let file = file
                .as_ref()
                .filter(|_| !alternatives(command, argument).any(is_set));
            let of_file = || file.and_then(|file| file.value(name, argument).transpose());
            if let Some((value, source)) = variables
                .value(argument)?
                .map_or_else(|| of_file().transpose(), |found| Ok(Some(found)))?
            {
                added.add(argument, value, source);
            }
        }
        let Some(at) = position(&words, &program) else {
            return unchanged(words);
        };
        let mut all = words;
        let typed = all.split_off(at + 1);
        all.extend(added.words);
        all.extend(typed);
        if !added.last.is_empty() {
            all.push("--".into());
            all.extend(added.last);
        }
        Ok(Self {
            words: all,
            sources: added.sources,
        })
    }

    /// The words of the command line.
    pub(crate) fn words(&self) -> &[OsString] {
        &self.words
    }

    /// Parse the command line, as [`Cli::of`].
    ///
    /// # Errors
    /// When it cannot be parsed, or asks for help; names the source of each configured value that
    /// the error is about.
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
        let Error::Usage(text) = error else {
            return error;
        };
        let names = |flag: &str| {
            let mut ends = text
                .match_indices(flag)
                .map(|(at, _)| text[at + flag.len()..].chars().next());
            ends.any(|next| next.is_none_or(|next| !next.is_alphanumeric() && next != '-'))
        };
        let those = self
            .sources
            .iter()
            .map(|(key, source)| (format!("--{key}"), source));
        let set = those
            .filter(|(flag, _)| names(flag))
            .map(|(flag, source)| format!(" ({flag} is set by {source})"));
        let set: String = set.collect();
        Error::Usage(text + &set)
    }

    fn explained(&self, mut error: clap::Error) -> clap::Error {
        let of_context = |value: &ContextValue| match value {
            ContextValue::String(name) => vec![name.clone()],
            ContextValue::Strings(names) => names.clone(),
            _ => Vec::new(),
        };
        let is_named =
            |kind: &ContextKind| matches!(kind, ContextKind::InvalidArg | ContextKind::PriorArg);
        let named: Vec<String> = error
            .context()
            .filter(|(kind, _)| is_named(kind))
            .flat_map(|(_, value)| of_context(value))
            .collect();
        let program = built();
        let command = self
            .words
            .iter()
            .find_map(|word| program.find_subcommand(word));
        let is_named = |argument: &&Arg| named.contains(&argument.to_string());
        let arguments: Vec<&Arg> = command
            .into_iter()
            .flat_map(configurable)
            .filter(is_named)
            .collect();
        let source = |argument: &&Arg| self.sources.get(&key(argument));
        let set: Vec<StyledStr> = match &*arguments {
            [one, other]
                if error.kind() == ErrorKind::ArgumentConflict
                    && arguments.iter().any(|one| source(one).is_some()) =>
            {
                let of = |argument| source(argument).map_or("the command line", String::as_str);
                vec![
                    format!(
                        "{one} is set by {}, {other} by {}: remove one of them",
                        of(one),
                        of(other)
                    )
                    .into(),
                ]
            }
            all => {
                let set = all.iter().filter_map(|argument| {
                    Some(format!("{argument} is set by {}", source(argument)?))
                });
                set.map(StyledStr::from).collect()
            }
        };
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
    command
        .get_arguments()
        .filter(|argument| !NEVER.contains(&argument.get_id().as_str()))
}

/// Iterate over the arguments that say what `argument` does in other ways.
fn alternatives<'a>(command: &'a Command, argument: &'a Arg) -> impl Iterator<Item = &'a Arg> {
    let is_one = move |other: &&Arg| {
        let [own, other] = [argument, other].map(|argument| argument.get_id().as_str());
        own != other
            && ALTERNATIVES
                .iter()
                .any(|group| group.contains(&own) && group.contains(&other))
    };
    configurable(command).filter(is_one)
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
    is_switch(argument)
        || argument
            .get_num_args()
            .is_some_and(|values| values.min_values() == 0)
}

fn is_repeatable(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Append)
}

fn prefix(command: &str) -> String {
    format!("{PREFIX}{}_", command.to_uppercase())
}

/// Return the place of the command among the words: the first that is neither a flag nor the value
/// of one.
fn position(words: &[OsString], program: &Command) -> Option<usize> {
    let takes_next = |word: &OsStr| {
        let mut those = program
            .get_arguments()
            .filter(|argument| !is_switch(argument));
        those.any(|argument| {
            argument
                .get_long()
                .is_some_and(|long| word.to_str() == Some(&format!("--{long}")))
        })
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
            Given::Texts(values) if argument.is_last_set() => {
                self.last.extend(values.into_iter().map(OsString::from));
            }
            Given::Texts(values) => {
                let is_place = is_place(argument);
                let word = |value| {
                    if is_place {
                        value
                    } else {
                        format!("--{key}={value}")
                    }
                };
                self.words
                    .extend(values.into_iter().map(|value| OsString::from(word(value))));
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
    fn of(
        command: &Command,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Error> {
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
            let value = value
                .into_string()
                .map_err(|_| Error::Usage(format!("{name}: it is not UTF-8")))?;
            let Some(flag) = flag else {
                file = Some(value);
                continue;
            };
            let key = flag.to_lowercase().replace('_', "-");
            known(command, &key).map_err(|meant| {
                let meant = meant.map(|meant| {
                    format!(
                        ": did you mean {prefix}{}?",
                        meant.to_uppercase().replace('-', "_")
                    )
                });
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

    /// True if a variable sets the argument, and not to nothing.
    fn sets(&self, argument: &Arg) -> bool {
        matches!(
            self.value(argument),
            Ok(Some((Given::Switch(true) | Given::Texts(_), _)))
        )
    }

    /// Return the value of an argument, and its source.
    fn value(&self, argument: &Arg) -> Result<Option<(Given, String)>, Error> {
        let Some((name, value)) = self.values.get(&key(argument)) else {
            return Ok(None);
        };
        let switch = match &**value {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        };
        let given = match switch {
            Some(switch) if is_switch(argument) => Given::Switch(switch),
            Some(switch) if may_lack_value(argument) && value.len() > 1 => Given::Switch(switch),
            None if is_switch(argument) => {
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
    let is_short = |argument: &Arg| {
        let aliases = argument.get_all_short_aliases().unwrap_or_default();
        argument
            .get_short()
            .into_iter()
            .chain(aliases)
            .any(|letter| wanted == letter.to_string())
    };
    let has_alias = |argument: &&Arg| {
        is_short(argument)
            || argument
                .get_all_aliases()
                .is_some_and(|aliases| aliases.contains(&wanted))
    };
    let synonym = configurable(command).find(has_alias).map(key);
    Err(synonym.or_else(|| nearest(wanted, keys)))
}

/// Values of the arguments of a command line, as it gives them.
fn raw(matches: &ArgMatches, argument: &Arg) -> Vec<String> {
    let id = argument.get_id().as_str();
    if matches.value_source(id) != Some(ValueSource::CommandLine) {
        return Vec::new();
    }
    matches
        .get_raw(id)
        .into_iter()
        .flatten()
        .map(|value| value.to_string_lossy().into_owned())
        .collect()
}

#[cfg(test)]
mod tests;
