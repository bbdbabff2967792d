package ucp

import (
	"encoding/hex"
	"math"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// logged returns a handler that logs each message at level data and then calls h. If the log does
// not print that level when the worker is made, logged returns h itself, so that messages cost
// nothing more.
func (i *iface) logged(id proto.AMID, h uct.AMHandler) uct.AMHandler {
	w := i.w
	if !w.ctx.log.Enabled(log.LevelData) {
		return h
	}
	most := w.ctx.settings.LogDataSize.Int(math.MaxInt)
	return func(src *uct.Source, data []byte, desc *uct.AMDesc) error {
		if w.ctx.log.Enabled(log.LevelData) {
			fields := []zap.Field{
				zap.String("worker", w.name), zap.Stringer("over", i.attr.Resource), zap.Stringer("message", id), zap.Int("bytes", len(data)),
			}
			if most > 0 {
				fields = append(fields, zap.String("data", hex.EncodeToString(data[:min(len(data), most)])))
			}
			w.ctx.log.Write(log.LevelData, "received a message", fields...)
		}
		return h(src, data, desc)
	}
}
