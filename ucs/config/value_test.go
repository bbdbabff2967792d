package config

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// parseAs parses s as a setting of type T and prints the value.
func parseAs[T any](s string) (value T, printed string, err error) {
	v := reflect.New(reflect.TypeFor[T]()).Elem()
	err = parseInto(v, s)
	if err != nil {
		return value, "", err
	}
	return v.Interface().(T), format(v), nil
}

// check is a text, and either the value that it means with its printed form, or nothing if it must
// be refused. The printed forms are those of C UCX 1.22.0's ucx_info unless the comment says
// otherwise.
type check[T any] struct {
	in      string
	want    T
	printed string
}

func run[T any](t *testing.T, good []check[T], bad ...string) {
	t.Helper()
	for _, c := range good {
		got, printed, err := parseAs[T](c.in)
		if err != nil {
			t.Errorf("%T %q: %v", got, c.in, err)
			continue
		}
		if !reflect.DeepEqual(got, c.want) || printed != c.printed {
			t.Errorf("%T %q = %v, printed %q; want %v, %q", got, c.in, got, printed, c.want, c.printed)
		}
		// The printed form has the same meaning.
		if again, _, err := parseAs[T](printed); err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%T %q reads back from %q as %v, %v", got, c.in, printed, again, err)
		}
	}
	for _, in := range bad {
		if got, _, err := parseAs[T](in); err == nil {
			t.Errorf("%T %q = %v, want a refusal", got, in, got)
		}
	}
}

func TestBytes(t *testing.T) {
	run(t, []check[Bytes]{
		{"0", 0, "0"},
		{"8k", 8 << 10, "8K"},
		{"8kb", 8 << 10, "8K"},
		{"8KB", 8 << 10, "8K"},
		{" 8k", 8 << 10, "8K"},
		{"1m", 1 << 20, "1M"},
		{"1M", 1 << 20, "1M"},
		{"2g", 2 << 30, "2G"},
		{"3t", 3 << 40, "3T"},
		{"100", 100, "100"},
		{"100b", 100, "100"},
		{"100B", 100, "100"},
		{"1024", 1 << 10, "1K"},
		{"1536", 1536, "1536"},
		{"1025k", 1025 << 10, "1025K"},
		{"4096t", 4096 << 40, "4096T"},
		{"inf", BytesInf, "inf"},
		{"INF", BytesInf, "inf"},
		{"-1", BytesInf, "inf"},
		{"18446744073709551615", BytesInf, "inf"},
		{"auto", BytesAuto, "auto"},
		{"9223372036854775807", math.MaxInt64, "9223372036854775807"},
	},
		"", "k", "kb", "8x", "8kx", "1.5k", "-2", "+1", "0x10", "1_000", "8 k",
		"9223372036854775808", "8589934592g", "99999999999999999999", "infinite")
	if Bytes(100).Int(7) != 100 || BytesAuto.Int(7) != 7 || BytesInf.Int(7) != math.MaxInt {
		t.Error("Int does not clip or choose")
	}
	if !BytesAuto.IsAuto() || BytesInf.IsAuto() {
		t.Error("IsAuto")
	}
}

func TestCount(t *testing.T) {
	run(t, []check[Count]{
		{"5", 5, "5"}, {"0", 0, "0"}, {"inf", CountInf, "inf"}, {"-1", CountInf, "inf"}, {"18446744073709551615", CountInf, "inf"}, {"Auto", CountAuto, "auto"},
	}, "", "5k", "0x10", "-2", "9223372036854775808", "1.0")
	if Count(3).Int(7) != 3 || CountAuto.Int(7) != 7 || CountInf.Int(7) != math.MaxInt || !CountAuto.IsAuto() {
		t.Error("Int does not clip or choose")
	}
}

