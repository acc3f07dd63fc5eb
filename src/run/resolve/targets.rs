//! Targets of a run: one URL, a list of them, the requests of a file, or the bundled target; and
//! the times of a recording.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use crawlmark_harness::clock::duration_ns;
use crawlmark_harness::plan::Arrivals;

use super::bundled::ITEMS;
use crate::cli::RunArgs;
use crate::crawl::{Line, RequestShape, Scheme, Targets, Template, TemplateError};
use crate::error::Error;
use crate::run::inputs;
use crate::run::requests::{self, RequestFile};

/// Targets of a crawl.
pub(super) struct Chosen {
    pub(super) targets: Targets,
    /// Template of the bundled target, when that is crawled.
    pub(super) bundled: Option<Template>,
    /// When each line is sent, ns after the start, ascending; empty unless they are replayed.
    pub(super) times: Vec<u64>,
    /// Note on what is left out.
    pub(super) note: Option<String>,
    /// Methods of all requests.
    pub(super) methods: String,
}

impl From<Targets> for Chosen {
    fn from(targets: Targets) -> Self {
        Self {
            targets,
            bundled: None,
            times: Vec::new(),
            note: None,
            methods: String::new(),
        }
    }
}

/// Choose the targets of the crawl. `request` is that of lines without one of their own.
pub(super) fn choose_targets(args: &RunArgs, request: &RequestShape) -> Result<Chosen, Error> {
    let chosen = of_flags(args, request)?;
    let own: BTreeSet<&str> = chosen
        .targets
        .shapes()
        .map(|shape| shape.method().as_str())
        .collect();
    let methods = if own.is_empty() {
        request.method().to_string()
    } else {
        own.into_iter().collect::<Vec<_>>().join(", ")
    };
    Ok(Chosen { methods, ..chosen })
}

fn of_flags(args: &RunArgs, request: &RequestShape) -> Result<Chosen, Error> {
    if let Some(file) = &args.requests_file {
        return requests_of(args, request, file)
            .map_err(|why| Error::usage(format!("--requests-file {}{why}", file.display())));
    }
    if let Some(file) = &args.urls {
        let read = inputs::read_list(file)
            .and_then(|text| inputs::parse_urls(&text))
            .map_err(|why| Error::usage(format!("--urls {}{why}", file.display())));
        return read.map(Chosen::from);
    }
    if let Some(url) = &args.url {
        let template = url.parse().map_err(|error| no_url(&error))?;
        let targets = Targets::one(&template).map_err(Error::usage)?;
        return Ok(targets.into());
    }
    let scheme = if args.target_tls {
        Scheme::Https
    } else {
        Scheme::Http
    };
    let template: Template = format!("{}127.0.0.1{ITEMS}", scheme.prefix())
        .parse()
        .map_err(Error::usage)?;
    let targets = Targets::one(&template).map_err(Error::usage)?;
    Ok(Chosen {
        bundled: Some(template),
        ..targets.into()
    })
}

/// Read the requests of a file, in the order in which they are sent; errors read after its name.
fn requests_of(args: &RunArgs, request: &RequestShape, file: &Path) -> Result<Chosen, String> {
    let base = args
        .url
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(|error: TemplateError| format!(": {error}"))?;
    let RequestFile {
        lines,
        weights,
        times,
        skipped,
    } = requests::read(file, base.as_ref(), request)?;
    let note = skipped.map(|skipped| format!("--requests-file {}: {skipped}", file.display()));
    if args.arrivals() != Arrivals::Replay {
        let mut targets = Targets::collect::<_, TemplateError>(lines.into_iter().map(Ok))
            .map_err(|error| format!(": {error}"))?;
        if let Some(weights) = weights {
            targets = targets.drawn(weights.into_iter(), args.seed);
        }
        return Ok(Chosen {
            note,
            ..targets.into()
        });
    }
    if lines.iter().any(|line| line.flow.is_some()) {
        return Err(
            " has several requests per item (`then`, `next`), which --arrivals replay does not send: remove them, or --arrivals replay"
                .to_owned(),
        );
    }
    if weights.is_some() {
        return Err(
            " has weights, which --arrivals replay does not use: remove them, or --arrivals replay"
                .to_owned(),
        );
    }
    let times = times.map_err(|place| {
        format!(
            ": {place} has no time, which --arrivals replay needs: add `at` to JSON lines, or remove --arrivals replay"
        )
    })?;
    let mut sent: Vec<(Duration, Line)> = times.into_iter().zip(lines).collect();
    sent.sort_by_key(|(time, _)| *time);
    if let Some(most) = args.requests {
        if most > sent.len() as u64 {
            return Err(format!(
                " has {} requests, fewer than --items {most}",
                sent.len()
            ));
        }
        sent.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    }
    let speed = args.speed.unwrap_or(1.0);
    let times = sent
        .iter()
        .map(|(time, _)| duration_ns(time.div_f64(speed)))
        .collect();
    let lines = sent.into_iter().map(|(_, line)| line);
    let targets = Targets::collect::<_, TemplateError>(lines.map(Ok))
        .map_err(|error| format!(": {error}"))?;
    Ok(Chosen {
        times,
        note,
        ..targets.into()
    })
}

/// Explain why an argument is not a URL: perhaps it is the value of a flag that takes none.
fn no_url(error: &TemplateError) -> Error {
    let hint = match error {
        TemplateError::NoUrl(_) => {
            "; a flag whose value is optional takes it after =, as in --adaptive=aimd"
        }
        _ => "",
    };
    Error::usage(format!("{error}{hint}"))
}
