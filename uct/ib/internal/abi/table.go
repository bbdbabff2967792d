//go:build linux

package abi

// Methods is the table of the methods that this module calls by ioctl(2). Sizes are those that
// callers use. Mandatory attributes are those of the kernel's
// drivers/infiniband/core/uverbs_std_types_*.c, and of hw/mlx5/main.c for mlx5's object. Drivers
// use the same numbers for their objects; only those of mlx5 are here.
var Methods = []MethodSpec{
	{Object: UVERBS_OBJECT_DEVICE, ID: UVERBS_METHOD_INVOKE_WRITE, Name: "DEVICE.INVOKE_WRITE", Since: "5.0", UHW: true, Attrs: []AttrSpec{
		{ID: UVERBS_ATTR_CORE_IN, Name: "CORE_IN", Kind: In, Max: 4096},
		{ID: UVERBS_ATTR_CORE_OUT, Name: "CORE_OUT", Kind: Out, Max: 4096},
		must(konst(UVERBS_ATTR_WRITE_CMD, "WRITE_CMD")),
	}},
	{Object: UVERBS_OBJECT_DEVICE, ID: UVERBS_METHOD_INFO_HANDLES, Name: "DEVICE.INFO_HANDLES", Since: "5.0", Attrs: []AttrSpec{
		must(konst(UVERBS_ATTR_INFO_OBJECT_ID, "OBJECT_ID")),
		num(Out, UVERBS_ATTR_INFO_TOTAL_HANDLES, "TOTAL_HANDLES", 4),
		must(AttrSpec{ID: UVERBS_ATTR_INFO_HANDLES_LIST, Name: "HANDLES_LIST", Kind: Out, Min: 4, Max: 65532}),
	}},
	{Object: UVERBS_OBJECT_DEVICE, ID: UVERBS_METHOD_QUERY_PORT, Name: "DEVICE.QUERY_PORT", Since: "5.1", Attrs: []AttrSpec{
		must(konst(UVERBS_ATTR_QUERY_PORT_PORT_NUM, "PORT_NUM")),
		must(obj[QueryPortRespEx](Out, UVERBS_ATTR_QUERY_PORT_RESP, "RESP")),
	}},
	{Object: UVERBS_OBJECT_DEVICE, ID: UVERBS_METHOD_GET_CONTEXT, Name: "DEVICE.GET_CONTEXT", Since: "5.6", UHW: true, Attrs: []AttrSpec{
		num(Out, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, "NUM_COMP_VECTORS", 4),
		num(Out, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, "CORE_SUPPORT", 8),
	}},
	{Object: UVERBS_OBJECT_DEVICE, ID: UVERBS_METHOD_QUERY_CONTEXT, Name: "DEVICE.QUERY_CONTEXT", Since: "5.9", UHW: true, Attrs: []AttrSpec{
		num(Out, UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, "NUM_COMP_VECTORS", 4),
		num(Out, UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, "CORE_SUPPORT", 8),
	}},
	{Object: UVERBS_OBJECT_DEVICE, ID: UVERBS_METHOD_QUERY_GID_TABLE, Name: "DEVICE.QUERY_GID_TABLE", Since: "5.10", Attrs: []AttrSpec{
		must(konst(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, "ENTRY_SIZE")),
		num(In, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, "FLAGS", 4),
		must(AttrSpec{ID: UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, Name: "RESP_ENTRIES", Kind: Out, Max: 65504}),
		must(num(Out, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, "RESP_NUM_ENTRIES", 8)),
	}},
	{Object: UVERBS_OBJECT_DEVICE, ID: UVERBS_METHOD_QUERY_GID_ENTRY, Name: "DEVICE.QUERY_GID_ENTRY", Since: "5.10", Attrs: []AttrSpec{
		must(konst(UVERBS_ATTR_QUERY_GID_ENTRY_PORT, "PORT")),
		must(konst(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, "GID_INDEX")),
		must(num(In, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, "FLAGS", 4)),
		must(obj[GidEntry](Out, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, "RESP_ENTRY")),
	}},
	{Object: UVERBS_OBJECT_ASYNC_EVENT, ID: UVERBS_METHOD_ASYNC_EVENT_ALLOC, Name: "ASYNC_EVENT.ALLOC", Since: "5.6", Attrs: []AttrSpec{
		must(handle(NewFD, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, "FD", UVERBS_OBJECT_ASYNC_EVENT)),
	}},
	{Object: UVERBS_OBJECT_PD, ID: UVERBS_METHOD_PD_DESTROY, Name: "PD.DESTROY", Since: "4.19", Attrs: []AttrSpec{
		must(handle(DestroyHandle, UVERBS_ATTR_DESTROY_PD_HANDLE, "HANDLE", UVERBS_OBJECT_PD)),
	}},
	{Object: UVERBS_OBJECT_MR, ID: UVERBS_METHOD_MR_DESTROY, Name: "MR.DESTROY", Since: "4.19", Attrs: []AttrSpec{
		must(handle(DestroyHandle, UVERBS_ATTR_DESTROY_MR_HANDLE, "HANDLE", UVERBS_OBJECT_MR)),
	}},
	{Object: UVERBS_OBJECT_MR, ID: UVERBS_METHOD_QUERY_MR, Name: "MR.QUERY", Since: "5.9", Attrs: []AttrSpec{
		must(handle(Handle, UVERBS_ATTR_QUERY_MR_HANDLE, "HANDLE", UVERBS_OBJECT_MR)),
		must(num(Out, UVERBS_ATTR_QUERY_MR_RESP_LKEY, "RESP_LKEY", 4)),
		must(num(Out, UVERBS_ATTR_QUERY_MR_RESP_RKEY, "RESP_RKEY", 4)),
		must(num(Out, UVERBS_ATTR_QUERY_MR_RESP_LENGTH, "RESP_LENGTH", 8)),
		num(Out, UVERBS_ATTR_QUERY_MR_RESP_IOVA, "RESP_IOVA", 8),
	}},
	{Object: UVERBS_OBJECT_MR, ID: UVERBS_METHOD_REG_DMABUF_MR, Name: "MR.REG_DMABUF", Since: "5.12", Attrs: []AttrSpec{
		must(handle(NewHandle, UVERBS_ATTR_REG_DMABUF_MR_HANDLE, "HANDLE", UVERBS_OBJECT_MR)),
		must(handle(Handle, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, "PD", UVERBS_OBJECT_PD)),
		must(num(In, UVERBS_ATTR_REG_DMABUF_MR_OFFSET, "OFFSET", 8)),
		must(num(In, UVERBS_ATTR_REG_DMABUF_MR_LENGTH, "LENGTH", 8)),
		must(num(In, UVERBS_ATTR_REG_DMABUF_MR_IOVA, "IOVA", 8)),
		must(num(In, UVERBS_ATTR_REG_DMABUF_MR_FD, "FD", 4)),
		must(num(In, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, "ACCESS_FLAGS", 4)),
		must(num(Out, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, "RESP_LKEY", 4)),
		must(num(Out, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, "RESP_RKEY", 4)),
	}},
	{Object: UVERBS_OBJECT_MW, ID: UVERBS_METHOD_MW_DESTROY, Name: "MW.DESTROY", Since: "4.19", Attrs: []AttrSpec{
		must(handle(DestroyHandle, UVERBS_ATTR_DESTROY_MW_HANDLE, "HANDLE", UVERBS_OBJECT_MW)),
	}},
	{Object: UVERBS_OBJECT_AH, ID: UVERBS_METHOD_AH_DESTROY, Name: "AH.DESTROY", Since: "4.19", Attrs: []AttrSpec{
		must(handle(DestroyHandle, UVERBS_ATTR_DESTROY_AH_HANDLE, "HANDLE", UVERBS_OBJECT_AH)),
	}},
	{Object: UVERBS_OBJECT_CQ, ID: UVERBS_METHOD_CQ_CREATE, Name: "CQ.CREATE", Since: "4.19", UHW: true, Attrs: []AttrSpec{
		must(handle(NewHandle, UVERBS_ATTR_CREATE_CQ_HANDLE, "HANDLE", UVERBS_OBJECT_CQ)),
		must(num(In, UVERBS_ATTR_CREATE_CQ_CQE, "CQE", 4)),
		must(num(In, UVERBS_ATTR_CREATE_CQ_USER_HANDLE, "USER_HANDLE", 8)),
		handle(FD, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, "COMP_CHANNEL", UVERBS_OBJECT_COMP_CHANNEL),
		must(num(In, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, "COMP_VECTOR", 4)),
		num(In, UVERBS_ATTR_CREATE_CQ_FLAGS, "FLAGS", 4),
		must(num(Out, UVERBS_ATTR_CREATE_CQ_RESP_CQE, "RESP_CQE", 4)),
		handle(FD, UVERBS_ATTR_CREATE_CQ_EVENT_FD, "EVENT_FD", UVERBS_OBJECT_ASYNC_EVENT),
	}},
	{Object: UVERBS_OBJECT_CQ, ID: UVERBS_METHOD_CQ_DESTROY, Name: "CQ.DESTROY", Since: "4.19", Attrs: []AttrSpec{
		must(handle(DestroyHandle, UVERBS_ATTR_DESTROY_CQ_HANDLE, "HANDLE", UVERBS_OBJECT_CQ)),
		must(obj[DestroyCqResp](Out, UVERBS_ATTR_DESTROY_CQ_RESP, "RESP")),
	}},
	{Object: UVERBS_OBJECT_QP, ID: UVERBS_METHOD_QP_CREATE, Name: "QP.CREATE", Since: "5.8", UHW: true, Attrs: []AttrSpec{
		must(handle(NewHandle, UVERBS_ATTR_CREATE_QP_HANDLE, "HANDLE", UVERBS_OBJECT_QP)),
		handle(Handle, UVERBS_ATTR_CREATE_QP_PD_HANDLE, "PD", UVERBS_OBJECT_PD),
		handle(Handle, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, "SRQ", UVERBS_OBJECT_SRQ),
		handle(Handle, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, "SEND_CQ", UVERBS_OBJECT_CQ),
		handle(Handle, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, "RECV_CQ", UVERBS_OBJECT_CQ),
		must(num(In, UVERBS_ATTR_CREATE_QP_USER_HANDLE, "USER_HANDLE", 8)),
		must(obj[QpCap](In, UVERBS_ATTR_CREATE_QP_CAP, "CAP")),
		must(konst(UVERBS_ATTR_CREATE_QP_TYPE, "TYPE")),
		num(In, UVERBS_ATTR_CREATE_QP_FLAGS, "FLAGS", 4),
		handle(FD, UVERBS_ATTR_CREATE_QP_EVENT_FD, "EVENT_FD", UVERBS_OBJECT_ASYNC_EVENT),
		must(obj[QpCap](Out, UVERBS_ATTR_CREATE_QP_RESP_CAP, "RESP_CAP")),
		must(num(Out, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, "RESP_QP_NUM", 4)),
	}},
	{Object: UVERBS_OBJECT_QP, ID: UVERBS_METHOD_QP_DESTROY, Name: "QP.DESTROY", Since: "5.8", Attrs: []AttrSpec{
		must(handle(DestroyHandle, UVERBS_ATTR_DESTROY_QP_HANDLE, "HANDLE", UVERBS_OBJECT_QP)),
		must(obj[DestroyQpResp](Out, UVERBS_ATTR_DESTROY_QP_RESP, "RESP")),
	}},
	{Object: UVERBS_OBJECT_SRQ, ID: UVERBS_METHOD_SRQ_CREATE, Name: "SRQ.CREATE", Since: "5.8", UHW: true, Attrs: []AttrSpec{
		must(handle(NewHandle, UVERBS_ATTR_CREATE_SRQ_HANDLE, "HANDLE", UVERBS_OBJECT_SRQ)),
		must(handle(Handle, UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, "PD", UVERBS_OBJECT_PD)),
		must(num(In, UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, "USER_HANDLE", 8)),
		must(num(In, UVERBS_ATTR_CREATE_SRQ_MAX_WR, "MAX_WR", 4)),
		must(num(In, UVERBS_ATTR_CREATE_SRQ_MAX_SGE, "MAX_SGE", 4)),
		must(num(In, UVERBS_ATTR_CREATE_SRQ_LIMIT, "LIMIT", 4)),
		must(konst(UVERBS_ATTR_CREATE_SRQ_TYPE, "TYPE")),
		handle(FD, UVERBS_ATTR_CREATE_SRQ_EVENT_FD, "EVENT_FD", UVERBS_OBJECT_ASYNC_EVENT),
		must(num(Out, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, "RESP_MAX_WR", 4)),
		must(num(Out, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, "RESP_MAX_SGE", 4)),
		num(Out, UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, "RESP_SRQ_NUM", 4),
	}},
	{Object: UVERBS_OBJECT_SRQ, ID: UVERBS_METHOD_SRQ_DESTROY, Name: "SRQ.DESTROY", Since: "5.8", Attrs: []AttrSpec{
		must(handle(DestroyHandle, UVERBS_ATTR_DESTROY_SRQ_HANDLE, "HANDLE", UVERBS_OBJECT_SRQ)),
		must(obj[DestroySrqResp](Out, UVERBS_ATTR_DESTROY_SRQ_RESP, "RESP")),
	}},
	{Object: MLX5_IB_OBJECT_UAR, ID: MLX5_IB_METHOD_UAR_OBJ_ALLOC, Name: "UAR.ALLOC", Since: "5.7", Attrs: []AttrSpec{
		must(handle(NewHandle, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, "HANDLE", MLX5_IB_OBJECT_UAR)),
		must(konst(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, "TYPE")),
		must(num(Out, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, "MMAP_OFFSET", 8)),
		must(num(Out, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, "MMAP_LENGTH", 4)),
		must(num(Out, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, "PAGE_ID", 4)),
	}},
	{Object: MLX5_IB_OBJECT_UAR, ID: MLX5_IB_METHOD_UAR_OBJ_DESTROY, Name: "UAR.DESTROY", Since: "5.7", Attrs: []AttrSpec{
		must(handle(DestroyHandle, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, "HANDLE", MLX5_IB_OBJECT_UAR)),
	}},
}

