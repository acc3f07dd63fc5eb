//! A workload that is not HTTP: read the keys 0, 1, 2 ... from a memcached server, over its text
//! protocol.
//!
//! Only the protocol is implemented here. Processes, pacing, retries and histograms come from
//! `crawlmark_harness`; validity, thresholds, result directory and page from `crawlmark_results`.
//!
//! ```sh
//! cargo run --release --example memcached -- 127.0.0.1:11211 --rate 5k --threshold 'service_p99 < 1ms'
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it did")]

use std::cell::RefCell;
use std::convert::Infallible;
use std::error::Error;
use std::io::{self, ErrorKind as Io};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use crawlmark_harness::clock::{Clock, Nanos, wall_time};
use crawlmark_harness::plan::{RunPlan, ShardPlan};
use crawlmark_harness::sample::{Advice, Attempt, ErrorKind, Outcome, Repeat};
use crawlmark_harness::supervisor::{Interval, Live, Observer, supervise};
use crawlmark_harness::units::{IdRange, Rate};
use crawlmark_harness::workload::{Clearance, Flight, InFlight, Workload};
use crawlmark_results::run::gates::{Breach, Condition, LiveThresholds, Objective};
use crawlmark_results::run::report::{
    Environment, Labels, Placement, Report, RunFacts, Seconds, Source,
};
use crawlmark_results::run::result_dir::{PAGE, ResultDir};
use crawlmark_results::run::words;
use crawlmark_results::show::line::Display;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest value that is read: a server chooses the number.
const MOST_BYTES: usize = 64 << 20;

/// Read keys from a memcached server, as fast as it answers or at a rate
#[derive(Parser)]
struct Args {
    /// Address of the server
    target: SocketAddr,
    /// Keys to read
    #[arg(long, default_value = "0..100k")]
    ids: IdRange,
    /// Requests per second, over all shards
    #[arg(long)]
    rate: Option<Rate>,
    /// Exit with 3 unless this holds; may be repeated
    #[arg(long)]
    threshold: Vec<Condition>,
}

/// Workload of one shard, with its idle connections.
struct Memcached {
    target: SocketAddr,
    timeout: Duration,
    clock: Clock,
    idle: RefCell<Vec<BufReader<TcpStream>>>,
}

impl Workload for Memcached {
    async fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        attempt: &mut Attempt,
    ) -> Option<()> {
        *attempt = Attempt {
            sent: None,
            first_byte: None,
            done: Nanos::default(),
            bytes_sent: 0,
            bytes_received: 0,
            status: None,
            outcome: Outcome::Ok,
            advice: Advice {
                repeat: Repeat::MayHelp,
                ..Advice::default()
            },
        };
        let outcome = async {
            let mut connection = self.connection(flight).await?;
            let Some(sent) = clearance.wait().await else {
                return Ok(None);
            };
            attempt.sent = Some(sent);
            flight.note(InFlight {
                sent,
                first_byte: None,
                bytes_sent: 0,
                bytes_received: 0,
            });
            let outcome = timeout(self.timeout, self.get(id, &mut connection, attempt)).await??;
            self.idle.borrow_mut().push(connection);
            Ok(Some(outcome))
        };
        attempt.outcome = outcome
            .await
            .unwrap_or_else(|error: io::Error| Some(Outcome::Error(kind(&error))))?;
        attempt.done = self.clock.now();
        Some(())
    }
}

impl Memcached {
    /// Take an idle connection, or open a new one.
    async fn connection(&self, flight: &Flight) -> io::Result<BufReader<TcpStream>> {
        if let Some(connection) = self.idle.borrow_mut().pop() {
            return Ok(connection);
        }
        let began = self.clock.now();
        flight.opening(began);
        let stream = timeout(self.timeout, TcpStream::connect(self.target)).await??;
        stream.set_nodelay(true)?;
        flight.opened(self.clock.now().since(began));
        Ok(BufReader::new(stream))
    }

