#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Finds kernmark-board, runs it, and leaves its results in ./output: result.txt (one line for each
# case), kernmark.jsonl (everything) and kernmark.txt (a table). Prints the table, and everything
# once more in numbered lines that can be read back out of a log.
# Ends as kernmark-board does: 0 done, 2 usage, 3 something missing, 4 machine, 70 a mistake of ours.
set -u

OUTPUT="$(pwd)/output"
RESULT_FILE="${OUTPUT}/result.txt"
RESULTS="${OUTPUT}/kernmark.jsonl"
BOARD=""
BOARD_SHA256=""
UPLOAD_URL=""

usage() {
    echo "Usage: $0 [-b <path or URL of kernmark-board>] [-s <its SHA-256>] [-u <URL to PUT results to>]
        [--] [arguments of kernmark-board run]" 1>&2
    exit 2
}

# Ends without a measurement: CASE STATUS REASON
give_up() {
    echo "kernmark.sh: $3" 1>&2
    echo "$1 fail" | tee -a "${RESULT_FILE}"
    exit "$2"
}

fetch() {
    if command -v curl >/dev/null; then
        curl --fail --silent --show-error --location --retry 3 --output "$2" "$1"
    else
        wget -q -O "$2" "$1"
    fi
}

upload() {
    command -v curl >/dev/null || return 1
    # The token comes from the environment and reaches curl by a pipe, so that neither a log nor a
    # list of processes has it.
    printf '%s' "${UPLOAD_TOKEN:+header = \"Authorization: Bearer ${UPLOAD_TOKEN}\"}" |
        curl --fail --silent --show-error --retry 3 --config - --upload-file "$2" "$1"
}

find_board() {
    case $(uname -m) in
    aarch64) abi=arm64 ;;
    arm*) abi=armeabi ;;
    i?86) abi=i386 ;;
    *) abi=$(uname -m) ;;
    esac
    for candidate in "./bin/${abi}/kernmark-board" "../../bin/${abi}/kernmark-board"; do
        [ -x "${candidate}" ] && echo "${candidate}" && return
    done
    command -v kernmark-board
}

while getopts "b:s:u:h" option; do
    case "${option}" in
    b) BOARD="${OPTARG}" ;;
    s) BOARD_SHA256="${OPTARG}" ;;
    u) UPLOAD_URL="${OPTARG}" ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))

[ -d "${OUTPUT}" ] && mv "${OUTPUT}" "${OUTPUT}_$(date +%Y%m%d%H%M%S)_$$"
mkdir -p "${OUTPUT}" || exit 4

case "${BOARD}" in
http://* | https://*)
    [ -n "${BOARD_SHA256}" ] ||
        give_up kernmark-fetch 2 "a program from the network needs its SHA-256 (-s)"
    fetch "${BOARD}" "${OUTPUT}/kernmark-board" || give_up kernmark-fetch 4 "cannot fetch ${BOARD}"
    chmod 755 "${OUTPUT}/kernmark-board"
    BOARD="${OUTPUT}/kernmark-board"
    ;;
"")
    BOARD=$(find_board) ||
        give_up kernmark-fetch 2 "there is no kernmark-board in PATH or bin; name it with -b"
    ;;
esac
if [ -n "${BOARD_SHA256}" ]; then
    echo "${BOARD_SHA256}  ${BOARD}" | sha256sum -c - >/dev/null 2>&1 ||
        give_up kernmark-fetch 4 "${BOARD} is not the program with SHA-256 ${BOARD_SHA256}"
fi

# In a log no line can be written over.
TERM=dumb "${BOARD}" run "$@" --format jsonl --output "${RESULTS}"
status=$?
[ -s "${RESULTS}" ] || give_up kernmark-board "${status}" "kernmark-board has left no results"

"${BOARD}" show "${RESULTS}" --format text --output "${OUTPUT}/kernmark.txt" 2>/dev/null
cat "${OUTPUT}/kernmark.txt"
"${BOARD}" show "${RESULTS}" --format cases --output "${OUTPUT}/cases.txt" 2>/dev/null
cat "${OUTPUT}/cases.txt" >>"${RESULT_FILE}"
"${BOARD}" show "${RESULTS}" --format chunks 2>/dev/null

if [ -n "${UPLOAD_URL}" ]; then
    if upload "${UPLOAD_URL}" "${RESULTS}"; then
        echo "kernmark-upload pass" >>"${RESULT_FILE}"
    else
        echo "kernmark.sh: the results could not be sent to ${UPLOAD_URL}; they are in the log" 1>&2
        echo "kernmark-upload fail" >>"${RESULT_FILE}"
    fi
fi
exit "${status}"
