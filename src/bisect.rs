//! `crawlmark bisect`: which commit made a metric worse.
//!
//! It builds commits, runs blocks of rounds and shows progress; the search and its statistics are in
//! `crawlmark_results::studies::bisect`.
//!
//! | module | holds |
//! |---|---|
//! | `repository` | the commits, and a worktree for each |
//! | `cache` | builds and readings that an interrupted search goes on with |

mod cache;
mod repository;

use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::stats::median;
use crawlmark_results::run::report::{Environment, Placement};
use crawlmark_results::show::text::counted;
use crawlmark_results::studies::bisect::search::{Answer, Search, Step};
use crawlmark_results::studies::bisect::{
    Bisect, BisectQuestion, BlockReport, Commit, block_order,
};
use crawlmark_results::studies::compare::{
    CPU_TIME, Disturbance, MachineState, Metric, Reading, Readings, TARGET_CPU_PER_ATTEMPT,
    readings_of_executions, readings_of_run, run_metrics,
};
use crawlmark_results::studies::history::{History, read_points};
use crawlmark_results::studies::{Header, shell_line};

use self::cache::{Cache, Line};
use self::repository::Repository;
use crate::cli::{BisectArgs, bearer_variable};
use crate::crawl::redact;
use crate::error::Error;
use crate::study::{self, CommandSetup, ROUNDS, RoundError, Rounds, Setup, Study, usage};
use crate::subject::{Crawl, Subject, command_metrics_of, command_setup, fitting_executions};

/// Placeholder of the directory of a build.
const DIRECTORY: &str = "{dir}";

/// Assumed duration of a round before one was run.
const FIRST_GUESS: Duration = Duration::from_secs(2);

/// Search, and return the exit code.
pub(crate) fn bisect(args: &BisectArgs) -> Result<u8, Error> {
    let here = args.repository.as_deref().unwrap_or(Path::new("."));
    let repository = Repository::at(here)?;
    let revisions = revisions(args)?;
    let [good, bad] = &revisions;
    let commits = repository.between(good, bad)?;
    let subject = subject(args)?;
    let metric = metric(args)?;
    let what = match (&args.target, &args.command) {
        (Some(target), _) => format!("{target} -- {}", shell_line(&args.run)),
        (None, command) => command.clone().unwrap_or_default(),
    };
    let bad_end = commits.len() - 1;
    let top = repository.top().display().to_string();
    let words = [
        &top,
        &commits[0].commit,
        &commits[bad_end].commit,
        &args.build,
        &what,
        &metric.name.to_string(),
        &shell_line(&args.commands.words()),
    ];
    let (cache, lines) = Cache::open(args.cache.as_deref(), &words.map(|word| &**word))?;
    let question = BisectQuestion {
        check: check(args),
        revisions,
        build: redact::line(&args.build),
        subject: redact::line(&what),
        metric,
    };
    let least = question.metric.loss(question.metric.smallest_effect);
    let mut study = BisectStudy {
        args,
        search: Search::new(bad_end, least, args.pairs),
        repository,
        cache: Some(cache),
        subject,
        question,
        built: vec![None; commits.len()],
        commits,
        blocks: Vec::new(),
        begun: 0,
        executions: args.commands.executions,
        takes: FIRST_GUESS,
        answer: None,
    };
    for line in lines {
        study.recall(line);
    }
    study::conduct(study, &args.keep, "bisect")
}

/// Both ends as they are typed, or as a history has them.
fn revisions(args: &BisectArgs) -> Result<[String; 2], Error> {
    let Some(path) = &args.from_history else {
        return Ok([&args.good, &args.bad].map(|end| end.clone().unwrap_or_default()));
    };
    let place = path.display();
    let Some(history) = History::of(read_points(path)?, "history") else {
        return usage(format!("{place} has no result"));
    };
    let wanted = args.metric.as_deref();
    let mut losses: Vec<_> = history
        .series
        .iter()
        .filter(|series| wanted.is_none_or(|wanted| series.metric.name == wanted))
        .flat_map(|series| series.changes.iter().map(move |change| (series, change)))
        .filter(|(series, change)| {
            let shift = change.shift.after - change.shift.before;
            series.metric.toward_worse(shift) > 0.0
        })
        .collect();
    losses.sort_by_key(|(series, change)| &series.results[change.at].time);
    let Some((series, change)) = losses.last() else {
        return usage(format!(
            "{place} has no change for the worse: name both ends (--good, --bad)"
        ));
    };
    let ends = [change.earliest.saturating_sub(1), change.latest];
    let commits = ends.map(|at| series.results[at].commit.clone());
    if commits.iter().any(String::is_empty) {
        return usage(format!(
            "{place}: results beside the last loss have no commit: add them with --commit, or name both ends (--good, --bad)"
        ));
    }
    Ok(commits)
}

