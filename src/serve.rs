//! `crawlmark serve`: the bundled target until a signal ends it.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use crawlmark_harness::process::usable_cpus;
use crawlmark_harness::units::grouped;
use crawlmark_mock_server::{
    Config, Http, Journal, Ledger, LoadError, Mappings, OnUnsupported, Tls, Unmatched,
};
use nix::sys::signal::{SigSet, Signal};

use crate::behaviour::check_processes;
use crate::cli::ServeArgs;
use crate::error::{DONE, Error, WITHOUT_HTTP_3};
use crate::target::Target;
use crate::terminal;

/// Serves until SIGINT or SIGTERM, then prints the counts.
pub(crate) fn serve(args: &ServeArgs) -> Result<u8, Error> {
    let processes = args.processes.or_cores(usable_cpus().len());
    check_processes("--processes", processes)?;
    check_http3(args)?;
    let behaviour = args.behaviour.config("--", args.seed)?;
    let config = Config {
        stubs: args
            .stubs
            .as_deref()
            .map(|root| load(root, args))
            .transpose()?,
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
            Some(Tls::generate(&[args.listen.ip()])?)
        } else {
            None
        },
        ..behaviour
    };
    let mut wanted = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGCHLD] {
        wanted.add(signal);
    }
    wanted.thread_block().map_err(Error::Signal)?;
    let mut target = Target::start(args.listen, processes, &config)?;
    if let (Some(path), Some(tls)) = (&args.tls_cert, &config.tls) {
        fs::write(path, tls.certificate_pem()).map_err(Error::unwritable(path))?;
    }
    terminal::print(&format!(
        "listening on {}\n",
        url(&config, target.address())
    ))?;
    while wanted.wait().map_err(Error::Signal)? == Signal::SIGCHLD {
        if let Some((pid, exit)) = target.lost() {
            return Err(Error::TargetLost {
                pid,
                how: exit.to_string(),
            });
        }
    }
    let ledger = target.stop();
    if terminal::is_seen() {
        terminal::print(&in_short(&ledger))?;
    } else {
        terminal::print(&(serde_json::to_string_pretty(&ledger)? + "\n"))?;
    }
    Ok(DONE)
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

/// The counts in a line, for people.
fn in_short(ledger: &Ledger) -> String {
    let answers: Vec<String> = ledger
        .by_status
        .iter()
        .map(|(status, count)| format!("{} with status {status}", grouped(*count)))
        .collect();
    let answers = if answers.is_empty() {
        "no response".to_owned()
    } else {
        answers.join(", ")
    };
    let (requests, ids) = (grouped(ledger.requests), grouped(ledger.unique_ids));
    format!(
        "stopped after {requests} requests for {ids} IDs: {answers}. Pipe the output to get all counts as JSON\n"
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
