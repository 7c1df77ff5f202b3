"""What each tool is told to do: one shell line per operation, defaults everywhere.

In the lines stand: $BIN the tool, $REPO its repository, $SOURCE the data set,
$TARGET an empty folder, $STATE a folder for what the tool keeps on the client.
They are run exactly as they stand here and printed so in the table.
"""

from dataclasses import dataclass, field

PASSWORD = "a password only for the bench"


@dataclass(frozen=True)
class Tool:
    lines: dict                             # operation -> shell line
    env: dict = field(default_factory=dict)
    fine: tuple = (0,)                      # exit codes of a complete run
    baseline: bool = False                  # not a backup tool: something to compare with
    remark: str = ""

    def can(self, operation):
        return operation in self.lines


ICECORE = Tool(
    env={"ICECORE_PASSWORD": PASSWORD},
    lines={
        "init": "$BIN init --repo $REPO",
        "backup": "$BIN backup $SOURCE --repo $REPO",
        # Nobody else waits for the disk at the end of a restore; by default Icecore does.
        "restore": "$BIN restore latest --no-sync --target $TARGET --repo $REPO",
        "restore-synced": "$BIN restore latest --target $TARGET --repo $REPO",
        "check": "$BIN check --read-data --repo $REPO",
        "open": "$BIN key list --repo $REPO",
        "reclaim": "$BIN forget --keep-last 1 --repo $REPO && $BIN reclaim --repo $REPO",
    })

# The other privacy level, measured beside; no claim is about it.
HARDENED = Tool(
    env=ICECORE.env,
    remark="icecore, `--privacy hardened`",
    lines={**ICECORE.lines, "init": "$BIN init --privacy hardened --repo $REPO"})

RESTIC = Tool(
    env={"RESTIC_PASSWORD": PASSWORD, "RESTIC_CACHE_DIR": "$STATE/cache"},
    lines={
        "init": "$BIN init --repository-version 2 -r $REPO",
        "backup": "$BIN backup $SOURCE -r $REPO",
        "restore": "$BIN restore latest --target $TARGET -r $REPO",
        "check": "$BIN check --read-data -r $REPO",
        "reclaim": "$BIN forget --keep-last 1 --prune -r $REPO",
    })

RUSTIC = Tool(
    env={"RUSTIC_PASSWORD": PASSWORD, "RUSTIC_CACHE_DIR": "$STATE/cache",
         "RUSTIC_NO_PROGRESS": "true"},
    lines={
        "init": "$BIN init -r $REPO",
        "backup": "$BIN backup $SOURCE -r $REPO",
        "restore": "$BIN restore latest $TARGET -r $REPO",
        "check": "$BIN check --read-data -r $REPO",
        # Without it, packs are only marked and deleted a day later.
        "reclaim": "$BIN forget --keep-last 1 --prune --instant-delete -r $REPO",
    })

BORG = Tool(
    env={"BORG_PASSPHRASE": PASSWORD, "BORG_BASE_DIR": "$STATE",
         "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes"},
    fine=(0, 1),                            # 1: finished, with warnings
    lines={
        "init": "$BIN init --encryption=repokey-blake2 $REPO",
        "backup": "$BIN create $REPO::'{now:%s.%f}' $SOURCE",
        "restore": "cd $TARGET && $BIN extract $REPO::$($BIN list --last 1 --short $REPO)",
        "check": "$BIN check --verify-data $REPO",
        "reclaim": "$BIN prune --keep-last 1 $REPO && $BIN compact $REPO",
    })

BUPSTASH = Tool(
    env={"BUPSTASH_KEY": "$STATE/key", "BUPSTASH_SEND_LOG": "$STATE/send-log",
         "BUPSTASH_QUERY_CACHE": "$STATE/query-cache"},
    remark="no command that verifies all data",
    lines={
        "init": "$BIN init -r $REPO && $BIN new-key -o $STATE/key",
        "backup": "$BIN put -q -r $REPO name=bench $SOURCE > $STATE/newest",
        # Owners and xattrs only when asked; everybody else sets them too.
        "restore": "$BIN restore -q -r $REPO --ownership --xattrs --into $TARGET "
                   "id=$(cat $STATE/newest)",
        "reclaim": "$BIN list -q -r $REPO --format=jsonl1 name=bench"
                   " | sed 's/.*\"id\":\"\\([0-9a-f]*\\)\".*/\\1/'"
                   " | grep -v $(cat $STATE/newest)"
                   " | $BIN rm -q -r $REPO --ids-from-stdin"
                   " && $BIN gc -q -r $REPO",
    })

