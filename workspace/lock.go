package workspace

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

const (
	lockDirName = "locks"
	lockShards  = 64 // few enough to open them all for a large set, enough to seldom meet
)

// shards serialise commits inside this process, for all workspaces: two of them
// may be open on one tree.
var shards = func() (s [lockShards]chan struct{}) {
	for i := range s {
		s[i] = make(chan struct{}, 1)
	}
	return s
}()

// shardOf is where a name is locked. The fold keeps two spellings of one name
// together on systems that ignore case; elsewhere it only makes two names share
// a shard, which costs nothing but time.
func shardOf(parent tool.Identity, name string) int {
	h := fnv.New64a()
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], parent.Dev)
	binary.LittleEndian.PutUint64(b[8:], parent.Ino)
	h.Write(b[:])
	h.Write([]byte(strings.ToLower(name)))
	return int(h.Sum64() % lockShards)
}

// lock takes the shards given, in ascending order so that two commits never wait
// for each other, first inside the process and then, with a state folder,
// between processes. The files stay: a lock file that is removed locks nobody
// out.
func (w *Workspace) lock(ctx context.Context, want []int) (unlock func(), err error) {
	slices.Sort(want)
	want = slices.Compact(want)
	var files []*os.File
	taken := 0
	unlock = func() {
		for _, f := range files {
			f.Close() // gives the lock up as well
		}
		for _, n := range want[:taken] {
			<-shards[n]
		}
	}
	for _, n := range want {
		select {
		case shards[n] <- struct{}{}:
			taken++
		case <-ctx.Done():
			unlock()
			return nil, ctx.Err()
		}
		if w.opts.StateDir == "" {
			continue
		}
		f, err := openLock(filepath.Join(w.opts.StateDir, lockDirName, strconv.Itoa(n)))
		if err == nil {
			files = append(files, f)
			err = waitLock(ctx, f)
		}
		if err != nil {
			unlock()
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, tool.Errorf(tool.Internal, "a lock of the workspace cannot be taken").
				WithNext("a person must check the state folder").Because(err)
		}
	}
	return unlock, nil
}

// waitLock polls, because a thread that waits in the kernel for a lock cannot be
// called back when the caller gives up. Commits hold locks for milliseconds.
func waitLock(ctx context.Context, f *os.File) error {
	for pause := 200 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		ok, err := tryLock(f)
		if ok || err != nil {
			return err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}
