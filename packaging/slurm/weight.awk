# Prints the weight of the job whose variables are in the environment: that of the first line of the
# settings that fits, if it is a number.
#
# Slurm before 26.05 does not tell the prolog the job's QOS.  There a line for a QOS could fit, and
# only the task prolog knows.
BEGIN {
	early = ENVIRON["SLURM_SCRIPT_CONTEXT"] == "prolog_slurmd" && !("SLURM_JOB_QOS" in ENVIRON)
	of["qos"] = ENVIRON["SLURM_JOB_QOS"]
	of["account"] = ENVIRON["SLURM_JOB_ACCOUNT"]
	of["partition"] = ENVIRON["SLURM_JOB_PARTITION"]
}
$1 == "qos" && early { exit }
($1 in of) && NF == 3 && of[$1] != "" && $2 == of[$1] {
	if ($3 ~ /^[0-9]+(\.[0-9]+)?$/) print $3
	exit
}
