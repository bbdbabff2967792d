package config

import (
	"path"
	"slices"
	"strings"
)

// noEffectSettings lists settings of C UCX 1.13 to 1.22 that have no effect in this library, by reason. A
// name may be a pattern as in path.Match, for settings that several of C's transports have. After a
// name, =VALUE lists values, separated by |, that request what this library does anyway, so that no
// warning is logged for them. Settings of this library are never looked up in the list, even if a
// pattern matches.
var noEffectSettings = []reason{
	{noGPUs, []string{
		"CUDA_*", "ROCM_*", "GDR_*", "ZE_*", "GAUDI_*", "MEM_CUDA_*",
		"MEMTYPE_CACHE=n", "MEMTYPE_COPY_ENABLE=n", "MEMTYPE_REG_WHOLE_ALLOC_TYPES", "MAX_HCA_PER_GPU", "SELECT_DISTANCE_MD",
		"IB_GPU_DIRECT_RDMA=n", "IB_GDA_*", "IB_DIRECT_NIC=n", "RNDV_MEMTYPE_DIRECT_SIZE", "RNDV_FRAG_MEM_TYPE", "RNDV_FRAG_MEM_TYPES",
	}},
	{noTransport, []string{
		"DC_*", "GGA_*", "RC_MLX5_*", "UD_MLX5_*", "IB_MLX5_*", "SRD_*", "EFA_*", "RC_GDA_*", "KNEM_*", "XPMEM_*", "UGNI_*",
	}},
	{"rendezvous pipelines through intermediate buffers are not supported", []string{
		"RNDV_FRAG_SIZE", "RNDV_FRAG_ALLOC_COUNT", "RNDV_PIPELINE_*", "RMA_PPLN_ENABLE=n",
	}},
	{"there is no registration cache, and no memory allocation hooks", []string{
		"RCACHE_ENABLE=n", "RCACHE_*", "IB_RCACHE_*", "IB_REG_METHODS", "IB_MAX_IDLE_RKEY_COUNT", "MEM_EVENTS=n", "MEM_ALLOC_ALIGN",
		"MEM_BISTRO_*", "MEM_DLOPEN_PROCESS_RPATH=n", "MEM_DYNAMIC_MMAP_THRESH", "MEM_LOG_LEVEL", "MEM_MALLOC_HOOKS=n",
		"MEM_MALLOC_RELOC=n", "MEM_MMAP_HOOK_MODE=none", "MEM_MODULE_UNLOAD_PREVENT_MODE", "REG_NONBLOCK_*",
	}},
	{"the Go runtime handles crashes; no signal handlers are installed", []string{
		"HANDLE_ERRORS=none", "ERROR_SIGNALS", "ERROR_MAIL_TO=", "ERROR_MAIL_FOOTER", "GDB_COMMAND", "DEBUG_SIGNO", "LOG_BUFFER",
	}},
	{"the library has no messages for its developers only", []string{"LOG_PRINT_ENABLE=n"}},
	{"progress is made by calls and goroutines, not by signals", []string{"ASYNC_SIGNO", "ASYNC_MAX_EVENTS"}},
	{"nothing is loaded at run time", []string{"MODULES=all", "MODULE_DIR", "MODULE_LOG_LEVEL", "PLUGIN_PATH="}},
	{"replaced by counters, Explain and pprof", []string{
		"VFS_ENABLE=n", "VFS_SOCK_PATH", "VFS_THREAD_AFFINITY", "STATS_*", "PROFILE_MODE=", "PROFILE_FILE", "PROFILE_LOG_SIZE",
		"MEMTRACK_DEST=", "MEMTRACK_LIMIT", "RCACHE_STAT_*",
	}},
	{"Go's runtime copies memory", []string{"BUILTIN_MEMCPY_*", "NT_BUFFER_TRANSFER_MIN", "NT_DEST_THRESHOLD"}},
	{"distances between devices, memory and CPUs are not in the cost model", []string{
		"DISTANCE_BW", "DISTANCE_LAT", "TOPO_PRIO", "IB_PCI_BW=", "IB_PREFER_NEAREST_DEVICE=n",
	}},
	{"the cost model uses the overhead of an operation as a whole", []string{"PROTO_OVERHEAD", "*_SEND_OVERHEAD", "IB_MEM_REG_GROWTH", "TX_SEND_OVERHEAD"}},
	{"protocols are always selected as with UCX_PROTO_ENABLE=y", []string{
		"PROTO_ENABLE=y", "PROTO_EMULATION_ENABLE=y", "PROTO_INDIRECT_ID", "PROTO_REQUEST_RESET=n", "EXTRA_OP_ATTR_FLAGS=",
		"RNDV_THRESH_FALLBACK=inf", "FLUSH_WORKER_EPS=y", "RKEY_MPOOL_MAX_MD",
	}},
	{"endpoints keep their transports", []string{
		"DYNAMIC_TL_PROGRESS_FACTOR", "DYNAMIC_TL_SWITCH_INTERVAL=inf", "MAX_PRIORITY_EPS", "RECOVERY_RETRIES",
	}},
	{"tags are matched by the CPU", []string{"TM_*", "PREFER_OFFLOAD"}},
	{"device memory, on-demand paging, memory keys of mlx5 and global addresses are not used", []string{
		"GVA_ENABLE=off|n", "GVA_*", "IB_ODP_*", "IB_INDIRECT_ATOMIC", "IB_REG_MT_*", "IB_SMKEY_BLOCK_SIZE", "IB_XGVMI_UMR_ENABLE",
		"IB_REG_RETRY_CNT", "IB_DEVICE_SPECS=", "RC_TM_*", "RC_DDP_ENABLE", "RC_EXP_BACKOFF",
		"RC_LOG_ACK_REQ_FREQ", "RC_SRQ_TOPO", "RC_TX_MAX_BB", "UD_COMPACT_AV", "*_MMIO_MODE", "*_DM_COUNT", "*_DM_SIZE", "*_AR_ENABLE",
		"*_CQE_ZIP_ENABLE", "*_CQE_ZIPPING_ENABLE",
	}},
	{"only the mlx5 transports and queues of C UCX use it", []string{
		"IB_ETH_PAUSE_ON",
		"IB_TX_INLINE_RESP", "RC_TX_INLINE_RESP", "UD_TX_INLINE_RESP", "RC_VERBS_TX_INLINE_RESP", "UD_VERBS_TX_INLINE_RESP",
		"IB_RX_INLINE", "RC_RX_INLINE", "UD_RX_INLINE", "RC_VERBS_RX_INLINE", "UD_VERBS_RX_INLINE",
		"*_COUNTER_SET_ID", "*_REVERSE_SL", "RC_ECE", "RC_VERBS_ECE", "RC_VERBS_FLUSH_MODE",
	}},
	{"buffers are allocated on demand, and unexpected messages are stored at their exact size", []string{
		"ALLOC", "*_ALLOC", "*_TX_BUFS_GROW", "*_TX_GROW_FACTOR", "*_TX_MAX_CHUNK_SIZE", "*_TX_MAX_BATCH", "*_RX_MAX_BATCH",
		"*_RX_BUFS_GROW", "*_RX_GROW_FACTOR", "*_RX_MAX_CHUNK_SIZE", "TCP_RX_MAX_BUFS", "TCP_TX_MAX_BUFS", "UD_*RX_QUEUE_LEN_INIT",
		"RX_MPOOL_SIZES", "RNDV_ALIGN_THRESH", "POSIX_SHM_MIN_SIZE",
	}},
	{"replaced by UCX_UD_VERBS_ASYNC", []string{"UD_*ASYNC_TIMER_TICK", "UD_*RX_ASYNC_MAX_POLL"}},
	{"send completions are always polled", []string{"RC_TX_POLL_ALWAYS=y", "RC_VERBS_TX_POLL_ALWAYS=y"}},
	{"it needs the same transports and devices on both sides, in the order in which C UCX counts them; peers that have it set cannot be reached", []string{"UNIFIED_MODE=n"}},
	{"C UCX applies it to peers that announce release 1.19 or later, and this library announces no release", []string{"CONNECT_ALL_TO_ALL=n"}},
	{"connecting never blocks", []string{"TCP_CONN_NB=y"}},
	{"cma keeps no memory that could be invalidated", []string{"CMA_MEMORY_INVALIDATE=n"}},
	{"Go programs do not fork without executing another", []string{"IB_FORK_INIT=n|try"}},
	{"a worker in thread mode multi has no lock to choose", []string{"USE_MT_MUTEX"}},
	{"C UCX has removed it too", []string{
		"*_MAX_BCOPY", "*_MAX_SHORT", "*_TX_NUM_GET_OPS", "SOCKADDR_AUX_TLS", "SEG_SIZE",
	}},
}

