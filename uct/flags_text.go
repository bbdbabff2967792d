package uct

import (
	"fmt"
	"strings"
)

// ifaceFlagText names the capabilities as ucx_info and lane selection do, in the order of the
// bits.
var ifaceFlagText = []struct {
	flag IfaceFlags
	text string
}{
	{IfaceAMShort, "am short"}, {IfaceAMBcopy, "am bcopy"}, {IfaceAMZcopy, "am zcopy"},
	{IfacePending, "pending"},
	{IfacePutShort, "put short"}, {IfacePutBcopy, "put bcopy"}, {IfacePutZcopy, "put zcopy"},
	{IfaceGetShort, "get short"}, {IfaceGetBcopy, "get bcopy"}, {IfaceGetZcopy, "get zcopy"},
	{IfaceAtomicCPU, "atomic cpu"}, {IfaceAtomicDevice, "atomic device"},
	{IfaceErrHandleShortBuf, "short buffer errors"}, {IfaceErrHandleBcopyBuf, "bcopy buffer errors"},
	{IfaceErrHandleZcopyBuf, "zcopy buffer errors"}, {IfaceErrHandleAMID, "am id errors"},
	{IfaceErrHandleRemoteMem, "remote memory errors"}, {IfaceErrHandleBcopyLen, "bcopy length errors"},
	{IfaceErrHandlePeerFail, "peer failure handler"},
	{IfaceEpCheck, "ep check"},
	{IfaceConnectToIface, "connect to iface"}, {IfaceConnectToEP, "connect to ep"}, {IfaceConnectToSockAddr, "connect to sockaddr"},
	{IfaceAMDup, "duplicated am"}, {IfaceCBSync, "sync callback"}, {IfaceCBAsync, "async callback"},
	{IfaceEpKeepalive, "ep keepalive"}, {IfacePutAMOrder, "put ordered with am"},
	{IfaceTagEagerShort, "tag eager short"}, {IfaceTagEagerBcopy, "tag eager bcopy"},
	{IfaceTagEagerZcopy, "tag eager zcopy"}, {IfaceTagRndvZcopy, "tag rndv zcopy"},
	{IfaceInterNode, "inter-node"},
}

// String lists the capabilities by name, or returns "none".
func (f IfaceFlags) String() string {
	if f == 0 {
		return "none"
	}
	var names []string
	for _, c := range ifaceFlagText {
		if f.Has(c.flag) {
			names = append(names, c.text)
			f &^= c.flag
		}
	}
	if f != 0 {
		names = append(names, fmt.Sprintf("bits %#x", uint64(f)))
	}
	return strings.Join(names, ", ")
}
