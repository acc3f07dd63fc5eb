//! The command line of `run` that a result keeps, without secrets, and the flags that the words of
//! a study give to its rounds.
//!
//! The values are those that clap matched, not those of the plan: a plan does not show that a
//! condition came from `--max-error-rate` or a latency from `--target-profile`, and `--rate 5k`
//! reads better than its parsed form. Values that depend on the machine are taken from the plan.

use std::fs;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};
use crawlmark_harness::plan::{ProxySource, RunPlan};
use crawlmark_results::run::parts::PlanFile;
use crawlmark_results::run::report::CommandLine;
use crawlmark_results::show::text::shell_word;

use super::table::{
    BEARER, Flag, HEADERS, ID_FORMAT, PROXY, Record, SAVE, SAVING, TARGETS, URL, URLS, Values, arg,
    name, name_of, row, run_arguments,
};
use super::{Cli, Command, NO_PROXY};
use crate::crawl::proxy::ProxyUrl;
use crate::crawl::{IdFormat, redact};

/// The words before the flags of a run.
const RUN: [&str; 2] = ["crawlmark", "run"];

/// Arguments that name the same thing: one of them takes the place of the others.
const SAME: [&[&str]; 2] = [&TARGETS, &[arg!(ids), arg!(requests)]];

/// Values that a command line gives the arguments of `run`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Typed {
    /// Values as they were written, by the names of their fields.
    pub values: Values,
    /// Those that were typed to go on with another command line, whose values are beside them.
    pub now: Values,
}

impl Typed {
    /// Read the arguments of `run`, or of `plan`, which has those of the run that each part is.
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let mut values = Values::new();
        for argument in run_arguments() {
            let id = argument.get_id().as_str();
            if row(id).is_some() && matches.value_source(id) == Some(ValueSource::CommandLine) {
                values.insert(id.to_owned(), raw_values(matches, id));
            }
        }
        if let Some(format) = id_format(&values) {
            values.insert(ID_FORMAT.to_owned(), vec![format.to_string()]);
        }
        Self {
            values,
            ..Self::default()
        }
    }

    /// Return the format of IDs.
    pub(super) fn id_format(&self) -> Option<IdFormat> {
        self.values.get(ID_FORMAT)?.first()?.parse().ok()
    }

    /// Read words after `run`; empty if they are not understood.
    fn of_words(words: &[String]) -> Self {
        Self::read(words).unwrap_or_default()
    }

    /// Read words after `run`.
    fn read(words: &[String]) -> Result<Self, clap::Error> {
        let line = RUN.iter().copied().chain(words.iter().map(String::as_str));
        let matches = Cli::matches(line)?;
        let run = matches.subcommand_matches("run");
        Ok(run.map(Self::of).unwrap_or_default())
    }

    /// Return the arguments that have values, in the order of the help.
    fn arguments(&self) -> impl Iterator<Item = (&'static Arg, &Vec<String>)> {
        run_arguments().iter().filter_map(|argument| {
            let values = self.values.get(argument.get_id().as_str())?;
            Some((argument, values))
        })
    }

    /// Return the command line that repeats a run, without secrets. What depends on the machine is
    /// as in `plan`, or as typed without one.
    pub fn command(&self, plan: Option<&RunPlan>) -> CommandLine {
        let mut command = CommandLine {
            arguments: RUN.map(str::to_owned).into(),
            ..CommandLine::default()
        };
        for (argument, values) in self.arguments() {
            let id = argument.get_id().as_str();
            let name = name(argument);
            let again = format!("{name} ...");
            let shown = match row(id).map_or(Record::Never, |flag| flag.record) {
                Record::Never => continue,
                Record::FromPlan if plan.is_some() => continue,
                Record::Withheld if id == HEADERS => {
                    let headers = values
                        .iter()
                        .map(|value| redact::header(value))
                        .map(|header| format!("{name} '{header}'"));
                    command.withheld.extend(headers);
                    continue;
                }
                Record::Withheld => {
                    command.withheld.push(again);
                    continue;
                }
                Record::Redacted => redacted(id, values),
                Record::FromPlan | Record::AsTyped => values.clone(),
            };
            if shown != *values {
                command.withheld.push(again);
            } else if TARGETS.contains(&id) && *values == ["-"] {
                // Of standard input, nothing is recorded.
                command.withheld.push(format!("{name} -"));
            }
            command.arguments.extend(words_of(argument, &shown));
        }
        for (flag, value) in plan.map(of_plan).unwrap_or_default() {
            if value.contains("...@") {
                command.withheld.push(format!("{flag} ..."));
            }
            command.arguments.extend([flag.to_owned(), value]);
        }
        command
    }
}