func TestTimes(t *testing.T) {
	us := func(n float64) Time { return Time(n * 1000) }
	run(t, []check[Time]{
		{"10us", us(10), "10.00us"},
		{"10ms", us(10000), "10000.00us"},
		{"1s", us(1e6), "1000000.00us"},
		{"1", us(1e6), "1000000.00us"},
		{"2m", us(120e6), "120000000.00us"},
		{"5ns", 5, "0.005us"}, // C prints two decimals, which loses the value
		{"1.5us", us(1.5), "1.50us"},
		{"1e3us", us(1000), "1000.00us"},
		{"inf", TimeInf, "inf"},
		{"INF", TimeInf, "inf"}, // C parses it as a number
		{"auto", TimeAuto, "auto"},
	},
		"", "s", "10x", "10 us", "10mss", "-1s", "-1", "nan", "1e300", "300000000m", "us10", "10uss")
	if TimeAuto.Duration(3) != 3 || Time(5).Duration(3) != 5 || TimeInf.Duration(3) != math.MaxInt64 || !TimeAuto.IsAuto() {
		t.Error("Duration does not choose")
	}
	run(t, []check[time.Duration]{{"20ms", 20 * time.Millisecond, "20000.00us"}}, "inf", "auto", "-3s", "")
}

func TestBandwidth(t *testing.T) {
	run(t, []check[Bandwidth]{
		{"2200MBs", 2200 << 20, "2200.00MBps"},
		{"2200MBps", 2200 << 20, "2200.00MBps"},
		{"10Gb/s", 1280 << 20, "1280.00MBps"},
		{"800Mbs", 100 << 20, "100.00MBps"},
		{"1TBs", 1 << 40, "1024.00GBps"},
		{"100Bs", 100, "100.00Bps"},
		{"100bps", 12.5, "12.50Bps"},
		{"0.5GBs", 512 << 20, "512.00MBps"},
		{"auto", BandwidthAuto, "auto"},
	}, "", "10G", "10", "10GB", "-1MBs", "MBs", "1e400MBs", "nanMBs", "infMBs", "1MMBs", "1Bs/s")
	if !BandwidthAuto.IsAuto() || Bandwidth(0).IsAuto() {
		t.Error("IsAuto")
	}
	if s := Bandwidth(60000 << 20).String(); s != "58.59GBps" {
		t.Errorf("60000MBs prints as %q", s)
	}
}

func TestChoices(t *testing.T) {
	run(t, []check[bool]{
		{"y", true, "y"}, {"Yes", true, "y"}, {"on", true, "y"}, {"1", true, "y"},
		{"n", false, "n"}, {"NO", false, "n"}, {"off", false, "n"}, {"0", false, "n"},
	}, "", "true", "try", "2", "yess")
	run(t, []check[Ternary]{
		{"y", Yes, "y"}, {"no", No, "n"}, {"try", Try, "try"}, {"maybe", Try, "try"}, {"auto", Auto, "auto"},
	}, "", "perhaps")
	run(t, []check[OnOffAuto]{
		{"on", On, "on"}, {"n", Off, "off"}, {"auto", OnOffAutomatic, "auto"}, {"try", OnOffAutomatic, "auto"},
	}, "", "perhaps")
	if i, err := ParseEnum("V2", []string{"v1", "v2"}); i != 1 || err != nil {
		t.Errorf("ParseEnum = %d, %v", i, err)
	}
	if _, err := ParseEnum("v3", []string{"v1", "v2"}); err == nil {
		t.Error("ParseEnum takes anything")
	}
	if s := EnumSyntax([]string{"v1", "v2"}); s != "[v1|v2]" {
		t.Errorf("EnumSyntax = %q", s)
	}
}

func TestFactor(t *testing.T) {
	run(t, []check[Factor]{{"0.5", 0.5, "0.500"}, {"AUTO", FactorAuto, "auto"}, {" 2", 2, "2.000"}}, "", "0", "-1", "inf", "nan", "x")
	if Factor(3).Float(7) != 3 || FactorAuto.Float(7) != 7 || !FactorAuto.IsAuto() {
		t.Error("Float does not choose")
	}
}