// Commands is the table of the commands that go through DEVICE.INVOKE_WRITE, because the supported
// kernels have no method for them.
var Commands = []CommandSpec{
	driver(request[QueryDevice, QueryDeviceResp](IB_USER_VERBS_CMD_QUERY_DEVICE, "QUERY_DEVICE")),
	request[ExQueryDevice, ExQueryDeviceResp](IB_USER_VERBS_CMD_FLAG_EXTENDED|IB_USER_VERBS_EX_CMD_QUERY_DEVICE, "EX_QUERY_DEVICE"),
	driver(request[AllocPd, AllocPdResp](IB_USER_VERBS_CMD_ALLOC_PD, "ALLOC_PD")),
	driver(request[CreateAh, CreateAhResp](IB_USER_VERBS_CMD_CREATE_AH, "CREATE_AH")),
	driver(request[RegMr, RegMrResp](IB_USER_VERBS_CMD_REG_MR, "REG_MR")),
	driver(request[ReregMr, ReregMrResp](IB_USER_VERBS_CMD_REREG_MR, "REREG_MR")),
	driver(request[AllocMw, AllocMwResp](IB_USER_VERBS_CMD_ALLOC_MW, "ALLOC_MW")),
	request[CreateCompChannel, CreateCompChannelResp](IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, "CREATE_COMP_CHANNEL"),
	driver(request[ResizeCq, ResizeCqResp](IB_USER_VERBS_CMD_RESIZE_CQ, "RESIZE_CQ")),
	command[ReqNotifyCq](IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, "REQ_NOTIFY_CQ"),
	request[QueryQp, QueryQpResp](IB_USER_VERBS_CMD_QUERY_QP, "QUERY_QP"),
	driver(command[ModifyQp](IB_USER_VERBS_CMD_MODIFY_QP, "MODIFY_QP")),
	request[PostSend, PostSendResp](IB_USER_VERBS_CMD_POST_SEND, "POST_SEND"),
	command[AttachMcast](IB_USER_VERBS_CMD_ATTACH_MCAST, "ATTACH_MCAST"),
	command[AttachMcast](IB_USER_VERBS_CMD_DETACH_MCAST, "DETACH_MCAST"),
	driver(command[ModifySrq](IB_USER_VERBS_CMD_MODIFY_SRQ, "MODIFY_SRQ")),
	request[QuerySrq, QuerySrqResp](IB_USER_VERBS_CMD_QUERY_SRQ, "QUERY_SRQ"),
}
