#include "textflag.h"

// func ToDevice()
TEXT ·ToDevice(SB), NOSPLIT, $0-0
	DMB $0x2 // oshst
	RET

// func FromDevice()
TEXT ·FromDevice(SB), NOSPLIT, $0-0
	DMB $0x1 // oshld
	RET

// func FlushWrites()
TEXT ·FlushWrites(SB), NOSPLIT, $0-0
	DSB $0xe // st
	RET

// func Pause()
TEXT ·Pause(SB), NOSPLIT, $0-0
	YIELD
	RET
