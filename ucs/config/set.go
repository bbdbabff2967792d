// Package config reads UCX settings: UCX_* variables, a ucx.conf file and calls
// to Modify, with C UCX's names, units and lists.
//
// A package that has settings declares a struct whose fields carry tags and
// registers it as a Section; whoever needs the values asks a Set to Load them
// into such a struct. A Set is a snapshot: later changes of the environment do
// not reach it.
package config

// Section describes the settings of one subject. Name identifies it ("tcp"),
// Prefix stands before the setting's name in a variable ("TCP_", "" for global
// settings), Title is a line for listings and New returns a pointer to a zero
// struct of settings. Fields are tagged
//
//	TxSegSize Bytes `ucx:"TX_SEG_SIZE" default:"8k" doc:"Size of a send buffer."`
//
// and may be bool, int, uint, float64, string, time.Duration, Bytes, Time,
// Ternary, List, []string, or any type whose pointer implements Value.
type Section struct {
	Name   string
	Prefix string
	Title  string
	New    func() any
}
