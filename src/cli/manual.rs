//! Arguments of `completions` and `man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

pub(super) const COMPLETIONS: &str = "\
Examples:
  Bash, with the package bash-completion:
    crawlmark completions bash > ~/.local/share/bash-completion/completions/crawlmark
  Zsh, in a directory of $fpath:
    crawlmark completions zsh > ~/.zfunc/_crawlmark
  Fish:
    crawlmark completions fish > ~/.config/fish/completions/crawlmark.fish";

pub(super) const MAN: &str = "\
Examples:
  Read the page of the program:
    crawlmark man | man -l -
  Write the pages of all commands, where man finds them:
    crawlmark man --out /usr/local/share/man/man1";

/// Arguments of `completions`.
#[derive(Debug, Clone, Copy, Args)]
pub struct CompletionsArgs {
    /// Shell that reads them
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write a page for each command to DIR, which is made if it is missing
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}
