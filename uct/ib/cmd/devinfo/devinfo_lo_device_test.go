//go:build linux

package main

import "testing"

func TestAgainstCOnLoopback(t *testing.T) { compareWithC(t) }
