//! `crawlmark serve`: the bundled target until a signal ends it.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::slice;

use crawlmark_harness::files::{PRIVATE, Root};
use crawlmark_harness::process::{raise_descriptor_limit, usable_cpus};
use crawlmark_harness::units::grouped;
use crawlmark_mock_server::{
    Config, Http, Journal, Ledger, LoadError, Mappings, OnUnsupported, RECORDED, Recording, Shared,
    Unmatched, Upstream, record_process,
};
use nix::sys::signal::{SigSet, Signal};

use crate::behaviour::processes;
use crate::bundled_target::{Target, share_of_target, sockets};
use crate::cli::ServeArgs;
use crate::crawl::tls::{Settings, Tls};
use crate::crawl::{Host, Scheme, Template};
use crate::error::{DONE, Error, FAILED, WITHOUT_HTTP_3};
use crate::run::{find, is_private};
use crate::terminal;

/// Directory of stubs below that of `--stubs`.
const MAPPINGS: &str = "mappings";

/// Serves until SIGINT or SIGTERM, then prints the counts.
pub(crate) fn serve(args: &ServeArgs) -> Result<u8, Error> {
    // One process has the whole recording.
    let most = if args.record.is_some() {
        NonZeroUsize::MIN
    } else if args.listen.ip().is_loopback() {
        // Its clients are on this machine.
        share_of_target(usable_cpus().len())
    } else {
        NonZeroUsize::new(usable_cpus().len()).unwrap_or(NonZeroUsize::MIN)
    };
    let behaviour = args.behaviour.config("--", args.seed)?;
    let processes = processes("--processes", args.processes, most, &behaviour)?;
    check_http3(args)?;
    let config = Config {
        stubs: args
            .stubs
            .as_deref()
            .filter(|root| args.record.is_none() || root.join(MAPPINGS).exists())
            .map(|root| load(root, args))
            .transpose()?,
        write_stub: Some(write_below),
        unmatched: if args.stubs.is_some() {
            Unmatched::NotFound
        } else {
            Unmatched::Item
        },
        journal: if args.journal {
            Journal::On
        } else {
            Journal::Off
        },
        http: args.http,
        tls: if args.tls {
            Some(crawlmark_mock_server::Tls::generate(&[args.listen.ip()])?)
        } else {
            None
        },
        hosts: (args.listen.ip().is_loopback() || !args.allow_host.is_empty())
            .then(|| args.allow_host.clone()),
        ..behaviour
    };
    if let (Some(url), Some(root)) = (&args.record, &args.stubs) {
        return record(args, &config, url, root);
    }
    let mut wanted = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGCHLD] {
        wanted.add(signal);
    }
    wanted.thread_block().map_err(Error::Signal)?;
    let mut target = Target::start(args.listen, processes, &config)?;
    announce(args, &config, target.address())?;
    while wanted.wait().map_err(Error::Signal)? == Signal::SIGCHLD {
        if let Some((pid, exit)) = target.lost() {
            return Err(Error::TargetLost {
                pid,
                how: exit.to_string(),
            });
        }
    }
    print_counts(&target.stop())?;
    Ok(DONE)
}

/// Write a file below the directory of stubs.
fn write_below(root: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let root = Root::with_mode(root, PRIVATE);
    root.replace(name, |file| file.write_all(bytes)).map(drop)
}

/// Refuse HTTP/3 that cannot be served.
fn check_http3(args: &ServeArgs) -> Result<(), Error> {
    match args.http {
        Http::Http3 if !cfg!(feature = "http3") => Err(Error::usage(WITHOUT_HTTP_3)),
        Http::Http3 if !args.tls => {
            Err(Error::usage("--http 3 is served with TLS only: add --tls"))
        }
        _ => Ok(()),
    }
}

/// Serves from this process until SIGINT or SIGTERM, and passes on to `url` what no stub below
/// `root` answers; then writes the recording.
fn record(args: &ServeArgs, config: &Config, url: &Template, root: &Path) -> Result<u8, Error> {
    let file = root.join(RECORDED);
    if args.processes.or(NonZeroUsize::MIN).get() > 1 {
        return Err(Error::usage(
            "--record serves from one process: leave out --processes",
        ));
    }
    if file.exists() {
        return Err(Error::Usage(format!(
            "--record: {} exists: serve it with --stubs alone, remove it, or choose another directory",
            file.display()
        )));
    }
    let upstream = upstream(url, args)?;
    // Now, and not after an hour of recording.
    let mappings = root.join(MAPPINGS);
    let kept = Root::with_mode(root, PRIVATE);
    kept.directory(MAPPINGS)
        .map_err(Error::unwritable(&mappings))?;
    // Each request in flight has two connections.
    let _ = raise_descriptor_limit();
    let shared = Shared::new()?;
    let Some(sockets) = sockets(args.listen, NonZeroUsize::MIN, config)?.pop() else {
        return Ok(FAILED);
    };
    announce(
        args,
        config,
        sockets.tcp.local_addr().unwrap_or(args.listen),
    )?;
    let recording = record_process(sockets, config, &shared, upstream)?;
    let json = recording.json()?;
    kept.replace(RECORDED, |file| file.write_all(&json))
        .map_err(Error::unwritable(&file))?;
    terminal::say(&recorded(&recording, &file)?);
    print_counts(&Ledger::read(&shared))?;
    Ok(DONE)
}

