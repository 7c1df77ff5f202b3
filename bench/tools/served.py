"""What each tool with a server is told to do: shell lines, as in `commands.py`.

Beside the words there: $REPO what the server stores, $SHARED what both ends read
(certificates), $STATE what one client keeps, $CLIENT its name, $CLIENTS all names,
$SERVER_BIN the server's program, $ADDRESS and $PORT where it listens.
"""

from dataclasses import dataclass

from tools.commands import BORG, BUPSTASH, ICECORE, KOPIA, PASSWORD, RESTIC, Tool

TLS = "TLS"
PIPES = "pipes, without encryption of the way: the server's command was started here, not by ssh"
# The peers come without certificates of their own.
CERTIFICATE = ("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30"
               " -subj /CN=bench -addext subjectAltName=IP:$ADDRESS"
               " -keyout $SHARED/key.pem -out $SHARED/cert.pem")


@dataclass(frozen=True)
class Served(Tool):
    program: str = ""           # whose lines these are
    server_program: str = ""    # where the server is another program
    prepare: str = ""           # once, before the server starts
    server: str = ""            # becomes the server; without one the client starts it itself
    way: str = TLS


# All that the bench knows of the commands of Icecore's server and agents.
ICECORE_SERVED = Served(
    program="icecore",
    env={"ICECORE_AGENT_DIR": "$STATE/agent"},
    server="exec $BIN server --data $REPO --listen $ADDRESS:$PORT --name $ADDRESS",
    lines={
        "init": "$BIN agent enroll https://$ADDRESS:$PORT"
                " $($BIN server token $CLIENT --data $REPO --json"
                " | sed -n 's/.*\"token\": *\"\\([^\"]*\\)\".*/\\1/p') --agent-dir $STATE/agent",
        "backup": "$BIN backup $SOURCE --json > $STATE/backup.json",
        # A buffer that is too small for a long way, forced: the report must name it.
        "backup-64k": "$BIN backup $SOURCE --socket-buffer 64KiB --json > $STATE/backup.json",
        # As in commands.py: no peer waits for the disk.
        "restore": ICECORE.lines["restore"].replace(" --repo $REPO",
                                                    " --json > $STATE/restore.json"),
        "net-test": "$BIN net test --json > $STATE/net-test.json",
    })

REST = "-r rest:https://$ADDRESS:$PORT/ --cacert $SHARED/cert.pem"
RESTIC_SERVED = Served(
    program="restic", server_program="rest-server",
    env=RESTIC.env,
    prepare=CERTIFICATE,
    server="exec $SERVER_BIN --path $REPO --no-auth --listen $ADDRESS:$PORT --tls"
           " --tls-cert $SHARED/cert.pem --tls-key $SHARED/key.pem",
    lines={
        "init": f"[ -e $REPO/config ] || $BIN init --repository-version 2 {REST}",
        "backup": f"$BIN backup $SOURCE {REST}",
        "restore": f"$BIN restore latest --path $SOURCE --target $TARGET {REST}",
    },
    remark="rest-server")

BORG_SERVED = Served(
    program="borg",
    env={**BORG.env, "BORG_RSH": "$SHARED/rsh", "BORG_REMOTE_PATH": "$BIN",
         "BORG_REPO": "ssh://server$REPO/$CLIENT"},
    fine=BORG.fine, way=PIPES,
    prepare="mkdir -p $REPO && printf '#!/bin/sh\\nshift\\n"
            "exec /usr/bin/time -f %%M -o %s/peak-kib \"$@\"\\n' $SHARED > $SHARED/rsh"
            " && chmod +x $SHARED/rsh",
    lines={
        "init": "$BIN init --encryption=repokey-blake2",
        "backup": "$BIN create ::'{now:%s.%f}' $SOURCE",
        "restore": "cd $TARGET && $BIN extract ::$($BIN list --last 1 --short)",
    },
    remark="borg serve")

BUPSTASH_SERVED = Served(
    program="bupstash",
    env={**BUPSTASH.env, "BUPSTASH_REPOSITORY_COMMAND":
         "/usr/bin/time -f %M -o $SHARED/peak-kib $BIN serve $REPO/$CLIENT"},
    way=PIPES,
    prepare="mkdir -p $REPO",
    lines={
        "init": "$BIN init && $BIN new-key -o $STATE/key",
        "backup": BUPSTASH.lines["backup"].replace(" -r $REPO", ""),
        "restore": BUPSTASH.lines["restore"].replace(" -r $REPO", ""),
    },
    remark="bupstash serve")

SERVER_CONFIG = "--config-file=$SHARED/kopia.config"
CONFIG = "--config-file=$STATE/kopia.config"
FINGERPRINT = ("$(openssl x509 -in $SHARED/cert.pem -noout -fingerprint -sha256"
               " | sed 's/.*=//; s/://g')")
KOPIA_SERVED = Served(
    program="kopia",
    env=KOPIA.env,
    prepare=f"{CERTIFICATE} && $BIN repository create filesystem --path=$REPO {SERVER_CONFIG}"
            " && for client in $CLIENTS; do $BIN server users add $client@bench"
            f" --user-password='{PASSWORD}' {SERVER_CONFIG}; done",
    server="exec $BIN server start --address=https://$ADDRESS:$PORT --no-ui"
           " --tls-cert-file=$SHARED/cert.pem --tls-key-file=$SHARED/key.pem"
           f" --server-password='{PASSWORD}' {SERVER_CONFIG}",
    lines={
        "init": "$BIN repository connect server --url=https://$ADDRESS:$PORT"
                f" --server-cert-fingerprint={FINGERPRINT}"
                f" --override-username=$CLIENT --override-hostname=bench {CONFIG}",
        "backup": f"$BIN snapshot create $SOURCE {CONFIG}",
        "restore": f"$BIN snapshot restore $SOURCE $TARGET {CONFIG}",
    },
    remark="kopia server; compresses nothing by default")

TOOLS = {"icecore-served": ICECORE_SERVED, "restic-served": RESTIC_SERVED,
         "borg-served": BORG_SERVED, "bupstash-served": BUPSTASH_SERVED,
         "kopia-served": KOPIA_SERVED}
