// Package oracle has no code but tests, of the provider of mlx5 against C's libmlx5: the
// same calls are made through both on devices of package verbstest, and what lies in
// queues and records, what is stored to doorbell pages and what the kernel is told has to
// be the same, byte for byte, but for what a list names. TestSameCard makes the calls in
// two programs on one device, a card if there is one, and compares what lies in their
// memory. TestMutants makes mistakes in the provider, one at a time, and has the tests
// notice each.
package oracle
