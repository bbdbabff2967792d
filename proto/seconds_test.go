package proto

import (
	"encoding/json"
	"math"
	"testing"
)

func TestSecondsJSON(t *testing.T) {
	for _, c := range []struct {
		in   Seconds
		text string
		back Seconds
	}{
		{0, "0", 0},
		{1.5e-6, "0.0000015", 1.5e-6},
		{Seconds(math.Inf(1)), "null", Seconds(math.Inf(1))},
		{Seconds(math.NaN()), "null", Seconds(math.Inf(1))},
	} {
		text, err := json.Marshal(c.in)
		if err != nil || string(text) != c.text {
			t.Errorf("%v: %s, %v; want %s", float64(c.in), text, err, c.text)
		}
		var back Seconds
		if err := json.Unmarshal(text, &back); err != nil || back != c.back {
			t.Errorf("%s: %v, %v", text, float64(back), err)
		}
	}
	var s Seconds
	if json.Unmarshal([]byte(`"soon"`), &s) == nil {
		t.Error("a word is a time")
	}
}
