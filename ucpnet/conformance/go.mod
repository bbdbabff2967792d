module github.com/ucx-go/ucx/ucpnet/conformance

go 1.24.0

replace github.com/ucx-go/ucx => ../..

require (
	github.com/ucx-go/ucx v0.0.0
	golang.org/x/net v0.41.0
	google.golang.org/grpc v1.74.2
	google.golang.org/protobuf v1.36.6
)

require (
	github.com/google/uuid v1.6.0 // indirect
	go.uber.org/multierr v1.10.0 // indirect
	go.uber.org/zap v1.28.0 // indirect
	golang.org/x/sys v0.40.0 // indirect
	golang.org/x/text v0.26.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20250528174236-200df99c418a // indirect
)
