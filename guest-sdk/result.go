package guest

// Content is one block of a result. Which fields count depends on Type, as in
// MCP: Text for "text"; Data and MIMEType for "image" and "audio"; URI, Name
// and MIMEType for "resource_link".
type Content struct {
	Type     string
	Text     string
	Data     []byte
	MIMEType string
	URI      string
	Name     string
}

// Result is what a tool answers. Where text is the content, it stands in
// Content alone and complete, and what a program may want besides goes to
// Details. Where structure is the content, Structured holds it (an object), and
// Content says the same in words.
type Result struct {
	Content    []Content
	Structured Value
	Details    Value // an object, or missing
	IsError    bool
	Code       Code // if IsError
}

// Text makes a result of one text block.
func Text(s string) Result {
	return Result{Content: []Content{{Type: "text", Text: s}}}
}

// WithDetails adds details to a result.
func (r Result) WithDetails(fields ...Field) Result {
	r.Details = Object(fields...)
	return r
}

// ErrorResult is the result that stands for err.
func ErrorResult(err error) Result {
	r := Text(err.Error())
	r.IsError = true
	r.Code = CodeOf(err)
	if e, ok := err.(*Error); ok {
		r.Details = e.Details
	} else if r.Code == Internal {
		r.Content[0].Text = Fail(Internal, err.Error()).WithNext("report it to the module's author").Error()
	}
	return r
}

// response encodes a result as docs/abi.md asks.
func (r Result) response() []byte {
	blocks := make([]Value, 0, len(r.Content))
	for _, c := range r.Content {
		b := []Field{F("type", c.Type)}
		switch c.Type {
		case "text":
			b = append(b, F("text", c.Text))
		case "image", "audio":
			b = append(b, F("data", base64(c.Data)), F("mimeType", c.MIMEType))
		case "resource_link":
			b = append(b, F("uri", c.URI), F("name", c.Name))
			if c.MIMEType != "" {
				b = append(b, F("mimeType", c.MIMEType))
			}
		}
		blocks = append(blocks, Object(b...))
	}
	out := []Field{F("content", blocks), F("structuredContent", r.Structured)}
	var meta []Field
	if r.IsError {
		out = append(out, F("isError", true))
		meta = append(meta, F("wasmtools/code", string(r.Code)))
	}
	if r.Details.Exists() {
		meta = append(meta, F("wasmtools/details", r.Details))
	}
	if len(meta) > 0 {
		out = append(out, F("_meta", Object(meta...)))
	}
	size := 1 << 10
	for _, c := range r.Content {
		size += len(c.Text) + len(c.Text)/8
	}
	return Object(out...).AppendJSON(make([]byte, 0, size))
}

const base64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// base64 is the standard encoding with padding; encoding/base64 would bring
// reflect into every module.
func base64(p []byte) string {
	out := make([]byte, 0, (len(p)+2)/3*4)
	for ; len(p) >= 3; p = p[3:] {
		n := uint(p[0])<<16 | uint(p[1])<<8 | uint(p[2])
		out = append(out, base64Digits[n>>18], base64Digits[n>>12&63], base64Digits[n>>6&63], base64Digits[n&63])
	}
	switch len(p) {
	case 1:
		n := uint(p[0]) << 16
		out = append(out, base64Digits[n>>18], base64Digits[n>>12&63], '=', '=')
	case 2:
		n := uint(p[0])<<16 | uint(p[1])<<8
		out = append(out, base64Digits[n>>18], base64Digits[n>>12&63], base64Digits[n>>6&63], '=')
	}
	return string(out)
}
