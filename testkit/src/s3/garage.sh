# A Garage for tests: one node of the program $1, at 127.0.0.1:$PORT, in $FOLDER. It ends, and the folder goes, when
# nothing can be read from standard input any more. The file "ready" says that all is done for its start, or "failed" that
# it does not start.
trap '' INT TERM
cd "$FOLDER" || exit 1
exec 3<&0 </dev/null >log 2>&1
set -x
export GARAGE_CONFIG_FILE="$FOLDER/garage.toml"
server=

start() {
    cat >garage.toml <<END
metadata_dir = "$FOLDER/meta"
data_dir = "$FOLDER/data"
db_engine = "sqlite"
replication_factor = 1
rpc_bind_addr = "127.0.0.1:$INNER_PORT"
rpc_public_addr = "127.0.0.1:$INNER_PORT"
rpc_secret = "$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')"
[s3_api]
api_bind_addr = "127.0.0.1:$PORT"
s3_region = "us-east-1"
END
    "$1" server 3<&- &
    server=$!
    until node=$("$1" node id -q) && "$1" status; do
        kill -0 "$server" || return
        sleep 0.1
    done
    # Keys have a form of their own here.
    "$1" layout assign -z here -c 1G "${node%@*}" && "$1" layout apply --version 1 &&
        "$1" key import --yes -n tests "$KEY" "$SECRET" && "$1" key allow --create-bucket tests
}

if start "$1"; then : >ready; else : >failed; fi
read -r _ <&3
[ -z "$server" ] || kill -KILL "$server"
wait
cd / && rm -rf "$FOLDER"
