// Package insn counts the instructions that a program executes for one operation. On a machine that
// others use too, the time of an operation says little; the number of its instructions is exact,
// and hardly differs between runs. It is no measure of time: a miss of the cache and an addition
// count one each.
//
// The program is any ELF program for linux/amd64, in any language. It needs no library:
//
//	connect, warm up                        at full speed
//	getppid(2)                              from here on its thread is stepped
//	mark()
//	operation(); mark()                     a passage
//	operation(); mark()                     another one
//	getppid(2)                              until here
//
// Count starts it by ptrace(2) and steps the thread that calls getppid first, instruction by
// instruction, from that call to the next one. The instructions between two calls of the function
// mark are a passage. The result is the number for each passage, and on request the number for each
// function in the smallest passage, by the symbol tables of the program and of its libraries. Other
// threads run freely and are not counted.
//
// # What counts
//
//	an instruction of the program, of its libraries           1
//	a string instruction, with all its repetitions            1
//	a system call, with all that the kernel does              1
//	a read of the time: rdtsc, rdtscp, clock_gettime          1
//	a function of Program.Aside, with all that it calls       0, but for the call
//	Go's scheduler, called because the goroutine took long    0
//
// # What is done to have the same number each time
//
//   - Stepping slows a program by a factor of some thousand. So that no timer is due earlier than
//     at full speed, the clock of the stepped thread goes by the instructions that are counted:
//     two for a nanosecond.
//   - Go's scheduler wants a goroutine to give way that has run for 10 ms. The goroutine notices
//     at the entry of a function, which calls runtime.morestack and then begins anew. That detour,
//     like a function of Program.Aside, runs at full speed up to a breakpoint. What the function
//     had executed before is taken back. The signal by which the scheduler asks a second time
//     (SIGURG) is dropped.
//   - The program gets the same addresses and the same random bytes (AT_RANDOM) in each run,
//     because the ways of copies and of hash tables depend on them. What it takes from
//     getrandom(2) differs.
//
// The program should do without Go's garbage collector. Copies also depend on the model of the
// processor, by which libraries choose among several.
//
// # What it needs
//
// ErrNotPermitted is the error where ptrace is not permitted: by a filter of system calls, as in
// some containers, or by the setting kernel.yama.ptrace_scope. A step takes 2 µs, and ten times as
// long in a virtual machine that runs in another one.
//
// On other systems and processors the package is empty.
package insn
