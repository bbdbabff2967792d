module github.com/ucx-go/ucx

go 1.24.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/google/uuid v1.6.0
	go.uber.org/zap v1.28.0
	golang.org/x/sys v0.40.0
	pgregory.net/rapid v1.3.0
)

require go.uber.org/multierr v1.10.0 // indirect
