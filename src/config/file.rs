//! The file of a configuration (`--config FILE`): TOML with a table for each command.
//!
//! Called by [`Config`](super::Config) alone. Must not repeat a value that may be a secret.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use crawlmark_harness::units::nearest;
use toml::{Table, Value};

use super::printed::example;
use super::{Given, configurable, is_repeatable, is_switch, key, known, may_lack_value};
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
        let name = command.get_name();
        let text = fs::read_to_string(&path).map_err(|error| {
            let remedy = format!("Check --config and CRAWLMARK_CONFIG, or write a file with `crawlmark {name} --print-config`");
            refused(&path, &format!("cannot be read: {error}. {remedy}"))
        })?;
        let tables: Table = text
            .parse()
            .map_err(|error| refused(&path, &explained(&text, command, &error)))?;
        for (table, value) in &tables {
            let Some(keys) = value.as_table() else {
                let why = format!("`{table}` is in no table: write a line [{name}] above it");
                return Err(refused(&path, &why));
            };
            let Some(command) = program.find_subcommand(table) else {
                let hint = nearest(table, program.get_subcommands().map(Command::get_name));
                let hint = hint.map(|meant| format!(": did you mean [{meant}]?"));
                let hint = hint.unwrap_or_default();
                return Err(refused(
                    &path,
                    &format!("[{table}] is not the table of a command{hint}"),
                ));
            };
            for key in keys.keys() {
                known(command, key).map_err(|meant| {
                    let hint = meant.map(|meant| format!(": did you mean `{meant}`?"));
                    let hint = hint.unwrap_or_default();
                    refused(&path, &format!("[{table}] has no key `{key}`{hint}"))
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
        let others = match &*tables {
            [] => String::new(),
            others => format!(", only {}", others.join(", ")),
        };
        let why = format!(
            "there is no table [{command}]{others}, so it configures nothing of `crawlmark {command}`. Write the settings below a \
             line [{command}] (`crawlmark {command} --print-config` prints one), or remove --config"
        );
        Err(refused(&self.path, &why))
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
        let texts = match value {
            Value::Array(values) if is_repeatable(argument) => values.iter().map(text).collect(),
            value => text(value).map(|text| vec![text]),
        };
        let (given, form) = match (value, texts) {
            (Value::Boolean(is_set), _) if may_lack_value(argument) => {
                (Some(Given::Switch(*is_set)), "")
            }
            _ if is_switch(argument) => (None, "true or false"),
            (_, Some(texts)) => (Some(Given::Texts(texts)), ""),
            _ if is_repeatable(argument) => (None, "a list of plain values"),
            _ => (None, "one plain value"),
        };
        let given = given.ok_or_else(|| {
            let why = format!(
                "`{key}` in [{command}] is {form}, as in {key} = {}",
                example(argument)
            );
            refused(&self.path, &why)
        })?;
        Ok(Some((given, self.path.display().to_string())))
    }
}

fn refused(path: &Path, why: &str) -> Error {
    Error::Usage(format!("{}: {why}", path.display()))
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

/// The error of a line that is no TOML, with its key and the form of that key's value. Never with
/// the line itself, which may hold a secret.
fn explained(text: &str, command: &Command, error: &toml::de::Error) -> String {
    let start = error.span().map_or(0, |span| span.start);
    let number = text[..text.floor_char_boundary(start)]
        .matches('\n')
        .count();
    let line = text.lines().nth(number).unwrap_or_default();
    let name = line.split('=').next().unwrap_or_default().trim();
    let why = format!("line {}: {}", number + 1, error.message());
    match configurable(command).find(|argument| key(argument) == name) {
        Some(argument) => format!(
            "{why}, at `{name}`: write it as in {name} = {}",
            example(argument)
        ),
        None => why,
    }
}
