# A Ceph for tests: one monitor, one OSD and one RADOS gateway ($1) at 127.0.0.1:$PORT, in $FOLDER. They end, and the
# folder goes, when nothing can be read from standard input any more. The file "ready" says that all is done for their
# start, or "failed" that they do not start.
#
# They do not authenticate each other, as they are reached on loopback only. The gateway insists on encrypted connections
# to the monitor, for which they would have to (ms_mon_client_mode). No manager: data needs none.
trap '' INT TERM
cd "$FOLDER" || exit 1
exec 3<&0 </dev/null >log 2>&1
set -x
export PATH="$PATH:/usr/sbin" CEPH_ARGS="--conf $FOLDER/ceph.conf"
servers=

# serve COMMAND...: runs it until the end.
serve() {
    "$@" -f 3<&- &
    servers="$servers $!"
}

start() {
    id=$(cat /proc/sys/kernel/random/uuid) && disk=$(cat /proc/sys/kernel/random/uuid) || return
    monitor="[v2:127.0.0.1:$INNER_PORT]"
    cat >ceph.conf <<END
[global]
fsid = $id
mon_host = $monitor
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_bind_msgr1 = false
ms_mon_client_mode = crc
osd_pool_default_size = 1
osd_pool_default_min_size = 1
mon_allow_pool_size_one = true
mon_data_avail_crit = 1
osd_crush_chooseleaf_type = 0
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
mon_data = $FOLDER/mon
osd_data = $FOLDER/osd
rgw_data = $FOLDER
run_dir = $FOLDER
admin_socket =
log_file = $FOLDER/\$name.log
osd_objectstore = bluestore
# A sparse file.
bluestore_block_size = 8589934592
osd_memory_target = 939524096
[client.rgw]
log_file = $FOLDER/requests
debug_rgw = 1
END
    mkdir mon osd &&
        monmaptool --create --fsid "$id" --addv a "$monitor" monitors &&
        ceph-mon --mkfs -i a --monmap monitors || return
    serve ceph-mon -i a
    timeout -s KILL 60 ceph osd new "$disk" 0 && ceph-osd --mkfs -i 0 --osd-uuid "$disk" || return
    serve ceph-osd -i 0
    # Waits for the OSD, as it makes pools.
    timeout -s KILL 100 radosgw-admin user create --uid=tests --display-name=tests --max-buckets=0 \
        --access-key="$KEY" --secret-key="$SECRET" || return
    serve "$1" -n client.rgw --rgw-frontends="beast endpoint=127.0.0.1:$PORT"
}

if start "$1"; then : >ready; else : >failed; fi
read -r _ <&3
# What they would still write is removed anyway.
# shellcheck disable=SC2086 # a list of numbers
[ -z "$servers" ] || kill -KILL $servers
wait
cd / && rm -rf "$FOLDER"