// Reasons that surprise no reader of the project's documents.
const (
	noGPUs      = "GPU memory is not supported"
	noTransport = "the transport is not implemented"
)

// reason is the reason why settings have no effect, with their names.
type reason struct {
	why   string
	names []string
}

// NoEffect returns the reason why a setting of C UCX, named without UCX_, has no effect in this
// library. It returns "" if the name is not that of such a setting.
func NoEffect(name string) string {
	if knownNames()[name] {
		return ""
	}
	why, _ := noEffect(name)
	return why
}

// noEffect is NoEffect for a name that no section knows. It also returns the values that request
// what this library does anyway.
func noEffect(name string) (why string, anyway []string) {
	for _, g := range noEffectSettings {
		for _, item := range g.names {
			pattern, values, some := strings.Cut(item, "=")
			if fits, _ := path.Match(pattern, name); !fits {
				continue
			}
			if some {
				anyway = strings.Split(values, "|")
			}
			return g.why, anyway
		}
	}
	return "", nil
}

// warnNoEffect reports whether to warn that a setting of C UCX with this value has no effect: not if
// the value requests what this library does anyway.
func warnNoEffect(name, value string) bool {
	_, anyway := noEffect(name)
	return !slices.ContainsFunc(anyway, func(v string) bool {
		return strings.EqualFold(v, value) || sameBool(v, value)
	})
}

// sameBool reports whether both values spell the same boolean.
func sameBool(a, b string) bool {
	x, okX := parseBool(a)
	y, okY := parseBool(b)
	return okX && okY && x == y
}
