//go:build linux

package ibtest

import "encoding/hex"

// Addresses returns encoded addresses of ports, in every form that package ib has, some of them
// malformed, as seeds for fuzzing.
func Addresses() (list [][]byte) {
	for _, text := range []string{
		"4800000000000000000000ffff0a090001", "58fe800000000000000200fffe00000001", "7f0102030405060708090a0b0c0d0e0f1002070180",
		"000800", "00ffff", "60ffff0102030405060708aabbccddeeff0011", "2601c0aabbccddeeff0011040110", "44ffff0700000000000000000180", "4500000000000000000000ffff0a090001ff",
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			panic(err)
		}
		list = append(list, b)
	}
	return list
}
