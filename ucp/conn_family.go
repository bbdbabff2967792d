package ucp

// connFamily is what belongs to connections by socket address.
type connFamily struct{ noFamily }

func (connFamily) about() familyInfo { return familyInfo{name: "connection"} }

// purge ends the connection of an endpoint that has failed, or is closed.
func (connFamily) purge(ep *Endpoint, _ error) { ep.hangUp() }

// stop closes listeners and managers.
func (connFamily) stop(w *Worker) (first error) {
	for len(w.conns.listeners) > 0 {
		w.conns.listeners[0].close()
	}
	for _, m := range w.conns.managers {
		if m.uct != nil {
			if err := m.uct.Close(); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}

// part ends those endpoints whose turn it is, at the end of a round.
func (w *Worker) part(arrived int) (n int) {
	list := w.conns.parting
	w.conns.parting = nil
	for _, p := range list {
		switch p.rounds--; {
		case arrived > 0 && p.rounds > 0:
			w.conns.parting = append(w.conns.parting, p)
		case !p.ep.followsSuit():
			p.ep.fail(p.err)
			n++
		}
	}
	return n
}

// followsSuit reports whether an endpoint whose peer has said farewell is about to do so,
// too: it is being closed, and the peer waits for that with its lanes open.
func (ep *Endpoint) followsSuit() bool {
	c := ep.conn()
	return c != nil && ep.state&epClosing != 0 && c.gone && !c.broken && c.stage == connOpen
}
