//go:build linux

package verbs_test

import (
	"net"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// TestMulticastNetwork sends to a group across the network of the virtual machine. The host must
// join the group by IP to receive its packets.
func TestMulticastNetwork(t *testing.T) {
	r := ours(t)
	group := net.IPv4(239, 1, 2, 3)
	veth1 := must(net.InterfaceByName("veth1"))(t)
	command(t, "ip route add 239.1.2.3/32 dev veth0 table 101")
	t.Cleanup(func() { command(t, "ip route del 239.1.2.3/32 dev veth0 table 101") })
	command(t, "ip rule add pref 19 to 239.1.2.3 lookup 101")
	t.Cleanup(func() { command(t, "ip rule del pref 19") })
	member := must(net.ListenMulticastUDP("udp4", veth1, &net.UDPAddr{IP: group, Port: 9}))(t)
	defer member.Close()
	multicast(t, r.newSide(t, verbs.UD), r.peer)
}
