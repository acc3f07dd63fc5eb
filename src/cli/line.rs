//! The words of a command line before they are read, and the hints of the errors that reading them
//! gives.
//!
//! Called by [`Cli`](super::Cli) alone. Must not decide what a value means.

use std::ffi::{OsStr, OsString};

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use crawlmark_harness::units::nearest;

/// Names that other tools have for flags of this one.
const FLAGS: [(&str, &str); 20] = [
    ("--clients", "--connections"),
    ("--concurrency", "--connections"),
    ("--count", "--items"),
    ("--data", "--body"),
    ("--iterations", "--items"),
    ("--max-time", "--timeout"),
    ("--output", "--out"),
    ("--parallel", "--connections"),
    ("--port", "--listen"),
    ("--silent", "--quiet"),
    ("--thresholds", "--threshold"),
    ("--threads", "--shards"),
    ("--time", "--duration"),
    ("--user-agent", "--header"),
    ("--users", "--connections"),
    ("--vus", "--connections"),
    ("--workers", "--shards"),
    ("-X", "-m"),
    ("-u", "--auth"),
    ("-o", "--out"),
];

/// Names that other tools have for commands of this one.
const COMMANDS: [(&str, &str); 9] = [
    ("bench", "run"),
    ("benchmark", "run"),
    ("crawl", "run"),
    ("diff", "compare"),
    ("mock", "serve"),
    ("server", "serve"),
    ("start", "run"),
    ("sweep", "scale"),
    ("target", "serve"),
];

/// The words with a negative number joined to the flag before it: as its value, it is refused by
/// what the flag takes; by itself, it would be taken for a flag that does not exist.
pub(super) fn with_values(words: impl IntoIterator<Item = impl Into<OsString>>) -> Vec<OsString> {
    let mut all: Vec<OsString> = Vec::new();
    for word in words {
        let word = word.into();
        match all.last_mut() {
            Some(flag) if is_bare_flag(flag) && is_negative(&word) => {
                flag.push("=");
                flag.push(word);
            }
            _ => all.push(word),
        }
    }
    all
}

fn is_negative(word: &OsStr) -> bool {
    matches!(
        word.as_encoded_bytes(),
        [b'-', b'0'..=b'9', ..] | [b'-', b'.', b'0'..=b'9', ..]
    )
}

/// A flag without a value joined to it.
fn is_bare_flag(word: &OsStr) -> bool {
    match word.as_encoded_bytes() {
        [b'-', b'-', name @ ..] => !name.is_empty() && !name.contains(&b'='),
        [b'-', letter] => letter.is_ascii_alphabetic(),
        _ => false,
    }
}

/// The error with a hint of what was probably meant, in the place of clap's own.
pub(super) fn explained(
    mut error: clap::Error,
    command: &Command,
    words: &[OsString],
) -> clap::Error {
    let kind = error.kind();
    let at = match kind {
        ErrorKind::UnknownArgument | ErrorKind::ArgumentConflict => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::InvalidValue => {
            // All values are listed, and clap takes tcsh for zsh.
            error.remove(ContextKind::SuggestedValue);
            return error;
        }
        _ => return error,
    };
    let Some(ContextValue::String(name)) = error.get(at) else {
        return error;
    };
    let called = words.get(1).and_then(|word| command.find_subcommand(word));
    let unjoined = called.and_then(|called| unjoined(words, called));
    let tip = match called {
        _ if unjoined.is_some() => unjoined,
        _ if kind == ErrorKind::ArgumentConflict => return error,
        _ if kind == ErrorKind::InvalidSubcommand => meant_command(name, command),
        Some(called) => meant_flag(name, called, command),
        None => is_of_run(name, command)
            .then(|| format!("flags follow a command, as in crawlmark run {name}")),
    };
    // What clap suggests is in its usage, too.
    for kind in [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::Suggested,
        ContextKind::Usage,
    ] {
        error.remove(kind);
    }
    if let Some(tip) = tip {
        let tip = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tip);
    }
    error
}

