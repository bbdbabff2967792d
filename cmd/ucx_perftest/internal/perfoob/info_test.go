//go:build linux

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
	two := (&UCPInfo{Address: make([]byte, 20)}).Append(ucp)
	parseUCP := func(b []byte) error { _, err := ParseUCPInfos(b, 1); return err }
	parseTwo := func(b []byte) error { _, err := ParseUCPInfos(b, 2); return err }
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
		{"UCP total too small for its head", parseUCP, ucp, 8, infoLen - 1},
		{"UCP first total reaches into the second", parseTwo, two, 8, 100},
		{"UCP second total too large", parseTwo, two, 99 + 8, 61},
		{"UCP second huge total", parseTwo, two, 99 + 8, math.MaxUint64},
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

// TestInfoCount parses fewer and more workers than there are threads.
func TestInfoCount(t *testing.T) {
	b := (&UCPInfo{Address: []byte{1}}).Append(nil)
	b = (&UCPInfo{Address: []byte{2}, RecvBuffer: 3}).Append(b)
	list, err := ParseUCPInfos(b, 2)
	if err != nil || len(list) != 2 || list[0].Address[0] != 1 || list[1].Address[0] != 2 || list[1].RecvBuffer != 3 {
		t.Errorf("two workers: %v, %v", list, err)
	}
	if _, err := ParseUCPInfos(b, 1); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("one too many: %v", err)
	}
	if _, err := ParseUCPInfos(b, 3); !errors.Is(err, ucs.ErrMessageTruncated) {
		t.Errorf("one too few: %v", err)
	}
}
