//! End to end: the program as its users run it, against the bundled target, doubles that share no
//! code with it, and a real server.
//!
//! Every run's report is checked against the committed schema and its own sums, and nothing may be
//! left of a run that has ended: no process, no temporary file. Nothing here waits by sleeping for
//! a fixed time: each wait is for an event, with a deadline that only a hang meets.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test is over at its first surprise, and says what it skips"
)]

mod ab;
mod adds_up;
mod arena;
mod bad_input;
mod bisect;
mod capacity;
mod ci;
mod client;
mod command;
mod config;
mod connections;
mod dataset;
mod diagnose;
mod docs;
mod example;
mod expect;
mod export;
mod faults;
mod first_look;
mod flow_records;
mod flows;
mod foreign;
mod foreign_proxies;
mod foreign_target;
mod forged;
mod forward_proxy;
mod gates;
mod grpc;
mod hostile;
mod http2;
mod http3;
mod limits;
mod live_page;
mod live_view;
mod lost;
mod manual;
mod metrics;
mod names;
mod networks;
mod open_loop;
mod others;
mod overload;
mod parts;
mod pauses;
mod places;
mod prefixes;
mod process;
mod profile;
mod protocols;
mod proxy;
mod raw;
mod record;
mod release;
mod remade;
mod report;
mod request_file;
mod requests;
mod robots;
mod run;
mod saved;
mod scale;
mod scenarios;
mod scheduler;
mod schema;
mod scripted;
mod secrets;
mod selftest;
mod signals;
mod starved;
mod stubs;
mod target;
mod target_counts;
mod target_side;
mod text_files;
mod throttling;
mod tls;
mod truth;
mod urls;
mod watch;
mod wire;
mod wiremock;
