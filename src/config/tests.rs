use std::collections::BTreeSet;
use std::fs;
use std::io::Write;

use clap::error::ErrorKind;
use proptest::prelude::*;
use tempfile::NamedTempFile;

use super::*;
use crate::error::USAGE;

/// A configuration file.
fn file_of(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn configured(words: &[&str], environment: &[(&str, &str)]) -> Result<Config, Error> {
    let words = std::iter::once("crawlmark")
        .chain(words.iter().copied())
        .map(OsString::from)
        .collect();
    Config::read(
        words,
        environment
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value))),
    )
}

/// The words behind the program's name, without `--config FILE`.
fn words(config: &Config) -> String {
    let words: Vec<String> = config
        .words
        .iter()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let at = words.iter().position(|word| word == "--config");
    let rest = words
        .iter()
        .enumerate()
        .filter(|(place, _)| at.is_none_or(|at| *place != at && *place != at + 1));
    rest.map(|(_, word)| word.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

const RUN: &str = "[run]\nurl = 'http://h/{id}'\nrate = '5k'\nconnections = 8\ntag = ['a=1', 'b=2']\nshuffle = true\nno-pin = false\nadaptive = true\n";

#[test]
fn each_value_comes_from_the_first_that_has_one() {
    let file = file_of(RUN);
    let path = file.path().to_str().unwrap();
    let of_file = "--tag=a=1 --tag=b=2";
    for (typed, environment, expected) in [
        (
            &[][..],
            &[][..],
            format!("run http://h/{{id}} --shuffle --connections=8 --rate=5k --adaptive {of_file}"),
        ),
        (
            &["-c", "2", "--tag", "c=3"],
            &[],
            "run -c 2 --tag c=3 http://h/{id} --shuffle --rate=5k --adaptive".to_owned(),
        ),
        (
            &["http://i/"],
            &[
                ("CRAWLMARK_RUN_RATE", "7"),
                ("CRAWLMARK_RUN_SHUFFLE", "false"),
                ("CRAWLMARK_RUN_TAG", "x=1\ny=2"),
                ("CRAWLMARK_RUN_NAME", ""),
            ],
            "run http://i/ --rate=7 --tag=x=1 --tag=y=2 --connections=8 --adaptive".to_owned(),
        ),
        (
            &["--adaptive=gradient"],
            &[
                ("CRAWLMARK_RUN_ADAPTIVE", "false"),
                ("CRAWLMARK_AB_SEED", "7"),
                ("CRAWLMARK_OTHER", "7"),
                ("CRAWLMARK_RUN_NO_PIN", "1"),
            ],
            format!(
                "run --adaptive=gradient --no-pin http://h/{{id}} --shuffle --connections=8 --rate=5k {of_file}"
            ),
        ),
    ] {
        let config =
            configured(&[&["run", "--config", path], typed].concat(), environment).unwrap();
        assert_eq!(words(&config), expected, "{typed:?} {environment:?}");
        config.cli().unwrap();
    }
}

#[test]
fn studies_take_the_flags_of_their_rounds_as_a_list() {
    let file =
        file_of("[ab]\nbase = '-c 1'\npairs = 16\naa = true\nrun = ['http://h/', '-c', '8']\n");
    let path = file.path().to_str().unwrap();
    let all = |typed: &[&str]| {
        words(&configured(&[&["ab", "--config", path], typed].concat(), &[]).unwrap())
    };
    assert_eq!(all(&[]), "ab --base=-c 1 --pairs=16 --aa -- http://h/ -c 8");
    assert_eq!(
        all(&["--aa=3", "--", "-n", "5"]),
        "ab --aa=3 --base=-c 1 --pairs=16 -- -n 5"
    );
}

#[test]
fn what_no_command_has_is_refused_without_its_value() {
    for text in [
        "[run]\nqps = 8\n",
        "[run]\nconfig = 'x'\n",
        "[rnu]\nrate = 8\n",
        "rate = 8\n",
        "[ab]\n[scale]\n",
        "[run]\nheader = ['x: hidden]\n",
        "[run]\nshuffle = 'hidden'\n",
        "[run]\nrate = [1, 2]\n",
        "[run]\ntag = [[1]]\n",
    ] {
        let file = file_of(text);
        let path = file.path().to_str().unwrap();
        let error = configured(&["run", "--config", path], &[]).err().unwrap();
        assert_eq!(error.exit_code(), USAGE, "{text}");
        assert!(!error.message().contains("hidden"), "{text}");
    }
    for variable in [
        ("CRAWLMARK_CONFIG", "/no/such/file"),
        ("CRAWLMARK_RUN_CONECTIONS", "7"),
        ("CRAWLMARK_RUN_SHUFFLE", "yes"),
    ] {
        let error = configured(&["run"], &[variable]).err().unwrap();
        assert_eq!(error.exit_code(), USAGE, "{variable:?}");
    }
    // A variable is for all commands, of which some have no settings.
    let other = file_of("[ab]\npairs = 16\n");
    let variable = ("CRAWLMARK_CONFIG", other.path().to_str().unwrap());
    configured(&["run"], &[variable]).unwrap().cli().unwrap();
    // A value is checked as if it were typed, and the error comes with its place.
    let config = configured(&["run"], &[("CRAWLMARK_RUN_RATE", "x")]).unwrap();
    assert_eq!(config.cli().unwrap_err().kind(), ErrorKind::ValueValidation);
    assert_eq!(config.origins(), "note: CRAWLMARK_RUN_RATE sets rate\n");
    // What can neither be used together nor replaces the other.
    let file = file_of("[run]\nurl = 'http://h/'\n");
    let path = file.path().to_str().unwrap();
    let config = configured(&["run", "--config", path, "--target-latency", "20ms"], &[]);
    let error = config.unwrap().cli().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ArgumentConflict);
}

#[test]
fn the_nearest_key_is_found_by_alias_and_spelling() {
    let program = built();
    let run = program.find_subcommand("run").unwrap();
    for (wanted, meant) in [
        ("qps", "rate"),
        ("c", "connections"),
        ("conections", "connections"),
    ] {
        let error = known(run, wanted, "a file").unwrap_err().to_string();
        assert!(error.contains(&format!("`{meant}`")), "{error}");
    }
}

#[test]
fn a_flag_replaces_another_way_to_say_the_same() {
    let file = file_of(
        "[run]\nurl = 'http://h/'\ncacert = 'a.pem'\nbody = 'b'\nsave = 'crawl'\nsave-bodies = 'all'\n",
    );
    let path = file.path().to_str().unwrap();
    let all = |typed: &[&str], environment: &[(&str, &str)]| {
        words(&configured(&[&["run", "--config", path], typed].concat(), environment).unwrap())
    };
    let saving = "--save=crawl --save-bodies=all";
    assert_eq!(
        all(&["--urls", "u"], &[]),
        format!("run --urls u --body=b --cacert=a.pem {saving}")
    );
    assert_eq!(
        all(&["-k", "--resume", "crawl"], &[]),
        "run -k --resume crawl http://h/ --body=b"
    );
    let environment = [
        ("CRAWLMARK_RUN_JSON_BODY", "{}"),
        ("CRAWLMARK_RUN_INSECURE", "false"),
    ];
    assert_eq!(
        all(&[], &environment),
        format!("run --json-body={{}} http://h/ --cacert=a.pem {saving}")
    );
    let environment = [("CRAWLMARK_RUN_URLS", "u")];
    assert_eq!(
        all(&["--insecure", "http://i/"], &environment),
        format!("run --insecure http://i/ --body=b {saving}")
    );
}

#[test]
fn a_required_flag_may_be_configured() {
    let file = file_of("[plan]\nnodes = 4\nurl = 'http://h/'\n[completions]\nshell = 'bash'\n");
    let path = file.path().to_str().unwrap();
    let config = configured(&["plan", "--config", path, "--out", "p"], &[]).unwrap();
    assert_eq!(words(&config), "plan --out p --nodes=4 http://h/");
    config.cli().unwrap();
    configured(&["completions", "--config", path], &[])
        .unwrap()
        .cli()
        .unwrap();
    let help = configured(&["plan", "--config", "/no/such/file", "--help"], &[]).unwrap();
    assert_eq!(help.cli().unwrap_err().kind(), ErrorKind::DisplayHelp);
}

/// The file that a command line prints.
fn printed(words: &[&str]) -> String {
    configured(&[words, &["--print-config"]].concat(), &[])
        .unwrap()
        .printed()
        .unwrap()
}

#[test]
fn a_printed_file_gives_the_same_command_line() {
    let line = [
        "run",
        "http://h/{id}",
        "-R",
        "5k",
        "-c",
        "8",
        "--tag",
        "a=\"1\"",
        "--tag",
        "b=\\",
        "--shuffle",
        "--adaptive",
        "--threshold",
        "rate > 5",
        "--name=-x",
    ];
    let text = printed(&line);
    let file = file_of(&text);
    let config = configured(&["run", "--config", file.path().to_str().unwrap()], &[]).unwrap();
    let recorded = |words: &[OsString]| {
        let mut cli = Cli::of(words).unwrap();
        cli.command.run_mut().unwrap().typed.command(None).arguments
    };
    let typed: Vec<OsString> = std::iter::once("crawlmark")
        .chain(line)
        .map(OsString::from)
        .collect();
    assert_eq!(recorded(&config.words), recorded(&typed));
    assert_eq!(configured(&["run"], &[]).unwrap().printed(), None);
}

#[test]
fn every_key_of_a_printed_file_is_known_and_its_form_is_toml() {
    for command in built()
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
    {
        if command == "help" {
            continue;
        }
        let text = printed(&[&command]);
        let whole: String = text
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(rest)
                    if rest
                        .split_once(" = ")
                        .is_some_and(|(key, _)| !key.contains(' ')) =>
                {
                    format!("{rest}\n")
                }
                _ => format!("{line}\n"),
            })
            .collect();
        let file = file_of(&whole);
        let program = built();
        let of_it = program.find_subcommand(&command).unwrap();
        let layer = of_file(file.path(), of_it, &program, true)
            .map_err(|error| error.message())
            .unwrap();
        assert_eq!(layer.len(), configurable(of_it).count(), "{whole}");
        let headings = || text.lines().filter(|line| line.starts_with("# ---"));
        let once: BTreeSet<&str> = headings().collect();
        assert_eq!(headings().count(), once.len(), "{text}");
        assert!(!once.contains("# --- "), "{text}");
    }
}

