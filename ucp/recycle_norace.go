//go:build !race

package ucp

const recycleRequests = true
