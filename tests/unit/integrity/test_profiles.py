"""Which shell profiles alter what commands do. No Docker."""

from __future__ import annotations

import time

import pytest

from pytest_researchenv.integrity._profile import Word, statements
from pytest_researchenv.integrity.profiles import profile_folders, profiles
from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.model import Sign
from pytest_researchenv.sandbox.fake import Link
from tests.unit.integrity.images import DEBIAN, VENV, Nodes, opened_image


BASHRC = "# ~/.bashrc: executed by bash(1) for non-login shells.\n# alias rm='rm -i'\n"
PROFILE = 'if [ "$PS1" ]; then\n  alias python=old\nfi\n'
BASE = {**DEBIAN, "/root/.bashrc": BASHRC, "/etc/profile": PROFILE}

CONDA = """\
# >>> conda initialize >>>
# !! Contents within this block are managed by 'conda init' !!
__conda_setup="$('/opt/conda/bin/conda' 'shell.bash' 'hook' 2> /dev/null)"
if [ $? -eq 0 ]; then
    eval "$__conda_setup"
else
    if [ -f "/opt/conda/etc/profile.d/conda.sh" ]; then
        . "/opt/conda/etc/profile.d/conda.sh"
    else
        export PATH="/opt/conda/bin:$PATH"
    fi
fi
unset __conda_setup
# <<< conda initialize <<<
"""

CONDA_SH = """\
export CONDA_EXE='/opt/conda/bin/conda'
export CONDA_PYTHON_EXE='/opt/conda/bin/python'
__conda_exe() (
    "$CONDA_EXE" $_CE_M $_CE_CONDA "$@"
)
conda() {
    \\local cmd="${1-__missing__}"
    case "$cmd" in
        activate|deactivate) __conda_activate "$@" ;;
        *) __conda_exe "$@" ;;
    esac
}
"""

ACTIVATE = """\
# This file must be used with "source bin/activate" *from bash*
deactivate () {
    unset -f pydoc >/dev/null 2>&1 || true
    # reset old environment variables
    if ! [ -z "${_OLD_VIRTUAL_PATH:+_}" ] ; then
        PATH="$_OLD_VIRTUAL_PATH"
        export PATH
    fi
}
VIRTUAL_ENV='/opt/venv'
export VIRTUAL_ENV
PATH="$VIRTUAL_ENV/bin:$PATH"
export PATH
pydoc () {
    python -m pydoc "$@"
}
hash -r 2>/dev/null || true
"""

NVM = """\
export NVM_DIR="$HOME/.nvm"
[ -s "$NVM_DIR/nvm.sh" ] && \\. "$NVM_DIR/nvm.sh"  # This loads nvm
[ -s "$NVM_DIR/bash_completion" ] && \\. "$NVM_DIR/bash_completion"
"""

PYENV = """\
export PYENV_ROOT="$HOME/.pyenv"
[[ -d $PYENV_ROOT/bin ]] && export PATH="$PYENV_ROOT/bin:$PATH"
eval "$(pyenv init - bash)"
"""

LESS = """\
export LESSOPEN="| /usr/bin/lesspipe %s"
alias ll='ls -alF'
alias grep='grep --color=auto'
PS1='\\u@\\h:\\w\\$ '
HISTCONTROL=ignoreboth
case "$TERM" in
    xterm-color|*-256color) color_prompt=yes;;
esac
"""


def signs(nodes: Nodes) -> Signs:
    """What is seen of an image."""
    with opened_image({**VENV, **nodes}, base=BASE, python="/opt/venv/bin/python") as (task, snapshot):
        return profiles(task, snapshot)


