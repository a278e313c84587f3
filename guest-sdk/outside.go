package guest

// What reaches beyond files. Each function needs its capability, and answers
// grant_missing without it; see Net, Env, KV of [Tool].

// outsideABI is the part of the ABI that only modules import which use it: the
// linker leaves out what nothing calls.
type outsideABI interface {
	HTTPRequest(req, body []byte) int64
	KVGet(key string) int64
	KVSet(key string, value []byte) int64
	KVRemove(key string) int64
	ConfigGet(name string) int64
}

func (c *Call) outside() (outsideABI, error) {
	o, ok := c.host.(outsideABI)
	if !ok {
		return nil, Fail(NotAvailable, "this host has no network, store and settings")
	}
	return o, nil
}

// Header is one header line.
type Header struct{ Name, Value string }

// Request is an HTTP request. Method "" means GET.
type Request struct {
	Method, URL string
	Headers     []Header
	Body        []byte
}

// Response is what came back, whatever its status.
type Response struct {
	Status  int
	URL     string // of the last hop
	Headers []Header
	Body    []byte
}

// Fetch makes an HTTP request. The host checks every hop and adds the secrets
// that a person granted for it; the module never sees them.
func (c *Call) Fetch(r Request) (Response, error) {
	o, err := c.outside()
	if err != nil {
		return Response{}, err
	}
	headers := make([]Value, 0, len(r.Headers))
	for _, h := range r.Headers {
		headers = append(headers, Object(F("name", h.Name), F("value", h.Value)))
	}
	p, err := c.resultBytes(o.HTTPRequest(Object(F("method", r.Method), F("url", r.URL), F("headers", headers)).JSON(), r.Body))
	if err != nil {
		return Response{}, err
	}
	head, body, err := split(p)
	if err != nil {
		return Response{}, err
	}
	resp := Response{Status: int(head.Get("status").IntOr(0)), URL: head.Get("url").TextOr(""), Body: body}
	for _, h := range head.Get("headers").Items() {
		resp.Headers = append(resp.Headers, Header{h.Get("name").TextOr(""), h.Get("value").TextOr("")})
	}
	return resp, nil
}

// Load reads a value from the module's store, which is kept between calls;
// not_found if there is none.
func (c *Call) Load(key string) ([]byte, error) {
	o, err := c.outside()
	if err != nil {
		return nil, err
	}
	return c.resultBytes(o.KVGet(key))
}

// Store keeps a value in the module's store.
func (c *Call) Store(key string, value []byte) error {
	o, err := c.outside()
	if err != nil {
		return err
	}
	_, err = c.done(o.KVSet(key, value))
	return err
}

// Forget removes a key from the module's store.
func (c *Call) Forget(key string) error {
	o, err := c.outside()
	if err != nil {
		return err
	}
	_, err = c.done(o.KVRemove(key))
	return err
}

// Setting reads a variable of the host's environment that a person granted;
// not_found if there is none.
func (c *Call) Setting(name string) (string, error) {
	o, err := c.outside()
	if err != nil {
		return "", err
	}
	p, err := c.resultBytes(o.ConfigGet(name))
	return string(p), err
}
