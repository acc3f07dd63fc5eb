//! `crawlmark plan`: resolves a crawl once for all of its parts, and writes `plan.json`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crawlmark_harness::clock::wall_time;
use crawlmark_harness::plan::{Arrivals, SlotShare};
use crawlmark_harness::units::grouped;
use crawlmark_results::run::parts::PlanFile;
use crawlmark_results::run::report::rfc3339;
use crawlmark_results::show::text::{counted, shell_word};

use crate::cli::{Auto, FileCommand, PlanArgs, RunArgs, SAVING, is_of_part};
use crate::cluster::digest;
use crate::error::{DONE, Error};
use crate::run;
use crate::terminal;

/// Default name of the plan.
const PLAN: &str = "plan.json";

/// Longest time until a common start: a part waits for it in a task that has its machine, and a
/// later one is likely a slip.
const LONGEST_WAIT: Duration = Duration::from_hours(30 * 24);

/// Writes the plan, and returns the exit code.
pub(crate) fn plan(args: PlanArgs) -> Result<u8, Error> {
    let PlanArgs {
        nodes,
        slots,
        start_at,
        run: mut crawl,
    } = args;
    let slots = slots.unwrap_or(nodes);
    let path = crawl.out.take().unwrap_or_else(|| PathBuf::from(PLAN));
    check_flags(&crawl)?;
    if slots > nodes {
        return Err(Error::Usage(format!(
            "--slots {slots} is more than the {nodes} parts: use at most {nodes}"
        )));
    }
    let start = wall_time();
    let start_at = start_at.map(SystemTime::from);
    start_at.map_or(Ok(()), |at| check_start(at, start))?;
    let saving = saving(&crawl)?;
    // The parts share a budget, which no open loop has.
    crawl.arrivals = crawl.arrivals.or(Some(Arrivals::Asap));
    let (shards, command) = (crawl.shards, crawl.typed.command(None));
    let (burst, quiet) = (crawl.burst, crawl.quiet);
    let has_range = crawl.ids.is_some() || crawl.requests.is_some();
    let (resolved, _) = run::check(&crawl)?;
    let lines = resolved.workload.lines;
    if !has_range && lines != Some(resolved.ids.len()) {
        return Err(Error::Usage(match lines.filter(|_| resolved.duration.is_some()) {
            Some(lines) => format!(
                "plan: with -d the list repeats without an end. Add -n {lines} to crawl each line once, or remove -d"
            ),
            None => "plan: the parts share the IDs of the crawl, and none are named. Give a range, as in --ids 0..1m, or a number of items (-n)"
                .to_owned(),
        }));
    }
    resolved
        .check_parts(nodes, slots, burst)
        .map_err(|error| Error::Usage(error.to_string()))?;
    let duration = resolved.duration;
    let mut file = PlanFile::new(run::whole(resolved, slots, burst), nodes, slots);
    if let Auto::Exactly(asked) = shards {
        let share = SlotShare { slot: 0, of: slots };
        run::check_shards(shards, &file.crawl.part(file.ids(0), share, asked, burst))?;
    }
    file.command = command;
    file.program = digest::of_program()?;
    file.created_at = rfc3339(start);
    file.run_id = format!("{}-{}", file.created_at, std::process::id());
    file.start_at = start_at.map(rfc3339);
    file.saving = saving;
    let text = file.text()?;
    let (name, shown) = if path.as_os_str() == "-" {
        terminal::print_data(&text)?;
        ("plan".to_owned(), "FILE".to_owned())
    } else {
        write(&path, &text)?;
        let name = path.display().to_string();
        (name.clone(), shell_word(&name))
    };
    let again = FileCommand::of(&file, &path).typed_again();
    if !quiet {
        terminal::say(&announcement(&file, &name, &shown, &again, duration));
    }
    Ok(DONE)
}

/// Refuse the flags of a crawl that cannot be shared.
fn check_flags(crawl: &RunArgs) -> Result<(), Error> {
    if crawl.is_bundled() {
        return Err(Error::usage(
            "plan: a crawl on several machines needs a target that they all reach: give its URL",
        ));
    }
    if let Some(flag) = crawl.list_of_input() {
        return Err(Error::Usage(format!(
            "{flag} -: each part reads the list, so write it to a file that all machines have"
        )));
    }
    if crawl.part.plan.is_some() || crawl.save.earlier().is_some() {
        return Err(Error::usage(
            "plan: --plan, --resume and --refresh are for `crawlmark run`: remove them",
        ));
    }
    match of_result(crawl) {
        Some(flag) => Err(Error::Usage(format!(
            "plan: {flag} is for the result of a run: give it to `crawlmark run --plan`"
        ))),
        None => Ok(()),
    }
}