/// What is measured, with [`DIRECTORY`] in the place of a build's.
fn subject(args: &BisectArgs) -> Result<Subject, Error> {
    if let Some(line) = &args.command {
        let label = "a commit".to_owned();
        return Ok(Subject::Command(command_setup(
            label,
            line,
            &args.commands,
        )?));
    }
    let whose = "the flags after --";
    let target = [Some("--target"), args.target.as_deref()];
    let mut crawl = Crawl::new(
        "a commit".to_owned(),
        "bisect",
        whose,
        args.run.clone(),
        target,
    )?;
    crawl.setup.tokens = bearer_variable(&args.run).into_iter().collect();
    Ok(Subject::Crawl(Box::new(crawl)))
}

fn metric(args: &BisectArgs) -> Result<Metric, Error> {
    let (known, usual) = if args.command.is_some() {
        let metrics = command_metrics_of(&args.commands)?;
        let first = args.commands.value.first();
        let usual = first.map_or_else(|| CPU_TIME.to_owned(), |value| value.name.clone());
        (metrics, usual)
    } else {
        (run_metrics().to_vec(), TARGET_CPU_PER_ATTEMPT.to_owned())
    };
    let wanted = args.metric.clone().unwrap_or(usual);
    let names: Vec<_> = known.iter().map(|metric| metric.name.clone()).collect();
    let found = known.into_iter().find(|metric| metric.name == wanted);
    found.map_or_else(
        || {
            usage(format!(
                "--metric {wanted}: no such metric; there are {}",
                names.join(", ")
            ))
        },
        Ok,
    )
}

/// The command line that compares two builds in pairs.
fn check(args: &BisectArgs) -> String {
    let sides = [("base", "{base}"), ("cand", "{candidate}")];
    let mut words = vec!["crawlmark".to_owned(), "ab".to_owned()];
    for (side, directory) in sides {
        let (flag, line) = match (&args.target, &args.command) {
            (Some(target), _) => (format!("--{side}-target"), target),
            (None, Some(command)) => (format!("--{side}-command"), command),
            (None, None) => continue,
        };
        let line = redact::line(&line.replace(DIRECTORY, directory));
        // Without a shell, nothing changes the directory.
        let enters = args.commands.shell != "none";
        let enter = if enters {
            format!("cd {directory} && ")
        } else {
            String::new()
        };
        words.extend([flag, enter + &line]);
    }
    words.extend(args.commands.words().iter().map(|word| redact::line(word)));
    if args.target.is_some() {
        words.push("--".to_owned());
        words.extend(args.run.iter().map(|word| redact::line(word)));
    }
    shell_line(&words)
}

/// A round of a commit.
struct Measured {
    readings: Readings,
    state: MachineState,
}

/// The search, and what it needs.
struct BisectStudy<'a> {
    args: &'a BisectArgs,
    search: Search,
    repository: Repository,
    /// None once the search has ended.
    cache: Option<Cache>,
    subject: Subject,
    question: BisectQuestion,
    commits: Vec<Commit>,
    /// By commit: whether it builds, where that was tried.
    built: Vec<Option<bool>>,
    blocks: Vec<BlockReport>,
    /// Crawls that were begun, which number their directories.
    begun: usize,
    /// Executions in a round of a command, once that is known.
    executions: Option<u64>,
    /// Duration of a round.
    takes: Duration,
    answer: Option<Answer>,
}