#[test]
fn secrets_are_not_printed() {
    let text = printed(&[
        "run",
        "http://h/?token=hidden",
        "-H",
        "x-key: hidden",
        "-a",
        "u:hidden",
        "--body",
        "hidden",
        "-x",
        "http://u:hidden@127.0.0.1:1",
    ]);
    assert!(
        !text.contains("hidden") && text.contains("set CRAWLMARK_RUN_HEADER"),
        "{text}"
    );
    let text = printed(&["serve", "--proxy-auth", "u:hidden"]);
    assert!(
        !text.contains("hidden") && text.contains("set CRAWLMARK_SERVE_PROXY_AUTH"),
        "{text}"
    );
    for line in [
        &["ab", "--base", "-a u:hidden"][..],
        &["ab", "--", "-a", "u:hidden"],
    ] {
        let text = configured(&[&line[..1], &["--print-config"], &line[1..]].concat(), &[])
            .unwrap()
            .printed()
            .unwrap();
        assert!(!text.contains("hidden"), "{text}");
    }
}

#[test]
fn rounds_do_not_see_what_configures_runs() {
    for (name, is_hidden) in [
        ("CRAWLMARK_RUN_RATE", true),
        ("CRAWLMARK_CONFIG", true),
        ("CRAWLMARK_SERVE_SEED", false),
        ("PATH", false),
    ] {
        assert_eq!(configures_run(OsStr::new(name)), is_hidden, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a text holds, the printed file gives it back.
    #[test]
    fn any_text_survives_a_printed_file(text in "\\PC{0,20}[\u{7f}\t\n]?[\"'\\\\]?") {
        let tag = format!("k={text}");
        let of_file = file_of(&printed(&["run", "--tag", &tag]));
        let config = configured(&["run", "--config", of_file.path().to_str().unwrap()], &[]).unwrap();
        prop_assert!(config.words.contains(&OsString::from(format!("--tag={tag}"))), "{}", fs::read_to_string(of_file.path()).unwrap());
    }
}
