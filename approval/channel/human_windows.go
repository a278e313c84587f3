package channel

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// atTerminal checks that this process has a console.
func atTerminal() error {
	console, err := os.OpenFile("CONIN$", os.O_RDWR, 0)
	if err != nil {
		return errors.New("there is no console")
	}
	defer console.Close()
	var mode uint32
	if windows.GetConsoleMode(windows.Handle(console.Fd()), &mode) != nil {
		return errors.New("there is no console")
	}
	return nil
}
