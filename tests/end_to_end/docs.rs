//! The documents: the pages of the book, the README files and the change log. Links lead somewhere,
//! command lines are understood by this build, pages that are marked `sh,run` do what they say, and
//! the reference is what the program and the schemas say.
//!
//! `UPDATE_DOCS=1 cargo test -p crawlmark --test end_to_end docs::` writes the generated pages of
//! the reference again.

mod agents;
mod commands;
mod fields;
mod figures;
mod markdown;
mod shell;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crawlmark::cli::{Cli, Command as Typed};
use crawlmark_harness::clock::{Clock, duration_ns};
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::stats::FailureCause;
use crawlmark_results::judge::FindingKind;
use crawlmark_results::run::report::Verdict;
use crawlmark_results::show::text::cause_in_words;
use nix::sys::signal::Signal;

use self::markdown::{Block, Page};
use crate::command::program;
use crate::process::{DEADLINE, signal, wait_for, working_in};

/// Address of the project; links to it lead to files of this tree.
const HOME: &str = "https://github.com/crawlmark/crawlmark/";

/// Programs that the documents name beside crawlmark; any other name is a misspelling.
const OTHERS: &str = "brew cargo cat cd cp curl do docker done duckdb echo fi for gh git grep head hq hyperfine if ip jq kill kubectl ls man mdbook mkdir \
    openssl parallel podman printf protoc python rm sbatch scontrol seq sleep ssh tar tee then until wait zstdcat .ci/pgo .ci/image install sha256sum sudo unshare tc";

/// Pictures of the book, with the plots that they are copies of: GitHub shows no picture through a
/// symbolic link.
const PICTURES: &[(&str, &str)] = &[
    ("arena.svg", "results/arena/plots/arena.svg"),
    ("capacity.svg", "results/capacity/search/plots/capacity.svg"),
    ("ladder.svg", "results/ladder/plots/scenarios.svg"),
    ("latency.svg", "results/example/plots/latency.svg"),
    ("patterns.svg", "results/patterns/plots/scenarios.svg"),
    ("pairs.svg", "results/ab/plots/pairs.svg"),
    ("scaling.svg", "results/scale/plots/scaling.svg"),
    ("spectrum.svg", "results/example/plots/spectrum.svg"),
];

/// Pictures of the book that are copies of nothing.
const DRAWN: [&str; 2] = ["architecture.svg", "page.png"];

/// The root of the tree.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn markdown_below(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            markdown_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Every document, with its path from the root.
fn pages() -> Vec<Page> {
    let mut files = Vec::new();
    markdown_below(&root().join("docs/src"), &mut files);
    for entry in [".", "results", "mock-server", "harness", "fuzz"] {
        for entry in fs::read_dir(root().join(entry)).unwrap() {
            let path = entry.unwrap().path();
            files.extend(
                (path.extension().is_some_and(|extension| extension == "md")).then_some(path),
            );
        }
    }
    files.sort();
    files.iter().map(|file| Page::read(root(), file)).collect()
}

