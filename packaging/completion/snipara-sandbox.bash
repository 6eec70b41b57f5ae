# SPDX-License-Identifier: Apache-2.0
# Completion of snipara-sandbox (and of its older name rlm) for bash.
# shellcheck shell=bash

# Adds to COMPREPLY the words that begin with what is being typed.
_snipara_sandbox_words() {
        local word
        while IFS='' read -r word; do
                COMPREPLY+=("$word")
        done < <(compgen -W "$1" -- "$current")
}

_snipara_sandbox_files() {
        local word
        compopt -o filenames 2>/dev/null
        while IFS='' read -r word; do
                COMPREPLY+=("$word")
        done < <(compgen "$@" -- "$current")
}

_snipara_sandbox_runs() {
        _snipara_sandbox_words "$("$program" logs --tail 50 2>/dev/null | sed -n '1d; s/ .*//p')"
}

_snipara_sandbox_sessions() {
        _snipara_sandbox_words "$("$program" sessions list 2>/dev/null | sed -n '1d; s/ .*//p')"
}

# The value of the option before the word; false when that option takes none.
_snipara_sandbox_value() {
        case $1 in
        --language | -l) _snipara_sandbox_words 'python node bash' ;;
        --profile | -p) _snipara_sandbox_words 'quick default analysis extended' ;;
        --timeout | -t) _snipara_sandbox_words '5s 30s 2m 5m 10m' ;;
        --config) _snipara_sandbox_files -f ;;
        --set)
                compopt -o nospace 2>/dev/null
                _snipara_sandbox_words "$("$program" config show --origin 2>/dev/null |
                        sed -n 's/^[^\t]*\t\([^=]*=\).*/\1/p')"
                ;;
        --check | --var | --token-file | --tls-certificate | --tls-key) _snipara_sandbox_files -f ;;
        --listen) _snipara_sandbox_words '127.0.0.1:8000 [::1]:8000 0.0.0.0:8000' ;;
        --dir) _snipara_sandbox_files -d ;;
        -d)
                [[ ${COMP_WORDS[1]} == logs ]] && _snipara_sandbox_files -d
                return 0
                ;;
        --client) _snipara_sandbox_words 'claude-code claude-desktop cursor vscode' ;;
        -c)
                [[ ${COMP_WORDS[1]} == init ]] && _snipara_sandbox_words 'claude-code claude-desktop cursor vscode'
                return 0
                ;;
        --session | -s)
                [[ ${COMP_WORDS[1]} == exec || ${COMP_WORDS[1]} == repl ]] && _snipara_sandbox_sessions
                return 0
                ;;
        --idle) _snipara_sandbox_words '12h 168h 720h' ;;
        --code | --env | -e | --label | --checkpoint | --principal | --model | -m | --backend | -b | --cost-limit | --max-calls | --resume | \
                --tail | -n | --expect | --max-depth | --token-budget | --tool-budget | --system | --max-sub-calls | --max-iterations | -i | \
                --budget | --url | --token-variable | --path) ;;
        *) return 1 ;;
        esac
}

