package ucp

// connFamily is what belongs to connections by socket address.
type connFamily struct{ noFamily }

func (connFamily) about() familyInfo { return familyInfo{name: "connection"} }

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
		default:
			p.ep.report(p.event, p.ep.endError(p.err))
			n++
		}
	}
	return n
}
