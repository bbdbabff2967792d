//go:build linux && (amd64 || arm64)

package run

import "syscall"

// reply is the answer to a call.
type reply struct {
	pass   bool          // the kernel executes the call
	errno  syscall.Errno // if pass is false: the error of the call
	value  int64         // if errno is 0: the result of the call
	handed *givenFD      // a descriptor for the program, whose number is the result; nil for none
	undo   func()        // called if the answer does not reach the program; may be nil
}

// givenFD is a descriptor that is given to a program.
type givenFD struct {
	fd      int  // descriptor in this process
	keep    bool // this process keeps it open
	number  int  // its number in the program; 0: any
	cloexec bool
}

// pass is the reply that lets the kernel execute a call.
var pass = reply{pass: true}

func refuse(e syscall.Errno) reply { return reply{errno: e} }
