//! The target as it is meant to be run: forked processes on one port, one mapping, ended by SIGTERM.
//!
//! It has no test harness, because a fork needs a process without threads.
#![expect(clippy::print_stdout, reason = "it reports like a test harness")]

use crawlmark_mock_server::{Config, Ledger, Shared, listeners, run_process};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

const PROCESSES: usize = 2;
const REQUESTS: u64 = 200;
const BURST: u64 = 50;

fn main() -> ExitCode {
    match forked_processes_share_books_and_limit_and_end_on_sigterm() {
        Ok(()) => {
            println!("test forked_processes_share_books_and_limit_and_end_on_sigterm ... ok");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("test forked_processes_share_books_and_limit_and_end_on_sigterm ... FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn forked_processes_share_books_and_limit_and_end_on_sigterm() -> Result<(), Box<dyn Error>> {
    let config = Config { limit: Some(format!("1/h:burst={BURST}").parse()?), ..Config::default() };
    let shared = Shared::new()?;
    let listeners = listeners(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), NonZeroUsize::try_from(PROCESSES)?)?;
    let addr = listeners[0].local_addr()?;
    let processes = start(listeners, &config, &shared)?;
    let witnessed = drive(addr, &shared);
    // Ended before anything is judged, so that a failure leaves no process behind.
    let mut exits = Vec::new();
    for process in processes {
        kill(process, Signal::SIGTERM)?;
        exits.push(waitpid(process, None)?);
    }
    expect("admitted", witnessed?, BURST)?;
    for exit in exits {
        if !matches!(exit, WaitStatus::Exited(_, 0)) {
            return Err(format!("a process did not end cleanly: {exit:?}").into());
        }
    }
    let ledger = Ledger::read(&shared);
    expect("requests", ledger.requests, REQUESTS)?;
    expect("unique ids", ledger.unique_ids, REQUESTS)?;
    expect("connections", ledger.connections, REQUESTS)?;
    expect("early retries", ledger.early_retries, REQUESTS - BURST - 1)?;
    Ok(())
}

#[expect(unsafe_code, reason = "fork is what is tested")]
fn start(listeners: Vec<TcpListener>, config: &Config, shared: &Shared) -> Result<Vec<Pid>, Box<dyn Error>> {
    let mut processes = Vec::new();
    let mut waiting = listeners.into_iter();
    while let Some(listener) = waiting.next() {
        // SAFETY: this process has one thread, since it has no test harness and starts none, so the child may do
        // anything that the parent may.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => processes.push(child),
            ForkResult::Child => {
                drop(waiting);
                let code = i32::from(run_process(listener, config, shared).is_err());
                // SAFETY: `_exit` has no requirements; it skips what the parent registered to run at its own exit.
                unsafe { nix::libc::_exit(code) }
            }
        }
    }
    Ok(processes)
}

/// Sends all requests, each on a connection of its own so that the kernel spreads them, and returns how many were
/// admitted.
fn drive(addr: SocketAddr, shared: &Shared) -> Result<u64, Box<dyn Error>> {
    let mut admitted = 0;
    for id in 0..REQUESTS {
        let mut stream = TcpStream::connect(addr)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        write!(stream, "GET /items/{id} HTTP/1.1\r\nHost: target\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        admitted += u64::from(answer.starts_with("HTTP/1.1 200 "));
        // The client has the answer, so the books must have the request.
        expect("requests so far", Ledger::read(shared).requests, id + 1)?;
    }
    Ok(admitted)
}

fn expect(what: &str, found: u64, expected: u64) -> Result<(), Box<dyn Error>> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found} instead of {expected}").into()) }
}
