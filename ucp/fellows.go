package ucp

import "sync"

// What peers make a process hold is limited for all its workers together. A worker that
// needs what another one could give back asks for it.

// fellows are the workers of the process.
var fellows struct {
	sync.Mutex
	workers map[*Worker]struct{}
}

// enlist makes a worker one that others can ask to give something back; resign ends
// that.
func (w *Worker) enlist() {
	fellows.Lock()
	defer fellows.Unlock()
	if fellows.workers == nil {
		fellows.workers = make(map[*Worker]struct{})
	}
	fellows.workers[w] = struct{}{}
}

func (w *Worker) resign() {
	fellows.Lock()
	delete(fellows.workers, w)
	fellows.Unlock()
}

// askOthers asks the other workers to throw away what those hold who have to give
// way, and returns their number.
func askOthers(w *Worker) int {
	fellows.Lock()
	defer fellows.Unlock()
	n := 0
	for f := range fellows.workers {
		if f == w {
			continue
		}
		n++
		if !f.asked.Swap(true) {
			f.wake.signal()
		}
	}
	return n
}

// askOthersForRoom asks the other workers to close endpoints that take what a transport has
// no more of.
func (w *Worker) askOthersForRoom() {
	fellows.Lock()
	for f := range fellows.workers {
		if f != w {
			f.squeezed.Store(true)
		}
	}
	fellows.Unlock()
	askOthers(w)
}
