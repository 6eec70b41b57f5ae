# SPDX-License-Identifier: Apache-2.0
# Completion of snipara-sandbox (and of its older name rlm) for fish.

# True when the command line begins with one of these commands ("exec", "config show").
function __snipara_sandbox_command
    set -l words (commandline -opc)
    for command in $argv
        set -l wanted (string split ' ' -- $command)
        set -l last (math 1 + (count $wanted))
        if test (count $words) -ge $last; and test "$words[2..$last]" = "$command"
            return 0
        end
    end
    return 1
end

function __snipara_sandbox_word
    test (count (commandline -opc)) -eq $argv[1]
end

function __snipara_sandbox_settings
    set -l words (commandline -opc)
    $words[1] config show --origin 2>/dev/null | string replace -r '^[^\t]*\t([^=]*=).*' '$1'
end

# True for `logs` itself, not for the commands below it.
function __snipara_sandbox_logs
    __snipara_sandbox_command logs; and not __snipara_sandbox_command 'logs verify' 'logs replay'
end

function __snipara_sandbox_runs
    set -l words (commandline -opc)
    $words[1] logs --tail 50 2>/dev/null | string replace -r ' .*' '' | tail -n +2
end

function __snipara_sandbox_plugins
    set -l words (commandline -opc)
    $words[1] plugins list 2>/dev/null | string replace -r ' .*' '' | tail -n +2
end

function __snipara_sandbox_sessions
    set -l words (commandline -opc)
    $words[1] sessions list 2>/dev/null | string replace -r ' .*' '' | tail -n +2
end

