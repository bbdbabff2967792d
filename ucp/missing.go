package ucp

import (
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// deviceSettings are the settings that choose among devices, by kind.
var deviceSettings = [...]string{"UCX_NET_DEVICES", "UCX_SHM_DEVICES", "UCX_ACC_DEVICES", "UCX_SELF_DEVICES"}

// deviceSetting is the number of the setting that is about devices of a type.
func deviceSetting(t uct.DeviceType) int {
	switch t {
	case uct.DeviceNetwork:
		return 0
	case uct.DeviceShared:
		return 1
	case uct.DeviceAccelerator:
		return 2
	}
	return 3
}

// devices is the value of a setting of devices.
func (c *Context) devices(setting int) *config.List {
	s := &c.settings
	return [len(deviceSettings)]*config.List{&s.NetDevices, &s.ShmDevices, &s.AccDevices, &s.SelfDevices}[setting]
}

// noDevice notes what the transports of a component would need.
func (c *Context) noDevice(comp uct.Component) {
	d, ok := comp.(uct.Deviceless)
	if !ok {
		return
	}
	var why error
	for _, name := range d.Transports() {
		switch {
		case c.settings.TLS.Use(name) == config.UseNone:
			c.skip(name, errNotInTLS)
			continue
		case why == nil:
			why = d.Absent()
		}
		c.skip(name, why)
	}
}

// unknownTransports are the names in UCX_TLS that mean nothing anywhere.
func (c *Context) unknownTransports() []config.UnknownName {
	known := append([]string{encrypting}, c.seenTransports...)
	for _, s := range c.skipped {
		known = append(known, s.transport())
	}
	return c.settings.TLS.UnknownTransports(known)
}

// warnMissing reports transports and devices that were asked for by name and do not exist,
// and names after ^ that nothing has.
func (c *Context) warnMissing() {
	for _, u := range c.unknownTransports() {
		fields := []zap.Field{zap.String("transport", u.Name)}
		if u.Nearest != "" {
			fields = append(fields, zap.String("nearest", u.Nearest))
		}
		c.log.WarnOnce(u.Name, "unknown transport in UCX_TLS", fields...)
	}
	for _, item := range c.absentTransports() {
		fields := []zap.Field{zap.String("transport", item)}
		if why := c.whyNot(item); why != "" {
			fields = append(fields, zap.String("reason", why))
		} else {
			fields = append(fields, zap.Strings("available", unique(c.seenTransports)))
		}
		c.log.WarnOnce(item, "transport in UCX_TLS is not available", fields...)
	}
	for k, name := range deviceSettings {
		for _, item := range c.absentDevices(k) {
			c.log.WarnOnce(item, "device in "+name+" is not available", zap.String("device", item),
				zap.Strings("available", unique(c.seenDevices[k])))
		}
	}
}

// absentTransports are the items of UCX_TLS that stand for transports which are not here.
func (c *Context) absentTransports() []string {
	unknown := c.unknownTransports()
	return slices.DeleteFunc(c.settings.TLS.Missing(c.seenTransports), func(item string) bool {
		return slices.ContainsFunc(unknown, func(u config.UnknownName) bool { return u.Name == item })
	})
}

// absentDevices are the items of a setting of devices that are not here, as far as one can
// tell: a transport that cannot be used may have them.
func (c *Context) absentDevices(setting int) []string {
	if c.unsure {
		return nil
	}
	return c.devices(setting).MissingDevices(c.seenDevices[setting])
}

// whyNot is the reason why the transports that an item of UCX_TLS stands for are not here, ""
// if nothing is known of them.
func (c *Context) whyNot(item string) string {
	for _, s := range c.skipped {
		if config.TransportItem(item).Selects(s.transport()) && s.reason != errNotInTLS.Error() {
			return s.reason
		}
	}
	return ""
}

// transport is the transport's name of something that is not used.
func (s skippedResource) transport() string {
	name, _, _ := strings.Cut(s.name, "/")
	return name
}

// nothingLeft says why the context has no transport: of names that mean nothing, of those
// asked for, and of devices that are not here; what nobody has asked for is no reason.
func (c *Context) nothingLeft() error {
	var reasons []string
	unknown := c.unknownTransports()
	for _, u := range unknown {
		text := "unknown transport " + u.Name + " in UCX_TLS"
		if u.Nearest != "" {
			text += ", nearest " + u.Nearest
		}
		reasons = append(reasons, text)
	}
	if len(unknown) > 0 && c.settings.TLS.List().Mode == config.ListAllow && len(unknown) == len(c.settings.TLS.List().Items) {
		return fmt.Errorf("ucp: %s: %w", strings.Join(reasons, "; "), ucs.ErrNoDevice)
	}
	for _, item := range c.absentTransports() {
		if c.whyNot(item) == "" {
			reasons = append(reasons, "no transport "+item+" on this machine or in this library")
		}
	}
	reasons = append(reasons, c.skippedAsked()...)
	for k, name := range deviceSettings {
		for _, item := range c.absentDevices(k) {
			reasons = append(reasons, fmt.Sprintf("no device %s (%s) here, but %s", item, name, strings.Join(unique(c.seenDevices[k]), ", ")))
		}
	}
	if len(reasons) == 0 {
		reasons = []string{"it leaves out all that there are: " + strings.Join(unique(c.seenTransports), ", ")}
	}
	return fmt.Errorf("ucp: no transport left by UCX_TLS=%s and the device settings: %s: %w",
		c.settings.TLS, strings.Join(reasons, "; "), ucs.ErrNoDevice)
}

// skippedAsked lists what UCX_TLS has and is not used, those of one reason together.
func (c *Context) skippedAsked() []string {
	var reasons []string
	names := make(map[string][]string) // by reason
	for _, s := range c.skipped {
		if s.reason == errNotInTLS.Error() || c.settings.TLS.Use(s.transport()) == config.UseNone {
			continue
		}
		if names[s.reason] == nil {
			reasons = append(reasons, s.reason)
		}
		names[s.reason] = append(names[s.reason], s.name)
	}
	for k, reason := range reasons {
		reasons[k] = strings.Join(names[reason], ", ") + ": " + reason
	}
	return reasons
}

// unique sorts names and leaves out repetitions.
func unique(names []string) []string {
	list := slices.Clone(names)
	slices.Sort(list)
	return slices.Compact(list)
}
