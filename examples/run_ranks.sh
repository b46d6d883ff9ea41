#!/usr/bin/env bash
# run_ranks.sh N COMMAND...: N processes of a command as one group on this machine; the exit status of the first that failed.
set -u
count=$1
shift
export LOCKSTEP_WORLD_SIZE=$count LOCKSTEP_LOCAL_SIZE=$count MASTER_PORT=${MASTER_PORT:-29500}
LOCKSTEP_DIST_SECRET=${LOCKSTEP_DIST_SECRET:-$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')}
export LOCKSTEP_DIST_SECRET
processes=()
for ((rank = 0; rank < count; ++rank)); do
  LOCKSTEP_RANK=$rank LOCKSTEP_LOCAL_RANK=$rank "$@" &
  processes+=($!)
done
status=0
for process in "${processes[@]}"; do wait "$process" || status=$?; done
exit "$status"
