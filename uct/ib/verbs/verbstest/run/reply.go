//go:build linux && (amd64 || arm64)

package run

import "syscall"

// reply is the answer to a call.
type reply struct {
	pass   bool          // the kernel is to answer
	errno  syscall.Errno // or this is the answer,
	value  int64         // or this,
	handed *handed       // or the number of a descriptor that the program gets
	undo   func()        // if the program does not get the answer, nil for nothing
}

// handed is a descriptor on its way to a program.
type handed struct {
	fd      int  // of this process
	keep    bool // it stays open here
	number  int  // that it is to have; 0: any
	cloexec bool
}

// pass leaves a call to the kernel.
var pass = reply{pass: true}

func refuse(e syscall.Errno) reply { return reply{errno: e} }
