//! The verbs at a job's terminal, and at all of them.

use std::ffi::OsString;

use clap::Args;

/// Send input to a job's terminal
#[derive(Debug, Args)]
#[command(after_help = "\
For jobs started with 'agent-sh run -i'. Several words are joined by a space. Adds Enter, unless -n or --key is given. \
A newline in TEXT is Enter too. Order: TEXT, keys as given, end of input.
Keys: enter tab space escape backspace delete insert up down left right home end page-up page-down f1 to f12, \
ctrl-a to ctrl-z (ctrl-c interrupts), alt- and a key, or any one character.
Exits when the job's terminal has accepted everything. Terminals limit a line to 4095 bytes.

Example:
  agent-sh send 7f3k 'print(6 * 7)'
  agent-sh send 7f3k --key up enter
  agent-sh send 7f3k --eof

Exit codes: 0 sent, 1 the job did not read for 5 s, 2 wrong usage, 125 no such job, it has ended, or it accepts no input.")]
pub struct Send {
    /// Id, unique prefix of an id, name, or 'last'
    #[arg(value_name = "ID")]
    pub job: String,
    /// The text to send; after '--' if it begins with a dash
    #[arg(value_name = "TEXT")]
    pub text: Vec<OsString>,
    /// Do not add Enter
    #[arg(short = 'n', long)]
    pub no_enter: bool,
    /// Send this key, or several in order
    #[arg(long = "key", value_name = "NAME", num_args = 1.., allow_hyphen_values = false)]
    pub keys: Vec<String>,
    /// Send end of input, as Ctrl-D does at the start of a line
    #[arg(long)]
    pub eof: bool,
}

/// Attach to a job's terminal
#[derive(Debug, Args)]
#[command(after_help = "\
For jobs started with 'agent-sh run -i'. Draws the screen, then behaves as if the job had been started here. Ctrl-] \
detaches, and the job keeps running; 'agent-sh send ID --key ctrl-]' sends that key to the job.
Several people may attach to one job; its terminal has the size of whoever resized last.

Example:
  agent-sh attach 7f3k

Exit codes: 0 detached, the job's own if it ended meanwhile, 2 wrong usage, 125 no such job, it has ended, it accepts no \
input, or there is no terminal here.")]
pub struct Attach {
    /// Id, unique prefix of an id, name, or 'last'
    #[arg(value_name = "ID")]
    pub job: String,
}

/// Watch jobs on a full screen
#[derive(Debug, Args)]
#[command(after_help = "\
Jobs on the left, the live screen of the selected job on the right. Keys: arrows or j k select, enter or a attach, \
l log, x kill (asks first), / filter, A all sessions, ? help, q quit.

Example:
  agent-sh top
  agent-sh top --from nats://127.0.0.1/JOBS    the list of all machines, until Ctrl-C

Exit codes: 0 success, 2 wrong usage, 125 no terminal or agent-sh failed.")]
pub struct Top {
    #[command(flatten)]
    pub fleet: super::Fleet,
}
