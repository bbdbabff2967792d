//go:build race

package ucp

// recycleRequests is off in race builds: a request used after Free is then
// always found out, instead of corrupting the operation that got the object.
const recycleRequests = false
