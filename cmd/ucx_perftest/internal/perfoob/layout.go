//go:build linux

package perfoob

// layout holds the offsets, in bytes, of the fields of perftest_params_t whose place differs
// between releases; the first 36 bytes are the same.
type layout struct {
	size int

	flags       int
	sizeCount   int
	stride      int
	alignment   int
	window      int
	warmupIters int
	warmupTime  int
	iters       int
	maxTime     int
	interval    int
	percentile  int
	device      int
	transport   int
	layout      int
	fcWindow    int
	uctHeader   int
	sendType    int
	recvType    int
	ucpHeader   int
	testID      int
}

// layouts holds the offsets in the compiled C structures of 1.13.1 and 1.22.0 on amd64;
// testdata/wire has bytes of both.
var layouts = [numReleases]layout{
	Release113: {
		size:  264,
		flags: 36, sizeCount: 48, stride: 56, alignment: 64, window: 72,
		warmupIters: 80, warmupTime: 88, iters: 96, maxTime: 104, interval: 112, percentile: 120,
		device: 152, transport: 184, layout: 212, fcWindow: 216, uctHeader: 224,
		sendType: 236, recvType: 240, ucpHeader: 248, testID: 256,
	},
	Release122: {
		size:  584,
		flags: 56, sizeCount: 72, stride: 80, alignment: 88, window: 96,
		warmupIters: 104, warmupTime: 112, iters: 120, maxTime: 128, interval: 136, percentile: 144,
		device: 216, transport: 248, layout: 276, fcWindow: 280, uctHeader: 288,
		sendType: 296, recvType: 300, ucpHeader: 304, testID: 576,
	},
}

// maxParamsLen is the size of the longest structure.
const maxParamsLen = 584

// Sizes of names including the NUL (UCT_DEVICE_NAME_MAX and UCT_TL_NAME_MAX).
const (
	deviceLen    = 32
	transportLen = 10
)

// Offsets of the fields that only release 1.22 has.
const (
	devices122        = 36 // two pairs {memory type, device id}
	deviceLevel122    = 52
	channelMode122    = 152
	channelSeed122    = 160
	deviceThreads122  = 168
	deviceBlocks122   = 172
	deviceFCWindow122 = 176
	daemonMode122     = 312
)

// noMemory is the number that stands for no memory type.
const noMemory = 10

// noDevices122 says that the test uses no accelerator.
var noDevices122 = []byte{
	10, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
	10, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
}

// pageSize is an alignment that C's side expects; this side does not use it.
const pageSize = 4096