/// The service to record. A public one is not asked as fast as its clients happen to be.
fn upstream(url: &Template, args: &ServeArgs) -> Result<Upstream, Error> {
    let invalid = |why: &dyn Display| Error::Usage(format!("--record: {why}"));
    if url.path() != ("/", None) {
        return Err(invalid(
            &"requests have paths of their own: write the scheme and the host alone, as in http://127.0.0.1:9000",
        ));
    }
    let host = Host::of(url).map_err(|error| invalid(&error))?;
    let addresses = find(host.local_name(), host.port)?;
    let public = addresses.iter().find(|address| !is_private(address.ip()));
    if let Some(address) = public.filter(|_| args.behaviour.target_limits.is_empty()) {
        return Err(invalid(&format!(
            "{} is neither this machine nor in a private network: say how fast you may ask it, as in --limit 10/s:key=everyone",
            address.ip()
        )));
    }
    let tls = match host.scheme {
        Scheme::Http => None,
        Scheme::Https => {
            let tls = Tls::new(&Settings::default(), slice::from_ref(&host))
                .map_err(|error| invalid(&error))?;
            tls.name(0)
                .cloned()
                .map(|name| (tls.connector().clone(), name))
        }
    };
    Ok(Upstream {
        host: host.header().clone(),
        addresses,
        tls,
    })
}

/// The counts of a recording, by their names in its file.
fn recorded(recording: &Recording, file: &Path) -> Result<String, Error> {
    let shown: Vec<String> = serde_json::to_value(recording.counts())?
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, count)| Some((name, count.as_u64()?)))
        .filter(|(name, count)| *count > 0 || *name == "urls")
        .map(|(name, count)| format!("{} {}", grouped(count), name.replace('_', " ")))
        .collect();
    Ok(format!("{}: {}\n", file.display(), shown.join(", ")))
}

/// Writes the certificate, then says where the target listens.
fn announce(args: &ServeArgs, config: &Config, address: SocketAddr) -> Result<(), Error> {
    if let (Some(path), Some(tls)) = (&args.tls_cert, &config.tls) {
        fs::write(path, tls.certificate_pem()).map_err(Error::unwritable(path))?;
    }
    terminal::print(&format!("listening on {}\n", url(config, address)))
}

fn print_counts(ledger: &Ledger) -> Result<(), Error> {
    if terminal::is_seen() {
        terminal::print(&in_short(ledger))
    } else {
        terminal::print(&(serde_json::to_string_pretty(ledger)? + "\n"))
    }
}

/// The counts in a line, for people.
fn in_short(ledger: &Ledger) -> String {
    let answers: Vec<String> = ledger
        .by_status
        .iter()
        .map(|(status, count)| format!("{} with status {status}", grouped(*count)))
        .collect();
    let statuses = if answers.is_empty() {
        "no response".to_owned()
    } else {
        answers.join(", ")
    };
    let (requests, ids) = (grouped(ledger.requests), grouped(ledger.unique_ids));
    format!(
        "stopped after {requests} requests for {ids} IDs: {statuses}. Pipe the output to get all counts as JSON\n"
    )
}

/// The stubs below `root`. What is left out is said on standard error.
fn load(root: &Path, args: &ServeArgs) -> Result<Mappings, Error> {
    let on_unsupported = if args.lenient {
        OnUnsupported::Skip
    } else {
        OnUnsupported::Refuse
    };
    let mappings = Mappings::load(root, on_unsupported).map_err(|error| {
        let remedy = match error {
            LoadError::Wrong(_) => "\nCorrect them, or leave out what is not supported (--lenient)",
            LoadError::NoMappings(_) => ". Check the path",
        };
        Error::Usage(format!("--stubs: {error}{remedy}"))
    })?;
    let skipped = mappings.skipped();
    let count = skipped.0.len();
    if count > 0 {
        terminal::say(&format!(
            "warning: {count} of {} stubs are left out:\n{skipped}\n",
            count + mappings.len()
        ));
    }
    Ok(mappings)
}

fn url(config: &Config, address: SocketAddr) -> String {
    let scheme = if config.tls.is_some() {
        "https"
    } else {
        "http"
    };
    format!("{scheme}://{address}")
}
