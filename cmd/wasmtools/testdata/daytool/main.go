// Command daytool is what an agent's working day needs and no machine surely
// has: a development server, a prompt for a password, a build and a flood without
// end, and progress bars. It uses the standard library only.
package main

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "daytool:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch args[0] {
	case "serve": // PORT: answers with what is in the file "page" at each request
		l, err := net.Listen("tcp", "127.0.0.1:"+args[1])
		if err != nil {
			return err
		}
		fmt.Println("listening on", l.Addr())
		return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			page, err := os.ReadFile("page")
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			fmt.Fprintf(w, "%s %s: %s", r.Method, r.URL.Path, page)
		}))
	case "get": // URL
		resp, err := http.Get(args[1])
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = bufio.NewReader(resp.Body).WriteTo(os.Stdout)
		return err
	case "ask": // [show]: as sudo does; keeps the digest of the answer in the file "digest"
		tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer tty.Close()
		stty := func(word string) error {
			cmd := exec.Command("stty", word)
			cmd.Stdin = tty
			return cmd.Run()
		}
		if err := stty("-echo"); err != nil {
			return err
		}
		defer stty("echo")
		fmt.Fprint(tty, "[daytool] password for agent: ")
		line, err := bufio.NewReader(tty).ReadString('\n')
		if err != nil {
			return err
		}
		fmt.Fprintln(tty)
		line = strings.TrimRight(line, "\r\n")
		if len(args) > 1 {
			fmt.Println("you typed", line)
		}
		fmt.Println("access granted")
		return os.WriteFile("digest", fmt.Appendf(nil, "%x", sha256.Sum256([]byte(line))), 0o600)
	case "build": // a build that goes on until it is interrupted
		for i := 1; ; i++ {
			fmt.Println("compiling", strconv.Itoa(i))
			time.Sleep(10 * time.Millisecond)
		}
	case "flood": // some megabytes a second, until it is interrupted
		for {
			fmt.Print(strings.Repeat("flooding\n", 20000))
			time.Sleep(20 * time.Millisecond)
		}
	case "progress": // as npm, pip and go show it
		for i := 0; i <= 100; i += 5 {
			fmt.Printf("\x1b[1G\x1b[0K[%-20s] idealTree: sill %d%%", strings.Repeat("#", i/5), i)
		}
		fmt.Print("\x1b[1G\x1b[0Kadded 42 packages\n")
		for i := 0; i <= 1000; i++ {
			fmt.Printf("\r\x1b[K   \x1b[38;5;70m%s\x1b[0m %d/1000 kB", strings.Repeat("━", i/25), i)
		}
		fmt.Print("\r\x1b[KDownloaded 1000 kB\n")
		for i := range 3 {
			fmt.Fprintf(os.Stderr, "go: downloading example.com/m%d v1.0.0\n", i)
		}
		return nil
	}
	return fmt.Errorf("there is no %q", args[0])
}