func TestNumbers(t *testing.T) {
	run(t, []check[int]{{"-5", -5, "-5"}, {"0x10", 16, "16"}, {" 7", 7, "7"}, {"INF", math.MaxInt, "inf"}}, "", "x", "1.5", "9223372036854775808")
	run(t, []check[uint]{{"5", 5, "5"}, {"inf", math.MaxUint, "inf"}, {maxUint64, math.MaxUint, "inf"}}, "", "-1", "0x10", "auto")
	run(t, []check[float64]{{"1.5", 1.5, "1.500"}, {"inf", math.MaxFloat64, "inf"}}, "", "nan", "-inf", "1e999", "x")
	run(t, []check[string]{{"any thing", "any thing", "any thing"}, {"", "", ""}})
}

func TestRange(t *testing.T) {
	run(t, []check[Range]{
		{"1000-2000", Range{1000, 2000}, "1000-2000"}, {"5", Range{5, 5}, "5"}, {"0", Range{}, "0"},
	}, "", "5-", "-5", "a", "1-2-3", "4294967296", "0-4294967296",
		"2000-1000") // C accepts it and then finds no port
}

func TestSlices(t *testing.T) {
	run(t, []check[[]string]{
		{"a,b", []string{"a", "b"}, "a,b"}, {"a,,b,", []string{"a", "b"}, "a,b"}, {"", []string{}, ""},
	})
	run(t, []check[[]Bytes]{{"64,1K", []Bytes{64, 1024}, "64,1K"}}, "64,x")
	run(t, []check[[]Range]{{"0-3,7", []Range{{0, 3}, {7, 7}}, "0-3,7"}}, "0-3,7-")
	if _, _, err := parseAs[[]string](strings.Repeat("a,", maxItems)); err != nil {
		t.Errorf("a list of %d items: %v", maxItems, err)
	}
	if _, _, err := parseAs[[]string](strings.Repeat("a,", maxItems+1)); err == nil {
		t.Errorf("a list of %d items is taken", maxItems+1)
	}
}

func TestLongValue(t *testing.T) {
	if _, _, err := parseAs[string](strings.Repeat("a", maxValue)); err != nil {
		t.Error(err)
	}
	if _, _, err := parseAs[string](strings.Repeat("a", maxValue+1)); err == nil {
		t.Error("a value beyond the limit is taken")
	}
}

// plain is a Value that does not describe its syntax.
type plain struct{ s string }

func (p *plain) ParseConfig(s string) error {
	if s != "yes" {
		return errors.New("not yes")
	}
	p.s = s
	return nil
}
func (p *plain) String() string { return p.s }

func TestSupported(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[bool](), reflect.TypeFor[time.Duration](), reflect.TypeFor[[]Bytes](),
		reflect.TypeFor[plain](), reflect.TypeFor[Transports](),
	} {
		if !supported(typ) {
			t.Errorf("%v is not supported", typ)
		}
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[int8](), reflect.TypeFor[map[string]string](), reflect.TypeFor[[][]string](),
		reflect.TypeFor[*bool](), reflect.TypeFor[struct{}](),
	} {
		if supported(typ) {
			t.Errorf("%v is supported", typ)
		}
	}
}

func TestSyntax(t *testing.T) {
	for _, tc := range []struct {
		typ  reflect.Type
		want string
	}{
		{reflect.TypeFor[bool](), "<y|n>"},
		{reflect.TypeFor[int](), "integer"},
		{reflect.TypeFor[uint](), "unsigned integer"},
		{reflect.TypeFor[float64](), "floating point number"},
		{reflect.TypeFor[string](), "string"},
		{reflect.TypeFor[time.Duration](), "time value: <number>[m|s|ms|us|ns]"},
		{reflect.TypeFor[Bytes](), `memory units: <number>[b|kb|mb|gb], "inf", or "auto"`},
		{reflect.TypeFor[Ternary](), "<yes|no|try|auto>"},
		{reflect.TypeFor[[]Range](), "comma-separated list of: numbers range: <number>-<number>"},
		{reflect.TypeFor[plain](), ""},
	} {
		if got := syntax(reflect.New(tc.typ).Elem()); got != tc.want {
			t.Errorf("syntax of %v = %q, want %q", tc.typ, got, tc.want)
		}
	}
}