impl Study for BisectStudy<'_> {
    type Result = Bisect;

    const NEEDS: &'static str = "both ends were measured";

    fn ready(&self) -> Duration {
        self.args.ready
    }

    fn announcement(&self) -> String {
        let [good, bad] = &self.question.revisions;
        let commits = counted((self.commits.len() - 1) as u64, "commit");
        let known = match self.blocks.len() {
            0 => String::new(),
            blocks => format!(", going on after {}", counted(blocks as u64, "block")),
        };
        let place = self
            .cache
            .as_ref()
            .map(|cache| cache.directory().display().to_string());
        format!(
            "searching {commits} after {good}, up to {bad}, for the one that made the {} worse{known}; builds and readings are in {}",
            self.question.metric.title,
            place.unwrap_or_default()
        )
    }

    fn run(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error> {
        loop {
            let step = self.search.next_step();
            if let Step::Done(answer) = step {
                self.answer = Some(answer);
                if answer != Answer::Unsettled {
                    self.clear();
                }
                return Ok(());
            }
            let (commits, blocks) = self.search.commits_of(step);
            if !self.are_built(rounds, &commits)? {
                continue;
            }
            for number in 1..=blocks {
                let name = match step {
                    Step::Ends(blocks) => format!("ends {number}/{blocks}"),
                    Step::Look(_) | Step::Done(_) => "look".to_owned(),
                };
                let shown = self.commit_of(step).to_owned();
                rounds.begin(
                    &name,
                    &shown,
                    self.takes * u32::try_from(commits.len()).unwrap_or(1),
                );
                let block = match self.block(rounds, &commits) {
                    Ok(block) => block,
                    // The ends have been measured before.
                    Err(RoundError {
                        number,
                        error: Error::Round(why),
                    }) if step == Step::Look(number) => {
                        self.leave_out(rounds, number, &why)?;
                        break;
                    }
                    Err(failed) => return Err(failed.error),
                };
                self.keep(Line::Block(block))?;
                rounds.stages.end(&name, &self.so_far(&shown));
            }
        }
    }

    fn result(&mut self, header: Header) -> Result<Option<Bisect>, Error> {
        let commits = mem::take(&mut self.commits)
            .into_iter()
            .zip(self.built.drain(..));
        if self.blocks.is_empty() {
            return Ok(None);
        }
        Ok(Bisect::new(
            header,
            Environment::read(Placement::Colocated),
            self.question.clone(),
            commits.collect(),
            mem::take(&mut self.blocks),
            &self.search,
            self.answer,
        ))
    }
}

