#!/bin/sh
# Counts the instructions that one 64-byte message takes at both ends together, and names the functions
# that take most of them.
#
#     tools/callgrind.sh [stream|burst|echo] [tcp|uds|udp] [MESSAGES]        (stream tcp 20000)
#
# Runs the benchmark's own driver (`targets --once`) twice under valgrind, for MESSAGES and for twice as
# many: the difference is what the messages take, without start and end. What the kernel does is not
# counted. Under valgrind a stream's sender is too slow to be hot and writes each message itself; a burst
# is queued by a callback and leaves together. Needs valgrind (Debian: valgrind).
set -eu

what=${1:-stream}
transport=${2:-tcp}
messages=${3:-20000}

command -v valgrind >/dev/null || { echo "callgrind.sh: valgrind is not on this machine" >&2; exit 3; }
cd "$(dirname "$0")/.."
program=$(cargo bench -q -p tautline-gauge --bench targets --no-run --message-format json |
    sed -n 's/.*"name":"targets".*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
[ -n "$program" ] || { echo "callgrind.sh: cargo has built no targets" >&2; exit 3; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# count MESSAGES FILE: runs that many and prints the instructions.
count() {
    valgrind -q --tool=callgrind --callgrind-out-file="$folder/$2" \
        "$program" --once "$what" --transports "$transport" --messages "$1" >&2
    sed -n 's/^\(summary\|totals\): \([0-9]*\).*/\2/p' "$folder/$2" | tail -n 1
}

once=$(count "$messages" once)
twice=$(count $((2 * messages)) twice)
echo "$what $transport: $(((twice - once) / messages)) instructions a message," \
    "both ends ($once for $messages, $twice for $((2 * messages)))"
echo "who takes them, start and end included:"
callgrind_annotate --threshold=100 "$folder/twice" |
    sed -n '/^Ir/,$p' | grep -E '^ *[0-9]' | grep -v 'PROGRAM TOTALS' |
    sed 's# \[[^]]*\]$##; s#) [^ ]*/#) #' | head -n 10 | cut -c 1-150
