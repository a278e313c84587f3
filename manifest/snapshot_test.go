package manifest

import (
	"strings"
	"testing"
)

func TestSnapshot(t *testing.T) {
	const text = `{"abi":1,"name":"m","version":"1.0.0","tools":[{"name":"a","description":"A.","inputSchema":{"type":"object"},"effects":["read"]TOOL}]MODULE}`
	for _, c := range []struct {
		tool, module string
		want         bool
		refused      string
	}{
		{"", "", true, ""},
		{"off", "", false, ""},
		{"", "off", false, ""},
		{"on", "", false, "tools[0].snapshot"},
		{"", "never", false, "snapshot"},
	} {
		set := func(v string) string {
			if v == "" {
				return ""
			}
			return `,"snapshot":"` + v + `"`
		}
		m, err := Parse([]byte(strings.NewReplacer("TOOL", set(c.tool), "MODULE", set(c.module)).Replace(text)))
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%+v: Parse = %v; want a refusal of %s", c, err, c.refused)
			}
			continue
		}
		if err != nil || m.FromSnapshot(m.Tools[0]) != c.want {
			t.Errorf("%+v: %v, %v", c, m.FromSnapshot(m.Tools[0]), err)
		}
	}
}
