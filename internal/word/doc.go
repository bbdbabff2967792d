// Package word does atomic operations on words inside byte slices: memory that
// peers or other processes name by address. It knows nothing about who asks.
package word
