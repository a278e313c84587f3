// Command outside is a native module whose tools reach beyond files.
package main

import (
	"strconv"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

func main() {}

func init() {
	guest.Describe(guest.Module{Name: "outside", Version: "1.0.0"})
	guest.Add(guest.Tool{
		Name: "fetch", Description: "Fetch a URL.", Effects: []guest.Effect{guest.UsesNetwork},
		Input: `{"type":"object","properties":{"url":{"type":"string"},"method":{"type":"string"},"body":{"type":"string"}}}`,
		Net:   []guest.Host{{Name: "api.example.com", Methods: []string{"GET", "POST"}}},
		Call: func(c *guest.Call) (guest.Result, error) {
			r, err := c.Fetch(guest.Request{
				Method: c.Args.Get("method").TextOr(""), URL: c.Args.Get("url").TextOr(""), Body: []byte(c.Args.Get("body").TextOr("")),
				Headers: []guest.Header{{Name: "X-Test", Value: "yes"}},
			})
			if err != nil {
				return guest.Result{}, err
			}
			kind := ""
			for _, h := range r.Headers {
				if h.Name == "Content-Type" {
					kind = h.Value
				}
			}
			return guest.Text(strconv.Itoa(r.Status) + " " + kind + " " + string(r.Body)), nil
		},
	})
	guest.Add(guest.Tool{
		Name: "count", Description: "Count calls.", Input: `{"type":"object"}`, KV: true, Env: []string{"LANG"}, Clock: true,
		Call: func(c *guest.Call) (guest.Result, error) {
			n := 0
			old, err := c.Load("n")
			if err == nil {
				n, _ = strconv.Atoi(string(old))
			} else if e, ok := err.(*guest.Error); !ok || e.Code != guest.NotFound {
				return guest.Result{}, err
			}
			if n++; n == 3 {
				return guest.Text("forgotten"), c.Forget("n")
			}
			if err := c.Store("n", []byte(strconv.Itoa(n))); err != nil {
				return guest.Result{}, err
			}
			lang, err := c.Setting("LANG")
			if err != nil {
				return guest.Result{}, err
			}
			return guest.Text(strconv.Itoa(n) + " " + lang), nil
		},
	})
}
