// Command rawclient measures MCP servers over stdio, several of them in paired
// rounds: all are started together and called in rotating turns, and the median
// over the rounds counts. Compare ratios within one run, never milliseconds
// between two.
//
// It writes prepared lines, reads answers by blocking system calls and decodes
// nothing, so that the figures are the server's and two pipe hops. Each server
// is one argument: a name, settings, the command.
//
//	rawclient "peer tool=read_file path=/tmp/ws/f2k.txt /tmp/m3fs /tmp/ws" "noop tool=noop /tmp/noopserver"
//
// Settings: tool (the tool that is called), path (its argument path; none if
// empty), and NAME=value in capitals for the environment. See bench/README.md.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	rounds  = flag.Int("rounds", 7, "rounds; the median over them counts")
	calls   = flag.Int("n", 2000, "calls per server and round")
	warm    = flag.Int("warm", 200, "calls per server before the first round")
	flights = flag.Int("c", 1, "calls in flight")
	op      = flag.String("op", "call", "what is sent: call, list or ping")
	era     = flag.String("era", "2025", "protocol: 2025 (2025-11-25, a session) or 2026 (2026-07-28, none)")
	cold    = flag.Int("cold", 0, "measure this many starts up to the answer to tools/list instead")
	answer  = flag.Bool("show", false, "print the first answer of each server")
)

func main() {
	flag.Parse()
	if err := run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "rawclient:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New(`no server given; want "name tool=... path=... command ..."`)
	}
	var servers []*server
	for _, a := range args {
		s, err := parse(a)
		if err != nil {
			return err
		}
		servers = append(servers, s)
	}
	if *cold > 0 {
		return starts(servers)
	}
	return steady(servers)
}

