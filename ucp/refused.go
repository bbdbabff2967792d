package ucp

import "github.com/ucx-go/ucx/internal/ledger"

// refused counts what was refused to a peer, and reports whether that is worth a line
// of the log.
func (w *Worker) refused(from *source, why ledger.Reason) bool {
	w.stats.Refused++
	return from.pays().account.Refuse(why)
}
