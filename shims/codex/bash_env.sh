# agent-sh: made by 'agent-sh setup codex', removed by its --undo.
#
# Codex calls the login shell by its path. Bash reads this file (BASH_ENV) before a command given with -c, and
# hands the same command to agent-sh, which calls bash again; that one finds a supervisor and goes on.
if [ -n "${BASH_EXECUTION_STRING+set}" ] && [ -z "${AGENT_SH_SUPERVISOR-}" ] && [ -x @SHELL@ ]; then
    case $- in
    *[!hBc]*) ;; # called with options that could not be handed on
    *)
        if shopt -q login_shell; then
            exec @SHELL@ -l -c "$BASH_EXECUTION_STRING" "$0" "$@"
        fi
        exec @SHELL@ -c "$BASH_EXECUTION_STRING" "$0" "$@"
        ;;
    esac
fi
