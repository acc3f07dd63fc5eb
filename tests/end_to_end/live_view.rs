//! The live view on a terminal of its own, as an emulator shows it: drawn in place, and gone from
//! the cursor's line whatever ends the run.

use std::fs::{self, File};
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};

use crawlmark_harness::clock::{Clock, duration_ns};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use tempfile::TempDir;
use vt100::{Parser, Screen};

use crate::command::{program, run};
use crate::process::{DEADLINE, end_with_children, wait_for};
use crate::target::Target;

const ROWS: u16 = 30;
const COLUMNS: u16 = 100;

/// A run whose standard error is the terminal that controls it.
struct Terminal {
    keyboard: OwnedFd,
    child: Child,
    parser: Parser,
    /// Everything that was written to it.
    written: Vec<u8>,
    _directory: TempDir,
}

impl Terminal {
    /// Starts `crawlmark run` with `args`, and with nothing in its environment that changes the
    /// view but this.
    fn start(args: &str, environment: &[(&str, &str)]) -> Self {
        let size = Winsize {
            ws_row: ROWS,
            ws_col: COLUMNS,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(&size, None).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("setsid");
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "LC_CTYPE", "LANG"] {
            command.env_remove(name);
        }
        let child = command
            .args(["--ctty", program().to_str().unwrap(), "run"])
            .args(args.split(' '))
            .current_dir(directory.path())
            .envs(environment.iter().copied())
            .stdin(Stdio::from(pty.slave.try_clone().unwrap()))
            .stdout(File::create(directory.path().join("stdout")).unwrap())
            .stderr(Stdio::from(pty.slave))
            .spawn()
            .unwrap();
        let parser = Parser::new(
            NonZero::new(ROWS).unwrap(),
            NonZero::new(COLUMNS).unwrap(),
            0,
        );
        Self {
            keyboard: pty.master,
            child,
            parser,
            written: Vec::new(),
            _directory: directory,
        }
    }

