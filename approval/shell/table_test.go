package shell

import "testing"

func TestTables(t *testing.T) {
	for _, f := range loadTables().faults {
		t.Error(f)
	}
	if len(harmless()) == 0 {
		t.Error("no variable is harmless")
	}
}
