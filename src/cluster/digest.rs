//! SHA-256 of this program: all parts of a crawl run the same one.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crawlmark_results::run::parts::digest::hexadecimal;
use crawlmark_results::run::parts::{MergeError, PlanFile};
use sha2::{Digest, Sha256};

use crate::error::Error;

/// Digest of this program's file.
pub(crate) fn of_program() -> Result<String, Error> {
    let path = std::env::current_exe().map_err(Error::Program)?;
    File::open(path).and_then(of_stream).map_err(Error::Program)
}

/// Check that the plan at `path` is of this program.
///
/// # Errors
/// When another program made it.
pub(crate) fn check_program(plan: &PlanFile, path: &Path) -> Result<(), Error> {
    let program = of_program()?;
    if program == plan.program {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "--plan {}: it was made by {} with the SHA-256 {}, and this program has {}. Run the program that made the plan on all machines, \
         or make the plan again",
        path.display(),
        plan.tool,
        short(&plan.program),
        short(&program)
    )))
}

/// Name the program that made the plan as the remedy if this is another one, which cannot read the
/// parts.
pub(crate) fn explain(error: MergeError, plan: &PlanFile) -> Error {
    let is_other = of_program().is_ok_and(|program| program != plan.program);
    match error {
        MergeError::Frames { .. } | MergeError::Io { .. } if is_other => Error::Usage(format!(
            "{error}. The parts were crawled by {} with the SHA-256 {}, and this is crawlmark {}, another program. Merge with the program that made the plan",
            plan.tool,
            short(&plan.program),
            env!("CARGO_PKG_VERSION")
        )),
        error => error.into(),
    }
}

fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

fn of_stream(mut stream: impl Read) -> io::Result<String> {
    let (mut digest, mut chunk) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match stream.read(&mut chunk)? {
            0 => return Ok(hexadecimal(&digest.finalize())),
            read => digest.update(&chunk[..read]),
        }
    }
}
