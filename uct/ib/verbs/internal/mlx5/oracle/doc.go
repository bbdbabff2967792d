// Package oracle has only tests: they compare the mlx5 provider with C's libmlx5. Both make the
// same calls on devices of package verbstest. The contents of queues and doorbell records, the
// stores to doorbell pages and the requests to the kernel must be the same, byte for byte, except
// for a list of known differences. TestSameCard makes the calls in two programs on one device, an
// adapter if there is one, and compares the memory of the programs. TestMutants puts mistakes into
// the provider, one at a time, and checks that the tests detect each.
package oracle