#[test]
fn links_lead_somewhere() {
    let (pages, mut seen, mut wrong) = (pages(), 0, Vec::new());
    for page in &pages {
        for link in page.links() {
            let (to, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let own = to
                .strip_prefix(HOME)
                .and_then(|path| path.split_once('/')?.1.split_once('/'));
            let file = match (to, own) {
                ("", _) => root().join(&page.path),
                (_, Some((_, path))) => root().join(path),
                _ if to.contains("://") || to.starts_with("mailto:") => continue,
                _ => root().join(&page.path).parent().unwrap().join(to),
            };
            seen += 1;
            let is_book = page.path.starts_with("docs/src");
            if !file.exists() {
                wrong.push(format!("{}: there is no {link}", page.path.display()));
            } else if is_book
                && own.is_none()
                && !file
                    .canonicalize()
                    .unwrap()
                    .starts_with(root().join("docs"))
            {
                wrong.push(format!(
                    "{}: {link} is not in the book: write {HOME}blob/main/...",
                    page.path.display()
                ));
            } else if !anchor.is_empty() && !Page::read(root(), &file).anchors().contains(anchor) {
                wrong.push(format!(
                    "{}: {link}: there is no such heading",
                    page.path.display()
                ));
            }
        }
    }
    assert!(seen > 150, "{seen} links");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pictures_of_the_book_are_those_of_the_results() {
    let images = root().join("docs/src/images");
    for (picture, plot) in PICTURES {
        let plot = fs::read(root().join(plot)).unwrap();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(images.join(picture), &plot).unwrap();
        }
        let is_same = fs::read(images.join(picture)).is_ok_and(|copy| copy == plot);
        assert!(
            is_same,
            "{picture} is stale: run UPDATE_DOCS=1 cargo test -p crawlmark --test end_to_end docs::"
        );
    }
    assert_eq!(
        fs::read_dir(images).unwrap().count(),
        PICTURES.len() + DRAWN.len()
    );
}

#[test]
fn the_summary_lists_every_page_of_the_book() {
    let summary = Page::read(root(), &root().join("docs/src/SUMMARY.md"));
    let listed: BTreeSet<PathBuf> = summary
        .links()
        .map(|link| Path::new("docs/src").join(link))
        .collect();
    let mut there = Vec::new();
    markdown_below(&root().join("docs/src"), &mut there);
    let there: BTreeSet<PathBuf> = there
        .iter()
        .map(|path| path.strip_prefix(root()).unwrap().to_owned())
        .collect();
    let missing: Vec<_> = there
        .difference(&listed)
        .filter(|path| !path.ends_with("SUMMARY.md"))
        .collect();
    assert!(missing.is_empty(), "docs/src/SUMMARY.md lacks {missing:?}");
}

/// Check that a command line is one that this build understands, flags of its rounds included.
fn understood(words: &[String]) -> Result<(), String> {
    let cli = match Cli::of(words) {
        Ok(cli) => cli,
        // Help and version.
        Err(error) if !error.use_stderr() => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let round = |own: &str, run: &[String]| {
        let line = ["crawlmark".to_owned(), "run".to_owned()]
            .into_iter()
            .chain(run.iter().cloned());
        let line = line.chain(shlex::split(own).unwrap_or_default());
        Cli::of(line).map(|_| ()).map_err(|error| error.to_string())
    };
    match &cli.command {
        Typed::Ab(args) => round(&args.base, &args.run).and_then(|()| round(&args.cand, &args.run)),
        Typed::Arena(args) => round("", &args.run),
        Typed::Bisect(args) => round("", &args.run),
        Typed::Scale(args) => round("", &args.run),
        Typed::Ladder(args) => round("", &args.run),
        Typed::Capacity(args) => round("", &args.run),
        Typed::Overload(args) => round("", &args.run),
        _ => Ok(()),
    }
}

#[test]
fn command_lines_are_understood() {
    let (mut ours, mut wrong) = (0, Vec::new());
    for page in pages() {
        for block in page.blocks.iter().filter(|block| block.is("sh")) {
            let place = format!("{}:{}", page.path.display(), block.line);
            let shell = Command::new("bash")
                .args(["-n", "-c", &block.text])
                .stdin(Stdio::null())
                .output()
                .unwrap();
            if !shell.status.success() {
                wrong.push(format!(
                    "{place}: {}",
                    String::from_utf8_lossy(&shell.stderr)
                ));
            }
            for command in shell::commands(&block.text) {
                match shell::of_crawlmark(&command) {
                    Ok(Some(words)) => {
                        ours += 1;
                        wrong.extend(
                            understood(&words)
                                .err()
                                .map(|error| format!("{place}: {command}: {error}")),
                        );
                    }
                    Ok(None) => {}
                    Err(name)
                        if OTHERS.split_whitespace().any(|other| other == name)
                            || name.starts_with("./") => {}
                    Err(name) => {
                        wrong.push(format!(
                            "{place}: {command}: `{name}` is not a program that the documents use"
                        ));
                    }
                }
            }
        }
    }
    assert!(ours > 150, "{ours} command lines");
    assert!(
        wrong.is_empty(),
        "{} of {ours} command lines:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Note the exit code of each crawlmark that a page runs, beside the code that its block allows. In a
/// rehearsal, flags that make a command short are added to its own, and to those of its rounds.
const WRAPPER: &str = r#"#!/bin/bash
own=() rounds=() is_round=
for word; do
  case "$is_round:$word" in :--) is_round=1 ;; 1:*) rounds+=("$word") ;; *) own+=("$word") ;; esac
done
if [ -n "$REHEARSED" ]; then
  case "$*" in
    serve*--listen\ 127.0.0.1:[1-9]*) ;;
    serve*) own+=(--listen 127.0.0.1:0); set -- timeout -s INT 0.5 "$PROGRAM" "${own[@]}"; exec "$@" ;;
    run*--resume*|run*--plan*) own+=(-d 1s) ;;
    run*\[1s\]*) own+=(-d 2s) ;;
    run*--warmup*) own+=(-d 600ms --warmup 200ms --out "run-$$") ;;
    run*) own+=(-d 300ms --warmup 0s --out "run-$$") ;;
    bisect*)
      for at in "${!own[@]}"; do [ "${own[at]}" != --build ] || own[at+1]=true; done
      PATH=${PATH#*stand-ins:} own+=(--pairs 8) rounds+=(-d 100ms)
      case "$*" in *--command*) rounds=() own+=(--executions 1) ;; esac ;;
    ab*--base-command*) own+=(--pairs 1 --executions 1) ;;
    ab*) own+=(--pairs 1) rounds+=(-d 300ms) ;;
    scale*) own+=(--repeats 1 -d 200ms) ;;
    arena*) own+=(--rounds 1 --curve 0 -d 100ms -w 0s) ;;
    overload*) own+=(--before 1s --during 1s --after 2s) ;;
    capacity*) own+=(--from 100 --max-rate 200 --probe 1s --budget 3s) ;;
    ladder*) own+=(--rungs 4 -d 1s) ;;
    patterns*) own+=(-d 1s) ;;
    selftest*) own+=(--quick --rows R2) ;;
    watch*) own+=(--once) ;;
  esac
