//! Plans, saved crawls and parts that somebody else made: what they name is not executed, opened or
//! sent; and the owner's own, with all that a part has to be given again.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use crawlmark::dataset::manifest::Manifest;
use crawlmark_results::run::parts::PlanFile;
use crawlmark_results::run::report::CommandLine;

use crate::command::call_line;
use crate::target::Target;

/// Flags with a value, none of which a file may give: DIR is the directory of the test, PORT a
/// server that nobody named.
const FLAGS: &[&str] = &[
    "--target-probe 'touch DIR/forged'",
    "--export csv=DIR/forged",
    "--out DIR/forged",
    "--save DIR/forged",
    "--config DIR/flags",
    "--urls DIR/lists/list",
    "--requests-file DIR/lists/list",
    "--body-file DIR/list",
    "--body @DIR/list",
    "--json-body @DIR/list",
    "--header 'x-forged: 1'",
    "--auth user:forged",
    "--bearer-env PATH",
    "--unix-socket DIR/socket",
    "--proxy http://127.0.0.1:PORT",
    "--connect-to 127.0.0.1:*:127.0.0.1:PORT",
    "--local-ips 127.0.0.2",
    "--cacert DIR/list",
    "--insecure",
    "--cert DIR/list --key DIR/list",
    "--target-pid 1",
    "--target-cgroup /",
    "--mode 666",
];

/// The directory of a saved crawl and a plan whose files are forged.
struct Desk {
    place: tempfile::TempDir,
    socket: UnixListener,
    server: TcpListener,
    target: Target,
}

impl Desk {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let socket = UnixListener::bind(place.path().join("socket")).unwrap();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        server.set_nonblocking(true).unwrap();
        let target = Target::start("--processes 1");
        let begin = [
            format!("run {} -n 20 -s 1 --save crawl --quiet", target.url()),
            format!("plan {} -n 20 --nodes 2 --save items --quiet", target.url()),
        ];
        for line in begin {
            call_line(place.path(), &line).code(&[0]);
        }
        let list = format!("{}\n", target.url());
        fs::write(place.path().join("list"), &list).unwrap();
        // Not in the directory of the plan, whose lists are its own.
        fs::create_dir(place.path().join("lists")).unwrap();
        fs::write(place.path().join("lists/list"), list).unwrap();
        fs::write(place.path().join("flags"), "--out forged\n").unwrap();
        Self {
            place,
            socket,
            server,
            target,
        }
    }

    fn words(&self, flags: &str) -> Vec<String> {
        let port = self.server.local_addr().unwrap().port().to_string();
        let directory = self.place.path().display().to_string();
        let flags = flags.replace("PORT", &port).replace("DIR", &directory);
        shlex::split(&flags).unwrap()
    }

    fn forge_crawl(&self, flags: &str, withhold: bool) {
        let crawl = self.place.path().join("crawl");
        let mut manifest = Manifest::read(&crawl).unwrap();
        self.forge(&mut manifest.command, flags, withhold);
        manifest.write(&crawl).unwrap();
    }

    fn forge_plan(&self, change: impl FnOnce(&mut PlanFile)) {
        let (mut plan, _) = PlanFile::read(&self.place.path().join("plan.json")).unwrap();
        change(&mut plan);
        fs::write(self.place.path().join("forged.json"), plan.text().unwrap()).unwrap();
    }

    fn forge(&self, command: &mut CommandLine, flags: &str, withhold: bool) {
        let words = self.words(flags);
        *command = CommandLine::default();
        command.arguments = ["crawlmark", "run"].map(str::to_owned).into();
        if !flags.starts_with("--urls") && !flags.starts_with("--requests-file") {
            command.arguments.push(self.target.url());
        }
        if withhold {
            command.withheld.push(words.join(" "));
        } else {
            command.arguments.extend(words);
        }
    }

    /// Check that a line is refused, and that nothing has happened.
    #[track_caller]
    fn refuses(&self, line: &str, flag: &str) {
        let before = self.target.requests();
        let done = call_line(self.place.path(), line);
        assert_eq!(done.code, Some(2), "{flag}: {}", done.stderr);
        let is_known = done.stderr.contains(flag) || done.stderr.contains("Restore");
        assert!(is_known, "{flag}: {}", done.stderr);
        for name in ["forged", "parts/forged", "new"] {
            assert!(!self.place.path().join(name).exists(), "{flag}");
        }
        assert!(
            self.socket.accept().is_err(),
            "{flag}: the socket was opened"
        );
        assert!(self.server.accept().is_err(), "{flag}: a server was asked");
        assert_eq!(self.target.requests(), before, "{flag}: a request was sent");
    }
}