/// Return the format of IDs whose range is typed with leading zeros; none if a format is typed, or
/// nothing has IDs in its URL.
fn id_format(values: &Values) -> Option<IdFormat> {
    let has_url = TARGETS.iter().any(|target| values.contains_key(*target));
    let [ids] = values.get(arg!(ids))?.as_slice() else {
        return None;
    };
    let format = IdFormat::of_range(ids)?;
    (has_url && !values.contains_key(ID_FORMAT)).then_some(format)
}

/// Return the flags that a plan gives their values.
fn of_plan(plan: &RunPlan) -> Vec<(&'static str, String)> {
    let settings = &plan.workload;
    let mut flags = vec![("--shards", plan.shards.to_string())];
    if let Some(bundled) = &settings.bundled {
        flags.push(("--target-processes", bundled.target_processes.clone()));
    }
    // One URL from the environment: the command does without that.
    if matches!(settings.proxy_from, Some(ProxySource::Variables(_))) && plan.per_host.hosts == 1 {
        flags.extend(settings.proxy.clone().map(|url| ("--proxy", url)));
    }
    flags
}

/// Return the words that give an argument these values.
fn words_of(argument: &Arg, values: &[String]) -> Vec<String> {
    let Some(long) = argument.get_long() else {
        return values.to_owned();
    };
    if matches!(argument.get_action(), ArgAction::SetTrue) {
        return vec![format!("--{long}")];
    }
    values
        .iter()
        .flat_map(|value| {
            match Some(value).filter(|it| argument.is_require_equals_set() || it.starts_with('-')) {
                Some(value) => vec![format!("--{long}={value}")],
                None => vec![format!("--{long}"), value.clone()],
            }
        })
        .collect()
}

/// Return the values of an argument as they were written.
fn raw_values(matches: &ArgMatches, id: &str) -> Vec<String> {
    matches
        .get_raw(id)
        .into_iter()
        .flatten()
        .map(|value| value.to_string_lossy().into_owned())
        .collect()
}

/// Find the first flag among these words after `run` that a round of a study cannot have, as in
/// `--out`. What it does is in its words and in no file, so that its command can be repeated.
pub(crate) fn refused_in_rounds(words: &[String]) -> Option<String> {
    let typed = Typed::of_words(words);
    let mut flags = typed.values.keys().filter_map(|id| row(id));
    name_of(flags.find(|flag| !flag.is_for_rounds)?.id)
}

/// Find the arguments of `run` that these words give a value, by the names of their fields; none of
/// words that it does not understand.
pub(crate) fn given_in_rounds(words: &[String]) -> Vec<String> {
    Typed::of_words(words).values.into_keys().collect()
}

/// Command line of a file: of a plan, or of a saved crawl.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileCommand {
    pub(crate) command: CommandLine,
    /// Flags of saving, of a plan.
    pub(crate) saving: Vec<String>,
    /// Directory of a plan: a list of URLs that lies in it is its own.
    pub(crate) place: Option<PathBuf>,
}

/// Reason why a command line of a file cannot be gone on with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotResumed {
    /// Nothing that this program records.
    #[error("its command line is not one that crawlmark records. Restore the file")]
    Foreign,
    /// A value is refused.
    #[error("{0}")]
    Refused(#[from] clap::Error),
    /// Flags that are not taken from a file, which the words leave out.
    #[error(
        "secrets, files, commands and where they go are not taken from a file. Check what it asks for, then add: {}",
        .0.join(" ")
    )]
    Missing(Vec<String>),
}

impl FileCommand {
    /// The command line of the plan at `path`.
    pub(crate) fn of(plan: &PlanFile, path: &Path) -> Self {
        Self {
            command: plan.command.clone(),
            saving: plan.saving.clone(),
            place: fs::canonicalize(path)
                .ok()
                .and_then(|path| Some(path.parent()?.to_owned())),
        }
    }

    /// True if this flag is taken from the file, or is that of a list of URLs in the directory of the
    /// plan.
    fn is_taken(&self, id: &str, values: &[String]) -> bool {
        let is_beside = |value: &String| {
            let list = fs::canonicalize(value).ok();
            list.is_some_and(|list| list.is_file() && list.parent() == self.place.as_deref())
        };
        // Recorded requests may hold credentials, and a URL in the file says where they go.
        row(id).is_some_and(Flag::is_taken) || id == URLS && values.iter().all(is_beside)
    }

