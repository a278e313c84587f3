package workspace

import (
	"os"

	"golang.org/x/sys/windows"

	"github.com/wasmtools/wasmtools/tool"
)

func identify(f *os.File) (tool.Identity, uint64) {
	var fi windows.ByHandleFileInformation
	if windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &fi) != nil {
		return tool.Identity{}, 1
	}
	return tool.Identity{
		Dev: uint64(fi.VolumeSerialNumber),
		Ino: uint64(fi.FileIndexHigh)<<32 | uint64(fi.FileIndexLow),
	}, uint64(fi.NumberOfLinks)
}
