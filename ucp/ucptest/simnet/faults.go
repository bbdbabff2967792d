//go:build simulate

package simnet

// Faults of hosts and processes. Those of ways are in net.go.

// Vanish unplugs the network of a host: nobody is told. Processes of the host still reach each other.
func (h *Host) Vanish() {
	if h.unplugged {
		return
	}
	h.unplugged, h.since = true, h.w.now
	h.w.Count.Vanished++
	h.w.Net.broken(h.involved)
}

// Return plugs the network of the host in again. Ways that are cut stay so.
func (h *Host) Return() {
	if !h.unplugged {
		return
	}
	h.unplugged = false
	h.w.Net.healed(h.since, h.involved)
}

// Crash ends a host at once, with all its processes. Nobody is told: those that send to the host learn
// of it when it is back (Return), or when their transport gives up.
func (h *Host) Crash() {
	h.Vanish()
	for _, p := range h.w.processes {
		if p.host == h {
			p.Kill()
		}
	}
}

// involved reports whether a connection leads from or to the host, and not within it.
func (h *Host) involved(from, to *Host) bool { return from != to && (from == h || to == h) }

// Freeze stops all goroutines of a process, as SIGSTOP does. What arrives waits.
func (p *Process) Freeze() {
	if !p.ended && !p.frozen {
		p.frozen = true
		p.w.Count.Frozen++
	}
}

// Thaw lets the goroutines of a frozen process continue.
func (p *Process) Thaw() {
	if !p.frozen {
		return
	}
	p.frozen = false
	w := p.w
	w.runnable = append(w.runnable, p.stopped...)
	for _, e := range p.delayed {
		w.reschedule(e)
	}
	p.stopped, p.delayed = nil, nil
}
