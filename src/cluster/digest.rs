//! SHA-256 of files and texts, in hexadecimal digits: parts that differ in one are of different crawls.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crawlmark_results::run::parts::PlanFile;
use sha2::{Digest, Sha256};

use crate::error::Error;

/// Digest of a text.
pub(crate) fn of_text(text: &str) -> String {
    hexadecimal(Sha256::digest(text.as_bytes()).as_slice())
}

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
    let short = |digest: &str| digest.chars().take(12).collect::<String>();
    Err(Error::Usage(format!(
        "--plan {}: it was made by {} with the SHA-256 {}, and this program has {}. Run the program that made the plan on all machines, \
         or make the plan again",
        path.display(),
        plan.tool,
        short(&plan.program),
        short(&program)
    )))
}

fn of_stream(mut stream: impl Read) -> io::Result<String> {
    let (mut digest, mut chunk) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match stream.read(&mut chunk)? {
            0 => return Ok(hexadecimal(digest.finalize().as_slice())),
            read => digest.update(&chunk[..read]),
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
