# The function in front of a rewritten text, for zsh. It is called and works as that of prelude.bash, which
# explains the parameters and the placeholders; here stands what is different. zsh parses it fast enough to
# do without the `eval`.
agent_sh() {
    # Save what was found, and stop tracing. The trace of this line itself goes to /dev/null.
    { \builtin set -- "$?" "$-" "$@"; \builtin set +x; } 2>/dev/null
    case $3 in
        # Never matches.
        @PLACES@) ;;
        # Set `$?`.
        -r) \builtin return "$4";;
        # A subshell becomes a job. What the launcher prints redirects by `exec`, which in zsh lasts behind
        # `builtin`, too; so @builtin is asked for.
        -c|-a)
            case $3 in
                -c) \builtin eval "$(\builtin exec @LAUNCHER@ @agent-sh-adopt ampersand @builtin "$4")";;
                *) \builtin eval "$(\builtin exec @LAUNCHER@ @agent-sh-adopt "$4" @builtin "$5")";;
            esac
            # Give `$?` back, but not under `set -e`.
            case $2 in *e*) \builtin set -- 0 "$2";; esac
            # Trace again if that was on; the `return` is not to be seen in it.
            case $2 in *x*) \builtin set -x;; esac
            { \builtin return "$1"; } 2>/dev/null;;
        # A command to launch: bring the parameters into order.
        -w)
            case $5 in
                --) \builtin eval "\builtin shift 5; \builtin set -- $1 '$2' $4 - \"\$@\"";;
                *) \builtin eval "\builtin shift 4; \builtin set -- $1 '$2' $4 + \"\$@\"";;
            esac;;
        --) \builtin eval "\builtin shift 3; \builtin set -- $1 '$2' ampersand - \"\$@\"";;
        *) \builtin eval "\builtin shift 2; \builtin set -- $1 '$2' ampersand + \"\$@\"";;
    esac
    # There is no command: it was a variable that is empty.
    case $# in
        [0-4])
            case $2 in *x*) \builtin set -x;; esac
            { \builtin return 0; } 2>/dev/null;;
    esac
    # What kind of command is it? For a literal word zsh can tell without a fork, in the order in which it
    # looks itself.
    if [[ $4 = + ]]; then
        if [[ -o aliases ]] && \builtin alias -- "$5" >/dev/null 2>&1; then
            \builtin set -- "$1" "$2" "$3" alias "${@:5}"
        elif \builtin functions -- "$5" >/dev/null 2>&1; then
            \builtin set -- "$1" "$2" "$3" function "${@:5}"
        elif \builtin whence -p -- "$5" >/dev/null 2>&1; then
            \builtin set -- "$1" "$2" "$3" file "${@:5}"
        fi
    fi
    # Otherwise `whence -w` prints `NAME: KIND`. No alias is meant: they are removed in the child that asks.
    case $4 in
        +|-)
            \builtin set -- "$1" "$2" "$3" "$(\builtin unalias -a; \builtin whence -w -- "$5")" "${@:5}"
            \builtin set -- "$1" "$2" "$3" "${4##*: }" "${@:5}";;
    esac
    # Nothing has that name, and the user has a function for that case: the shell is to call it.
    case $4$5 in
        none*/*) ;;
        none*)
            if \builtin functions command_not_found_handler >/dev/null; then
                \builtin set -- "$1" "$2" "$3" missing "${@:5}"
            fi;;
    esac
    case $4 in
        # What the shell runs itself: the subshell becomes the job.
        alias|function|builtin)
            \builtin eval "$(\builtin exec @LAUNCHER@ @agent-sh-adopt "$3" @builtin "${@:5}")";;
        missing) ;;
        # A program, or nothing at all, which the launcher has reported in the shell's own words: the launcher
        # takes the place of this child. zsh has no BASHPID; that side of the test is always true here.
        *)
            if [[ -x @LAUNCHER@ && ${BASHPID-} != "$$" ]]; then
                # Where the command stands, for such a message: zsh names the function that calls, with the
                # line in it, or else its script and the line there (`launcher::complaint`).
                if [[ ${#funcstack} -gt 1 ]]; then
                    \builtin set -- "$1" "$2" "$3" "@zsh:${functrace[@]:0:1}" "${@:5}"
                else
                    \builtin set -- "$1" "$2" "$3" "@zsh:${ZSH_SCRIPT:-zsh}:${${functrace[@]:0:1}##*:}" "${@:5}"
                fi
                \builtin exec @LAUNCHER@ @agent-sh-launch "$3" "$4" "${@:5}"
            fi;;
    esac
    # The command runs in the shell that called, with `$?` as it was found, unless tracing would show that or
    # `set -e` end the shell.
    if [[ $4 = alias ]]; then
        case $2 in *x*) \builtin set -x;; *e*) ;; *) agent_sh -r "$1";; esac
        # Read again, the word is an alias again; the arguments stay as they are.
        \builtin eval "$5 \"\${@:6}\""
    else
        case $2 in *x*) \builtin set -x;; *e*) ;; *) agent_sh -r "$1";; esac
        "${@:5}"
    fi
}
