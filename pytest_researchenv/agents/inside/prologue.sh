set -euo pipefail

# report PYTHON ENV_TOOL ENV_NAME [NOTES]: write the self-report by asking the interpreter itself.
report() {
    "$1" -I -c "$RESEARCHENV_SELF_REPORT" "$2" "$3" "${4:-}" > "$RESEARCHENV_REPORT"
    cat "$RESEARCHENV_REPORT"
}
