set -euo pipefail

# bash has the file open; nothing of it is to be left in the image.
rm -f -- "$0"

# report PYTHON ENV_TOOL ENV_NAME [NOTES]: write the self-report by asking the interpreter itself.
report() {
    "$1" -I -c "$RESEARCHENV_SELF_REPORT" "$RESEARCHENV_REPORT" "$2" "$3" "${4:-}"
    cat "$RESEARCHENV_REPORT"
}
