//go:build linux

package tcp

import (
	"fmt"
	"runtime"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
)

// HandshakePanic is the error of a connection whose handshake failed because a function of
// the application's tls.Config panicked. It is logged at most once a minute, because it
// happens on a goroutine of the library where the application cannot recover. An endpoint
// of this side fails with it as well.
type HandshakePanic struct {
	Value any    // the value the function panicked with
	Stack []byte // the stack of the panic, as runtime.Stack formats it
}

// Error returns the value and the place of the panic.
func (p *HandshakePanic) Error() string {
	return fmt.Sprintf("tls: panic in a function of the configuration: %v\n\n%s", p.Value, p.Stack)
}

// Unwrap returns the value if it is an error.
func (p *HandshakePanic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// stack returns the stack of the calling goroutine, at most 64 KiB of text.
func stack() []byte {
	b := make([]byte, 64<<10)
	return b[:runtime.Stack(b, false)]
}

// logPanic logs a panic, at most once a minute, because peers may be able to cause panics.
func (c *conn) logPanic(p *HandshakePanic) {
	var who *ledger.Account
	if c.visit.guest != nil {
		who = c.visit.guest.account
	}
	if !who.Refuse(ledger.Panic) {
		return
	}
	c.iface.svc.w.Log().Error("panic in a function of a TLS configuration", zap.Stringer("listener", c.iface.addr), zap.Stringer("peer", c.from.addr),
		zap.Any("value", p.Value), zap.ByteString("stack", p.Stack))
}
