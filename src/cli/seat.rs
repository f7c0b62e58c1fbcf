//! The verbs at a job's terminal, and at all of them.

use std::ffi::OsString;

use clap::Args;

/// Type at a job's terminal
#[derive(Debug, Args)]
#[command(after_help = "\
For jobs that were started with 'agent-sh run -i'. Several words are joined by a blank. Enter is added, unless -n or \
--key is given. A newline in TEXT is Enter too. Order: TEXT, keys as given, end of input.
Keys: enter tab space escape backspace delete insert up down left right home end page-up page-down f1 to f12, \
ctrl-a to ctrl-z (ctrl-c interrupts), alt- and a key, or any one character.
Exits when the job's terminal has it all. A program that reads lines gets at most 4095 bytes of each: a rule of terminals.

Example:
  agent-sh send 7f3k 'print(6 * 7)'
  agent-sh send 7f3k --key up enter
  agent-sh send 7f3k --eof

Exit codes: 0 typed, 1 the job does not read (it had 5 s), 2 wrong usage, 125 no such job, it has ended, or it has no \
terminal as stdin.")]
pub struct Send {
    /// Id, unique beginning of one, name, or 'last'
    #[arg(value_name = "ID")]
    pub job: String,
    /// What to type; after '--' if it begins with a dash
    #[arg(value_name = "TEXT")]
    pub text: Vec<OsString>,
    /// Do not add Enter
    #[arg(short = 'n', long)]
    pub no_enter: bool,
    /// Press this key, or these one after the other
    #[arg(long = "key", value_name = "NAME", num_args = 1.., allow_hyphen_values = false)]
    pub keys: Vec<String>,
    /// End the input, as Ctrl-D does at the beginning of a line
    #[arg(long)]
    pub eof: bool,
}

/// Sit down at a job's terminal
#[derive(Debug, Args)]
#[command(after_help = "\
For jobs that were started with 'agent-sh run -i'. The screen is drawn first, then everything is as if the job had \
been started here. Ctrl-] detaches, and the job runs on; 'agent-sh send ID --key ctrl-]' sends that key to the job.
Several may sit at one job; its terminal has the size of the one who resized last.

Example:
  agent-sh attach 7f3k

Exit codes: 0 detached, the job's own when it ended meanwhile, 2 wrong usage, 125 no such job, it has ended, it has no \
terminal as stdin, or attach has none.")]
pub struct Attach {
    /// Id, unique beginning of one, name, or 'last'
    #[arg(value_name = "ID")]
    pub job: String,
}

/// Watch jobs on a full screen
#[derive(Debug, Args)]
#[command(after_help = "\
Jobs on the left, the live screen of the chosen one on the right. Keys: arrows or j k choose, enter or a attaches, \
l shows the log, x kills (it asks first), / filters, A shows every session, ? helps, q quits.

Example:
  agent-sh top

Exit codes: 0 quit, 2 wrong usage, 125 no terminal or agent-sh failed.")]
pub struct Top {}
