//! `crawlmark completions` and `crawlmark man`: what shells and man read, made of the flags
//! themselves.

use std::io;

use clap::{Command, CommandFactory};
use clap_complete::generate;
use clap_mangen::Man;
use crawlmark_harness::files::Root;

use crate::cli::{Cli, CompletionsArgs, ManArgs};
use crate::error::{DONE, Error};
use crate::terminal;

/// Prints the completions of a shell, and returns the exit code.
pub(crate) fn completions(args: CompletionsArgs) -> Result<u8, Error> {
    let (mut command, mut script) = (Cli::command(), Vec::new());
    let name = command.get_name().to_owned();
    generate(args.shell, &mut command, name, &mut script);
    terminal::print_data(&String::from_utf8_lossy(&script))?;
    Ok(DONE)
}

/// Prints the page of the program, or writes those of all commands, and returns the exit code.
pub(crate) fn man(args: &ManArgs) -> Result<u8, Error> {
    // Its pages would repeat those of the commands.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    if let Some(place) = &args.out {
        pages(command, &Root::new(place)).map_err(Error::unwritable(place))?;
    } else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page).map_err(Error::Output)?;
        terminal::print_data(&String::from_utf8_lossy(&page))?;
    }
    Ok(DONE)
}

/// Write the pages of a command and of those below it.
fn pages(command: Command, root: &Root) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        pages(inner.clone(), root)?;
    }
    let page = Man::new(command);
    root.replace(page.get_filename(), |file| page.render(file))
        .map(drop)
}
