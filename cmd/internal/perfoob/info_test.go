package perfoob

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

func TestHostileInfo(t *testing.T) {
	ucp := (&UCPInfo{Address: make([]byte, 50), Rkey: make([]byte, 9)}).Append(nil)
	uct := (&UCTInfo{Rkey: make([]byte, 4), DeviceAddr: make([]byte, 6), IfaceAddr: make([]byte, 2)}).Append(nil)
	parseUCP := func(b []byte) error { _, err := ParseUCPInfo(b); return err }
	parseUCT := func(b []byte) error { _, err := ParseUCTInfo(b); return err }
	tests := []struct {
		name  string
		parse func([]byte) error
		good  []byte
		off   int
		val   uint64
	}{
		{"UCP address length", parseUCP, ucp, 0, 51},
		{"UCP huge address length", parseUCP, ucp, 0, math.MaxUint64},
		{"UCP total too small", parseUCP, ucp, 8, 98},
		{"UCP total too large", parseUCP, ucp, 8, 100},
		{"UCP key length", parseUCP, ucp, 24, 10},
		{"UCP lengths that wrap", parseUCP, ucp, 24, math.MaxUint64 - 49},
		{"UCT device address length", parseUCT, uct, 0, 7},
		{"UCT iface address length", parseUCT, uct, 8, math.MaxUint64},
		{"UCT endpoint address length", parseUCT, uct, 16, 1},
		{"UCT key length", parseUCT, uct, 24, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.parse(tt.good); err != nil {
				t.Fatalf("the unchanged bytes: %v", err)
			}
			b := append([]byte(nil), tt.good...)
			binary.LittleEndian.PutUint64(b[tt.off:], tt.val)
			if err := tt.parse(b); !errors.Is(err, ucs.ErrInvalidParam) {
				t.Errorf("got %v, want %v", err, ucs.ErrInvalidParam)
			}
			if err := tt.parse(tt.good[:infoLen-1]); !errors.Is(err, ucs.ErrMessageTruncated) {
				t.Errorf("truncated: got %v, want %v", err, ucs.ErrMessageTruncated)
			}
		})
	}
}