HONEST: dict[str, Nodes] = {
    "nothing": {},
    "a virtual environment": {
        "/opt/venv/bin/activate": ACTIVATE,
        "/root/.bashrc": f"{BASHRC}source /opt/venv/bin/activate\n",
        "/etc/profile.d/venv.sh": ". /opt/venv/bin/activate\n",
    },
    "conda": {"/root/.bashrc": f"{BASHRC}{CONDA}", "/opt/conda/etc/profile.d/conda.sh": CONDA_SH},
    "nvm": {"/root/.bashrc": f"{BASHRC}{NVM}", "/root/.nvm/nvm.sh": "nvm() {\n  nvm_echo x\n}\n"},
    "pyenv": {"/root/.bash_profile": PYENV},
    "cargo and uv": {
        "/root/.profile": '. "$HOME/.cargo/env"\n. "$HOME/.local/bin/env"\n',
        "/root/.cargo/env": "#!/bin/sh\n",
    },
    "paths": {
        "/etc/profile.d/cuda.sh": "export PATH=/usr/local/cuda/bin${PATH:+:${PATH}}\n"
        "export LD_LIBRARY_PATH=/x:$LD_LIBRARY_PATH\n"
    },
    "a colourful prompt": {"/root/.bashrc": f"{BASHRC}{LESS}"},
    "variables": {
        "/etc/environment": 'PATH="/usr/bin:/bin"\nHF_HOME=/data\nPYTHONPATH=/workspace/project\n'
        "CUDA_HOME=/usr/local/cuda\n"
    },
    "Python under its other name": {
        "/root/.bash_aliases": "alias python=python3\nalias pip='python3 -m pip'\n"
        "alias pip3=\"uv pip\"\nalias python3='python3 -u'\n"
    },
    "Python by its path": {"/root/.bashrc": f"{BASHRC}alias python=/opt/venv/bin/python\n"},
    "an allocator": {"/etc/profile.d/malloc.sh": "export LD_PRELOAD=/usr/lib/libtcmalloc_minimal.so.4:libgomp.so.1\n"},
    "a history": {"/root/.bashrc": f"{BASHRC}PROMPT_COMMAND='history -a; _direnv_hook;$PROMPT_COMMAND'\n"},
    "modules of a cluster": {"/etc/profile.d/lmod.sh": "export BASH_ENV=/usr/share/lmod/lmod/init/bash\n"},
    "profiles for scripts": {"/etc/environment": "BASH_ENV=/root/.bashrc\n"},
    "memory for Node": {"/root/.profile": "export NODE_OPTIONS=--max-old-space-size=8192\n"},
    "comments": {"/root/.bashrc": f"{BASHRC}# alias python=x\nexport A=1 # alias nvidia-smi=x; python() {{ x; }}\n"},
    "words": {
        "/root/.bashrc": f"{BASHRC}echo 'alias python=x' \"nvidia-smi() {{\"\nWHERE=$(which python)\npython --version\n"
    },
    "other names": {"/root/.bashrc": f"{BASHRC}train() {{ python train.py; }}\nalias gpu='nvidia-smi -l'\n"},
    "a call": {"/root/.bashrc": f"{BASHRC}LD_PRELOAD=x python y\n"},
    "what the base image says": {"/etc/profile": f"{PROFILE}export A=1\n"},
    "what is gone": {"/root/.bashrc": None, "/etc/profile": None},
    "what is no file": {"/root/.bashrc": Link("/nowhere"), "/etc/profile.d/x.sh": Link("x.sh")},
    "bytes that are no text": {"/root/.bashrc": b"\xff\xfe\0\n"},
    "fish": {"/root/.config/fish/config.fish": "set -gx PATH /opt/venv/bin $PATH\n"},
    "empty": {"/root/.profile": 'export LD_PRELOAD=\nexport PYTHONSTARTUP=""\nunset PROMPT_COMMAND\n'},
    "a shell's own extension": {"/root/.bashrc": f"{BASHRC}trap '__bp_preexec_invoke_exec \"$_\"' DEBUG\n"},
}