/// A flag whose value has to be joined to it, with a word behind it that is neither a flag nor a
/// URL or path.
fn unjoined(words: &[OsString], called: &Command) -> Option<String> {
    let joins = |flag: &str| {
        let mut all = called
            .get_arguments()
            .filter(|argument| argument.is_require_equals_set());
        all.any(|argument| argument.get_long() == flag.strip_prefix("--"))
    };
    words.windows(2).find_map(|pair| {
        let (flag, value) = (pair[0].to_str()?, pair[1].to_str()?);
        let is_value = !value.starts_with('-') && !value.contains([':', '/']);
        (is_value && joins(flag)).then(|| did_you_mean(&format!("{flag}={value}")))
    })
}

fn meant_command(name: &str, command: &Command) -> Option<String> {
    if name.contains(['/', ':', '.']) || name == "localhost" {
        return Some(format!(
            "a URL follows a command, as in crawlmark run {name}"
        ));
    }
    let meant = COMMANDS
        .iter()
        .find(|(other, _)| *other == name)
        .map(|(_, own)| *own);
    let known = command.get_subcommands().map(Command::get_name);
    meant.or_else(|| nearest(name, known)).map(did_you_mean)
}

fn meant_flag(name: &str, called: &Command, command: &Command) -> Option<String> {
    if !name.starts_with('-') {
        return match called.get_name() {
            "run" => Some("there is one URL; several are read from a file: --urls FILE".to_owned()),
            "ab" => Some(format!("the URL goes after --, as in -- {name}")),
            _ => None,
        };
    }
    let mut arguments = called.get_arguments();
    if arguments.any(|argument| argument.get_id() == "run") && is_of_run(name, command) {
        return Some(format!(
            "flags of `crawlmark run` go after --, as in -- {name}"
        ));
    }
    let own = spellings(called);
    let stem = name.trim_start_matches('-');
    let other_case = |c: char| {
        if c.is_lowercase() {
            c.to_ascii_uppercase()
        } else {
            c.to_ascii_lowercase()
        }
    };
    let synonym = FLAGS.iter().find(|(other, _)| *other == name);
    let candidates = [
        format!("--target-{stem}"),
        format!("--{}", stem.trim_start_matches("target-")),
        synonym.map_or(String::new(), |(_, own)| (*own).to_owned()),
        name.chars().map(other_case).collect(),
    ];
    let meant = candidates.into_iter().find(|name| own.contains(name));
    let long = || {
        own.iter()
            .filter(|own| own.starts_with("--") && name.starts_with("--"))
    };
    let meant = meant.or_else(|| nearest(name, long()).cloned());
    meant.as_deref().map(did_you_mean)
}

fn did_you_mean(name: &str) -> String {
    format!("did you mean '{name}'?")
}

/// True if `run` has a flag that is spelt so.
fn is_of_run(name: &str, command: &Command) -> bool {
    let run = command.find_subcommand("run");
    run.is_some_and(|run| spellings(run).iter().any(|own| own == name))
}

