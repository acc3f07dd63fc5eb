//! Page of a run that goes on: that of its report, as far as it is known.
//!
//! A reader gets the whole page once, and then each second what changed: figures, and the ends of
//! the lines. Everything is made by the code that makes the page of a report. What a reader has is
//! one value, [`Seen`], so that one who missed some seconds gets just these. Steps, and with them
//! the whole of a line, change when there are twice as many seconds as at the last change, or when
//! something is drawn for the first time: then it gets all of it again.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::Serialize;

use super::super::chart::Plot;
use super::super::doc::Doc;
use super::columns::{Choice, Columns};
use super::document::Layout;
use super::events::{Events, Mark};
use super::hero::Hero;
use super::markup::{self, Html};
use super::panels::{self, Panel, Tail};
use super::{Data, meta, write_over_time};
use crate::judge::SoFar;
use crate::run::report::Report;

/// Makes the document of a report, with the names of its pictures.
pub type DocOf = fn(&Report, &[Plot]) -> Doc;

/// What a reader of the page has: as many seconds of the run with this number, in a form, with
/// findings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    run: u64,
    seconds: usize,
    form: u64,
    findings: u64,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, seconds, .. } = self;
        write!(f, "{run}-{seconds}-{}-{}", self.form, self.findings)
    }
}

impl FromStr for Seen {
    type Err = ();

    /// What a reader says that it has; anything else is a reader that has nothing.
    fn from_str(text: &str) -> Result<Self, ()> {
        let numbers: Vec<u64> = text
            .split('-')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map_err(drop)?;
        let [run, seconds, form, findings] = numbers[..] else {
            return Err(());
        };
        Ok(Self {
            run,
            seconds: usize::try_from(seconds).map_err(drop)?,
            form,
            findings,
        })
    }
}

/// The whole of what is shown.
#[derive(Serialize)]
struct Hello<'a> {
    main: &'a str,
    data: Data<'a>,
}

/// What changed since some seconds.
#[derive(Serialize)]
struct Second<'a> {
    /// Verdict and figures, as HTML.
    hero: &'a str,
    from: f64,
    to: f64,
    /// Time from which on the ends of the lines are.
    at: f64,
    panels: Vec<Vec<Tail<'a>>>,
    /// Value of each series over the run so far, by panel.
    totals: Vec<Vec<&'a str>>,
}

/// What was found so far.
#[derive(Serialize)]
struct Found<'a> {
    list: &'a str,
    marks: &'a str,
    events: &'a [Mark],
}

/// What a page shows.
#[derive(Debug)]
enum Subject {
    Run(Box<SoFar>),
    /// A document, by its title, and what stands on its page.
    Document(String, String),
}

/// Page of a run that goes on, or of one after the other.
#[derive(Debug)]
pub struct Live {
    doc_of: DocOf,
    subject: Subject,
    /// Place of the run among others; empty of a single one.
    step: String,
    chosen: Option<Choice>,
    /// Seconds at which the next choice is due.
    choice_at: usize,
    now: Seen,
    form: String,
    found: String,
    last: Option<Last>,
}

/// Events as they were made last: what the reader had, of which run, after how many seconds.
#[derive(Debug)]
struct Last {
    key: (Option<Seen>, u64, usize),
    events: String,
}

/// A page as it is now.
enum View<'a> {
    /// The run, what is drawn of it, and what was found, as JSON.
    Run(&'a SoFar, Box<Shown<'a>>, &'a str),
    /// A document, by its title, and what stands on its page.
    Document(&'a str, &'a str),
}

/// What is drawn of a run.
struct Shown<'a> {
    report: &'a Report,
    columns: Columns<'a>,
    events: Events,
    panels: Vec<Panel>,
    hero: Hero,
}

impl<'a> Shown<'a> {
    fn of(run: &'a SoFar, chosen: Option<Choice>, step: &str) -> Self {
        let report = run.known();
        let columns = Columns::so_far(report, run.shown_s(), chosen);
        Self {
            report,
            events: Events::of(report, &columns),
            panels: panels::of(report, &columns),
            hero: Hero::live(report, step),
            columns,
        }
    }

