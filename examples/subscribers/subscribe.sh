#!/bin/sh
# Follows the event stream into a file of JSON lines and resumes exactly where the file ends. Needs curl.
#
# Usage: subscribe.sh ADDRESS FILE [QUERY]       subscribe.sh http://127.0.0.1:4646 events.jsonl 'topic=Job&topic=Node'
#
# Every line of the file is a frame or a mark of the stream; its index is the cursor of the next request. So a line and
# the position after it are written by the same write, and a crash can neither lose nor repeat an event.
set -eu

address=$1
file=$2
query=${3-}

# Index to resume after of a line: a frame ends with its index, a mark begins with it.
cursor() {
    case $1 in
        '{"Index":0,"Gap":{"Oldest":'*) oldest=${1#'{"Index":0,"Gap":{"Oldest":'} && echo $((${oldest%%\}*} - 1)) ;;
        '{"Index":'*) index=${1#'{"Index":'} && echo "${index%%,*}" ;;
        '{"Events":'*) index=${1##*'],"Index":'} && echo "${index%\}}" ;;
        *) echo 0 ;;
    esac
}

# Removes a last line that a crash has cut short.
touch "$file"
if [ -s "$file" ] && [ -n "$(tail -c 1 "$file")" ]; then
    sed '$d' "$file" >"$file.whole"
    mv "$file.whole" "$file"
fi

while true; do
    after=$(cursor "$(tail -n 1 "$file")")
    # The server sends a heartbeat every 30 seconds: a connection without one for 90 seconds is dead.
    curl -sSN --fail --speed-limit 1 --speed-time 90 ${NOMAD_TOKEN:+-H "X-Nomad-Token: $NOMAD_TOKEN"} \
        "$address/v1/event/stream?after_index=$after&$query" |
        # A last line without a line feed is not read: it was cut short.
        while IFS= read -r line; do
            case $line in
                '{}') continue ;;
                '{"Index":0,"Gap":'*) echo "entries are missing: read the state again: $line" >&2 ;;
                '{"Index":'*'"Closed":'*) echo "the server ended the stream: $line" >&2 && break ;;
            esac
            printf '%s\n' "$line" >>"$file"
        done || true
    sleep 0.5
done
