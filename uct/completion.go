package uct

// Completion counts outstanding operations and notifies Owner when the count reaches zero. One
// Completion may serve many operations: set Count before starting them, and subtract one for
// each operation that did not return ucs.InProgress. Err is the first error.
type Completion struct {
	Owner CompletionOwner
	Count int
	Err   error
}

// CompletionOwner is notified when all operations of c have ended; c.Err is the first error
// among them. The notification runs inside progress, or inside a call that fails or purges
// the operation, and may start new operations.
type CompletionOwner interface {
	Completed(c *Completion)
}

// Fail records err unless an error is already there.
func (c *Completion) Fail(err error) {
	if c.Err == nil {
		c.Err = err
	}
}

// Done ends one operation with err, nil for success. Transports call it once
// per accepted operation.
func (c *Completion) Done(err error) {
	if err != nil {
		c.Fail(err)
	}
	c.Count--
	if c.Count == 0 {
		c.Owner.Completed(c)
	}
}
