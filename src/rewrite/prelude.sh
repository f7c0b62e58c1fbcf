# shellcheck shell=sh
# The function in front of a rewritten text, for dash and other plain shells. It is called and works as that
# of prelude.bash, which explains the parameters and the placeholders; here stands what is different.
#
# A backslash stands in front of every command of the shell's own, so that it is no alias. There is no
# `builtin`, but dash takes no function with the name of a special builtin. Parameters cannot be sliced:
# `eval` is told the first ones by value, and shifts the others.
#
# @NAME@ is the shell that reads the text, with an `@` in front: `@dash`, or `@sh` where it is not known.
agent_sh() {
    # Save what was found, and stop tracing. The trace of this line itself goes to /dev/null.
    { \set -- "$?" "$-" "$@"; \set +x; } 2>/dev/null
    case $3 in
        # Never matches.
        @PLACES@) ;;
        # Set `$?`.
        -r) \return "$4";;
        # A subshell becomes a job. What the launcher prints redirects by `exec`, which needs nothing in
        # front of it here: @ says so.
        -c|-a)
            case $3 in
                -c) \eval "$(\exec @LAUNCHER@ @agent-sh-adopt ampersand @ "$4")";;
                *) \eval "$(\exec @LAUNCHER@ @agent-sh-adopt "$4" @ "$5")";;
            esac
            # Give `$?` back, but not under `set -e`.
            case $2 in *e*) \set -- 0 "$2";; esac
            # Trace again if that was on; the `return` is not to be seen in it.
            case $2 in *x*) \set -x;; esac
            { \return "$1"; } 2>/dev/null;;
        # A command to launch: bring the parameters into order.
        -w)
            case $5 in
                --) \eval "\shift 5; \set -- $1 '$2' $4 - \"\$@\"";;
                *) \eval "\shift 4; \set -- $1 '$2' $4 + \"\$@\"";;
            esac;;
        --) \eval "\shift 3; \set -- $1 '$2' ampersand - \"\$@\"";;
        *) \eval "\shift 2; \set -- $1 '$2' ampersand + \"\$@\"";;
    esac
    # There is no command: it was a variable that is empty.
    case $# in
        [0-4])
            case $2 in *x*) \set -x;; esac
            { \return 0; } 2>/dev/null;;
    esac
    # What kind of command is it? `command -v` prints `alias …` for an alias, a path for a program and the name
    # alone for what the shell runs itself; nothing but the `+` or `-` is left for what does not exist. Where no
    # alias is meant, they are removed in the child that asks.
    case $4$(case $4 in -) \command unalias -a;; esac; \command -v -- "$5") in
        +alias\ *) \eval "\shift 4; \set -- $1 '$2' $3 alias \"\$@\"";;
        ?*/*|?) \eval "\shift 4; \set -- $1 '$2' $3 file \"\$@\"";;
        *) \eval "\shift 4; \set -- $1 '$2' $3 shell \"\$@\"";;
    esac
    case $4 in
        # The launcher takes the place of this child. It is told what the shell's messages begin with; the line
        # is in ASKED, because the shell cannot tell it (`launcher::complaint`).
        file)
            if \command [ -x @LAUNCHER@ ]; then
                \eval "\shift 4; \set -- $3 \"@NAME@:\$0:\" \"\$@\""
                \exec @LAUNCHER@ @agent-sh-launch "$@"
            fi;;
        # What the shell runs itself: the subshell becomes the job.
        alias|shell)
            \eval "$(\eval "\shift 4; \set -- $3 @ \"\$@\""; \exec @LAUNCHER@ @agent-sh-adopt "$@")";;
    esac
    # The command runs in the shell that called, with `$?` as it was found, unless tracing would show that or
    # `set -e` end the shell.
    case $4 in
        # Read again, the word is an alias again; the arguments stay as they are.
        alias)
            \eval "\shift 5; case '$2' in *x*) \set -x;; *e*) ;; *) agent_sh -r $1;; esac; $5 \"\$@\"";;
        *)
            \eval "\shift 4; case '$2' in *x*) \set -x;; *e*) ;; *) agent_sh -r $1;; esac; \"\$@\"";;
    esac
}
