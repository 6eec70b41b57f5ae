# SPDX-License-Identifier: Apache-2.0
"""What the shell is taught before it runs any code of the user's.

The shell is an interactive one without a terminal, because bash goes back to its prompt from wherever it is only there:
SIGINT unwinds every loop, function and `source`, and all variables stay as they are. That is how interrupts work, and
also how `exit` and `set -e` end an execution and not the session: they send SIGINT to the shell itself.

Its own standard streams are /dev/null (nobody sees prompts and the like); an execution gets others by redirection,
which bash takes back in the end, whatever the code did to them.

Code finds two names taken: `exit` is a function that ends the execution, `trap` one that keeps what we need behind the
actions of the user's for EXIT and ERR. A trap for SIGINT lasts until the end of its execution.
"""

# Descriptors of the shell. Code sees none of them but PAGE (and those of tool calls, when it may call tools): what a
# redirection closes bash opens again after the execution, and its own copies are close-on-exec.
OUT = 50  # standard output and error of executions
ERR = 51
PAGE = 52  # a file: the driver writes there what is to be run, the shell what it tells of that, or the state it leaves
DONE = 53  # a pipe: the shell has written
ERRORS = 54  # what bash says of code that it can't parse
REQUEST = 55  # tool calls: the request, the answer's first line, the file with its text,
ANSWER = 56
TEXT = 57
TOKEN_READ = 58  # and a pipe with one byte in it, for whoever calls
TOKEN_WRITE = 59

STOP_SIGNAL = 63  # as SIGINT, where the code has a trap for that one
FUNCTION_DEPTH = 4096  # what fits into a stack of 8 MiB: without a limit bash crashes

