#include "textflag.h"

// Stores are not reordered with stores: the call is all it takes.
//
// func ToDevice()
TEXT ·ToDevice(SB), NOSPLIT, $0-0
	RET

// func FromDevice()
TEXT ·FromDevice(SB), NOSPLIT, $0-0
	LFENCE
	RET

// func FlushWrites()
TEXT ·FlushWrites(SB), NOSPLIT, $0-0
	SFENCE
	RET

// func Pause()
TEXT ·Pause(SB), NOSPLIT, $0-0
	PAUSE
	RET