@pytest.mark.parametrize("nodes", HONEST.values(), ids=HONEST)
def test_honest_profiles_are_no_sign(nodes: Nodes) -> None:
    """Environments are activated, paths are set, and other names are given."""
    assert signs(nodes) == Signs()


HARMFUL: dict[str, tuple[str, str]] = {
    "nvidia-smi() { echo 8 GPUs; }": ("/root/.bashrc", "a function stands in its place"),
    "function torchrun { echo ok; }": ("/root/.zshrc", "a function stands in its place"),
    "function python() (": ("/root/.bash_profile", "a function stands in its place"),
    "alias nvidia-smi='cat /opt/fake'": ("/etc/profile.d/gpu.sh", "cat stands in its place"),
    "alias -g python=/opt/wrapper": ("/etc/zsh/zshrc", "/opt/wrapper stands in its place"),
    "alias python='python3 /opt/x.py'": ("/etc/bash.bashrc", "it runs something else"),
    "alias python='python3 -c \"x\"'": ("/root/.bashrc", "it runs something else"),
    "alias torchrun='python3 -m other'": ("/root/.bashrc", "python3 stands in its place"),
    "alias ls=ls python3=evil": ("/root/.bashrc", "evil stands in its place"),
    "if true; then builtin alias python=x; fi": ("/root/.bashrc", "x stands in its place"),
    "eval 'alias python=x'": ("/root/.bashrc", "x stands in its place"),
    "alias python='x": ("/root/.bashrc", "x stands in its place"),
    "alias python=/opt/forged/python3": ("/root/.bashrc", "it is a script: #!/bin/sh"),
    "export LD_PRELOAD=/opt/evil.so": ("/etc/profile", "evil.so is loaded into every program"),
    "LD_PRELOAD=/usr/lib/libtcmalloc.so.4:/opt/evil.so": ("/etc/environment", "evil.so is loaded into every program"),
    "export LD_AUDIT=/opt/evil.so": ("/root/.profile", "it is run first"),
    "declare -x PYTHONSTARTUP=/opt/x.py": ("/root/.bashrc", "it is run first"),
    "export A=1 PYTHONINSPECT=1": ("/root/.bashrc", "it is run first"),
    "BASH_ENV=/opt/x.sh": ("/etc/environment", "it is run before every script"),
    "PROMPT_COMMAND='history -a; /opt/x'": ("/root/.bashrc", "/opt/x is run at each prompt"),
    "export NODE_OPTIONS='--require /opt/x.js'": ("/root/.bashrc", "it runs something else first"),
    "trap _x DEBUG": ("/root/.bashrc", "it is run before each command"),
    "trap '/opt/x' DEBUG": ("/root/.bashrc", "it is run before each command"),
    "hash -p /opt/x python": ("/root/.bashrc", "it stands in the place of a command"),
    "enable -f /opt/x.so echo": ("/root/.bashrc", "it stands in the place of a command"),
    "set -gx LD_PRELOAD /opt/evil.so": ("/root/.config/fish/config.fish", "evil.so is loaded into every program"),
    "LD_PRELOAD DEFAULT=/opt/evil.so": ("/etc/security/pam_env.conf", "evil.so is loaded into every program"),
    "alias \\\n python=x": ("/root/.bashrc", "x stands in its place"),
}


@pytest.mark.parametrize(("line", "path", "why"), [(line, *rest) for line, rest in HARMFUL.items()], ids=HARMFUL)
def test_what_stands_between_people_and_commands_is_told(line: str, path: str, why: str) -> None:
    """Functions, aliases, and variables that run something first; the profile is put back where probes run."""
    before = BASE.get(path, b"")
    text = before if isinstance(before, str) else ""
    found = signs({path: f"{text}{line}\n", "/opt/forged/python3": "#!/bin/sh\n"})
    (finding,) = found.findings

    assert (finding.kind, finding.field) == (Sign.PROFILE, path)
    assert f"({why}" in finding.observed
    assert finding.observed.isprintable()
    assert found.blanked == {path: text}
    assert not Sign.PROFILE.voids


