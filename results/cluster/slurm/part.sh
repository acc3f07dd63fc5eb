#!/usr/bin/env bash
#SBATCH --open-mode=append
#SBATCH --requeue
#
# One part of a crawl, as a task of a Slurm job array. Submit it so:
#
#     sbatch --array=0-63%8 part.sh CRAWLMARK PLAN DIR FIRST PARTS [FLAGS]...
#
# Task i crawls part FIRST + i of PARTS. FLAGS are those of `crawlmark run` that the plan does not hold.
#
# Decides by the exit code of the crawl, which says whether the part has a result, and not what the result is worth:
#
#     0         the part has a result, this attempt's or an earlier one's. Crawling it until it is valid would select results.
#     3, 4, 5   the same, with a measurement that failed or is invalid. No part ends so today.
#     2         the plan, a flag or DIR cannot be used, and would not be the next time. Not requeued.
#     130, 143  scancel, a preemption, the time limit: Slurm decides.
#     others    the crawl was killed, or lost a shard, its slot, its disk or the target: requeued, at most RESTARTS times.
#
# A node that is lost requeues its tasks itself (--requeue). What still runs there cannot count twice: the first result of a part does.
set -uo pipefail

RESTARTS=3

crawlmark=$1 plan=$2 into=$3 first=$4 parts=$5
shift 5
part=$((first + SLURM_ARRAY_TASK_ID))

# Slurm sends SIGTERM to all processes of the task. The crawl ends its requests and writes a marked result; wait for that.
trap : TERM
echo "part $part of $parts on ${SLURMD_NODENAME:-$(hostname)}, restart ${SLURM_RESTART_COUNT:-0}"
"$crawlmark" run --plan "$plan" --node "$part/$parts" --into "$into" --no-progress "$@"
code=$?

case $code in
0 | 2 | 3 | 4 | 5 | 130 | 143) ;;
*)
  if [ "${SLURM_RESTART_COUNT:-0}" -lt "$RESTARTS" ]; then
    echo "part $part of $parts ended with $code: requeued"
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
  else
    echo "part $part of $parts ended with $code after $RESTARTS restarts: given up. Once the cause is fixed, run it again:"
    printf '%q ' "$crawlmark" run --plan "$plan" --node "$part/$parts" --into "$into" "$@"
    echo
  fi
  ;;
esac
exit "$code"
