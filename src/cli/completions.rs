//! `completions`: what a shell needs to complete our words. Options come from the command line's own
//! description; the ids of jobs are asked of `ps` when they are needed.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::error::Result;
use crate::message;
use clap::{Args, ValueEnum};

/// Print a shell completion script
#[derive(Debug, Args)]
#[command(after_help = "\
Completes verbs, options and job ids.

Example:
  agent-sh completions bash > ~/.local/share/bash-completion/completions/agent-sh
  agent-sh completions zsh > ~/.zfunc/_agent-sh      with ~/.zfunc in fpath before compinit
  agent-sh completions fish > ~/.config/fish/completions/agent-sh.fish

Exit codes: 0 success, 2 wrong usage.")]
pub(super) struct Completions {
    pub shell: ShellWord,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ShellWord {
    Bash,
    Zsh,
    Fish,
}

/// After these a job is named.
const WITH_JOBS: &str = "show|logs|wait|kill|send|attach";

/// Asks the generated function first and adds the jobs where it offers none.
const BASH: &str = r#"
_agent-sh-and-jobs() {
    GENERATED "$@"
    local cur="${COMP_WORDS[COMP_CWORD]}"
    case "${COMP_WORDS[1]}" in
        VERBS)
            if [[ ${COMP_CWORD} -gt 1 && ${cur} != -* ]]; then
                COMPREPLY+=($(compgen -W "last $(agent-sh ps --all --quiet 2>/dev/null)" -- "${cur}"))
            fi
            ;;
    esac
}
complete -F _agent-sh-and-jobs -o nosort -o bashdefault -o default agent-sh
"#;

const ZSH: &str = r#"
_agent-sh-jobs() {
    local -a ids
    ids=(last ${(f)"$(agent-sh ps --all --quiet 2>/dev/null)"})
    compadd -a ids
}
"#;

const FISH: &str = r#"
complete -c agent-sh -n "__fish_seen_subcommand_from VERBS" -f -a "last (agent-sh ps --all --quiet 2>/dev/null)"
"#;

pub(crate) fn completions(completions: &Completions) -> Result<u8> {
    message::out(&script(completions.shell)).map(|()| 0)
}

fn script(shell: ShellWord) -> String {
    let kind = match shell {
        ShellWord::Bash => Shell::Bash,
        ShellWord::Zsh => Shell::Zsh,
        ShellWord::Fish => Shell::Fish,
    };
    // A dash in the program's name confuses the script for bash (clap_complete 4.6: it looks for verbs
    // under two names), so there the functions have one without.
    let name = match shell {
        ShellWord::Bash => "agentsh",
        ShellWord::Zsh | ShellWord::Fish => "agent-sh",
    };
    let mut bytes = Vec::new();
    clap_complete::generate(kind, &mut Cli::command(), name, &mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match shell {
        ShellWord::Bash => {
            let function = text.split("()").next().unwrap_or_default().trim();
            let more = BASH.replace("VERBS", WITH_JOBS);
            let more = more.replace("GENERATED", function);
            text.replace("-o default agentsh\n", "-o default agent-sh\n") + &more
        }
        ShellWord::Fish => text + &FISH.replace("VERBS", &WITH_JOBS.replace('|', " ")),
        ShellWord::Zsh => with_jobs(&text),
    }
}

/// In zsh's script an argument called `job` or `jobs` is a job. Its helper stands before the last
/// lines, which call the completion itself.
fn with_jobs(text: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            let word = line.trim_start().trim_start_matches(['\'', '*', ':']);
            let names_job = word.starts_with("job ") || word.starts_with("jobs ");
            if names_job {
                line.replace(":_default", ":_agent-sh-jobs")
            } else {
                line.to_owned()
            }
        })
        .collect();
    let text = lines.join("\n") + "\n";
    match text.rfind("\nif [ \"$funcstack[1]\"") {
        Some(end) => format!("{}{ZSH}{}", &text[..end], &text[end..]),
        None => text + ZSH,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_completed_in_every_shell() {
        let zsh = script(ShellWord::Zsh);
        assert!(zsh.matches(":_agent-sh-jobs").count() >= 4, "{zsh}");
        assert!(zsh.contains("\n_agent-sh-jobs() {"));
        for (shell, word) in [
            (ShellWord::Bash, "show|logs|wait|kill"),
            (ShellWord::Fish, "from show logs wait kill"),
        ] {
            assert!(script(shell).contains(word));
        }
    }
}