    /// Request a key. The answer is `VALUE <key> <flags> <bytes>`, the value and `END`, or `END`
    /// alone.
    async fn get(
        &self,
        id: u64,
        connection: &mut BufReader<TcpStream>,
        attempt: &mut Attempt,
    ) -> io::Result<Outcome> {
        let request = format!("get {id}\r\n");
        connection.write_all(request.as_bytes()).await?;
        attempt.bytes_sent = request.len() as u64;
        let mut line = String::new();
        attempt.bytes_received = connection.read_line(&mut line).await? as u64;
        attempt.first_byte = (!line.is_empty()).then(|| self.clock.now());
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["VALUE", _, _, bytes] => {
                let bytes = bytes
                    .parse()
                    .ok()
                    .filter(|bytes: &usize| *bytes <= MOST_BYTES)
                    .ok_or(Io::InvalidData)?;
                let mut rest = vec![0; bytes + "\r\nEND\r\n".len()];
                attempt.bytes_received += connection.read_exact(&mut rest).await? as u64;
                Ok(Outcome::Ok)
            }
            ["END"] => Ok(Outcome::NotFound),
            ["SERVER_ERROR", ..] => Ok(Outcome::Rejected),
            [] => Err(Io::UnexpectedEof.into()),
            _ => Err(Io::InvalidData.into()),
        }
    }
}

fn kind(error: &io::Error) -> ErrorKind {
    match error.kind() {
        Io::ConnectionRefused => ErrorKind::ConnectRefused,
        Io::ConnectionReset => ErrorKind::Reset,
        Io::InvalidData => ErrorKind::Malformed,
        Io::TimedOut => ErrorKind::Timeout,
        Io::UnexpectedEof => ErrorKind::Closed,
        _ => ErrorKind::Io,
    }
}

/// Takes the seconds of the run, as they end.
struct Recorder {
    seconds: Seconds,
    thresholds: LiveThresholds,
}

impl Observer for Recorder {
    fn progress(&mut self, _: &Live) {}

    fn interval(&mut self, interval: &Interval) {
        self.seconds.add(interval);
        self.thresholds.add(interval);
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let clock = Clock::start();
    let Args {
        target,
        ids,
        rate,
        threshold,
    } = Args::parse();
    let plan = RunPlan {
        shards: 2,
        connections: 16,
        rate,
        burst: rate.map_or(0, |_| 16),
        at_start: rate.map_or(0, |_| 2),
        ..RunPlan::new(format!("memcached://{target}/{{id}}"), ids)
    };
    let plan = plan.validate()?;
    let objectives: Vec<_> = threshold
        .into_iter()
        .map(|condition| Objective {
            condition,
            breach: Breach::Fails,
        })
        .collect();
    objectives
        .iter()
        .try_for_each(|objective| objective.check(&plan))?;
    let directory = ResultDir::create_in(Path::new("results/runs"), wall_time(), "memcached")?;
    let mut recorder = Recorder {
        seconds: Seconds::default(),
        thresholds: LiveThresholds::new(&objectives, &plan),
    };
    let workload = |_: &ShardPlan| {
        Ok::<_, Infallible>(Memcached {
            target,
            timeout: plan.timeout,
            clock,
            idle: RefCell::default(),
        })
    };
    // This forks: no thread may have been started before.
    let record = supervise(&plan, clock, &workload, &mut recorder)?;
    let placement = if target.ip().is_loopback() {
        Placement::Colocated
    } else {
        Placement::Apart
    };
    let mut report = Report::new(Source {
        target: None,
        plan: &plan,
        labels: &Labels {
            name: "memcached".to_owned(),
            ..Labels::default()
        },
        record: &record,
        intervals: recorder.seconds,
        environment: Environment::read(placement),
        facts: RunFacts::default(),
    });
    recorder.thresholds.close(&mut report);
    let saved = directory.finish(&report)?;
    let page = saved.join(PAGE).display().to_string();
    let terminal = Display {
        columns: 100,
        has_unicode: true,
    };
    for line in words::end(&report, Some(&page), terminal, true) {
        println!("{}", line.text());
    }
    // The exit codes of `crawlmark run`: 3 for a threshold that failed, 5 for one that nothing
    // decides.
    let [failed, undecided] = [Some(false), None].map(|ok| report.thresholds(ok));
    Ok(ExitCode::from(match (failed, undecided) {
        (0, 0) => 0,
        (0, _) => 5,
        _ => 3,
    }))
}
