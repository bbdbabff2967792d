package engine

import "strings"

// step names what the machine does. The code says the same name in brackets where it
// does that.
type step uint8

type stepSet uint64

const (
	try step = iota
	retake
	free
	look
	push
	run
	want
	wished
	granted
	served
	grant
	begin
	raise
	settle
	rouse
	ring
	answer
	lost
	closes
	do
	carryOut
	join
	end
	leave
	handOver
	happened
	announce
	takeNews
	sleep
	slumber
	wake
	calledOff
	giveUp
	round
	unwind
	endAll
	arm
	heard
	armed
	rouseDone
	signals
	dozes
	back
	looks
	later
	displaces
	reinstates

	steps
)

// where says in which function of the code each step is.
var where = [steps]struct{ name, file, function string }{
	try:       {"try", "engine.go", "Engine.Try"},
	retake:    {"retake", "engine.go", "Engine.Retake"},
	free:      {"free", "engine.go", "Engine.Free"},
	look:      {"look", "engine.go", "Engine.Pending"},
	push:      {"push", "engine.go", "Engine.Push"},
	run:       {"run", "engine.go", "Engine.Run"},
	want:      {"want", "engine.go", "Engine.Acquire"},
	wished:    {"wish", "engine.go", "Engine.Acquire"},
	granted:   {"granted", "engine.go", "Engine.Acquire"},
	served:    {"served", "engine.go", "Engine.Acquire"},
	grant:     {"grant", "engine.go", "wakeTask.Do"},
	join:      {"join", "waiter.go", "Engine.Join"},
	end:       {"end", "waiter.go", "Engine.End"},
	leave:     {"leave", "waiter.go", "Engine.Leave"},
	handOver:  {"hand over", "waiter.go", "Engine.handOver"},
	happened:  {"happened", "waiter.go", "Engine.happened"},
	announce:  {"announce", "sleep.go", "Engine.announceNews"},
	takeNews:  {"take news", "sleep.go", "Engine.TakeNews"},
	sleep:     {"sleep", "sleep.go", "Engine.Sleeps"},
	begin:     {"begin", "owner.go", "ownership.beginShared"},
	raise:     {"raise", "owner.go", "ownership.afterRelease"},
	settle:    {"settle", "sleep.go", "Engine.Settle"},
	rouse:     {"rouse", "sleep.go", "Engine.rouse"},
	ring:      {"ring", "sleep.go", "Engine.ring"},
	lost:      {"lost", "owner.go", "ownership.abandonShared"},
	answer:    {"answer", "wakeset.go", "Set.Return"},
	closes:    {"close", "worker.go", "Worker.close"},
	do:        {"do", "call.go", "call.Do"},
	carryOut:  {"carry out", "wait_leader.go", "call.carryOut"},
	wake:      {"wake", "wait_leader.go", "call.park"},
	calledOff: {"canceled", "wait_leader.go", "call.park"},
	giveUp:    {"give up", "wait_leader.go", "call.giveUp"},
	slumber:   {"slumber", "wait_leader.go", "call.sleep"},
	round:     {"round", "worker.go", "Worker.round"},
	unwind:    {"unwind", "wait_leader.go", "call.unwind"},
	endAll:    {"end all", "waiter.go", "Engine.EndAll"},
	arm:       {"arm", "wakeup.go", "wakeup.armFor"},
	heard:     {"consume", "wakeset.go", "Set.Consume"},
	armed:     {"armed", "wakeup.go", "Worker.Arm"},
	rouseDone: {"rouse done", "sleep.go", "Engine.RouseDone"},
	signals:   {"signal", "wakeset.go", "Set.Signal"},

	dozes:      {"doze", "background.go", "Engine.BackgroundSleeps"},
	back:       {"back", "background.go", "Engine.BackgroundAwake"},
	looks:      {"look in", "background.go", "Engine.Look"},
	later:      {"later", "background.go", "Engine.handBack"},
	displaces:  {"displace", "background.go", "Engine.displace"},
	reinstates: {"reinstate", "background.go", "Engine.handBack"},
}

func (m *machine) take(s step) { m.took |= 1 << s }

func (s stepSet) String() string {
	var names []string
	for i := range steps {
		if s>>i&1 != 0 {
			names = append(names, where[i].name)
		}
	}
	if names == nil {
		return "goes on"
	}
	return strings.Join(names, ", ")
}