/// Every way to write each flag of a command.
fn spellings(command: &Command) -> Vec<String> {
    let of = |argument: &clap::Arg| {
        let long = argument.get_long_and_visible_aliases().unwrap_or_default();
        let short = argument.get_short_and_visible_aliases().unwrap_or_default();
        let long = long.into_iter().map(|name| format!("--{name}"));
        long.chain(short.into_iter().map(|letter| format!("-{letter}")))
            .collect::<Vec<_>>()
    };
    command.get_arguments().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use proptest::prelude::*;

    use super::super::Cli;
    use super::*;

    fn refusal(words: &[&str]) -> String {
        Cli::matches([&["crawlmark"], words].concat())
            .unwrap_err()
            .render()
            .to_string()
    }

    /// Flags with the command that each is of.
    fn flags() -> Vec<(String, String)> {
        let command = Cli::command();
        let of = |command: &Command| {
            let name = command.get_name().to_owned();
            spellings(command)
                .into_iter()
                .filter(|flag| flag.len() > 4)
                .map(move |flag| (name.clone(), flag))
        };
        command.get_subcommands().flat_map(of).collect()
    }

    #[test]
    fn what_other_tools_call_it_is_known() {
        for (words, says) in [
            (
                &["run", "--concurrency", "5"][..],
                "did you mean '--connections'?",
            ),
            (&["run", "--workers", "5"], "did you mean '--shards'?"),
            (&["run", "-r", "5"], "did you mean '-R'?"),
            (&["run", "--limit", "5/s"], "did you mean '--target-limit'?"),
            (
                &["serve", "--target-limit", "5/s"],
                "did you mean '--limit'?",
            ),
            (
                &["run", "http://a/", "http://b/"],
                "several are read from a file: --urls FILE",
            ),
            (&["ab", "--rate", "5"], "go after --, as in -- --rate"),
            (&["ab", "http://a/"], "after --, as in -- http://a/"),
            (&["ab", "--aa", "3"], "did you mean '--aa=3'?"),
            (
                &["scale", "--latency-bound", "20ms"],
                "did you mean '--latency-bound=20ms'?",
            ),
            (&["scale", "-n", "5"], "go after --, as in -- -n"),
            (
                &["capacity", "--conections", "5"],
                "unexpected argument '--conections'",
            ),
            (&["rnu"], "did you mean 'run'?"),
            (&["bench"], "did you mean 'run'?"),
            (
                &["http://localhost:8080/"],
                "crawlmark run http://localhost:8080/",
            ),
            (&["--rate", "5"], "crawlmark run --rate"),
        ] {
            let said = refusal(words);
            assert!(said.contains(says), "{words:?}: {said}");
        }
        for words in [
            &["run", "--frobnicate"][..],
            &["fly"],
            &["serve", "http://a/"],
        ] {
            assert!(!refusal(words).contains("tip:"), "{}", refusal(words));
        }
    }

    #[test]
    fn what_is_suggested_exists() {
        let command = Cli::command();
        let own: Vec<String> = command.get_subcommands().flat_map(spellings).collect();
        for (other, meant) in FLAGS {
            assert!(own.iter().any(|own| own == meant), "{other}: {meant}");
        }
        for (other, meant) in COMMANDS {
            assert!(
                command.find_subcommand(other).is_none()
                    && command.find_subcommand(meant).is_some(),
                "{other}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_flag_with_a_slip_is_recognised(
            (of, flag) in prop::sample::select(flags()), at in any::<prop::sample::Index>(), slip in 0..3,
        ) {
            // Not in the dashes, nor the letter that other flags may begin without.
            let at = 3 + at.index(flag.len() - 4);
            let mut bytes = flag.clone().into_bytes();
            match slip {
                0 => drop(bytes.remove(at)),
                1 => bytes.swap(at, at - 1),
                _ => bytes.insert(at, bytes[at]),
            }
            let typed = String::from_utf8(bytes).unwrap();
            let Err(error) = Cli::matches(["crawlmark", &of, &typed]) else { return Ok(()) };
            if error.kind() == ErrorKind::UnknownArgument {
                let said = error.render().to_string();
                prop_assert!(said.contains("did you mean '--"), "{} {} of {}: {}", of, typed, flag, said);
            }
        }

        #[test]
        fn a_negative_value_is_refused_as_the_value_of_its_flag((of, flag) in prop::sample::select(flags()), value in "-[0-9]{1,3}(\\.5)?(s|ms|k|%|/s)?") {
            let Err(error) = Cli::matches(["crawlmark", &of, &flag, &value]) else { return Ok(()) };
            prop_assert!(error.kind() != ErrorKind::UnknownArgument, "{} {} {}: {}", of, flag, value, error.render());
        }
    }
}
