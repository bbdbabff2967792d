package ucp

import (
	"go.uber.org/zap"
)

// malformed notes a message that makes no sense. Its error tells the transport
// to drop the connection it came on.
func (w *Worker) malformed(err error) error {
	w.stats.Malformed++
	w.ctx.log.Debug("malformed message", zap.String("worker", w.name), zap.Error(err))
	return err
}
