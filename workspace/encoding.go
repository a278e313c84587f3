package workspace

import (
	"bytes"
	"context"
	"errors"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace/charset"
)

// Text is a whole file as text.
type Text struct {
	Text     []byte // UTF-8, without a byte order mark
	Encoding charset.Encoding
	Exact    bool // the bytes are what Encoding makes of the text; else what is no text stands as U+FFFD
	Size     int64
}

// ReadText reads a file of at most limit bytes as text in the encoding that is
// named, as [charset.Lookup] has it, or if that is empty in the one that
// [charset.Detect] is certain of. If it is of none, the error has the code
// encoding, and in its details the "candidates".
func (o *Overlay) ReadText(ctx context.Context, path, encoding string, limit int64) (Text, error) {
	if err := ctx.Err(); err != nil {
		return Text{}, err
	}
	data, pl, err := o.readAll(ctx, path, limit)
	if err != nil {
		return Text{}, o.lookAlike(ctx, path, err)
	}
	if pl.node == nil || !pl.node.fresh() {
		o.noteSum(pl.path, tool.DigestOf(data), pl.st)
	}
	t := Text{Size: int64(len(data)), Exact: true}
	if t.Encoding, err = encodingOf(data, encoding); err != nil {
		if u, ok := errors.AsType[*charset.Undecided](err); ok {
			err = u.For(path)
		}
		return Text{}, pathError(path, err)
	}
	if t.Text, err = t.Encoding.Decode(data); err != nil {
		t.Text, t.Exact = t.Encoding.Show(data), false
	}
	t.Text = bytes.TrimPrefix(t.Text, bom)
	return t, nil
}

// readAll reads a file of at most limit bytes.
func (o *Overlay) readAll(ctx context.Context, path string, limit int64) (data []byte, pl place, err error) {
	f, data, pl, err := o.open(ctx, path, VerbRead)
	if err != nil {
		return nil, pl, pathError(path, err)
	}
	if data == nil {
		defer f.close()
		if pl.st.size > limit {
			return nil, pl, tooLargeText(path, pl.st.size, limit)
		}
		if data, err = readLimited(ctx, path, f, pl.st.size); err != nil {
			return nil, pl, pathError(path, err)
		}
	}
	if int64(len(data)) > limit {
		return nil, pl, tooLargeText(path, int64(len(data)), limit)
	}
	return data, pl, nil
}

func tooLargeText(path string, size, limit int64) error {
	return tool.PathErrorf(tool.TooLarge, path, "%d bytes; files above %d are not decoded as a whole", size, limit).
		WithNext("convert it to UTF-8 in a terminal")
}

// encodingOf is the encoding that is named, or else the one that data is in.
func encodingOf(data []byte, name string) (charset.Encoding, error) {
	if name != "" {
		return charset.Lookup(name)
	}
	return charset.Detect(data)
}

// WriteText is [Overlay.Write] for text, which is UTF-8. It is written in the
// encoding that is named, as [charset.Lookup] has it. If that is empty, a file
// keeps its encoding and byte order mark, and a new one is UTF-8. A character
// that the encoding does not have is an error with the code encoding, and so is
// text that is not ASCII where the encoding of the file is in doubt.
func (o *Overlay) WriteText(ctx context.Context, path, text, encoding string, overwrite bool) (Change, error) {
	if err := o.canChange(ctx, path); err != nil {
		return Change{}, err
	}
	e := charset.UTF8
	switch {
	case encoding != "":
		var err error
		if e, err = charset.Lookup(encoding); err != nil {
			return Change{}, pathError(path, err)
		}
	case overwrite:
		var err error
		if e, err = o.present(ctx, path); err != nil {
			u, ok := errors.AsType[*charset.Undecided](err)
			if !ok {
				return Change{}, err
			}
			// A binary file has nothing to keep; ASCII is the same in all others.
			if len(u.Candidates) > 0 && !isASCII(text) || u.Wide() {
				return Change{}, u.For(path).WithNext("set encoding to what it is to be written in, such as utf-8")
			}
			e = charset.UTF8
		}
	}
	if e.Marked && len(text) < len(charset.Mark) || e.Marked && text[:len(charset.Mark)] != charset.Mark {
		text = charset.Mark + text
	}
	data, err := e.Encode([]byte(text))
	if err != nil {
		return Change{}, pathError(path, err)
	}
	ch, err := o.Write(ctx, path, data, overwrite)
	if err != nil {
		return ch, err
	}
	o.written(&ch, e)
	return ch, nil
}

// present is the encoding of the file that is to be overwritten: UTF-8 if there
// is none. What keeps it from being read the write will say, or does not mind.
func (o *Overlay) present(ctx context.Context, path string) (charset.Encoding, error) {
	data, _, err := o.readAll(ctx, path, maxEditBytes)
	if err != nil {
		return charset.UTF8, ctx.Err()
	}
	return charset.Detect(data)
}

// written notes the encoding in which a change was written.
func (o *Overlay) written(ch *Change, e charset.Encoding) {
	if e == (charset.Encoding{}) {
		return
	}
	if e != charset.UTF8 {
		ch.Encoding = e.String()
	}
	if n := o.names[ch.Path]; n != nil && n.op != nil {
		n.op.encoding = e
	}
}

// edited is what edits make of a file.
type edited struct {
	data     []byte           // the new file
	text     []byte           // the same as UTF-8
	spans    []span           // of the old text
	encoding charset.Encoding // none if the bytes were edited as such
}

// editFile is the whole of an edit without any file.
func editFile(ctx context.Context, src []byte, edits []Edit, encoding string, most int64) (edited, error) {
	e, err := encodingOf(src, encoding)
	if _, doubt := errors.AsType[*charset.Undecided](err); doubt || err == nil && e.Name() == charset.UTF8.Name() && encoding == "" {
		out, spans, err := applyEdits(ctx, src, edits, most)
		return edited{data: out, text: out, spans: spans, encoding: e}, err
	}
	if err != nil {
		return edited{}, err
	}
	text, err := e.Decode(src)
	if err != nil {
		return edited{}, err
	}
	out, spans, err := applyEdits(ctx, text, edits, most)
	if err != nil {
		return edited{}, err
	}
	data, err := splice(e, src, text, spans)
	if err != nil {
		return edited{}, err
	}
	if int64(len(data)) > min(most, maxEditBytes) {
		return edited{}, tool.Errorf(tool.TooLarge, "the file would have %d bytes", len(data)).WithNext("insert less")
	}
	// That this holds follows from what charset promises. It is what nobody may
	// find broken in a file of theirs.
	if back, err := e.Decode(data); err != nil || !bytes.Equal(back, out) {
		return edited{}, tool.Errorf(tool.Encoding, "the new text would not survive in %s", e).WithNext("convert the file to UTF-8 first")
	}
	return edited{data: data, text: out, spans: spans, encoding: e}, nil
}

// splice makes in src, the bytes of text, the replacements that spans are in
// text. How many bytes a piece of the text takes is what it is encoded to.
func splice(e charset.Encoding, src, text []byte, spans []span) ([]byte, error) {
	var out []byte
	at, done := 0, 0 // in src and in text
	for _, s := range spans {
		between, err := e.Encode(text[done:s.start])
		if err != nil {
			return nil, err
		}
		out = append(out, src[at:at+len(between)]...)
		at += len(between)
		old, err := e.Encode(text[s.start:s.end])
		if err != nil {
			return nil, err
		}
		at += len(old)
		done = s.end
		fresh, err := e.Encode(s.text)
		if err != nil {
			return nil, err
		}
		out = append(out, fresh...)
	}
	return append(out, src[at:]...), nil
}
