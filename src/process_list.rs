//! Command line of this process as the process list shows it: what [`redact`] withholds is
//! overwritten, as curl does with passwords.
//!
//! Called once, right after the arguments were read and before anything is forked. Nothing may read
//! the arguments after it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use crate::crawl::redact;

/// Overwrite the secrets of the command line: credentials, values of headers, bodies, commands.
///
/// # Errors
/// When the system does not allow it.
pub(crate) fn hide_secrets() -> io::Result<()> {
    let shown = fs::read("/proc/self/cmdline")?;
    let hidden = hidden(&shown);
    if hidden == shown {
        return Ok(());
    }
    // `arg_start` is field 48 (proc(5)); the second field, a name in parentheses, may hold spaces.
    let facts = fs::read_to_string("/proc/self/stat")?;
    let start = facts
        .rsplit_once(')')
        .and_then(|(_, fields)| fields.split_whitespace().nth(45)?.parse().ok())
        .ok_or(io::ErrorKind::InvalidData)?;
    File::options()
        .write(true)
        .open("/proc/self/mem")?
        .write_all_at(&hidden, start)
}

/// Redact a command line, whose arguments end with a zero byte, and keep the length of each.
fn hidden(line: &[u8]) -> Vec<u8> {
    let arguments: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    let words: Vec<String> = arguments
        .iter()
        .map(|argument| String::from_utf8_lossy(argument).into_owned())
        .collect();
    let redacted = redact::words(&words).into_iter().map(|word| {
        // Flags within an argument, as in `--base '-a user:password'`.
        if word.contains(char::is_whitespace) {
            redact::line(&word)
        } else {
            word
        }
    });
    let mut all = Vec::with_capacity(line.len());
    for ((argument, word), redacted) in arguments.into_iter().zip(&words).zip(redacted) {
        let start = all.len();
        if redacted == *word {
            all.extend_from_slice(argument);
        } else {
            let missing = argument.len().saturating_sub(redacted.len());
            let dots = format!("...{}", ".".repeat(missing));
            all.extend(redacted.replacen("...", &dots, 1).bytes());
            all.resize(start + argument.len(), b'.');
        }
        all.push(0);
    }
    all.truncate(line.len());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_alone_are_overwritten() {
        for (line, shown) in [
            ("http://h/a@b", "http://h/a@b"),
            ("--proxy=http://u:p q@h:1", "--proxy=http://.....@h:1"),
            ("run\0-a\0u:p q\0--all\0", "run\0-a\0.....\0--all\0"),
            ("--auth=u:p", "--auth=..."),
            ("-au:p\0-all", "-a...\0-all"),
            ("--base\0-c 2 -a u:p -c 3", "--base\0-c 2 -a ... -c 3"),
            ("-H\0x-key: hush\0-c", "-H\0x-key: ....\0-c"),
            ("-Hx: h\0--body\0h", "-Hx: .\0--body\0."),
            ("--data\0hush", "--data\0...."),
            ("http://h/?token=hush&a=1", "http://h/?token=....&a=1"),
            (
                "--target-probe\0ssh h x\0--rate\0x",
                "--target-probe\0.......\0--rate\0x",
            ),
        ] {
            let hidden = hidden(line.as_bytes());
            assert_eq!(String::from_utf8(hidden).unwrap(), shown);
        }
    }
}
