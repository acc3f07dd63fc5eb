//! Command line of this process as the process list shows it: credentials in URLs are overwritten,
//! as curl does.
//!
//! Called once, right after the arguments were read and before anything is forked. Nothing may read
//! the arguments after it.

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
    hide_all(&mut hidden);
    if hidden == shown {
        return Ok(());
    }
    // `arg_start` is field 48 (proc(5)); the second field, a name in parentheses, may hold spaces.
    let facts = fs::read_to_string("/proc/self/stat")?;
    let start = facts
        .rsplit_once(')')
        .and_then(|(_, fields)| fields.split_whitespace().nth(45)?.parse().ok());
    let start = start.ok_or(io::ErrorKind::InvalidData)?;
    File::options()
        .write(true)
        .open("/proc/self/mem")?
        .write_all_at(&hidden, start)
}

/// Flags whose value is overwritten as a whole.
const SECRET: [&[u8]; 3] = [b"-a", b"--auth", b"--target-probe"];

/// Overwrite the credentials of a command line, whose arguments end with a zero byte.
fn hide_all(line: &mut [u8]) {
    let mut is_secret = false;
    for argument in line.split_mut(|byte| *byte == 0) {
        if std::mem::take(&mut is_secret) {
            argument.fill(b'.');
        }
        is_secret = SECRET.contains(&&*argument);
        hide(argument);
        // Flags within an argument, as in `--base '-a user:password'`.
        let mut is_next = false;
        for word in argument.split_mut(|byte| *byte == b' ') {
            let flag = SECRET
                .into_iter()
                .find(|flag| word.starts_with(flag))
                .map_or(0, <[u8]>::len);
            match &word[flag..] {
                _ if std::mem::take(&mut is_next) => word.fill(b'.'),
                [] => is_next = flag > 0,
                [b'=', ..] if flag > 2 => word[flag + 1..].fill(b'.'),
                rest if flag == 2 && rest.contains(&b':') => word[flag..].fill(b'.'),
                _ => {}
            }
        }
    }
}

/// Overwrite what stands between `://` and an `@` before the next slash.
fn hide(argument: &mut [u8]) {
    let mut at = 0;
    while let Some(scheme) = argument[at..].windows(3).position(|part| part == b"://") {
        at += scheme + 3;
        let rest = &mut argument[at..];
        let end = rest
            .iter()
            .position(|byte| *byte == b'/')
            .unwrap_or(rest.len());
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
            (
                "-x http://u:p@h -x socks5://v@i/ http://j",
                "-x http://...@h -x socks5://.@i/ http://j",
            ),
            ("a@b://", "a@b://"),
            ("run\0-a\0u:p q\0--all", "run\0-a\0.....\0--all"),
            ("--auth\0u:p", "--auth\0..."),
            ("--auth=u:p", "--auth=..."),
            ("-au:p\0-all", "-a...\0-all"),
            ("--base\0-c 2 -a u:p -c 3", "--base\0-c 2 -a ... -c 3"),
        ] {
            let mut bytes = argument.as_bytes().to_vec();
            hide_all(&mut bytes);
            assert_eq!(String::from_utf8(bytes).unwrap(), hidden);
        }
    }
}
