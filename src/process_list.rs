//! Command line of this process as the process list shows it: credentials in URLs are overwritten, as curl does.
//!
//! Called once, right after the arguments were read and before anything is forked. Nothing may read the arguments after it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

/// Overwrite user names and passwords in the URLs of the command line.
///
/// # Errors
/// When the system does not allow it.
pub(crate) fn hide_credentials() -> io::Result<()> {
    let shown = fs::read("/proc/self/cmdline")?;
    let mut hidden = shown.clone();
    hidden.split_mut(|byte| *byte == 0).for_each(hide);
    if hidden == shown {
        return Ok(());
    }
    // `arg_start` is field 48 (proc(5)); the second field, a name in parentheses, may hold spaces.
    let facts = fs::read_to_string("/proc/self/stat")?;
    let start = facts.rsplit_once(')').and_then(|(_, fields)| fields.split_whitespace().nth(45)?.parse().ok());
    let start = start.ok_or(io::ErrorKind::InvalidData)?;
    File::options().write(true).open("/proc/self/mem")?.write_all_at(&hidden, start)
}

/// Overwrite what stands between `://` and an `@` before the next slash.
fn hide(argument: &mut [u8]) {
    let mut at = 0;
    while let Some(scheme) = argument[at..].windows(3).position(|part| part == b"://") {
        at += scheme + 3;
        let rest = &mut argument[at..];
        let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        if let Some(host) = rest[..end].iter().rposition(|byte| *byte == b'@') {
            rest[..host].fill(b'.');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_credentials_are_overwritten() {
        for (argument, hidden) in [
            ("http://h/a@b", "http://h/a@b"),
            ("--proxy=http://u:p q@h:1", "--proxy=http://.....@h:1"),
            ("-x http://u:p@h -x socks5://v@i/ http://j", "-x http://...@h -x socks5://.@i/ http://j"),
            ("a@b://", "a@b://"),
        ] {
            let mut bytes = argument.as_bytes().to_vec();
            hide(&mut bytes);
            assert_eq!(String::from_utf8(bytes).unwrap(), hidden);
        }
    }
}
