package ucp

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ucx-go/ucx/ucs/log"
)

// TestLogData checks that at level data each received message is logged, with as many of its bytes
// as the setting says, and at no other level.
func TestLogData(t *testing.T) {
	for _, tc := range []struct {
		level  log.Level
		size   string
		digits int // logged of a message with a header of 24 bytes and 8 bytes of data
		logged bool
	}{
		{log.LevelReq, "64", 0, false}, {log.LevelData, "0", 0, true}, {log.LevelData, "10", 20, true}, {log.LevelData, "inf", 64, true},
	} {
		core, logs := observer.New(tc.level.Zap())
		v := newTargetFor(t, FeatureTag, "TLS", "self", "LOG_DATA_SIZE", tc.size)
		previous := log.SetLogger(zap.New(core))
		w := openTarget(t, v.ctx)
		own := newTargetOf(t, w, v.log)
		own.exchangeOf(8)
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		log.SetLogger(previous)
		found := logs.FilterMessage("received a message").FilterField(zap.Int("bytes", 32)).All()
		if (len(found) > 0) != tc.logged {
			t.Errorf("level %v: %d messages logged", tc.level, len(found))
		}
		for _, e := range found {
			f := e.ContextMap()
			if e.Level != log.LevelData.Zap() || f["over"] != "self/memory" {
				t.Errorf("logged %v", e)
			}
			data, _ := f["data"].(string)
			if len(data) != tc.digits || tc.digits > 48 && data[48:] != strings.Repeat("01", 8) {
				t.Errorf("size %s: data %q", tc.size, data)
			}
		}
	}
}