# Every name begins with __sbx_, so that the code's own are never in the way; `builtin` stands where the code may have a
# function of the same name.
TEXT_OF_PRELUDE = r"""
builtin set +H +o history
builtin unset HISTFILE MAILCHECK PROMPT_COMMAND
builtin shopt -s extglob
builtin shopt -u checkwinsize promptvars
builtin export -n PS1
PS1= PS2= PS4='+ ' BASH_ARGV0=bash FUNCNEST=__DEPTH__

# Ends the execution with $__sbx_status: back to the prompt.
__sbx_leave() {
        builtin local "__sbx_action=$__sbx_exit"
        __sbx_exit=
        builtin eval "$__sbx_action"
        __sbx_unwind
}
__sbx_unwind() {
        # Not from a trap while bash waits at its prompt: it would find its input buffer as a broken-off read() left it.
        [[ -v __sbx_ran ]] || builtin return 0
        builtin trap - INT
        builtin kill -INT "$$"
        while :; do :; done
}
exit() {
        builtin local "__sbx_last=$?"
        [[ $BASHPID == "$$" ]] || builtin exit "${1-$__sbx_last}"
        __sbx_status=${1-$__sbx_last}
        case ${__sbx_status#[-+]} in
        '' | *[!0-9]*)
                builtin printf 'bash: exit: %s: numeric argument required\n' "$__sbx_status" >&2
                __sbx_status=2 ;;
        *) ((__sbx_status = ${__sbx_status%%[0-9]*}10#${__sbx_status#[-+]} & 255)) || : ;;
        esac
        __sbx_leave
}
# `set -e` would end the shell: whenever it is about to, the ERR trap comes first. An action of the user's for that trap
# stands between these two.
__sbx_note() {
        builtin local "__sbx_last=$?"
        [[ -o errexit && $BASHPID == "$$" ]] || builtin return "$__sbx_last"
        builtin set +e
        __sbx_line=${BASH_LINENO[0]} __sbx_command=$BASH_COMMAND
        __sbx_status=$__sbx_last __sbx_errexit=1 __sbx_failed=1
        builtin return "$__sbx_last"
}
__sbx_fall() {
        [[ ! -v __sbx_failed ]] || __sbx_leave
}
# Keeps those of ours behind the user's, which belong to what `exit` ends.
trap() {
        if [[ $BASHPID != "$$" || -v __sbx_restoring || $# -lt 2 || $1 == -[lp]* ]]; then
                builtin trap "$@"
                builtin return
        fi
        [[ $1 != -- ]] || builtin shift
        builtin trap -- "$@" || builtin return
        builtin local "__sbx_action=$1" __sbx_name
        builtin shift
        [[ $__sbx_action != - ]] || __sbx_action=
        for __sbx_name; do
                case $__sbx_name in
                [Ee][Xx][Ii][Tt] | 0)
                        __sbx_exit=$__sbx_action
                        builtin trap __sbx_rescue EXIT ;;
                [Ee][Rr][Rr]) builtin trap "__sbx_note; $__sbx_action"$'\n'"__sbx_fall" ERR ;;
                esac
        done
}
# What ends the shell all the same (`set -e` at an unset variable, `builtin exit`): another one goes on with this.
__sbx_rescue() {
        builtin local "__sbx_last=$?" "__sbx_action=$__sbx_exit"
        [[ ! -o errexit ]] || __sbx_errexit=1
        builtin set +eux
        __sbx_exit=
        builtin eval "$__sbx_action"
        __sbx_status=$__sbx_last
        {
                builtin printf '#sbx\n__sbx_restoring=1\nbuiltin cd -- %q\n' "$PWD"
                builtin unset -v __sbx_last __sbx_action
                builtin declare -p
                builtin declare -f
                builtin declare -F
                builtin shopt -p
                builtin set +o
                builtin trap -p
                builtin umask -p
                builtin alias -p
                builtin printf '\n#sbx'
        } >&__PAGE__ 2>/dev/null
}
# For portable states, with the positional parameters: what there is. Fields begin with a letter and end with NUL.
__sbx_rest() {
        builtin printf 'o'
        builtin set +o
        builtin printf '\0s'
        builtin shopt -p
        builtin printf '\0a'
        builtin alias -p
        builtin printf '\0u'
        builtin umask
        builtin printf '\0d%s\0f' "$PWD"
        builtin compgen -A function || builtin :
        builtin printf '\0F'
        builtin declare -F
        builtin printf '\0p'
        builtin declare -p
        builtin printf '\0j'
        builtin jobs -rl
        builtin jobs -sl
        builtin printf '\0'
        (($# == 0)) || builtin printf '1%s\0' "$@"
}
# Variables (-p) or functions (-f) of these names, each in a field.
__sbx_items() {
        builtin local "__sbx_how=$1" __sbx_item
        builtin shift
        for __sbx_item; do
                builtin printf '%s ' "$__sbx_item"
                builtin declare "$__sbx_how" "$__sbx_item" || builtin :
                builtin printf '\0'
        done
}
# One variable as `declare -p` has it, or the beginning of it. $1: a letter for the driver.
__sbx_show() {
        builtin local -n "__sbx_it=$2"
        if ((${#__sbx_it[@]} > 10000)); then
                builtin local -a __sbx_part
                __sbx_part=("${__sbx_it[@]:0:100}")
                builtin printf '%s%s %s\n' "$1" "$2" "${#__sbx_it[@]}"
                builtin declare -p __sbx_part
        elif ((${#__sbx_it} > 262144)); then
                builtin local __sbx_part
                __sbx_part=${__sbx_it:0:65536}
                builtin printf '%s%s %s\n' "$1" "$2" "${#__sbx_it}"
                builtin declare -p __sbx_part
        else
                builtin printf '%s%s 0\n' "$1" "$2"
                builtin declare -p "$2"
        fi
        builtin printf '\0'
}
# Into a file, because bash writes each line by itself, and a pipe would wake the driver each time. Fields end with NUL
# and none is empty: two of them are the beginning of all this, and the end.
__sbx_tell() {
        builtin printf '\0\0%s\0s%s\0r%s\0l%s\0c%s\0e%s\0n' "$1" "$2" "${__sbx_ran-}" "${__sbx_line-}" \
                "${__sbx_command:0:4096}" "${__sbx_errexit-}"
        builtin compgen -v
        builtin printf '\0'
        ((${#result[@]} == 0)) || __sbx_show v result
        for __sbx_name in "${__sbx_shown[@]}"; do
                __sbx_show b "$__sbx_name"
        done
        builtin printf '\0.\0'
}
# After each execution. Between two of them `set -e` is off, SIGINT has no trap, and $? is what the code left.
__sbx_done() {
        [[ ! -o errexit ]] || { builtin set +e; __sbx_errexit=1; }
        builtin local - "__sbx_last=${__sbx_status-$2}"
        builtin set +ux
        builtin trap - INT
        [[ ! -v TMOUT ]] || builtin unset -v TMOUT
        __sbx_tell "$1" "$__sbx_last" >&__PAGE__
        builtin printf '%s\n' "$1" >&__DONE__
        builtin unset -v __sbx_status __sbx_ran __sbx_line __sbx_command __sbx_errexit __sbx_failed __sbx_shown \
                __sbx_name __sbx_restoring
        builtin return "$__sbx_last"
}
__sbx_call() {
        if ! { builtin printf '' >&__REQUEST__; } 2>/dev/null; then
                builtin printf 'bash: %s: no tools can be called from this execution: %s\n' "$1" \
                        'it is not part of a run, or code mode is off (setting code_mode)' >&2
                builtin return 1
        fi
        builtin local __sbx_text
        builtin read -r -N 1 -u __TOKEN_READ__ __sbx_text || builtin return 1
        builtin printf '%s\0' "$#" "$@" >&__REQUEST__
        builtin read -r -u __ANSWER__ __sbx_text || __sbx_text=1
        if [[ $__sbx_text == 0 ]]; then
                IFS= builtin read -r -d '' __sbx_text </proc/self/fd/__TEXT__
                builtin printf x >&__TOKEN_WRITE__
                [[ -z $__sbx_text ]] || builtin printf '%s\n' "$__sbx_text"
                builtin return 0
        fi
        IFS= builtin read -r -d '' __sbx_text </proc/self/fd/__TEXT__
        builtin printf x >&__TOKEN_WRITE__
        builtin printf 'bash: %s: %s\n' "$1" "$__sbx_text" >&2
        builtin return 1
}
call_tool() { __sbx_call call_tool "$@"; }
llm_query() { __sbx_call llm_query "$@"; }
tools() { __sbx_call tools "$@"; }
FINAL() { __sbx_call FINAL "$@"; }
FINAL_VAR() {
        if [[ $# != 1 || ! $1 =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || ! [[ -v $1 ]]; then
                builtin printf 'bash: FINAL_VAR: %s: not a variable of this session; %s\n' "${1-}" \
                        'FINAL takes a value itself' >&2
                builtin return 1
        fi
        __sbx_call FINAL_VAR "$1" "${!1}"
}
__sbx_exit=
builtin readonly -f exit trap __sbx_leave __sbx_unwind __sbx_note __sbx_fall __sbx_rescue __sbx_rest __sbx_items \
        __sbx_show __sbx_tell __sbx_done __sbx_call
builtin declare -ft trap
builtin trap $'__sbx_note; \n__sbx_fall' ERR
builtin trap __sbx_rescue EXIT
builtin trap __sbx_unwind __STOP__
builtin set -E
"""


def text():
    """The prelude with its numbers in it."""
    numbers = {
        "DEPTH": FUNCTION_DEPTH,
        "PAGE": PAGE,
        "DONE": DONE,
        "REQUEST": REQUEST,
        "ANSWER": ANSWER,
        "TEXT": TEXT,
        "TOKEN_READ": TOKEN_READ,
        "TOKEN_WRITE": TOKEN_WRITE,
        "STOP": STOP_SIGNAL,
    }
    told = TEXT_OF_PRELUDE
    for name, number in numbers.items():
        told = told.replace(f"__{name}__", str(number))
    return told.encode("ascii")
