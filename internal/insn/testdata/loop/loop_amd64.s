#include "textflag.h"

// func passages(n int)
TEXT ·passages(SB), NOSPLIT, $512-8
	MOVQ n+0(FP), R8
again:
	CALL ·mark(SB)
	MOVQ $100, CX
loop:
	DECQ CX
	JNZ  loop
	LEAQ room-512(SP), DI
	MOVQ $60, CX
	XORL AX, AX
	REP; STOSQ
	RDTSC
	CALL ·aside(SB)
	DECQ R8
	JGE  again
	RET

// func mark()
TEXT ·mark(SB), NOSPLIT, $0-0
	RET

// func aside()
TEXT ·aside(SB), NOSPLIT, $0-0
	MOVQ $50, CX
loop:
	DECQ CX
	JNZ  loop
	RET

// func spin(n int)
TEXT ·spin(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
loop:
	DECQ CX
	JNZ  loop
	RET

// func counter() uint64
TEXT ·counter(SB), NOSPLIT, $0-8
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET
