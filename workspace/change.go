package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// stable repeats f while the tree changes under it, a bounded number of times.
func stable(asked string, f func() error) error {
	for try := 0; ; try++ {
		err := f()
		if err == errLink && try < maxTries {
			continue
		}
		return pathError(asked, err)
	}
}

// Write makes a file hold data, creating it and its parents if need be. An
// existing file is an error unless overwrite is set; it keeps its mode, owner and
// attributes, and if the path ends in a link that stays inside, the file that the
// link means is written and the link stays. Writing the bytes that are already
// there is a change like any other: it is approved, and then checked.
func (o *Overlay) Write(ctx context.Context, path string, data []byte, overwrite bool) (ch Change, err error) {
	if err := o.canChange(ctx, path); err != nil {
		return Change{}, err
	}
	if int64(len(data)) > o.opts.MaxBytes-o.held {
		return Change{}, o.hold(path, int64(len(data)))
	}
	data = append(make([]byte, 0, len(data)), data...)
	err = stable(path, func() error {
		pl, err := o.find(path, true)
		if err != nil {
			return err
		}
		if pl.path == "." || pl.wantDir || pl.exists() && pl.st.typ == Dir {
			return tool.PathErrorf(tool.NotRegular, path, "the path names a directory").WithNext("name a file")
		}
		if !pl.exists() {
			if pl.viaLink && !overwrite {
				return tool.PathErrorf(tool.Exists, path, "a link that leads to a file that does not exist").
					WithNext("write to %s itself, or set overwrite", tool.QuotePath(pl.path))
			}
			if err := o.guard(VerbWrite, pl.path, "", false, tool.Identity{}); err != nil {
				return err
			}
			if err := o.parentWritable(pl); err != nil {
				return err
			}
			ch, err = o.record(pl, data, nil)
			return err
		}
		if !overwrite {
			return tool.PathErrorf(tool.Exists, path, "the file exists").
				WithNext("set overwrite if replacing it is meant, or edit it")
		}
		if err := o.guardFile(ctx, VerbWrite, pl.path, pl.disk, pl.onDisk, pl.st); err != nil {
			return err
		}
		hidden := o.guard(VerbRead, pl.path, pl.disk, pl.onDisk, pl.st.id) != nil
		old, err := o.mayReplace(ctx, pl)
		if err != nil {
			return err
		}
		if s := o.opts.Seen; s != nil && !(pl.node != nil && pl.node.fresh()) {
			if err := s.check(path, pl.path, old.Before, o.reads[pl.path].sum); err != nil {
				return err
			}
		}
		old.hidden = hidden
		ch, err = o.record(pl, data, old)
		return err
	})
	return ch, err
}

// Edit is EditText for a file whose encoding its bytes tell.
func (o *Overlay) Edit(ctx context.Context, path string, edits []Edit) (Change, error) {
	return o.EditText(ctx, path, edits, "")
}

// EditText replaces literal texts in a file. Every text is looked for in the
// file as it was before the call, none may overlap another, and either all are
// replaced or nothing is. Bytes outside the replaced spans never change.
//
// A file that is not UTF-8 is matched as text, and new text is written in its
// encoding: the one that is named (as for [charset.Lookup]), or if that is empty
// the one that [charset.Detect] is certain of. Without either, texts of ASCII are
// replaced as bytes, and anything else is an error with the code encoding.
func (o *Overlay) EditText(ctx context.Context, path string, edits []Edit, encoding string) (ch Change, err error) {
	if err := o.canChange(ctx, path); err != nil {
		return Change{}, err
	}
	err = stable(path, func() error {
		f, data, pl, err := o.open(ctx, path, VerbRead, VerbWrite)
		if err != nil {
			return err
		}
		if data == nil {
			data, err = readLimited(ctx, path, f, pl.st.size)
			f.close()
			if err != nil {
				return err
			}
		}
		pl.node, pl.disk, pl.onDisk = o.lookup(pl.path)
		old, err := o.writable(pl)
		if err != nil {
			return err
		}
		if old == nil {
			old = oldFile(pl.st)
			old.Before = tool.DigestOf(data)
			if len(data) <= maxDiffBytes {
				old.before = data
			}
		}
		done, err := editFile(ctx, data, edits, encoding, o.opts.MaxBytes-o.held)
		if err != nil {
			return err
		}
		if ch, err = o.record(pl, done.data, old); err != nil {
			return err
		}
		o.written(&ch, done.encoding)
		ch.Replacements = len(done.spans)
		ch.Lines = spanLines(done.text, done.spans)
		ch.CRLF = slices.ContainsFunc(done.spans, func(s span) bool { return s.crlf })
		return nil
	})
	return ch, o.lookAlike(ctx, path, err)
}

// readLimited reads a whole file that is to be edited.
func readLimited(ctx context.Context, asked string, f file, size int64) ([]byte, error) {
	tooLarge := func(n int64) error {
		return tool.PathErrorf(tool.TooLarge, asked, "%d bytes; files above %d cannot be edited in place", n, maxEditBytes).
			WithNext("use a stream editor in a terminal")
	}
	if size > maxEditBytes {
		return nil, tooLarge(size)
	}
	// The size is a hint: the file may grow while it is read.
	buf := make([]byte, 0, size+1)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if len(buf) == cap(buf) {
			if len(buf) > maxEditBytes {
				return nil, tooLarge(int64(len(buf)))
			}
			buf = append(buf, make([]byte, len(buf)+4096)...)[:len(buf)]
		}
		part := buf[len(buf):min(cap(buf), len(buf)+1<<20)]
		n, err := f.readAt(part, int64(len(buf)))
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			if len(buf) > maxEditBytes {
				return nil, tooLarge(int64(len(buf)))
			}
			return buf, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// oldFile starts the change of an existing file.
func oldFile(st stat) *change {
	return &change{Write: tool.Write{Identity: st.id, Mode: st.fileMode(), Size: st.size}, size: st.size}
}

// writable checks everything that can forbid the writing of an existing file. It
// returns the pending write of that file, if there is one.
func (o *Overlay) writable(pl place) (*change, error) {
	if pl.st.typ != File {
		return nil, errNotRegular
	}
	if n := pl.node; n != nil && n.fresh() {
		return n.op, nil
	}
	if pl.st.nlink > 1 && !o.w.opts.AllowHardLinks {
		return nil, tool.PathErrorf(tool.Permission, pl.asked, "the file has %d names (hard links); the other names may lie outside the workspace", pl.st.nlink).
			WithNext("copy it to a new file and change that, or ask a person to allow hard links")
	}
	parent, name := split(pl.disk)
	d, err := o.w.openDir(parent)
	if err != nil {
		return nil, err
	}
	defer d.close()
	if pl.st.mode&0o222 == 0 || d.canWrite(name) != nil {
		return nil, tool.PathErrorf(tool.Permission, pl.asked, "the file is read-only").
			WithNext("leave it, or ask a person to make it writable")
	}
	if d.writable() != nil {
		return nil, tool.PathErrorf(tool.Permission, pl.asked, "the directory does not let us replace files").
			WithNext("a person must change the rights of the directory")
	}
	return nil, nil
}

// mayReplace is writable, and the digest of what would be lost.
func (o *Overlay) mayReplace(ctx context.Context, pl place) (*change, error) {
	old, err := o.writable(pl)
	if old != nil || err != nil {
		return old, err
	}
	f, st, err := o.w.openFile(pl.disk)
	if err != nil {
		return nil, err
	}
	defer f.close()
	if st.id != pl.st.id {
		return nil, errLink
	}
	old = oldFile(st)
	old.Before, old.Stamp, old.before, err = digestFile(ctx, f, st, maxDiffBytes)
	return old, err
}

// parentWritable checks the directory that a new name would be made in.
func (o *Overlay) parentWritable(pl place) error {
	dirPath := pl.path
	for range max(pl.missing, 1) {
		dirPath, _ = split(dirPath)
	}
	n, disk, onDisk := o.lookup(dirPath)
	if n != nil && n.fresh() || !onDisk {
		return nil
	}
	d, err := o.w.openDir(disk)
	if err != nil {
		return err
	}
	defer d.close()
	if d.writable() != nil {
		return tool.PathErrorf(tool.Permission, pl.asked, "the directory is not writable")
	}
	return nil
}

// record notes that pl holds data from now on. old is nil for a new file, the
// pending change for one that was written before in this overlay, and otherwise
// a change that says what is on disk.
func (o *Overlay) record(pl place, data []byte, old *change) (Change, error) {
	return o.recordAs(pl, data, tool.DigestOf(data), int64(len(data)), old)
}

// recordAs is record for content that need not be at hand: then data is nil.
func (o *Overlay) recordAs(pl place, data []byte, sum tool.Digest, size int64, old *change) (Change, error) {
	ch := Change{Path: pl.path, Bytes: size, SHA256: sum.Hex()}
	if n := pl.node; n != nil && n.fresh() && n.op == old && old != nil {
		if err := o.hold(pl.asked, int64(len(data)-len(old.Blob))); err != nil {
			return Change{}, err
		}
		old.After, old.Blob, old.Size, old.loaded = sum, data, size, false
		n.data = data
		n.st.size, n.st.mtime = size, time.Now().UnixNano()
		ch.Created = old.Identity == tool.Identity{}
		return ch, nil
	}

	if err := o.room(pl); err != nil {
		return Change{}, err
	}
	c := old
	st := pl.st
	if c == nil {
		ch.Created = true
		c = &change{Write: tool.Write{Mode: permMode(0o666 &^ o.w.umask)}}
		st = stat{typ: File, mode: 0o666 &^ o.w.umask, nlink: 1}
	}
	if err := o.hold(pl.asked, int64(len(data)+len(c.before))); err != nil {
		return Change{}, err
	}
	if c == old && c.hidden {
		o.held -= int64(len(c.before))
		c.before = nil
	}
	o.makeParents(pl)
	c.Op, c.Path, c.After, c.Blob, c.Size = tool.OpWrite, pl.path, sum, data, size
	st.size, st.mtime = size, time.Now().UnixNano()
	n := &node{typ: File, data: data, st: st, op: c}
	if old != nil {
		n.base = pl.disk
	}
	o.ops = append(o.ops, c)
	o.set(pl.path, n)
	return ch, nil
}

// makeParents adds the directories that pl lacks.
func (o *Overlay) makeParents(pl place) {
	var dirs []string
	p := pl.path
	for range pl.missing - 1 {
		p, _ = split(p)
		dirs = append(dirs, p)
	}
	for _, p := range slices.Backward(dirs) {
		o.addDir(p)
	}
}

func (o *Overlay) addDir(path string) *change {
	mode := 0o777 &^ o.w.umask
	c := &change{Write: tool.Write{Op: tool.OpMkdir, Path: path, Mode: permMode(mode) | fs.ModeDir}}
	o.ops = append(o.ops, c)
	o.set(path, &node{typ: Dir, op: c, st: stat{typ: Dir, mode: mode, mtime: time.Now().UnixNano(), nlink: 1}})
	return c
}

// Mkdir makes a directory and its parents. One that exists is no error.
func (o *Overlay) Mkdir(ctx context.Context, path string) error {
	if err := o.canChange(ctx, path); err != nil {
		return err
	}
	return stable(path, func() error {
		pl, err := o.find(path, true)
		if err != nil {
			return err
		}
		if pl.exists() {
			if pl.st.typ == Dir {
				return nil
			}
			return tool.PathErrorf(tool.Exists, path, "a %s of this name exists", pl.st.typ.words()).WithNext("choose another name")
		}
		if err := o.guard(VerbWrite, pl.path, "", false, tool.Identity{}); err != nil {
			return err
		}
		if err := o.room(pl); err != nil {
			return err
		}
		if err := o.parentWritable(pl); err != nil {
			return err
		}
		o.makeParents(pl)
		o.addDir(pl.path)
		return nil
	})
}

// digestFile reads what an open file holds. Up to keep bytes of content are
// returned. Of a file above maxHashBytes only size and time are digested.
func digestFile(ctx context.Context, f file, st stat, keep int64) (d, stamp tool.Digest, content []byte, err error) {
	if st.size > maxHashBytes {
		return "", stampOf(st), nil, nil
	}
	d, content, err = digestUpTo(ctx, f, st.size, keep, maxHashBytes)
	if err == errTooLong {
		return "", stampOf(st), nil, nil
	}
	return d, "", content, err
}

// digestAll digests an open file whatever its size. Up to keep bytes of content
// are returned.
func digestAll(ctx context.Context, f file, keep int64) (tool.Digest, []byte, error) {
	return digestUpTo(ctx, f, 256<<10, keep, math.MaxInt64)
}

var errTooLong = errors.New("longer than was allowed")

// digestUpTo digests an open file that is about size bytes long, and gives up
// beyond limit.
func digestUpTo(ctx context.Context, f file, size, keep, limit int64) (d tool.Digest, content []byte, err error) {
	h := sha256.New()
	buf := make([]byte, min(max(size+1, 512), 256<<10))
	var off int64
	for {
		if err := ctx.Err(); err != nil {
			return "", nil, err
		}
		n, err := f.readAt(buf, off)
		h.Write(buf[:n])
		if keep >= 0 && off+int64(n) <= keep {
			content = append(content, buf[:n]...)
		} else {
			content, keep = nil, -1
		}
		off += int64(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", nil, err
		}
		if off > limit {
			return "", nil, errTooLong
		}
	}
	if keep >= 0 && content == nil {
		content = []byte{}
	}
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	return tool.SumDigest(sum), content, nil
}

// stampOf stands in for the digest of content that is not read.
func stampOf(st stat) tool.Digest {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], uint64(st.size))
	binary.LittleEndian.PutUint64(b[8:], uint64(st.mtime))
	return tool.DigestOf(b[:])
}

func isPermission(err error) bool { return errors.Is(err, fs.ErrPermission) }