_snipara_sandbox() {
        local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
        local command=${COMP_WORDS[1]} configured='--config --set --verbose --help' options=
        local run='--model --backend --env --timeout --cost-limit --max-calls --check --var --resume --show-config --json --events'
        local sessions='list show checkpoint rollback fork export import delete gc'
        COMPREPLY=()

        if ((COMP_CWORD == 1)); then
                _snipara_sandbox_words 'run agent logs exec repl sessions mcp-serve init doctor snipara-status config plugins image version help --help --version'
                return
        fi
        case $command in
        config | plugins | image | sessions)
                if ((COMP_CWORD == 2)); then
                        [[ $command == config ]] && _snipara_sandbox_words 'show'
                        [[ $command == plugins ]] && _snipara_sandbox_words 'list info check'
                        [[ $command == image ]] && _snipara_sandbox_words 'list build prune'
                        [[ $command == sessions ]] && _snipara_sandbox_words "$sessions"
                        return
                fi
                command+=" ${COMP_WORDS[2]}"
                ;;
        logs)
                if ((COMP_CWORD == 2)) && [[ $current != -* ]]; then
                        _snipara_sandbox_words 'verify replay'
                        _snipara_sandbox_runs
                        return
                fi
                [[ ${COMP_WORDS[2]} == verify || ${COMP_WORDS[2]} == replay ]] && command+=" ${COMP_WORDS[2]}"
                ;;
        help)
                if [[ $current != -* ]]; then
                        _snipara_sandbox_words 'run agent logs exec repl sessions mcp-serve init doctor snipara-status config plugins image version help'
                        [[ $previous == config ]] && COMPREPLY=() && _snipara_sandbox_words 'show'
                        [[ $previous == plugins ]] && COMPREPLY=() && _snipara_sandbox_words 'list info check'
                        [[ $previous == image ]] && COMPREPLY=() && _snipara_sandbox_words 'list build prune'
                        [[ $previous == sessions ]] && COMPREPLY=() && _snipara_sandbox_words "$sessions"
                        [[ $previous == logs ]] && COMPREPLY=() && _snipara_sandbox_words 'verify replay'
                        return
                fi
                ;;
        esac
        _snipara_sandbox_value "$previous" && return

        case $command in
        run) options="$run --max-depth --token-budget --tool-budget --system --sub-calls --no-sub-calls --max-sub-calls $configured" ;;
        agent) options="$run --max-iterations --budget --tool-budget --auto-context --no-auto-context --no-sub-calls $configured" ;;
        logs) options="--dir --tail --full --json $configured" ;;
        'logs verify') options="--dir --expect --json $configured" ;;
        'logs replay') options="--dir --env --var --json $configured" ;;
        exec) options="--code --env --language --profile --timeout --session --json --report --quiet $configured" ;;
        repl) options="--env --profile --timeout --session $configured" ;;
        'sessions list') options="--all --principal --json $configured" ;;
        'sessions show' | 'sessions rollback' | 'sessions import') options="--principal --json $configured" ;;
        'sessions checkpoint') options="--label --principal --json $configured" ;;
        'sessions fork') options="--checkpoint --principal --json $configured" ;;
        'sessions export') options="--checkpoint --force --principal $configured" ;;
        'sessions delete') options="--principal $configured" ;;
        'sessions gc') options="--idle --all --principal --json $configured" ;;
        mcp-serve) options="--http --listen --path --token-file --tls-certificate --tls-key $configured" ;;
        init) options='--force --client --mcp --url --token-variable --no-snipara --help' ;;
        doctor | snipara-status) options="--json $configured" ;;
        'config show') options="--json --origin $configured" ;;
        'plugins list') options="--json $configured" ;;
        'plugins info') options="--json $configured" ;;
        'plugins check') options='--json --help' ;;
        'image list' | 'image prune') options="--env --json $configured" ;;
        'image build') options="--env --with --json $configured" ;;
        version) options='--help' ;;
        help) options='--json --help' ;;
        esac
        if [[ $current == -* ]]; then
                _snipara_sandbox_words "$options"
                return
        fi
        case $command in
        exec | 'plugins check') _snipara_sandbox_files -f ;;
        init) _snipara_sandbox_files -d ;;
        'logs verify' | 'logs replay') _snipara_sandbox_runs ;;
        'sessions export' | 'sessions import')
                if ((COMP_CWORD == 3)); then _snipara_sandbox_sessions; else _snipara_sandbox_files -f; fi
                ;;
        'sessions '*) _snipara_sandbox_sessions ;;
        'plugins info')
                _snipara_sandbox_words "$("$program" plugins list 2>/dev/null | sed -n '1d; s/ .*//p')"
                ;;
        esac
}
complete -F _snipara_sandbox snipara-sandbox rlm