fi
set -- "${own[@]}"
[ -z "${rounds[*]}" ] || set -- "$@" -- "${rounds[@]}"
[ "$1" != serve ] || exec "$PROGRAM" "$@"
"$PROGRAM" "$@"
code=$?
printf '%s %s %s\n' "$code" "$ALLOWED" "$*" >> "$CODES"
exit "$code"
"#;

/// End what was started in the background, and name other programs that fail.
const TRAPS: &str = r#"
trap 'trap - ERR; kill $(jobs -p) 2>/dev/null' EXIT
trap 'case "$BASH_COMMAND" in crawlmark*) ;; *) echo "failed: $BASH_COMMAND" ;; esac' ERR
"#;

/// Programs that a rehearsal replaces by one that reads its input and succeeds.
const REPLACED: &str = "cargo curl duckdb git hq hyperfine jq kubectl man openssl parallel podman protoc python \
    sbatch scontrol ssh zstdcat";

/// Files that the commands of the pages find, made once and copied for each page.
const SCENERY: &str = r#"
export HOME=$PWD
mkdir -p stubs/mappings wiremock/mappings recorded/mappings history rounds results/runs crawlmark stand-ins \
  .local/share/bash-completion/completions .zfunc .config/fish/completions .local/share/man/man1
echo '{"mappings": [{"priority": 9, "request": {"urlPattern": ".*"}, "response": {"headers": {"Content-Type": "application/json"},
  "jsonBody": {"token": "t", "next": null, "data": {"id": 1}, "posts": [{"id": 1}]}}},
  {"request": {"urlPattern": "/v1/.*"}, "response": {"headers": {"Content-Type": "text/event-stream"}, "body": "data: 1\n\ndata: [DONE]\n\n"}}]}' > stubs/mappings/all.json