/// What a plan comes to, and the command of each part. `again` is what has to be typed with it.
fn announcement(
    file: &PlanFile,
    name: &str,
    shown: &str,
    again: &str,
    duration: Option<Duration>,
) -> String {
    let space = if again.is_empty() { "" } else { " " };
    let nodes = file.nodes;
    let mut said = format!(
        "{name}: {} in {} of about {}, at most {} at once\nRun each with: crawlmark run --plan {shown} --node i/{nodes} --into DIR{space}{again}\n",
        counted(file.crawl.ids.len(), "ID"),
        counted(nodes.into(), "part"),
        grouped(file.ids(0).len()),
        grouped(file.slots.into()),
    );
    if !again.is_empty() {
        said.push_str("Secrets, and what opens files or says where they go, are not taken from a plan: type the rest of this command with each part\n");
    }
    if let Some(duration) = duration {
        let time = humantime::format_duration(duration);
        let _ = writeln!(
            said,
            "Each part stops {time} after its start, and leaves the rest of its IDs (--duration)"
        );
    }
    said
}

/// Return the first flag of the output of a run, which a plan does not hold; none without any.
fn of_result(crawl: &RunArgs) -> Option<&'static str> {
    let flags = [
        ("--json", crawl.json),
        ("--latency", crawl.latency),
        ("--export", !crawl.exports.is_empty()),
    ];
    flags
        .into_iter()
        .find_map(|(flag, is_given)| is_given.then_some(flag))
}

/// Check that the common start is to come, and soon.
fn check_start(at: SystemTime, now: SystemTime) -> Result<(), Error> {
    let why = match at.duration_since(now) {
        Ok(ahead) if ahead <= LONGEST_WAIT => return Ok(()),
        Ok(ahead) => format!(
            "is in {} days, and parts would wait for it in their tasks: at most 30 days are allowed. Check the date, or have the scheduler start the tasks later",
            grouped(ahead.as_secs() / (24 * 3600))
        ),
        Err(late) => format!(
            "was {} ago. Give a time to come, or remove the flag to start each part when it has a slot",
            humantime::format_duration(Duration::from_secs(late.duration().as_secs()))
        ),
    };
    Err(Error::Usage(format!(
        "--start-at {} {why}",
        humantime::format_rfc3339_seconds(at)
    )))
}

/// Write the plan to a new file.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    let refused = Error::unwritable(path);
    let mut file = File::create_new(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::Usage(format!(
            "--out {} already exists: choose another name, or remove it",
            path.display()
        )),
        _ => refused(error),
    })?;
    file.write_all(text.as_bytes()).map_err(&refused)
}

/// Return the flags of saving. The directory is one inside that of each attempt.
fn saving(crawl: &RunArgs) -> Result<Vec<String>, Error> {
    let mut words = Vec::new();
    for (id, values) in SAVING
        .iter()
        .filter_map(|id| crawl.typed.values.get_key_value(*id))
    {
        let name = format!("--{}", id.replace('_', "-"));
        if !is_of_part(id, values) {
            return Err(Error::Usage(format!(
                "{name} {}: each part saves to a directory of its own, inside that of the part: give a name without `/`, as in --save items",
                values.join(" ")
            )));
        }
        words.push(name);
        words.extend(values.iter().cloned());
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command, Typed};

    const URL: &str = "http://127.0.0.1:8080/{id}";

    /// Flags of `run`, of each kind that a plan may have.
    const FLAGS: &[&str] = &[
        "--urls list",
        "--requests-file list",
        "--items 7 --shuffle",
        "--duration 7s",
        "--bearer-env TOKEN",
        "--shards 3",
        "--rate 77 --burst 7 --arrivals poisson",
        "--adaptive=gradient",
        "--disable-keepalive",
        "--http 2 --streams 7",
        "--connect-to a:80:b:81",
        "--proxy http://127.0.0.1:3128 --session per-request",
        "--cert file --key file",
        "--tag key=value --tag other=value",
        "--threshold rate>7 --stop-unless error_rate[5s]<7% --slo-p99 7s",
        "--save items --save-fields id,status,outcome --save-bodies all --max-body 7 --durability process --mode 640",
    ];

    fn words<'a>(command: &[&'a str], flags: &'a str) -> Vec<&'a str> {
        // A list names the targets itself.
        let url = if flags.contains("list") {
            None
        } else {
            Some(URL)
        };
        command
            .iter()
            .copied()
            .chain(url)
            .chain(flags.split(' '))
            .collect()
    }

    fn resolved(mut cli: Cli) -> String {
        if let Command::Run(run) = &mut cli.command {
            run.typed = Typed::default();
        }
        format!("{:?}", cli.command)
    }

    #[test]
    fn a_part_has_each_flag_of_its_plan_as_a_plain_run_has_it() {
        for &flags in FLAGS {
            let plain: Vec<String> = words(&["crawlmark", "run"], flags)
                .into_iter()
                .map(str::to_owned)
                .collect();
            let cli = Cli::of(words(&["crawlmark", "plan", "--nodes", "2"], flags)).unwrap();
            let Command::Plan(args) = cli.command else {
                panic!("{:?}", cli.command)
            };
            let file = FileCommand {
                command: args.run.typed.command(None),
                saving: saving(&args.run).unwrap(),
                ..FileCommand::default()
            };
            let again = shlex::split(&file.typed_again()).unwrap();
            let part = file.resumed(&again).unwrap();
            assert_eq!(
                resolved(part),
                resolved(Cli::of(&plain).unwrap()),
                "{flags}"
            );
        }
    }
}
