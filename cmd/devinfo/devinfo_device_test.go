//go:build linux

package main

import "testing"

func TestAgainstC(t *testing.T) { compareWithC(t) }
