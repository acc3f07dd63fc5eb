//! One side of a comparison: what runs in each of its rounds.

use crawlmark_results::studies::compare::Arm;
use crawlmark_results::studies::differences::{Difference, TARGET_COMMAND};

use crate::cli::{AbArgs, bearer_variable};
use crate::crawl::redact;
use crate::error::Error;
use crate::study::PORT;
use crate::subject::{Crawl, Subject, command_setup};

/// One side.
#[derive(Debug, Clone)]
pub(super) struct Side {
    pub(super) arm: Arm,
    /// What runs in each of its rounds.
    pub(super) subject: Subject,
    /// Flags, URL and command of this side as typed, without secrets: they are saved and published.
    pub(super) what: String,
}

const fn flag(arm: Arm) -> &'static str {
    match arm {
        Arm::Base => "--base",
        Arm::Candidate => "--cand",
    }
}

impl Side {
    /// The side of `arm`, as typed.
    ///
    /// # Errors
    /// When its flags are none of `run`, or none that a round can have.
    pub(super) fn new(arm: Arm, args: &AbArgs) -> Result<Self, Error> {
        let line = match arm {
            Arm::Base => &args.base_command,
            Arm::Candidate => &args.cand_command,
        };
        let Some(line) = line else {
            return Self::of_crawl(arm, args);
        };
        Ok(Self {
            arm,
            subject: Subject::Command(command_setup(format!("the {arm}"), line, &args.commands)?),
            what: redact::line(line),
        })
    }

    fn of_crawl(arm: Arm, args: &AbArgs) -> Result<Self, Error> {
        let flag = flag(arm);
        let (own, target) = match arm {
            Arm::Base => (&args.base, &args.base_target),
            Arm::Candidate => (&args.cand, &args.cand_target),
        };
        let own_words = shlex::split(own).ok_or_else(|| {
            Error::Usage(format!("{flag} has a quotation mark that is not closed"))
        })?;
        let mut words = args.run.clone();
        words.extend(own_words);
        if args.profile {
            words.push("--target-functions".to_owned());
        }
        let whose = format!("{flag} and the flags after --, together");
        let target_flag = format!("{flag}-target");
        let target = target.as_deref();
        let mut crawl = Crawl::new(
            format!("the {arm}"),
            "ab",
            &whose,
            words,
            [Some(&target_flag), target],
        )?;
        let tokens = [&args.base, &args.cand].into_iter().filter_map(|own| {
            let words = [args.run.clone(), shlex::split(own)?];
            bearer_variable(&words.concat())
        });
        crawl.setup.tokens = tokens.collect();
        let what = [target.map(redact::line), Some(redact::line(own))]
            .iter()
            .flatten()
            .map(|part| part.trim())
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", ");
        Ok(Self {
            arm,
            subject: Subject::Crawl(Box::new(crawl)),
            what: if what.is_empty() {
                "as it is".to_owned()
            } else {
                what
            },
        })
    }

    /// Warn of a target's command that does not name its port: a program may read the variable, but
    /// most do not.
    pub(super) fn port_note(&self) -> Option<String> {
        let command = self.crawl()?.setup.target.as_deref()?;
        // The variable, or the placeholder.
        let is_named = command.contains("PORT") || command.contains(PORT);
        let flag = flag(self.arm);
        (!is_named).then(|| {
            format!(". {flag}-target has no {PORT}: its program has to listen on the port in the variable PORT")
        })
    }

    /// Return the difference between the targets' commands of two sides, which no plan records.
    /// Secrets are redacted.
    pub(super) fn commands_apart(sides: &[Self; 2]) -> Option<Difference> {
        let [base, candidate] = sides.each_ref().map(|side| {
            side.crawl()
                .and_then(|crawl| crawl.setup.target.as_deref())
                .map_or_else(|| "-".to_owned(), redact::line)
        });
        (base != candidate).then(|| Difference {
            what: TARGET_COMMAND.to_owned(),
            base,
            candidate,
        })
    }

    /// Return the side as the other arm, with the same subject: a side against itself.
    pub(super) fn playing(&self, arm: Arm) -> Self {
        let mut side = self.clone();
        side.arm = arm;
        let label = match &mut side.subject {
            Subject::Crawl(crawl) => &mut crawl.setup.label,
            Subject::Command(setup) => &mut setup.label,
        };
        *label = format!("the {arm}");
        side
    }

    /// The crawl of each of its rounds; none if they execute a command.
    pub(super) fn crawl(&self) -> Option<&Crawl> {
        match &self.subject {
            Subject::Crawl(crawl) => Some(crawl),
            Subject::Command(_) => None,
        }
    }
}
