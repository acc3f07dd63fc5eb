//! One side of a comparison: what is run for each of its rounds.

use std::path::PathBuf;
use std::time::Duration;

use crawlmark_harness::plan::RunPlan;
use crawlmark_results::studies::compare::{Arm, Difference};

use crate::cli::AbArgs;
use crate::crawl::redact;
use crate::error::Error;
use crate::run;
use crate::study::{PORT, Setup, refuse, understood};

/// Default duration of a round.
const ROUND: Duration = Duration::from_secs(2);

/// One side.
#[derive(Debug, Clone)]
pub(super) struct Side {
    pub(super) arm: Arm,
    /// Program, arguments and target of each of its rounds.
    pub(super) setup: Setup,
    /// Flags, URL and command of this side as typed, without secrets: they are saved and published.
    pub(super) what: String,
    /// Duration of each of its rounds; none if they end when their items are done.
    pub(super) round: Option<Duration>,
    /// Plan of each of its rounds; none if another program makes it.
    pub(super) plan: Option<RunPlan>,
    starts_its_target: bool,
}

impl Side {
    /// The side of `arm`, as typed.
    ///
    /// # Errors
    /// When its flags are none of `run`, or none that a round can have.
    pub(super) fn new(arm: Arm, args: &AbArgs) -> Result<Self, Error> {
        let (flag, own, target, program) = match arm {
            Arm::Base => ("--base", &args.base, &args.base_target, &args.base_bin),
            Arm::Candidate => ("--cand", &args.cand, &args.cand_target, &args.cand_bin),
        };
        let own_words = shlex::split(own).ok_or_else(|| {
            Error::Usage(format!("{flag} has a quotation mark that is not closed"))
        })?;
        let mut words = args.run.clone();
        words.extend(own_words.iter().cloned());
        let whose = format!("{flag} and the flags after --, together");
        let typed = understood(&whose, &words)?;
        refuse(
            &words,
            &format!("{flag} and the flags after --. Only the comparison is saved and judged"),
        )?;
        let mut round = typed.duration;
        if round.is_none() && typed.requests.is_none() && typed.ids.is_none() {
            round = Some(ROUND);
            words.extend(["-d".to_owned(), format!("{}s", ROUND.as_secs())]);
        }
        match (target, &typed.url) {
            (Some(_), Some(url)) if url.contains(PORT) => {}
            (Some(_), _) => {
                return Err(Error::Usage(format!(
                    "{flag}-target needs a URL with {PORT} in it, as in -- http://127.0.0.1:{PORT}/items/{{id}}: \
                     each round gives its target a free port"
                )));
            }
            (None, Some(url)) if url.contains(PORT) => {
                return Err(Error::Usage(format!(
                    "{PORT} in the URL is the port of a target's command: {flag}-target has none"
                )));
            }
            (None, _) => {}
        }
        let mut plan = None;
        if program.is_none() {
            // With the port that a target will have.
            let tried: Vec<String> = words.iter().map(|word| word.replace(PORT, "1")).collect();
            let checked = run::check(understood(&whose, &tried)?).map_err(|error| match error {
                Error::Usage(why) => Error::Usage(format!("{whose}: {why}")),
                error => error,
            })?;
            plan = Some(checked.0);
        }
        let program = match program {
            Some(program) => executable(&format!("{flag}-bin"), program)?,
            None => std::env::current_exe().map_err(Error::Program)?,
        };
        Ok(Self {
            arm,
            setup: Setup {
                label: format!("the {arm}"),
                program,
                words,
                target: target.clone(),
            },
            round,
            plan,
            starts_its_target: target.is_some() || typed.is_bundled(),
            what: what(args, arm, &redact::line(own)),
        })
    }

    /// True if each round has a target of its own, at an address of its own.
    pub(super) const fn starts_its_target(&self) -> bool {
        self.starts_its_target
    }

    /// Warn of a target's command that does not name its port: a program may read the variable, but
    /// most do not.
    pub(super) fn port_note(&self) -> Option<String> {
        let command = self.setup.target.as_deref()?;
        let flag = if self.arm == Arm::Base {
            "--base-target"
        } else {
            "--cand-target"
        };
        let note = format!(
            "{flag} has no {PORT}: its program has to listen on the port in the variable PORT"
        );
        (!command.contains(PORT) && !command.contains("PORT")).then_some(note)
    }

    /// Return the differences between the commands of this side and the candidate, which no plan
    /// records. Secrets are redacted.
    pub(super) fn commands_apart(&self, candidate: &Self) -> impl Iterator<Item = Difference> {
        let target = |side: &Self| {
            side.setup
                .target
                .as_deref()
                .map_or_else(|| "-".to_owned(), redact::line)
        };
        let program = |side: &Self| side.setup.program.display().to_string();
        let told = |what: &str, of: &dyn Fn(&Self) -> String| Difference {
            what: what.to_owned(),
            base: of(self),
            candidate: of(candidate),
        };
        let targets =
            (self.setup.target != candidate.setup.target).then(|| told("target command", &target));
        let programs =
            (self.setup.program != candidate.setup.program).then(|| told("program", &program));
        targets.into_iter().chain(programs)
    }

    /// Return the side as the other arm, with the same crawl: a side against itself.
    pub(super) fn playing(&self, arm: Arm) -> Self {
        let setup = Setup {
            label: format!("the {arm}"),
            ..self.setup.clone()
        };
        Self {
            arm,
            setup,
            ..self.clone()
        }
    }
}

fn executable(flag: &str, program: &std::path::Path) -> Result<PathBuf, Error> {
    use std::os::unix::fs::PermissionsExt;
    let refused = |why: String| Error::Usage(format!("{flag} {}: {why}", program.display()));
    let found = std::fs::canonicalize(program).map_err(|error| refused(error.to_string()))?;
    let kind = std::fs::metadata(&found).map_err(|error| refused(error.to_string()))?;
    if kind.is_file() && kind.permissions().mode() & 0o111 != 0 {
        Ok(found)
    } else {
        Err(refused("is not an executable file".to_owned()))
    }
}

/// Describe what the side has beyond the flags of both.
fn what(args: &AbArgs, arm: Arm, own: &str) -> String {
    let (target, program) = match arm {
        Arm::Base => (&args.base_target, &args.base_bin),
        Arm::Candidate => (&args.cand_target, &args.cand_bin),
    };
    let parts = [
        program
            .as_ref()
            .map(|program| program.display().to_string()),
        target.as_deref().map(redact::line),
        Some(own.trim().to_owned()).filter(|own| !own.is_empty()),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        "as it is".to_owned()
    } else {
        parts.join(", ")
    }
}
