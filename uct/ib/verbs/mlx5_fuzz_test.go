//go:build linux

package verbs_test

import (
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// FuzzAnswers changes the kernel's answers for a simulated mlx5_ib device. Invalid answers must be
// refused or do no harm, and in the end everything must be released. Three bytes of data change
// each answer: an offset from its beginning or end, and two bytes.
func FuzzAnswers(f *testing.F) {
	f.Add(uint8(0), []byte{})
	f.Add(uint8(1), []byte{0, 0, 0, 9, 0xff, 0xff})
	f.Add(uint8(2), []byte{16, 0xff, 0xff, 60, 1, 0, 4, 0, 9})
	fuzztest.Run(f, func(t *testing.T, mode uint8, data []byte) {
		cfg := modes[int(mode)%len(modes)].cfg
		t.Setenv("VERBS_BLUEFLAME", map[bool]string{true: "1"}[mode&4 != 0])
		before := forDevices(t)
		k := verbstest.NewFabric().Add(verbstest.Config{MLX5: &cfg})
		everything(&answers{k.Open(), func(_ string, attr *uverbs.RequestAttr) {
			if len(data) < 3 || len(attr.Bytes) == 0 {
				return
			}
			at := int(data[0]) % len(attr.Bytes)
			if data[0]&0x80 != 0 {
				at = len(attr.Bytes) - 1 - int(data[0]&0x7f)%len(attr.Bytes)
			}
			attr.Bytes[at] ^= data[1]
			if at+1 < len(attr.Bytes) {
				attr.Bytes[at+1] ^= data[2]
			}
			data = data[3:]
		}}, k)
		ended(t, k)
		if n := forDevices(t); n != before {
			t.Errorf("%d mappings for devices, and %d before", n, before)
		}
	})
}
