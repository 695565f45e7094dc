"""Let NexAU work on one request, in the agent's container, by its own runner (`nexau serve stdio`).

Called as `nexau_runner.py PYTHON AGENT_YAML PROMPT_FILE`. All that NexAU prints is passed on, after the request. The
exit code is 0 when it answered the request, 1 when it answered with an error, 2 when it ended without an answer.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


#: How long it may take to end once it has answered, in seconds. NexAU 0.4.1 does not, though its input has ended.
GRACE_S = 2


def main() -> int:
    """Pass the request on, and all that comes, until the answer."""
    python, agent, prompt = sys.argv[1:]
    request = {
        "jsonrpc": "2.0-stream",
        "method": "agent.stream",
        "params": {"messages": Path(prompt).read_text(encoding="utf-8"), "user_id": "researchenv"},
        "id": "researchenv",
    }
    line = json.dumps(request)
    print(line, flush=True)
    # It takes nothing but a pipe for its input.
    command = [python, "-I", "-m", "nexau.cli", "serve", "stdio", agent]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None  # noqa: S101 - for the type checker.
        assert process.stdout is not None  # noqa: S101 - likewise.
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
        code = 2
        for answer in process.stdout:
            sys.stdout.buffer.write(answer)
            sys.stdout.buffer.flush()
            found = answer_code(answer)
            if found is not None:
                code = found
                break
        process.stdin.close()
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
    return code


def answer_code(line: bytes) -> int | None:
    """Return 0 for an answer, 1 for an error, None for all else."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    if not isinstance(value, dict) or "jsonrpc" not in value or "event" in value:
        return None
    return 1 if value.get("error") else 0


if __name__ == "__main__":
    sys.exit(main())
