//! `crawlmark plan`: resolves a crawl once for all of its parts, and writes `plan.json`.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;
use crawlmark_harness::clock::wall_time;
use crawlmark_harness::units::grouped;
use crawlmark_results::run::parts::PlanFile;
use crawlmark_results::run::report::rfc3339;

use crate::cli::{PlanArgs, SaveArgs, Typed};
use crate::cluster::digest;
use crate::error::{DONE, Error};
use crate::run;
use crate::terminal;

/// Default name of the plan.
const PLAN: &str = "plan.json";

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
    let saving = saving(&crawl.save)?;
    let burst = crawl.burst;
    let (resolved, _) = run::check(*Box::new(crawl))?;
    resolved.check_parts(nodes, slots, burst).map_err(|error| Error::Usage(error.to_string()))?;
    let start = wall_time();
    let mut file = PlanFile::new(run::whole(resolved, slots, burst), nodes, slots);
    file.command = typed.into_command();
    file.program = digest::of_program()?;
    file.created_at = rfc3339(start);
    file.run_id = format!("{}-{}", file.created_at, std::process::id());
    file.start_at = start_at.map(|at| rfc3339(at.into()));
    file.saving = saving;
    let (ids, whole) = (file.ids(0).len(), file.crawl.ids.len());
    let text = file.into_text()?;
    let refused = Error::unwritable(&path);
    let mut written = File::create_new(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Error::Usage(format!("--out {} already exists: choose another name, or remove it", path.display()))
        }
        _ => refused(error),
    })?;
    written.write_all(text.as_bytes()).map_err(&refused)?;
    terminal::say(&format!(
        "{}: {} IDs in {} parts of about {}, at most {} at once\nRun each with: crawlmark run --plan {} --node i/{} --into DIR\n",
        path.display(),
        grouped(whole),
        grouped(nodes.into()),
        grouped(ids),
        grouped(slots.into()),
        path.display(),
        nodes
    ));
    Ok(DONE)
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