const (
	meta       = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"rawclient","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	initialize = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"rawclient","version":"1"}}}` + "\n"
	initDone   = `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
)

// server is one server under test, and what was measured.
type server struct {
	name, tool, path string
	env, argv        []string

	cmd     *exec.Cmd
	in, out *os.File
	buf     []byte
	r, w    int // unread bytes of buf
	id      int
	bytes   int

	p50, p95, p99, cpu, rate []float64
	ready, listed            []float64
}

func parse(arg string) (*server, error) {
	f := strings.Fields(arg)
	if len(f) < 2 {
		return nil, fmt.Errorf("%q: want a name, settings and a command", arg)
	}
	s := &server{name: f[0], tool: "noop", buf: make([]byte, 4<<20)}
	for i, x := range f[1:] {
		k, v, ok := strings.Cut(x, "=")
		switch {
		case ok && k == "tool":
			s.tool = v
		case ok && k == "path":
			s.path = v
		case ok && k != "" && k == strings.ToUpper(k) && !strings.ContainsAny(k, "/."):
			s.env = append(s.env, x)
		default:
			s.argv = f[1+i:]
			return s, nil
		}
	}
	return nil, fmt.Errorf("%q: no command", arg)
}

// request prepares one line.
func (s *server) request(what string) []byte {
	s.id++
	m := ""
	if *era == "2026" {
		m = meta
	}
	switch what {
	case "ping":
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", s.id)
	case "list":
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{%s}}`+"\n", s.id, m)
	}
	if m != "" {
		m = "," + m
	}
	a := "{}"
	if s.path != "" {
		a = fmt.Sprintf(`{"path":%q}`, s.path)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`+"\n", s.id, s.tool, a, m)
}

func (s *server) start() error {
	s.cmd = exec.Command(s.argv[0], s.argv[1:]...)
	s.cmd.Env = append(os.Environ(), s.env...)
	childIn, in, err := os.Pipe()
	if err != nil {
		return err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return err
	}
	s.cmd.Stdin, s.cmd.Stdout = childIn, childOut
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	childIn.Close()
	childOut.Close()
	in.Fd() // puts the file into blocking mode, so that no poller is measured
	out.Fd()
	s.in, s.out, s.r, s.w = in, out, 0, 0
	if *era == "2025" {
		if _, err := s.call([]byte(initialize)); err != nil {
			return err
		}
		_, err = s.in.WriteString(initDone)
	}
	return err
}

func (s *server) stop() {
	s.in.Close()
	t := time.AfterFunc(3*time.Second, func() { s.cmd.Process.Kill() })
	_ = s.cmd.Wait()
	t.Stop()
	s.out.Close()
}

// receive returns the next line; it is valid until the next call.
func (s *server) receive() ([]byte, error) {
	scan := s.r
	for {
		if i := bytes.IndexByte(s.buf[scan:s.w], '\n'); i >= 0 {
			line := s.buf[s.r : scan+i]
			if s.r = scan + i + 1; s.r == s.w {
				s.r, s.w = 0, 0
			}
			s.bytes = len(line)
			head := line[:min(len(line), 300)]
			if bytes.Contains(head, []byte(`"error":`)) || bytes.Contains(line, []byte(`"isError":true`)) {
				return nil, fmt.Errorf("%s answers %s", s.name, head)
			}
			return line, nil
		}
		scan = s.w
		if s.w == len(s.buf) {
			if s.r == 0 {
				return nil, fmt.Errorf("%s: an answer is longer than %d bytes", s.name, len(s.buf))
			}
			copy(s.buf, s.buf[s.r:s.w])
			scan, s.w, s.r = scan-s.r, s.w-s.r, 0
		}
		n, err := s.out.Read(s.buf[s.w:])
		if n == 0 && err != nil {
			if err == io.EOF {
				err = errors.New("the server has closed its output")
			}
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		s.w += n
	}
}

func (s *server) call(line []byte) ([]byte, error) {
	if _, err := s.in.Write(line); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return s.receive()
}

// starts measures cold starts.
func starts(servers []*server) error {
	for r := range *cold {
		for k := range servers {
			s := servers[(k+r)%len(servers)]
			begin := time.Now()
			if err := s.start(); err != nil {
				return err
			}
			s.ready = append(s.ready, ms(time.Since(begin)))
			if _, err := s.call(s.request("list")); err != nil {
				return err
			}
			s.listed = append(s.listed, ms(time.Since(begin)))
			s.cpu = append(s.cpu, cpuOf(s.cmd.Process.Pid))
			s.stop()
		}
	}
	fmt.Printf("# cold starts: era=%s n=%d; median ms\n", *era, *cold)
	for _, s := range servers {
		fmt.Printf("%-16s ready=%6.2f start-to-list=%6.2f cpu=%6.2f list=%d bytes  ratio=%.2f\n", s.name, median(s.ready), median(s.listed), median(s.cpu), s.bytes,
			median(s.listed)/median(servers[0].listed))
	}
	return nil
}

// steady measures calls to servers that run.
func steady(servers []*server) error {
	for _, s := range servers {
		if err := s.start(); err != nil {
			return err
		}
		defer s.stop()
		for i := range *warm {
			line, err := s.call(s.request(*op))
			if err != nil {
				return err
			}
			if i == 0 && *answer {
				fmt.Printf("%s: %s\n", s.name, line)
			}
		}
	}
	for r := range *rounds {
		for k := range servers {
			if err := servers[(k+r)%len(servers)].round(); err != nil {
				return err
			}
		}
	}
	fmt.Printf("# op=%s era=%s in flight=%d n=%d rounds=%d; median ms per call; ratios to the first\n", *op, *era, *flights, *calls, *rounds)
	first := servers[0]
	for _, s := range servers {
		if *flights == 1 {
			fmt.Printf("%-16s p50=%6.3f p95=%6.3f p99=%6.3f ", s.name, median(s.p50), median(s.p95), median(s.p99))
		} else {
			fmt.Printf("%-16s ", s.name)
		}
		fmt.Printf("cpu=%6.3f rate=%6.0f/s answer=%d bytes peak RSS=%.0f MB  ratios:", median(s.cpu), median(s.rate), s.bytes, peakRSS(s.cmd.Process.Pid))
		if *flights == 1 {
			fmt.Printf(" p50=%.2f", median(s.p50)/median(first.p50))
		}
		fmt.Printf(" cpu=%.2f rate=%.2f\n", median(s.cpu)/median(first.cpu), median(s.rate)/median(first.rate))
	}
	return nil
}

func (s *server) round() error {
	for range 10 { // after the others' turn, caches are cold
		if _, err := s.call(s.request(*op)); err != nil {
			return err
		}
	}
	lines := make([][]byte, *calls)
	for i := range lines {
		lines[i] = s.request(*op)
	}
	took := make([]float64, 0, *calls)
	cpu, begin := cpuOf(s.cmd.Process.Pid), time.Now()
	if *flights == 1 {
		for _, l := range lines {
			t := time.Now()
			if _, err := s.call(l); err != nil {
				return err
			}
			took = append(took, ms(time.Since(t)))
		}
	} else {
		sent := 0
		for got := 0; got < len(lines); got++ {
			for ; sent < len(lines) && sent < got+*flights; sent++ {
				if _, err := s.in.Write(lines[sent]); err != nil {
					return err
				}
			}
			if _, err := s.receive(); err != nil {
				return err
			}
		}
	}
	total := time.Since(begin)
	s.cpu = append(s.cpu, (cpuOf(s.cmd.Process.Pid)-cpu)/float64(*calls))
	s.rate = append(s.rate, float64(*calls)/total.Seconds())
	if len(took) > 0 {
		slices.Sort(took)
		s.p50 = append(s.p50, took[len(took)/2])
		s.p95 = append(s.p95, took[len(took)*95/100])
		s.p99 = append(s.p99, took[len(took)*99/100])
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func median(x []float64) float64 {
	y := slices.Sorted(slices.Values(x))
	if len(y) == 0 {
		return 0
	}
	return y[len(y)/2]
}

// cpuOf is the CPU time that the threads of a process have used, in ms. Linux
// only; elsewhere 0.
func cpuOf(pid int) float64 {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	sum := 0.0
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has just ended
		}
		ns, _, _ := strings.Cut(string(b), " ")
		v, _ := strconv.ParseFloat(ns, 64)
		sum += v
	}
	return sum / 1e6
}

// peakRSS is the most memory that a process has had, in MB. Linux only.
func peakRSS(pid int) float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for l := range strings.Lines(string(b)) {
		if f := strings.Fields(l); len(f) > 1 && f[0] == "VmHWM:" {
			kb, _ := strconv.ParseFloat(f[1], 64)
			return kb / 1024
		}
	}
	return 0
}