impl BisectStudy<'_> {
    /// Take in what an earlier run of this search has kept.
    fn recall(&mut self, line: Line) {
        let is_known = |commit: &usize| *commit < self.commits.len();
        match line {
            Line::Broken(commit) if is_known(&commit) => {
                self.built[commit] = Some(false);
                self.search.leave_out(commit);
            }
            Line::Block(block) if block.readings.iter().all(|(commit, _)| is_known(commit)) => {
                for (commit, _) in &block.readings {
                    self.built[*commit] = Some(true);
                }
                self.search.note(block.block(&self.question.metric));
                self.blocks.push(block);
            }
            Line::Broken(_) | Line::Block(_) => {}
        }
    }

    /// Keep a line, and take it in.
    fn keep(&mut self, line: Line) -> Result<(), Error> {
        if let Some(cache) = &mut self.cache {
            cache.keep(&line)?;
        }
        self.recall(line);
        Ok(())
    }

    /// The commit that a step is about, as it is shown.
    fn commit_of(&self, step: Step) -> &str {
        match step {
            Step::Look(commit) => self.commits[commit].short(),
            Step::Ends(_) | Step::Done(_) => "",
        }
    }

    /// What is known after a block.
    fn so_far(&self, shown: &str) -> String {
        let (range, probability) = self.search.likeliest_range();
        let metric = &self.question.metric;
        let loss = self
            .search
            .change(self.commits.len() - 1, 0)
            .map_or(0.0, |change| metric.fraction(change.log) * 100.0);
        let commit = match shown {
            "" => String::new(),
            commit => format!("{commit}: "),
        };
        format!(
            "{commit}the bad end is worse by {loss:.1} %; most likely since {} ({:.0} %)",
            self.commits[range.last].short(),
            probability * 100.0
        )
    }

    fn worktree(&self, commit: usize) -> PathBuf {
        let cache = self.cache.as_ref();
        cache.map_or_else(PathBuf::new, |cache| {
            cache.worktree(&self.commits[commit].commit)
        })
    }

    /// Build what of these commits is not built yet. False if one cannot be built, which is left out.
    fn are_built(&mut self, rounds: &mut Rounds<'_>, commits: &[usize]) -> Result<bool, Error> {
        for commit in commits {
            let Some(why) = self.build(rounds, *commit)? else {
                continue;
            };
            if *commit == 0 || *commit + 1 == self.commits.len() {
                let name = self.commits[*commit].short();
                return Err(Error::Round(format!(
                    "build {name}, an end of the search: {why}"
                )));
            }
            self.leave_out(rounds, *commit, &format!("build it: {why}"))?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Leave out a commit that cannot be built or measured.
    fn leave_out(
        &mut self,
        rounds: &mut Rounds<'_>,
        commit: usize,
        why: &str,
    ) -> Result<(), Error> {
        let name = self.commits[commit].short();
        let said = format!("cannot {why}");
        rounds.stages.end(&format!("left out {name}"), &said);
        self.keep(Line::Broken(commit))
    }

    /// Build a commit in its worktree, unless it is built. Return why it cannot be built, if so.
    fn build(&mut self, rounds: &mut Rounds<'_>, commit: usize) -> Result<Option<String>, Error> {
        let Some(cache) = &self.cache else {
            return Ok(None);
        };
        let directory = cache.worktree(&self.commits[commit].commit);
        if cache.is_built(&self.commits[commit].commit) {
            self.built[commit] = Some(true);
            return Ok(None);
        }
        rounds.begin("build", self.commits[commit].short(), FIRST_GUESS);
        // A build that was cut begins anew.
        self.repository.remove(&directory);
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(Error::unwritable(&directory))?;
        }
        self.repository
            .check_out(&self.commits[commit], &directory)?;
        let line = self
            .args
            .build
            .replace(DIRECTORY, &directory.display().to_string());
        let setup = CommandSetup {
            label: format!("the build of {}", self.commits[commit].short()),
            words: ["sh", "-c", &line].map(str::to_owned).to_vec(),
            prepare: None,
            cleanup: None,
            ignores_failure: false,
            values: Vec::new(),
            directory: Some(directory),
        };
        let why = rounds.try_once(&setup)?;
        if why.is_none() {
            if let Some(cache) = &self.cache {
                cache.note_built(&self.commits[commit].commit)?;
            }
            self.built[commit] = Some(true);
        }
        Ok(why)
    }

    /// Measure commits in random order; once more if the machine was disturbed during one of them.
    fn block(
        &mut self,
        rounds: &mut Rounds<'_>,
        commits: &[usize],
    ) -> Result<BlockReport, RoundError> {
        let number = self.blocks.len();
        let order = block_order(self.args.seed, number, commits);
        let clock = Clock::start();
        let mut measured = self.measure(rounds, &order)?;
        let metrics = std::slice::from_ref(&self.question.metric);
        let is_disturbed = measured.windows(2).any(|two| {
            let states = [two[0].state, two[1].state];
            let readings = [&two[0].readings, &two[1].readings];
            Disturbance::of_pair(states, readings, metrics) != Disturbance::None
        });
        if is_disturbed {
            measured = self.measure(rounds, &order)?;
        }
        let spent = Duration::from_nanos(clock.now().since(Nanos::default()));
        self.takes = spent / u32::try_from(commits.len()).unwrap_or(1);
        let mut readings = Vec::new();
        for (commit, of) in order.iter().zip(&measured) {
            let metric = &self.question.metric;
            let value = of
                .readings
                .of(&metric.name)
                .value()
                .filter(|value| *value > 0.0);
            let Some(value) = value else {
                let error = Error::Round(format!(
                    "read the {} of {}: its round has none above 0. Use longer rounds ({}), or another --metric",
                    metric.title,
                    self.commits[*commit].short(),
                    if self.args.command.is_some() {
                        "--executions"
                    } else {
                        "-d"
                    }
                ));
                let number = *commit;
                return Err(RoundError { number, error });
            };
            readings.push((*commit, value));
        }
        Ok(BlockReport { readings })
    }

    /// Run a round of each commit, in this order.
    fn measure(
        &mut self,
        rounds: &mut Rounds<'_>,
        order: &[usize],
    ) -> Result<Vec<Measured>, RoundError> {
        match self.subject.clone() {
            Subject::Crawl(crawl) => order
                .iter()
                .map(|&number| {
                    self.crawl(rounds, &crawl.setup, number)
                        .map_err(|error| RoundError { number, error })
                })
                .collect(),
            Subject::Command(setup) => {
                self.execute(rounds, &setup, order)
                    .map_err(|failed| RoundError {
                        number: order[failed.number],
                        ..failed
                    })
            }
        }
    }

    fn crawl(
        &mut self,
        rounds: &mut Rounds<'_>,
        setup: &Setup,
        commit: usize,
    ) -> Result<Measured, Error> {
        let directory = self.worktree(commit);
        let place = directory.display().to_string();
        let name = self.commits[commit].short();
        let words = setup
            .words
            .iter()
            .map(|word| word.replace(DIRECTORY, &place));
        let round = Setup {
            label: name.to_owned(),
            words: words.collect(),
            target: setup
                .target
                .as_ref()
                .map(|target| target.replace(DIRECTORY, &place)),
            directory: Some(directory),
            ..setup.clone()
        };
        self.begun += 1;
        let folder = format!("{:04}-{name}", self.begun);
        let report = rounds.run(&round, &Path::new(ROUNDS).join(folder))?.report;
        Ok(Measured {
            readings: readings_of_run(&report),
            state: MachineState::of_run(&report),
        })
    }

    /// Execute the command of each commit as often as a round has executions, in turns.
    fn execute(
        &mut self,
        rounds: &mut Rounds<'_>,
        setup: &CommandSetup,
        order: &[usize],
    ) -> Result<Vec<Measured>, RoundError> {
        let setups: Vec<CommandSetup> = order
            .iter()
            .map(|commit| {
                let directory = self.worktree(*commit);
                let place = directory.display().to_string();
                let words = |words: &[String]| -> Vec<String> {
                    words
                        .iter()
                        .map(|word| word.replace(DIRECTORY, &place))
                        .collect()
                };
                CommandSetup {
                    label: self.commits[*commit].short().to_owned(),
                    words: words(&setup.words),
                    prepare: setup.prepare.as_deref().map(words),
                    cleanup: setup.cleanup.as_deref().map(words),
                    directory: Some(directory),
                    ..setup.clone()
                }
            })
            .collect();
        let setups: Vec<&CommandSetup> = setups.iter().collect();
        let numbers: Vec<usize> = (0..order.len()).collect();
        let executions = if let Some(executions) = self.executions {
            executions
        } else {
            let warm_up = (0..self.args.commands.warmup.max(1)).map(|_| numbers.clone());
            let fitting = fitting_executions(&rounds.execute(&setups, warm_up)?);
            *self.executions.insert(fitting)
        };
        let seed = self.args.seed ^ (self.blocks.len() as u64) << 16;
        let orders = (0..usize::try_from(executions).unwrap_or(usize::MAX))
            .map(|turn| block_order(seed, turn, &numbers));
        let ran = rounds.execute(&setups, orders)?;
        let metric = &self.question.metric;
        let measured = ran.into_iter().map(|round| {
            let mut values: Vec<f64> = round
                .executions
                .iter()
                .map(std::slice::from_ref)
                .filter_map(|one| readings_of_executions(one).of(&metric.name).value())
                .collect();
            let mut readings = readings_of_executions(&round.executions);
            // One execution in a hundred that froze does not move it, as it would a mean.
            if let Some(value) = median(&mut values) {
                let reading = Reading::Gating(value);
                readings.set(metric.name.clone(), reading);
            }
            Measured {
                readings,
                state: MachineState {
                    frozen_us: round.suspended.as_secs_f64() * 1e6,
                    ..MachineState::default()
                },
            }
        });
        Ok(measured.collect())
    }

    /// Remove the worktrees and the cache: the search has its answer.
    fn clear(&mut self) {
        let Some(cache) = self.cache.take() else {
            return;
        };
        cache.remove();
        self.repository.forget_removed();
    }
}
