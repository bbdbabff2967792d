package proto

import (
	"encoding/json"
	"math"
)

// Seconds is an estimated time in seconds. For the longest message of a range without an upper
// bound it is infinite. JSON represents an infinite time as null.
type Seconds float64

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(s), 0) || math.IsNaN(float64(s)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(s))
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Seconds) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*s = Seconds(math.Inf(1))
		return nil
	}
	return json.Unmarshal(b, (*float64)(s))
}
