//! `parse`: what the scanner makes of a command. For tests, and for the curious.

use std::fmt::Write;
use std::io::Read;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::message;
use crate::plan::{Plan, plan};
use crate::syntax::Dialect;
use crate::text::shorten;
use clap::{Args, ValueEnum};

/// Show which parts of a command (on stdin) would become jobs
#[derive(Debug, Args)]
#[command(after_help = "\
--json prints {\"ok\":BOOL,\"amps\":[OFFSET…],\"jobs\":[{\"start\":,\"end\":,\"how\":,\"attended\":}],\"why\":null|TEXT}; \
offsets are in bytes. An attended job is one that the command itself waits for; it is left to the shell.

Example:
  echo 'make & sleep 1' | agent-sh parse --json

Exit codes: 0 success, even if the text cannot be parsed ('ok' is then false), 2 wrong usage.")]
pub(super) struct Parse {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Whose syntax to use [default: that of $AGENT_SH_SHELL, else bash]
    #[arg(long, visible_alias = "shell", value_name = "SHELL")]
    pub dialect: Option<DialectWord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DialectWord {
    Bash,
    #[value(aliases = ["sh", "dash", "ash", "ksh", "mksh"])]
    Posix,
    Zsh,
}

pub(crate) fn parse(context: &Context, parse: &Parse) -> Result<u8> {
    let mut command = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut command)
        .map_err(|source| Error::sys("read stdin", source))?;
    let plan = plan(&command, dialect(context, parse.dialect));
    if parse.json {
        message::out_json(&plan.to_json())?;
    } else {
        message::out(&lines(&command, &plan))?;
    }
    Ok(0)
}

fn dialect(context: &Context, wanted: Option<DialectWord>) -> Dialect {
    match wanted {
        Some(DialectWord::Bash) => Dialect::Bash,
        Some(DialectWord::Posix) => Dialect::Posix,
        Some(DialectWord::Zsh) => Dialect::Zsh,
        None => {
            let shell = context.settings.shell.as_deref();
            let name = shell.and_then(|path| path.file_name());
            name.map_or(Dialect::Bash, |name| {
                Dialect::for_shell(&name.to_string_lossy())
            })
        }
    }
}

/// One line per job: its bytes, how it is started, whether the command waits for it, its text.
fn lines(command: &[u8], plan: &Plan) -> String {
    if !plan.ok {
        let why = plan.why.as_deref().unwrap_or("unknown syntax");
        return format!("not understood: {why}\n");
    }
    if plan.spots.is_empty() {
        return "no background jobs\n".to_owned();
    }
    let mut out = String::new();
    for spot in &plan.spots {
        let bytes = command.get(spot.start..spot.end).unwrap_or_default();
        let text = shorten(&String::from_utf8_lossy(bytes), 100);
        let attended = if spot.attended { " (attended)" } else { "" };
        let _ = writeln!(
            out,
            "{}..{} {}{attended}: {text}",
            spot.start, spot.end, spot.how
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_people() {
        for (command, wanted) in [
            ("echo hello", "no background jobs\n"),
            ("sleep 1 & echo", "0..7 ampersand: sleep 1\n"),
            ("make & wait", "0..4 ampersand (attended): make\n"),
        ] {
            let plan = plan(command.as_bytes(), Dialect::Bash);
            assert_eq!(lines(command.as_bytes(), &plan), wanted, "{command}");
        }
    }
}
