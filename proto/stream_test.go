package proto

import (
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
)

func recodeStream(b []byte) ([]byte, error) {
	h, data, err := ParseStreamData(b)
	return append(h.Append(nil), data...), err
}

func TestStreamGolden(t *testing.T) {
	checkGolden(t, "stream.txt", map[string]recode{"STREAM_DATA": recodeStream})
}

func TestStreamPut(t *testing.T) {
	checkPut(t, StreamDataSize, StreamData{1})
	checkTruncation(t, StreamDataSize, func(b []byte) error { _, _, err := ParseStreamData(b); return err })
	if w := (StreamData{EpID: 7}).Word(); w != 7 {
		t.Errorf("Word %#x", w)
	}
}

func FuzzStreamData(f *testing.F) {
	seed(f, "stream.txt")
	fuzztest.Run(f, func(t *testing.T, b []byte) { checkExact(t, b, recodeStream) })
}
