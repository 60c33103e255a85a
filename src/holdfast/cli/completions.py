"""Completion in a shell: the scripts, and the answer to what could follow a command line.

Each script hands the line up to the cursor to ``holdfast`` in an environment variable, and gets one value a
line, with its help behind a tab.
"""

import sys
from typing import Final

import click
from click.shell_completion import ShellComplete, split_arg_string

from holdfast.errors import HoldfastError

_BASH: Final = r"""
_holdfast_complete() {
    # Bash breaks words at @, : and =, and wants only what follows the last of them.
    local line="${COMP_LINE:0:$COMP_POINT}" word before IFS=$'\n'
    word="${line##*[[:space:]]}"
    before="${word%"${word##*[@:=]}"}"
    COMPREPLY=()
    for value in $(_HOLDFAST_COMPLETE="$line" "$1" 2>/dev/null); do
        value="${value%%$'\t'*}"
        COMPREPLY+=("${value#"$before"}")
    done
}
complete -o nosort -o default -F _holdfast_complete holdfast 2>/dev/null ||
    complete -o default -F _holdfast_complete holdfast
"""
_ZSH: Final = r"""
_holdfast_complete() {
    local -a found
    local line
    for line in "${(@f)$(_HOLDFAST_COMPLETE="${(pj: :)words[1,CURRENT]}" "$words[1]" 2>/dev/null)}"; do
        [[ -n $line ]] && found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    if (( $#found )); then
        _describe -V holdfast found
    else
        _files
    fi
}
compdef _holdfast_complete holdfast
"""
_FISH: Final = r"""
function __holdfast_complete
    set -lx _HOLDFAST_COMPLETE (commandline -cp)
    holdfast 2>/dev/null
end
complete -c holdfast -k -a '(__holdfast_complete)'
"""
SCRIPTS: Final = {"bash": _BASH.lstrip("\n"), "zsh": _ZSH.lstrip("\n"), "fish": _FISH.lstrip("\n")}


def print_completions(app: click.Command, line: str) -> None:
    """Print what could follow this line. An error is no output: it would appear in the middle of typing."""
    words = split_arg_string(line)
    incomplete = words.pop() if words and not line[-1:].isspace() else ""
    try:
        found = ShellComplete(app, {}, "holdfast", "").get_completions(words[1:], incomplete)
    except (HoldfastError, click.ClickException, OSError):
        return
    lines = [f"{item.value}\t{item.help or ''}\n" for item in found if item.type == "plain"]
    sys.stdout.writelines(lines)
