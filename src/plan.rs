//! `crawlmark plan`: resolves a crawl once for all of its parts, and writes `plan.json`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::ValueEnum;
use crawlmark_harness::clock::wall_time;
use crawlmark_harness::units::grouped;
use crawlmark_results::run::parts::PlanFile;
use crawlmark_results::run::report::rfc3339;
use crawlmark_results::show::text::{counted, shell_word};

use crate::cli::{PlanArgs, SaveArgs, Typed};
use crate::cluster::digest;
use crate::error::{DONE, Error};
use crate::run;
use crate::terminal;

/// Default name of the plan.
const PLAN: &str = "plan.json";

/// Longest time until a common start: a part waits for it in a task that has its machine, and a later one is likely a slip.
const LONGEST_WAIT: Duration = Duration::from_hours(30 * 24);

/// Writes the plan, and returns the exit code.
pub(crate) fn plan(args: PlanArgs, typed: Typed) -> Result<u8, Error> {
    let PlanArgs { nodes, slots, start_at, run: mut crawl } = args;
    let slots = slots.unwrap_or(nodes);
    let path = crawl.out.take().unwrap_or_else(|| PathBuf::from(PLAN));
    if crawl.is_bundled() {
        return Err(Error::Usage(
            "plan: a crawl on several machines needs a target that they all reach: give its URL".to_owned(),
        ));
    }
    if let Some(flag) = crawl.list_of_input() {
        return Err(Error::Usage(format!(
            "{flag} -: each part reads the list, so write it to a file that all machines have"
        )));
    }
    if crawl.part.plan.is_some() || crawl.save.resume.is_some() {
        return Err(Error::Usage("plan: --plan and --resume are for `crawlmark run`: remove them".to_owned()));
    }
    if slots > nodes {
        return Err(Error::Usage(format!("--slots {slots} is more than the {nodes} parts: use at most {nodes}")));
    }
    let start = wall_time();
    let start_at = start_at.map(SystemTime::from);
    start_at.map_or(Ok(()), |at| check_start(at, start))?;
    let saving = saving(&crawl.save)?;
    let (burst, quiet, has_range) = (crawl.burst, crawl.quiet, crawl.ids.is_some() || crawl.requests.is_some());
    let (resolved, _) = run::check(*Box::new(crawl))?;
    let lines = resolved.workload.get("lines");
    if !has_range && lines.is_none_or(|lines| *lines != resolved.ids.len().to_string()) {
        return Err(Error::Usage(match lines.filter(|_| resolved.duration.is_some()) {
            Some(lines) => format!(
                "plan: with -d the list repeats without an end. Add -n {lines} to crawl each line once, or remove -d"
            ),
            None => "plan: the parts share the IDs of the crawl, and none are named. Give a range, as in --ids 0..1m, or a number of items (-n)"
                .to_owned(),
        }));
    }
    resolved.check_parts(nodes, slots, burst).map_err(|error| Error::Usage(error.to_string()))?;
    let duration = resolved.duration;
    let mut file = PlanFile::new(run::whole(resolved, slots, burst), nodes, slots);
    file.command = typed.into_command();
    file.program = digest::of_program()?;
    file.created_at = rfc3339(start);
    file.run_id = format!("{}-{}", file.created_at, std::process::id());
    file.start_at = start_at.map(rfc3339);
    file.saving = saving;
    let (ids, whole, withheld) = (file.ids(0).len(), file.crawl.ids.len(), file.command.withheld.join(", "));
    let text = file.into_text()?;
    let (name, file) = if path.as_os_str() == "-" {
        terminal::print_data(&text)?;
        ("plan".to_owned(), "FILE".to_owned())
    } else {
        write(&path, &text)?;
        (path.display().to_string(), shell_word(&path.display().to_string()))
    };
    let mut said = format!(
        "{name}: {} in {} of about {}, at most {} at once\nRun each with: crawlmark run --plan {file} --node i/{nodes} --into DIR\n",
        counted(whole, "ID"),
        counted(nodes.into(), "part"),
        grouped(ids),
        grouped(slots.into()),
    );
    if !withheld.is_empty() {
        let _ = writeln!(said, "The plan holds no secrets, so give each part these again: {withheld}");
    }
    if let Some(duration) = duration {
        let duration = humantime::format_duration(duration);
        let _ =
            writeln!(said, "Each part stops {duration} after its start, and leaves the rest of its IDs (--duration)");
    }
    if !quiet {
        terminal::say(&said);
    }
    Ok(DONE)
}

/// Check that the common start is to come, and soon.
fn check_start(at: SystemTime, now: SystemTime) -> Result<(), Error> {
    let whole = |time: Duration| match time.as_secs() / (24 * 3600) {
        0 | 1 => humantime::format_duration(Duration::from_secs(time.as_secs())).to_string(),
        days => format!("{} days", grouped(days)),
    };
    let why = match at.duration_since(now) {
        Ok(ahead) if ahead <= LONGEST_WAIT => return Ok(()),
        Ok(ahead) => format!(
            "is in {}, and parts would wait for it in their tasks: at most 30 days are allowed. Check the date, or have the scheduler start the tasks later",
            whole(ahead)
        ),
        Err(late) => format!(
            "was {} ago. Give a time to come, or remove the flag to start each part when it has a slot",
            whole(late.duration())
        ),
    };
    Err(Error::Usage(format!("--start-at {} {why}", humantime::format_rfc3339_seconds(at))))
}

/// Write the plan to a new file.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    let refused = Error::unwritable(path);
    let mut file = File::create_new(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Error::Usage(format!("--out {} already exists: choose another name, or remove it", path.display()))
        }
        _ => refused(error),
    })?;
    file.write_all(text.as_bytes()).map_err(&refused)
}

/// Return the flags of saving. The directory is one inside that of each attempt.
fn saving(args: &SaveArgs) -> Result<Vec<String>, Error> {
    let Some(place) = &args.save else { return Ok(Vec::new()) };
    let name = place.to_str().filter(|name| !name.starts_with('.') && !name.contains('/'));
    let Some(name) = name else {
        return Err(Error::Usage(format!(
            "--save {}: each part saves to a directory of its own, inside that of the part: give a name without `/`, as in --save items",
            place.display()
        )));
    };
    let fields = args.save_fields.map(|fields| ("--save-fields", fields.to_string()));
    let bodies =
        args.save_bodies.and_then(|bodies| Some(("--save-bodies", bodies.to_possible_value()?.get_name().to_owned())));
    let most = args.max_body.map(|most| ("--max-body", most.to_string()));
    let durability = args.durability.map(|durability| ("--durability", durability.name().to_owned()));
    let flags = [Some(("--save", name.to_owned())), fields, bodies, most, durability];
    Ok(flags.into_iter().flatten().flat_map(|(flag, value)| [flag.to_owned(), value]).collect())
}
