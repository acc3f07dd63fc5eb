//! Saved flows: a record of each page, and of each response that is to be saved, once; of items that
//! ended, in one go. The target's log is the witness.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::command::call;
use crate::process::{signal, wait_for};
use crate::run::{crawl, ended, start};
use crate::scripted::{Peer, with_server};

/// Items of the crawl that is killed; `CRAWLMARK_FLOW_ITEMS` sets another number.
const ITEMS: u64 = 300;

/// A login, a list with pages, and an item.
const PAGES: &str = r#"{"url": "/login/{id}", "extract": {"token": "json:/token"}, "then": [{"url": "/list/{token}?page=1", "next": "json:/next", "pages": 50}, {"url": "/read/{id}"}]}"#;

/// Pages of an item's list.
const fn pages(id: u64) -> u64 {
    1 + id % 7
}

/// Numbers of the responses to each item.
type Sent = BTreeMap<u64, Vec<u64>>;

/// A target that numbers its responses.
#[derive(Default)]
struct Log {
    /// Number of responses, and those to each item.
    sent: Mutex<(u64, Sent)>,
}

impl Log {
    fn serve(&self, mut peer: Peer) {
        while let Some(path) = peer.request() {
            let (kind, rest) = path[1..].split_once('/').unwrap();
            let (id, page) = rest.split_once("?page=").unwrap_or((rest, "0"));
            let id: u64 = id.trim_start_matches('t').parse().unwrap();
            let page: u64 = page.parse().unwrap();
            let number = {
                let (number, of_items) = &mut *self.sent.lock().unwrap();
                *number += 1;
                of_items.entry(id).or_default().push(*number);
                *number
            };
            let next = (kind == "list" && page < pages(id))
                .then(|| format!("/list/t{id}?page={}", page + 1));
            let body = json!({"number": number, "token": format!("t{id}"), "next": next});
            let body = body.to_string();
            peer.send(&format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    }
}

/// Records of an export, by their items.
fn exported(place: &Path) -> BTreeMap<u64, Vec<Value>> {
    let place = place.to_str().unwrap();
    let said = call(Path::new("."), &["verify", place]);
    assert_eq!(said.code, Some(0), "{}", said.stdout);
    let said = call(Path::new("."), &["export", place]).code(&[0]);
    let mut records = BTreeMap::<u64, Vec<Value>>::new();
    for line in said.stdout.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let id = record["id"].as_u64().unwrap();
        records.entry(id).or_default().push(record);
    }
    records
}

/// Step, page, outcome and path of each record.
fn places(records: &[Value]) -> Vec<(u64, u64, String, String)> {
    let place = |record: &Value| {
        let url = record["url"].as_str().unwrap();
        (
            record["step"].as_u64().unwrap(),
            record["page"].as_u64().unwrap(),
            record["outcome"].as_str().unwrap().to_owned(),
            url[url.rfind(':').unwrap()..]
                .split_once('/')
                .unwrap()
                .1
                .to_owned(),
        )
    };
    records.iter().map(place).collect()
}

#[test]
fn each_page_of_a_crawl_that_was_killed_twice_is_exported_once() {
    let items = std::env::var("CRAWLMARK_FLOW_ITEMS");
    let items: u64 = items.map_or(ITEMS, |items| items.parse().unwrap());
    let (place, log) = (tempfile::tempdir().unwrap(), Log::default());
    let (file, saved) = (place.path().join("flow"), place.path().join("items"));
    fs::write(&file, PAGES).unwrap();
    let rate = items * 6 / 3;
    let requests = format!("--requests-file {} --rate {rate}", file.display());
    with_server(
        |peer| log.serve(peer),
        |address| {
            let begin = format!(
                "http://{address} {requests} --ids 0..{items} -s 2 -c 16 --durability process --save {}",
                saved.display()
            );
            let resume = format!("--resume {} {requests}", saved.display());
            for (session, line) in (1..).zip([&begin, &resume]) {
                let run = start(line);
                let has_records = || {
                    let segments = [0, 1].map(|shard| {
                        let segment = saved.join(format!("000{session}-s0{shard}.jsonl.zst"));
                        fs::metadata(segment).map_or(0, |segment| segment.len())
                    });
                    segments.iter().all(|length| *length > 2_000).then_some(())
                };
                wait_for("records", has_records);
                signal(run.pid(), Signal::SIGKILL);
                let killed = run.end();
                assert_eq!(killed.code, None);
                killed.wait_for_its_processes();
            }
            let resumed = ended(&resume).report(0);
            resumed.holds(&json!({"/saved/saved": items}));
        },
    );
    let (sent, records) = (&log.sent.lock().unwrap().1, exported(&saved));
    assert!(records.keys().copied().eq(0..items), "{}", records.len());
    for (id, records) in &records {
        let list = (1..=pages(*id)).map(|page| {
            (
                2,
                page,
                "stepped".to_owned(),
                format!("list/t{id}?page={page}"),
            )
        });
        let read = (3, 1, "ok".to_owned(), format!("read/{id}"));
        assert!(
            places(records).into_iter().eq(list.chain([read])),
            "{records:?}"
        );
        // They are of one crawl of the item: the target sent them one after another.
        let numbers: Vec<u64> = records
            .iter()
            .map(|record| record["body"]["number"].as_u64().unwrap())
            .collect();
        let all = &sent[id];
        assert!(
            all.windows(numbers.len()).any(|some| some == numbers),
            "{numbers:?} {all:?}"
        );
    }
    let (whole, all): (u64, usize) = (
        (0..items).map(|id| pages(id) + 2).sum(),
        sent.values().map(Vec::len).sum(),
    );
    let again = all as u64 - whole;
    println!("{items} items, {whole} requests and {again} again after two kills");
    assert!(again > 0, "no item was under way");
}

#[test]
fn a_response_is_saved_if_it_is_the_last_a_page_or_to_be_saved() {
    let log = Log::default();
    with_server(
        |peer| log.serve(peer),
        |address| {
            let then = |login: &str, list: &str| {
                PAGES
                    .replacen('{', &format!("{{{login}"), 1)
                    .replace("\"pages\": 50", &format!("\"pages\": 50{list}"))
            };
            let list = |outcome: &'static str| vec![(2, 1, outcome), (2, 2, outcome)];
            for (line, expected) in [
                (then("", ""), [list("stepped"), vec![(3, 1, "ok")]].concat()),
                (
                    then("\"save\": true, ", ""),
                    [vec![(1, 1, "stepped")], list("stepped"), vec![(3, 1, "ok")]].concat(),
                ),
                (then("", ", \"save\": false"), vec![(3, 1, "ok")]),
                (
                    r#"{"url": "/list/t{id}?page=1", "next": "json:/next", "pages": 9}"#.to_owned(),
                    vec![(1, 1, "stepped"), (1, 2, "ok")],
                ),
                (
                    r#"{"url": "/list/t{id}?page=1", "next": "json:/next", "pages": 9, "save": false}"#.to_owned(),
                    vec![(1, 2, "ok")],
                ),
            ] {
                let place = tempfile::tempdir().unwrap();
                let (file, saved) = (place.path().join("flow"), place.path().join("items"));
                fs::write(&file, &line).unwrap();
                let files = format!("--requests-file {} --save {}", file.display(), saved.display());
                crawl(&format!("http://{address} {files} --ids 1..2 -s 1 -c 1 --save-fields url,body"));
                let places = places(&exported(&saved)[&1]);
                let found: Vec<_> = places.iter().map(|(step, page, outcome, _)| (*step, *page, &**outcome)).collect();
                assert_eq!(found, expected, "{line}");
            }
        },
    );
}

/// Items of a drawn flow.
const DRAWN_ITEMS: u64 = 40;

/// A request of a drawn flow.
struct DrawnStep {
    /// Most pages; none of a request without `next`.
    pages: Option<u64>,
    save: Option<bool>,
}

/// A flow, and the truth about its target, from a seed.
struct Drawn {
    seed: u64,
    steps: Vec<DrawnStep>,
    /// The first request is sent once; false if it is refused.
    login: Option<bool>,
    /// Requests by their paths.
    log: Mutex<BTreeMap<String, u64>>,
}

/// End of a response of a drawn target.
#[derive(PartialEq)]
enum Drew {
    Good,
    /// 500 at first.
    Again,
    Refused,
    Missing,
}

fn draw(seed: u64, of: &[u64]) -> u64 {
    of.iter().chain([&0]).fold(seed, |drawn, part| {
        let drawn = (drawn ^ part)
            .wrapping_add(1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        drawn ^ (drawn >> 29)
    })
}

impl Drawn {
    fn new(seed: u64) -> Self {
        let login = [None, Some(true), Some(true), Some(false)][(draw(seed, &[1]) % 4) as usize];
        let steps = 2 + draw(seed, &[2]) % 3;
        let steps = (0..steps).map(|step| {
            let of_login = step == 0 && login.is_some();
            let pages = Some(1 + draw(seed, &[3, step]) % 4);
            let save = [None, Some(true), Some(false)][(draw(seed, &[4, step]) % 3) as usize];
            DrawnStep {
                pages: pages.filter(|_| !draw(seed, &[5, step]).is_multiple_of(3) && !of_login),
                save: save.filter(|_| !of_login),
            }
        });
        Self {
            seed,
            steps: steps.collect(),
            login,
            log: Mutex::default(),
        }
    }

    /// Line of the request file.
    fn line(&self) -> String {
        let steps = self.steps.iter().zip(1..).map(|(step, number)| {
            let mut request = json!({"url": format!("/s{number}/{{id}}?page=1")});
            if number > 1 {
                request["header"] = json!({"x-t": "{t}"});
            }
            if let Some(pages) = step.pages {
                (request["next"], request["pages"]) = (json!("json:/next"), json!(pages));
            }
            if let Some(save) = step.save {
                request["save"] = json!(save);
            }
            request
        });
        let mut steps: Vec<Value> = steps.collect();
        let mut line = steps.remove(0);
        line["extract"] = json!({"t": "json:/t"});
        if self.login.is_some() {
            line["once"] = json!("shard");
        }
        line["then"] = json!(steps);
        line.to_string()
    }

    /// Request `step`, counted from 1.
    fn step(&self, step: u64) -> &DrawnStep {
        &self.steps[usize::try_from(step).unwrap() - 1]
    }

    fn pages(&self, id: u64, step: u64) -> u64 {
        self.step(step)
            .pages
            .map_or(1, |pages| 1 + draw(self.seed, &[6, id, step]) % pages)
    }

    fn drew(&self, id: u64, step: u64, page: u64) -> Drew {
        match (self.login, step) {
            (Some(true), 1) => return Drew::Good,
            (Some(false), 1) => return Drew::Refused,
            _ => {}
        }
        match draw(self.seed, &[7, id, step, page]) % 40 {
            0 => Drew::Refused,
            1 => Drew::Missing,
            2..6 => Drew::Again,
            _ => Drew::Good,
        }
    }

    fn serve(&self, mut peer: Peer) {
        while let Some(request) = peer.request_with_body() {
            let path = request.split(' ').nth(1).unwrap().to_owned();
            let numbers: Vec<u64> = path
                .split(|c: char| !c.is_ascii_digit())
                .filter_map(|part| part.parse().ok())
                .collect();
            let [step, id, page] = numbers[..] else {
                panic!("{path}")
            };
            assert!(step == 1 || request.contains("\r\nx-t: v\r\n"), "{request}");
            let turn = {
                let mut log = self.log.lock().unwrap();
                let count = log.entry(path).or_default();
                *count += 1;
                *count
            };
            let status = match self.drew(id, step, page) {
                Drew::Again if turn == 1 => 500,
                Drew::Good | Drew::Again => 200,
                Drew::Refused => 403,
                Drew::Missing => 404,
            };
            let next =
                (page < self.pages(id, step)).then(|| format!("/s{step}/{id}?page={}", page + 1));
            let body = json!({"t": "v", "next": next}).to_string();
            peer.send(&format!(
                "HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    }

    /// Requests for an item, and its records: step, page and outcome.
    fn truth(&self, id: u64) -> (u64, Vec<(u64, u64, String)>) {
        let (mut requests, mut records) = (0, Vec::new());
        let last = (
            self.steps.len() as u64,
            self.pages(id, self.steps.len() as u64),
        );
        let first = if self.login == Some(true) { 2 } else { 1 };
        for step in first..=last.0 {
            for page in 1..=self.pages(id, step) {
                requests += 1;
                let drew = self.drew(id, step, page);
                requests += u64::from(drew == Drew::Again);
                let outcome = match drew {
                    Drew::Refused => "rejected",
                    Drew::Missing => "not_found",
                    Drew::Good | Drew::Again if (step, page) == last => "ok",
                    Drew::Good | Drew::Again => "stepped",
                };
                let DrawnStep { pages, save } = self.step(step);
                if outcome != "stepped" || save.unwrap_or(pages.is_some()) {
                    records.push((step, page, outcome.to_owned()));
                }
                if !["ok", "stepped"].contains(&outcome) {
                    return (requests, records);
                }
            }
        }
        (requests, records)
    }
}

#[test]
fn a_drawn_flow_is_saved_as_its_target_knows_it() {
    let mut logins = [0; 3];
    for seed in 0..10 {
        let (place, drawn) = (tempfile::tempdir().unwrap(), Drawn::new(seed));
        let (file, saved) = (place.path().join("flow"), place.path().join("items"));
        fs::write(&file, drawn.line()).unwrap();
        let (file, to) = (file.display(), saved.display());
        let report = with_server(
            |peer| drawn.serve(peer),
            |address| {
                let flags = format!(
                    "--ids 0..{DRAWN_ITEMS} -s 1 -c 4 --retry-budget 100% --backoff 1ms,2ms --requests-file {file} --save {to}"
                );
                let code = if drawn.login == Some(false) { 4 } else { 0 };
                ended(&format!("http://{address} {flags}")).report(code)
            },
        );
        let sent: u64 = drawn.log.lock().unwrap().values().sum();
        assert_eq!(report.count("/totals/attempts_sent"), sent, "{seed}");
        let records = exported(&saved);
        let found = records.iter().map(|(id, records)| {
            let of_records = places(records)
                .into_iter()
                .map(|(step, page, outcome, _)| (step, page, outcome));
            (*id, of_records.collect::<Vec<_>>())
        });
        logins[drawn.login.map_or(0, |is_good| 1 + usize::from(!is_good))] += 1;
        if drawn.login == Some(false) {
            assert_eq!((sent, records.len()), (1, 0), "{seed}");
            assert!(report.has_finding("shared_failed"));
            continue;
        }
        let truth: Vec<_> = (0..DRAWN_ITEMS).map(|id| drawn.truth(id)).collect();
        let requests: u64 = truth.iter().map(|(requests, _)| requests).sum();
        assert_eq!(
            sent,
            requests + u64::from(drawn.login.is_some()),
            "{seed}: {}",
            drawn.line()
        );
        let expected = (0..).zip(truth.into_iter().map(|(_, records)| records));
        assert!(found.eq(expected), "{seed}: {}", drawn.line());
    }
    assert!(logins.iter().all(|count| *count > 0), "{logins:?}");
}

/// Path, step, element, page and status of a record.
type ListedRecord = (String, u64, Value, u64, u64);

/// A target of lists of elements, whose tokens live for so many requests.
struct Listed {
    seed: u64,
    life: u64,
    /// The last token, how often it was used, and the good responses by their paths.
    log: Mutex<(u64, u64, BTreeMap<String, u64>)>,
}

/// A login that expires, pages of a list, and for each of its elements one request and pages.
const LISTED: &str = r#"{"url": "/login/0/0/1", "once": "shard", "extract": {"token": "json:/token"}, "then": [
    {"url": "/list/{id}/0/1", "header": {"x-t": "{token}"}, "extract": {"e": "json:/elements/*"}, "next": "json:/next", "pages": 9},
    {"url": "/read/{id}/{e}/1", "header": {"x-t": "{token}"}},
    {"url": "/more/{id}/{e}/1", "header": {"x-t": "{token}"}, "next": "json:/next", "pages": 9}]}"#;

impl Listed {
    /// Elements of an item's list, in pages of two.
    fn elements(&self, id: u64) -> Vec<u64> {
        (1..=draw(self.seed, &[1, id]) % 6).collect()
    }

    /// Pages of the list, or of an element.
    fn pages(&self, id: u64, element: u64) -> u64 {
        if element == 0 {
            return self.elements(id).len().div_ceil(2).max(1) as u64;
        }
        1 + draw(self.seed, &[2, id, element]) % 3
    }

    /// True if the target does not have a page of a request for an element.
    fn lacks(&self, kind: &str, id: u64, element: u64, page: u64) -> bool {
        let kind = u64::from(kind == "more");
        element > 0 && draw(self.seed, &[3, kind, id, element, page]).is_multiple_of(5)
    }

    fn serve(&self, mut peer: Peer) {
        while let Some(request) = peer.request_with_body() {
            let path = request.split(' ').nth(1).unwrap().to_owned();
            let parts: Vec<_> = path[1..].split('/').collect();
            let numbers = [1, 2, 3].map(|at: usize| parts[at].parse::<u64>().unwrap());
            let (kind, [id, element, page]) = (parts[0], numbers);
            let (token, uses, good) = &mut *self.log.lock().unwrap();
            let status = if kind == "login" {
                (*token, *uses) = (*token + 1, 0);
                200
            } else if *uses >= self.life
                || !request.contains(&format!("\r\nx-t: token-{token}\r\n"))
            {
                401
            } else {
                *uses += 1;
                *good.entry(path.clone()).or_default() += 1;
                if self.lacks(kind, id, element, page) {
                    404
                } else {
                    200
                }
            };
            let elements = self.elements(id);
            let elements = elements
                .chunks(2)
                .nth(usize::try_from(page).unwrap() - 1)
                .unwrap_or_default();
            let next = (page < self.pages(id, element))
                .then(|| format!("/{kind}/{id}/{element}/{}", page + 1));
            let body =
                json!({"token": format!("token-{token}"), "elements": elements, "next": next})
                    .to_string();
            peer.send(&format!(
                "HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    }

    /// State of an item, and its records: path, step, element, page and status.
    fn truth(&self, id: u64) -> (&'static str, Vec<ListedRecord>) {
        let mut records = Vec::new();
        let pages = (1..=self.pages(id, 0))
            .map(|page| (format!("list/{id}/0/{page}"), 2, Value::Null, page, 200));
        records.extend(pages);
        let mut found = 0;
        for element in self.elements(id) {
            let steps = [("read", 3, 1), ("more", 4, self.pages(id, element))];
            let requests = steps
                .into_iter()
                .flat_map(|(kind, step, pages)| (1..=pages).map(move |page| (kind, step, page)));
            for (kind, step, page) in requests {
                let lacks = self.lacks(kind, id, element, page);
                let status = if lacks { 404 } else { 200 };
                records.push((
                    format!("{kind}/{id}/{element}/{page}"),
                    step,
                    json!(element),
                    page,
                    status,
                ));
                if lacks {
                    break;
                }
                found += 1;
            }
        }
        let state = if found == 0 && !self.elements(id).is_empty() {
            "not_found"
        } else {
            "ok"
        };
        (state, records)
    }
}

#[test]
fn each_element_is_requested_and_saved_once_whatever_expires_and_is_missing() {
    let mut renewed = 0;
    for seed in 0..6 {
        let listed = Listed {
            seed,
            life: 40 + 5 * seed,
            log: Mutex::default(),
        };
        let (place, items) = (tempfile::tempdir().unwrap(), 30);
        let (file, saved) = (place.path().join("flow"), place.path().join("items"));
        fs::write(&file, LISTED.replace('\n', " ")).unwrap();
        let (file, to) = (file.display(), saved.display());
        let report = with_server(
            |peer| listed.serve(peer),
            |address| {
                crawl(&format!(
                    "http://{address} --ids 0..{items} -s 1 -c 3 --requests-file {file} --save {to}"
                ))
            },
        );
        let records = exported(&saved);
        let truth: Vec<_> = (0..items).map(|id| listed.truth(id)).collect();
        for (id, (state, expected)) in (0..).zip(&truth) {
            let found = records[&id].iter().zip(places(&records[&id])).map(
                |(record, (step, page, _, path))| {
                    (
                        path,
                        step,
                        record["element"].clone(),
                        page,
                        record["status"].as_u64().unwrap(),
                    )
                },
            );
            let found: Vec<_> = found.collect();
            assert_eq!(&found, expected, "{seed} {id}");
            let outcomes: Vec<_> = records[&id]
                .iter()
                .map(|record| record["outcome"].as_str().unwrap())
                .collect();
            let (last, others) = outcomes.split_last().unwrap();
            assert!(
                *last == *state && others.iter().all(|outcome| *outcome == "stepped"),
                "{seed} {id} {outcomes:?}"
            );
        }
        let states = ["ok", "not_found"].map(|state| {
            (
                state,
                truth.iter().filter(|(of, _)| *of == state).count() as u64,
            )
        });
        report.assert_states(&states);
        // Each request was answered once, whatever was refused in between.
        let (logins, _, good) = listed.log.into_inner().unwrap();
        let requests = truth
            .iter()
            .map(|(_, records)| records.len())
            .sum::<usize>();
        assert!(
            good.values().all(|count| *count == 1) && good.len() == requests,
            "{seed}"
        );
        let refused = report.count("/totals/rejected_by_status/401");
        assert_eq!(
            report.count("/totals/attempts_sent"),
            requests as u64 + refused + logins
        );
        renewed += logins - 1;
    }
    assert!(renewed > 20, "{renewed}");
}

#[test]
fn a_url_of_a_record_has_no_value_that_was_taken_under_the_name_of_a_secret() {
    const FLOW: &str = r#"{"url": "/login/{id}", "extract": {"token": "json:/v", "place": "json:/p"}, "then": [{"url": "/list/{token}/{place}", "next": "json:/next", "pages": 9}]}"#;
    let serve = |mut peer: Peer| {
        while let Some(path) = peer.request() {
            let next = (!path.ends_with("?2")).then(|| format!("{path}?2"));
            let body = json!({"v": "hush/+hush", "p": "a place", "next": next}).to_string();
            peer.send(&format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    };
    let place = tempfile::tempdir().unwrap();
    let (file, saved) = (place.path().join("flow"), place.path().join("items"));
    fs::write(&file, FLOW).unwrap();
    let (file, to) = (file.display(), saved.display());
    with_server(serve, |address| {
        crawl(&format!(
            "http://{address} --ids 0..2 -s 1 --requests-file {file} --save {to}"
        ))
    });
    for records in exported(&saved).values() {
        let paths = places(records).into_iter().map(|(.., path)| path);
        assert!(
            paths.eq(["list/.../a%20place", "list/.../a%20place?2"]),
            "{records:?}"
        );
    }
}