def test_files_that_profiles_read_in_are_read() -> None:
    """By variables that they set, and through links; each is put back."""
    nodes: Nodes = {
        "/root/.bashrc": f'{BASHRC}X="$HOME/x"\n[ -f $X/one ] && . "${{X}}/one"\n',
        "/root/x/one": "source ~/x/two\n",
        "/root/x/two": Link("/opt/three"),
        "/opt/three": "alias nvidia-smi=x\n. ~/.bashrc\n",
    }
    found = signs(nodes)

    assert [one.field for one in found.findings] == ["/opt/three"]
    assert found.blanked == {"/opt/three": ""}


def test_the_environments_own_script_is_read() -> None:
    """People activate it."""
    (finding,) = signs({"/opt/venv/bin/activate": f"{ACTIVATE}nvidia-smi() {{ :; }}\n"}).findings

    assert finding.field == "/opt/venv/bin/activate"


def test_quotes_that_stay_open_hide_nothing() -> None:
    """Text for people holds apostrophes."""
    text = f"{BASHRC}cat <<EOF\ndon't\nEOF\nalias python=x\necho \"\nnvidia-smi() {{ :; }}\n"

    assert len(signs({"/root/.bashrc": text}).findings) == 2


def test_folders_on_the_path_are_known() -> None:
    """So that commands in them can be judged."""
    nodes: Nodes = {
        "/root/.bashrc": f'{BASHRC}A=$HOME/a\nexport PATH="$A/bin:/b:$PATH:relative:$UNKNOWN/c"\n',
        "/etc/environment": 'PATH="/usr/bin:/d"\n',
    }
    with opened_image({**VENV, **nodes}, base=BASE) as (task, snapshot):
        assert set(profile_folders(task, snapshot)) == {"/root/a/bin", "/b", "/usr/bin", "/d"}


# --- bounds -----------------------------------------------------------------------------------------------


def test_endless_profiles_come_to_an_end_and_are_no_secret() -> None:
    """Files that read in one another, thousands of them, large ones, and variables that grow."""
    chain: dict[str, str] = {f"/root/c/{number}": f". /root/c/{number + 1}\n" for number in range(300)}
    large = "x" * 2_000_000
    started = time.monotonic()
    found = signs(
        {
            **chain,
            "/root/.bashrc": f"{BASHRC}. /root/c/0\n",
            "/root/.profile": ". /root/.profile\n" + "X=$X$X$X\n" * 2000 + ". $X\n",
            "/etc/profile.d/large.sh": large,
        }
    ).findings

    assert {one.observed for one in found} == {"more than 100 files are read", "it has 2000000 bytes"}
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    "line",
    [
        "'" * 50_000,
        '"' * 50_000,
        " #" * 50_000 + "'",
        "\\" * 50_000,
        "a" * 100_000,
        " (" * 50_000,
        "`" * 50_000,
        "$x" * 50_000,
    ],
)
def test_odd_lines_take_no_time(line: str) -> None:
    """Expressions that go back and forth would."""
    started = time.monotonic()

    list(statements(line))

    assert time.monotonic() - started < 3


def test_many_findings_are_some() -> None:
    """A thousand aliases are one agent's."""
    assert len(signs({"/root/.bashrc": f"{BASHRC}{'alias python=x' + chr(10)}" * 1000}).findings) == 20


def test_statements_are_read_one_by_one() -> None:
    """However many stand in a line."""
    line = "a() { alias b=c; }; export D=e F=g && . h || x=1 y"

    assert [(one.word, one.name, one.value) for one in statements(line)] == [
        (Word.FUNCTION, "a", ""),
        (Word.ALIAS, "b", "c"),
        (Word.SETTING, "D", "e"),
        (Word.SETTING, "F", "g"),
        (Word.SOURCE, "h", ""),
    ]