cp stubs/mappings/all.json wiremock/mappings; cp stubs/mappings/all.json recorded/mappings
echo '127.0.0.1 - - [22/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 2 "-" "-"' > access.log
echo hello > item.bin
for name in old new bench-old bench-new server-a server-b; do
  echo 'case "$*" in *--port*) exec "$PROGRAM" serve --listen "127.0.0.1:${@: -1}" ;; *--json*) echo "{\"latency\":{\"p99\":3}}" ;; *) echo "throughput=100 MB/s" ;; esac' |
    cat <(echo '#!/bin/bash') - > $name
done
for name in $REPLACED; do echo 'cat > /dev/null' | cat <(echo '#!/bin/bash') - > stand-ins/$name; done
chmod +x old new bench-* server-* stand-ins/*
mkdir -p target/release; cp server-a target/release/server; cp old tool; cp bench-old bench
git init -q -b main .; git add tool bench target
for tag in v1.4 v2.0 v2.1; do git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m $tag; git tag $tag; done
for i in {10..29}; do git tag 9f1c2ab0$i $([ $i -lt 20 ] && echo v1.4 || echo main); done
for name in results/runs/2026-11-22T10-00-00Z-crawl result first monday tuesday friday; do cp -r "$TREE/results/example" $name; done
cp -r "$TREE/results/ab" results/runs/2026-11-22T10-00-00Z-ab
echo '{"results":[{"command":"./old","times":[0.0119,0.0120,0.0121,0.0118,0.0122]}]}' > before.json
echo '{"results":[{"command":"./new","times":[0.0124,0.0125,0.0126,0.0124,0.0126]}]}' > after.json
for i in {10..29}; do
  echo '{"schema":"crawlmark.point/1","time":"2026-10-'$i'T10:00:00Z","commit":"9f1c2ab0'$i'","machine":"ci","name":"sort","plan":"",
    "metrics":{"wall_time":{"value":'$((12000 + i / 20 * 500 + i % 7 * 30))',"unit":"us","worse":"more"}}}' | tr -d '\n'; echo
done > bench.jsonl
"#;

/// What is of one page, for its ports: variables and files.
const OF_PAGE: &str = r#"
export REHEARSED=1 URL='http://127.0.0.1:8080/items/{id}' API_TOKEN=t TOKEN=t GITHUB_STEP_SUMMARY=$PWD/steps HOME=$PWD
PATH=$PWD/stand-ins:$PATH
echo 'http://127.0.0.1:8080/items/{id}' | tee urls.txt > crawl.flags
echo '--rate 500/s --arrivals constant' >> crawl.flags
echo '{"url": "http://127.0.0.1:8080/items/{id}", "extract": {"token": "json:/token"}, "then": [{"url": "/{token}"}]}' > flow.jsonl
echo '{"url": "http://127.0.0.1:8080/items/{id}"}' > requests.jsonl
"$PROGRAM" serve --listen 127.0.0.1:8080 --stubs stubs > served &
"#;

/// Ports that few pages name, with their targets.
const TARGETS: [(&str, &str); 2] = [
    (
        ":8081",
        "\"$PROGRAM\" serve --listen 127.0.0.1:8081 > served1 &\n",
    ),
    (
        ":8443",
        "\"$PROGRAM\" serve --listen 127.0.0.1:8443 --stubs stubs --tls --tls-cert authority.pem > served &\n\
        for try in {1..200}; do [ -s authority.pem ] && break; sleep 0.05; done\n",
    ),
];

/// Hosts of the pages, and the target that plays them in a rehearsal.
const PLAYED: &[(&str, &str)] = &[
    ("[10s]", "[1s]"),
    (
        "serve --listen 127.0.0.1:8080",
        "serve --listen 127.0.0.1:0",
    ),
    (
        "serve --listen 127.0.0.1:8443",
        "serve --listen 127.0.0.1:0",
    ),
    ("https://api.example.com", "http://127.0.0.1:8080"),
    ("https://shop.example.com", "http://127.0.0.1:8080"),
    ("https://staging.internal:8443", "https://127.0.0.1:8443"),
    ("http://staging.example.com", "http://127.0.0.1:8080"),
    ("http://10.0.0.5:8080", "http://127.0.0.1:8080"),
    ("http://10.0.0.5:9000", "http://127.0.0.1:8080"),
    ("http://server:8080", "http://127.0.0.1:8080"),
    ("http://127.0.0.1:50051", "http://127.0.0.1:8081"),
    ("--metrics 127.0.0.1:9464", "--metrics 127.0.0.1:0"),
];

/// Run blocks of a page, one after another in one shell, as a reader would: those that are marked
/// `sh,run` as they are, or the other ones in a rehearsal, made short, in a copy of `scenery`.
/// `exit-3` allows exit code 3, too; `readers` needs the Python of `.ci/run`; `elsewhere` needs what
/// no test has.
fn run_page(page: &Page, scenery: Option<&Path>) {
    let is_rehearsal = scenery.is_some();
    let readers = root().join("target/consumers/bin");
    let has_readers = readers.join("python").is_file();
    let has_curl = is_rehearsal || Command::new("curl").arg("--version").output().is_ok();
    let can_run = |block: &Block| {
        let can =
            (has_readers || !block.is("readers")) && (has_curl || !block.text.contains("curl "));
        if !can {
            eprintln!(
                "skipped: {}:{}: a program that it uses is missing",
                page.path.display(),
                block.line
            );
        }
        can
    };
    let is_ours = |block: &Block| {
        block.is("sh")
            && block.is("run") != is_rehearsal
            && !block.is("elsewhere")
            && (!is_rehearsal || block.text.contains("crawlmark"))
    };
    let blocks: Vec<_> = page
        .blocks
        .iter()
        .filter(|block| is_ours(block) && can_run(block))
        .collect();
    if blocks.is_empty() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (work, bin, codes) = (
        place.path().join("work"),
        place.path().join("bin"),
        place.path().join("codes"),
    );
    fs::create_dir(&work).unwrap();
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("crawlmark"), WRAPPER).unwrap();
    fs::set_permissions(bin.join("crawlmark"), fs::Permissions::from_mode(0o755)).unwrap();
    // Ports that were free a moment ago, held until all are chosen.
    let listeners: Vec<_> = (0..4)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let mut script = TRAPS.to_owned();
    if let Some(scenery) = scenery {
        let from = scenery.join(".");
        let copied = Command::new("cp").arg("-a").args([&from, &work]).status();
        assert!(copied.unwrap().success());
        let texts: Vec<String> = blocks.iter().map(|block| played(block)).collect();
        let is_named = |what: &str| texts.iter().any(|text| text.contains(what));
        add_lines(&mut script, OF_PAGE);
        for (_, lines) in TARGETS.iter().filter(|(port, _)| is_named(port)) {
            add_lines(&mut script, lines);
        }
        if is_named(" items") && !is_named("--save items") {
            script.push_str("\"$PROGRAM\" run \"$URL\" -n 3 --save items --quiet --out -\n");
        }
    }
    for block in &blocks {
        let allowed: Vec<&str> = block
            .info
            .split(',')
            .filter_map(|word| word.strip_prefix("exit-"))
            .collect();
        let allowed = if is_rehearsal {
            "3,4,5".to_owned()
        } else {
            allowed.join(",")
        };
        let _ = writeln!(
            script,
            "export ALLOWED=0,{allowed}; echo; echo '{}'",
            begins(block)
        );
        if is_rehearsal {
            let _ = writeln!(script, "({}) || true", played(block));
        } else {
            add_lines(&mut script, &block.text);
        }
    }
    for (written, listener) in ["8080", "8081", "8443", "3128"].iter().zip(&listeners) {
        let port = listener.local_addr().unwrap().port();
        for before in ["127.0.0.1:", "127.0.0.1/"] {
            script = script.replace(&format!("{before}{written}"), &format!("{before}{port}"));
        }
    }
    drop(listeners);
    let path = format!(
        "{}:{}:{}",
        bin.display(),
        readers.display(),
        std::env::var("PATH").unwrap()
    );
    let (said, work) = (place.path().join("said"), work.canonicalize().unwrap());
    let output = fs::File::create(&said).unwrap();
    let mut shell = Command::new("bash")
        .args(["-c", &script])
        .current_dir(&work)
        .env("PATH", path)
        .env("PROGRAM", program())
        .env("CODES", &codes)
        .env("TREE", root())
        .env("REPLACED", REPLACED)
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .spawn()
        .unwrap();
    let clock = Clock::start();
    let status = loop {
        if let Some(status) = shell.try_wait().unwrap() {
            break status;
        }
        if clock.now().0 > duration_ns(DEADLINE) {
            for pid in working_in(&work) {
                signal(pid, Signal::SIGKILL);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let said = fs::read_to_string(&said).unwrap();
    wait_for("the end of the page's processes", || {
        working_in(&work).is_empty().then_some(())
    });
    assert!(
        !said.contains("connection refused"),
        "{}: {said}",
        page.path.display()
    );
    let codes = fs::read_to_string(&codes).unwrap_or_default();
    for line in codes.lines() {
        let (code, rest) = line.split_once(' ').unwrap();
        let (allowed, command) = rest.split_once(' ').unwrap();
        assert!(
            allowed.split(',').any(|allowed| allowed == code),
            "{}: exit code {code}: crawlmark {command}\n{said}",
            page.path.display()
        );
    }
    assert!(
        (is_rehearsal || !codes.is_empty())
            && !said.contains("command not found")
            && !said.contains("\nfailed: "),
        "{}: {status}\n{said}",
        page.path.display()
    );
    for block in blocks {
        assert_sample(page, block, &said);
    }
}

/// Text of a block with the hosts of a rehearsal.
fn played(block: &Block) -> String {
    let mut text = block.text.clone();
    for (named, played) in PLAYED {
        text = text.replace(named, played);
    }
    text
}

/// Line before the output of a block.
fn begins(block: &Block) -> String {
    format!("-- output of the block in line {}", block.line)
}

/// Add lines to a script; after one that starts a target, wait until it listens.
fn add_lines(script: &mut String, lines: &str) {
    for line in lines.lines() {
        script.push_str(line);
        script.push('\n');
        if let Some(port) = line
            .strip_suffix('&')
            .and_then(|line| line.split("--listen 127.0.0.1:").nth(1))
        {
            let port = port.split_whitespace().next().unwrap();
            let _ = writeln!(
                script,
                "for try in {{1..600}}; do (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && break; sleep 0.05; done"
            );
        }
    }
}

/// Check that a sample (`text,sample`) behind a block has the shape of what the block prints: for
/// each line there is one with the same words. Findings and verdicts (`!`, `✓` ...) depend on the
/// machine, and figures on the run.
fn assert_sample(page: &Page, block: &Block, said: &str) {
    let next = page.blocks.iter().find(|next| next.line > block.line);
    let Some(sample) = next.filter(|next| next.is("sample")) else {
        return;
    };
    let (_, said) = said.split_once(&begins(block)).unwrap();
    let said = said.split("\n-- output of").next().unwrap();
    let lines: Vec<&str> = said.lines().chain([""]).collect();
    let mut is_finding = false;
    for line in sample.text.lines() {
        is_finding = line.starts_with(['!', '✓', '✕']) || is_finding && line.starts_with("  ");
        let words = words_of(line);
        // A line may be broken elsewhere.
        let has = lines
            .windows(2)
            .any(|printed| words.is_subset(&words_of(&printed.join(" "))));
        assert!(
            is_finding || words.is_empty() || has,
            "{}:{}: nothing like this line is printed: {line}\n{said}",
            page.path.display(),
            sample.line
        );
    }
}

/// Words of a line, without figures, units and what depends on the outcome.
fn words_of(line: &str) -> BTreeSet<&str> {
    const LEFT_OUT: [&str; 5] = ["ms", "of", "in", "below", "passed"];
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| word.len() > 1 && word.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        .filter(|word| !LEFT_OUT.contains(word))
        .collect()
}

#[test]
fn pages_that_are_marked_do_what_they_say() {
    for page in pages() {
        run_page(&page, None);
    }
}

#[test]
fn all_other_commands_run() {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return;
    }
    let is_user = |page: &Page| {
        !page.path.starts_with("docs/src/reference/commands")
            && (page.path.starts_with("docs") || page.path.ends_with("README.md"))
    };
    let scenery = tempfile::tempdir().unwrap();
    let made = Command::new("bash")
        .args(["-ec", SCENERY])
        .current_dir(&scenery)
        .env("TREE", root())
        .env("REPLACED", REPLACED)
        .status();
    assert!(made.unwrap().success());
    let (pages, next) = (pages(), AtomicUsize::new(0));
    let pages: Vec<&Page> = pages.iter().filter(|page| is_user(page)).collect();
    // All pages are run, a few at a time, whatever is wrong with one of them.
    let run = || {
        let mut wrong = Vec::new();
        while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
            if std::panic::catch_unwind(|| run_page(page, Some(scenery.path()))).is_err() {
                wrong.push(page.path.clone());
            }
        }
        wrong
    };
    let wrong: Vec<PathBuf> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Compare a generated page with the committed one, or write it.
fn assert_generated(path: &str, text: &str) {
    let path = root().join("docs/src/reference").join(path);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let differs = committed
        .lines()
        .zip(text.lines())
        .find(|(there, here)| there != here);
    assert!(
        committed == text,
        "{} is stale ({differs:?}): run UPDATE_DOCS=1 cargo test -p crawlmark --test end_to_end docs::",
        path.display()
    );
}

/// The summary with an entry for each page of a list, below the entry of the list.
fn listing(summary: &str, list: &str, pages: &[(String, String)]) -> String {
    let mut text = String::new();
    let mut is_below = false;
    for line in summary.lines() {
        if is_below && line.starts_with("  - ") {
            continue;
        }
        text.push_str(line);
        text.push('\n');
        is_below = line.ends_with(&format!("(reference/{list})"));
        for (path, page) in pages.iter().filter(|(path, _)| is_below && path != list) {
            let title = page
                .lines()
                .find_map(|line| line.strip_prefix("# "))
                .unwrap();
            let _ = writeln!(
                text,
                "  - [{}](reference/{path})",
                title.trim_start_matches("crawlmark ")
            );
        }
    }
    text
}

fn assert_listed(list: &str, pages: &[(String, String)]) {
    let summary = fs::read_to_string(root().join("docs/src/SUMMARY.md")).unwrap();
    assert_generated("../SUMMARY.md", &listing(&summary, list, pages));
}

#[test]
fn the_reference_is_that_of_the_program_and_the_schemas() {
    for (list, pages) in [
        ("commands.md", commands::pages()),
        ("json.md", fields::pages(&root().join("results/schema"))),
    ] {
        for (path, text) in &pages {
            let silent = text
                .lines()
                .find(|line| line.ends_with("|  |") || line.contains("|  *(may"));
            assert_eq!(silent, None, "{path}: a field has no description");
            assert_generated(path, text);
        }
        assert_listed(list, &pages);
    }
}

/// Each test that a row of the threat table names exists.
#[test]
fn tests_of_the_threat_table_exist() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let page = read("docs/src/reference/secrets.md");
    let (_, table) = page.split_once("## Threats").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_suffix(" |"));
    let mut count = 0;
    for tests in rows.filter_map(|row| row.rsplit('|').next()) {
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        for name in &named {
            if let Some((module, test)) = name.split_once("::") {
                let text = read(&format!("tests/end_to_end/{module}.rs"));
                assert!(text.contains(&format!("fn {test}(")), "{name}");
                count += 1;
            } else if Path::new(name).extension().is_some_and(|it| it == "rs") {
                assert!(read(name).contains("#[test]"), "{name}");
                count += 1;
            }
        }
    }
    assert!(count >= 20, "{count}");
}

fn findings_page() -> String {
    let mut text = "<!-- Generated from the program: UPDATE_DOCS=1 cargo test -p crawlmark --test end_to_end docs:: -->\n\n\
        # Findings\n\n\
        A finding is a fact about a run. The summary, the page and `findings` in [result.json](json/result.md) list the findings, the\n\
        most severe first. Among findings of the same severity, those that concern at least half of the requests or of the time come first. Findings that others make redundant are not listed. Each finding has:\n\n\
        - a kind, and a severity (`info`, `warning` or `error`)\n\
        - its effect on the verdict, and its numbers\n\
        - a `headline` of at most 48 characters, and a sentence (`text`)\n\
        - the times at which it happened (`events`), if they are known\n\
        - a `remedy`, unless it depends on the target\n\n\
        ## Verdicts\n\n\
        The verdict is the most severe effect of any finding. The most severe verdict is the last one of this table.\n\
        [Verdicts](verdicts.md) has the limits of the checks.\n\n\
        | verdict | meaning | what to do |\n|---|---|---|\n"
        .to_owned();
    for verdict in Verdict::ALL {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} |",
            verdict.name(),
            verdict.meaning(),
            verdict.remedy()
        );
    }
    text.push_str(
        "\n## Kinds\n\nFindings of the same severity are listed in this order.\n\n| kind | found when |\n|---|---|\n",
    );
    for kind in FindingKind::ALL {
        let name = serde_json::to_value(kind).unwrap();
        let _ = writeln!(text, "| `{}` |{} |", name.as_str().unwrap(), kind.meaning());
    }
    text
}

#[test]
fn the_page_on_findings_is_that_of_the_program() {
    assert_generated("findings.md", &findings_page());
}

#[test]
fn every_kind_of_failure_has_its_row() {
    let failures = fs::read_to_string(root().join("docs/src/reference/failures.md")).unwrap();
    for kind in ErrorKind::ALL {
        let key = serde_json::to_value(kind).unwrap();
        let row = format!(
            "\n| `{}` | {} |",
            key.as_str().unwrap(),
            cause_in_words(FailureCause::Error(kind))
        );
        assert!(failures.contains(&row), "failures.md lacks {row}");
    }
}

#[test]
fn agents_read_the_tables_of_the_program() {
    assert_generated("../start/agents.md", &agents::page(root()));
    assert_generated("../../../llms.txt", &agents::llms(root()));
}

#[test]
fn every_verdict_has_its_section() {
    let page = Page::read(
        root(),
        &root().join("docs/src/understand/troubleshooting.md"),
    );
    let anchors = page.anchors();
    for verdict in Verdict::ALL {
        assert!(anchors.contains(verdict.name()), "{}", verdict.name());
    }
}

#[test]
fn pages_are_short() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.lines().count() <= 160);
    for page in pages() {
        let text = fs::read_to_string(root().join(&page.path)).unwrap();
        let is_guide =
            page.path.starts_with("docs") && !page.path.starts_with("docs/src/reference");
        let words = text.split_whitespace().count();
        assert!(
            !is_guide || words <= 1_200,
            "{}: {words} words",
            page.path.display()
        );
    }
}

#[test]
fn figures_are_those_of_the_results_and_the_constants() {
    for (page, phrase) in figures::claims(root()) {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&phrase), "{page} lacks: {phrase}");
    }
}