    /// Reads what there is. Whether there may be more.
    fn read(&mut self) -> bool {
        let mut fds = [PollFd::new(self.keyboard.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(100_u8)) {
            Ok(0) | Err(Errno::EINTR) => return true,
            ready => ready.unwrap(),
        };
        let mut buffer = [0; 4096];
        let read = match nix::unistd::read(&self.keyboard, &mut buffer) {
            Err(Errno::EINTR) => return true,
            // Linux returns EIO when no process has the terminal open any more.
            Err(Errno::EIO) => 0,
            read => read.unwrap(),
        };
        self.parser.process(&buffer[..read]);
        self.written.extend_from_slice(&buffer[..read]);
        read > 0
    }

    /// Reads until the screen shows each of these texts above the cursor: a part of a frame
    /// may have been read, and a second may have been one without answers.
    fn wait_for(&mut self, texts: &[&str]) {
        let clock = Clock::start();
        while !self.is_clean_line() || texts.iter().any(|text| self.count(text) == 0) {
            let screen = self.screen().contents();
            assert!(
                self.read() && clock.now().0 < duration_ns(DEADLINE),
                "not {texts:?} on the screen:\n{screen}"
            );
        }
    }

    fn count(&self, text: &str) -> usize {
        self.screen().contents().matches(text).count()
    }

    /// Presses a key.
    fn press(&self, key: u8) {
        nix::unistd::write(&self.keyboard, &[key]).unwrap();
    }

    /// Reads to the end.
    fn end(&mut self) -> ExitStatus {
        let clock = Clock::start();
        while self.read() {
            assert!(
                clock.now().0 < duration_ns(DEADLINE),
                "it does not end:\n{}",
                self.screen().contents()
            );
        }
        wait_for("the end of the run", || self.child.try_wait().unwrap())
    }

    fn screen(&self) -> &Screen {
        self.parser.screen()
    }

    /// The lines on the screen down to the last that is not empty.
    fn lines(&self) -> Vec<String> {
        self.screen()
            .contents()
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect()
    }

    /// True if the cursor can be seen, at the start of the line below all others.
    fn is_clean_line(&self) -> bool {
        let below = (u16::try_from(self.lines().len()).unwrap(), 0);
        !self.screen().hide_cursor() && self.screen().cursor_position() == below
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        end_with_children(&mut self.child);
    }
}

#[test]
fn a_run_is_drawn_in_place_until_the_keyboard_stops_it() {
    let target = Target::start("--processes 1");
    let args = format!("{} --ids 0..100m --shards 2 -c 8", target.url());
    let mut terminal = Terminal::start(&args, &[("TERM", "xterm"), ("LC_ALL", "C.UTF-8")]);
    // Once a second is over it has been drawn over itself.
    let parts = ["Ctrl-C ends the run", "/s good ", "  rate ", " in flight "];
    terminal.wait_for(&parts);
    let lines = terminal.lines();
    assert!(lines.len() <= 5, "{lines:#?}");
    assert!(
        parts.iter().all(|part| terminal.count(part) == 1),
        "{lines:#?}"
    );
    let has_blocks = |line: &String| line.contains(['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█', '_']);
    assert!(lines.iter().any(has_blocks), "{lines:#?}");

    terminal.press(b'C' - b'@');
    assert_eq!(terminal.end().code(), Some(130));
    assert!(terminal.is_clean_line(), "{:#?}", terminal.lines());
    assert_eq!(
        terminal.lines(),
        [""; 0],
        "the view is gone, and the key's echo with it"
    );
}

#[test]
fn a_terminal_has_the_colours_and_blocks_that_it_can_show() {
    let target = Target::start("--processes 1");
    let dim = b"\x1b[2m".as_slice();
    for (term, locale, no_color, color, is_coloured) in [
        ("xterm", "C.UTF-8", "", "auto", true),
        ("xterm", "C.UTF-8", "1", "always", true),
        ("xterm", "C", "1", "auto", false),
        ("xterm", "C.UTF-8", "", "never", false),
    ] {
        let mut environment = vec![("TERM", term), ("LC_ALL", locale)];
        environment.extend((!no_color.is_empty()).then_some(("NO_COLOR", no_color)));
        let args = format!("{} -d 1s --shards 1 -c 8 --color {color}", target.url());
        let mut terminal = Terminal::start(&args, &environment);
        assert_eq!(terminal.end().code(), Some(0), "{:#?}", terminal.lines());
        assert!(terminal.is_clean_line(), "{:#?}", terminal.lines());
        let mut parts = terminal.written.windows(dim.len());
        assert_eq!(
            parts.any(|part| part == dim),
            is_coloured,
            "{environment:?}"
        );
        let has_blocks = (term, locale) == ("xterm", "C.UTF-8");
        assert!(has_blocks || terminal.written.is_ascii(), "{environment:?}");
    }
    // A pipe has none unless they are wanted, and what is saved has none.
    for (color, is_coloured) in [("auto", false), ("always", true)] {
        let done = run(&format!("run -n 10 -s 1 --out out --color {color}"));
        assert_eq!(done.stdout.contains('\x1b'), is_coloured, "{color}");
        let saved = fs::read_to_string(done.out().join("summary.md")).unwrap();
        assert!(!saved.contains('\x1b'));
    }
    // One that cannot move its cursor gets lines.
    let args = format!("{} --shards 1 -c 2", target.url());
    let mut terminal = Terminal::start(&args, &[("TERM", "dumb"), ("LC_ALL", "C.UTF-8")]);
    terminal.wait_for(&["crawlmark: "]);
    terminal.press(b'C' - b'@');
    assert_eq!(terminal.end().code(), Some(130));
    assert!(
        !terminal.written.contains(&b'\x1b'),
        "{:#?}",
        terminal.lines()
    );
}
