//! The bundled target of a run without a URL.

use std::net::SocketAddr;
use std::num::NonZeroUsize;

use crawlmark_mock_server::{self as target, Config};

use crate::behaviour::processes;
use crate::bundled_target::{Target, share_of_target};
use crate::cli::RunArgs;
use crate::crawl::{HttpVersion, Template};
use crate::error::Error;

/// The path of its items.
pub(super) const ITEMS: &str = "/items/{id}";

/// The bundled target of a run.
#[derive(Debug)]
pub(in crate::run) struct BundledTarget {
    pub(super) processes: NonZeroUsize,
    pub(super) config: Config,
    template: Template,
}

impl BundledTarget {
    /// As it was asked for, on a machine with so many CPUs.
    pub(super) fn new(args: &RunArgs, template: Template, cpus: usize) -> Result<Self, Error> {
        let config = args.target.config("--target-", args.seed)?;
        let fitting = share_of_target(cpus);
        let given = args.target_processes;
        let processes = processes("--target-processes", given, fitting, &config)?;
        let tls = args.target_tls.then(|| target::Tls::generate(&[]));
        Ok(Self {
            processes,
            config: Config {
                tls: tls.transpose()?,
                http: match args.http {
                    HttpVersion::Http3 => target::Http::Http3,
                    _ => config.http,
                },
                ..config
            },
            template,
        })
    }

    /// Start it on a free port.
    pub(in crate::run) fn start(&self) -> Result<Target, Error> {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        Target::start(free, self.processes, &self.config)
    }

    /// Return the URL of its items, when it listens at `address`.
    pub(super) fn at(&self, address: SocketAddr) -> Result<Template, Error> {
        let prefix = self.template.scheme.prefix();
        format!("{prefix}{address}{ITEMS}")
            .parse()
            .map_err(Error::usage)
    }
}
