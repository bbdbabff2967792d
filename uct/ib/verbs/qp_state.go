//go:build linux

package verbs

import "fmt"

// QPState is the state of a queue pair.
type QPState uint8

// States of a queue pair; enum ib_qp_state, ib_verbs.h.
const (
	QPReset QPState = iota
	QPInit          // receives may be posted
	QPRTR           // ready to receive
	QPRTS           // ready to send
	QPSQD           // draining the send queue
	QPSQE           // the send queue has failed
	QPErr
)

// String returns the name of the state.
func (s QPState) String() string {
	return name(int(s), "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR")
}

// transition has the attributes that a change of state requires (field must) and those that it also
// permits (field may), without QPAttrState.
type transition struct{ must, may QPAttrMask }

// Attributes that several transitions require.
const (
	pathAttrs = QPAttrAH | QPAttrPathMTU | QPAttrDestQPN | QPAttrRQPSN
	sendAttrs = QPAttrTimeout | QPAttrRetryCount | QPAttrRNRRetry | QPAttrSQPSN | QPAttrMaxRdAtomic
)

// transitions holds all changes of state by type, old state and new state (qp_state_table,
// drivers/infiniband/core/verbs.c). Alternate paths and rate limits, which few devices support, are
// left out. A change to QPReset or QPErr has no attributes and is not in the table.
var transitions = map[QPType]map[[2]QPState]transition{
	RC: {
		{QPReset, QPInit}: {must: QPAttrPKeyIndex | QPAttrPort | QPAttrAccess},
		{QPInit, QPInit}:  {may: QPAttrPKeyIndex | QPAttrPort | QPAttrAccess},
		{QPInit, QPRTR}:   {must: pathAttrs | QPAttrMaxDestRdAtomic | QPAttrMinRNRTimer, may: QPAttrAccess | QPAttrPKeyIndex},
		{QPRTR, QPRTS}:    {must: sendAttrs, may: QPAttrCurState | QPAttrAccess | QPAttrMinRNRTimer},
		{QPRTS, QPRTS}:    {may: QPAttrCurState | QPAttrAccess | QPAttrMinRNRTimer},
		{QPRTS, QPSQD}:    {may: QPAttrSQDrainEvent},
		{QPSQD, QPRTS}:    {may: QPAttrCurState | QPAttrAccess | QPAttrMinRNRTimer},
		{QPSQD, QPSQD}: {may: QPAttrPort | QPAttrAH | QPAttrTimeout | QPAttrRetryCount | QPAttrRNRRetry | QPAttrMaxRdAtomic |
			QPAttrMaxDestRdAtomic | QPAttrAccess | QPAttrPKeyIndex | QPAttrMinRNRTimer},
	},
	UC: {
		{QPReset, QPInit}: {must: QPAttrPKeyIndex | QPAttrPort | QPAttrAccess},
		{QPInit, QPInit}:  {may: QPAttrPKeyIndex | QPAttrPort | QPAttrAccess},
		{QPInit, QPRTR}:   {must: pathAttrs, may: QPAttrAccess | QPAttrPKeyIndex},
		{QPRTR, QPRTS}:    {must: QPAttrSQPSN, may: QPAttrCurState | QPAttrAccess},
		{QPRTS, QPRTS}:    {may: QPAttrCurState | QPAttrAccess},
		{QPRTS, QPSQD}:    {may: QPAttrSQDrainEvent},
		{QPSQD, QPRTS}:    {may: QPAttrCurState | QPAttrAccess},
		{QPSQD, QPSQD}:    {may: QPAttrAH | QPAttrAccess | QPAttrPKeyIndex},
		{QPSQE, QPRTS}:    {may: QPAttrCurState | QPAttrAccess},
	},
	UD: {
		{QPReset, QPInit}: {must: QPAttrPKeyIndex | QPAttrPort | QPAttrQKey},
		{QPInit, QPInit}:  {may: QPAttrPKeyIndex | QPAttrPort | QPAttrQKey},
		{QPInit, QPRTR}:   {may: QPAttrPKeyIndex | QPAttrQKey},
		{QPRTR, QPRTS}:    {must: QPAttrSQPSN, may: QPAttrCurState | QPAttrQKey},
		{QPRTS, QPRTS}:    {may: QPAttrCurState | QPAttrQKey},
		{QPRTS, QPSQD}:    {may: QPAttrSQDrainEvent},
		{QPSQD, QPRTS}:    {may: QPAttrCurState | QPAttrQKey},
		{QPSQD, QPSQD}:    {may: QPAttrPKeyIndex | QPAttrQKey},
		{QPSQE, QPRTS}:    {may: QPAttrCurState | QPAttrQKey},
	},
}

// checkModify returns nil if a change of state and attributes is valid, else an error that
// describes what is wrong with it; the kernel's error would only be EINVAL.
func checkModify(typ QPType, from, to QPState, a *QPAttr, mask QPAttrMask) error {
	var t transition
	if to != QPReset && to != QPErr {
		var ok bool
		if t, ok = transitions[typ][[2]QPState{from, to}]; !ok {
			return fmt.Errorf("%v queue pairs cannot change from %v to %v", typ, from, to)
		}
	}
	mask &^= QPAttrState
	if missing := t.must &^ mask; missing != 0 {
		return fmt.Errorf("from %v to %v needs %v", from, to, missing)
	}
	if extra := mask &^ (t.must | t.may | QPAttrCurState); extra != 0 {
		return fmt.Errorf("from %v to %v does not take %v", from, to, extra)
	}
	for _, c := range []struct {
		bit QPAttrMask
		bad bool
		why string
	}{
		{QPAttrPort, a.Port == 0, "Port 0"},
		{QPAttrPathMTU, a.PathMTU.Bytes() == 0, "PathMTU is none"},
		{QPAttrDestQPN, a.DestQPN > mask24, "DestQPN has more than 24 bits"},
		{QPAttrTimeout, a.Timeout > 31, "Timeout above 31"},
		{QPAttrMinRNRTimer, a.MinRNRTimer > 31, "MinRNRTimer above 31"},
		{QPAttrRetryCount, a.RetryCount > 7, "RetryCount above 7"},
		{QPAttrRNRRetry, a.RNRRetry > 7, "RNRRetry above 7"},
		{QPAttrAH, a.AH.Port == 0, "AH.Port 0"},
	} {
		if mask&c.bit != 0 && c.bad {
			return fmt.Errorf("from %v to %v: %s", from, to, c.why)
		}
	}
	return nil
}
