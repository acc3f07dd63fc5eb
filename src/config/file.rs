//! The file of a configuration (`--config FILE`): TOML with a table for each command.
//!
//! Called by [`Config`](super::Config) alone. Must not repeat a value that may be a secret.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use crawlmark_harness::units::nearest;
use toml::{Table, Value};

use super::printed::{example, quoted};
use super::{Given, configurable, is_repeatable, is_switch, key, known, may_lack_value};
use crate::cli::may_be_secret;
use crate::error::Error;

/// A configuration file.
pub(super) struct File {
    path: PathBuf,
    pub(super) tables: Table,
}

impl File {
    /// Read the file for `command`, one of `program`.
    ///
    /// # Errors
    /// When it cannot be read, or has a table or a key that no command has.
    pub(super) fn read(path: PathBuf, command: &Command, program: &Command) -> Result<Self, Error> {
        let refuse = |why: String| Error::Usage(format!("{}: {why}", path.display()));
        let text = fs::read_to_string(&path).map_err(|error| {
            let remedy = match error.kind() {
                ErrorKind::NotFound => {
                    let called = format!("crawlmark {} --print-config", command.get_name());
                    format!(". Check the path (--config, CRAWLMARK_CONFIG), or write a file with `{called}`")
                }
                ErrorKind::IsADirectory => ". Name a file in it".to_owned(),
                ErrorKind::InvalidData => return refuse("it is not UTF-8 text: save it as UTF-8".to_owned()),
                _ => String::new(),
            };
            refuse(format!("cannot be read: {error}{remedy}"))
        })?;
        let tables: Table = text.parse().map_err(|error: toml::de::Error| {
            let before = error
                .span()
                .map_or(0, |span| text.floor_char_boundary(span.start));
            let number = text[..before].matches('\n').count();
            let line = text.lines().nth(number).unwrap_or_default();
            refuse(format!(
                "line {}: {}",
                number + 1,
                explained(line, command, error.message())
            ))
        })?;
        let outside: Vec<String> = tables
            .iter()
            .filter(|(_, value)| !value.is_table())
            .map(|(key, _)| format!("`{key}`"))
            .collect();
        if !outside.is_empty() {
            let (are, them) = if outside.len() == 1 {
                ("is", "it")
            } else {
                ("are", "them")
            };
            let keys = outside.join(", ");
            let name = command.get_name();
            return Err(refuse(format!(
                "{keys} {are} in no table: write a line [{name}] above {them}"
            )));
        }
        for (name, table) in &tables {
            let Some(command) = program.find_subcommand(name) else {
                let commands = program.get_subcommands().map(Command::get_name);
                let hint =
                    nearest(name, commands).map(|meant| format!(": did you mean [{meant}]?"));
                return Err(refuse(format!(
                    "[{name}] is not the table of a command{}",
                    hint.unwrap_or_default()
                )));
            };
            for key in table.as_table().into_iter().flat_map(Table::keys) {
                known(command, key).map_err(|meant| {
                    let hint = meant
                        .map_or_else(String::new, |meant| format!(": did you mean `{meant}`?"));
                    refuse(format!("[{name}] has no key `{key}`{hint}"))
                })?;
            }
        }
        Ok(Self { path, tables })
    }

    /// Check that the file has a table of the command that is to be configured with it.
    ///
    /// # Errors
    /// When it has none.
    pub(super) fn check_has(&self, command: &str) -> Result<(), Error> {
        if self.tables.contains_key(command) {
            return Ok(());
        }
        let tables: Vec<String> = self.tables.keys().map(|name| format!("[{name}]")).collect();
        let others = if tables.is_empty() {
            String::new()
        } else {
            format!(", only {}", tables.join(", "))
        };
        Err(Error::Usage(format!(
            "{}: there is no table [{command}]{others}, so it configures nothing of `crawlmark {command}`. Write the settings below a \
             line [{command}] (`crawlmark {command} --print-config` prints one), or remove --config",
            self.path.display()
        )))
    }

    /// Return the value of an argument of a command, and its source.
    pub(super) fn value(
        &self,
        command: &str,
        argument: &Arg,
    ) -> Result<Option<(Given, String)>, Error> {
        let key = key(argument);
        let Some(value) = self.tables.get(command).and_then(|table| table.get(&key)) else {
            return Ok(None);
        };
        let refuse_with = |why: &str, example: String| {
            Error::Usage(format!(
                "{}: `{key}` in [{command}] {why}, as in {key} = {example}",
                self.path.display()
            ))
        };
        let refuse = |why: &str| refuse_with(why, example(argument));
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
            Value::Array(values) => {
                let first = values.first().and_then(text);
                let example =
                    first.map_or_else(|| example(argument), |value| own_example(argument, &value));
                return Err(refuse_with("has one value, not a list", example));
            }
            value => Given::Texts(vec![
                text(value).ok_or_else(|| refuse("is a plain value, not a table"))?,
            ]),
        };
        Ok(Some((given, source(&self.path))))
    }
}

/// The error of a line that is no TOML, with the key, and with quotes around the value if they are
/// what is missing. Never with the whole line, which may hold a secret.
fn explained(line: &str, command: &Command, error: &str) -> String {
    let Some((key, value)) = line
        .split_once('=')
        .map(|(key, value)| (key.trim(), value.trim()))
    else {
        return error.to_owned();
    };
    let Some(argument) = configurable(command).find(|argument| super::key(argument) == key) else {
        return error.to_owned();
    };
    let value = value.split(" #").next().unwrap_or_default().trim_end();
    // The line is well-formed, as that of a key that is there already; or its number is too large.
    let is_number = value
        .chars()
        .all(|c| c.is_ascii_digit() || matches!(c, '-' | '_' | '.'));
    if line.parse::<Table>().is_ok() || is_number && !value.is_empty() {
        return format!("`{key}`: {error}");
    }
    match value.as_bytes().first() {
        None | Some(b'"' | b'\'' | b'[' | b'{') => {
            format!("`{key}`: {error}, as in {key} = {}", example(argument))
        }
        _ if is_switch(argument) => format!("`{key}` is true or false, as in {key} = true"),
        _ => format!(
            "`{key}` is a string and needs quotes: {key} = {}",
            own_example(argument, value)
        ),
    }
}

/// A value that was given as the file should have it; another one if it may be a secret.
fn own_example(argument: &Arg, value: &str) -> String {
    let is_secret = may_be_secret(argument.get_id().as_str(), &[value.to_owned()]);
    if is_secret {
        example(argument)
    } else {
        quoted(value)
    }
}

/// The path of a file, as results show it.
fn source(path: &Path) -> String {
    path.display().to_string()
}
