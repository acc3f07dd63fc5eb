#!/usr/bin/env bash
#SBATCH --open-mode=append
#
# The merge of a crawl in parts, as a job that depends on the job array. Submit it so:
#
#     sbatch --dependency=afterany:JOB merge.sh CRAWLMARK DIR
#
# Runs whatever became of the tasks. Fails if a part has no result, and names it; run that part and this script again.
set -uo pipefail

exec "$1" merge "$2" --out "$2/merged"
