// Package clients asks a Songline agent everything that the reference's own Go package can ask, and holds the answers to what that
// package promises. Here: how a run begins and ends. The stories are in the files of their nouns.
//
// The same stories run with two versions of the package: go.mod has the one of the reference's 1.6, latest.mod (with the build tag
// `latest`) the newest.
package clients

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// binary is the agent's program: a copy named `nomad`, as people who swap one for the other would have it.
var binary string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	built := os.Getenv("SONGLINE_BIN")
	if built == "" {
		return 1, fmt.Errorf("SONGLINE_BIN must name the program to test")
	}
	dir, err := os.MkdirTemp("", "clients-go")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if err := copyProgram(built, filepath.Join(dir, "nomad")); err != nil {
		return 1, err
	}
	// Found by its name on PATH, as the package's own test server finds it.
	if err := os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH")); err != nil {
		return 1, err
	}
	// Whoever runs this may be using a real cluster in the same shell.
	for _, name := range []string{"NOMAD_ADDR", "NOMAD_TOKEN", "NOMAD_NAMESPACE", "NOMAD_REGION"} {
		os.Unsetenv(name)
	}
	defer stopShared()
	defer stopGuarded()
	code := m.Run()
	if code == 0 {
		return report()
	}
	return code, nil
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}