KOPIA_CONFIG = "--config-file=$STATE/kopia.config"
KOPIA = Tool(
    env={"KOPIA_PASSWORD": PASSWORD, "KOPIA_CACHE_DIRECTORY": "$STATE/cache",
         "KOPIA_CHECK_FOR_UPDATES": "false", "KOPIA_LOG_DIR": "$STATE/log"},
    remark="compresses nothing by default",
    lines={
        "init": f"$BIN repository create filesystem --path=$REPO {KOPIA_CONFIG}",
        "backup": f"$BIN snapshot create $SOURCE {KOPIA_CONFIG}",
        "restore": f"$BIN snapshot restore $SOURCE $TARGET {KOPIA_CONFIG}",
        "check": f"$BIN snapshot verify --verify-files-percent=100 {KOPIA_CONFIG}",
        "reclaim": f"$BIN policy set --global --keep-latest=1 --keep-hourly=0 --keep-daily=0"
                   f" --keep-weekly=0 --keep-monthly=0 --keep-annual=0 {KOPIA_CONFIG}"
                   f" && $BIN snapshot expire --all --delete {KOPIA_CONFIG}"
                   f" && $BIN maintenance run --full --safety=none {KOPIA_CONFIG}",
    })

TAR = Tool(
    baseline=True,
    remark="one archive: no encryption, no index, no deduplication",
    lines={
        "init": "mkdir -p $REPO",
        "backup": "tar -cf - -C $SOURCE . | zstd -1 -T2 -q -f -o $REPO/archive.tar.zst",
        "restore": "zstd -dc $REPO/archive.tar.zst | tar -xf - -C $TARGET",
        "restore-synced": "zstd -dc $REPO/archive.tar.zst | tar -xf - -C $TARGET"
                          " && sync -f $TARGET",
    })

FIND = Tool(
    baseline=True,
    remark="the walk without changes",
    lines={"backup": "find $SOURCE -printf '%s %T@ %m %i\\n' > /dev/null"})

CP = Tool(baseline=True, lines={
    "restore": "cp -a $SOURCE/. $TARGET",
    "restore-synced": "cp -a $SOURCE/. $TARGET && sync -f $TARGET"})

READ = Tool(
    baseline=True,
    remark="reading the files at all, two at a time",
    lines={"backup": "find $SOURCE -type f -print0 | xargs -0 -n 256 -P 2 cat > /dev/null"})

TOOLS = {"icecore": ICECORE, "hardened": HARDENED, "restic": RESTIC, "rustic": RUSTIC, "borg": BORG,
         "bupstash": BUPSTASH, "kopia": KOPIA,
         "tar": TAR, "find": FIND, "cp": CP, "read": READ}

# Which line an operation runs. `init`, and everything before the line, is not timed.
LINE_OF = {"first": "backup", "second": "backup", "changed": "backup", "series": "backup",
           "restore": "restore", "restore-synced": "restore-synced", "check": "check",
           "open": "open",
           "reclaim": "reclaim",
           "cold-first": "backup", "cold-second": "backup"}

# A baseline stands for some operations only: `find` is no first backup.
BASELINE_OPERATIONS = {"tar": ("first", "restore", "restore-synced"),
                       "find": ("second", "changed", "cold-second"),
                       "cp": ("restore", "restore-synced"), "read": ("cold-first",)}


# The cold claims are about us and the bare walk; peers would only cost half an hour.
COLD_TOOLS = ("icecore", "find", "read")
# Cutting is what differs, and with it what is stored.
HARDENED_OPERATIONS = ("first", "second", "restore")


def offers(name, operation):
    if not TOOLS[name].can(LINE_OF[operation]):
        return False
    if operation.startswith("cold") and name not in COLD_TOOLS:
        return False
    if name == "hardened":
        return operation in HARDENED_OPERATIONS
    return operation in BASELINE_OPERATIONS.get(name, (operation,))
