"""`umiak completion bash | zsh | fish`: prints what teaches a shell to complete umiak's verbs, flags and files."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby

from umiak.cli.arguments import Parser
from umiak.cli.commands import Command, Option, commands

SHELLS = ("bash", "zsh", "fish")
ABOUT = """bash:  eval "$(umiak completion bash)"            in ~/.bashrc
zsh:   eval "$(umiak completion zsh)"             in ~/.zshrc, after compinit
fish:  umiak completion fish | source             in ~/.config/fish/config.fish"""


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="umiak completion",
        description="Print a script that completes verbs, flags and files.",
        epilog=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    return parser


def run(argv: list[str]) -> int:
    shell = _parser().parse_args(argv).shell
    found = list(commands())
    print({"bash": bash, "zsh": zsh, "fish": fish}[shell](found))
    return 0


def bash(found: Sequence[Command]) -> str:
    words = (
        f"{_word(e)}) _umiak_words {_quoted(_names(e))} {_quoted(e.choices)} {int(e.path)} ;;" for e in _leaves(found)
    )
    return f"""# umiak in bash
_umiak() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} verb=${{COMP_WORDS[1]}} first=2
    # bash takes --flag=value for three words.
    if [[ $cur == "=" ]]; then cur=; elif [[ $prev == "=" ]]; then prev=${{COMP_WORDS[COMP_CWORD-2]}}; fi
    if (( COMP_CWORD == 1 )); then
        COMPREPLY=($(compgen -W {_quoted(_below(found, ()))} -- "$cur"))
        return
    fi
    case $verb in
{_lines(f"{words[0]}) _umiak_below {_quoted(_below(found, words))} && return ;;" for words in _groups(found))}
    esac
    case "$verb $prev" in
{_lines(_values(found, 'COMPREPLY=($(compgen -W "{}" -- "$cur"))', "_umiak_files"))}
    esac
    case $verb in
{_lines(words)}
    esac
}}
_umiak_below() {{
    if (( COMP_CWORD == 2 )); then COMPREPLY=($(compgen -W "$1" -- "$cur")); return 0; fi
    verb="$verb ${{COMP_WORDS[2]}}" first=3
    return 1
}}
_umiak_words() {{
    if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "$1" -- "$cur"))
    elif [[ -n $2 ]]; then if (( COMP_CWORD == first )); then COMPREPLY=($(compgen -W "$2" -- "$cur")); fi
    elif (( $3 )); then _umiak_files; fi
}}
_umiak_files() {{
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}}
complete -F _umiak umiak"""


def zsh(found: Sequence[Command]) -> str:
    words = (
        f"{_word(e)}) _umiak_words {_quoted(e.choices)} {int(e.path)} {_option_texts(e)} ;;" for e in _leaves(found)
    )
    return f"""#compdef umiak
_umiak() {{
    local verb=$words[2] prev=$words[CURRENT-1] first=3
    local -a below
    if (( CURRENT == 2 )); then
        below=({_described(found, ())})
        _describe -t verbs verb below
        return
    fi
    case $verb in
{_lines(f"{words[0]}) below=({_described(found, words)}) ;;" for words in _groups(found))}
    esac
    if (( $#below )); then
        if (( CURRENT == 3 )); then _describe -t verbs verb below; return; fi
        verb="$verb $words[3]" first=4
    fi
    if [[ $PREFIX == --*=* ]]; then prev=${{PREFIX%%=*}}; compset -P '*='; fi
    case "$verb $prev" in
{_lines(_values(found, "compadd -- {}", "_files"))}
    esac
    case $verb in
{_lines(words)}
    esac
}}
_umiak_words() {{
    local choices=$1 files=$2
    shift 2
    local -a options=("$@")
    if [[ $PREFIX == -* ]]; then _describe -o option options
    elif [[ -n $choices ]]; then if (( CURRENT == first )); then compadd -- ${{=choices}}; fi
    elif (( files )); then _files; fi
}}
compdef _umiak umiak"""


def fish(found: Sequence[Command]) -> str:
    lines = [
        "# umiak in fish",
        "function __umiak_at",
        "    set -l words (commandline -opc)",
        "    set -e words[1]",
        "    set -l count (count $argv)",
        '    test (count $words) -ge $count; and test "$words[1..$count]" = "$argv"',
        "end",
        "function __umiak_next",
        "    set -l words (commandline -opc)",
        "    set -e words[1]",
        '    test (count $words) -eq (count $argv); and test "$words" = "$argv"',
        "end",
        "complete -c umiak -f",
    ]
    for each in found:
        *above, name = each.words
        lines.append(
            f"complete -c umiak -n {shlex.quote(shlex.join(['__umiak_next', *above]))} -a {name}{_told(each.help)}"
        )
    for each in _leaves(found):
        at = shlex.quote(shlex.join(["__umiak_at", *each.words]))
        if each.path:
            lines.append(f"complete -c umiak -n {at} -F")
        if each.choices:
            after = shlex.quote(shlex.join(["__umiak_next", *each.words]))
            lines.append(f"complete -c umiak -n {after} -a {_quoted(each.choices)}")
        for option in each.options:
            names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
            more = " -r" if option.value else ""
            more += " -F" if option.path else f" -f -a {_quoted(option.choices)}" if option.choices else ""
            lines.append(f"complete -c umiak -n {at} {names}{more}{_told(option.help)}")
    return "\n".join(lines)


def _groups(found: Sequence[Command]) -> list[tuple[str, ...]]:
    """The commands that have others below them."""
    return list(dict.fromkeys(each.words[:-1] for each in found if len(each.words) > 1))


def _leaves(found: Sequence[Command]) -> list[Command]:
    groups = _groups(found)
    return [each for each in found if each.words not in groups]


def _below(found: Sequence[Command], words: tuple[str, ...]) -> list[str]:
    return [each.words[-1] for each in found if each.words[:-1] == words]


def _described(found: Sequence[Command], words: tuple[str, ...]) -> str:
    below = [each for each in found if each.words[:-1] == words]
    return " ".join(shlex.quote(f"{each.words[-1]}:{each.help}") for each in below)


def _option_texts(command: Command) -> str:
    each = ((name, option) for option in command.options for name in option.names)
    return " ".join(shlex.quote(f"{name}:{option.help}") for name, option in each)


def _names(command: Command) -> list[str]:
    return [name for option in command.options for name in option.names if name.startswith("--")]


def _values(found: Sequence[Command], choose: str, files: str) -> Iterator[str]:
    """Cases of "COMMAND FLAG" for flags that take a value: one of a few, a file, or something nobody can guess."""
    taking = [(each, option) for each in _leaves(found) for option in each.options if option.value]

    def action(option: Option) -> str:
        return choose.format(shlex.join(option.choices)) if option.choices else files if option.path else ":"

    for act, some in groupby(sorted(taking, key=lambda pair: action(pair[1])), lambda pair: action(pair[1])):
        patterns = "|".join(shlex.quote(f"{' '.join(e.words)} {name}") for e, option in some for name in option.names)
        yield f"{patterns}) {act}; return ;;"


def _word(command: Command) -> str:
    return shlex.quote(" ".join(command.words))


def _quoted(words: Sequence[str]) -> str:
    return shlex.quote(" ".join(words))


def _told(text: str) -> str:
    return f" -d {shlex.quote(text)}" if text else ""


def _lines(cases: Iterator[str]) -> str:
    return "\n".join(f"        {case}" for case in cases)
