module example.com/mailbox

go 1.24.0

require github.com/ucx-go/ucx v0.0.0

replace github.com/ucx-go/ucx => ../../..
