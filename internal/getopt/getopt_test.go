package getopt

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParser(t *testing.T) {
	long := []Long{
		{Name: "peer", Value: true},
		{Name: "json", OneDash: true},
		{Name: "daemon-local", Value: true, Returned: "g"},
	}
	tests := []struct {
		name     string
		args     string
		want     string // parsed options, "opt" or "opt=value"
		operands string
		err      string
	}{
		{name: "empty"},
		{name: "cluster", args: "-vdb", want: "v d b"},
		{name: "value attached", args: "-n100 -v", want: "n=100 v"},
		{name: "value apart", args: "-n 100", want: "n=100"},
		{name: "value ends a cluster", args: "-vn 100 -d", want: "v n=100 d"},
		{name: "value that looks like an option", args: "-n -v", want: "n=-v"},
		{name: "operand first", args: "host -v -n 5", want: "v n=5", operands: "host"},
		{name: "operand between", args: "-v host -d", want: "v d", operands: "host"},
		{name: "operands last", args: "-v a b", want: "v", operands: "a b"},
		{name: "double dash", args: "-v -- -d host", want: "v", operands: "-d host"},
		{name: "single dash", args: "- -v", want: "v", operands: "-"},
		{name: "long", args: "--peer 1.13 -v", want: "peer=1.13 v"},
		{name: "long with equals", args: "--peer=1.13", want: "peer=1.13"},
		{name: "long alias", args: "--daemon-local x", want: "g=x"},
		{name: "long by one dash", args: "-json -v", want: "json v"},
		{name: "long that needs two dashes", args: "-peer 1.13", err: "invalid option -- 'p'"},
		{name: "unknown letter", args: "-v -z", want: "v", err: "invalid option -- 'z'"},
		{name: "colon is no letter", args: "-:", err: "invalid option -- ':'"},
		{name: "help that is not listed", args: "--help", want: "help"},
		{name: "unknown long", args: "--bogus", err: "unrecognized option '--bogus'"},
		{name: "missing value", args: "-n", err: "option requires an argument -- 'n'"},
		{name: "missing long value", args: "--peer", err: "option '--peer' requires an argument"},
		{name: "value not taken", args: "--json=x", err: "option '--json' doesn't allow an argument"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := New(strings.Fields(tt.args), "vdbn:", long)
			var got []string
			var failure string
			for {
				opt, value, err := p.Next()
				if err != nil {
					failure = err.Error()
					break
				}
				if opt == "" {
					break
				}
				if value != "" {
					opt += "=" + value
				}
				got = append(got, opt)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.err, failure); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if tt.err == "" {
				if diff := cmp.Diff(tt.operands, strings.Join(p.Operands(), " ")); diff != "" {
					t.Errorf("operands (-want +got):\n%s", diff)
				}
			}
		})
	}
}
