//! `--config FILE`: words of a file in place of the flag. Called once, by `main`, before the command
//! line is read, so that a flag means the same wherever it stands.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crawlmark_harness::text_file::plain;

use crate::error::Error;

/// The flag.
const FLAG: &str = "--config";

/// Largest file, bytes: the system refuses a command line of a quarter of it.
const MOST: u64 = 8 << 20;

/// A command line with the words of the files that it names.
#[derive(Debug)]
pub(crate) struct Expanded {
    pub(crate) words: Vec<OsString>,
    /// The files.
    pub(crate) files: Vec<OsString>,
}

/// Read the files that a command line names.
///
/// # Errors
/// When a file cannot be read, is not words as a shell writes them, or names another file.
pub(crate) fn expanded(words: impl IntoIterator<Item = OsString>) -> Result<Expanded, Error> {
    let mut words = words.into_iter();
    let (mut all, mut files) = (Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if text == "--" {
            all.push(word);
            break;
        }
        let file = match text.strip_prefix(FLAG) {
            Some("") => words.next(),
            Some(rest) => rest.strip_prefix('=').map(OsString::from),
            None => None,
        };
        if let Some(file) = file {
            all.extend(words_of(Path::new(&file))?);
            files.push(file);
        } else {
            all.push(word);
        }
    }
    all.extend(words);
    Ok(Expanded { words: all, files })
}

fn words_of(file: &Path) -> Result<Vec<OsString>, Error> {
    let refused = |why: &str| Error::Usage(format!("{FLAG} {}: {why}", file.display()));
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(MOST + 1).read_to_end(&mut bytes))
        .map_err(|error| refused(&format!("it cannot be read: {error}")))?;
    if bytes.len() as u64 > MOST {
        return Err(refused("it is longer than 8 MiB: name a file of flags"));
    }
    let text = String::from_utf8(plain(bytes))
        .map_err(|_| refused("it is not UTF-8 text: save it as UTF-8"))?;
    // As in a shell, where lines are joined by it; `shlex` makes an empty word of it. Behind a word it
    // stays: there it joins the halves of the word.
    let lines: Vec<&str> = text
        .lines()
        .map(|line| {
            line.trim_end()
                .strip_suffix('\\')
                .filter(|before| before.trim_end() != *before || before.is_empty())
                .unwrap_or(line)
        })
        .collect();
    let words = shlex::split(&lines.join("\n")).ok_or_else(|| {
        refused("a quote is not closed: write flags as in a shell, one or more a line")
    })?;
    if words
        .iter()
        .any(|word| word.split('=').next() == Some(FLAG))
    {
        return Err(refused(
            "it names another file: write the flags of that one here",
        ));
    }
    Ok(words.into_iter().map(OsString::from).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let words = ["c", "run", "--config", "/dev/zero"].map(OsString::from);
        assert!(expanded(words).is_err());
    }

    #[test]
    fn words_of_a_file_stand_in_place_of_the_flag() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("flags");
        let of = |line: &str| {
            let line = line.replace("FILE", &file.display().to_string());
            let line = expanded(line.split(' ').map(OsString::from));
            line.map(|it| {
                it.words
                    .join(std::ffi::OsStr::new("|"))
                    .into_string()
                    .unwrap()
            })
        };
        fs::write(&file, "# A comment.\n--rate 5k\n-H 'x: a b' # another\n").unwrap();
        let words = "--rate|5k|-H|x: a b";
        for line in ["c run --config FILE -n 3", "c run --config=FILE -n 3"] {
            assert_eq!(of(line).unwrap(), format!("c|run|{words}|-n|3"));
        }
        // Lines are joined whatever blanks follow, and a blank that is escaped behind a word stays.
        for (text, words) in [
            ("--rate \\  \n 5k \\\t\n-n 3", "--rate|5k|-n|3"),
            ("--rate \\\n5k", "--rate|5k"),
            ("--name a\\ \nb", "--name|a |b"),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(of("c run --config FILE").unwrap(), format!("c|run|{words}"));
        }
        // It may be what a round of a study has, which refuses it.
        assert!(
            of("c ab -- --config FILE")
                .unwrap()
                .starts_with("c|ab|--|--config|")
        );
        // Without a value, clap refuses it.
        assert_eq!(of("c run --config").unwrap(), "c|run|--config");
        for words in ["-n 3 --config x", "--config=x"] {
            fs::write(&file, words).unwrap();
            assert!(of("c run --config FILE").is_err(), "{words}");
        }
        fs::write(&file, "-H 'x").unwrap();
        for line in ["c run --config FILE", "c run --config FILE.absent"] {
            assert!(of(line).is_err(), "{line}");
        }
    }
}