    /// Return the command line that goes on with this one: its flags that are taken from a file, but
    /// for those that `words_now` give another value, then `words_now`, which begin after `run`.
    ///
    /// # Errors
    /// Lists the flags that have to be typed again, and that `words_now` leave out.
    pub(crate) fn resumed(&self, words_now: &[String]) -> Result<Cli, NotResumed> {
        let now = Typed::of_words(words_now).values;
        let (mut taken, flags) = self.divided(&now)?;
        if !flags.is_empty() {
            return Err(NotResumed::Missing(flags));
        }
        let saving = Typed::read(&self.saving)?.values;
        if !saving.iter().all(|(id, values)| is_of_part(id, values)) {
            return Err(NotResumed::Foreign);
        }
        let mut all: Vec<String> = RUN.map(str::to_owned).into();
        for (argument, values) in taken.arguments() {
            all.extend(words_of(argument, values));
        }
        all.extend_from_slice(words_now);
        all.extend_from_slice(&self.saving);
        taken.values.extend(saving);
        taken.values.extend(now.clone());
        let mut cli = Cli::of(all)?;
        match &mut cli.command {
            // A word of the file is a value, and no flag that stands in its place.
            Command::Run(run) if run.typed.values == taken.values => run.typed.now = now,
            _ => return Err(NotResumed::Foreign),
        }
        Ok(cli)
    }

    /// Return the flags that are typed again with each command that goes on with this one.
    pub(crate) fn typed_again(&self) -> String {
        let divided = self.divided(&Values::new());
        divided.map_or_else(|_| String::new(), |(_, flags)| flags.join(" "))
    }

    /// Return the flags that `now` does not give: those that are taken from the file, and those that
    /// have to be typed, as a shell has them.
    fn divided(&self, now: &Values) -> Result<(Typed, Vec<String>), clap::Error> {
        let mut again = self.withheld();
        let arguments = self.command.arguments.get(RUN.len()..);
        let mut recorded = Typed::read(arguments.unwrap_or_default())?;
        // One of several takes the place of the others, unless they go together in the file.
        let all = recorded.values.clone();
        // Whoever wrote the file chose its target.
        let is_sent = now
            .keys()
            .chain(all.keys())
            .chain(again.iter().map(|(id, _)| id))
            .any(|id| row(id).is_some_and(Flag::is_sent));
        let is_taken = |id: &str, values: &[String]| {
            self.is_taken(id, values) && !(is_sent && TARGETS.contains(&id))
        };
        let is_given = |id: &str| {
            let mut same = SAME.into_iter().filter(|same| same.contains(&id)).flatten();
            let is_new = |other: &&str| now.contains_key(*other) && !all.contains_key(*other);
            now.contains_key(id) || same.any(is_new)
        };
        for (argument, values) in recorded.arguments() {
            let id = argument.get_id().to_string();
            let is_named = again.iter().any(|(withheld, _)| *withheld == id);
            if !is_named && !is_taken(&id, values) {
                let words: Vec<String> = words_of(argument, values)
                    .iter()
                    .map(|word| shell_word(word))
                    .collect();
                again.push((id, words.join(" ")));
            }
        }
        again.retain(|(id, _)| !is_given(id));
        recorded
            .values
            .retain(|id, values| !is_given(id) && is_taken(id, values));
        Ok((recorded, again.into_iter().map(|(_, flag)| flag).collect()))
    }

    /// Return the parts that were not recorded, by the names of their fields: their flags, and of a
    /// header its name. The rest is a text that anybody may have written.
    fn withheld(&self) -> Vec<(String, String)> {
        let mut parts = Vec::new();
        for part in &self.command.withheld {
            let (flag, rest) = part.split_once(' ').unwrap_or((part, ""));
            let argument = run_arguments()
                .iter()
                .find(|argument| name(argument) == flag);
            parts.push(match argument {
                Some(argument) => {
                    let shown = if is_header(rest) { rest } else { "..." };
                    (argument.get_id().to_string(), format!("{flag} {shown}"))
                }
                None => (URL.to_owned(), "URL".to_owned()),
            });
        }
        parts
    }
}

/// True of a header whose value was withheld: `'NAME: ...'`.
fn is_header(text: &str) -> bool {
    text.strip_prefix('\'')
        .and_then(|it| it.strip_suffix(": ...'"))
        .is_some_and(|name| {
            name.chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        })
}

/// Return the variable whose token these words of a round send.
pub(crate) fn bearer_variable(words: &[String]) -> Option<String> {
    Typed::of_words(words).values.remove(BEARER)?.pop()
}