    fn data(&self) -> Data<'_> {
        Data {
            from: self.columns.from_s,
            to: self.columns.end_s,
            events: &self.events.marks,
            panels: &self.panels,
            percentiles: None,
        }
    }

    fn write(&self, html: &mut Html) {
        self.hero.write(html);
        write_over_time(html, &self.events, &self.panels, &self.columns);
        self.events.write(html, self.report, false);
        html.with("p", &[("class", "hint")], |html| {
            html.text("Drawing takes CPU time: a browser on this machine takes it from the run.");
        });
    }

    fn hello(&self) -> String {
        let main = markup::fragment(|html| self.write(html));
        json(&Hello {
            main: &main,
            data: self.data(),
        })
    }

    /// What changed from a second on.
    fn second(&self, from_s: u64) -> String {
        let Columns {
            from_s: begin_s,
            end_s,
            ..
        } = self.columns;
        let at = (from_s as f64).max(begin_s);
        let panels = self.panels.iter();
        json(&Second {
            hero: &markup::fragment(|html| self.hero.write(html)),
            from: begin_s,
            to: end_s,
            at,
            panels: panels
                .clone()
                .map(|panel| panel.tails(at - begin_s))
                .collect(),
            totals: panels.map(Panel::totals).collect(),
        })
    }

    fn found(&self) -> String {
        json(&Found {
            list: &markup::fragment(|html| self.events.write(html, self.report, false)),
            marks: &markup::fragment(|html| self.events.write_marks(html)),
            events: &self.events.marks,
        })
    }

    fn form(&self) -> String {
        let forms: Vec<String> = self.panels.iter().map(Panel::form).collect();
        forms.join(";")
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Add a server-sent event.
fn write_event(out: &mut String, name: &str, id: Seen, data: &str) {
    let _ = write!(out, "event: {name}\nid: {id}\ndata: {data}\n\n");
}

impl Live {
    /// Page before anything begins.
    pub fn new(doc_of: DocOf) -> Self {
        Self {
            doc_of,
            subject: Subject::Document(String::new(), String::new()),
            step: String::new(),
            chosen: None,
            choice_at: 1,
            now: Seen::default(),
            form: String::new(),
            found: String::new(),
            last: None,
        }
    }

    /// Go on with another run.
    pub fn begin(&mut self, run: SoFar) {
        self.subject_is(Subject::Run(Box::new(run)));
    }

    /// Show a document.
    pub fn show(&mut self, title: String, main: String) {
        self.subject_is(Subject::Document(title, main));
    }

    fn subject_is(&mut self, subject: Subject) {
        let now = Seen {
            run: self.now.run + 1,
            ..Seen::default()
        };
        let step = std::mem::take(&mut self.step);
        *self = Self {
            subject,
            step,
            now,
            ..Self::new(self.doc_of)
        };
    }

    /// Say which of several runs is next.
    pub fn set_step(&mut self, step: String) {
        self.step = step;
    }

    /// The run, if it is one.
    pub fn run(&mut self) -> Option<&mut SoFar> {
        match &mut self.subject {
            Subject::Run(run) => Some(run),
            Subject::Document(..) => None,
        }
    }

    /// Bring everything to where the run is.
    fn look(&mut self) -> (Seen, View<'_>) {
        let Self {
            subject,
            step,
            chosen,
            choice_at,
            now,
            form,
            found,
            ..
        } = self;
        let run = match subject {
            Subject::Run(run) => run,
            Subject::Document(title, main) => return (*now, View::Document(title, main)),
        };
        run.judge();
        let seconds = run.told();
        if seconds >= *choice_at {
            let columns = Columns::so_far(run.known(), run.shown_s(), None);
            *chosen = Some(columns.choice(run.known()));
            *choice_at = seconds * 2;
        }
        let shown = Box::new(Shown::of(run, *chosen, step));
        let (form_now, found_now) = (shown.form(), shown.found());
        now.seconds = seconds;
        now.form += u64::from(form_now != *form);
        now.findings += u64::from(found_now != *found);
        (*form, *found) = (form_now, found_now);
        (*now, View::Run(run, shown, found))
    }

    /// Return the page. That of a document is empty: it comes with the first event.
    pub fn page(&mut self) -> String {
        let doc_of = self.doc_of;
        let (now, view) = self.look();
        let shown = match view {
            View::Run(_, shown, _) => shown,
            View::Document(title, _) => {
                let (doc, hero) = (Doc::new(title), Hero::default());
                return Layout::live("", &json(&Data::default()), &doc, &hero).page(&[], |_| {});
            }
        };
        let (now, data) = (now.to_string(), json(&shown.data()));
        let doc = doc_of(shown.report, &[]);
        let layout = Layout {
            meta: meta(shown.report).into_iter().take(1).collect(),
            ..Layout::live(&now, &data, &doc, &shown.hero)
        };
        layout.page(&[], |html| shown.write(html))
    }

    /// Return the events that a reader lacks, and what it has then. Readers that keep up share them.
    pub fn events(&mut self, seen: Option<Seen>) -> (String, Seen) {
        let told = self.run().map_or(0, |run| run.told());
        let key = (seen, self.now.run, told);
        if self.last.as_ref().is_none_or(|last| last.key != key) {
            let (now, view) = self.look();
            let events = view.lacked(now, seen);
            self.last = Some(Last { key, events });
        }
        let events = self.last.as_ref().map(|last| last.events.clone());
        (events.unwrap_or_default(), self.now)
    }

    /// Return the policy that a browser keeps to on the page.
    pub fn policy() -> String {
        markup::live_policy()
    }
}

impl View<'_> {
    /// The events that a reader lacks which has this much of what is there `now`.
    fn lacked(&self, now: Seen, seen: Option<Seen>) -> String {
        let known = seen.filter(|seen| {
            (seen.run, seen.form) == (now.run, now.form) && seen.seconds <= now.seconds
        });
        let mut events = String::new();
        let (run, shown, found) = match self {
            Self::Run(run, shown, found) => (run, shown, found),
            Self::Document(_, main) => {
                let data = Data::default();
                if known.is_none() {
                    write_event(&mut events, "hello", now, &json(&Hello { main, data }));
                }
                return events;
            }
        };
        let Some(seen) = known else {
            write_event(&mut events, "hello", now, &shown.hello());
            return events;
        };
        if let Some(from_s) = run.since(seen.seconds) {
            write_event(&mut events, "second", now, &shown.second(from_s));
        }
        if seen.findings != now.findings {
            write_event(&mut events, "finding", now, found);
        }
        events
    }
}