#[test]
fn a_forged_file_executes_opens_and_sends_nothing() {
    let desk = Desk::new();
    for flags in FLAGS {
        let flag = flags.split(' ').next().unwrap();
        let hides = desk.words(flags).len() > 1;
        for withhold in [false, true].into_iter().take(1 + usize::from(hides)) {
            desk.forge_crawl(flags, withhold);
            desk.refuses("run --resume crawl", flag);
            desk.forge_plan(|plan| desk.forge(&mut plan.command, flags, withhold));
            desk.refuses("run --plan forged.json --node 0/2 --into new", flag);
        }
        desk.forge_plan(|plan| plan.saving = desk.words(flags));
        desk.refuses("run --plan forged.json --node 0/2 --into new", flag);
    }
    for saving in ["--save ../forged", "--save /tmp/forged", "--save .."] {
        desk.forge_plan(|plan| plan.saving = desk.words(saving));
        desk.refuses("run --plan forged.json --node 0/2 --into new", "--save");
    }
    // A value in the place of a flag.
    for words in [
        "-- --out=DIR/forged",
        "-- '--target-probe=touch DIR/forged'",
    ] {
        desk.forge_plan(|plan| {
            plan.command.arguments.truncate(2);
            plan.command.arguments.extend(desk.words(words));
        });
        desk.refuses("run --plan forged.json --node 0/2 --into new", "--");
    }
    let said = call_line(desk.place.path(), "run --resume crawl").stderr;
    assert!(!said.contains("touch"), "a command is proposed: {said}");
}

#[test]
fn what_is_sent_goes_to_a_target_that_was_typed_with_it() {
    let desk = Desk::new();
    for (target, sent) in [
        ("http://127.0.0.1:PORT/{id}", "-H x:y"),
        ("http://127.0.0.1:PORT/{id}", "--bearer-env PATH"),
        ("http://127.0.0.1:PORT/{id}", "--body-file list"),
        ("--urls DIR/list", "-a user:word"),
    ] {
        let words = desk.words(target);
        let forge = |command: &mut CommandLine| {
            command.arguments.truncate(2);
            command.arguments.extend(words.clone());
        };
        let named = words.last().unwrap();
        if target.starts_with("http") {
            let crawl = desk.place.path().join("crawl");
            let mut manifest = Manifest::read(&crawl).unwrap();
            forge(&mut manifest.command);
            manifest.write(&crawl).unwrap();
            desk.refuses(&format!("run --resume crawl {sent}"), named);
        }
        desk.forge_plan(|plan| forge(&mut plan.command));
        let part = format!("run --plan forged.json --node 0/2 --into new {sent}");
        desk.refuses(&part, named);
    }
}

#[test]
fn the_command_that_plan_prints_crawls_a_part() {
    let target = Target::start("--processes 1 --latency 1ms");
    let place = tempfile::tempdir().unwrap();
    let list = format!("{}\n", target.url());
    fs::create_dir(place.path().join("my lists")).unwrap();
    fs::write(place.path().join("my lists/urls"), list).unwrap();
    let again = format!(
        "--urls 'my lists/urls' --connect-to {0}:{0}",
        target.address()
    );
    for (i, (flags, again)) in [
        (again.clone(), again),
        (
            format!("{} -H x-key:hush --save items --mode 640", target.url()),
            format!("--header 'x-key: ...' '{}' --mode 640", target.url()),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let planned = format!("plan {flags} -n 20 --nodes 2 --out plan-{i}");
        let planned = call_line(place.path(), &planned).code(&[0]);
        let line = planned
            .stderr
            .lines()
            .find_map(|line| line.split_once("Run each with: crawlmark "));
        let (_, line) = line.unwrap();
        assert!(line.ends_with(&again), "{line}");
        let into = format!("crawl-{i}");
        let part = |node: &str| {
            let line = line.replace("i/2", node).replace("DIR", &into);
            line.replace("...", "hush")
        };
        call_line(place.path(), &format!("{} -s 1", part("0/2"))).code(&[0]);
        let merge = format!("merge {into} --out merged-{i}");
        let missing = call_line(place.path(), &merge);
        assert!(missing.stderr.contains(&again), "{}", missing.stderr);
        call_line(place.path(), &format!("{} -s 1", part("1/2"))).code(&[0]);
        call_line(place.path(), &merge).code(&[0]);
    }
    assert_eq!(target.requests(), 40);
}