/// True if a plan may give a flag of saving these values: the directory is inside that of each
/// attempt.
pub(crate) fn is_of_part(id: &str, values: &[String]) -> bool {
    let is_inside = |name: &String| !name.starts_with('.') && !name.contains('/');
    SAVING.contains(&id) && (id != SAVE || values.iter().all(is_inside))
}

/// Return the values of an argument that is recorded without secrets.
fn redacted(id: &str, values: &[String]) -> Vec<String> {
    if id == PROXY {
        values
            .iter()
            .map(|url| match url.parse::<ProxyUrl>() {
                _ if url == NO_PROXY => NO_PROXY.to_owned(),
                Ok(url) => url.to_string(),
                Err(_) => "...".to_owned(),
            })
            .collect()
    } else {
        values.iter().map(|url| redact::url(url)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn typed(arguments: &[&str]) -> CommandLine {
        Typed::of_words(&line(arguments)).command(None)
    }

    #[test]
    fn a_round_has_no_result_and_no_threshold_of_its_own() {
        for (words, refused) in [
            (&["-c", "2", "--name", "x"][..], None),
            (&["-c", "2", "--export", "csv=x"], Some("--export")),
            (&["--fail-if", "rate > 5"], Some("--threshold")),
            (&["--config", "x"], Some("--config")),
            // Refused when it is parsed.
            (&["--strict", "--no-such-flag"], None),
        ] {
            assert_eq!(refused_in_rounds(&line(words)).as_deref(), refused);
        }
    }

    #[test]
    fn what_was_typed_is_typed_again_by_its_long_name() {
        for (words, recorded) in [
            (&[][..], "crawlmark run"),
            (
                &[
                    "http://h/",
                    "-R5k",
                    "-n",
                    "7",
                    "--no-pin",
                    "--fail-if=rate > 5",
                ],
                "crawlmark run http://h/ --items 7 --rate 5k --no-pin --threshold rate > 5",
            ),
            (
                &["--adaptive", "--name=-x"],
                "crawlmark run --adaptive=aimd --name=-x",
            ),
            (
                &["-s", "2", "--out", "x", "--json", "--name", "y"],
                "crawlmark run --shards 2 --name y",
            ),
        ] {
            assert_eq!(typed(words).arguments.join(" "), recorded);
        }
    }

    #[test]
    fn what_is_typed_takes_the_place_of_what_names_the_same() {
        let saved = typed(&["http://h/", "--items", "100", "--shuffle"]);
        for (now, all) in [
            (["--ids", "0..7"], "http://h/ --ids 0..7 --shuffle"),
            (["--urls", "x"], "--urls x --items 100 --shuffle"),
        ] {
            let file = FileCommand {
                command: saved.clone(),
                ..FileCommand::default()
            };
            let cli = file.resumed(&line(&now)).unwrap();
            let Command::Run(run) = cli.command else {
                panic!("{cli:?}")
            };
            let words = run.typed.command(None).arguments;
            assert_eq!(words[RUN.len()..].join(" "), all);
        }
    }

    /// In every form in which a flag is typed, also after others.
    #[test]
    fn what_is_withheld_is_redacted_in_any_command_line() {
        let is_withheld = |argument: &&Arg| {
            let row = row(argument.get_id().as_str());
            row.is_some_and(|flag| flag.record == Record::Withheld)
        };
        let mut forms = 0;
        for argument in run_arguments().iter().filter(is_withheld) {
            let longs = argument.get_all_aliases().unwrap_or_default();
            let long = longs.into_iter().chain(argument.get_long());
            let shorts = argument
                .get_short()
                .into_iter()
                .map(|letter| format!("-{letter}"));
            let (separate, joined): (Vec<String>, Vec<String>) = long
                .map(|long| (format!("--{long}"), format!("--{long}=hush:hush")))
                .chain(shorts.map(|short| (short.clone(), format!("{short}hush:hush"))))
                .unzip();
            for words in separate
                .iter()
                .map(|flag| line(&[flag, "hush:hush"]))
                .chain(joined.iter().map(|word| line(&[word])))
            {
                let shown = redact::words(&words).join(" ");
                assert!(!shown.contains(":hush"), "{shown}");
                forms += 1;
            }
        }
        assert!(forms >= 14, "{forms}");
    }

    #[test]
    fn secrets_are_named_and_not_told() {
        let typed = typed(&["-H", "x-key:hidden", "--body", "hidden", "-au:hidden"]);
        assert!(!format!("{typed:?}").contains("hidden"));
        let names = ["--header 'x-key: ...'", "--body ...", "--auth ..."];
        assert_eq!(typed.withheld, names);
    }
}
