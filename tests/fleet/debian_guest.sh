# In a Debian with systemd: hostcc from its package, from installation to purging.
# $1: the package, $2: the same as a newer version, which knows one key more.
set -e
export DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin
step() { echo "== $*"; }

# Beside the unit's own cgroup, which systemd makes and removes when it likes.
state() {
	find / -xdev ! -path '/proc/*' ! -path '/var/lib/dpkg/*' ! -path '/var/log/*' ! -path '/tmp/*' \
		! -path '/var/cache/*' ! -path '/root/*' ! -path '/var/lib/systemd/*' ! -path '/old*' \
		! -path '/etc/group*' ! -path '/etc/gshadow*' ! -path '/etc/.pwd.lock' | sort
	grep -r . /proc/sys/net 2>/dev/null | sort
	tc qdisc show
	find /sys/fs/cgroup -type d -name '*hostcc*' ! -name '*.service'
	python3 /mnt/programs.py
	ls /dev/shm /run | grep hostcc || :
}

# The job of the agent before has its name, weight and cgroup again, and its connection still.
taken_over() {
	until hostcc status --json 2>/dev/null | python3 /mnt/weight.py held | grep -qx 3.0; do sleep 1; done
	grep hostcc/held /proc/$held/cgroup
	kill -0 $held && echo "taken over $*"
}

step before
state >/tmp/before
step install
(while sleep 5; do echo .; done) &
dots=$!
dpkg -i "$1"
step active
systemctl is-enabled hostcc
systemctl is-active hostcc
step doctor
hostcc doctor --json | tr -d '\n'
echo
step held over a boot
hostcc rollback --hold
systemctl stop hostcc
find /run/hostcc -mindepth 1 -delete
systemctl start hostcc
hostcc status | grep -o 'rolled back and held since'
hostcc unfair mltcp
hostcc status | grep -q 'held since' || echo released
step job
hostcc run --job held --weight 3 -- python3 /mnt/exchange.py &
held=$!
taken_over first
step program names
python3 /mnt/programs.py
step killed
systemctl kill -s KILL hostcc
taken_over after a kill
systemctl show -p NRestarts hostcc
step hung
systemctl kill --kill-who=main -s STOP hostcc
until systemctl show -p NRestarts hostcc | grep -x NRestarts=2; do sleep 1; done
taken_over after a hang
step restarted
systemctl restart hostcc
taken_over after a restart
step upgraded
dpkg -i "$2"
hostcc --version
taken_over after an upgrade
mkdir -p /etc/hostcc/hostcc.d
printf '[users]\nlater = true\n' >/etc/hostcc/hostcc.d/later.toml
systemctl reload hostcc
step downgraded
dpkg -i "$1"
taken_over after a downgrade
hostcc status | grep -o 'users.later: ignored, a key of a newer version'
rm /etc/hostcc/hostcc.d/later.toml
step reload
systemctl reload hostcc
systemctl is-active hostcc
step wrong configuration
echo nonsense >/etc/hostcc/hostcc.d/x.toml
systemctl restart hostcc || :
systemctl show -p ExecMainStatus -p ActiveState -p NRestarts hostcc
rm /etc/hostcc/hostcc.d/x.toml
systemctl reset-failed hostcc
systemctl start hostcc
step removed
dpkg -r hostcc
kill -0 $held && echo the job goes on
kill $held
wait $held || :
step purged
dpkg -P hostcc
state >/tmp/after
diff /tmp/before /tmp/after && echo nothing is left
kill $dots
step end
