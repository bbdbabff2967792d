//go:build linux

package main

import (
	"fmt"
	"io"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// The layout, including white space, is that of ibv_devinfo, because scripts parse it. Numbers are
// converted to their C types before they are printed.

const indent = "\t\t\t\t\t"

func writeList(w io.Writer, list []verbs.Device) {
	plural := "s"
	if len(list) == 1 {
		plural = ""
	}
	fmt.Fprintf(w, "%d HCA%s found:\n", len(list), plural)
	for i := range list {
		fmt.Fprintf(w, "\t%s\n", list[i].Name)
	}
	fmt.Fprintln(w)
}

func writeHCA(w io.Writer, h *hca, verbose bool) {
	a := &h.attr
	transport := h.device.NodeType.Transport()
	fmt.Fprintf(w, "hca_id:\t%s\n", h.device.Name)
	fmt.Fprintf(w, "\ttransport:\t\t\t%s (%d)\n", transportName(transport), transport)
	if a.Firmware != "" {
		fmt.Fprintf(w, "\tfw_ver:\t\t\t\t%s\n", a.Firmware)
	}
	fmt.Fprintf(w, "\tnode_guid:\t\t\t%s\n", a.NodeGUID)
	fmt.Fprintf(w, "\tsys_image_guid:\t\t\t%s\n", a.SysImageGUID)
	fmt.Fprintf(w, "\tvendor_id:\t\t\t0x%04x\n", a.VendorID)
	fmt.Fprintf(w, "\tvendor_part_id:\t\t\t%d\n", int32(a.VendorPartID))
	fmt.Fprintf(w, "\thw_ver:\t\t\t\t0x%X\n", a.HWVersion)
	if h.device.BoardID != "" {
		fmt.Fprintf(w, "\tboard_id:\t\t\t%s\n", h.device.BoardID)
	}
	fmt.Fprintf(w, "\tphys_port_cnt:\t\t\t%d\n", a.Ports)
	if verbose {
		writeLimits(w, a)
		writeODP(w, &a.ODP)
		writeExtended(w, a)
		fmt.Fprintf(w, "\tnum_comp_vectors:\t\t%d\n", h.vectors)
	}
	for i := range h.ports {
		writePort(w, &h.ports[i], transport, verbose)
	}
}

// writeLimits prints the fields of struct ibv_device_attr.
func writeLimits(w io.Writer, a *verbs.DeviceAttr) {
	number := func(label string, n int) { fmt.Fprintf(w, "\t%s%d\n", label, int32(n)) }
	fmt.Fprintf(w, "\tmax_mr_size:\t\t\t0x%x\n", a.MaxMRSize)
	fmt.Fprintf(w, "\tpage_size_cap:\t\t\t0x%x\n", a.PageSizeCap)
	number("max_qp:\t\t\t\t", a.MaxQP)
	number("max_qp_wr:\t\t\t", a.MaxQPWR)
	fmt.Fprintf(w, "\tdevice_cap_flags:\t\t0x%08x\n", uint32(a.CapFlags))
	names, unknown := (a.CapFlags & 0xffffffff).Names()
	for _, name := range names {
		fmt.Fprintf(w, indent+"%s\n", name)
	}
	writeUnknown(w, uint64(unknown))
	number("max_sge:\t\t\t", a.MaxSGE)
	number("max_sge_rd:\t\t\t", a.MaxSGERead)
	number("max_cq:\t\t\t\t", a.MaxCQ)
	number("max_cqe:\t\t\t", a.MaxCQE)
	number("max_mr:\t\t\t\t", a.MaxMR)
	number("max_pd:\t\t\t\t", a.MaxPD)
	number("max_qp_rd_atom:\t\t\t", a.MaxQPRdAtom)
	number("max_ee_rd_atom:\t\t\t", a.MaxEERdAtom)
	number("max_res_rd_atom:\t\t", a.MaxResRdAtom)
	number("max_qp_init_rd_atom:\t\t", a.MaxQPInitRdAtom)
	number("max_ee_init_rd_atom:\t\t", a.MaxEEInitRdAtom)
	fmt.Fprintf(w, "\tatomic_cap:\t\t\t%s (%d)\n", atomicName(a.AtomicCap), a.AtomicCap)
	number("max_ee:\t\t\t\t", a.MaxEE)
	number("max_rdd:\t\t\t", a.MaxRDD)
	number("max_mw:\t\t\t\t", a.MaxMW)
	number("max_raw_ipv6_qp:\t\t", a.MaxRawIPv6QP)
	number("max_raw_ethy_qp:\t\t", a.MaxRawEthyQP)
	number("max_mcast_grp:\t\t\t", a.MaxMcastGroups)
	number("max_mcast_qp_attach:\t\t", a.MaxMcastQPAttach)
	number("max_total_mcast_qp_attach:\t", a.MaxTotalMcastAttach)
	number("max_ah:\t\t\t\t", a.MaxAH)
	number("max_fmr:\t\t\t", a.MaxFMR)
	if a.MaxFMR != 0 {
		number("max_map_per_fmr:\t\t", a.MaxMapPerFMR)
	}
	number("max_srq:\t\t\t", a.MaxSRQ)
	if a.MaxSRQ != 0 {
		number("max_srq_wr:\t\t\t", a.MaxSRQWR)
		number("max_srq_sge:\t\t\t", a.MaxSRQSGE)
	}
	number("max_pkeys:\t\t\t", a.MaxPKeys)
	number("local_ca_ack_delay:\t\t", a.LocalCAAckDelay)
}

func writeODP(w io.Writer, o *verbs.ODPCaps) {
	fmt.Fprint(w, "\tgeneral_odp_caps:\n")
	writeFlags(w, uint64(o.General), odpGeneralNames)
	for _, t := range []struct {
		name string
		caps verbs.ODPCap
	}{{"rc", o.RC}, {"uc", o.UC}, {"ud", o.UD}, {"xrc", o.XRC}} {
		fmt.Fprintf(w, "\t%s_odp_caps:\n", t.name)
		if t.caps == 0 {
			fmt.Fprint(w, indent+"NO SUPPORT\n")
		}
		writeFlags(w, uint64(t.caps), odpNames)
	}
}

// writeExtended prints the fields that only struct ibv_device_attr_ex has.
func writeExtended(w io.Writer, a *verbs.DeviceAttr) {
	if a.TimestampMask != 0 {
		fmt.Fprintf(w, "\tcompletion timestamp_mask:\t\t\t0x%016x\n", a.TimestampMask)
	} else {
		fmt.Fprint(w, "\tcompletion_timestamp_mask not supported\n")
	}
	if a.CoreClockKHz != 0 {
		fmt.Fprintf(w, "\thca_core_clock:\t\t\t%dkHZ\n", a.CoreClockKHz)
	} else {
		fmt.Fprint(w, "\tcore clock not supported\n")
	}
	if a.RawPacket != 0 {
		fmt.Fprint(w, "\traw packet caps:\n")
		writeFlags(w, uint64(a.RawPacket&rawPacketKnown), rawPacketNames)
	}
	fmt.Fprintf(w, "\tdevice_cap_flags_ex:\t\t0x%X\n", uint64(a.CapFlags))
	names, unknown := (a.CapFlags &^ 0xffffffff).Names()
	for _, name := range names {
		fmt.Fprintf(w, indent+"%s\n", name)
	}
	writeUnknown(w, uint64(unknown))

	fmt.Fprintf(w, "\ttso_caps:\n\t\tmax_tso:\t\t\t%d\n", int32(a.TSO.MaxTSO))
	if a.TSO.MaxTSO != 0 {
		writeQPTypes(w, a.TSO.QPTypes)
	}
	fmt.Fprint(w, "\trss_caps:\n")
	fmt.Fprintf(w, "\t\tmax_rwq_indirection_tables:\t\t\t%d\n", a.RSS.MaxRWQIndirectionTables)
	fmt.Fprintf(w, "\t\tmax_rwq_indirection_table_size:\t\t\t%d\n", a.RSS.MaxRWQIndirectionTableSize)
	fmt.Fprintf(w, "\t\trx_hash_function:\t\t\t\t0x%x\n", a.RSS.RxHashFunction)
	fmt.Fprintf(w, "\t\trx_hash_fields_mask:\t\t\t\t0x%X\n", a.RSS.RxHashFieldsMask)
	if a.RSS.QPTypes != 0 {
		writeQPTypes(w, a.RSS.QPTypes)
	}
	fmt.Fprintf(w, "\tmax_wq_type_rq:\t\t\t%d\n", a.MaxWQTypeRQ)
	fmt.Fprint(w, "\tpacket_pacing_caps:\n")
	fmt.Fprintf(w, "\t\tqp_rate_limit_min:\t%dkbps\n", a.PacketPacing.MinKbps)
	fmt.Fprintf(w, "\t\tqp_rate_limit_max:\t%dkbps\n", a.PacketPacing.MaxKbps)
	if a.PacketPacing.MaxKbps != 0 {
		writeQPTypes(w, a.PacketPacing.QPTypes)
	}
	writeTagMatching(w, &a.TagMatching)
	if a.CQModerationCount != 0 && a.CQModerationPeriodUs != 0 {
		fmt.Fprintf(w, "\n\tcq moderation caps:\n\t\tmax_cq_count:\t%d\n\t\tmax_cq_period:\t%d us\n\n", a.CQModerationCount, a.CQModerationPeriodUs)
	}
	if a.MaxDeviceMemory != 0 {
		fmt.Fprintf(w, "\tmaximum available device memory:\t%dBytes\n\n", a.MaxDeviceMemory)
	}
}

func writeTagMatching(w io.Writer, t *verbs.TMCaps) {
	if t.MaxNumTags == 0 {
		fmt.Fprint(w, "\ttag matching not supported\n")
		return
	}
	fmt.Fprintf(w, "\tmax_rndv_hdr_size:\t\t%d\n", t.MaxRndvHdrSize)
	fmt.Fprintf(w, "\tmax_num_tags:\t\t\t%d\n", t.MaxNumTags)
	fmt.Fprintf(w, "\tmax_ops:\t\t\t%d\n", t.MaxOps)
	fmt.Fprintf(w, "\tmax_sge:\t\t\t%d\n", t.MaxSGE)
	fmt.Fprint(w, "\tflags:\n")
	if t.RC {
		fmt.Fprint(w, indent+"IBV_TM_CAP_RC\n")
	}
}

func writePort(w io.Writer, p *port, transport verbs.TransportType, verbose bool) {
	a := &p.attr
	fmt.Fprintf(w, "\t\tport:\t%d\n", p.num)
	field := func(label, format string, args ...any) { fmt.Fprintf(w, "\t\t\t"+label+format+"\n", args...) }
	field("state:\t\t\t", "%s (%d)", stateName(a.State), a.State)
	field("max_mtu:\t\t", "%s (%d)", mtuName(a.MaxMTU), uint8(a.MaxMTU))
	field("active_mtu:\t\t", "%s (%d)", mtuName(a.ActiveMTU), uint8(a.ActiveMTU))
	field("sm_lid:\t\t\t", "%d", a.SMLID)
	field("port_lid:\t\t", "%d", a.LID)
	field("port_lmc:\t\t", "0x%02x", a.LMC)
	field("link_layer:\t\t", "%s", linkName(a.LinkLayer))
	if verbose {
		field("max_msg_sz:\t\t", "0x%x", a.MaxMsgSize)
		field("port_cap_flags:\t\t", "0x%08x", a.CapFlags)
		field("port_cap_flags2:\t", "0x%04x", a.CapFlags2)
		field("max_vl_num:\t\t", "%s (%d)", vlName(a.MaxVLNum), a.MaxVLNum)
		field("bad_pkey_cntr:\t\t", "0x%x", a.BadPKeys)
		field("qkey_viol_cntr:\t\t", "0x%x", a.QKeyViols)
		field("sm_sl:\t\t\t", "%d", a.SMSL)
		field("pkey_tbl_len:\t\t", "%d", a.PKeyTableLen)
		field("gid_tbl_len:\t\t", "%d", a.GIDTableLen)
		field("subnet_timeout:\t\t", "%d", a.SubnetTimeout)
		field("init_type_reply:\t", "%d", a.InitTypeReply)
		field("active_width:\t\t", "%sX (%d)", widthName(a.ActiveWidth), a.ActiveWidth)
		field("active_speed:\t\t", "%s (%d)", speedName(a.ActiveSpeed), a.ActiveSpeed)
		if transport == verbs.TransportIB {
			field("phys_state:\t\t", "%s (%d)", physName(a.PhysState), a.PhysState)
		}
		for _, g := range p.gids {
			writeGID(w, g, a.LinkLayer)
		}
	}
	fmt.Fprintln(w)
}

// writeGID prints an entry of the GID table, unless the last 8 bytes of the GID are zero.
func writeGID(w io.Writer, g verbs.GIDEntry, link verbs.LinkLayer) {
	if [8]byte(g.GID[8:]) == [8]byte{} {
		return
	}
	address, protocol := g.GID.String(), "RoCE v1"
	if g.Type != verbs.GIDInfiniBand && g.Type != verbs.GIDRoCEv1 {
		address, protocol = ipv6(g.GID), "RoCE v2"
	}
	if link == verbs.LinkEthernet {
		address += ", " + protocol
	}
	fmt.Fprintf(w, "\t\t\tGID[%3d]:\t\t%s\n", g.Index, address)
}
