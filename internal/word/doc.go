// Package word does atomic operations on words inside byte slices: memory that peers or other
// processes access by address. Access rights are the caller's concern.
package word