for program in snipara-sandbox rlm
    complete -c $program -f

    complete -c $program -n '__snipara_sandbox_word 1' -a run \
        -d 'Answer a prompt with a model, tools and code in the sandbox'
    complete -c $program -n '__snipara_sandbox_word 1' -a agent -d 'Work on a task autonomously, under hard limits'
    complete -c $program -n '__snipara_sandbox_word 1' -a logs -d 'List recent runs, or show what happened in one'
    complete -c $program -n '__snipara_sandbox_word 1' -a exec -d 'Run Python, JavaScript or Bash in the sandbox'
    complete -c $program -n '__snipara_sandbox_word 1' -a repl -d 'Type Python, run in the sandbox'
    complete -c $program -n '__snipara_sandbox_word 1' -a sessions -d 'List, show, branch or move stored sessions'
    complete -c $program -n '__snipara_sandbox_word 1' -a mcp-serve \
        -d 'Serve MCP clients over standard input and output, or over HTTP'
    complete -c $program -n '__snipara_sandbox_word 1' -a init -d 'Write a commented configuration for a project'
    complete -c $program -n '__snipara_sandbox_word 1' -a doctor -d 'Check that the sandbox works here'
    complete -c $program -n '__snipara_sandbox_word 1' -a snipara-status -d 'Show which credential of Snipara is in force'
    complete -c $program -n '__snipara_sandbox_word 1' -a config -d 'Show every setting and where it comes from'
    complete -c $program -n '__snipara_sandbox_word 1' -a plugins -d 'List, describe or check plugins'
    complete -c $program -n '__snipara_sandbox_word 1' -a image -d 'List, bring or remove images of containers'
    complete -c $program -n '__snipara_sandbox_word 1' -a version -d 'Print the version'
    complete -c $program -n '__snipara_sandbox_word 1' -a help -d 'Tell how to use the program or one of its commands'
    complete -c $program -n '__snipara_sandbox_word 1' -s V -l version -d 'Print the version'
    complete -c $program -n '__snipara_sandbox_command config; and __snipara_sandbox_word 2' -a show
    complete -c $program -n '__snipara_sandbox_command plugins; and __snipara_sandbox_word 2' -a 'list info check'
    complete -c $program -n '__snipara_sandbox_command image; and __snipara_sandbox_word 2' -a 'list build prune'
    complete -c $program -n '__snipara_sandbox_command sessions; and __snipara_sandbox_word 2' \
        -a 'list show checkpoint rollback fork export import delete gc'
    complete -c $program -n '__snipara_sandbox_command help; and __snipara_sandbox_word 2' \
        -a 'run agent logs exec repl sessions mcp-serve init doctor snipara-status config plugins image version help'
    complete -c $program -n '__snipara_sandbox_command logs; and __snipara_sandbox_word 2' -a 'verify replay'
    complete -c $program -s h -l help -d 'Show this help'

    set -l configured "__snipara_sandbox_command run agent logs exec repl sessions mcp-serve doctor snipara-status 'config show' 'plugins list' 'plugins info' 'image list' 'image build' 'image prune'"
    complete -c $program -n $configured -l config -r -F -d 'Read this configuration file'
    complete -c $program -n $configured -l set -x -a '(__snipara_sandbox_settings)' -d 'Override a setting'
    complete -c $program -n $configured -s v -l verbose -d 'Show log messages of all levels'

    set -l limited '__snipara_sandbox_command exec repl'
    complete -c $program -n $limited -s e -l env -x -d 'Where to run: a backend instance'
    complete -c $program -n $limited -s p -l profile -x -a 'quick default analysis extended' -d Limits
    complete -c $program -n $limited -s t -l timeout -x -a '5s 30s 2m 5m 10m' -d 'Time for each piece of code'
    complete -c $program -n $limited -s s -l session -x -a '(__snipara_sandbox_sessions)' \
        -d 'Go on in the session of this name'

    complete -c $program -n '__snipara_sandbox_command exec' -F
    complete -c $program -n '__snipara_sandbox_command exec' -s c -l code -x -d 'Run this code'
    complete -c $program -n '__snipara_sandbox_command exec' -s l -l language -x -a 'python node bash' -d Language
    complete -c $program -n '__snipara_sandbox_command exec' -l report -d 'Print what isolation was applied'
    complete -c $program -n '__snipara_sandbox_command exec' -s q -l quiet -d 'Print the output only'

    set -l runs '__snipara_sandbox_command run agent'
    complete -c $program -n $runs -s m -l model -x -d 'Model to ask, as provider/model'
    complete -c $program -n $runs -s b -l backend -x -d 'Provider: a plugin entry'
    complete -c $program -n $runs -s e -l env -x -d 'Where code runs: a backend instance'
    complete -c $program -n $runs -l timeout -x -a '30s 2m 5m 10m' -d 'Time for the whole run'
    complete -c $program -n $runs -l cost-limit -x -d 'What the run may cost, in US dollars'
    complete -c $program -n $runs -l max-calls -x -d 'Model calls of the run'
    complete -c $program -n $runs -l check -r -F -d 'Python that validates the answer'
    complete -c $program -n $runs -l var -r -F -d 'Put a file into a variable'
    complete -c $program -n $runs -l resume -x -d 'Go on with a run'
    complete -c $program -n $runs -l show-config -d 'Print what the run would use'
    complete -c $program -n $runs -l events -d 'Print what happens as JSON lines'
    complete -c $program -n $runs -l tool-budget -x -d 'Tool calls of the run'
    complete -c $program -n $runs -l no-sub-calls -d 'Neither tools nor code may ask the model'
    complete -c $program -n '__snipara_sandbox_command run' -s d -l max-depth -x -d 'How deep completions go'
    complete -c $program -n '__snipara_sandbox_command run' -s t -l token-budget -x -d 'Tokens of the run'
    complete -c $program -n '__snipara_sandbox_command run' -s s -l system -x -d 'System message'
    complete -c $program -n '__snipara_sandbox_command run' -l sub-calls -d 'Let tools and code ask the model'
    complete -c $program -n '__snipara_sandbox_command run' -l max-sub-calls -x -d 'Sub-calls of one turn'
    complete -c $program -n '__snipara_sandbox_command agent' -s i -l max-iterations -x -d Iterations
    complete -c $program -n '__snipara_sandbox_command agent' -l budget -x -d 'Tokens of the run'
    complete -c $program -n '__snipara_sandbox_command agent' -l auto-context -d 'Retrieve context for the task'
    complete -c $program -n '__snipara_sandbox_command agent' -l no-auto-context -d 'Do not retrieve context'

    set -l json "__snipara_sandbox_command run agent logs exec doctor snipara-status help 'config show' 'plugins list' 'plugins info' 'plugins check' 'image list' 'image build' 'image prune' 'sessions list' 'sessions show' 'sessions checkpoint' 'sessions rollback' 'sessions fork' 'sessions import' 'sessions gc'"
    complete -c $program -n $json -l json -d 'Print JSON'
    complete -c $program -n "__snipara_sandbox_command 'config show'" -l origin -d 'Print one line for each value'

    complete -c $program -n '__snipara_sandbox_command sessions' -l principal -x -d 'Whose session'
    complete -c $program -n "__snipara_sandbox_command 'sessions list' 'sessions gc'" -s a -l all \
        -d 'Those of every principal'
    complete -c $program -n "__snipara_sandbox_command 'sessions gc'" -l idle -x -a '12h 168h 720h' \
        -d 'Remove what nobody used for so long'
    complete -c $program -n "__snipara_sandbox_command 'sessions checkpoint'" -l label -x -d 'What to call it'
    complete -c $program -n "__snipara_sandbox_command 'sessions fork' 'sessions export'" -l checkpoint -x \
        -d 'The checkpoint, by id or label'
    complete -c $program -n "__snipara_sandbox_command 'sessions export'" -s f -l force -d 'Replace a file'
    complete -c $program -n "__snipara_sandbox_command 'sessions export' 'sessions import'" -F
    complete -c $program -n "__snipara_sandbox_command 'sessions show' 'sessions checkpoint' 'sessions rollback' 'sessions fork' 'sessions export' 'sessions delete'" \
        -a '(__snipara_sandbox_sessions)'

    set -l serve '__snipara_sandbox_command mcp-serve'
    complete -c $program -n $serve -l http -d 'Serve many clients over HTTP'
    complete -c $program -n $serve -l listen -x -a '127.0.0.1:8000 [::1]:8000 0.0.0.0:8000' -d 'Where to listen'
    complete -c $program -n $serve -l path -x -a /mcp -d 'What the address ends with'
    complete -c $program -n $serve -l token-file -r -F -d 'Bearer tokens that clients must have'
    complete -c $program -n $serve -l tls-certificate -r -F -d 'Serve HTTPS with this certificate'
    complete -c $program -n $serve -l tls-key -r -F -d "The certificate's key"

    complete -c $program -n '__snipara_sandbox_command init' -F
    complete -c $program -n '__snipara_sandbox_command init' -s f -l force -d 'Replace an existing configuration'
    complete -c $program -n '__snipara_sandbox_command init' -s c -l client -x \
        -a 'claude-code claude-desktop cursor vscode' -d 'Also add this program to the file of an MCP client'
    complete -c $program -n '__snipara_sandbox_command init' -l mcp -d 'The same as --client claude-code'
    complete -c $program -n '__snipara_sandbox_command init' -l url -x -d 'The client connects to a server that runs'
    complete -c $program -n '__snipara_sandbox_command init' -l token-variable -x -d 'Environment variable with the token'
    complete -c $program -n '__snipara_sandbox_command init' -l no-snipara -d 'Leave out the Snipara service'

    complete -c $program -n '__snipara_sandbox_command logs' -s d -l dir -r -F -d 'Where the trajectories are'
    complete -c $program -n '__snipara_sandbox_command logs' -a '(__snipara_sandbox_runs)'
    complete -c $program -n __snipara_sandbox_logs -s n -l tail -x -d 'How many to list'
    complete -c $program -n __snipara_sandbox_logs -l full -d 'Show texts whole'
    complete -c $program -n "__snipara_sandbox_command 'logs verify'" -l expect -x -d 'The final hash that was noted'
    complete -c $program -n "__snipara_sandbox_command 'logs replay'" -s e -l env -x -d 'Where to run'
    complete -c $program -n "__snipara_sandbox_command 'logs replay'" -l var -r -F -d 'A text that the run began with'

    complete -c $program -n "__snipara_sandbox_command 'plugins info'" -a '(__snipara_sandbox_plugins)'
    complete -c $program -n "__snipara_sandbox_command 'plugins check'" -F

    complete -c $program -n "__snipara_sandbox_command 'image list' 'image build' 'image prune'" -s e -l env -x \
        -d 'Whose images: a backend instance'
    complete -c $program -n "__snipara_sandbox_command 'image build'" -s w -l with -r \
        -d 'A package for the image: a name, a wheel or a directory'
end
