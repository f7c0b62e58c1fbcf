# shellcheck shell=bash
# The function in front of a rewritten text, for bash. The build joins this file to one line (join.rs says
# how it must be written), so that the lines of the text behind it keep their numbers.
#
# What the rewritten text calls:
#
#     agent_sh CMD ARG…            start a job; CMD may be an alias
#     agent_sh -- CMD ARG…         start a job; CMD was quoted or comes from a variable: no alias
#     agent_sh -w ASKED [--] CMD…  the same, with more to tell the launcher than that it was an `&`
#     agent_sh -c LABEL            make the subshell that calls a job of that name
#     agent_sh -a ASKED LABEL      the same, with more to tell
#     agent_sh -r STATUS           set `$?`; only the function itself calls it so
#
# ASKED is one word (`plan::asked`). The build or the rewrite puts in: @LAUNCHER@, the path of the launcher,
# quoted; @PLACES@, the list of insertions that a reader of the rewritten text needs to undo them.
#
# A variable would be seen by the function or program that runs in the end. So everything is kept in the
# positional parameters:
#
#     1  the `$?` that was found     2  the `$-` that was found     3  ASKED
#     4  `+` if an alias may be meant, else `-`; later what kind of command it is
#     5  the command, with its arguments behind it
#
# `\builtin` stands in front of every command of the shell's own: a quoted word is no alias, and behind
# `builtin` no function is looked for.
#
agent_sh() {
    # Save what was found, and stop tracing. The trace of this line itself goes to /dev/null.
    { \builtin set -- "$?" "$-" "$@"; \builtin set +x; } 2>/dev/null
    # Up to END, the text is an argument of `eval`: it is parsed by the child that runs it, not by the shell
    # before it can start anything. To parse all this takes bash as long as the rest of a short command does.
    # BEGIN eval
    case $3 in
        # Never matches.
        @PLACES@) ;;
        # `return` is the only way to set `$?` without a trace, a fork or an external program.
        -r) \builtin return "$4";;
        # A subshell becomes a job: the launcher registers it and prints what it has to do. `exec` keeps the
        # launcher a direct child of this shell, which it finds as its parent. What it prints redirects by
        # `exec`; in bash that lasts only behind `command`, so @command is asked for.
        -c|-a)
            case $3 in
                -c) \builtin eval "$(\builtin exec @LAUNCHER@ @agent-sh-adopt ampersand @command "$4")";;
                *) \builtin eval "$(\builtin exec @LAUNCHER@ @agent-sh-adopt "$4" @command "$5")";;
            esac
            # Give `$?` back, so that `false; a $? | b &` still sees 1; but under `set -e` that would end
            # the shell.
            case $2 in *e*) \builtin set -- 0 "$2";; esac
            # Trace again if that was on; the `return` is not to be seen in it.
            case $2 in *x*) \builtin set -x;; esac
            { \builtin return "$1"; } 2>/dev/null;;
        # A command to launch: bring the parameters into the order above.
        -w)
            case $5 in
                --) \builtin eval "\builtin shift 5; \builtin set -- $1 '$2' $4 - \"\$@\"";;
                *) \builtin eval "\builtin shift 4; \builtin set -- $1 '$2' $4 + \"\$@\"";;
            esac;;
        --) \builtin eval "\builtin shift 3; \builtin set -- $1 '$2' ampersand - \"\$@\"";;
        *) \builtin eval "\builtin shift 2; \builtin set -- $1 '$2' ampersand + \"\$@\"";;
    esac
    # There is no command: it was a variable that is empty. The shell does nothing then, successfully.
    case $# in
        [0-4])
            case $2 in *x*) \builtin set -x;; esac
            { \builtin return 0; } 2>/dev/null;;
    esac
    # What kind of command is it? For a literal word bash can tell without a fork, in the order in which it
    # looks itself: alias, function, program. What is left is a builtin, a keyword or nothing.
    if [[ $4 = + ]]; then
        if [[ ":${BASHOPTS-}:" = *:expand_aliases:* && -n ${BASH_ALIASES[$5]+a} ]]; then
            \builtin set -- "$1" "$2" "$3" alias "${@:5}"
        elif \builtin declare -F -- "$5" >/dev/null 2>&1; then
            \builtin set -- "$1" "$2" "$3" function "${@:5}"
        elif \builtin type -P -- "$5" >/dev/null 2>&1; then
            \builtin set -- "$1" "$2" "$3" file "${@:5}"
        fi
    fi
    # Otherwise `type -t` knows, which has to print. No alias is meant: they are removed in the child that asks.
    case $4 in
        +|-) \builtin set -- "$1" "$2" "$3" "$(\builtin unalias -a; \builtin type -t -- "$5")" "${@:5}";;
    esac
    # Nothing has that name, and the user has a function for that case: the shell is to call it.
    case $4:$5 in
        *:*/*|alias:*|function:*|builtin:*|file:*) ;;
        *)
            if \builtin declare -F command_not_found_handle >/dev/null; then
                \builtin set -- "$1" "$2" "$3" missing "${@:5}"
            fi;;
    esac
    case $4 in
        # What the shell runs itself: the subshell becomes the job.
        alias|function|builtin)
            \builtin eval "$(\builtin exec @LAUNCHER@ @agent-sh-adopt "$3" @command "${@:5}")";;
        missing) ;;
        # A program, or nothing at all, which the launcher has reported in the shell's own words: the launcher
        # takes the place of this child. Never that of the shell itself.
        *)
            if [[ -x @LAUNCHER@ && ${BASHPID-} != "$$" ]]; then
                # Where the command stands, for such a message: bash names the file of the function that
                # calls, or the shell (`launcher::complaint`).
                \builtin set -- "$1" "$2" "$3" "@bash:${BASH_SOURCE[1]:-$0}:${BASH_LINENO[0]}" "${@:5}"
                \builtin exec @LAUNCHER@ @agent-sh-launch "$3" "$4" "${@:5}"
            fi;;
    esac
    # END eval
    # The command runs in the shell that called. An `eval` around this would show in a trace. Before it, `$?`
    # is as it was found, unless tracing would show that or `set -e` end the shell.
    if [[ $4 = alias ]]; then
        case $2 in *x*) \builtin set -x;; *e*) ;; *) agent_sh -r "$1";; esac
        # Read again, the word is an alias again; the arguments stay as they are.
        \builtin eval "$5 \"\${@:6}\""
    else
        case $2 in *x*) \builtin set -x;; *e*) ;; *) agent_sh -r "$1";; esac
        "${@:5}"
    fi
}
