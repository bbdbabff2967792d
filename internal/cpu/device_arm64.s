#include "textflag.h"

// The options of DSB are those of the whole system: 14 is ST, 13 is LD.

// func ToDevice()
TEXT ·ToDevice(SB), NOSPLIT, $0-0
	DSB $14
	RET

// func FlushWrites()
TEXT ·FlushWrites(SB), NOSPLIT, $0-0
	DSB $14
	RET

// func FromDevice()
TEXT ·FromDevice(SB), NOSPLIT, $0-0
	DSB $13
	RET

// func StoreDevice64(p *uint64, v uint64)
TEXT ·StoreDevice64(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD v+8(FP), R1
	MOVD R1, (R0)
	RET

// func CopyDevice64(dst, src *[8]uint64)
TEXT ·CopyDevice64(SB), NOSPLIT, $0-16
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	VLD1 (R1), [V0.B16, V1.B16, V2.B16, V3.B16]
	VST1 [V0.B16, V1.B16, V2.B16, V3.B16], (R0)
	RET
