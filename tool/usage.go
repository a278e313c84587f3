package tool

import "time"

// Usage is what a call took, for the record of it. Zero fields were not used,
// or are not known for this kind of tool.
type Usage struct {
	Duration    time.Duration
	MemoryPeak  int64 // bytes of linear memory
	Fuel        int64 // units of work of a guest; the same in every run of the same module with the same input
	HostCalls   int64
	BytesRead   int64 // from files
	OutputBytes int64

	Paths     []string // canonical paths of the files that were read, the first [MaxUsagePaths] of them, in the order of their first reading
	MorePaths int64    // files read beyond those, a file that is read again counted again

	Refused []Refusal // what the call tried and may not, each once, the first [MaxUsagePaths]

	Requests                 int64 // over HTTP
	BytesSent, BytesReceived int64
	Hosts                    []string // that answered, in the order of their first request
}

// Refusal is an access that a call tried and may not have.
type Refusal struct {
	What string `json:"what"`           // of the capability: fs, net or kv
	Path string `json:"path,omitempty"` // as it was asked for; of net: the host
	Code Code   `json:"code"`
}

// MaxUsagePaths bounds [Usage.Paths]: a search reads thousands of files, and a
// record has to stay small.
const MaxUsagePaths = 64
