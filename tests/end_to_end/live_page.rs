//! The page of a run while it goes on: each second arrives, its report in the end, and nobody reads
//! it but who knows its address.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;

use serde_json::Value;

use crate::command::{self, Started};
use crate::process::{DEADLINE, children, wait_for, working_in};
use crate::run::start;

/// What a run serves at an address.
pub(crate) struct Page {
    pub(crate) host: String,
    pub(crate) root: String,
}

impl Page {
    /// The page of a run.
    fn of(run: &Started) -> Self {
        let page = Self::told(run, "Live: http://");
        assert!(page.host.starts_with("127.0.0.1:"), "{}", page.host);
        assert_eq!(page.root.len(), 26, "{}", page.root);
        page
    }

    /// What the rest of a line of a run names, once it has said it.
    pub(crate) fn told(run: &Started, line: &str) -> Self {
        let url = wait_for(line, || {
            let said = run.stderr();
            assert!(!working_in(&run.work()).is_empty(), "{said}");
            let mut lines = said
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'));
            lines.find_map(|said| Some(said.strip_prefix(line)?.trim_end().to_owned()))
        });
        let (host, root) = url.split_at(url.find('/').unwrap());
        Self {
            host: host.to_owned(),
            root: root.to_owned(),
        }
    }

    fn send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        // It may have been refused by then.
        let _ = stream.write_all(bytes);
        stream
    }

    /// The answer to a request with this first line and these further lines; empty if there is none.
    pub(crate) fn answer(&self, first: &str, host: &str, more: &str) -> String {
        self.answer_in(first, "HTTP/1.1", host, more)
    }

    /// The same in a version of HTTP.
    pub(crate) fn answer_in(&self, first: &str, version: &str, host: &str, more: &str) -> String {
        let head = format!("{first} {version}\r\nhost: {host}\r\n{more}\r\n");
        let mut answer = Vec::new();
        if let Ok(mut stream) = TcpStream::connect(&self.host) {
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            // It may have been refused by then.
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.read_to_end(&mut answer);
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(&self, name: &str) -> String {
        self.answer(&format!("GET {}{name}", self.root), &self.host, "")
    }

    /// A reader of its events.
    fn reader(&self) -> TcpStream {
        let head = format!(
            "GET {}events HTTP/1.1\r\nhost: {}\r\n\r\n",
            self.root, self.host
        );
        self.send(head.as_bytes())
    }
}

pub(crate) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

/// A reader of the events, who has what the page has.
pub(crate) struct Reader {
    lines: Lines<BufReader<TcpStream>>,
    /// Data of the charts, as it was told.
    data: Value,
    /// Number of the last event, of how many seconds it is, and the bytes of all of them.
    id: String,
    bytes: usize,
    /// Events of each kind.
    told: BTreeMap<String, usize>,
    found: Value,
    /// What the page says at the top.
    pub(crate) hero: String,
}

impl Reader {
    pub(crate) fn of(page: &Page, id: &str) -> Self {
        let head = format!(
            "GET {}events HTTP/1.1\r\nhost: {}\r\nlast-event-id: {id}\r\n\r\n",
            page.root, page.host
        );
        Self {
            lines: BufReader::new(page.send(head.as_bytes())).lines(),
            data: Value::Null,
            id: String::new(),
            bytes: 0,
            told: BTreeMap::new(),
            found: Value::Null,
            hero: String::new(),
        }
    }

    /// Seconds that it was told of.
    fn seconds(&self) -> usize {
        let seconds = self.id.split('-').nth(1);
        seconds.map_or(0, |seconds| seconds.parse().unwrap())
    }

    /// The next event; none at the end.
    pub(crate) fn next(&mut self) -> Option<String> {
        let mut name = String::new();
        loop {
            let line = self.lines.next()?.ok()?;
            self.bytes += line.len() + 1;
            if let Some(value) = line.strip_prefix("event: ") {
                value.clone_into(&mut name);
            } else if let Some(id) = line.strip_prefix("id: ") {
                id.clone_into(&mut self.id);
            } else if let Some(data) = line.strip_prefix("data: ") {
                self.take(&name, serde_json::from_str(data).unwrap());
                *self.told.entry(name.clone()).or_default() += 1;
                return Some(name);
            }
        }
    }

    /// Do what the script of the page does.
    fn take(&mut self, name: &str, mut event: Value) {
        if let Some(hero) = event.get("hero").or(event.get("main")) {
            hero.as_str().unwrap().clone_into(&mut self.hero);
        }
        match name {
            "hello" => self.data = event["data"].take(),
            "second" => self.add(&event),
            "finding" => self.found = event,
            _ => {}
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "numbers of steps"
    )]
    fn add(&mut self, event: &Value) {
        let number = |value: &Value| value.as_f64().unwrap();
        let (from, at) = (number(&event["from"]), number(&event["at"]));
        let dropped = from - number(&self.data["from"]);
        let tails = event["panels"].as_array().unwrap();
        for (panel, tails) in self.data["panels"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .zip(tails)
        {
            let heat = panel.get("heat").map(|_| ("/heat".to_owned(), "columns"));
            let series = 0..panel["series"].as_array().unwrap().len();
            let series = series.map(|n| (format!("/series/{n}"), "values"));
            for ((place, key), tail) in heat
                .into_iter()
                .chain(series)
                .zip(tails.as_array().unwrap())
            {
                let line = panel.pointer_mut(&place).unwrap();
                let step = number(&line["step"]);
                let values = line[key].as_array_mut().unwrap();
                values.drain(..(dropped / step).round() as usize);
                values.truncate(((at - from) / step + 1e-6) as usize);
                values.extend(tail.as_array().unwrap().iter().cloned());
            }
        }
        (self.data["from"], self.data["to"]) = (event["from"].clone(), event["to"].clone());
    }
}

#[test]
fn each_second_is_told_in_a_few_bytes_to_whoever_lacks_it_and_the_report_in_the_end() {
    let run = start(
        "--target-latency 5ms --target-stall 2s,600ms --rate 200 --arrivals constant -d 8s --page",
    );
    let page = Page::of(&run);
    let shown = page.get("");
    assert_eq!(status(&shown), "200");
    assert!(shown.contains("connect-src 'self'") && shown.contains("data-seen"));
    // One of ten never reads, which costs the others nothing.
    let silent = page.reader();
    let mut readers: Vec<Reader> = (0..8).map(|_| Reader::of(&page, "")).collect();
    let mut first = Reader::of(&page, "");
    // One goes away, and comes again with what it had.
    let mut lost = readers.pop().unwrap();
    while lost.seconds() < 2 {
        lost.next();
    }
    while first.seconds() < 5 {
        first.next();
    }
    let mut again = Reader::of(&page, &lost.id);
    again.data = lost.data.take();
    assert_ne!(again.next().unwrap(), "end");
    let mut late = Reader::of(&page, "");
    assert_eq!(late.next().unwrap(), "hello");
    for other in [&mut late, &mut again] {
        while other.seconds() < first.seconds() {
            other.next();
        }
        while first.seconds() < other.seconds() {
            first.next();
        }
        let without = |data: &Value| {
            let mut data = data.clone();
            data.as_object_mut().unwrap().remove("events");
            data
        };
        assert_eq!(without(&first.data), without(&other.data), "{}", first.id);
    }
    let from = first.seconds();
    readers.push(first);
    let mut told = Vec::new();
    for reader in &mut readers {
        let (mut seconds, mut since) = (reader.seconds(), Vec::new());
        while reader.next().is_some_and(|name| name != "end") {
            seconds = reader.seconds();
            if seconds > from {
                since.push(reader.id.clone());
            }
        }
        since.dedup();
        told.push(since);
        assert!(seconds >= 8, "{seconds}");
        assert!(reader.told["hello"] <= 6, "{:?}", reader.told);
        let other = reader.told.values().sum::<usize>() - reader.told["hello"];
        assert!(other <= 3 * seconds, "{:?}", reader.told);
    }
    // Each is told as often as the others, however busy the machine is.
    assert!(told.iter().all(|ids| *ids == told[0]), "{told:?}");
    let report = page.get("report");
    assert_eq!(status(&report), "200");
    assert!(report.contains("id=\"reproduce\"") && !report.contains("data-seen"));
    drop(silent);
    let done = run.end();
    let judged = done.report(0);
    assert!(report.contains(done.file("report.html").trim()));
    // What it found is what the report finds.
    let stalls = judged.at("/findings").as_array().unwrap().iter();
    let stalls = stalls.filter(|finding| finding["kind"] == "stalled");
    let stalls = stalls.map(|finding| finding["events"].as_array().unwrap().len());
    let marks = readers[0].found["events"].as_array().unwrap().iter();
    let marks = marks.filter(|mark| mark["label"].as_str().unwrap().starts_with("stall"));
    assert_eq!(
        marks.count(),
        stalls.sum::<usize>(),
        "{}",
        readers[0].found["list"]
    );
}

/// Studies, and what their pages say of two of the rounds of each.
const STUDIES: [(&str, [&str; 2]); 5] = [
    (
        "scale --shards 1,2 --connections-per-shard 2 -d 2s --repeats 1",
        ["1/2: ", "2/2: "],
    ),
    (
        "ab --pairs 2 -- -d 1s -c 2 -s 1 --target-latency 5ms",
        ["pair 1", "pair 2"],
    ),
    (
        "capacity --probe 1s --warmup 300ms --rest 100ms --from 30 --max-rate 60 -- -s 1",
        ["30/s", "60/s"],
    ),
    ("ladder --rungs 4,5 -d 2s", ["rung 4", "rung 5"]),
    ("patterns -c 4 -R 40 -d 1s", ["pattern 2", "pattern 9"]),
];

#[test]
fn each_study_shows_its_rounds_and_becomes_its_page() {
    thread::scope(|scope| {
        for (line, rounds) in STUDIES {
            scope.spawn(move || assert_shows(line, rounds));
        }
    });
}

fn assert_shows(line: &str, rounds: [&'static str; 2]) {
    // Its flags end where those of its rounds begin.
    let (name, flags) = line.split_once(' ').unwrap();
    let study = command::start(&format!("{name} --out out --page {flags}"));
    let page = Page::of(&study);
    let mut reader = Reader::of(&page, "");
    let (mut shown, mut seconds) = (BTreeSet::new(), 0);
    while reader.next().is_some_and(|name| name != "end") {
        shown.extend(rounds.iter().filter(|round| reader.hero.contains(**round)));
        seconds = seconds.max(reader.seconds());
    }
    let report = page.get("report");
    assert_eq!(status(&report), "200", "{line}");
    // Rounds that others on this machine disturb decide nothing.
    let done = study.end().code(&[0, 3, 5]);
    assert!(report.contains(done.file("report.html").trim()), "{line}");
    assert_eq!(shown, BTreeSet::from(rounds), "{line}: {}", reader.hero);
    assert!(seconds > 0, "{line}: a round told no second");
}

/// Bytes of a second of a reader, in the mean.
const BUDGET: usize = 4_000;

#[test]
fn a_reader_costs_four_kilobytes_and_a_few_wakes_a_second() {
    let run = start("--target-latency lognormal:20ms,0.5 --rate 300 -s 2 -d 12s --page");
    let page = Page::of(&run);
    let mut reader = Reader::of(&page, "");
    // All of it is sent once more after 1, 2, 4 and 8 seconds.
    while reader.seconds() < 8 {
        reader.next();
    }
    while reader.told.get("second").copied().unwrap_or(0) == 0 {
        reader.next();
    }
    let process = || {
        let children = children(run.pid());
        let page = children
            .into_iter()
            .find(|(_, name)| name == "crawlmark-page");
        let (pid, _) = page.unwrap();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let mut lines = status.lines();
        let wakes = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        wakes.unwrap().trim().parse::<u64>().unwrap()
    };
    let (bytes, seconds, wakes) = (reader.bytes, reader.seconds(), process());
    while reader.seconds() < seconds + 3 {
        reader.next();
    }
    let per_s = (reader.bytes - bytes) / 3;
    assert!(per_s <= BUDGET, "{per_s} bytes a second");
    let wakes = process() - wakes;
    assert!(wakes <= 3 * 10, "{wakes} wakes in three seconds");
    run.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(run.end().code, Some(143));
}

/// Requests of the fuzzer.
const FUZZ: usize = 300;

/// The next number of a sequence, below 65,536.
fn random(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    let [a, b, ..] = state.to_le_bytes();
    usize::from(u16::from_le_bytes([a, b]))
}

/// Something that may be the beginning of a request, with faults.
fn junk(state: &mut u64, page: &Page) -> Vec<u8> {
    let Page { host, root } = page;
    let parts = [
        format!("GET {root} HTTP/1.1\r\nhost: {host}\r\n"),
        format!("GET {root}events?since=1-9-9-9 HTTP/1.1\r\nhost: {host}\r\n"),
        format!("GET {root}report HTTP/1.1\r\nhost: {host}\r\n"),
        "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "last-event-id: 18446744073709551615-18446744073709551615-0-0\r\n".to_owned(),
        "last-event-id: -1--\r\n".to_owned(),
        "content-length: 99999999999999999999\r\n".to_owned(),
        "connection: upgrade\r\nupgrade: websocket\r\n".to_owned(),
        "expect: 100-continue\r\ncontent-length: 5\r\n".to_owned(),
        "\r\n".to_owned(),
        "\r\nGET ".to_owned(),
        "x: ".to_owned() + &"y".repeat(3_000) + "\r\n",
    ];
    let mut bytes = Vec::new();
    for _ in 0..=random(state) % 5 {
        bytes.extend_from_slice(parts[random(state) % parts.len()].as_bytes());
    }
    for _ in 0..random(state) % 4 {
        let at = random(state) % bytes.len();
        bytes[at] = u8::try_from(random(state) % 256).unwrap();
    }
    let end = bytes.len() - random(state) % bytes.len();
    bytes.truncate(end);
    bytes
}

#[test]
fn no_request_harms_the_process() {
    let run = start("--target-latency 5ms --rate 10 -d 600s --page --metrics 127.0.0.1:0");
    let page = Page::of(&run);
    let metrics = Page::told(&run, "Metrics: http://");
    let requests = std::env::var("CRAWLMARK_FUZZ").map_or(FUZZ, |count| count.parse().unwrap());
    let process = || {
        let children = children(run.pid()).into_iter();
        let pages = children.filter(|(_, name)| name == "crawlmark-page");
        pages.map(|(pid, _)| pid).collect::<Vec<_>>()
    };
    // The address is told before the process has its name.
    let before = wait_for("the page's process", || {
        Some(process()).filter(|pids| !pids.is_empty())
    });
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for n in 0..requests {
        let place = if n % 4 == 0 { &metrics } else { &page };
        let bytes = junk(&mut state, &page);
        let mut stream = place.send(&bytes);
        // Some wait for an answer, at most until their side is closed.
        if random(&mut state).is_multiple_of(3) && stream.shutdown(Shutdown::Write).is_ok() {
            let _ = stream.read(&mut [0; 64]);
        }
    }
    wait_for("an answer after all", || {
        (status(&page.get("")) == "200").then_some(())
    });
    assert_eq!(
        status(&metrics.answer("GET /metrics", &metrics.host, "")),
        "200"
    );
    assert_eq!(process(), before);
    let memory = fs::read_to_string(format!("/proc/{}/statm", before[0])).unwrap();
    let pages: u64 = memory.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(pages < 16_384, "{pages} pages are resident");
    run.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(run.end().code, Some(143));
}

#[test]
fn only_reads_of_its_own_address_are_answered() {
    let run = start("--target-latency 5ms --rate 10 -d 30s --page");
    let page = Page::of(&run);
    let Page { host, root } = &page;
    let get = format!("GET {root}");
    let port = host.rsplit_once(':').unwrap().1;
    let long = format!("x-long: {}\r\n", "x".repeat(5_000));
    let longer = format!("x-long: {}\r\n", "x".repeat(50_000));
    for (first, host, more, expected) in [
        (&*get, &**host, "", "200"),
        (&get, &format!("localhost:{port}"), "", "200"),
        (&get, "localhost", "", "421"),
        (&get, "example.org", "", "421"),
        (&get, &format!("127.0.0.1.example.org:{port}"), "", "421"),
        (&get, host, "host: example.org\r\n", "421"),
        (&get, host, "sec-fetch-site: cross-site\r\n", "403"),
        (&get, host, "sec-fetch-site: none\r\n", "200"),
        (
            &format!("POST {root}"),
            host,
            "content-length: 0\r\n",
            "405",
        ),
        (&format!("HEAD {root}"), host, "", "405"),
        (&format!("DELETE {root}"), host, "", "405"),
        ("GET /", host, "", "404"),
        (&format!("GET {}", root.replace('/', "")), host, "", "404"),
        (&format!("{get}../etc/passwd"), host, "", "404"),
        (&format!("{get}report"), host, "", "404"),
        (&get, host, &long, "431"),
        (&get, host, &longer, "431"),
    ] {
        let answer = page.answer(first, host, more);
        assert_eq!(status(&answer), expected, "{first} {host} {more:.60}");
        assert!(
            !answer.to_lowercase().contains("access-control"),
            "{answer:.400}"
        );
    }
    // Sixteen connections are open at most; a further one is closed.
    let readers: Vec<TcpStream> = (0..16).map(|_| page.reader()).collect();
    wait_for("a refusal", || page.get("").is_empty().then_some(()));
    drop(readers);
    wait_for("room again", || {
        (status(&page.get("")) == "200").then_some(())
    });
    run.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(run.end().code, Some(143));
}
