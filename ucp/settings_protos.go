package ucp

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
)

// protoList is the value of UCX_PROTOS: a list of protocols by name, whose items are
// patterns.
type protoList config.List

// ParseConfig implements config.Value.
func (l *protoList) ParseConfig(s string) error {
	var list config.List
	if err := list.ParseConfig(s); err != nil {
		return err
	}
	for _, pattern := range list.Items {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("pattern %q: %w: %w", pattern, err, ucs.ErrInvalidParam)
		}
	}
	*l = protoList(list)
	return nil
}

// String implements config.Value.
func (l protoList) String() string { return config.List(l).String() }

// ConfigSyntax describes the values for error messages and listings.
func (l protoList) ConfigSyntax() string { return config.List(l).ConfigSyntax() }

// allow returns what the cost model asks about each protocol, nil if all are allowed.
func (l *protoList) allow() func(proto.Protocol) bool {
	if l.Mode == config.ListAll {
		return nil
	}
	return func(p proto.Protocol) bool {
		fits := slices.ContainsFunc(l.Items, func(pattern string) bool { return globAny(pattern, p.String()) })
		return fits == (l.Mode == config.ListAllow)
	}
}

// globAny matches a pattern in which * stands for slashes as well.
func globAny(pattern, name string) bool {
	plain := strings.NewReplacer("/", "\x00")
	ok, _ := path.Match(plain.Replace(pattern), plain.Replace(name))
	return ok
}
